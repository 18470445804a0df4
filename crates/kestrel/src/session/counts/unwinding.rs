//! Tables by which programs unwind stacks (`kestrel_compiler::unwind`): made of what processes have mapped, file by file, and put into the maps of a session.

use super::maps::make;
use crate::user_symbols::own_vdso;
use kestrel_catalog::Result;
use kestrel_catalog::debuginfo::unwind_rows;
use kestrel_compiler::unwind::{self, CHUNK_ROWS, Entry, MAX_ENTRIES, MAX_RULES, Rule};
use kestrel_kernel::bpf::{Map, ValueCheck};
use kestrel_kernel::procfs::{self, Mapped};
use kestrel_kernel::{Error, Host};
use object::read::ReadCache;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

/// The kernel's own library in each process.
const VDSO: &str = "[vdso]";

/// The maps, and what is in them.
#[derive(Debug)]
pub(crate) struct KernelUnwinding {
    maps: Vec<(&'static str, Map)>,
    known: Mutex<Known>,
}

/// Rules and files that are in the maps, and the processes as they stand there.
#[derive(Debug, Default)]
struct Known {
    rules: HashMap<u64, u32>,
    files: HashMap<FileIdentity, Vec<Chunk>>,
    chunks: u32,
    processes: HashMap<u32, Vec<u8>>,
}

/// Identity of a file while it is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FileIdentity {
    Vdso,
    File {
        device: u64,
        inode: u64,
        changed: (i64, i64),
    },
}

/// Rows of a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk {
    /// Place in the file where the first row begins.
    at: u64,
    number: u32,
    rows: u32,
}

impl KernelUnwinding {
    /// Makes the maps.
    pub(super) fn create() -> Result<Self> {
        let maps = unwind::specs().map(|(name, spec)| Ok((name, make(&spec)?)));
        Ok(Self {
            maps: maps.into_iter().collect::<Result<_>>()?,
            known: Mutex::default(),
        })
    }

    /// The map that programs refer to by this name.
    pub(super) fn find(&self, external: &str) -> Option<&Map> {
        let mut all = self.maps.iter();
        all.find(|(name, _)| *name == external).map(|(_, map)| map)
    }

    /// Puts in a process of which nothing is known yet.
    pub(crate) fn expect(&self, pid: u32) -> Result<()> {
        self.put(unwind::PROCESSES, pid, &unwind::process(&[]))
    }

    /// Puts in what a process has mapped now; gives how many executable mappings there was no room for.
    ///
    /// # Errors
    /// When the process is gone, or the kernel refuses.
    pub(crate) fn learn(&self, pid: u32, host: &Host) -> Result<usize> {
        let mapped = procfs::maps(host, pid)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entries = Vec::new();
        for mapping in mapped.iter().filter(|mapping| mapping.permissions.execute) {
            let chunks = self.chunks_of(mapping, pid, host, &mut known)?;
            entries.extend(entries_of(mapping, &chunks));
        }
        let left_out = entries.len().saturating_sub(MAX_ENTRIES as usize);
        let bytes = unwind::process(&entries);
        if known.processes.get(&pid) != Some(&bytes) {
            self.put(unwind::PROCESSES, pid, &bytes)?;
            known.processes.insert(pid, bytes);
        }
        Ok(left_out)
    }

    /// The chunks of a mapped file, whose rows are put in when it is first seen; none where it has no tables.
    fn chunks_of(&self, mapping: &Mapped, pid: u32, host: &Host, known: &mut Known) -> Result<Vec<Chunk>> {
        let is_vdso = mapping.path == VDSO;
        let file = match is_vdso {
            true => None,
            false => opened(mapping, pid, host),
        };
        let about = file.as_ref().and_then(|file| file.metadata().ok());
        let identity = match about {
            _ if is_vdso => FileIdentity::Vdso,
            Some(about) => FileIdentity::File {
                device: about.dev(),
                inode: about.ino(),
                changed: (about.mtime(), about.mtime_nsec()),
            },
            None => return Ok(Vec::new()),
        };
        if let Some(chunks) = known.files.get(&identity) {
            return Ok(chunks.clone());
        }
        let rows = match &file {
            Some(file) => unwind_rows(&ReadCache::new(file)),
            None => own_vdso().and_then(|image| unwind_rows(image.as_slice())),
        };
        let mut chunks = Vec::new();
        for rows in rows.unwrap_or_default().chunks(CHUNK_ROWS as usize) {
            let numbered = rows.iter().map(|(at, rule)| Ok((*at, self.rule(*rule, known)?)));
            let numbered: Vec<(u32, u32)> = numbered.collect::<Result<_>>()?;
            let number = known.chunks;
            known.chunks += 1;
            self.put(unwind::CHUNKS, number, &unwind::chunk(&numbered))?;
            chunks.push(Chunk {
                at: rows.first().map_or(0, |(at, _)| u64::from(*at)),
                number,
                rows: rows.len() as u32,
            });
        }
        known.files.insert(identity, chunks.clone());
        Ok(chunks)
    }

