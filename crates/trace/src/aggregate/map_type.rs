//! The type of a map: its keys, what it holds, and where both lie in the kernel's map.

use super::aggregation::Aggregation;
use super::state;
use crate::layout::{EventName, FieldType, Frames, Names, Space};
use crate::symbol::has_addresses;
use crate::user_symbol::has_code;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Most bytes of a key, the generation included: programs put it together in a value of a per-CPU map, which has no more.
pub const MAX_KEY: u32 = 32 << 10;
/// Bytes of a key that kernels before 5.16 take, too.
pub const EVERY_KEY: u32 = 512;
/// Default number of entries of a map.
pub const ENTRIES: u32 = 4096;
/// Bytes of values on each CPU beyond which a map gets fewer entries than [`ENTRIES`].
const ROOM: u32 = 4 << 20;
/// Bytes of the generation in a key, where keys have one.
const GENERATION: u32 = 8;
/// Bytes of a stack in a key: its number among the map's stacks, and the process whose stack it is (0: the kernel's).
const STACK: u32 = 16;
/// Stacks that are kept for a map at least: their numbers are hashes, so that a table that is nearly empty has few that meet.
const STACKS: u32 = 1 << 14;

/// A map of a text: all that its writers and readers must agree about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapType {
    /// The name without the at sign; may be empty.
    pub name: String,
    /// The place in the state map, the same as long as the session lives.
    pub number: u32,
    /// Types of its keys, or of the parts of its key: any of a fixed size, or [`FieldType::Stack`]; see [`MapType::key_offsets`].
    pub keys: Vec<FieldType>,
    /// The type of its values.
    pub value: ValueKind,
    /// The most keys that the map has room for.
    pub entries: u32,
    /// Whether a new key takes the place of one that was not used for long, where there is no room (`lruhash`).
    #[serde(default)]
    pub evicts: bool,
    /// Whether the map may be cleared while its keys are written: they begin with its generation, the number of times that it was cleared.
    #[serde(default = "yes")]
    pub generations: bool,
    /// Whether handlers say in the state map that they stored a value that may be 0: zeroes alone then mean that nothing was stored. So it is with maps without
    /// keys whose element is there from the start; not in persistent sessions, where a counter shows 0 until something is counted.
    #[serde(default)]
    pub marks: bool,
    /// Whether the map has no name: a bare `count()` or the like has it, and its one key is the event's number.
    pub by_event: bool,
    /// The event in whose handler it was used first, for messages.
    pub first: String,
}

/// Value of a map under each key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(
    missing_docs,
    reason = "fields speak for themselves or are described with their variant"
)]
pub enum ValueKind {
    /// A number, address, enumerator or bool, extended to 64 bits.
    Scalar(FieldType),
    /// `char[size]`, zero-padded. Files have the name that it had first.
    #[serde(rename = "Text")]
    CharArray { size: u32 },
    /// A value of any type that has a fixed size, as it lies in records (integers in as many bytes as their type has), then zeroes up to a multiple of 8
    /// bytes.
    Whole(FieldType),
    /// An aggregation, such as `count()`: each CPU has a value of its own. Files have the name that it had first.
    #[serde(rename = "Gathered")]
    Aggregation(Aggregation),
}

fn yes() -> bool {
    true
}

fn rounded(size: u32) -> u32 {
    size.checked_next_multiple_of(8).unwrap_or(u32::MAX)
}

/// Calls `each` with the address space and the most frames of each stack of a type that is kept by number.
fn numbered(ty: &FieldType, each: &mut impl FnMut(Space, u32)) {
    match ty {
        FieldType::Stack { space, max } => each(*space, *max),
        FieldType::HeldStack(stack) if stack.frames == Frames::Numbered => each(stack.space, stack.max),
        FieldType::Array { element, .. } => numbered(element, each),
        FieldType::Composite(composite) => composite
            .members
            .iter()
            .for_each(|member| numbered(&member.ty, each)),
        _ => {}
    }
}

