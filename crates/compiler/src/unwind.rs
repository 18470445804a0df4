//! Tables by which programs unwind the stacks of processes (`dw_ustack`): the maps that hold them, and their bytes. A session fills them from `.eh_frame`; the
//! programs that `codegen` makes read them.
//!
//! ```text
//! processes   pid u32        → count u64 | entries: start u64 | end u64 | place in the file of address 0, u64 | chunk u32 | rows u32
//! chunks      chunk u32      → rows: place in the file u32 | rule u32
//! rules       rule u32       → kind, 4 bits | offset of the CFA, 30 bits | offset of what is saved, 30 bits
//! ```
//!
//! Entries and rows are sorted; each is valid up to the next. An entry has the rows of one chunk, so that the search for an entry is the upper half of the search for a row, and
//! rows are by places in a file, so that they are the same wherever processes have it mapped.

use crate::ir::{MapKind, MapSpec};

/// External names of the maps.
pub const PROCESSES: &str = "unwind:processes";
/// The chunks of rows.
pub const CHUNKS: &str = "unwind:chunks";
/// The rules.
pub const RULES: &str = "unwind:rules";

/// Most entries of a process, and bytes of each and before them.
pub const MAX_ENTRIES: u32 = 1000;
pub(crate) const ENTRY: u32 = 32;
pub(crate) const HEAD: u32 = 8;
/// Offsets in an entry.
pub(crate) const END: i16 = 8;
pub(crate) const SHIFT: i16 = 16;
pub(crate) const CHUNK: i16 = 24;
pub(crate) const ROWS: i16 = 28;
/// Rows of a chunk: with what the kernel puts before it, it takes 32 KiB.
pub const CHUNK_ROWS: u32 = 4088;
pub(crate) const ROW: u32 = 8;
/// Most rules: each says where a function may have its frame; programs of all sizes have some hundred.
pub const MAX_RULES: u32 = 1 << 15;
/// Most chunks: 100 MiB of code have about 500.
const MAX_CHUNKS: u32 = 1 << 14;
/// Most processes.
const MAX_PROCESSES: u32 = 1 << 12;

/// `BPF_F_NO_PREALLOC`: memory is taken for what is there alone.
const NO_PREALLOC: u32 = 1;

/// Kinds of rules, the low bits of each.
pub(crate) mod kind {
    pub(crate) const FRAME_POINTER: u64 = 0;
    pub(crate) const END: u64 = 1;
    pub(crate) const GAP: u64 = 2;
    pub(crate) const STACK: u64 = 3;
    pub(crate) const STACK_SAVED: u64 = 4;
    pub(crate) const FRAME: u64 = 5;
    pub(crate) const FRAME_SAVED: u64 = 6;
    pub(crate) const PLT: u64 = 7;
    pub(crate) const SIGNAL: u64 = 8;
    /// In place of a rule: the process has no tables.
    pub(crate) const NO_PROCESS: u64 = 14;
    /// In place of a rule: the process has no code there.
    pub(crate) const NO_CODE: u64 = 15;
    /// The bits of a kind, and of an offset.
    pub(crate) const BITS: u32 = 4;
    pub(crate) const OFFSET_BITS: u32 = 30;
}

/// Rule by which a frame's caller is found: its stack pointer is the canonical frame address (CFA), below which the return address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Nothing is known: the caller is found by the frame pointer.
    FramePointer,
    /// There is no caller.
    End,
    /// No function is described here: as [`Rule::FramePointer`], and where the stack begins, only the return address lies on it.
    Gap,
    /// The CFA lies so far from the stack pointer, and the caller's rbp so far from the CFA where it is saved.
    Stack {
        /// Distance of the CFA.
        cfa: i32,
        /// Distance of the saved rbp.
        rbp: Option<i32>,
    },
    /// The CFA lies so far from rbp.
    Frame {
        /// Distance of the CFA.
        cfa: i32,
        /// Distance of the saved rbp.
        rbp: Option<i32>,
    },
    /// Stub of the linker's, of 16 bytes: one word more is on the stack from this byte of it on.
    Plt {
        /// The byte.
        pushed_at: u8,
    },
    /// Return from a signal: the kernel saved the registers on the stack, rip behind rsp.
    Signal {
        /// Where rsp is saved, from the stack pointer.
        rsp: i32,
        /// Where rbp is saved.
        rbp: i32,
    },
}

