//! Reader of what programs write with `bpf_perf_event_output`: one perf ring per CPU.

use super::Map;
use super::sys::MapKind;
use crate::error::{Error, Result};
use crate::host::Host;
use crate::perf::PerfEvent;
use crate::perf::ring::{PerfRing, RingRecord};
use crate::procfs;
use std::os::fd::AsFd;

/// Pages of each ring, a power of two.
const PAGES: usize = 64;
/// `PERF_RECORD_SAMPLE`.
const SAMPLE: u32 = 9;

/// A record read from a perf output buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfRecord<'a> {
    /// The bytes that a program wrote. A few zeroes may follow, because the kernel pads the size to a multiple of 8, less 4.
    Data(&'a [u8]),
    /// The number of records that found no room.
    Lost(u64),
}

/// The reading side of a perf event array.
#[derive(Debug)]
pub struct PerfOutput {
    /// The ring of each CPU.
    rings: Vec<(u32, PerfRing)>,
}

impl PerfOutput {
    /// Opens a ring for each CPU that is online, and puts it into the CPU's slot of the array, where it is used as long as this exists.
    ///
    /// # Errors
    /// [`Error::Argument`] for a map of another kind, [`Error::System`].
    pub fn open(host: &Host, map: &Map) -> Result<Self> {
        Self::with_pages(host, map, PAGES)
    }

    /// Opens rings of `pages` pages each, a power of two.
    ///
    /// # Errors
    /// As [`PerfOutput::open`].
    pub fn with_pages(host: &Host, map: &Map, pages: usize) -> Result<Self> {
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
            let ring = PerfRing::new(PerfEvent::output(cpu)?, pages)?;
            ring.event().enable()?;
            map.set_slot(cpu, ring.event().as_fd())?;
            rings.push((cpu, ring));
        }
        Ok(Self { rings })
    }

    /// Number of records that found no room so far; `None` where the kernel does not count them (before Linux 6.0).
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn lost(&self) -> Result<Option<u64>> {
        let mut all = Some(0);
        for (_, ring) in &self.rings {
            all = ring.event().lost()?.and_then(|lost| Some(all? + lost));
        }
        Ok(all)
    }

    /// Hands over all records in the rings, CPU by CPU, and frees their room.
    ///
    /// # Errors
    /// [`Error::Format`] if the contents of a ring make no sense.
    pub fn read(&mut self, mut each: impl FnMut(u32, PerfRecord<'_>)) -> Result<()> {
        for (cpu, ring) in &self.rings {
            ring.read(&mut |record| match record {
                RingRecord::Lost(records) => each(*cpu, PerfRecord::Lost(records)),
                RingRecord::Other {
                    kind: SAMPLE, body, ..
                } => each(*cpu, PerfRecord::Data(sample(body))),
                RingRecord::Other { .. } => {}
            })?;
        }
        Ok(())
    }
}

/// The bytes that a program wrote, which follow their length.
fn sample(body: &[u8]) -> &[u8] {
    let written = || {
        let (length, bytes) = body.split_first_chunk()?;
        bytes.get(..u32::from_le_bytes(*length) as usize)
    };
    written().unwrap_or_default()
}
