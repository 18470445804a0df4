//! Buffers: named sets of per-CPU rings in kernel memory; their shape, their writer, their memory and counters, the bell that wakes a reader, cursors that read them, and pages lent to a writer of files, one file each.

pub mod bell;
pub mod borrow;
pub mod cursor;
pub mod layout;
pub mod mark;
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

/// A buffer in kernel memory: its map, and its rings as the mapped map shows them.
#[derive(Debug)]
pub struct Buffer {
    name: String,
    /// How often it has been resized.
    resized: u32,
    map: Map,
    ring: Ring<Mapping>,
    /// What it was before it was last resized: no program writes there any more.
    before: Option<Box<Buffer>>,
}

/// What the name of a ring begins with that only keeps the place of a removed buffer: no text of a table can name it.
pub const REMOVED: char = '-';

/// Whether there is memory for buffers of these shapes on this machine.
///
/// # Errors
/// [`Error::Unsupported`] with what is needed and what is there.
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
        // A kernel that does not say how much there is (a miniature /proc) answers when the buffers are made.
        _ => Ok(()),
    }
}

impl Buffer {
    /// Makes a buffer: the map, its mapping, and in every page what never changes.
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

    /// A buffer that is there already, as [`Buffer::create`] made it, with everything in it. A stream buffer goes on to be read from where its
    /// last reader stopped, an overwriting one from its oldest page.
    ///
    /// `cpus` and `geometry` are those that it was made with.
    ///
    /// # Errors
    /// The kernel's, or when the map is smaller than that.
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

    /// The buffer with the number of times that it was resized; `before` is what it was then, one time less.
    #[must_use]
    pub fn resized(self, times: u32, before: Option<Self>) -> Self {
        Self {
            resized: times,
            before: before.map(Box::new),
            ..self
        }
    }

    /// The buffer before it was last resized; there from that moment to its next.
    pub fn before(&self) -> Option<&Self> {
        self.before.as_deref()
    }

    /// The parts of the buffer, before and after its resize, each with the number in its packets; `place` is the buffer's in its session.
    pub fn parts(&self, place: u32) -> impl Iterator<Item = (u32, &Self)> {
        let parts = self.before().into_iter().chain(std::iter::once(self));
        parts.map(move |part| (BufferInfo::numbered(place, part.resized), part))
    }

    /// Buffer descriptions for the packets of its parts, in the same order.
    pub fn infos(&self, place: u32) -> impl Iterator<Item = BufferInfo> {
        let info = |(number, part): (u32, &Self)| part.ring.geometry().info(number, &part.name);
        self.parts(place).map(info)
    }

    /// How often it has been resized.
    pub fn times_resized(&self) -> u32 {
        self.resized
    }

    /// Counts of an event number on a CPU, from the beginning.
    pub fn counts(&self, cpu: u32, event: u16) -> Counts {
        // A ring that takes another's place begins with what had been counted before that one (`Ring::inherit`).
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

    /// Records lost, from the beginning.
    pub fn lost(&self) -> u64 {
        let of = |part: &Self| part.ring.cpus().map(|cpu| part.ring.lost(cpu)).sum::<u64>();
        of(self) + self.before().map_or(0, of)
    }

    /// Of these, the records that came while the buffer was frozen.
    pub fn lost_frozen(&self) -> u64 {
        let of = |part: &Self| {
            let ring = &part.ring;
            ring.cpus().map(|cpu| ring.lost_frozen(cpu)).sum::<u64>()
        };
        of(self) + self.before().map_or(0, of)
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name by which programs refer to its map.
    pub fn map_name(&self) -> String {
        map_name(&self.name)
    }

    /// Whether it only keeps the place of a buffer that was removed.
    pub fn is_removed(&self) -> bool {
        self.name.starts_with(REMOVED)
    }

    /// The map.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The rings.
    pub fn ring(&self) -> &Ring<Mapping> {
        &self.ring
    }
}

/// The part of a session's buffers whose packets bear this number, if it is there still.
pub fn numbered(buffers: &[Buffer], number: u32) -> Option<&Buffer> {
    let (place, resized) = BufferInfo::split(number);
    let buffer = buffers.get(place as usize)?;
    let parts = [Some(buffer), buffer.before()];
    parts.into_iter().flatten().find(|part| part.resized == resized)
}

/// As much memory as one thread writes the heads of pages of before another one helps, in bytes.
const SHARE: u64 = 4 << 20;

/// Lays out a ring by several threads where it is large: each page is touched for the first time, which takes longer than writing.
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
                // No more threads: it takes a little longer.
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
    fn what_does_not_fit_is_said_before_it_is_made() {
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