fn has_stack(ty: &FieldType) -> bool {
    match ty {
        FieldType::Stack { .. } | FieldType::HeldStack(_) => true,
        FieldType::Array { element, .. } => has_stack(element),
        FieldType::Composite(composite) => composite.members.iter().any(|member| has_stack(&member.ty)),
        _ => false,
    }
}

impl ValueKind {
    /// Bytes of a value (on each CPU, for aggregations).
    pub fn size(&self) -> u32 {
        match self {
            Self::CharArray { size } => rounded(*size),
            Self::Aggregation(aggregation) => aggregation.function.words(aggregation).saturating_mul(8),
            Self::Scalar(_) => 8,
            Self::Whole(ty) => rounded(ty.fixed_size()),
        }
    }

    /// Whether each CPU has a value of its own, as far as that is [small enough](Self::is_shared).
    pub fn is_per_cpu(&self) -> bool {
        matches!(self, Self::Aggregation(_))
    }

    /// Whether the CPUs have one value together although it is an aggregation, since it is too large for one on each (long time series).
    pub fn is_shared(&self) -> bool {
        self.is_per_cpu() && self.size() > state::MAX_VALUE
    }

    /// Whether zeroes may be a value that was stored, and do not say that none was.
    pub fn may_hold_zeroes(&self) -> bool {
        match self {
            Self::Scalar(_) | Self::CharArray { .. } | Self::Whole(_) => true,
            Self::Aggregation(aggregation) => aggregation.function.may_be_zero(),
        }
    }

    /// The aggregation, if it is one.
    pub fn aggregation(&self) -> Option<&Aggregation> {
        match self {
            Self::Scalar(_) | Self::CharArray { .. } | Self::Whole(_) => None,
            Self::Aggregation(aggregation) => Some(aggregation),
        }
    }

    /// The function that fills it, if one does: `count`.
    pub fn function(&self) -> Option<&'static str> {
        self.aggregation().map(|aggregation| aggregation.function.name())
    }

    /// Whether its numbers only grow, as those of `count()`.
    pub fn only_grows(&self) -> bool {
        self.aggregation()
            .is_some_and(|aggregation| aggregation.function.only_grows())
    }

    /// Whether the value is an address without a name, which moves by multiples of its type's size.
    pub fn is_address(&self) -> bool {
        matches!(self, Self::Scalar(FieldType::Pointer { symbolic: false }))
    }
}

impl MapType {
    /// The type with names for the numbers of events in it.
    #[must_use]
    pub fn named(&self, events: &Names) -> Self {
        let mut ty = self.clone();
        if ty.by_event {
            ty.keys = vec![FieldType::Enumeration {
                size: 8,
                signed: false,
                names: events.clone(),
            }];
        }
        let named = &mut |ty: &mut FieldType| {
            if let Some(what) = EventName::wanted(ty) {
                *ty = what.named_in_map(events.iter().map(|(number, name)| (*number, name.as_str())));
            }
        };
        for key in &mut ty.keys {
            key.each_part(named);
        }
        if let ValueKind::Scalar(held) | ValueKind::Whole(held) = &mut ty.value {
            held.each_part(named);
        }
        ty
    }

    /// Whether a map of this name is one of those that handlers keep for themselves: no text can name it, because there is a blank in it.
    pub fn is_hidden_name(name: &str) -> bool {
        name.contains(' ')
    }

    /// Whether it is hidden from output.
    pub fn is_hidden(&self) -> bool {
        Self::is_hidden_name(&self.name)
    }

    /// Bytes that a key of this type takes: those of the type, up to a multiple of 8.
    pub fn key_room(ty: &FieldType) -> u32 {
        match ty {
            FieldType::Stack { .. } => STACK,
            ty => rounded(ty.fixed_size().max(1)),
        }
    }

