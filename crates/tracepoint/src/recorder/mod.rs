//! Recording inside the process: each thread writes records of the enabled events into a ring of its own. A page of a ring is a packet of a trace, with the
//! same layout as in Kestrel's kernel rings, so that one reader serves both.
//!
//! ```text
//! event ─► keep (own) ─► ring: pages ─┬─► stream: a thread writes whole pages to a file of each ring
//!                                     ├─► overwriting: written at the end, on a panic or signal, or when it is asked for
//!                                     └─► an image of the process's memory: `kestrel recover`
//! ```

mod clock;
mod cpu;
mod ends;
mod files;
mod memory;
mod metadata;
mod names;
mod own;
mod ring;
mod session;

pub use own::keep;

use crate::callbacks::Registration;
use crate::event::Event;
use crate::events::{events, matching};
use crate::place::fits;
use clock::Clock;
use kestrel_layout::packet::PAGE;
use memory::Memory;
use metadata::About;
use session::{Extent, Session, SessionParts};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Environment variable that starts a recording in a program which does not start one itself: `FOLDER[,overwrite][,ring=BYTES][,memory=FILE]`, read by
/// [`crate::init`]. The events are those that [`crate::VARIABLE`] names, or all.
pub const RECORD: &str = "KESTREL_TRACEPOINTS_RECORD";

/// Behaviour of a full ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A record that finds the ring full is lost and counted. A background thread writes full pages to files to make room.
    Stream,
    /// The oldest page is overwritten: a flight recorder.
    Overwrite,
}

/// Options of a recording: folder, behaviour of full rings, size, events.
#[derive(Clone, Debug)]
pub struct Options {
    folder: PathBuf,
    mode: Mode,
    ring_bytes: u64,
    memory: Option<PathBuf>,
    signals: bool,
    patterns: Vec<String>,
}

impl Options {
    /// Options of a recording into `folder`, which must be empty or not exist yet.
    pub fn new(folder: impl Into<PathBuf>, mode: Mode) -> Self {
        Self {
            folder: folder.into(),
            mode,
            ring_bytes: 2 << 20,
            memory: None,
            signals: true,
            patterns: Vec::new(),
        }
    }

    /// Sets the size of each thread's ring in bytes (default: 2 MiB), rounded up to a power of two of pages, at least four. Memory is taken as pages are used.
    #[must_use]
    pub fn ring_bytes(self, ring_bytes: u64) -> Self {
        Self { ring_bytes, ..self }
    }

    /// Puts the rings into a file, which is created anew, instead of the process's own memory. `kestrel recover` reads them from there even when the process was
    /// killed by a signal that cannot be handled (SIGKILL).
    #[must_use]
    pub fn memory(self, file: impl Into<PathBuf>) -> Self {
        Self {
            memory: Some(file.into()),
            ..self
        }
    }

    /// Sets whether the rings are written to files when a signal kills the process (default: yes).
    #[must_use]
    pub fn signals(self, signals: bool) -> Self {
        Self { signals, ..self }
    }

    /// Adds the events that match a pattern ([`matching`]) to those that are recorded from the start.
    #[must_use]
    pub fn events(mut self, pattern: impl Into<String>) -> Self {
        self.patterns.push(pattern.into());
        self
    }

    /// Parses the value of the environment variable [`RECORD`].
    pub(crate) fn parse(text: &str) -> io::Result<Self> {
        let wrong = |word: &str| {
            let why = format!("{RECORD}: {word} is no FOLDER[,overwrite][,ring=BYTES][,memory=FILE]");
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        };
        let mut words = text.split(',');
        let Some(folder) = words.next().filter(|folder| !folder.is_empty()) else {
            return wrong(text);
        };
        let mut options = Self::new(folder, Mode::Stream);
        for word in words {
            match word.split_once('=') {
                None if word == "overwrite" => options.mode = Mode::Overwrite,
                Some(("memory", file)) => options = options.memory(file),
                Some(("ring", bytes)) => match bytes.parse() {
                    Ok(bytes) => options.ring_bytes = bytes,
                    Err(_) => return wrong(word),
                },
                _ => return wrong(word),
            }
        }
        Ok(options)
    }

    /// Pages of each ring: a power of two, at least four.
    fn pages(&self) -> u64 {
        let bytes = self.ring_bytes.clamp(4 * u64::from(PAGE), 1 << 32);
        bytes.div_ceil(u64::from(PAGE)).next_power_of_two()
    }
}

/// Totals of a recording that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Records written to the rings, including those that were overwritten later.
    pub recorded: u64,
    /// Events without a record: the ring was full, the thread had no ring, or the event came while the thread was writing another record, as from a signal handler.
    pub lost: u64,
    /// Bytes written to files.
    pub bytes: u64,
    /// Threads that are shown by the name of the process: 65,536 others have names.
    pub unnamed: u64,
}