    /// The number of a rule; that of [`Rule::FramePointer`] where there is no room for it.
    fn rule(&self, rule: Rule, known: &mut Known) -> Result<u32> {
        let Some(encoded) = rule.encoded().filter(|encoded| *encoded > 0) else {
            return Ok(0);
        };
        if let Some(number) = known.rules.get(&encoded) {
            return Ok(*number);
        }
        // The first one is all zeroes, which is the rule of frame pointers.
        let number = known.rules.len() as u32 + 1;
        if number >= MAX_RULES {
            return Ok(0);
        }
        self.put(unwind::RULES, number, &encoded.to_le_bytes())?;
        known.rules.insert(encoded, number);
        Ok(number)
    }

    fn put(&self, map: &str, key: u32, value: &[u8]) -> Result<()> {
        let map = self.find(map).ok_or_else(|| Error::Argument {
            subject: map.to_owned(),
            why: "there is no such map".to_owned(),
        })?;
        Ok(map.update(&key.to_ne_bytes(), value, ValueCheck::Any)?)
    }
}

/// The file of a mapping: by the mapping itself, whatever its path leads to now.
fn opened(mapping: &Mapped, pid: u32, host: &Host) -> Option<File> {
    if mapping.inode == 0 {
        return None;
    }
    let by_mapping = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    let by_path = format!("/proc/{pid}/root{}", mapping.path);
    let file = [by_mapping, by_path]
        .into_iter()
        .find_map(|path| File::open(host.path(&path)).ok())?;
    file.metadata().is_ok_and(|about| about.is_file()).then_some(file)
}

/// Entries of a mapping: one for each chunk that has rows of it.
fn entries_of(mapping: &Mapped, chunks: &[Chunk]) -> Vec<Entry> {
    let whole = Entry {
        start: mapping.start,
        end: mapping.end,
        offset: mapping.offset,
        chunk: 0,
        rows: 0,
    };
    if chunks.is_empty() {
        return vec![whole];
    }
    let (from, until) = (
        mapping.offset,
        mapping
            .offset
            .saturating_add(mapping.end.saturating_sub(mapping.start)),
    );
    let ends = chunks.iter().skip(1).map(|chunk| chunk.at).chain([u64::MAX]);
    let parts = chunks.iter().zip(ends).enumerate();
    let entries = parts.filter_map(|(place, (chunk, end))| {
        // The first chunk covers the addresses before its first row, too: the search finds no row for them.
        let at = if place == 0 { 0 } else { chunk.at };
        let (at, end) = (at.max(from), end.min(until));
        (at < end).then(|| Entry {
            start: mapping.start + (at - from),
            end: mapping.start + (end - from),
            offset: at,
            chunk: chunk.number,
            rows: chunk.rows,
        })
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_kernel::procfs::Permissions;

    #[test]
    fn a_mapping_has_an_entry_for_each_chunk_with_rows_of_it() {
        let mapping = Mapped {
            start: 0x7000_0000,
            end: 0x7000_3000,
            offset: 0x1000,
            inode: 1,
            path: "/a".to_owned(),
            permissions: Permissions {
                read: true,
                write: false,
                execute: true,
                shared: false,
            },
        };
        let chunk = |at, number| Chunk { at, number, rows: 9 };
        let chunks = [
            chunk(0x1100, 5),
            chunk(0x2200, 6),
            chunk(0x3300, 7),
            chunk(0x4400, 8),
        ];
        let entries = entries_of(&mapping, &chunks);
        let parts: Vec<_> = entries
            .iter()
            .map(|entry| (entry.start, entry.end, entry.offset, entry.chunk))
            .collect();
        assert_eq!(
            parts,
            [
                (0x7000_0000, 0x7000_1200, 0x1000, 5),
                (0x7000_1200, 0x7000_2300, 0x2200, 6),
                (0x7000_2300, 0x7000_3000, 0x3300, 7),
            ]
        );
        let without = entries_of(&mapping, &[]);
        assert_eq!((without.len(), without[0].rows), (1, 0));
    }
}
