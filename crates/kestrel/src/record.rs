//! Recording: a session's buffer drained into a trace directory, and at the end what is needed to read it anywhere.

use crate::buffer::layout::Mode;
use crate::catalog::Catalog;
use crate::error::Result;
use crate::session::Session;
use kestrel_kernel::Host;
use kestrel_kernel::kallsyms::Kallsyms;
use kestrel_kernel::procfs::{self, ClockPair};
use kestrel_trace::ctf::directory::{self, Directory};
use kestrel_trace::ctf::write::{Writer, Written};
use kestrel_trace::decode::EventTable;
use kestrel_trace::layout::{FieldType, Space};
use kestrel_trace::process::{Learner, Processes};
use kestrel_trace::summary::{EventCount, Summary};
use kestrel_trace::symbol::{self, Symbols};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Told how many packets of how many were looked through.
pub type Progress = Box<dyn FnMut(u64, u64)>;

/// A recording in progress.
#[derive(Debug)]
pub struct Recorder {
    session: Session,
    writer: Writer<Directory>,
    path: PathBuf,
    pages: Vec<u8>,
    clocks: ClockPair,
    begun: Instant,
    ended: Option<Duration>,
    /// Pages in which a writer never finished, and records behind such places.
    unfinished: u64,
    torn: u64,
}

/// What came of a recording.
#[derive(Debug)]
pub struct Recorded {
    /// Where it lies.
    pub path: PathBuf,
    /// How much was written.
    pub written: Written,
    /// What was counted.
    pub summary: Summary,
    /// Masked, still attached: dropping it detaches, which takes the kernel a while for some kinds of events.
    pub session: Session,
}

impl Recorded {
    /// Records written, of all kinds.
    pub fn records(&self) -> u64 {
        self.summary.events.iter().map(|e| e.recorded).sum()
    }
}

impl Recorder {
    /// Begins to record a session into a directory, which must be empty or not exist (or, with `replace`, hold an old trace). Hooks stay
    /// masked until [`Recorder::start`].
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn create(session: Session, path: &Path, replace: bool) -> Result<Self> {
        let writer = directory::create(path, session.info().clone(), replace)?;
        Ok(Self {
            session,
            writer,
            path: path.to_owned(),
            pages: Vec::new(),
            clocks: ClockPair::now(),
            begun: Instant::now(),
            ended: None,
            unfinished: 0,
            torn: 0,
        })
    }

    /// Lets events in.
    pub fn start(&mut self) {
        self.begun = Instant::now();
        self.session.activate();
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Bytes written so far.
    pub fn written(&self) -> Written {
        self.writer.written()
    }

    /// Writes every page that is whole (in overwrite mode nothing: the ring keeps the newest until the end). Gives the number of pages.
    ///
    /// # Errors
    /// When the disk is full or the like; what was written before stays a whole trace.
    pub fn poll(&mut self) -> Result<usize> {
        self.session.maps_mut().sweep()?;
        let cpus = self.session.ring().cpus();
        let mut pages = 0;
        for cpu in cpus {
            let (writer, path) = (&mut self.writer, &self.path);
            pages += self.session.ring_mut().lend(cpu, &mut |memory, range| {
                let mut write = |file: &mut File, done| {
                    let rest = range.start + done..range.end;
                    memory.write_to(rest, file.as_fd()).map_err(into_io)
                };
                let appended = writer.append_with(0, cpu, range.len(), &mut write);
                Ok(appended.map_err(|error| error.within(path))?)
            })?;
        }
        Ok(pages)
    }

    /// How full the fullest ring is, 0 to 1, if it is one that must be read in time.
    pub fn fill(&self) -> f64 {
        let ring = self.session.ring();
        match ring.geometry().mode {
            Mode::Stream => ring.fill(),
            Mode::Overwrite => 0.0,
        }
    }

    /// Masks the hooks and writes what is left in the rings.
    ///
    /// # Errors
    /// As [`Recorder::poll`].
    pub fn stop(&mut self) -> Result<()> {
        self.session.deactivate();
        self.ended = Some(self.begun.elapsed());
        self.settle();
        let events = EventTable::new(self.session.classes().iter().cloned());
        for cpu in self.session.ring().cpus() {
            self.pages.clear();
            let ring = self.session.ring_mut();
            let rest = ring.rest(cpu, procfs::monotonic(), &events, &mut self.pages)?;
            self.unfinished += rest.unfinished;
            self.torn += rest.torn;
            self.append(cpu)?;
        }
        Ok(())
    }

    /// Appends the pages at hand to a CPU's stream.
    fn append(&mut self, cpu: u32) -> Result<()> {
        let appended = self.writer.append(0, cpu, &self.pages);
        Ok(appended.map_err(|error| error.within(&self.path))?)
    }

    /// Waits until nobody is between reserve and commit, for a few milliseconds at most.
    fn settle(&self) {
        let ring = self.session.ring();
        let deadline = Instant::now() + Duration::from_millis(50);
        while Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(200));
            if ring.cpus().all(|cpu| ring.is_quiet(cpu)) {
                return;
            }
        }
    }

    /// Ends the recording (a long one takes a while: `progress` is told how far it is): counts what each event lost, finds names for the
    /// addresses and processes in it. What it returns holds the masked session: drop it to detach.
    ///
    /// # Errors
    /// When the trace cannot be read back or the rest not be written; the packets stay.
    pub fn finish(mut self, catalog: &Catalog, progress: Option<Progress>) -> Result<Recorded> {
        if self.ended.is_none() {
            self.stop()?;
        }
        let missed = self.session.missed()?;
        let seen = review(&self.path, &self.session, catalog.host(), progress)?;
        let mut summary = Summary {
            version: self.session.info().tracer_version.clone(),
            command: self.session.info().command.clone(),
            started_ns: self.clocks.realtime,
            duration_ns: self.ended.unwrap_or_default().as_nanos() as u64,
            events: self.counts(&seen.recorded),
            notes: Vec::new(),
        };
        for missed in missed {
            summary.notes.push(format!(
                "{} hits of {} were skipped by the kernel because a program was running already on that CPU",
                missed.count, missed.event
            ));
        }
        if self.unfinished > 0 {
            summary.notes.push(format!(
                "{} pages hold a record that was never finished; {} records behind it cannot be read",
                self.unfinished, self.torn
            ));
        }
        let written = self.writer.finish(&summary, &seen.symbols, &seen.processes)?;
        Ok(Recorded {
            path: self.path,
            written,
            summary,
            session: self.session,
        })
    }

    fn counts(&self, recorded: &BTreeMap<(u16, u32), u64>) -> Vec<EventCount> {
        let ring = self.session.ring();
        let overwrites = ring.geometry().mode == Mode::Overwrite;
        let mut counts = Vec::new();
        for class in self.session.classes() {
            for cpu in ring.cpus() {
                let kept = recorded.get(&(class.id.0, cpu)).copied().unwrap_or(0);
                let ring = ring.counts(cpu, class.id.0);
                let overwritten = if overwrites {
                    ring.recorded.saturating_sub(kept)
                } else {
                    0
                };
                if kept + ring.refused + overwritten > 0 {
                    counts.push(EventCount {
                        event: class.name.clone(),
                        cpu,
                        recorded: kept,
                        lost: ring.refused,
                        overwritten,
                    });
                }
            }
        }
        counts
    }
}

