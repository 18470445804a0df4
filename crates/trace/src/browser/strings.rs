//! Strings that many records have, each kept once.

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Strings by number.
#[derive(Debug)]
pub(super) struct Strings {
    numbers: HashMap<Box<str>, u32, RandomState>,
    strings: Vec<Box<str>>,
    room: usize,
    left_out: u64,
}

/// Bytes of all strings that are kept.
const ROOM: usize = 48 << 20;

/// Stand-in for a text that has no room, with number 0.
const NO_ROOM: &str = "…";

impl Default for Strings {
    fn default() -> Self {
        Self {
            numbers: HashMap::default(),
            strings: vec![NO_ROOM.into()],
            room: ROOM,
            left_out: 0,
        }
    }
}

impl Strings {
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
        let number = self.strings.len() as u32;
        self.strings.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    /// All strings, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> + Clone {
        self.strings.iter().map(AsRef::as_ref)
    }

    /// Number of texts that had no room.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}
