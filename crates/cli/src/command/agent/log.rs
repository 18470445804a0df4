//! The agent's log files: options, the thread that writes them, and reports about them.

use super::session_filter::SessionFilter;
use crate::exit::{Exit, Failure};
use crate::style::bytes;
use clap::Args;
use kestrel::agent::log::{Finished, LogNews, Logs, Note, Progress, Rotation, Settings};
use kestrel::agent::user::User;
use kestrel::kernel::process::set_niceness;
use kestrel::kernel::{Host, readable};
use kestrel_trace::print::{counted, thousands};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Options of the log.
#[derive(Args, Debug)]
pub(super) struct LogOptions {
    /// Write the records of stream buffers to trace files below this directory
    #[arg(long, value_name = "DIR", value_parser = crate::arguments::directory())]
    log: Option<PathBuf>,
    /// Log only this buffer (may be repeated) [default: all with `mode = stream`]
    #[arg(long = "log-buffer", value_name = "NAME", requires = "log")]
    buffers: Vec<String>,
    /// Start a new file at this size
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = crate::arguments::nonzero_bytes, requires = "log")]
    rotate_size: u64,
    /// Start a new file after this time
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = crate::arguments::duration, requires = "log")]
    rotate_time: Duration,
    /// Keep the newest N files of each session; without it all of them
    #[arg(long, value_name = "N", requires = "log", value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
}

/// The pause where no page has come and the writer of the next ones will end it.
const PAUSE_WITH_BELL: Duration = Duration::from_millis(250);
/// The pause between two polls while the buffers are less full than [`FULL_ENOUGH`].
const BUSY: Duration = Duration::from_millis(10);
/// The pause after a writer has woken this thread.
const AT_ONCE: Duration = Duration::from_millis(1);
/// The fill of a buffer from which it is polled without a pause.
const FULL_ENOUGH: f64 = 0.25;
/// Interval of searches for sessions that were started or stopped.
const SESSIONS: Duration = Duration::from_millis(500);
/// Niceness of the thread: a reader that runs late loses events.
const NICENESS: i32 = -10;

/// The settings of the log; `None` without `--log`.
pub(super) fn settings(options: &LogOptions, user: Option<User>) -> Option<Settings> {
    let directory = options.log.clone()?;
    Some(Settings {
        directory,
        buffers: options.buffers.clone(),
        rotation: Rotation {
            size: options.rotate_size,
            time: options.rotate_time,
            keep: options.keep.map(|keep| keep as usize),
        },
        user,
    })
}

/// The thread that writes the logs.
pub(super) struct Keeper {
    stop: Arc<AtomicBool>,
    progress: Arc<Mutex<Vec<Progress>>>,
    thread: JoinHandle<Result<Exit, Failure>>,
}

impl Keeper {
    /// Starts the thread if `--log` was given; with `once` it ends when the buffers are empty.
    pub(super) fn begin(
        options: &LogOptions,
        user: Option<User>,
        host: &Host,
        chosen: &SessionFilter,
        once: bool,
    ) -> Result<Option<Self>, Failure> {
        let Some(settings) = settings(options, user) else {
            return Ok(None);
        };
        let logs = Logs::open(settings, host)?;
        let stop = Arc::new(AtomicBool::new(once));
        let progress = Arc::default();
        let (flag, shared, chosen) = (Arc::clone(&stop), Arc::clone(&progress), chosen.clone());
        let thread = std::thread::spawn(move || keep_logs(logs, &chosen, &flag, &shared));
        Ok(Some(Self {
            stop,
            progress,
            thread,
        }))
    }

    /// Finishes the log files and waits for the thread.
    pub(super) fn end(self) -> Result<Exit, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let died = |_| {
            Err(Failure::new(
                Exit::Internal,
                "the thread that keeps the logs failed",
            ))
        };
        self.thread.join().unwrap_or_else(died)
    }

    /// The progress of each session's log.
    pub(super) fn progress(&self) -> Vec<Progress> {
        self.progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn keep_logs(
    mut logs: Logs,
    chosen: &SessionFilter,
    stop: &AtomicBool,
    progress: &Mutex<Vec<Progress>>,
) -> Result<Exit, Failure> {
    // Without the right to, it goes on as it is.
    let _ = set_niceness(NICENESS);
    let is_chosen = |name: &str| chosen.is(name);
    let mut notes = Vec::new();
    logs.clear_up(&is_chosen, &mut notes)?;
    let mut looked: Option<Instant> = None;
    let mut woken = false;
    loop {
        if looked.is_none_or(|at| at.elapsed() >= SESSIONS) {
            logs.find(&is_chosen, &mut notes)?;
            looked = Some(Instant::now());
        }
        let pages = logs.poll(&mut notes);
        *progress.lock().unwrap_or_else(PoisonError::into_inner) = logs.progress();
        report_notes(&mut notes);
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match logs.bells() {
            Some(bells) if pages == 0 && !woken => woken = readable::wait(&bells, PAUSE_WITH_BELL),
            // A writer wakes a moment before its page is whole.
            _ if std::mem::take(&mut woken) => std::thread::sleep(AT_ONCE),
            _ if pages == 0 || logs.fill() < FULL_ENOUGH => std::thread::sleep(BUSY),
            _ => {}
        }
    }
    logs.close(&mut notes);
    let failed = notes
        .iter()
        .any(|note| matches!(note.what, LogNews::NotEnded(_) | LogNews::Stalled(_)));
    report_notes(&mut notes);
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn report_notes(notes: &mut Vec<Note>) {
    for note in notes.drain(..) {
        let session = &note.session;
        match &note.what {
            LogNews::Begun(buffers) => eprintln!("session {session}: keeping {}", buffers.join(", ")),
            LogNews::Nothing(why) => eprintln!("session {session}: nothing to keep: {why}"),
            LogNews::Taken => eprintln!("session {session}: another agent keeps its log"),
            LogNews::Stalled(error) => eprintln!(
                "session {session}: {error}; what is in the buffers waits there, what finds no room is counted, and it is tried again"
            ),
            LogNews::GoesOn => eprintln!("session {session}: the log goes on"),
            LogNews::Finished(finished) => report_finished(session, finished),
            LogNews::NotEnded(error) => {
                eprintln!("session {session}: a log file could not be ended: {error}; it is tried again");
            }
            LogNews::Resized => {
                eprintln!("session {session}: a buffer was resized; its log goes on in another file")
            }
            LogNews::Ended => eprintln!("session {session}: it has ended, and its log is whole"),
        }
    }
}

fn report_finished(session: &str, finished: &Finished) {
    let Some(path) = &finished.path else { return };
    let lost = match finished.lost {
        0 => String::new(),
        lost => format!(", {} lost", thousands(lost)),
    };
    let removed = match finished.removed {
        0 => String::new(),
        1 => ", an old one removed".to_owned(),
        more => format!(", {more} old ones removed"),
    };
    eprintln!(
        "session {session}: {} holds {}, {}{lost}{removed}",
        path.display(),
        counted(finished.records, "record"),
        bytes(finished.bytes)
    );
    for (path, why) in &finished.not_removed {
        eprintln!("session {session}: {} cannot be removed: {why}", path.display());
    }
}
