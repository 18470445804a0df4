//! The type of a map: its keys, what it holds, and where both lie in the kernel's map.

use super::gather::Gathered;
use crate::layout::FieldType;
use serde::{Deserialize, Serialize};

/// Most bytes of a key, the generation included: what every kernel takes.
pub const MOST_KEY: u32 = 512;
/// Entries of a map where nothing else is said.
pub const ENTRIES: u32 = 4096;
/// Bytes of values on each CPU beyond which a map gets fewer entries than [`ENTRIES`].
const ROOM: u32 = 4 << 20;
/// Bytes of the generation in a key.
const GENERATION: u32 = 8;
/// Bytes of a stack in a key: its number among the map's stacks, and the process whose stack it is (0: the kernel's).
const STACK: u32 = 16;
/// Stacks that are kept for a map at least: their numbers are hashes, so that a table that is nearly empty has few that meet.
const STACKS: u32 = 1 << 14;

/// One map of a text: all that its writers and readers must agree about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapType {
    /// Its name without the at sign; may be empty.
    pub name: String,
    /// Its place in the state map, the same as long as the session lives.
    pub number: u32,
    /// Types of its keys: scalars, [`FieldType::Text`], or [`FieldType::Stack`].
    pub keys: Vec<FieldType>,
    /// What it holds.
    pub value: ValueKind,
    /// Most keys.
    pub entries: u32,
    /// Whether it has no name: it belongs to a bare `count()` or the like, and its one key is the event's number.
    pub by_event: bool,
    /// The event in whose handler it was used first, for messages.
    pub first: String,
}

/// What a map holds under each key. Values are of 64 bits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(
    missing_docs,
    reason = "fields speak for themselves or are described with their variant"
)]
pub enum ValueKind {
    /// A number, address, enumerator or truth value.
    Scalar(FieldType),
    /// `size` bytes of text, zero-padded.
    Text { size: u32 },
    /// What a function gathers, on each CPU for itself.
    Gathered(Gathered),
}

impl ValueKind {
    /// Bytes of a value (on each CPU, for aggregations).
    pub fn size(&self) -> u32 {
        match self {
            Self::Text { size } => size.next_multiple_of(8),
            Self::Gathered(gathered) => gathered.function.words(gathered).saturating_mul(8),
            Self::Scalar(_) => 8,
        }
    }

    /// Whether each CPU has a value of its own.
    pub fn is_per_cpu(&self) -> bool {
        matches!(self, Self::Gathered(_))
    }

    /// The function that fills it, if one does: `count`.
    pub fn function(&self) -> Option<&'static str> {
        match self {
            Self::Scalar(_) | Self::Text { .. } => None,
            Self::Gathered(gathered) => Some(gathered.function.name()),
        }
    }
}

impl MapType {
    /// Whether a map of this name is one of those that handlers keep for themselves: no text can name it, because there is a blank in it.
    pub fn is_hidden_name(name: &str) -> bool {
        name.contains(' ')
    }

    /// Whether it is hidden from output.
    pub fn is_hidden(&self) -> bool {
        Self::is_hidden_name(&self.name)
    }

    /// Bytes that a key of this type takes.
    pub fn key_room(ty: &FieldType) -> u32 {
        match ty {
            FieldType::Text { size } => size.next_multiple_of(8),
            FieldType::Stack { .. } => STACK,
            _ => 8,
        }
    }

    /// Most frames of the stacks among its keys; none where no key is a stack.
    pub fn most_frames(&self) -> Option<u32> {
        let frames = self.keys.iter().filter_map(|ty| match ty {
            FieldType::Stack { max, .. } => Some(*max),
            _ => None,
        });
        frames.max()
    }

    /// Stacks that are kept beside it, a power of two.
    pub fn stacks(&self) -> u32 {
        let wanted = self.entries.saturating_mul(4).min(1 << 20);
        wanted.next_power_of_two().max(STACKS)
    }

    /// Whether stacks of processes are among its keys.
    pub fn has_user_stacks(&self) -> bool {
        self.keys.iter().any(FieldType::is_user_stack)
    }

    /// Where each key lies in the key of the kernel's map, in bytes.
    pub fn key_offsets(&self) -> impl Iterator<Item = u32> {
        self.keys.iter().scan(GENERATION, |end, ty| {
            let at = *end;
            *end += Self::key_room(ty);
            Some(at)
        })
    }

    /// Bytes of a key of the kernel's map: 4 (an index) without keys.
    pub fn key_size(&self) -> u32 {
        match self.keys.as_slice() {
            [] => 4,
            keys => GENERATION + keys.iter().map(Self::key_room).sum::<u32>(),
        }
    }

    /// Entries for values of so many bytes, where the user said nothing: [`ENTRIES`], or what a few megabytes per CPU hold.
    pub fn fitting_entries(value_size: u32) -> u32 {
        (ROOM / value_size.max(1)).clamp(16, ENTRIES)
    }

    /// As people write it: `@name`, or `count()` for what has no name.
    pub fn title(&self) -> String {
        match self.value.function() {
            Some(function) if self.by_event => format!("{function}()"),
            _ => format!("@{}", self.name),
        }
    }
}
