//! Parser of the section `.BTF.ext`: functions, source lines and CO-RE relocations of each code section, as the kernel's own records. Only the first word of a
//! record is interpreted.

use crate::Error;
use crate::btf::{Btf, u32_at};
use std::collections::HashMap;

/// Bytes of `struct bpf_func_info`, `bpf_line_info` and `bpf_core_relo`.
pub(super) const FUNCTION: usize = 8;
pub(super) const LINE: usize = 16;
pub(super) const CORE: usize = 16;

/// Records of one kind, by the section that they belong to.
#[derive(Clone, Debug, Default)]
pub(super) struct Records<const N: usize> {
    sections: HashMap<String, Vec<[u8; N]>>,
}

impl<const N: usize> Records<N> {
    /// Records of a section whose place lies in `start..end` (bytes).
    pub(super) fn within(&self, section: &str, start: u64, end: u64) -> impl Iterator<Item = &[u8; N]> {
        let all = self.sections.get(section).map_or(&[][..], Vec::as_slice);
        let from = all.partition_point(|record| u64::from(place(record)) < start);
        all.get(from..)
            .unwrap_or(&[])
            .iter()
            .take_while(move |record| u64::from(place(*record)) < end)
    }

    /// Number of records in all sections.
    pub(super) fn count(&self) -> usize {
        self.sections.values().map(Vec::len).sum()
    }
}

/// Where in its section a record belongs, in bytes.
pub(super) fn place(record: &[u8]) -> u32 {
    u32_at(record, 0).unwrap_or(0)
}

/// The parsed contents of `.BTF.ext`.
#[derive(Clone, Debug, Default)]
pub(super) struct Extension {
    pub(super) functions: Records<FUNCTION>,
    pub(super) lines: Records<LINE>,
    pub(super) core: Records<CORE>,
}

fn wrong(what: &str) -> Error {
    Error::Object(format!("the section .BTF.ext is damaged: {what}"))
}

impl Extension {
    pub(super) fn read(data: &[u8], btf: &Btf) -> Result<Self, Error> {
        let cut = || wrong("it is cut short");
        if data.get(..3) != Some(&[0x9f, 0xeb, 1]) {
            return Err(wrong("it does not begin as version 1 does"));
        }
        let header = u32_at(data, 4).ok_or_else(cut)? as usize;
        let part = |at: usize| -> Result<&[u8], Error> {
            if at + 8 > header {
                return Ok(&[]); // an older header: no such part
            }
            let start = header
                .checked_add(u32_at(data, at).ok_or_else(cut)? as usize)
                .ok_or_else(cut)?;
            let length = u32_at(data, at + 4).ok_or_else(cut)? as usize;
            let end = start.checked_add(length).ok_or_else(cut)?;
            data.get(start..end).ok_or_else(cut)
        };
        Ok(Self {
            functions: records(part(8)?, btf)?,
            lines: records(part(16)?, btf)?,
            core: records(part(24)?, btf)?,
        })
    }
}

/// Parses the records of one kind: their size, then for each section its name, their number and the records.
fn records<const N: usize>(part: &[u8], btf: &Btf) -> Result<Records<N>, Error> {
    let mut records = Records::default();
    let cut = || wrong("a list of records is cut short");
    if part.is_empty() {
        return Ok(records);
    }
    let size = u32_at(part, 0).ok_or_else(cut)? as usize;
    if size < N || size > 4096 {
        return Err(wrong("its records have an impossible size"));
    }
    let mut rest = part.get(4..).ok_or_else(cut)?;
    while !rest.is_empty() {
        let (name, count) = (
            u32_at(rest, 0).ok_or_else(cut)?,
            u32_at(rest, 4).ok_or_else(cut)? as usize,
        );
        let length = count.checked_mul(size).ok_or_else(cut)?;
        let list = rest
            .get(8..)
            .and_then(|rest| rest.get(..length))
            .ok_or_else(cut)?;
        let section: &mut Vec<[u8; N]> = records.sections.entry(btf.string(name).to_owned()).or_default();
        section.extend(
            list.chunks_exact(size)
                .filter_map(|record| record.first_chunk::<N>().copied()),
        );
        rest = rest.get(8 + length..).unwrap_or(&[]);
    }
    for list in records.sections.values_mut() {
        list.sort_by_key(|record| place(record));
    }
    Ok(records)
}