/// The kernel's answer as the standard library has it.
fn into_io(error: kestrel_kernel::Error) -> io::Error {
    match error.errno() {
        Some(errno) => io::Error::from_raw_os_error(errno.0),
        None => io::Error::other(error),
    }
}

/// What one pass over the finished trace finds.
struct Review {
    recorded: BTreeMap<(u16, u32), u64>,
    symbols: Symbols,
    processes: Processes,
}

fn review(path: &Path, session: &Session, host: &Host, progress: Option<Progress>) -> Result<Review> {
    let trace = directory::open(path)?;
    let (mut reader, total) = (trace.reader, trace.packets);
    if let Some(mut progress) = progress {
        reader.watch(Box::new(move |done| progress(done, total)));
    }
    let symbolic = session
        .classes()
        .iter()
        .any(|c| c.layout.fields().iter().any(|f| is_symbolic(&f.ty)));
    let mut recorded: BTreeMap<(u16, u32), u64> = BTreeMap::new();
    let mut addresses = HashSet::new();
    let mut processes = session.thread_names()?;
    let mut learner = Learner::default();
    let mut tasks = HashSet::new();
    while let Some(record) = reader.next()? {
        *recorded.entry((record.event.id.0, record.cpu)).or_default() += 1;
        if symbolic {
            symbol::addresses(&record, &mut addresses);
        }
        learner.learn(&record, &mut processes);
        tasks.insert((record.pid, record.tid));
    }
    for (pid, tid) in tasks {
        if processes.name(tid, pid).is_none()
            && let Ok(name) = procfs::comm(host, tid)
        {
            processes.insert(tid, name);
        }
    }
    let symbols = if addresses.is_empty() {
        Symbols::default()
    } else {
        kernel_symbols(host, &addresses)
    };
    Ok(Review {
        recorded,
        symbols,
        processes,
    })
}

fn is_symbolic(ty: &FieldType) -> bool {
    match ty {
        FieldType::Pointer { symbolic } => *symbolic,
        FieldType::Stack { space, .. } => *space == Space::Kernel,
        FieldType::Array { element, .. } => is_symbolic(element),
        _ => false,
    }
}

/// The kernel's names of these addresses.
fn kernel_symbols(host: &Host, addresses: &HashSet<u64>) -> Symbols {
    let Ok(table) = Kallsyms::read(host) else {
        return Symbols::default();
    };
    if table.is_restricted() {
        return Symbols::default();
    }
    all_symbols(&table).subset(addresses.iter().copied())
}

/// Names for what a session shows live: all of the kernel's where it shows addresses, else none.
pub fn live_symbols(session: &Session, host: &Host) -> Symbols {
    if !session
        .classes()
        .iter()
        .any(|c| c.layout.fields().iter().any(|f| is_symbolic(&f.ty)))
    {
        return Symbols::default();
    }
    match Kallsyms::read(host) {
        Ok(table) if !table.is_restricted() => all_symbols(&table),
        _ => Symbols::default(),
    }
}

/// All function symbols of the running kernel.
pub fn all_symbols(table: &Kallsyms) -> Symbols {
    Symbols::new(table.functions().map(|s| (s.address, 0, s.name, s.module)))
}
