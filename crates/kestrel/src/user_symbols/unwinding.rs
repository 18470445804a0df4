//! Unwinding of copied stacks by framehop: frames are found from the copied registers and bytes, with the unwind tables of what the process had mapped then.

use super::binaries::Binaries;
use super::unwind_tables::{Bytes, UnwindTables};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Error, Unwinder};
use kestrel_trace::user_symbol::{Mapping, code_address};
use kestrel_trace::value::StackCopy;
use std::collections::HashMap;

/// Most frames of a stack, to end a walk that goes astray.
const MAX: usize = 1024;
/// Most processes whose unwinders are kept. Records come in the order of their times, so few processes alternate.
const READY: usize = 256;
/// Greatest distance from the copy at which an address still belongs to the stack: the usual limit of a stack's size.
const STACK: u64 = 8 << 20;

/// The unwinder with the tables read so far.
#[derive(Default)]
pub(super) struct Unwinding {
    /// The unwind tables of each binary, by its number; `None` where it has none.
    tables: HashMap<u32, Option<UnwindTables>>,
    ready: HashMap<u32, Process>,
}

/// A process with its unwinder, valid while its mappings are the same.
struct Process {
    /// The mappings that the unwinder was made for, to see when they change.
    mappings: Vec<Mapping>,
    /// Address ranges of the mappings, in order, without those that newer ones cover.
    ranges: Vec<(u64, u64)>,
    unwinder: UnwinderX86_64<Bytes>,
    cache: CacheX86_64,
}

/// The frames of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FoundFrames {
    /// Addresses, innermost first: the instruction pointer, then return addresses.
    pub(super) addresses: Vec<u64>,
    /// Whether the copy ended before the stack did.
    pub(super) truncated: bool,
}

impl std::fmt::Debug for Unwinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unwinding")
            .field("binaries", &self.tables.len())
            .field("processes", &self.ready.len())
            .finish()
    }
}

impl Unwinding {
    /// The frames of a process's copied stack; `mappings` are those of its time, the newest first.
    pub(super) fn frames<'m>(
        &mut self,
        copy: &StackCopy<'_>,
        pid: u32,
        mappings: impl Iterator<Item = &'m Mapping>,
        binaries: &Binaries,
    ) -> FoundFrames {
        let mappings: Vec<Mapping> = mappings.copied().collect();
        if self
            .ready
            .get(&pid)
            .is_none_or(|process| process.mappings != mappings)
        {
            if self.ready.len() >= READY {
                self.ready.clear();
            }
            let process = self.process(mappings, binaries);
            self.ready.insert(pid, process);
        }
        match self.ready.get_mut(&pid) {
            Some(process) => process.frames(copy),
            None => FoundFrames::default(),
        }
    }

    fn process(&mut self, mappings: Vec<Mapping>, binaries: &Binaries) -> Process {
        let mut process = Process {
            ranges: Vec::new(),
            unwinder: UnwinderX86_64::new(),
            cache: CacheX86_64::new(),
            mappings,
        };
        for mapping in &process.mappings {
            let range = (mapping.start, mapping.end);
            let place = process.ranges.partition_point(|(_, end)| *end <= range.0);
            let covered = process
                .ranges
                .get(place)
                .is_some_and(|(start, _)| *start < range.1);
            if covered || range.0 >= range.1 {
                continue;
            }
            process.ranges.insert(place, range);
            let tables = self
                .tables
                .entry(mapping.binary)
                .or_insert_with(|| UnwindTables::of(binaries.get(mapping.binary)?));
            if let Some(module) = tables.as_ref().and_then(|tables| tables.module(mapping)) {
                process.unwinder.add_module(module);
            }
        }
        process
    }
}

impl Process {
    fn frames(&mut self, copy: &StackCopy<'_>) -> FoundFrames {
        let mut read = |address: u64| word(copy, address).ok_or(());
        let registers = UnwindRegsX86_64::new(copy.ip, copy.sp, copy.bp);
        let (unwinder, cache, ranges) = (&self.unwinder, &mut self.cache, &self.ranges);
        let mut frames = unwinder.iter_frames(copy.ip, registers, cache, &mut read);
        let mut found = FoundFrames::default();
        while found.addresses.len() < MAX {
            match frames.next() {
                Ok(Some(frame)) => {
                    let address = frame.address();
                    let innermost = found.addresses.is_empty();
                    // An address that is no code was found by an unwind rule that did not apply.
                    if !innermost && !holds(ranges, code_address(address, false)) {
                        break;
                    }
                    found.addresses.push(address);
                }
                Ok(None) => break,
                Err(error) => {
                    found.truncated =
                        matches!(error, Error::CouldNotReadStack(address) if is_beyond(copy, address));
                    break;
                }
            }
        }
        found
    }
}

/// The word of the copied stack at an address.
fn word(copy: &StackCopy<'_>, address: u64) -> Option<u64> {
    let at = usize::try_from(address.checked_sub(copy.sp)?).ok()?;
    let bytes = match at.checked_sub(copy.stack.len()) {
        Some(behind) => copy.rest.get(behind..)?,
        None => copy.stack.get(at..)?,
    };
    Some(u64::from_le_bytes(*bytes.first_chunk()?))
}

