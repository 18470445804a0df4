//! Names for the stacks of processes: their memory maps followed while a recording runs, the binaries in them held open, and at the end names for the places that records need.
//!
//! ```text
//!   /proc at the start ─┐
//!   perf's side band ───┴► memory_maps ──► binaries (open files, build ids) ──► naming (blazesym, debug files, perf maps) ──► UserSymbols of the trace
//!                                             └─► unwind_tables ─► unwinding (framehop): frames of copied stacks ──► Unwound of the trace
//! ```
//!
//! `live` names places while records are shown; a dump of what was recorded before has only what processes have mapped at its time.

mod binaries;
mod live;
mod memory_maps;
mod naming;
mod perf_map;
mod unwind_tables;
mod unwinding;

use binaries::Binaries;
use kestrel_catalog::Result;
use kestrel_kernel::perf::side_band::{MemoryChange, MemoryEvent, SideBand};
use kestrel_kernel::{Host, procfs};
use kestrel_trace::event::EventClass;
use kestrel_trace::print::counted;
use kestrel_trace::record::Record;
use kestrel_trace::unwound::Unwound;
use kestrel_trace::user_symbol::{Binary, Mapping, UserSymbols, code_address, has_code};
use kestrel_trace::value::StackCopy;
pub use live::LiveNames;
use memory_maps::MemoryMaps;
pub(crate) use naming::Naming;
use naming::Needed;
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::os::fd::BorrowedFd;
pub(crate) use unwind_tables::own_vdso;
use unwinding::Unwinding;

/// Result of polling the side band.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Polled {
    /// All changes until this time are known, ns.
    pub(crate) until_ns: u64,
    /// Whether code was mapped.
    pub(crate) has_mapped: bool,
}

/// ns of a clock tick in /proc (`USER_HZ` is 100 on all architectures that Kestrel knows).
const TICK: u64 = 10_000_000;

/// Whether records of these classes hold stacks of processes.
pub(crate) fn holds_user_stacks(classes: &[EventClass]) -> bool {
    let mut fields = classes.iter().flat_map(|class| class.layout.fields());
    fields.any(|field| has_code(&field.ty))
}

/// Knowledge about the code of processes: their mappings and binaries.
#[derive(Debug)]
pub struct UserCode {
    host: Host,
    /// Changes of the processes' mappings; none where only those of one time are known.
    band: Option<SideBand>,
    maps: MemoryMaps,
    binaries: Binaries,
    /// Changes that others, not read yet, may come before.
    waiting: Vec<(MemoryEvent, u32)>,
    /// Changes that found no room in the side band.
    lost: u64,
    needed: Needed,
    /// Processes of records whose memory was never seen: they had ended before.
    gone: HashSet<u32>,
    unwinding: Unwinding,
    unwound: Unwound,
    naming: Naming,
}

/// Frames of a copied stack where one binary alone is mapped, and what their code is called: without a process, for files of any origin.
pub fn frames_of(
    file: File,
    mapping: &Mapping,
    copy: &StackCopy<'_>,
    lines: bool,
    host: &Host,
) -> (Vec<u64>, Binary) {
    let mut binaries = Binaries::new(host);
    let number = binaries.add_open("", file);
    let mapping = Mapping {
        binary: number,
        ..*mapping
    };
    let found = Unwinding::default().frames(copy, 0, [mapping].iter(), &binaries);
    let inside = |address: &&u64| mapping.covers(mapping.from_ns, **address);
    let places = found
        .addresses
        .iter()
        .filter(inside)
        .map(|address| mapping.place(*address));
    let places: BTreeSet<u64> = places.collect();
    let namer = naming::Namer::new(Naming::with(lines));
    let named = binaries
        .get(number)
        .map(|binary| naming::of_file(binary, &places, &namer, host));
    (found.addresses, named.unwrap_or_default())
}

/// The names of a trace with inlined functions and source lines, as far as the binaries are still there in the same build.
pub fn with_lines(known: &UserSymbols, host: &Host) -> UserSymbols {
    naming::with_lines(known, host)
}

impl UserCode {
    /// Begins to follow all processes, and looks at what is mapped already.
    ///
    /// # Errors
    /// When perf's side band cannot be opened.
    pub(crate) fn follow(host: &Host) -> Result<Self> {
        let band = SideBand::open(host)?;
        // A file that is mapped meanwhile is seen twice, which is no harm.
        Self::look(host, Some(band))
    }

    /// Looks at what all processes have mapped now: what a record of before means by it, as long as its process goes on with the same program.
    ///
    /// # Errors
    /// When processes cannot be listed.
    pub(crate) fn at_present(host: &Host) -> Result<Self> {
        Self::look(host, None)
    }

    fn look(host: &Host, band: Option<SideBand>) -> Result<Self> {
        let is_followed = band.is_some();
        let mut code = Self {
            host: host.clone(),
            band,
            maps: MemoryMaps::default(),
            binaries: Binaries::new(host),
            waiting: Vec::new(),
            lost: 0,
            needed: Needed::default(),
            gone: HashSet::new(),
            naming: Naming::default(),
            unwinding: Unwinding::default(),
            unwound: Unwound::default(),
        };
        // Start times are of the clock that goes on in suspend, in ticks.
        let suspended = procfs::boottime().saturating_sub(procfs::monotonic());
        for pid in procfs::processes(host)? {
            let began = match is_followed {
                true => 0,
                false => procfs::start_time(host, pid).map_or(0, |ticks| ticks.saturating_mul(TICK)),
            };
            code.look_at(pid, began.saturating_sub(suspended));
        }
        Ok(code)
    }

