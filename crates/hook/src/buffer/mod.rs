//! Buffers: named sets of per-CPU rings in kernel memory. One module each for their layout, the code that writes them, their memory and counters, the bell that
//! wakes a reader, the cursors that read them, and pages lent to a writer of files.

pub mod bell;
pub mod borrow;
pub mod checkpoint;
pub mod cursor;
pub mod layout;
pub mod memory;
pub mod name;
pub mod reader;
pub mod status;
pub mod writer;

use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, sys};
use kestrel_kernel::mmap::{Access, Mapping};
use kestrel_kernel::{Host, procfs};
use kestrel_trace::info::BufferInfo;
use layout::Geometry;
use reader::{Counts, Ring, RingSpec};
use std::os::fd::AsFd;
use std::thread;
use writer::map_name;

/// A buffer in kernel memory: its BPF map, and the rings in that map as they are mapped into this process.
#[derive(Debug)]
pub struct Buffer {
    name: String,
    /// Number of times it has been resized.
    resized: u32,
    map: Map,
    ring: Ring<Mapping>,
    /// The buffer as it was before the last resize, for its records; no program writes there any more.
    before: Option<Box<Buffer>>,
}

/// First character of the name of a ring that only holds the place of a removed buffer. No text of a table can name such a ring.
pub const REMOVED: char = '-';

/// Checks that the machine has memory for buffers of these shapes.
///
/// # Errors
/// [`Error::Unsupported`] with the memory that is needed and the memory that is available.
pub fn check_memory(shapes: impl IntoIterator<Item = Geometry>, cpus: &[u32], host: &Host) -> Result<()> {
    let regions = shapes.into_iter().map(|shape| u64::from(shape.region()));
    let needed = regions.sum::<u64>() * u64::from(reader::entries(cpus));
    let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
    match procfs::available_memory(host) {
        Ok(available) if needed > available => Err(Error::Unsupported {
            what: format!(
                "buffers that take {} MiB on {} CPUs",
                mebibytes(needed),
                cpus.len()
            ),
            why: format!("{} MiB of memory are available", mebibytes(available)),
        }),
        // Where it is not known how much there is (the /proc of a test), creating the buffers shows whether there is enough.
        _ => Ok(()),
    }
}

impl Buffer {
    /// Creates a buffer: the map, its mapping, and the part of each page's header that never changes.
    ///
    /// # Errors
    /// The kernel's, when there is no memory or no privilege.
    pub fn create(name: &str, spec: &RingSpec<'_>) -> Result<Self> {
        let region = spec.geometry.region();
        let entries = spec.entries();
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let map_name = format!("kestrel_{}", name.chars().map(plain).collect::<String>());
        let map = Map::create(
            &MapSpec::new(MapKind::ARRAY, &map_name, 4, region, entries).with_flags(sys::MAP_MMAPABLE),
        )?;
        let len = region as usize * entries as usize;
        let mapping = Mapping::new(map.as_fd(), 0, len, Access::ReadWrite)?;
        Ok(Self {
            name: name.to_owned(),
            resized: spec.number >> 16,
            map,
            ring: format(mapping, spec)?,
            before: None,
        })
    }

    /// Opens an existing buffer, as [`Buffer::create`] made it, with its contents. A stream buffer is read on from where its last reader stopped, an
    /// overwriting one from its oldest page.
    ///
    /// `cpus` and `geometry` must be those that it was created with.
    ///
    /// # Errors
    /// When the kernel refuses, or the map is smaller than the geometry demands.
    pub fn open(name: &str, map: Map, geometry: Geometry, cpus: &[u32]) -> Result<Self> {
        let entries = reader::entries(cpus);
        let len = geometry.region() as usize * entries as usize;
        let mapping = Mapping::new(map.as_fd(), 0, len, Access::ReadWrite)?;
        Ok(Self {
            name: name.to_owned(),
            resized: 0,
            map,
            ring: Ring::open(mapping, geometry, cpus),
            before: None,
        })
    }

    /// The buffer with the number of times that it has been resized, and the buffer as it was before the last time.
    #[must_use]
    pub fn resized(self, times: u32, before: Option<Self>) -> Self {
        Self {
            resized: times,
            before: before.map(Box::new),
            ..self
        }
    }

    /// The buffer as it was before the last resize, which is kept until the next one.
    pub fn before(&self) -> Option<&Self> {
        self.before.as_deref()
    }

    /// The parts of the buffer, before and after its last resize, each with the number that its packets have; `place` is the buffer's index in its session.
    pub fn parts(&self, place: u32) -> impl Iterator<Item = (u32, &Self)> {
        let parts = self.before().into_iter().chain(std::iter::once(self));
        parts.map(move |part| (BufferInfo::numbered(place, part.resized), part))
    }