/// Whether an address lies on the stack, but behind what was copied of it.
fn is_beyond(copy: &StackCopy<'_>, address: u64) -> bool {
    let behind = address.checked_sub(copy.sp);
    behind.is_some_and(|at| at + 8 > (copy.stack.len() + copy.rest.len()) as u64 && at < STACK)
}

fn holds(ranges: &[(u64, u64)], address: u64) -> bool {
    let place = ranges.partition_point(|(_, end)| *end <= address);
    ranges.get(place).is_some_and(|(start, _)| *start <= address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_kernel::{Host, procfs};
    use proptest::prelude::*;

    /// Code of this process, as its records would need it.
    fn own() -> (Binaries, Vec<Mapping>) {
        let host = Host::default();
        let pid = std::process::id();
        let mut binaries = Binaries::new(&host);
        let maps = procfs::maps(&host, pid).unwrap();
        let code = maps.into_iter().filter(|mapped| mapped.permissions.execute);
        let mappings = code.map(|mapped| Mapping {
            until_ns: u64::MAX,
            start: mapped.start,
            end: mapped.end,
            offset: mapped.offset,
            binary: binaries.mapped(pid, &mapped),
            ..Mapping::default()
        });
        let mappings = mappings.collect();
        (binaries, mappings)
    }

    fn frames(copy: &StackCopy<'_>, mappings: &[Mapping], binaries: &Binaries) -> FoundFrames {
        Unwinding::default().frames(copy, 7, mappings.iter(), binaries)
    }

    #[test]
    fn the_own_binary_and_the_vdso_have_tables() {
        let (binaries, mappings) = own();
        let exe = std::env::current_exe().unwrap();
        for path in [exe.to_str().unwrap(), "[vdso]"] {
            let of = |it: &&Mapping| binaries.get(it.binary).is_some_and(|it| it.path == path);
            let mapping = mappings.iter().find(of).unwrap();
            let tables = UnwindTables::of(binaries.get(mapping.binary).unwrap()).unwrap();
            assert!(tables.module(mapping).is_some(), "{path}");
        }
    }

    #[test]
    fn generated_code_is_followed_by_frame_pointers_and_a_copy_that_ends_is_truncated() {
        let host = Host::default();
        let binaries = Binaries::new(&host);
        let mapping = Mapping {
            until_ns: u64::MAX,
            start: 0x1000,
            end: 0x9000,
            binary: 9,
            ..Mapping::default()
        };
        let sp = 0x7ffe_0000_u64;
        let words = [0, 0, sp + 32, 0x2000, sp + 64, 0x3000, 0, 0];
        let stack: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        let copy = StackCopy {
            ip: 0x1500,
            sp,
            bp: sp + 16,
            taken: 0,
            stack: &stack,
            rest: &[],
        };
        let found = frames(&copy, &[mapping], &binaries);
        for at in [0, 8, 32, stack.len()] {
            let (stack, rest) = stack.split_at(at);
            let parts = StackCopy { stack, rest, ..copy };
            assert_eq!(frames(&parts, &[mapping], &binaries), found, "in two parts");
        }
        assert_eq!(found.addresses, [0x1500, 0x2000, 0x3000]);
        assert!(found.truncated);
        let nowhere = frames(&copy, &[], &binaries);
        assert_eq!(nowhere.addresses, [0x1500]);
    }

    #[test]
    fn whatever_was_copied_is_followed_to_an_end() {
        let (binaries, mappings) = own();
        let (first, count) = (mappings.first().copied().unwrap(), mappings.len());
        let unwinding = std::cell::RefCell::new(Unwinding::default());
        let strategy = (
            any::<[u64; 3]>(),
            any::<bool>(),
            0..count,
            prop::collection::vec(any::<u64>(), 0..64),
            0..8_usize,
        );
        proptest!(|((registers, known, which, words, odd) in strategy)| {
            let mapping = mappings.get(which).copied().unwrap_or(first);
            let within = |value: u64| mapping.start + value % (mapping.end - mapping.start);
            let sp = if known { registers[1] | 1 << 40 } else { registers[1] };
            // Some words are code, some are the stack's: they lead on.
            let words = words.iter().map(|word| match word % 3 {
                0 => within(*word),
                1 => sp.wrapping_add(word % 512),
                _ => *word,
            });
            let mut stack: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
            stack.truncate(stack.len().saturating_sub(odd));
            let (stack, rest) = stack.split_at(stack.len() / 16 * 8);
            let copy = StackCopy {
                ip: if known { within(registers[0]) } else { registers[0] },
                sp,
                bp: if known { sp.wrapping_add(registers[2] % 512) } else { registers[2] },
                taken: 0,
                stack,
                rest,
            };
            let found = unwinding.borrow_mut().frames(&copy, 7, mappings.iter(), &binaries);
            prop_assert_eq!(found.addresses.first(), Some(&copy.ip));
            prop_assert!(found.addresses.len() <= MAX);
        });
    }
}
