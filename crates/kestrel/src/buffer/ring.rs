//! The ring's reader: a buffer's map as user space sees it; makes it, drains whole packets, seals the last one, reads the counters.

use super::emit::map_name;
use super::layout::{COUNTER, Geometry, Mode, offset};
use crate::error::Result;
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, sys};
use kestrel_kernel::mmap::{Access, Mapping};
use kestrel_trace::info::Uuid;
use kestrel_trace::packet::{self, CAPACITY, HEADER, MAGIC, PAGE, SEALED};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

const PAGE64: u64 = PAGE as u64;

/// A buffer in kernel memory, mapped.
#[derive(Debug)]
pub struct Ring {
    map: Map,
    mapping: Mapping,
    name: String,
    geometry: Geometry,
    /// Per CPU number.
    cpus: Vec<CpuRing>,
}

/// How far one CPU's ring has been read.
#[derive(Clone, Copy, Debug, Default)]
struct CpuRing {
    /// Whether this CPU can exist.
    possible: bool,
    /// Position up to which whole pages have been handed out.
    read: u64,
    /// Position up to which records have been looked at ([`Ring::peek`]).
    peeked: u64,
}

/// Counts of one event number on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records written (counted in overwrite mode only).
    pub recorded: u64,
    /// Records refused because the ring was full.
    pub refused: u64,
}

/// What a new ring is made from.
#[derive(Clone, Copy, Debug)]
pub struct RingSpec<'a> {
    /// The buffer's name.
    pub name: &'a str,
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

impl Ring {
    /// Makes a buffer: the map, its mapping, and in every page what never changes.
    ///
    /// # Errors
    /// The kernel's, when there is no memory or no privilege.
    pub fn create(spec: &RingSpec<'_>) -> Result<Self> {
        let entries = spec.cpus.iter().max().map_or(1, |highest| highest + 1);
        let region = spec.geometry.region();
        let name = format!("kestrel_{}", spec.name);
        let map = Map::create(
            &MapSpec::new(MapKind::ARRAY, &name, 4, region, entries).with_flags(sys::MAP_MMAPABLE),
        )?;
        let len = region as usize * entries as usize;
        let mapping = Mapping::new(map.as_fd(), 0, len, Access::ReadWrite)?;
        let cpus = (0..entries)
            .map(|cpu| CpuRing {
                possible: spec.cpus.contains(&cpu),
                read: 0,
                peeked: u64::from(HEADER),
            })
            .collect();
        let ring = Self {
            map,
            mapping,
            name: spec.name.to_owned(),
            geometry: spec.geometry,
            cpus,
        };
        for &cpu in spec.cpus {
            ring.format(cpu, spec)?;
        }
        Ok(ring)
    }

    fn format(&self, cpu: u32, spec: &RingSpec<'_>) -> Result<()> {
        let mut header = [0u8; HEADER as usize];
        let mut put = |at: u32, bytes: &[u8]| header[at as usize..][..bytes.len()].copy_from_slice(bytes);
        put(packet::offset::MAGIC, &MAGIC.to_le_bytes());
        put(packet::offset::UUID, &spec.uuid.0);
        put(packet::offset::PACKET_SIZE, &(PAGE64 * 8).to_le_bytes());
        put(packet::offset::CPU, &cpu.to_le_bytes());
        put(packet::offset::BUFFER, &spec.number.to_le_bytes());
        let base = self.base(cpu) + self.geometry.control() as usize;
        for page in 0..self.geometry.pages as usize {
            self.mapping.copy_in(base + page * PAGE as usize, &header)?;
        }
        self.store(base + packet::offset::TIMESTAMP_BEGIN as usize, spec.now);
        self.store(self.base(cpu) + offset::LAST_TIME as usize, spec.now);
        self.store(self.base(cpu) + offset::POSITION as usize, u64::from(HEADER));
        Ok(())
    }

    /// The buffer's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name by which programs refer to its map.
    pub fn map_name(&self) -> String {
        map_name(&self.name)
    }