    /// Most frames of its stacks that are kept by number, in a table beside the map; `None` without such.
    pub fn most_frames(&self) -> Option<u32> {
        let mut most = None;
        self.numbered(&mut |_, max| most = most.max(Some(max)));
        most
    }

    /// Calls `each` with the address space and the most frames of each stack that is kept by number.
    fn numbered(&self, each: &mut impl FnMut(Space, u32)) {
        let value = match &self.value {
            ValueKind::Whole(ty) => Some(ty),
            _ => None,
        };
        for ty in self.keys.iter().chain(value) {
            numbered(ty, each);
        }
    }

    /// Whether addresses of the kernel are in it that are shown by name.
    pub fn has_kernel_addresses(&self) -> bool {
        let value = match &self.value {
            ValueKind::Scalar(ty) | ValueKind::Whole(ty) => Some(ty),
            _ => None,
        };
        self.keys.iter().chain(value).any(has_addresses)
    }

    /// Whether stacks are among its keys, wherever their frames are.
    fn has_stacks_in_keys(&self) -> bool {
        self.keys.iter().any(has_stack)
    }

    /// Whether keys that differ may read alike: stacks of several processes, or events of one function by their numbers.
    pub(super) fn has_keys_alike(&self) -> bool {
        let share_names = |key: &FieldType| {
            let FieldType::Enumeration { names, .. } = key else {
                return false;
            };
            let mut known = HashSet::new();
            names.iter().any(|(_, name)| !known.insert(name))
        };
        self.has_stacks_in_keys() || self.keys.iter().any(share_names)
    }

    /// Stacks that are kept beside it, a power of two.
    pub fn stacks(&self) -> u32 {
        let wanted = self.entries.saturating_mul(4).min(1 << 20);
        wanted.next_power_of_two().max(STACKS)
    }

    /// Whether addresses of processes' code that are shown by name are in it.
    pub fn has_user_stacks(&self) -> bool {
        let value = match &self.value {
            ValueKind::Whole(ty) => Some(ty),
            _ => None,
        };
        self.keys.iter().chain(value).any(has_code)
    }

    /// Where each key, or part of the key, lies in the key of the kernel's map, in bytes: the first behind the generation if there is one, each at a multiple of 8. Bytes behind
    /// a part, up to the next, are those of the extended integer where it is a scalar (its low bytes are the value), else zero: keys are compared byte by byte.
    pub fn key_offsets(&self) -> impl Iterator<Item = u32> {
        self.keys.iter().scan(self.generation_size(), |end, ty| {
            let at = *end;
            *end = end.saturating_add(Self::key_room(ty));
            Some(at)
        })
    }

    /// Bytes of a key of the kernel's map: 4 (an index) without keys.
    pub fn key_size(&self) -> u32 {
        match self.keys.as_slice() {
            [] => 4,
            keys => keys.iter().fold(self.generation_size(), |end, ty| {
                end.saturating_add(Self::key_room(ty))
            }),
        }
    }

    /// Bytes before a key's parts.
    fn generation_size(&self) -> u32 {
        match self.generations {
            true => GENERATION,
            false => 0,
        }
    }

    /// Whether a key was written since the map was cleared so many times.
    pub fn is_since(&self, generation: u64, key: &[u8]) -> bool {
        match (self.keys.is_empty(), self.generations) {
            (true, _) => true,
            (false, true) => state::word(key, 0) >= generation,
            // It is not cleared before the last key was written.
            (false, false) => generation == 0,
        }
    }

    /// Default number of entries for values of this size: [`ENTRIES`], or as many as a few megabytes per CPU hold.
    pub fn fitting_entries(value_size: u32) -> u32 {
        (ROOM / value_size.max(1)).clamp(16, ENTRIES)
    }

    /// Name of the map as handlers write it: `@name`, or `count()` for a map without a name.
    pub fn title(&self) -> String {
        match self.value.function() {
            Some(function) if self.by_event => format!("{function}()"),
            _ => format!("@{}", self.name),
        }
    }
}