impl Rule {
    /// The rule as it stands in the map; none where an offset is too large.
    pub fn encoded(self) -> Option<u64> {
        let (kind, cfa, saved) = match self {
            Self::FramePointer => (kind::FRAME_POINTER, 0, 0),
            Self::End => (kind::END, 0, 0),
            Self::Gap => (kind::GAP, 0, 0),
            Self::Stack { cfa, rbp: None } => (kind::STACK, cfa, 0),
            Self::Stack { cfa, rbp: Some(rbp) } => (kind::STACK_SAVED, cfa, rbp),
            Self::Frame { cfa, rbp: None } => (kind::FRAME, cfa, 0),
            Self::Frame { cfa, rbp: Some(rbp) } => (kind::FRAME_SAVED, cfa, rbp),
            Self::Plt { pushed_at } => (kind::PLT, 8, i32::from(pushed_at)),
            Self::Signal { rsp, rbp } => (kind::SIGNAL, rsp, rbp),
        };
        let limit = 1 << (kind::OFFSET_BITS - 1);
        let fits = |offset: i32| (-limit..limit).contains(&offset);
        let bits = |offset: i32| u64::from(offset.cast_unsigned()) & ((1 << kind::OFFSET_BITS) - 1);
        (fits(cfa) && fits(saved))
            .then(|| kind | bits(cfa) << kind::BITS | bits(saved) << (kind::BITS + kind::OFFSET_BITS))
    }
}

/// Rows of a chunk as they stand in the map: places in the file, in order, each with the number of a rule.
pub fn chunk(rows: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes: Vec<u8> = rows
        .iter()
        .flat_map(|(at, rule)| [at.to_le_bytes(), rule.to_le_bytes()])
        .flatten()
        .collect();
    bytes.resize((CHUNK_ROWS * ROW) as usize, 0);
    bytes
}

/// Executable memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its first address.
    pub start: u64,
    /// The address behind it.
    pub end: u64,
    /// Offset of the first address in the file.
    pub offset: u64,
    /// The chunk with its rows.
    pub chunk: u32,
    /// Rows in that chunk; 0 where the code has no tables.
    pub rows: u32,
}

/// What is known of a process as it stands in the map: its executable memory, in order. What there is no room for is left out.
pub fn process(entries: &[Entry]) -> Vec<u8> {
    let entries = entries.get(..MAX_ENTRIES as usize).unwrap_or(entries);
    let mut bytes = (entries.len() as u64).to_le_bytes().to_vec();
    for entry in entries {
        bytes.extend(entry.start.to_le_bytes());
        bytes.extend(entry.end.to_le_bytes());
        bytes.extend(entry.offset.wrapping_sub(entry.start).to_le_bytes());
        bytes.extend(entry.chunk.to_le_bytes());
        bytes.extend(entry.rows.to_le_bytes());
    }
    bytes.resize((HEAD + ENTRY * MAX_ENTRIES) as usize, 0);
    bytes
}

/// The maps, by their external names.
pub fn specs() -> [(&'static str, MapSpec); 3] {
    let spec = |name: &str, kind, value, entries, flags| MapSpec {
        name: name.to_owned(),
        kind,
        key: 4,
        value,
        entries,
        flags,
    };
    let process = HEAD + ENTRY * MAX_ENTRIES;
    [
        (
            PROCESSES,
            spec("unwound", MapKind::Hash, process, MAX_PROCESSES, NO_PREALLOC),
        ),
        (
            CHUNKS,
            spec(
                "unwind_rows",
                MapKind::Hash,
                CHUNK_ROWS * ROW,
                MAX_CHUNKS,
                NO_PREALLOC,
            ),
        ),
        (RULES, spec("unwind_rules", MapKind::Array, 8, MAX_RULES, 0)),
    ]
}
