//! perf's side band: what processes do to their memory maps (mmap of code, exec, fork, exit), as records of events that count nothing.
//!
//! Each CPU has two such events, because the kernel wakes readers by ring (`rb->wakeup` of kernel/events/ring_buffer.c): code that was mapped is urgent, since the way to its file ends
//! with its process, and each such record makes [`SideBand::fds`] readable; threads that come and go by the thousand are not, and wake no reader.
//!
//! Build ids are not asked for. The kernel makes one record for all listeners, one after the other, and leaves `PERF_RECORD_MISC_MMAP_BUILD_ID` in its header once a listener has asked
//! (`perf_event_mmap_output` of kernel/events/core.c): the next ones take inode numbers for a build id, and perf ends with an assertion. For the same reason that bit says nothing here.

use super::attributes::{Attributes, FLAGS, SAMPLE_TIME, TYPE_SOFTWARE};
use super::ring::{PerfRing, RingRecord};
use super::{PerfEvent, PerfTarget, Software, open};
use crate::error::Result;
use crate::host::Host;
use crate::procfs;
use bytemuck::Zeroable;
use std::os::fd::{AsFd, BorrowedFd};

/// Pages of each ring: some thousand mappings.
const PAGES: usize = 128;

/// `enum perf_event_type`.
const COMM: u32 = 3;
const EXIT: u32 = 4;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
/// `PERF_RECORD_MISC_COMM_EXEC`.
const MISC_EXEC: u16 = 1 << 13;

/// A change of a process's memory map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryChange {
    /// The process mapped executable memory.
    Map(CodeMapping),
    /// The process began to run another program: what was mapped is gone.
    Exec {
        /// The name that it has since.
        comm: String,
    },
    /// The process or thread was forked.
    Fork {
        /// Number of the parent process.
        parent: u32,
    },
    /// A thread of the process ended.
    Exit {
        /// Number of the thread.
        thread: u32,
    },
}

/// Executable memory of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeMapping {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Where in the file it begins, bytes.
    pub offset: u64,
    /// The file as the process sees it (a deleted one has ` (deleted)` behind), `[vdso]`, or `//anon`.
    pub path: String,
    /// The file's inode; 0 if there is none.
    pub inode: u64,
}

/// A change, and when and where it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryEvent {
    /// ns of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Number of the process.
    pub pid: u32,
    /// The change.
    pub change: MemoryChange,
}

/// Readers of the side band of all CPUs.
#[derive(Debug)]
pub struct SideBand {
    /// Code that is mapped.
    code: Vec<PerfRing>,
    /// Rings of processes: their beginnings, names and ends.
    tasks: Vec<PerfRing>,
}

impl SideBand {
    /// Begins to follow all processes on all CPUs that are online.
    ///
    /// # Errors
    /// [`crate::Error::System`]: `EACCES` without CAP_PERFMON.
    pub fn open(host: &Host) -> Result<Self> {
        let mut band = Self {
            code: Vec::new(),
            tasks: Vec::new(),
        };
        for cpu in procfs::online_cpus(host)?.iter() {
            band.tasks.push(ring(open_cpu(cpu, TASKS)?)?);
            band.code.push(ring(open_cpu(cpu, CODE)?)?);
        }
        Ok(band)
    }

    /// Readable when code was mapped since they were last waited for: a reader that sleeps on them, reads and sleeps again sees every such change.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.code.iter().map(|ring| ring.event().as_fd())
    }

    /// Hands over all that came since the last call, ring by ring: sort by time what is to be followed across them. Gives the number of records
    /// that found no room.
    ///
    /// # Errors
    /// [`crate::Error::Format`] if a ring makes no sense.
    pub fn read(&mut self, each: &mut dyn FnMut(MemoryEvent)) -> Result<u64> {
        let mut lost = 0;
        for ring in self.code.iter().chain(&self.tasks) {
            ring.read(&mut |record| match record {
                RingRecord::Lost(records) => lost += records,
                RingRecord::Other { kind, misc, body } => {
                    if let Some(event) = MemoryEvent::parse(kind, misc, body) {
                        each(event);
                    }
                }
            })?;
        }
        Ok(lost)
    }
}

/// Events that are asked for: code that is mapped, of which a reader wants to know at once (one byte is enough to wake it), and everything else.
const CODE: u64 = FLAGS.mmap | FLAGS.mmap2 | FLAGS.watermark;
const TASKS: u64 = FLAGS.comm | FLAGS.comm_exec | FLAGS.task;

/// Maps the ring of an event and lets records in.
fn ring(event: PerfEvent) -> Result<PerfRing> {
    let ring = PerfRing::new(event, PAGES)?;
    ring.event().enable()?;
    Ok(ring)
}

fn open_cpu(cpu: u32, asked: u64) -> Result<PerfEvent> {
    let attributes = Attributes {
        kind: TYPE_SOFTWARE,
        config: Software::Dummy as u64,
        sample_type: SAMPLE_TIME,
        flags: FLAGS.disabled | FLAGS.sample_id_all | FLAGS.use_clockid | asked,
        wakeup: 1,
        clockid: libc::CLOCK_MONOTONIC,
        ..Zeroable::zeroed()
    };
    open(
        attributes,
        PerfTarget::Cpu(cpu),
        format!("memory maps on CPU {cpu}"),
    )
}

