//! Events enabled by pattern: each then gives its records to a sink, as an event of tracefs that is enabled goes to the trace.

use crate::callbacks::Registration;
use crate::event::Event;
use crate::events::matching;
use crate::record::Record;
use crate::recorder::{Options, RECORD, Recorder};
use crate::watch::watch;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Names of the events that are enabled when the program starts, patterns with commas between them: what [`init`] reads.
pub const VARIABLE: &str = "KESTREL_TRACEPOINTS";

/// Consumer of the records of enabled events.
type Sink = Arc<dyn Fn(&Record<'_>) + Send + Sync>;

/// The recording that [`RECORD`] asks for: it ends with the program.
static RECORDING: Mutex<Option<Recorder>> = Mutex::new(None);

/// Enabled events, and the sink of their records.
pub(crate) struct Enabled {
    sink: Option<Sink>,
    events: Vec<(&'static Event, Registration)>,
}

static ENABLED: Mutex<Enabled> = Mutex::new(Enabled {
    sink: None,
    events: Vec::new(),
});

/// The lock of what is enabled, taken.
pub(crate) type Guard = MutexGuard<'static, Enabled>;

/// Waits for changes that go on.
pub(crate) fn guard() -> Guard {
    enabled()
}

fn enabled() -> Guard {
    ENABLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread that sees to tracers outside of the program ([`watch`]), and enables the events that [`VARIABLE`] names: their records go to the sink, or,
/// where [`RECORD`] is set, to a recording. A program calls it when it starts. Gives how many were enabled.
///
/// # Errors
/// As [`enable`] and [`Recorder::start`]; when a pattern of the variable matches no event.
pub fn init() -> io::Result<usize> {
    watch()?;
    let patterns = std::env::var_os(VARIABLE);
    let record = std::env::var_os(RECORD);
    if let Some(options) = &record {
        let recorder = Recorder::start(Options::parse(&options.to_string_lossy())?)?;
        *RECORDING.lock().unwrap_or_else(PoisonError::into_inner) = Some(recorder);
    }
    let patterns = match patterns {
        Some(patterns) => patterns.to_string_lossy().into_owned(),
        None if record.is_some() => "*:*".to_owned(),
        None => return Ok(0),
    };
    let enable = |pattern: &str| match &*RECORDING.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(recorder) => recorder.enable(pattern),
        None => enable(pattern),
    };
    let mut all = 0;
    for pattern in patterns
        .split(',')
        .map(str::trim)
        .filter(|pattern| !pattern.is_empty())
    {
        let count = enable(pattern)?;
        if count == 0 && matching(pattern).is_empty() {
            let known: Vec<String> = crate::events().iter().map(ToString::to_string).collect();
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "{VARIABLE}: no event matches {pattern}; there are {}",
                    known.join(", ")
                ),
            ));
        }
        all += count;
    }
    Ok(all)
}

/// Enables the events that match a pattern ([`matching`]); gives how many were not enabled before.
///
/// # Errors
/// When the code of the places that emit one cannot be changed; those before it are enabled then.
pub fn enable(pattern: &str) -> io::Result<usize> {
    let mut count = 0;
    for event in matching(pattern) {
        let mut enabled = enabled();
        if enabled
            .events
            .iter()
            .any(|(other, _)| std::ptr::eq(*other, event))
        {
            continue;
        }
        let sink = enabled.sink.get_or_insert_with(to_standard_error).clone();
        let registration = event.listen(move |record| sink(record), i32::MIN)?;
        enabled.events.push((event, registration));
        count += 1;
    }
    Ok(count)
}

/// Disables the events that match a pattern; gives how many were enabled.
pub fn disable(pattern: &str) -> usize {
    let events = matching(pattern);
    let mut enabled = enabled();
    let is_meant = |event: &&'static Event| events.iter().any(|other| std::ptr::eq(*other, *event));
    let (gone, left) = std::mem::take(&mut enabled.events)
        .into_iter()
        .partition(|(event, _)| is_meant(event));
    enabled.events = left;
    // Registrations wait for callbacks, which may enable and disable.
    drop(enabled);
    let gone: Vec<(&'static Event, Registration)> = gone;
    gone.len()
}

/// Whether an event is enabled.
pub fn is_enabled(event: &Event) -> bool {
    enabled()
        .events
        .iter()
        .any(|(other, _)| std::ptr::eq(*other, event))
}

/// Sets where records of events go that are enabled from now on. Without it their lines go to standard error.
pub fn set_sink(sink: impl Fn(&Record<'_>) + Send + Sync + 'static) {
    enabled().sink = Some(Arc::new(sink));
}

/// Lines like those of tracefs: thread, seconds since the sink was made, event, fields.
fn to_standard_error() -> Sink {
    let begin = Instant::now();
    Arc::new(move |record| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("?");
        let seconds = begin.elapsed().as_secs_f64();
        // Standard error may be closed.
        let _ = writeln!(
            io::stderr().lock(),
            "{name:>16} {seconds:12.6}: {}: {record}",
            record.event()
        );
    })
}