    /// Asks for names of inlined functions and source lines, too.
    pub(crate) fn want_lines(&mut self) {
        self.naming.lines = true;
    }

    /// Says how code is named.
    fn name_by(&mut self, naming: Naming) {
        self.naming = naming;
    }

    /// Takes a process's memory map as it is now, for records since `from_ns`; a process that has gone has none.
    fn look_at(&mut self, pid: u32, from_ns: u64) {
        for mapped in procfs::maps(&self.host, pid).unwrap_or_default() {
            if mapped.permissions.execute {
                let binary = self.binaries.mapped(pid, &mapped);
                self.maps.found(pid, &mapped, binary, from_ns);
            }
        }
    }

    /// Readable when a process has mapped code, whose file is found as long as the process lives.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.band.iter().flat_map(SideBand::fds)
    }

    /// Takes what changed since the last call.
    ///
    /// # Errors
    /// When a ring of the side band makes no sense.
    pub(crate) fn poll(&mut self) -> Result<Polled> {
        let before = procfs::monotonic();
        let mut mapped = false;
        let (waiting, binaries) = (&mut self.waiting, &mut self.binaries);
        let Some(band) = &mut self.band else {
            return Ok(Polled {
                until_ns: before,
                has_mapped: false,
            });
        };
        self.lost += band.read(&mut |event| {
            // At once: the process, and with it the way to its files, may soon be gone.
            let binary = match &event.change {
                MemoryChange::Map(mapping) => {
                    mapped = true;
                    binaries.changed(event.pid, mapping, event.time_ns)
                }
                _ => 0,
            };
            waiting.push((event, binary));
        })?;
        self.take_until(before);
        Ok(Polled {
            until_ns: before,
            has_mapped: mapped,
        })
    }

    /// Takes changes in the order of their times, across CPUs. Those from after the reading began may have others before them in rings that were read first.
    fn take_until(&mut self, time_ns: u64) {
        self.waiting.sort_by_key(|(event, _)| event.time_ns);
        let ready = self.waiting.partition_point(|(event, _)| event.time_ns < time_ns);
        for (event, binary) in self.waiting.drain(..ready) {
            self.maps.change(&event, binary);
        }
    }

    /// Takes all that is left: the recording has ended.
    ///
    /// # Errors
    /// As [`UserCode::poll`].
    pub(crate) fn end(&mut self) -> Result<()> {
        self.poll()?;
        self.take_until(u64::MAX);
        Ok(())
    }

    /// Notes that a record needs a name for a code address of a process.
    pub(crate) fn need(&mut self, pid: u32, time_ns: u64, address: u64) {
        let mapping = self.maps.locate(pid, time_ns, address);
        if mapping.is_none() && self.maps.at(pid, time_ns).next().is_none() {
            self.gone.insert(pid);
        }
        self.needed.add(pid, address, mapping);
    }

    /// Finds the frames of a record that holds a copy of its process's stack.
    pub(crate) fn unwind(&mut self, record: &Record<'_>) {
        let Some(copy) = record.stack_copy() else { return };
        let mappings = self.maps.at(record.pid, record.time_ns);
        let frames = self.unwinding.frames(&copy, record.pid, mappings, &self.binaries);
        for (index, address) in frames.addresses.iter().enumerate() {
            self.need(record.pid, record.time_ns, code_address(*address, index == 0));
        }
        self.unwound
            .insert(record.key(), &frames.addresses, frames.truncated);
    }

    /// The frames that were found in copies of stacks.
    pub(crate) fn take_unwound(&mut self) -> Unwound {
        std::mem::take(&mut self.unwound)
    }

    /// Names for all that is needed, and what else a reader should know.
    pub(crate) fn name(&mut self) -> (UserSymbols, Vec<String>) {
        // The next request is another trace's.
        let (needed, gone) = (std::mem::take(&mut self.needed), std::mem::take(&mut self.gone));
        let named = naming::name(&needed, &self.binaries, &self.host, self.naming);
        let mut notes = named.remarks();
        if !gone.is_empty() {
            notes.push(format!(
                "{} had ended, or begun another program, before what {} mapped was looked at: {} code has no names",
                counted(gone.len() as u64, "process"),
                if gone.len() == 1 { "it had" } else { "they had" },
                if gone.len() == 1 { "its" } else { "their" },
            ));
        }
        let truncated = self.unwound.truncated();
        if truncated > 0 {
            notes.push(format!(
                "{} truncated: not all frames lie in the bytes that were copied",
                counted(truncated, "stack")
            ));
        }
        if self.lost > 0 {
            notes.push(format!(
                "{} of memory maps lost: some code of processes has no name",
                counted(self.lost, "change")
            ));
        }
        if self.maps.forgotten() > 0 {
            notes.push(format!(
                "the memory maps of {} that ended first were dropped: their code has no names",
                counted(self.maps.forgotten(), "process")
            ));
        }
        (named, notes)
    }
}