    /// Descriptions of the parts for a trace, in the order of [`Buffer::parts`].
    pub fn infos(&self, place: u32) -> impl Iterator<Item = BufferInfo> {
        let info = |(number, part): (u32, &Self)| part.ring.geometry().info(number, &part.name);
        self.parts(place).map(info)
    }

    /// Number of times it has been resized.
    pub fn times_resized(&self) -> u32 {
        self.resized
    }

    /// Counts of an event number on a CPU since the session began.
    pub fn counts(&self, cpu: u32, event: u16) -> Counts {
        // The ring of a resized buffer begins with the counts of the rings before the previous one (`Ring::inherit`), so two are added.
        let of = |ring: &Ring| ring.counts(cpu, event);
        let now = of(&self.ring);
        self.before().map_or(now, |before| {
            let earlier = of(&before.ring);
            Counts {
                recorded: now.recorded + earlier.recorded,
                lost: now.lost + earlier.lost,
            }
        })
    }

    /// Records lost since the session began.
    pub fn lost(&self) -> u64 {
        let of = |part: &Self| part.ring.cpus().map(|cpu| part.ring.lost(cpu)).sum::<u64>();
        of(self) + self.before().map_or(0, of)
    }

    /// Of the records lost, those that came while the buffer was frozen.
    pub fn lost_frozen(&self) -> u64 {
        let of = |part: &Self| {
            let ring = &part.ring;
            ring.cpus().map(|cpu| ring.lost_frozen(cpu)).sum::<u64>()
        };
        of(self) + self.before().map_or(0, of)
    }

    /// The buffer's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name by which programs refer to the buffer's map.
    pub fn map_name(&self) -> String {
        map_name(&self.name)
    }

    /// Whether it only holds the place of a buffer that was removed.
    pub fn is_removed(&self) -> bool {
        self.name.starts_with(REMOVED)
    }

    /// The buffer's map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The rings of all CPUs.
    pub fn ring(&self) -> &Ring<Mapping> {
        &self.ring
    }
}

/// The part of a session's buffers whose packets have this number, if it still exists.
pub fn numbered(buffers: &[Buffer], number: u32) -> Option<&Buffer> {
    let (place, resized) = BufferInfo::split(number);
    let buffer = buffers.get(place as usize)?;
    let parts = [Some(buffer), buffer.before()];
    parts.into_iter().flatten().find(|part| part.resized == resized)
}

/// Bytes of rings that one thread lays out; for more, other threads help.
const SHARE: u64 = 4 << 20;

/// Writes the headers of all pages, by several threads where there are many: the first touch of a page takes longer than the writing.
fn format(mapping: Mapping, spec: &RingSpec<'_>) -> Result<Ring> {
    let ring = Ring::open(mapping, spec.geometry, spec.cpus);
    let shares = u64::from(spec.geometry.region()) * spec.cpus.len() as u64 / SHARE;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(spec.cpus.len()).min(shares as usize).max(1);
    let mut parts = spec.cpus.chunks(spec.cpus.len().div_ceil(threads).max(1));
    let own = parts.next().unwrap_or_default();
    thread::scope(|scope| {
        let ring = &ring;
        let mut helpers = Vec::new();
        for part in parts {
            let work = move || ring.format_cpus(part, spec);
            match thread::Builder::new().spawn_scoped(scope, work) {
                Ok(helper) => helpers.push(helper),
                // The system has no more threads for us: this one does the work.
                Err(_) => ring.format_cpus(part, spec)?,
            }
        }
        ring.format_cpus(own, spec)?;
        helpers.into_iter().try_for_each(|helper| match helper.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    Ok(ring)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_exceed_free_memory_are_refused_before_they_are_made() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::new(root.path());
        let shape = |bytes| [Geometry::new(layout::Mode::Overwrite, bytes, 8)];
        assert!(
            check_memory(shape(256 << 20), &[0, 1], &host).is_ok(),
            "nobody knows"
        );
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let meminfo = "MemTotal: 999999999 kB\nMemAvailableX: 1 kB\nMemAvailable:  409600 kB\n";
        std::fs::write(root.path().join("proc/meminfo"), meminfo).unwrap();
        assert!(check_memory(shape(64 << 20), &[0, 1, 2, 3], &host).is_ok());
        let error = check_memory(shape(256 << 20), &[0, 1], &host).unwrap_err();
        assert_eq!(
            error.to_string(),
            "buffers that take 513 MiB on 2 CPUs: 400 MiB of memory are available"
        );
    }
}