impl MemoryEvent {
    /// One record of perf, by the type and the bits of its header, and what is behind that; none of a kind that is not asked for, or one that is too short.
    pub fn parse(kind: u32, misc: u16, body: &[u8]) -> Option<Self> {
        parse(kind, misc, body)
    }
}

fn parse(kind: u32, misc: u16, body: &[u8]) -> Option<MemoryEvent> {
    let word = |at: usize| Some(u32::from_le_bytes(*body.get(at..)?.first_chunk()?));
    let long = |at: usize| Some(u64::from_le_bytes(*body.get(at..)?.first_chunk()?));
    // `sample_id_all` with PERF_SAMPLE_TIME puts the time behind every record.
    let time_ns = long(body.len().checked_sub(8)?)?;
    let (pid, tid) = (word(0)?, word(4)?);
    let text = |at: usize| {
        let bytes = body.get(at..body.len() - 8)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    };
    let change = match kind {
        // pid, tid | addr, len, pgoff | device (8), inode, generation | prot, flags | file name
        MMAP2 => {
            let (start, length) = (long(8)?, long(16)?);
            MemoryChange::Map(CodeMapping {
                start,
                end: start.saturating_add(length),
                offset: long(24)?,
                path: text(64)?,
                inode: long(40)?,
            })
        }
        COMM if misc & MISC_EXEC != 0 => MemoryChange::Exec { comm: text(8)? },
        // pid, ppid, tid, ptid, time
        FORK => {
            return Some(MemoryEvent {
                time_ns,
                pid,
                change: MemoryChange::Fork { parent: tid },
            });
        }
        EXIT => MemoryChange::Exit { thread: word(8)? },
        _ => return None,
    };
    Some(MemoryEvent { time_ns, pid, change })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    #[test]
    fn a_mapping_is_read_whatever_another_listener_left_in_its_header() {
        const MISC_BUILD_ID: u16 = 1 << 14;
        let file = [8 << 32 | 1, 77, 3].map(u64::to_le_bytes).concat();
        let bytes = body(&[
            &5u32.to_le_bytes(),
            &6u32.to_le_bytes(),
            &0x1000u64.to_le_bytes(),
            &0x2000u64.to_le_bytes(),
            &0x3000u64.to_le_bytes(),
            &file,
            &[0; 8],
            b"/bin/x\0\0",
            &99u64.to_le_bytes(),
        ]);
        let event = parse(MMAP2, MISC_BUILD_ID, &bytes).unwrap();
        let mapping = CodeMapping {
            start: 0x1000,
            end: 0x3000,
            offset: 0x3000,
            path: "/bin/x".to_owned(),
            inode: 77,
        };
        let expected = MemoryEvent {
            time_ns: 99,
            pid: 5,
            change: MemoryChange::Map(mapping),
        };
        assert_eq!(event, expected);
        assert_eq!(parse(MMAP2, 0, &bytes), Some(expected));
        for cut in 0..bytes.len() {
            _ = parse(MMAP2, MISC_BUILD_ID, &bytes[..cut]);
        }
    }

    #[test]
    fn forks_name_the_parent_and_only_names_given_by_exec_count() {
        let bytes = body(&[
            &8u32.to_le_bytes(),
            &7u32.to_le_bytes(),
            &8u32.to_le_bytes(),
            &7u32.to_le_bytes(),
            &1u64.to_le_bytes(),
            &2u64.to_le_bytes(),
        ]);
        let event = parse(FORK, 0, &bytes).unwrap();
        assert_eq!((event.pid, event.change), (8, MemoryChange::Fork { parent: 7 }));
        let bytes = body(&[
            &8u32.to_le_bytes(),
            &8u32.to_le_bytes(),
            b"cat\0\0\0\0\0",
            &3u64.to_le_bytes(),
        ]);
        assert_eq!(parse(COMM, 0, &bytes), None);
        let event = parse(COMM, MISC_EXEC, &bytes).unwrap();
        assert_eq!(
            event.change,
            MemoryChange::Exec {
                comm: "cat".to_owned()
            }
        );
    }

    #[test]
    fn the_process_itself_is_followed() {
        let host = Host::default();
        let Ok(mut band) = SideBand::open(&host) else {
            eprintln!("skipped: no right to open perf events");
            return;
        };
        let status = std::process::Command::new("true").status().unwrap();
        assert!(status.success());
        let (mut forks, mut execs, mut code) = (0, 0, 0);
        let own = std::process::id();
        let mut child = 0;
        let mut events = Vec::new();
        band.read(&mut |event| events.push(event)).unwrap();
        events.sort_by_key(|event| event.time_ns);
        for event in events {
            match event.change {
                MemoryChange::Fork { parent } if parent == own && event.pid != own => {
                    child = event.pid;
                    forks += 1;
                }
                MemoryChange::Exec { comm } if event.pid == child && comm == "true" => execs += 1,
                MemoryChange::Map(mapping) if event.pid == child && mapping.path.ends_with("/true") => {
                    code += 1;
                    assert_ne!(mapping.inode, 0);
                }
                _ => {}
            }
        }
        assert_eq!((execs, code), (1, 1));
        assert!(forks >= 1);
    }
}
