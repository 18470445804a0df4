//! Recording in the process: each thread writes records of the events that are enabled into a ring of its own, whose pages are packets of a trace as Kestrel's rings in the kernel
//! have them.
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

/// Where a program records that says nothing of it itself: `FOLDER[,overwrite][,ring=BYTES][,memory=FILE]`, read by [`crate::init`]. It records the events that
/// [`crate::VARIABLE`] names, or all.
pub const RECORD: &str = "KESTREL_TRACEPOINTS_RECORD";

/// Behaviour of a full ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The newest record is lost and counted; a thread writes pages to files before that.
    Stream,
    /// The oldest page is overwritten: a flight recorder.
    Overwrite,
}

/// Options of recording.
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
    /// A recording whose trace is, or will be, in `folder`, where nothing lies yet.
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

    /// Bytes of each thread's ring, rounded up to a power of two of pages, four at least. Memory is taken as pages are used. 2 MiB without this.
    #[must_use]
    pub fn ring_bytes(self, ring_bytes: u64) -> Self {
        Self { ring_bytes, ..self }
    }

    /// Puts the rings into a file, made anew, from which `kestrel recover` reads them: also when the process is killed by a signal that no process can handle.
    #[must_use]
    pub fn memory(self, file: impl Into<PathBuf>) -> Self {
        Self {
            memory: Some(file.into()),
            ..self
        }
    }

    /// Whether rings are written when the process dies of a signal. Without this they are.
    #[must_use]
    pub fn signals(self, signals: bool) -> Self {
        Self { signals, ..self }
    }

    /// Records the events that match a pattern ([`matching`]), from the start.
    #[must_use]
    pub fn events(mut self, pattern: impl Into<String>) -> Self {
        self.patterns.push(pattern.into());
        self
    }

    /// Parses [`RECORD`].
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

    fn pages(&self) -> u64 {
        let bytes = self.ring_bytes.clamp(4 * u64::from(PAGE), 1 << 32);
        bytes.div_ceil(u64::from(PAGE)).next_power_of_two()
    }
}

/// Result of recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Records in the rings, also those that were overwritten.
    pub recorded: u64,
    /// Events that are not among them: a ring was full, there was none, or the event came within another's record.
    pub lost: u64,
    /// Bytes written to files.
    pub bytes: u64,
}

/// A recording of the process's events, until it is stopped or dropped. There is one at a time.
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
    /// Begins to record.
    ///
    /// # Errors
    /// When something lies in the folder, or it or the memory cannot be made; when the process records already; when the code of places that emit events cannot be changed.
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
        let page_texts = metadata::pages(&metadata, &uuid);
        // Twice, apart from each other: an image may have been damaged at one place.
        explain(&memory, &page_texts).map_err(failed("take memory for", shown))?;
        let session = Session::new(SessionParts {
            is_overwriting,
            pages,
            head: ring::head(&uuid),
            memory,
            folder: std::os::unix::ffi::OsStrExt::as_bytes(folder.as_os_str()).to_vec(),
            metadata,
        })
        .map_err(failed("take memory for", shown))?;
        explain(session.memory(), &page_texts).map_err(failed("take memory for", shown))?;
        if !session.begin() {
            let why = "the process records already: a recording ends when its Recorder is dropped";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
        }
        // From here on dropping it ends the recording.
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

    /// Records the events that match a pattern ([`matching`]), too; gives how many were not recorded before.
    ///
    /// # Errors
    /// When the code of places that emit one cannot be changed, or its records have no room in a page; those before it are recorded then.
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

    /// Records the events that match a pattern no more; gives how many were recorded.
    pub fn disable(&self, pattern: &str) -> usize {
        let events = matching(pattern);
        let mut registrations = self.registrations();
        let is_meant = |event: &'static Event| events.iter().any(|other| std::ptr::eq(*other, event));
        let (gone, left): (Vec<_>, Vec<_>) = std::mem::take(&mut *registrations)
            .into_iter()
            .partition(|(event, _)| is_meant(event));
        *registrations = left;
        // Their ends wait for callbacks, which may enable and disable.
        drop(registrations);
        gone.len()
    }

    /// Events lost so far.
    pub fn lost(&self) -> u64 {
        self.session.counts().0
    }

    /// Whether times come from the processor's counter instead of a call of the kernel's clock.
    pub fn is_clock_counted(&self) -> bool {
        clock::is_counted()
    }

    /// Writes all that happened so far to the trace's folder. Other threads may go on emitting.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn flush(&self) -> io::Result<()> {
        self.session.write(Extent::All)
    }

    /// Writes what the rings hold to another folder, as a trace of its own.
    ///
    /// # Errors
    /// When it cannot be written; of a stream, whose rings hold what is not in its files yet.
    pub fn dump(&self, folder: impl AsRef<Path>) -> io::Result<()> {
        if !self.session.is_overwriting() {
            let why = "what a stream's rings hold is written to its folder by flush()";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let folder = std::path::absolute(folder.as_ref())?;
        let path = std::os::unix::ffi::OsStrExt::as_bytes(folder.as_os_str());
        self.session.dump_to(path).map_err(failed("write to", &folder))
    }

    /// Ends the recording and writes what is left.
    ///
    /// # Errors
    /// When something could not be written, now or before.
    pub fn stop(mut self) -> io::Result<Recorded> {
        self.end()?;
        let (lost, recorded, bytes) = self.session.counts();
        Ok(Recorded {
            recorded,
            lost,
            bytes,
        })
    }

    #[allow(unsafe_code, reason = "the writers' part of rings")]
    fn end(&mut self) -> io::Result<()> {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let registrations = std::mem::take(&mut *self.registrations());
        let thread = self.thread.take();
        if self.session.pid() != std::process::id() {
            // The child of a fork has none of these threads, and would wait for them.
            std::mem::forget((registrations, thread));
            return Ok(());
        }
        // Waits until no thread is within a record.
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
        // What could not be written is said by `stop`.
        _ = self.end();
    }
}

/// The events of the program, each with a number, which it keeps.
fn numbered() -> Vec<&'static Event> {
    let events: Vec<&'static Event> = events().into_iter().take(usize::from(u16::MAX)).collect();
    for (number, event) in (1..).zip(&events) {
        event.set_number(number);
    }
    events
}

/// Lays the clock's line, and writes whole pages of a stream.
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
            // Kept by the session; what was not written is lost, and counted, when the ring is full.
            _ = session.write(Extent::Pages);
        }
    }
}

#[allow(unsafe_code, reason = "memory that nothing else knows yet")]
fn explain(memory: &Memory, texts: &[ring::Page]) -> io::Result<()> {
    let base = memory.pages(texts.len() as u64)?;
    for (at, text) in texts.iter().enumerate() {
        // SAFETY: so many pages were taken.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), base.add(at * PAGE as usize), text.len()) };
    }
    Ok(())
}

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
