//! Texts that many records have, each kept once.

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Texts by number.
#[derive(Debug)]
pub(super) struct Texts {
    numbers: HashMap<Box<str>, u32, RandomState>,
    texts: Vec<Box<str>>,
    room: usize,
    left_out: u64,
}

/// Bytes of all texts that are kept.
const ROOM: usize = 48 << 20;

/// Stand-in for a text that has no room, with number 0.
const NO_ROOM: &str = "…";

impl Default for Texts {
    fn default() -> Self {
        Self {
            numbers: HashMap::default(),
            texts: vec![NO_ROOM.into()],
            room: ROOM,
            left_out: 0,
        }
    }
}

impl Texts {
    /// The number of a text.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let Some(room) = self.room.checked_sub(text.len()) else {
            self.left_out += 1;
            return 0;
        };
        self.room = room;
        let number = self.texts.len() as u32;
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    /// All texts, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> + Clone {
        self.texts.iter().map(AsRef::as_ref)
    }

    /// How often a text had no room.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}