/// A running recording of the process's events, which ends when it is stopped or dropped. A process has one at a time.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// use kestrel_tracepoint::{Mode, Options, Recorder};
/// # let folder = std::env::temp_dir().join(format!("kestrel-example-{}", std::process::id()));
/// # _ = std::fs::remove_dir_all(&folder);
/// let recorder = Recorder::start(Options::new(&folder, Mode::Stream).events("server:*"))?;
/// // … events happen …
/// let recorded = recorder.stop()?;
/// assert_eq!(recorded.lost, 0);
/// // `kestrel print FOLDER` and `babeltrace2 FOLDER` read it.
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Recorder {
    session: &'static Session,
    registrations: Mutex<Vec<(&'static Event, Registration)>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

fn failed(what: &str, path: &Path) -> impl FnOnce(io::Error) -> io::Error {
    let what = format!("cannot {what} {}", path.display());
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

impl Recorder {
    /// Starts a recording.
    ///
    /// # Errors
    /// When the folder is not empty; when the folder or the memory of the rings cannot be created; when the process is recording already; when the code that emits
    /// an event cannot be patched.
    pub fn start(options: Options) -> io::Result<Self> {
        if cfg!(target_endian = "big") {
            let why = "records are little-endian: this processor is not";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let folder = std::path::absolute(&options.folder)?;
        let occupied = std::fs::read_dir(&folder).is_ok_and(|mut all| all.next().is_some());
        if occupied {
            let why = format!("cannot record to {}: something lies there", folder.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        let events = numbered();
        cpu::start();
        let clock = Clock::start();
        let uuid = random()?;
        let is_overwriting = options.mode == Mode::Overwrite;
        let pages = options.pages();
        let about = About {
            uuid,
            is_overwriting,
            pages,
            clock: clock::offset(),
            events: &events,
        };
        let metadata = metadata::text(&about);
        let file = options.memory.as_deref();
        let shown = file.unwrap_or(Path::new("rings"));
        let memory = Memory::new(file).map_err(failed("create", shown))?;
        let metadata_pages = metadata::pages(&metadata, &uuid);
        // The metadata goes into the memory twice, at two places: an image of it may be damaged at one of them.
        explain(&memory, &metadata_pages).map_err(failed("take memory for", shown))?;
        let session = Session::new(SessionParts {
            is_overwriting,
            pages,
            head: ring::head(&uuid),
            memory,
            folder: std::os::unix::ffi::OsStrExt::as_bytes(folder.as_os_str()).to_vec(),
            metadata,
        })
        .map_err(failed("take memory for", shown))?;
        explain(session.memory(), &metadata_pages).map_err(failed("take memory for", shown))?;
        if !session.begin() {
            let why = "the process records already: a recording ends when its Recorder is dropped";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
        }
        // From here on an early return drops the recorder, which ends the recording.
        let mut recorder = Self {
            session,
            registrations: Mutex::default(),
            is_over: Arc::default(),
            thread: None,
        };
        if !is_overwriting {
            session.make_folder().map_err(failed("write to", &folder))?;
        }
        let is_over = Arc::clone(&recorder.is_over);
        let builder = thread::Builder::new().name("tracepoint-ring".to_owned());
        let thread = builder.spawn(move || run(session, clock, &is_over))?;
        session.set_bell(thread.thread().clone());
        recorder.thread = Some(thread);
        ends::watch(options.signals);
        for pattern in &options.patterns {
            recorder.enable(pattern)?;
        }
        Ok(recorder)
    }

    /// Starts to record the events that match a pattern ([`matching`]) as well; gives how many were not recorded before.
    ///
    /// # Errors
    /// When the code that emits an event cannot be patched, or its record has no room in a page. Events enabled before that one remain enabled.
    pub fn enable(&self, pattern: &str) -> io::Result<usize> {
        let mut registrations = self.registrations();
        let mut count = 0;
        for event in matching(pattern) {
            if registrations.iter().any(|(other, _)| std::ptr::eq(*other, event)) {
                continue;
            }
            if !fits(event.fields()) {
                let why = format!("a record of {event} has no room in a page of {PAGE} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            if event.number() == 0 {
                let why = format!("{event} came after the recording's start, whose events are those of then");
                return Err(io::Error::new(io::ErrorKind::NotFound, why));
            }
            registrations.push((event, event.record()?));
            count += 1;
        }
        Ok(count)
    }

    /// Stops recording the events that match a pattern; gives how many of them were recorded until then.
    pub fn disable(&self, pattern: &str) -> usize {
        let events = matching(pattern);
        let mut registrations = self.registrations();
        let is_meant = |event: &'static Event| events.iter().any(|other| std::ptr::eq(*other, event));
        let (gone, left): (Vec<_>, Vec<_>) = std::mem::take(&mut *registrations)
            .into_iter()
            .partition(|(event, _)| is_meant(event));
        *registrations = left;
        // Unlocks before `gone` is dropped: dropping a registration waits for callbacks that run, and these may call `enable` or `disable`.
        drop(registrations);
        gone.len()
    }

    /// Number of events lost so far.
    pub fn lost(&self) -> u64 {
        self.session.counts().0
    }

    /// Whether timestamps come from the processor's cycle counter rather than from the kernel's clock by a call.
    pub fn is_clock_counted(&self) -> bool {
        clock::is_counted()
    }

    /// Writes everything recorded so far to the trace's folder, while other threads go on emitting.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn flush(&self) -> io::Result<()> {
        self.session.write(Extent::All)
    }

    /// Writes what the overwriting rings hold now to another folder, as a trace of its own.
    ///
    /// # Errors
    /// When a file cannot be written, and for a stream: its rings hold only what is not in its files yet, which [`Recorder::flush`] writes.
    pub fn dump(&self, folder: impl AsRef<Path>) -> io::Result<()> {
        if !self.session.is_overwriting() {
            let why = "what a stream's rings hold is written to its folder by flush()";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let folder = std::path::absolute(folder.as_ref())?;
        let path = std::os::unix::ffi::OsStrExt::as_bytes(folder.as_os_str());
        self.session.dump_to(path).map_err(failed("write to", &folder))
    }

    /// Ends the recording, writes what is left in the rings and gives the totals.
    ///
    /// # Errors
    /// When something could not be written, now or earlier in the recording.
    pub fn stop(mut self) -> io::Result<Recorded> {
        self.end()?;
        let (lost, recorded, bytes) = self.session.counts();
        Ok(Recorded {
            recorded,
            lost,
            bytes,
            unnamed: self.session.unnamed(),
        })
    }

    /// Ends the recording at the first call; does nothing at later ones.
    #[allow(unsafe_code, reason = "the writers' part of rings")]
    fn end(&mut self) -> io::Result<()> {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let registrations = std::mem::take(&mut *self.registrations());
        let thread = self.thread.take();
        if self.session.pid() != std::process::id() {
            // This is the child of a fork, which has none of its parent's threads: to wait for them would never end.
            std::mem::forget((registrations, thread));
            return Ok(());
        }
        // Dropping the registrations waits until no thread is writing a record.
        drop(registrations);
        if let Some(thread) = thread {
            thread.thread().unpark();
            _ = thread.join();
        }
        // SAFETY: no event is recorded any more.
        unsafe { self.session.close() };
        let written = self.session.write(Extent::End);
        Session::end();
        written
    }

    fn registrations(&self) -> std::sync::MutexGuard<'_, Vec<(&'static Event, Registration)>> {
        self.registrations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A destructor cannot return the error of writing; `stop` does.
        _ = self.end();
    }
}

/// Numbers the program's events from 1 on and gives them. An event keeps its number, which stands for it in records.
fn numbered() -> Vec<&'static Event> {
    let events: Vec<&'static Event> = events().into_iter().take(usize::from(u16::MAX)).collect();
    for (number, event) in (1..).zip(&events) {
        event.set_number(number);
    }
    events
}

/// Body of the background thread: adjusts the conversion of cycle counts to the kernel's time, and writes full pages of a stream to files.
fn run(session: &'static Session, mut clock: Option<Clock>, is_over: &AtomicBool) {
    let mut last = std::time::Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        thread::park_timeout(clock::INTERVAL);
        if let Some(clock) = &mut clock
            && last.elapsed() >= clock::INTERVAL
        {
            clock.adjust();
            last = std::time::Instant::now();
        }
        if !session.is_overwriting() {
            // The session keeps a failure for `stop`. Pages that were not written are still in the ring; records that find it full are counted as lost.
            _ = session.write(Extent::Pages);
        }
    }
}

/// Copies the trace's metadata into the memory of the rings, where `kestrel recover` looks for it.
#[allow(unsafe_code, reason = "memory that nothing else knows yet")]
fn explain(memory: &Memory, pages: &[ring::Page]) -> io::Result<()> {
    let base = memory.pages(pages.len() as u64)?;
    for (at, text) in pages.iter().enumerate() {
        // SAFETY: so many pages were taken.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), base.add(at * PAGE as usize), text.len()) };
    }
    Ok(())
}

/// Random bytes for the trace's UUID.
#[allow(unsafe_code, reason = "a system call")]
fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    // SAFETY: fills the array.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match got {
        16 => Ok(bytes),
        _ => Err(io::Error::last_os_error()),
    }
}
