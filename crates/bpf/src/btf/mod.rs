//! The kernel's types (BTF): reading, finding, walking and, for tests, writing; where the bytes come from is the caller's.
//!
//! Bytes are foreign: [`Btf::parse`] checks that every type lies inside the blob and nothing more, and every walk is
//! bounded, so a blob with cycles or dangling numbers gives [`Type::Unknown`] or `None`, never a panic or a hang.
//! Format: the kernel's `Documentation/bpf/btf.rst`.

mod directory;
mod find;
mod matches;
mod names;
mod numbers;
mod preempt_count;
mod raw;
mod render;
mod scan;
mod searches;
mod types;
mod walk;
pub mod write;

pub use find::{Enumerator, Function};
pub use preempt_count::{PreemptCountPlace, PreemptCountSource};
pub use raw::TypeId;
pub(crate) use raw::u32_at;
pub use types::{
    BtfKind, Composite, DatasecEntry, Entries, Enumeration, EnumerationValue, Integer, Member, Parameter,
    Prototype, Type,
};
pub use walk::MemberPlace;

use crate::Error;
use bytes::Bytes;
use names::NameIndex;
use numbers::Numbers;
use raw::{HEADER, MAGIC, TYPE};
use searches::Searches;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A parsed BTF blob, by itself or on top of a base.
///
/// ```
/// use kestrel_bpf::btf::{Btf, BtfKind, write::Builder};
/// let mut b = Builder::new();
/// let int = b.int("int", 4);
/// b.structure("task_struct", &[("flags", int), ("pid", int)]);
/// let btf = Btf::parse(b.finish())?;
/// let task = btf.find(BtfKind::Struct, "task_struct").ok_or("no task_struct")?;
/// assert_eq!(btf.find_member(task, "pid").map(|place| place.bit_offset), Some(32));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Btf {
    data: Bytes,
    base: Option<Arc<Btf>>,
    /// Number of the first type of this blob: 1, or what follows the base.
    first_id: u32,
    /// Offset that names the first string of this blob: 0, or the length of the base's strings.
    first_string: u32,
    strings: Range<usize>,
    /// Where each type's header lies in `data`.
    offsets: Numbers,
    /// Offset of each type's name, side by side, so that the search for a name does not walk through all of `data`.
    labels: OnceLock<Vec<u32>>,
    /// The named types by the hashes of their names, where a directory was given.
    order: Option<Numbers>,
    searches: Searches,
    enumerator_searches: Searches,
    names: OnceLock<NameIndex>,
    enumerators: OnceLock<NameIndex>,
}

impl Btf {
    /// Reads a BTF blob: one pass that finds where each type begins. Names are indexed when more
    /// than a few were asked for.
    pub fn parse(data: impl Into<Bytes>) -> Result<Self, Error> {
        Self::read(data.into(), None, None)
    }

    /// Parses a blob with what [`Btf::directory`] said of it before, which saves a pass, and finds names at once.
    pub fn parse_with(data: impl Into<Bytes>, directory: impl Into<Bytes>) -> Result<Self, Error> {
        Self::read(data.into(), None, Some(directory.into()))
    }

    /// Reads a blob whose numbers go on where those of `base` end: a module's types over the kernel's.
    pub fn parse_split(base: Arc<Self>, data: impl Into<Bytes>) -> Result<Self, Error> {
        Self::read(data.into(), Some(base), None)
    }

    fn read(data: Bytes, base: Option<Arc<Self>>, directory: Option<Bytes>) -> Result<Self, Error> {
        let wrong = |what| Error::Btf { what, offset: 0 };
        let u32_at = |at| u32_at(&data, at).ok_or(wrong("the header is cut short"));
        match (data.first(), data.get(1)) {
            (Some(a), Some(b)) if u16::from_le_bytes([*a, *b]) == MAGIC => {}
            (Some(a), Some(b)) if u16::from_be_bytes([*a, *b]) == MAGIC => {
                return Err(wrong("it is of a big-endian machine"));
            }
            _ => return Err(wrong("the magic number is missing")),
        }
        if data.get(2) != Some(&1) {
            return Err(wrong("only version 1 is known"));
        }
        let header = u32_at(4)? as usize;
        if header < HEADER {
            return Err(wrong("the header is too short"));
        }
        let section = |offset: u32, length: u32| -> Option<Range<usize>> {
            let start = header.checked_add(offset as usize)?;
            let end = start.checked_add(length as usize)?;
            (end <= data.len()).then_some(start..end)
        };
        let types = section(u32_at(8)?, u32_at(12)?).ok_or(wrong("the types reach past the end"))?;
        let strings = section(u32_at(16)?, u32_at(20)?).ok_or(wrong("the strings reach past the end"))?;
        // The kernel takes no other (`btf_parse_str_sec`), and names are looked for with their ends.
        if data
            .get(strings.clone())
            .and_then(<[u8]>::last)
            .is_some_and(|last| *last != 0)
        {
            return Err(wrong("the last string has no end"));
        }
        if u32::try_from(data.len()).is_err() {
            return Err(wrong("it is larger than 4 GiB"));
        }
        let known = directory.and_then(|directory| numbers::read(&directory, &types));
        let (offsets, labels, order) = match known {
            Some((offsets, order)) => (offsets, OnceLock::new(), Some(order)),
            None => {
                let (offsets, labels) = index(&data, types)?;
                (Numbers::Own(offsets), OnceLock::from(labels), None)
            }
        };
        let (first_id, first_string) = match &base {
            None => (1, 0),
            Some(base) => (base.end_id(), base.end_string()),
        };
        if first_id.checked_add(offsets.len() as u32).is_none()
            || first_string.checked_add(strings.len() as u32).is_none()
        {
            return Err(wrong("base and blob together exceed 32-bit numbers"));
        }
        let (names, enumerators) = (OnceLock::new(), OnceLock::new());
        Ok(Self {
            data,
            base,
            first_id,
            first_string,
            strings,
            offsets,
            labels,
            order,
            searches: Searches::default(),
            enumerator_searches: Searches::default(),
            names,
            enumerators,
        })
    }

