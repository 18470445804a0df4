//! Failures of the kernel's helpers, counted where somebody asks for them (`-k`): the map that programs count in, and what lies in it.
//!
//! ```text
//! key     begin u32 | end u32 of the place in the text | helper u32 | errno i32, as the helper gave it (0: a look-up found nothing)
//! value   how often, u64 | when first, ns of the monotonic clock, u64
//! ```
//!
//! A failure whose key finds no room is counted under the key of zeroes, so that none goes uncounted.

use crate::ir::{MapKind, MapSpec};
use crate::lang::ast::Span;
use kestrel_bpf::helper::Helper;

/// The external name of the map.
pub const MAP: &str = "failures";
/// Bytes of a key.
pub(crate) const KEY: u32 = 16;
/// Bytes of a value.
pub(crate) const VALUE: u32 = 16;
/// Where the helper and the errno lie in a key.
pub(crate) const HELPER: i16 = 8;
pub(crate) const ERRNO: i16 = 12;
/// Most places, each with a helper and an errno.
const ENTRIES: u32 = 1024;

/// In place of a helper: a division by zero, which programs count always.
pub const DIVISION: Helper = Helper(u32::MAX);
/// In place of a helper: a loop that the kernel ended while its condition held, counted always.
pub const ENDLESS: Helper = Helper(u32::MAX - 1);

/// In place of a helper: an index behind the end of an array, counted always in programs.
pub const OUTSIDE: Helper = Helper(u32::MAX - 2);
/// In place of a helper: a stack of a process whose unwind tables are not known, counted always in programs.
pub const UNWINDING: Helper = Helper(u32::MAX - 3);

/// The map: a hash that is allocated beforehand, so that programs in interrupts can add keys.
pub fn spec() -> MapSpec {
    MapSpec {
        name: "kestrel_failed".to_owned(),
        kind: MapKind::Hash,
        key: KEY,
        value: VALUE,
        entries: ENTRIES,
        flags: 0,
    }
}

/// The key of failures that have no room, which user space makes beforehand.
pub const OTHERS: [u8; KEY as usize] = [0; KEY as usize];

/// Count of a helper's failures of one kind at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The place in the text; none for all that had no room.
    pub place: Option<Span>,
    /// The helper that failed.
    pub helper: Helper,
    /// The helper's result: an errno below zero, 0 for a look-up.
    pub answer: i32,
    /// Number of failures.
    pub count: u64,
    /// When the first one happened, in ns, by the clock that records have.
    pub first: u64,
}

impl Failure {
    /// Failure read from an entry of the map; `None` where it is not one.
    pub fn read(key: &[u8], value: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(*key.get(at..)?.first_chunk()?));
        let (start, end) = (word(0)?, word(4)?);
        Some(Self {
            place: (key != OTHERS).then_some(Span { start, end }),
            helper: Helper(word(HELPER as usize)?),
            answer: word(ERRNO as usize)?.cast_signed(),
            count: u64::from_le_bytes(*value.first_chunk()?),
            first: u64::from_le_bytes(*value.get(8..)?.first_chunk()?),
        })
    }
}
