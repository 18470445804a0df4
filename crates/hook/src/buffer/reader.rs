//! The rings' reader: hands out whole packets, looks at the one being written, seals the last one, reads the counters.
//!
//! Writers on other CPUs go on meanwhile. A page is whole when its sequence number is that of the position asked for *and* its
//! committed word says so, read in this order (its opener writes them in the other). What may be overwritten while it
//! is copied is checked again afterwards: its next opener moves the position first.

use super::layout::{COUNTER, Geometry, Mode, offset};
use super::memory::Memory;
use kestrel_catalog::Result;
use kestrel_kernel::mmap::Mapping;
use kestrel_trace::ctf::packet::{self as ctf, Page, Sealed};
use kestrel_trace::decode::EventTable;
use kestrel_trace::info::Uuid;
use kestrel_trace::packet::{self, CAPACITY, HEADER, MAGIC, PAGE, SEALED};

pub(super) const PAGE64: u64 = PAGE as u64;

/// The rings of a buffer, one per CPU, in memory shared with their writers.
#[derive(Debug)]
pub struct Ring<M = Mapping> {
    pub(super) memory: M,
    geometry: Geometry,
    /// Per CPU number.
    pub(super) cpus: Vec<CpuRing>,
}

/// How far one CPU's ring has been read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CpuRing {
    /// Whether this CPU can exist.
    possible: bool,
    /// Position up to which whole pages have been handed out.
    pub(super) read: u64,
    /// Position up to which records have been looked at ([`Ring::peek`]).
    peeked: u64,
    /// Records lost up to the end of the last page handed out, as it says.
    pub(super) lost: u64,
}

/// A page with records that wait to be acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Where it begins.
    pub position: u64,
    /// Offset in it of the first record that waits; records before it have been acknowledged.
    pub from: u32,
    /// Whether nothing more will be written to it.
    pub whole: bool,
    /// All of it.
    pub bytes: Vec<u8>,
}

/// What was left in a ring that nobody writes any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Pages appended.
    pub pages: usize,
    /// Pages in which a writer was stopped between reserve and commit.
    pub unfinished: u64,
    /// Records behind such a place, which cannot be found.
    pub torn: u64,
}

/// Counts of one event number on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records written (counted in overwrite mode only).
    pub recorded: u64,
    /// Records lost because the ring was full.
    pub lost: u64,
}