    /// The base blob over which this one was parsed.
    pub fn base(&self) -> Option<&Arc<Self>> {
        self.base.as_ref()
    }

    /// Numbers of the types of this blob (not of its base, and without `void`).
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = TypeId> + Clone + use<> {
        (self.first_id..self.end_id()).map(TypeId)
    }

    /// Number of the blob's own types.
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether this blob has no types itself.
    pub fn is_empty(&self) -> bool {
        self.offsets.len() == 0
    }

    /// The bytes that were parsed.
    pub fn bytes(&self) -> &Bytes {
        &self.data
    }

    /// Where the header of a type of this blob begins in [`Btf::bytes`].
    pub(crate) fn position(&self, id: TypeId) -> Option<usize> {
        let own = id.0.checked_sub(self.first_id)?;
        self.offsets.get(own as usize).map(|at| at as usize)
    }

    /// The string that names each type.
    fn labels(&self) -> &[u32] {
        self.labels.get_or_init(|| {
            let at = (0..self.offsets.len()).map(|place| self.offsets.get(place));
            let label = |at: Option<u32>| at.and_then(|at| u32_at(&self.data, at as usize));
            at.map(|at| label(at).unwrap_or(0)).collect()
        })
    }

    fn end_id(&self) -> u32 {
        self.first_id + self.offsets.len() as u32
    }

    fn end_string(&self) -> u32 {
        self.first_string + self.strings.len() as u32
    }

    /// The string at `offset`; empty when there is none or it is not UTF-8.
    pub fn string(&self, offset: u32) -> &str {
        std::str::from_utf8(self.string_bytes(offset)).unwrap_or("")
    }

    fn string_bytes(&self, offset: u32) -> &[u8] {
        match (&self.base, offset.checked_sub(self.first_string)) {
            (Some(base), None) => base.string_bytes(offset),
            (_, Some(own)) => {
                let own = self.own_strings().get(own as usize..).unwrap_or(&[]);
                own.split(|&byte| byte == 0).next().unwrap_or(&[])
            }
            (None, None) => &[],
        }
    }

    fn own_strings(&self) -> &[u8] {
        self.data.get(self.strings.clone()).unwrap_or(&[])
    }

    /// The bytes from a type's header on, and the blob whose they are.
    fn record(&self, id: TypeId) -> Option<(&Self, &[u8])> {
        match (&self.base, id.0.checked_sub(self.first_id)) {
            (Some(base), None) => base.record(id),
            (_, Some(own)) => {
                let at = self.offsets.get(own as usize)? as usize;
                Some((self, self.data.get(at..)?))
            }
            (None, None) => None,
        }
    }
}

/// Finds where each type begins, and the string that names it.
fn index(data: &[u8], types: Range<usize>) -> Result<(Vec<u32>, Vec<u32>), Error> {
    let mut offsets = Vec::with_capacity(types.len() / 20);
    let mut labels = Vec::with_capacity(types.len() / 20);
    let section = data.get(..types.end).unwrap_or(&[]);
    let mut at = types.start;
    while at < section.len() {
        let wrong = |what| Error::Btf { what, offset: at };
        let Some(header) = section.get(at..).and_then(|rest| rest.first_chunk::<TYPE>()) else {
            return Err(wrong("a type is cut short"));
        };
        let info = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let kind = BtfKind::of_info(info).ok_or(wrong("a type is of an unknown kind"))?;
        offsets.push(at as u32);
        labels.push(u32::from_le_bytes([header[0], header[1], header[2], header[3]]));
        at += TYPE + kind.tail(info as usize & 0xffff);
    }
    if at != types.end {
        return Err(Error::Btf {
            what: "the last type reaches past the end of the types",
            offset: at,
        });
    }
    Ok((offsets, labels))
}
#[cfg(test)]
mod tests;
