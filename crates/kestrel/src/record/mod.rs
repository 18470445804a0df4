//! Recording: a session's buffers drained into a trace directory, or several one after another, and at the end what is needed to read each anywhere.

mod finish;
mod switching;

use crate::agent::{Act, Lost, MessageReader};
use crate::session::Session;
use crate::user_symbols::{UserCode, holds_user_stacks};
use kestrel_catalog::Result;
use kestrel_hook::buffer::Buffer;
use kestrel_hook::buffer::borrow::{Part, records_in, write_lent};
use kestrel_hook::buffer::cursor::Unread;
use kestrel_hook::buffer::name::MESSAGES;
use kestrel_hook::buffer::reader::Ring;
use kestrel_kernel::Host;
use kestrel_kernel::barrier::wait_for_running_programs;
use kestrel_kernel::mmap::Mapping;
use kestrel_kernel::procfs::{self, ClockPair};
use kestrel_trace::calls::Kept;
use kestrel_trace::ctf::directory::{self, Directory};
use kestrel_trace::ctf::packed::StreamOut;
use kestrel_trace::ctf::read::Reader;
use kestrel_trace::ctf::write::{Writer, Written};
use kestrel_trace::decode::EventTable;
use kestrel_trace::info::TraceInfo;
use kestrel_trace::packet::PAGE;
use kestrel_trace::process::Processes;
use kestrel_trace::summary::Summary;
use kestrel_trace::symbol::Symbols;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use switching::{EndingThread, SharedCode, Totals};

pub use crate::postprocess::Progress;
pub use crate::user_symbols::with_lines;
use kestrel_catalog::symbols::shows_addresses;
pub use kestrel_catalog::symbols::{all_symbols, symbols_for};
pub use switching::{CompletedDirectory, directory_at};

/// Bytes of the disk set aside for the summary: so many for each event and ring, but not fewer and not more than these.
const ROW: u64 = 192;
const MIN_RESERVE: u64 = 8 << 10;
const MAX_RESERVE: u64 = 1 << 20;

/// A recording in progress.
#[derive(Debug)]
pub struct Recorder {
    writer: Writer<Directory>,
    session: Session,
    events: EventTable,
    path: PathBuf,
    level: Option<u8>,
    pages: Vec<u8>,
    clocks: ClockPair,
    begun: Instant,
    /// Threads that end the directories before this one, and what was written to them and counted until then.
    ending_threads: Vec<EndingThread>,
    before: Written,
    counted: Totals,
    ended: Option<Duration>,
    /// The system's error when a page could not be written, and records that could not be, by buffer, event number and CPU.
    failed: Option<String>,
    unwritten: BTreeMap<(u32, u16, u32), u64>,
    /// Of the pages that could not be written those that were all the same: the first so many of that buffer and CPU.
    spared: BTreeMap<(u32, u32), u64>,
    /// Reader of the messages by which records ask user space for something: not in the trace.
    messages: MessageReader,
    /// Whether a writer woke the reader for the last poll.
    woken: bool,
    /// Records in the pages that were written.
    on_file: u64,
    /// Parts of the buffers that could not be read at the end.
    unread: Unread,
    /// Names of the processes that were there at the start, some of which may be gone at the end.
    names: Processes,
    /// Where stacks of processes are recorded: what is known of their code, and whether the last poll found any that had just been mapped.
    code: Option<SharedCode>,
    /// Descriptors that are readable when code was mapped.
    code_bells: Vec<OwnedFd>,
    code_mapped: bool,
}

/// Progress of a recording: writers go on meanwhile, so it is of about one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingProgress {
    /// Records on file and in the rings.
    pub events: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Records lost.
    pub lost: u64,
    /// Records overwritten.
    pub overwritten: u64,
}

/// Result of a recording.
#[derive(Debug)]
pub struct Recorded {
    /// The trace's directory.
    pub path: PathBuf,
    /// Amount written.
    pub written: Written,
    /// Counts of records and losses, by event and CPU.
    pub summary: Summary,
    /// Masked, still attached: dropping it detaches, which takes the kernel a while for some kinds of events.
    pub session: Session,
    /// Symbols of the code of processes, where their stacks are recorded or counted.
    pub code: Option<UserCode>,
}

