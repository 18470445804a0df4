//! The reader's side of a buffer's rings: memory shared with the writers, its layout, its counters. Pages are read by a [cursor](super::cursor).
//!
//! Writers on other CPUs go on meanwhile. A page is whole when its sequence number is that of the position asked for *and* its
//! committed word says so, read in this order (its opener writes them in the other).

use super::layout::{COUNTER, Geometry, Mode, offset};
use super::memory::Memory;
use kestrel_catalog::Result;
use kestrel_kernel::mmap::Mapping;
use kestrel_trace::info::Uuid;
use kestrel_trace::packet::{self, CAPACITY, HEADER, MAGIC, PAGE, SEALED};

pub(super) const PAGE64: u64 = PAGE as u64;

/// The page that the bytes before a position are in.
pub(super) fn page_of(position: u64) -> u64 {
    (position - 1) / PAGE64 * PAGE64
}

/// The rings of a buffer, one per CPU, in memory shared with their writers.
#[derive(Debug)]
pub struct Ring<M = Mapping> {
    pub(super) memory: M,
    geometry: Geometry,
    /// CPU numbers that can exist.
    cpus: Vec<u32>,
}

/// Counts of one event number on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records written (counted in overwrite mode only).
    pub recorded: u64,
    /// Records lost because the ring was full.
    pub lost: u64,
}

/// Parameters of a new ring.
#[derive(Clone, Copy, Debug)]
pub struct RingSpec<'a> {
    /// The buffer's number within its session.
    pub number: u32,
    /// The shape of each ring.
    pub geometry: Geometry,
    /// The trace that its packets belong to.
    pub uuid: Uuid,
    /// CPU numbers that can exist.
    pub cpus: &'a [u32],
    /// Now, by the clock of the records, ns.
    pub now: u64,
}

impl RingSpec<'_> {
    /// Entries of the map: one more than the highest CPU number.
    pub fn entries(&self) -> u32 {
        entries(self.cpus)
    }
}

/// One more than the highest CPU number.
pub(super) fn entries(cpus: &[u32]) -> u32 {
    cpus.iter().max().map_or(1, |highest| highest + 1)
}

impl<M: Memory> Ring<M> {
    /// Takes memory full of zeros, a region per CPU number, and writes into every page what never changes.
    ///
    /// # Errors
    /// When the memory is too small.
    pub fn format(memory: M, spec: &RingSpec<'_>) -> Result<Self> {
        let ring = Self::open(memory, spec.geometry, spec.cpus);
        ring.format_cpus(spec.cpus, spec)?;
        Ok(ring)
    }

    /// Writes into every page of these CPUs what never changes.
    pub(super) fn format_cpus(&self, cpus: &[u32], spec: &RingSpec<'_>) -> Result<()> {
        cpus.iter().try_for_each(|cpu| self.format_cpu(*cpu, spec))
    }

    /// Takes memory that [`Ring::format`] has laid out and others write.
    pub fn open(memory: M, geometry: Geometry, cpus: &[u32]) -> Self {
        let cpus = cpus.to_vec();
        Self {
            memory,
            geometry,
            cpus,
        }
    }

    fn format_cpu(&self, cpu: u32, spec: &RingSpec<'_>) -> Result<()> {
        let mut header = [0u8; HEADER as usize];
        let mut put = |at: u32, bytes: &[u8]| header[at as usize..][..bytes.len()].copy_from_slice(bytes);
        put(packet::offset::MAGIC, &MAGIC.to_le_bytes());
        put(packet::offset::UUID, &spec.uuid.0);
        put(packet::offset::PACKET_SIZE, &(PAGE64 * 8).to_le_bytes());
        put(packet::offset::CPU, &cpu.to_le_bytes());
        put(packet::offset::BUFFER, &spec.number.to_le_bytes());
        let base = self.base(cpu) + self.geometry.control() as usize;
        for page in 0..self.geometry.pages as usize {
            self.memory.copy_in(base + page * PAGE as usize, &header)?;
        }
        let control = self.base(cpu);
        for (at, value) in [
            (base + packet::offset::TIMESTAMP_BEGIN as usize, spec.now),
            (control + offset::ANNOUNCED as usize, spec.now),
            (control + offset::RESERVED as usize, spec.now),
            (control + offset::POSITION as usize, u64::from(HEADER)),
        ] {
            self.memory.store(at, value);
        }
        Ok(())
    }

    /// Begins with another ring's counts instead of with 0, before anybody writes.
    ///
    /// When a ring takes the place of one that is written still, that one's counts are not final yet; those of the one before are. So each
    /// begins with the counts of the last but one, and what a ring and its predecessor count together is everything that ever happened.
    ///
    /// # Errors
    /// When the memory cannot be read (never, in practice).
    pub fn inherit(&self, from: &Self) -> Result<()> {
        let numbers = self.geometry.events.min(from.geometry.events);
        let mut counters = vec![0; (numbers * COUNTER) as usize];
        for cpu in self.cpus() {
            let (there, here) = (from.base(cpu), self.base(cpu));
            from.memory
                .copy_out(there + offset::COUNTERS as usize, &mut counters)?;
            self.memory.copy_in(here + offset::COUNTERS as usize, &counters)?;
            for word in [offset::LOST, offset::FROZEN, offset::REPORTED] {
                self.memory.store(here + word as usize, from.control(cpu, word));
            }
        }
        Ok(())
    }

    /// Whether a stream has records that its reader has neither freed nor acknowledged.
    pub fn has_unread(&self, cpu: u32) -> bool {
        let read = self.freed(cpu) + u64::from(HEADER);
        self.position(cpu) > read.max(self.acknowledged(cpu))
    }

