//! Reading what programs write with `bpf_perf_event_output`: one ring per CPU, layout of `struct perf_event_mmap_page`.

use super::Map;
use super::sys::MapKind;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::mmap::{Access, Mapping};
use crate::perf::PerfEvent;
use crate::procfs;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

const PAGE: usize = 4096;
/// Pages of each ring, a power of two.
const PAGES: usize = 64;
const SIZE: usize = PAGES * PAGE;
/// Places of `data_head` and `data_tail`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// `PERF_RECORD_LOST` and `PERF_RECORD_SAMPLE`.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
/// `struct perf_event_header`.
const HEADER: usize = 8;

/// One CPU's ring.
#[derive(Debug)]
struct Ring {
    cpu: u32,
    _event: PerfEvent,
    memory: Mapping,
}

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfRecord<'a> {
    /// What a program wrote; the kernel pads it to 8 bytes less 4, so a few zeroes may follow.
    Data(&'a [u8]),
    /// So many records found no room.
    Lost(u64),
}

/// The readers' side of a perf event array.
#[derive(Debug)]
pub struct PerfOutput {
    rings: Vec<Ring>,
}

impl PerfOutput {
    /// Puts a ring into the array for each CPU that is online and has a slot. It reaches there while this lives.
    ///
    /// # Errors
    /// [`Error::Argument`] for a map of another kind, [`Error::System`].
    pub fn open(host: &Host, map: &Map) -> Result<Self> {
        let info = map.info();
        if info.kind != MapKind::PERF_EVENT_ARRAY {
            return Err(Error::Argument {
                subject: format!("map {}", info.name),
                why: format!("it is of the kind {}, not a perf event array", info.kind),
            });
        }
        let mut rings = Vec::new();
        for cpu in procfs::online_cpus(host)?
            .iter()
            .filter(|cpu| *cpu < info.entries)
        {
            let event = PerfEvent::output(cpu)?;
            let memory = Mapping::new(event.as_fd(), 0, PAGE + SIZE, Access::ReadWrite)?;
            event.enable()?;
            map.set_slot(cpu, event.as_fd())?;
            rings.push(Ring {
                cpu,
                _event: event,
                memory,
            });
        }
        Ok(Self { rings })
    }

    /// Hands over all records that are there, CPU by CPU, and makes room for others.
    ///
    /// # Errors
    /// [`Error::Format`] if a ring makes no sense.
    pub fn read(&mut self, mut each: impl FnMut(u32, PerfRecord<'_>)) -> Result<()> {
        self.rings
            .iter()
            .try_for_each(|ring| ring.read(&mut |record| each(ring.cpu, record)))
    }
}

impl Ring {
    fn read(&self, each: &mut dyn FnMut(PerfRecord<'_>)) -> Result<()> {
        let strange = |why: &str| Error::Format {
            subject: format!("the ring of CPU {}", self.cpu),
            why: why.to_owned(),
        };
        let place = |at| {
            self.memory
                .atomic_u64(at)
                .ok_or_else(|| strange("its positions cannot be mapped"))
        };
        let (head, tail) = (place(HEAD)?.load(Ordering::Acquire), place(TAIL)?);
        let mut at = tail.load(Ordering::Relaxed);
        while at < head {
            let header = self.bytes(at, HEADER)?;
            let word = |bytes: &[u8], from: usize| {
                bytes
                    .get(from..)
                    .and_then(|b| b.first_chunk())
                    .map_or(0, |b| u32::from_le_bytes(*b))
            };
            let size = (word(&header, 4) >> 16) as usize;
            // The ring is memory shared with the kernel; a bad length would read beyond it or never end.
            if size < HEADER || size as u64 > head - at {
                return Err(strange("a record has an impossible length"));
            }
            let body = self.bytes(at + HEADER as u64, size - HEADER)?;
            match word(&header, 0) {
                SAMPLE => {
                    let length = word(&body, 0) as usize;
                    each(PerfRecord::Data(body.get(4..4 + length).unwrap_or_default()));
                }
                LOST => each(PerfRecord::Lost(
                    u64::from(word(&body, 8)) | u64::from(word(&body, 12)) << 32,
                )),
                _ => {}
            }
            at += size as u64;
            // After each record, so that the kernel has room again as soon as there is some.
            tail.store(at, Ordering::Release);
        }
        Ok(())
    }

    /// Bytes from a position on, which may wrap around the end.
    fn bytes(&self, at: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let from = at as usize % SIZE;
        let first = length.min(SIZE - from);
        let (head, rest) = bytes.split_at_mut(first);
        self.memory.copy_out(PAGE + from, head)?;
        self.memory.copy_out(PAGE, rest)?;
        Ok(bytes)
    }
}