/// What a new ring is made from.
#[derive(Clone, Copy, Debug)]
pub struct RingSpec<'a> {
    /// The buffer's number within its session.
    pub number: u32,
    /// Its shape.
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
        let ring = Self::unformatted(memory, spec);
        ring.format_cpus(spec.cpus, spec)?;
        Ok(ring)
    }

    /// The same with pages still to be written: by [`Ring::format_cpus`], for every CPU once.
    pub(super) fn unformatted(memory: M, spec: &RingSpec<'_>) -> Self {
        let cpus = (0..spec.entries())
            .map(|cpu| CpuRing {
                possible: spec.cpus.contains(&cpu),
                read: 0,
                peeked: u64::from(HEADER),
                lost: 0,
            })
            .collect();
        Self {
            memory,
            geometry: spec.geometry,
            cpus,
        }
    }

    /// Writes into every page of these CPUs what never changes.
    pub(super) fn format_cpus(&self, cpus: &[u32], spec: &RingSpec<'_>) -> Result<()> {
        cpus.iter().try_for_each(|cpu| self.format_cpu(*cpu, spec))
    }

    /// Takes memory that [`Ring::format`] has laid out and others write. Reading goes on where the last reader freed pages.
    pub fn open(memory: M, geometry: Geometry, cpus: &[u32]) -> Self {
        let mut ring = Self {
            memory,
            geometry,
            cpus: vec![CpuRing::default(); entries(cpus) as usize],
        };
        for &cpu in cpus {
            let read = ring.control(cpu, offset::CONSUMED);
            let before = read.checked_sub(PAGE64).filter(|page| ring.is_opened(cpu, *page));
            ring.cpus[cpu as usize] = CpuRing {
                possible: true,
                read,
                peeked: read + u64::from(HEADER),
                lost: before.map_or(0, |page| ring.header(cpu, page, packet::offset::DISCARDED)),
            };
        }
        ring
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

    /// Records that wait for a stream's reader: whether there are any.
    pub fn is_waiting(&self, cpu: u32) -> bool {
        let read = self.control(cpu, offset::CONSUMED) + u64::from(HEADER);
        self.position(cpu) > read.max(self.control(cpu, offset::ACKNOWLEDGED))
    }

    /// Its shape.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// CPUs that have a ring.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + use<M> {
        let possible: Vec<u32> = (0u32..)
            .zip(&self.cpus)
            .filter(|(_, ring)| ring.possible)
            .map(|(cpu, _)| cpu)
            .collect();
        possible.into_iter()
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

    /// The page in use.
    pub(super) fn current(&self, cpu: u32) -> u64 {
        (self.position(cpu) - 1) / PAGE64 * PAGE64
    }

    pub(super) fn page_at(&self, cpu: u32, position: u64) -> usize {
        self.base(cpu) + self.geometry.page(position) as usize
    }

    /// A word of a page's header.
    pub(super) fn header(&self, cpu: u32, page: u64, at: u32) -> u64 {
        self.memory.load(self.page_at(cpu, page) + at as usize)
    }

    /// Whether the page in this place is the one at this position, as its opener left it, and not one from a round before.
    fn is_opened(&self, cpu: u32, page: u64) -> bool {
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

    /// Appends to `out` every whole page of a CPU not handed out before (and not overwritten since), and frees them for writers.
    /// Returns their number.
    ///
    /// # Errors
    /// When the memory cannot be read (never, in practice).
    pub fn drain(&mut self, cpu: u32, out: &mut Vec<u8>) -> Result<usize> {
        let start = out.len();
        self.skip_overwritten(cpu);
        loop {
            let page = self.cpus[cpu as usize].read;
            if page >= self.current(cpu) || !self.is_whole(cpu, page) {
                break;
            }
            let at = out.len();
            out.resize(at + PAGE as usize, 0);
            self.copy(cpu, page, &mut out[at..])?;
            if self.is_overwritten(cpu, page) {
                out.truncate(at);
                self.skip_overwritten(cpu);
            } else {
                self.hand_out(cpu, page, &out[at..]);
            }
        }
        Ok((out.len() - start) / PAGE as usize)
    }

    /// Notes that a page has been handed out, or was skipped if there are no bytes of it.
    fn hand_out(&mut self, cpu: u32, page: u64, bytes: &[u8]) {
        let at = self.base(cpu) + offset::CONSUMED as usize;
        let ring = &mut self.cpus[cpu as usize];
        if let Ok(packet) = ctf::Packet::parse(bytes) {
            ring.lost = packet.events_discarded;
        }
        ring.read = page + PAGE64;
        self.memory.store(at, ring.read);
    }

    /// How full the fullest ring is, 0 to 1.
    pub fn fill(&self) -> f64 {
        let fill = |cpu: u32| {
            let unread = self.position(cpu).saturating_sub(self.cpus[cpu as usize].read);
            unread as f64 / f64::from(self.geometry.data())
        };
        self.cpus().map(fill).fold(0.0, f64::max)
    }

    /// The page being written: a copy with the records that are whole so far, sealed in the copy; `None` if it has none beyond what
    /// was peeked at or drained before, or if a writer is in the middle of one. `now` becomes its end time.
    ///
    /// Gives bytes of the page and the offset in it of the first record not given before.
    ///
    /// # Errors
    /// When the memory cannot be read (never, in practice).
    pub fn peek(&mut self, cpu: u32, now: u64) -> Result<Option<(Vec<u8>, u32)>> {
        let position = self.position(cpu);
        let page = (position - 1) / PAGE64 * PAGE64;
        let from = self.cpus[cpu as usize].peeked.max(page + u64::from(HEADER));
        if position <= from || self.cpus[cpu as usize].read != page {
            return Ok(None);
        }
        let Some(bytes) = self.finished(cpu, position, now)? else {
            return Ok(None);
        };
        self.cpus[cpu as usize].peeked = position;
        Ok(Some((bytes, (from - page) as u32)))
    }

    /// Copies of the pages of a stream ring's CPU with records that nobody has acknowledged, oldest first: whole ones, then the one being
    /// written, sealed at `now`, if no writer is in the middle of a record. Frees nothing.
    ///
    /// # Errors
    /// When the memory cannot be read (never, in practice).
    pub fn pending(&self, cpu: u32, now: u64) -> Result<Vec<Pending>> {
        let acknowledged = self.control(cpu, offset::ACKNOWLEDGED);
        let mut all = Vec::new();
        let mut position = self.cpus[cpu as usize].read;
        let mut keep = |position: u64, whole: bool, bytes: Vec<u8>| {
            let from = acknowledged.saturating_sub(position);
            let from = from.clamp(u64::from(HEADER), PAGE64) as u32;
            all.push(Pending {
                position,
                from,
                whole,
                bytes,
            });
        };
        let end = self.position(cpu);
        let current = (end - 1) / PAGE64 * PAGE64;
        while position < current && self.is_whole(cpu, position) {
            let mut bytes = vec![0; PAGE as usize];
            self.copy(cpu, position, &mut bytes)?;
            keep(position, true, bytes);
            position += PAGE64;
        }
        if position == current
            && end > acknowledged.max(current + u64::from(HEADER))
            && let Some(bytes) = self.finished(cpu, end, now)?
        {
            keep(position, false, bytes);
        }
        Ok(all)
    }

    /// Everything before it has been acted on.
    pub fn acknowledged(&self, cpu: u32) -> u64 {
        self.control(cpu, offset::ACKNOWLEDGED)
    }

    /// Records lost since the last call, by this process or another: the ring itself keeps what was reported.
    pub fn take_lost(&mut self) -> u64 {
        let mut new = 0;
        for cpu in self.cpus() {
            let all = self.lost(cpu);
            new += all.saturating_sub(self.control(cpu, offset::REPORTED));
            self.memory.store(self.base(cpu) + offset::REPORTED as usize, all);
        }
        new
    }

    /// Says that everything before `position` has been acted on: kept in the ring itself, for the next reader. Pages before it
    /// are freed.
    pub fn acknowledge(&mut self, cpu: u32, position: u64) {
        let control = self.base(cpu);
        self.memory
            .store(control + offset::ACKNOWLEDGED as usize, position);
        let page = position / PAGE64 * PAGE64;
        let ring = &mut self.cpus[cpu as usize];
        if page > ring.read {
            ring.read = page;
            self.memory.store(control + offset::CONSUMED as usize, page);
        }
    }

    /// Where in a page that [`Ring::drain`] gave the first record lies that [`Ring::peek`] has not shown.
    pub fn unpeeked(&self, cpu: u32, page: u64) -> u32 {
        let peeked = self.cpus[cpu as usize].peeked;
        peeked.saturating_sub(page).clamp(u64::from(HEADER), PAGE64) as u32
    }

    /// Position up to which pages have been handed out.
    pub fn read_position(&self, cpu: u32) -> u64 {
        self.cpus[cpu as usize].read
    }

    /// A copy of the page in use, sealed at `position`, if every record before that is committed.
    pub(super) fn finished(&self, cpu: u32, position: u64, now: u64) -> Result<Option<Vec<u8>>> {
        let page = (position - 1) / PAGE64 * PAGE64;
        let used = (position - page) as u32;
        let committed = self.header(cpu, page, packet::offset::COMMITTED);
        // What was reserved since would count as committed, too: nothing may have been.
        if committed as u32 != used - HEADER || self.position(cpu) != position {
            return Ok(None);
        }
        let mut bytes = vec![0; PAGE as usize];
        self.copy(cpu, page, &mut bytes)?;
        if self.is_overwritten(cpu, page) {
            return Ok(None);
        }
        let mut put = |at: u32, value: u64| bytes[at as usize..][..8].copy_from_slice(&value.to_le_bytes());
        let newest = self
            .control(cpu, offset::ANNOUNCED)
            .max(self.control(cpu, offset::RESERVED));
        put(packet::offset::TIMESTAMP_END, now.max(newest));
        put(packet::offset::CONTENT_SIZE, u64::from(used) * 8);
        put(packet::offset::DISCARDED, self.lost(cpu));
        let whole = u64::from(CAPACITY + SEALED) | committed >> 32 << 32;
        put(packet::offset::COMMITTED, whole);
        Ok(Some(bytes))
    }

    /// Appends what is left in a ring that nobody writes any more: whole pages, then the page in use, sealed at `now`. Where a writer was
    /// stopped between reserve and commit, a page keeps its records before that place.
    ///
    /// # Errors
    /// When the memory cannot be read (never, in practice).
    pub fn rest(&mut self, cpu: u32, now: u64, events: &EventTable, out: &mut Vec<u8>) -> Result<Rest> {
        let mut rest = Rest::default();
        loop {
            rest.pages += self.drain(cpu, out)?;
            let page = self.cpus[cpu as usize].read;
            if page >= self.current(cpu) {
                break;
            }
            let at = out.len();
            self.salvage(cpu, page, events, &mut rest, out)?;
            self.hand_out(cpu, page, &out[at..]);
        }
        let position = self.position(cpu);
        let page = self.cpus[cpu as usize].read;
        if position <= page + u64::from(HEADER) {
            return Ok(rest);
        }
        match self.finished(cpu, position, now)? {
            Some(bytes) => {
                out.extend_from_slice(&bytes);
                rest.pages += 1;
            }
            None => self.salvage(cpu, page, events, &mut rest, out)?,
        }
        Ok(rest)
    }

    /// Appends an unfinished page, as far as it holds together.
    fn salvage(
        &self,
        cpu: u32,
        page: u64,
        events: &EventTable,
        rest: &mut Rest,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        rest.unfinished += 1;
        if !self.is_opened(cpu, page) {
            return Ok(());
        }
        let mut bytes: Page = [0; PAGE as usize];
        self.copy(cpu, page, &mut bytes)?;
        let lost = self.cpus[cpu as usize].lost;
        bytes[packet::offset::DISCARDED as usize..][..8].copy_from_slice(&lost.to_le_bytes());
        // Of a writer that stopped while it changed the word: what others left to it.
        if self.control(cpu, offset::ADDING) == u64::from(self.geometry.page(page)) {
            let word = &mut bytes[packet::offset::COMMITTED as usize..][..8];
            let committed = self.header(cpu, page, packet::offset::COMMITTED);
            word.copy_from_slice(&(committed + self.control(cpu, offset::LEFT)).to_le_bytes());
        }
        if let Ok(Sealed { torn, .. }) = ctf::seal(&mut bytes, events) {
            rest.torn += u64::from(torn);
            rest.pages += 1;
            out.extend_from_slice(&bytes);
        }
        Ok(())
    }

    /// Goes on to the oldest page still there.
    fn skip_overwritten(&mut self, cpu: u32) {
        if self.geometry.mode == Mode::Overwrite {
            let oldest = (self.current(cpu) + PAGE64).saturating_sub(u64::from(self.geometry.data()));
            let ring = &mut self.cpus[cpu as usize];
            ring.read = ring.read.max(oldest);
        }
    }

    /// Whether every reservation of a CPU has been committed: nobody is in the middle of a record.
    pub fn is_quiet(&self, cpu: u32) -> bool {
        let position = self.position(cpu);
        let page = (position - 1) / PAGE64 * PAGE64;
        let used = (position - page) as u32;
        let oldest = (page + PAGE64).saturating_sub(u64::from(self.geometry.data()));
        let mut left = self.cpus[cpu as usize].read.max(oldest);
        while left < page && self.is_whole(cpu, left) {
            left += PAGE64;
        }
        left >= page && self.header(cpu, page, packet::offset::COMMITTED) as u32 == used - HEADER
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