    /// The shape of each ring.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// CPUs that have a ring.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + use<M> {
        self.cpus.clone().into_iter()
    }

    pub(super) fn base(&self, cpu: u32) -> usize {
        cpu as usize * self.geometry.region() as usize
    }

    /// A word of a CPU's control pages.
    pub(super) fn control(&self, cpu: u32, at: u32) -> u64 {
        self.memory.load(self.base(cpu) + at as usize)
    }

    /// Next byte that a writer will take.
    pub fn position(&self, cpu: u32) -> u64 {
        self.control(cpu, offset::POSITION)
    }

    /// Position of the page in use: those before it are whole, or will be soon.
    pub fn in_use(&self, cpu: u32) -> u64 {
        page_of(self.position(cpu))
    }

    /// Position up to which a stream's reader has freed pages.
    pub fn freed(&self, cpu: u32) -> u64 {
        self.control(cpu, offset::CONSUMED)
    }

    /// Frees a stream's pages before a position for writers.
    pub(super) fn free(&self, cpu: u32, position: u64) {
        let consumed = self.base(cpu) + offset::CONSUMED as usize;
        self.memory.store(consumed, position);
    }

    /// The oldest page of a CPU that is there while `current` is in use.
    pub(super) fn oldest(&self, current: u64) -> u64 {
        (current + PAGE64).saturating_sub(u64::from(self.geometry.data()))
    }

    /// The oldest page that is there while `current` is in use and that a stream's reader has not freed.
    pub(super) fn oldest_unfreed(&self, cpu: u32, current: u64) -> u64 {
        match self.geometry.mode {
            Mode::Overwrite => self.oldest(current),
            Mode::Stream => self.oldest(current).max(self.freed(cpu)),
        }
    }

    pub(super) fn page_at(&self, cpu: u32, position: u64) -> usize {
        self.base(cpu) + self.geometry.page(position) as usize
    }

    /// A word of a page's header.
    pub(super) fn header(&self, cpu: u32, page: u64, at: u32) -> u64 {
        self.memory.load(self.page_at(cpu, page) + at as usize)
    }

    /// Whether the page in this place is the one at this position, as its opener left it, and not one from a round before.
    pub(super) fn is_opened(&self, cpu: u32, page: u64) -> bool {
        self.header(cpu, page, packet::offset::SEQUENCE) == page / PAGE64
    }

    pub(super) fn is_whole(&self, cpu: u32, page: u64) -> bool {
        self.is_opened(cpu, page)
            && self.header(cpu, page, packet::offset::COMMITTED) as u32 == CAPACITY + SEALED
    }

    /// Whether writers have come round to this page again.
    pub(super) fn is_overwritten(&self, cpu: u32, page: u64) -> bool {
        self.position(cpu) > page + u64::from(self.geometry.data())
    }

    pub(super) fn copy(&self, cpu: u32, page: u64, to: &mut [u8]) -> Result<()> {
        self.memory.copy_out(self.page_at(cpu, page), to)
    }

    /// Fill of the fullest ring, 0 to 1.
    pub fn fill(&self) -> f64 {
        let fill = |cpu: u32| {
            let unread = self.position(cpu).saturating_sub(self.freed(cpu));
            unread as f64 / f64::from(self.geometry.data())
        };
        self.cpus().map(fill).fold(0.0, f64::max)
    }

    /// Position before which every record has been acted on.
    pub fn acknowledged(&self, cpu: u32) -> u64 {
        self.control(cpu, offset::ACKNOWLEDGED)
    }

    /// Records lost since the last call, by this process or another: the ring itself keeps what was reported.
    pub fn take_lost(&self) -> u64 {
        let mut new = 0;
        for cpu in self.cpus() {
            let all = self.lost(cpu);
            new += all.saturating_sub(self.control(cpu, offset::REPORTED));
            self.memory.store(self.base(cpu) + offset::REPORTED as usize, all);
        }
        new
    }

    /// Stores that every record before `position` has been acted on; the ring itself keeps it for the next reader. Pages before it
    /// are freed.
    pub fn acknowledge(&self, cpu: u32, position: u64) {
        let acknowledged = self.base(cpu) + offset::ACKNOWLEDGED as usize;
        self.memory.store(acknowledged, position);
        let page = position / PAGE64 * PAGE64;
        if page > self.freed(cpu) {
            self.free(cpu, page);
        }
    }

    /// Whether every reservation of a CPU has been committed: no writer is in the middle of a record.
    pub fn is_quiet(&self, cpu: u32) -> bool {
        let position = self.position(cpu);
        self.is_committed(cpu, self.oldest_unfreed(cpu, page_of(position)), position)
    }

    /// Whether every record in the pages from one on up to a position is committed.
    pub(super) fn is_committed(&self, cpu: u32, from: u64, position: u64) -> bool {
        let page = page_of(position);
        let mut left = (from..page).step_by(PAGE64 as usize);
        let committed = self.header(cpu, page, packet::offset::COMMITTED) as u32;
        left.all(|page| self.is_whole(cpu, page)) && committed == (position - page) as u32 - HEADER
    }

    /// Records lost on a CPU.
    pub fn lost(&self, cpu: u32) -> u64 {
        self.control(cpu, offset::LOST)
    }

    /// Of these, the records that came while the buffer was frozen.
    pub fn lost_frozen(&self, cpu: u32) -> u64 {
        self.control(cpu, offset::FROZEN)
    }

    /// Counts of an event number on a CPU; none of a number that it has no room for.
    pub fn counts(&self, cpu: u32, event: u16) -> Counts {
        if u32::from(event) >= self.geometry.events {
            return Counts::default();
        }
        let at = self.geometry.counter(event);
        Counts {
            recorded: self.control(cpu, at),
            lost: self.control(cpu, at + COUNTER / 2),
        }
    }
}
