//! Output of programs: records of ring buffers and perf event arrays, and lines of `bpf_printk`.

use super::map::BpfMap;
use super::running::Running;
use kestrel_bpf::btf::{Btf, TypeId};
use kestrel_catalog::Result;
use kestrel_kernel::Host;
use kestrel_kernel::bpf::{MapKind, PerfOutput, PerfRecord, RingBuffer};
use kestrel_kernel::tracefs::{Instance, Tracefs};

/// An output record of a program.
#[derive(Clone, Copy, Debug)]
pub struct Record<'r> {
    /// The map's name.
    pub map: &'r str,
    /// The CPU, where the kind of map has one per record.
    pub cpu: Option<u32>,
    /// The bytes that the program has written.
    pub data: &'r [u8],
    /// The type, where the map names one.
    pub ty: Option<(&'r Btf, TypeId)>,
}

/// The readers of an object's ring buffers and perf event arrays.
#[derive(Debug)]
pub struct Outputs {
    rings: Vec<(usize, RingBuffer)>,
    arrays: Vec<(usize, PerfOutput)>,
    lost: u64,
}

impl Outputs {
    /// Opens ring buffers and perf event arrays. Records that programs wrote into perf event arrays before are lost: attach after this.
    ///
    /// # Errors
    /// [`kestrel_catalog::Error::Kernel`].
    pub fn open(running: &Running) -> Result<Self> {
        let (mut rings, mut arrays) = (Vec::new(), Vec::new());
        let host = running.loaded().kernel.host();
        for (index, map) in running.maps().iter().enumerate() {
            match map.info().kind {
                MapKind::RINGBUF => rings.push((index, RingBuffer::open(map)?)),
                MapKind::PERF_EVENT_ARRAY => arrays.push((index, PerfOutput::open(host, map)?)),
                _ => {}
            }
        }
        Ok(Self {
            rings,
            arrays,
            lost: 0,
        })
    }

    /// Whether the object has neither.
    pub fn is_empty(&self) -> bool {
        self.rings.is_empty() && self.arrays.is_empty()
    }

    /// Passes on the records since the last call.
    ///
    /// # Errors
    /// [`kestrel_catalog::Error::Kernel`] if a ring is damaged.
    pub fn read(&mut self, running: &Running, mut each: impl FnMut(Record<'_>)) -> Result<()> {
        let record = |map: &BpfMap, cpu, data: &[u8], each: &mut dyn FnMut(Record<'_>)| {
            each(Record {
                map: map.name(),
                cpu,
                data,
                ty: map.value_type(),
            });
        };
        for (index, ring) in &mut self.rings {
            let Some(map) = running.maps().get(*index) else {
                continue;
            };
            ring.read(|data| record(map, None, data, &mut each))?;
        }
        for (index, array) in &mut self.arrays {
            let Some(map) = running.maps().get(*index) else {
                continue;
            };
            array.read(|cpu, entry| match entry {
                PerfRecord::Data(data) => record(map, Some(cpu), data, &mut each),
                PerfRecord::Lost(count) => self.lost += count,
            })?;
        }
        Ok(())
    }

    /// Records lost in perf event arrays, which count them. A ring buffer reports a loss only to the program that writes.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// The lines that programs write with `bpf_printk`, in a tracefs instance of our own: other readers lose none.
#[derive(Debug)]
pub struct Printk {
    instance: Instance,
    rest: String,
}

impl Printk {
    /// Begins to read lines.
    ///
    /// # Errors
    /// [`kestrel_catalog::Error::Kernel`] if tracefs has no such event, or cannot be mounted.
    pub fn open(host: &Host) -> Result<Self> {
        let tracefs = Tracefs::mount(host)?;
        let instance = Instance::create(&tracefs, host)?;
        instance.enable("bpf_trace", "bpf_trace_printk")?;
        Ok(Self {
            instance,
            rest: String::new(),
        })
    }

    /// Passes on the lines that have come, also those of other objects: the kernel does not name the program. Empty ones, of strings that end a line
    /// themselves, are left out.
    ///
    /// # Errors
    /// [`kestrel_catalog::Error::Kernel`].
    pub fn read(&mut self, mut each: impl FnMut(&str)) -> Result<()> {
        let new = self.instance.read()?;
        self.rest.push_str(&new);
        while let Some((line, rest)) = self.rest.split_once('\n') {
            if !line.is_empty() {
                each(line);
            }
            self.rest = rest.to_owned();
        }
        Ok(())
    }
}