impl Recorded {
    /// Records written, of all kinds.
    pub fn records(&self) -> u64 {
        self.summary.events.iter().map(|e| e.recorded).sum()
    }
}

/// The buffers whose records are the trace, by number.
fn recorded(session: &Session) -> impl Iterator<Item = (u32, &Buffer)> {
    let buffers = (0..).zip(session.buffers());
    buffers.filter(|(_, buffer)| buffer.name() != MESSAGES)
}

impl Recorder {
    /// Begins to record a session into a directory, which must be empty or not exist (or, with `replace`, hold an old trace). Hooks stay
    /// masked until [`Recorder::start`].
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn create(session: Session, path: &Path, replace: bool) -> Result<Self> {
        Self::create_packed(session, path, replace, None)
    }

    /// Begins to record as [`Recorder::create`] does; with a level, streams are compressed by zstd at that.
    ///
    /// # Errors
    /// As [`Recorder::create`].
    pub fn create_packed(session: Session, path: &Path, replace: bool, level: Option<u8>) -> Result<Self> {
        let writer = begin(&session, path, replace, level)?;
        let events = EventTable::new(session.classes().iter().cloned());
        let messages = MessageReader::new(events.clone());
        let wanted = holds_user_stacks(session.classes()) || session.has_user_stacks_in_maps();
        let code = match wanted {
            true => Some(UserCode::follow(session.host())?),
            false => None,
        };
        let code_bells = code.iter().flat_map(UserCode::fds);
        let code_bells: std::io::Result<Vec<OwnedFd>> =
            code_bells.map(|fd| fd.try_clone_to_owned()).collect();
        Ok(Self {
            code_bells: code_bells.map_err(no_bell)?,
            writer,
            events,
            level,
            ending_threads: Vec::new(),
            before: Written::default(),
            counted: Totals::default(),
            names: running(session.host()),
            session,
            messages,
            path: path.to_owned(),
            pages: Vec::new(),
            clocks: ClockPair::now(),
            begun: Instant::now(),
            ended: None,
            failed: None,
            unwritten: BTreeMap::new(),
            spared: BTreeMap::new(),
            woken: false,
            on_file: 0,
            unread: Unread::default(),
            code: code.map(|code| Arc::new(Mutex::new(code))),
            code_mapped: false,
        })
    }

    /// Keeps inlined functions and source lines of user stacks, too: debug information is read for them when the recording ends.
    pub fn keep_lines(&mut self) {
        if let Some(code) = &self.code {
            code.lock().unwrap_or_else(PoisonError::into_inner).want_lines();
        }
    }