    /// Its map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Its shape.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// CPUs that have a ring.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + use<> {
        let possible: Vec<u32> = (0u32..)
            .zip(&self.cpus)
            .filter(|(_, ring)| ring.possible)
            .map(|(cpu, _)| cpu)
            .collect();
        possible.into_iter()
    }

    fn base(&self, cpu: u32) -> usize {
        cpu as usize * self.geometry.region() as usize
    }

    fn load(&self, at: usize) -> u64 {
        self.mapping.load_u64(at).unwrap_or(0)
    }

    fn store(&self, at: usize, value: u64) {
        if let Some(word) = self.mapping.atomic_u64(at) {
            word.store(value, Ordering::Release);
        }
    }

    /// Next byte that a writer will take.
    fn position(&self, cpu: u32) -> u64 {
        self.load(self.base(cpu) + offset::POSITION as usize)
    }

    fn page_at(&self, cpu: u32, position: u64) -> usize {
        self.base(cpu) + self.geometry.page(position) as usize
    }

    fn committed(&self, cpu: u32, page: u64) -> u32 {
        self.load(self.page_at(cpu, page) + packet::offset::COMMITTED as usize) as u32
    }

    fn is_whole(&self, cpu: u32, page: u64) -> bool {
        self.committed(cpu, page) == CAPACITY + SEALED
    }

    /// Appends to `out` every whole page of a CPU not handed out before, and frees them for writers. Returns their number.
    ///
    /// # Errors
    /// When the mapping cannot be read (never, in practice).
    pub fn drain(&mut self, cpu: u32, out: &mut Vec<u8>) -> Result<usize> {
        let current = (self.position(cpu) - 1) / PAGE64 * PAGE64;
        let mut read = self.cpus[cpu as usize].read;
        let start = read;
        while read < current && self.is_whole(cpu, read) {
            let at = out.len();
            out.resize(at + PAGE as usize, 0);
            self.mapping.copy_out(self.page_at(cpu, read), &mut out[at..])?;
            read += PAGE64;
        }
        if read > start {
            self.cpus[cpu as usize].read = read;
            self.store(self.base(cpu) + offset::CONSUMED as usize, read);
        }
        Ok(((read - start) / PAGE64) as usize)
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
    /// When the mapping cannot be read (never, in practice).
    pub fn peek(&mut self, cpu: u32, now: u64) -> Result<Option<(Vec<u8>, u32)>> {
        let position = self.position(cpu);
        let page = (position - 1) / PAGE64 * PAGE64;
        let from = self.cpus[cpu as usize].peeked.max(page + u64::from(HEADER));
        if position <= from || self.cpus[cpu as usize].read != page {
            return Ok(None);
        }
        let used = (position - page) as u32;
        let Some(bytes) = self.copy_partial(cpu, page, used, now)? else {
            return Ok(None);
        };
        self.cpus[cpu as usize].peeked = position;
        Ok(Some((bytes, (from - page) as u32)))
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

    fn copy_partial(&self, cpu: u32, page: u64, used: u32, now: u64) -> Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; PAGE as usize];
        self.mapping.copy_out(self.page_at(cpu, page), &mut bytes)?;
        let committed = self.committed(cpu, page);
        if committed != used - HEADER || self.position(cpu) != page + u64::from(used) {
            return Ok(None);
        }
        let mut put = |at: u32, value: u64| bytes[at as usize..][..8].copy_from_slice(&value.to_le_bytes());
        put(
            packet::offset::TIMESTAMP_END,
            now.max(self.load(self.base(cpu) + offset::LAST_TIME as usize)),
        );
        put(packet::offset::CONTENT_SIZE, u64::from(used) * 8);
        put(packet::offset::DISCARDED, self.discarded(cpu));
        let events = self.load(self.page_at(cpu, page) + packet::offset::COMMITTED as usize) >> 32;
        put(
            packet::offset::COMMITTED,
            u64::from(CAPACITY + SEALED) | events << 32,
        );
        Ok(Some(bytes))
    }

    /// The rest of a ring that nobody writes any more: the page in use, sealed. A writer that was stopped between reserve and commit
    /// leaves it unfinished: then `None`.
    ///
    /// # Errors
    /// When the mapping cannot be read (never, in practice).
    pub fn last(&self, cpu: u32, now: u64) -> Result<Option<Vec<u8>>> {
        let position = self.position(cpu);
        let page = (position - 1) / PAGE64 * PAGE64;
        let used = (position - page) as u32;
        if used <= HEADER || self.cpus[cpu as usize].read != page {
            return Ok(None);
        }
        self.copy_partial(cpu, page, used, now)
    }

    /// Positions from the oldest page still there (overwrite mode) or not yet read (stream mode) to the page in use.
    pub fn skip_overwritten(&mut self, cpu: u32) {
        let page = (self.position(cpu) - 1) / PAGE64 * PAGE64;
        let oldest = (page + PAGE64).saturating_sub(u64::from(self.geometry.data()));
        let ring = &mut self.cpus[cpu as usize];
        if self.geometry.mode == Mode::Overwrite {
            ring.read = ring.read.max(oldest);
        }
    }

    /// Whether every reservation of a CPU has been committed: nobody is in the middle of a record.
    pub fn is_quiet(&self, cpu: u32) -> bool {
        let position = self.position(cpu);
        let page = (position - 1) / PAGE64 * PAGE64;
        let used = (position - page) as u32;
        self.committed(cpu, page) == used - HEADER
            && (page < PAGE64
                || page - PAGE64 < self.cpus[cpu as usize].read
                || self.is_whole(cpu, page - PAGE64))
    }

    /// Records refused on a CPU.
    pub fn discarded(&self, cpu: u32) -> u64 {
        self.load(self.base(cpu) + offset::DISCARDED as usize)
    }

    /// Counts of an event number on a CPU.
    pub fn counts(&self, cpu: u32, event: u16) -> Counts {
        let at = self.base(cpu) + self.geometry.counter(event) as usize;
        debug_assert_eq!(COUNTER, 16);
        Counts {
            recorded: self.load(at),
            refused: self.load(at + 8),
        }
    }
}