    /// Keeps what the lines of system calls need beside their records.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep_calls(&mut self, calls: &Kept) -> Result<()> {
        Ok(self.writer.keep_calls(calls)?)
    }

    /// Descriptors that a reader sleeps on: the session's bell, and where stacks of processes are recorded the news that one has mapped code.
    pub fn bells(&self) -> Vec<BorrowedFd<'_>> {
        // After a change comes a pause that others do not end: a program maps several files as it starts.
        let code = self.code_bells.iter().filter(|_| !self.code_mapped);
        self.session
            .bell()
            .into_iter()
            .chain(code.map(AsFd::as_fd))
            .collect()
    }

    /// Lets events in.
    pub fn start(&mut self) {
        self.begun = Instant::now();
        self.session.activate();
    }

    /// The session that records.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Amount written so far, to the directories before, too.
    pub fn written(&self) -> Written {
        let now = self.writer.written();
        Written {
            streams: self.before.streams + now.streams,
            packets: self.before.packets + now.packets,
            bytes: self.before.bytes + now.bytes,
        }
    }

    /// The directory at hand.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes written so far to the directory at hand.
    pub fn size(&self) -> u64 {
        self.writer.written().bytes
    }

    /// Progress so far.
    pub fn so_far(&self) -> RecordingProgress {
        let mut sum = RecordingProgress {
            events: self.on_file,
            bytes: self.written().bytes,
            ..RecordingProgress::default()
        };
        for (_, buffer) in recorded(&self.session) {
            let ring = buffer.ring();
            for cpu in ring.cpus() {
                let status = ring.status(cpu, 0);
                sum.events += ring.events_unfreed(cpu);
                sum.bytes += status.held;
                sum.lost += status.lost;
                sum.overwritten += status.overwritten;
            }
        }
        sum
    }

    /// Writes every page that is whole (in overwrite mode nothing: the ring keeps the newest until the end). Gives the number of pages.
    ///
    /// # Errors
    /// When the disk is full or the like; what was written before is a whole trace. [`Recorder::stop`] and [`Recorder::finish`] then count
    /// what could not be written.
    ///
    /// The session's bell then wakes who sleeps until there is more: look at the messages, too, before.
    pub fn poll(&mut self) -> Result<usize> {
        self.session.maps_mut().sweep()?;
        self.session.follow_cpus()?;
        self.session.follow_modules();
        // A directory that is being ended may have it: perf's rings keep what comes meanwhile.
        if let Some(code) = &self.code
            && let Ok(mut code) = code.try_lock()
        {
            self.code_mapped = code.poll()?.has_mapped;
        }
        let mut pages = 0;
        if self.failed.is_some() {
            return Ok(0);
        }
        for (number, buffer) in recorded(&self.session) {
            for cpu in buffer.ring().cpus() {
                let (writer, path) = (&mut self.writer, &self.path);
                let (failed, spared) = (&mut self.failed, &mut self.spared);
                let on_file = &mut self.on_file;
                let ring = buffer.ring();
                if let Some(part) = ring.unread_tail(cpu, ring.in_use(cpu), &self.events)? {
                    give(writer, (number, cpu), ring, &part, on_file).map_err(|error| {
                        *failed = Some(error.reason());
                        error.within(path)
                    })?;
                    pages += 1;
                }
                pages += ring.borrow_pages(cpu, &mut |memory, range| {
                    let mut write = |stream: &mut StreamOut, done| {
                        write_lent(memory, range.start + done..range.end, stream)
                    };
                    let before = writer.packets(number, cpu);
                    let appended = writer.append_with(number, cpu, range.len(), &mut write);
                    if appended.is_ok() {
                        *on_file += records_in(memory, range.clone());
                    }
                    Ok(appended.map_err(|error| {
                        *failed = Some(error.reason());
                        spared.insert((number, cpu), writer.packets(number, cpu) - before);
                        error.within(path)
                    })?)
                })?;
            }
        }
        // Behind the pages that were just freed, and before messages are looked at.
        self.woken = self.session.listen()?;
        Ok(pages)
    }

    /// Whether the next poll is due in a moment: a writer woke the reader, maybe a little before the page that filled the ring was whole, or code was mapped.
    pub fn was_woken(&self) -> bool {
        self.woken || self.code_mapped
    }

    /// Performs what records ask of user space, in the order of their times. Gives their number.
    ///
    /// # Errors
    /// Errors of `act`.
    pub fn poll_messages(&mut self, act: &mut Act<'_>) -> Result<usize> {
        let mut buffers = self.session.buffers().iter();
        match buffers.find(|buffer| buffer.name() == MESSAGES) {
            Some(buffer) => self.messages.poll(buffer, act),
            None => Ok(0),
        }
    }

    /// Messages that wait for their turn although they were looked at.
    pub fn waiting_messages(&self) -> u64 {
        self.messages.waiting() as u64
    }

    /// Messages that were lost since the last call, because they came faster than they were taken.
    pub fn take_lost_messages(&mut self) -> Option<Lost> {
        let mut buffers = self.session.buffers().iter();
        let buffer = buffers.find(|buffer| buffer.name() == MESSAGES)?;
        let lost = self.messages.take_lost(buffer);
        lost.map(|lost| Lost {
            before: false,
            ..lost
        })
    }

    /// Masks the hooks and writes what is left in the rings; where a write had failed, counts it.
    ///
    /// # Errors
    /// As [`Recorder::poll`].
    pub fn stop(&mut self) -> Result<()> {
        self.session.deactivate();
        self.ended = Some(self.begun.elapsed());
        self.settle();
        // A failed write does not end this: what the rings hold is counted as lost, event by event.
        let mut stopped = Ok(());
        for (number, buffer) in recorded(&self.session) {
            for cpu in buffer.ring().cpus() {
                self.pages.clear();
                let now = procfs::monotonic();
                let ring = buffer.ring();
                self.unread += ring.drain_abandoned(cpu, now, &self.events, &mut self.pages)?;
                let mut spared = self.spared.get(&(number, cpu)).copied().unwrap_or(0);
                if self.failed.is_none() {
                    let before = self.writer.packets(number, cpu);
                    if let Err(error) = self.writer.append(number, cpu, &self.pages) {
                        self.failed = Some(error.reason());
                        // Packets that reached the file before the write failed are not lost.
                        spared = self.writer.packets(number, cpu) - before;
                        stopped = Err(error.within(&self.path).into());
                    }
                }
                if self.failed.is_some() {
                    let written = (spared as usize * PAGE as usize).min(self.pages.len());
                    let pages = self.pages[written..].to_vec();
                    count(self.writer.info(), (number, cpu), pages, &mut self.unwritten)?;
                }
            }
        }
        if self.failed.is_none()
            && let Err(error) = self.writer.settle()
        {
            self.failed = Some(error.reason());
            stopped = Err(error.within(&self.path).into());
        }
        if self.failed.is_some() {
            for (of, pages) in self.writer.waiting() {
                count(self.writer.info(), of, pages.to_vec(), &mut self.unwritten)?;
            }
        }
        stopped
    }

    /// Waits until no writer is between reserve and commit: a moment mostly, and for every running program where a CPU stands still in the middle.
    fn settle(&self) {
        let quiet = |buffer: &Buffer| {
            let ring = buffer.ring();
            ring.cpus().all(|cpu| ring.is_quiet(cpu))
        };
        let quiet = || self.session.buffers().iter().all(quiet);
        std::thread::sleep(Duration::from_micros(200));
        if quiet() || wait_for_running_programs().is_ok() {
            return;
        }
        // A kernel that cannot be asked leaves it to time.
        let deadline = Instant::now() + Duration::from_millis(50);
        while Instant::now() < deadline && !quiet() {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Begins a trace of a session; some of the disk is set aside for its summary.
fn begin(session: &Session, path: &Path, replace: bool, level: Option<u8>) -> Result<Writer<Directory>> {
    let writer = directory::create_packed(path, session.info().clone(), replace, level)?;
    let rings = session
        .buffers()
        .iter()
        .map(|buffer| buffer.ring().cpus().count());
    let rows = rings.sum::<usize>() * session.classes().len();
    writer
        .folder()
        .reserve((rows as u64 * ROW).clamp(MIN_RESERVE, MAX_RESERVE));
    Ok(writer)
}

/// Writes records of one page as a packet of their own, then acknowledges them in the ring.
fn give(
    writer: &mut Writer<Directory>,
    (number, cpu): (u32, u32),
    ring: &Ring<Mapping>,
    part: &Part,
    on_file: &mut u64,
) -> kestrel_trace::Result<()> {
    if part.records > 0 {
        writer.append(number, cpu, part.bytes.as_slice())?;
        *on_file += u64::from(part.records);
    }
    ring.acknowledge(cpu, part.end);
    Ok(())
}

fn no_bell(error: std::io::Error) -> kestrel_catalog::Error {
    kestrel_catalog::Error::Unsupported {
        what: "following what processes map".to_owned(),
        why: error.to_string(),
    }
}

/// Counts records of a buffer's CPU that are not in the trace.
fn count(
    info: &TraceInfo,
    (number, cpu): (u32, u32),
    pages: Vec<u8>,
    unwritten: &mut BTreeMap<(u32, u16, u32), u64>,
) -> Result<()> {
    let mut left = Reader::new(info.clone(), vec![(String::new(), Cursor::new(pages))]);
    while let Some((_, record)) = left.next_in()? {
        *unwritten.entry((number, record.event.id.0, cpu)).or_default() += 1;
    }
    Ok(())
}

/// Names of the processes that run now; threads that end before their records are looked through go by their process's.
fn running(host: &Host) -> Processes {
    let mut names = Processes::default();
    for pid in procfs::processes(host).unwrap_or_default() {
        if let Ok(name) = procfs::comm_bytes(host, pid) {
            names.insert(pid, name);
        }
    }
    names
}

/// Names for what a session shows live: the kernel's where it shows addresses, read when the first comes; else none.
pub fn live_symbols(session: &Session, host: &Host) -> Symbols {
    match shows_addresses(session.classes()) {
        true => {
            let host = host.clone();
            Symbols::default().with_elsewhere(0..0, move || kestrel_catalog::symbols::live_symbols(&host))
        }
        false => Symbols::default(),
    }
}
