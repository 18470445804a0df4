//! Dumping: a running session's buffers copied into a trace directory while it goes on recording. Nothing is taken from the buffers.
//!
//! The extent of each ring is noted for all of them at once; then they are copied one after the other, and records overwritten before their turn came
//! are counted. The trace appears at its place when it is whole.

use crate::postprocess::{Progress, Review, counts, postprocess, tally};
use crate::session::store::Store;
use crate::user_symbols::{UserCode, holds_user_stacks};
use kestrel_catalog::{Error, Result};
use kestrel_hook::buffer::Buffer;
use kestrel_hook::buffer::cursor::{Begin, Cursor, Policy, Unread};
use kestrel_hook::buffer::name::{MESSAGES, no_buffer};
use kestrel_hook::hook::control::Control;
use kestrel_kernel::Host;
use kestrel_kernel::procfs::{self, ClockPair};
use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::packet::cut_before;
use kestrel_trace::ctf::write::Written;
use kestrel_trace::decode::EventTable;
use kestrel_trace::info::{ClockOffset, TraceInfo};
use kestrel_trace::print::{are, counted, were};
use kestrel_trace::process::Processes;
use kestrel_trace::summary::{Summary, note_frozen};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use kestrel_hook::buffer::name::numbers;

/// Most looks at a session that is changed at the same time.
const LOOKS: u32 = 20;

/// Bytes that are copied before they are written. A copy of a whole ring would be new memory, whose page faults are events of
/// [`exceptions:*`](../../../tables/before.kst): each dump would push as many records out of the ring as it has pages.
const AT_ONCE: usize = 256 * 1024;

/// A session as a dump sees it.
#[derive(Debug)]
struct Source<'a> {
    /// The control page.
    control: &'a Control,
    /// The trace, with all kinds of record.
    info: &'a TraceInfo,
    /// Names of threads that it has kept.
    threads: Processes,
    /// Parts to copy, as they were noted at one moment.
    parts: Vec<Part<'a>>,
    /// When that was.
    clocks: ClockPair,
}

/// Parameters of a dump.
#[derive(Clone, Debug, Default)]
pub struct DumpRequest {
    /// Names of buffers; none: all but that of the agent's messages.
    pub buffers: Vec<String>,
    /// Only records that are no older than this.
    pub since: Option<Duration>,
}

/// Result of a dump.
#[derive(Debug)]
pub struct Dumped {
    /// The trace's directory.
    pub path: PathBuf,
    /// Amount written.
    pub written: Written,
    /// Counts of the recorder, and notes that a reader should have.
    pub summary: Summary,
    /// Packets overwritten after the dump began, before they were copied.
    pub overwritten: u64,
}

/// A ring that is to be copied.
#[derive(Debug)]
struct Part<'a> {
    number: u32,
    buffer: &'a Buffer,
    cpu: u32,
    since_ns: u64,
    cursor: Cursor,
}

/// Writes a trace of what the buffers of a session (none named: the only one) hold now to `path`, which must be free or hold an old trace, which is
/// replaced. `progress` is called with the number of packets of the trace that were looked through.
///
/// A table that is loaded, or a buffer that is resized, makes other rings and kinds of record. The new state is in its place before the first
/// record goes to a new ring: so what the rings hold was noted of one state exactly when that state is still in its place afterwards.
///
/// # Errors
/// A buffer that is not there, or what writing meets; then nothing is left at `path` that was not there before.
pub fn dump(
    store: &Store,
    session: Option<&str>,
    request: &DumpRequest,
    path: &Path,
    host: &Host,
    progress: Option<Progress>,
) -> Result<Dumped> {
    if !directory::is_free(path)? {
        return Err(kestrel_trace::Error::Occupied { path: path.into() }.into());
    }
    let mut look = 0;
    loop {
        look += 1;
        let pinned = store.session(session)?;
        let found = match pinned.session() {
            Ok(found) => found,
            Err(_) if look < LOOKS && !pinned.is_current() => continue,
            Err(error) => return Err(error),
        };
        let chosen = choose(found.buffers(), &request.buffers)?;
        let clocks = ClockPair::now();
        let parts = parts(pinned.control(), &chosen, request.since, clocks.monotonic);
        if look < LOOKS && !pinned.is_current() {
            continue;
        }
        let source = Source {
            control: pinned.control(),
            info: found.info(),
            threads: found.thread_names()?,
            parts,
            clocks,
        };
        return publish(&source, &chosen, path, host, progress);
    }
}

/// Writes it beside its place, and puts it there when it is whole.
fn publish(
    source: &Source<'_>,
    chosen: &[(u32, &Buffer)],
    path: &Path,
    host: &Host,
    progress: Option<Progress>,
) -> Result<Dumped> {
    let beside = directory::staging_path(path);
    let dumped = match write(source, chosen, &beside, host, progress) {
        // Another process writes a trace to the same place.
        Err(Error::Trace(kestrel_trace::Error::Busy { .. })) => {
            return Err(kestrel_trace::Error::Busy { path: path.into() }.into());
        }
        dumped => dumped,
    };
    let dumped = dumped.and_then(|dumped| {
        directory::publish(&beside, path)?;
        Ok(dumped)
    });
    if dumped.is_err() {
        // The unfinished trace is of no use; that removing it may fail, too, changes nothing.
        let _ = directory::discard(&beside);
    }
    let mut dumped = dumped?;
    path.clone_into(&mut dumped.path);
    Ok(dumped)
}

fn write(
    source: &Source<'_>,
    chosen: &[(u32, &Buffer)],
    path: &Path,
    host: &Host,
    progress: Option<Progress>,
) -> Result<Dumped> {
    let mut info = source.info.clone();
    info.buffers
        .retain(|buffer| chosen.iter().any(|(number, _)| *number == buffer.place()));
    let classes = info.events.clone();
    let events = EventTable::new(classes.iter().cloned());
    // First: the sooner, the fewer processes of the records have ended.
    let mut code = match holds_user_stacks(&classes) {
        true => Some(UserCode::at_present(host)?),
        false => None,
    };
    let mut writer = directory::create(path, info, true)?;
    let mut tally = tally(chosen.iter().copied(), &classes);
    let mut notes = Vec::new();
    let mut overwritten = 0;
    let mut pages = Vec::new();
    for (place, number, buffer) in each(chosen) {
        let mut unread = Unread::default();
        let mut cut = false;
        for part in source.parts.iter().filter(|part| part.number == number) {
            pages.clear();
            let now = procfs::monotonic();
            let (cpu, since_ns) = (part.cpu, part.since_ns);
            let mut append = |pages: &[u8]| {
                let appended = writer.append(number, cpu, pages);
                appended.map_err(|error| error.within(path))
            };
            let mut cursor = part.cursor;
            let ring = part.buffer.ring();
            ring.follow(&mut cursor, Policy::Snapshot(&events), now, &mut |view| {
                if cut_before(view.bytes, since_ns, &events).is_ok_and(|left| left > 0) {
                    pages.extend_from_slice(view.bytes);
                }
                if pages.len() >= AT_ONCE {
                    append(&pages)?;
                    pages.clear();
                }
                Ok(ControlFlow::Continue(()))
            })?;
            append(&pages)?;
            unread += cursor.unread();
            cut |= since_ns > 0;
        }
        if cut {
            // Of the rest it is unknown whether it was overwritten or just older than what was asked for.
            let of_this = tally.iter_mut().filter(|((of, _, _), _)| *of == number);
            of_this.for_each(|(_, counts)| counts.recorded = 0);
        }
        overwritten += unread.overwritten;
        remark(buffer, place, source.control, unread, &mut notes);
    }
    let names = source.threads.clone();
    let seen = postprocess(path, &classes, names, host, code.as_mut(), progress)?;
    notes.extend(seen.notes.iter().cloned());
    let (started_ns, duration_ns) = span(&seen, source.clocks.monotonic, source.info.clock);
    let summary = Summary {
        version: source.info.tracer_version.clone(),
        command: source.info.command.clone(),
        started_ns,
        duration_ns,
        events: counts(&classes, &tally, &seen.recorded),
        frozen: Some(chosen.iter().map(|(_, buffer)| buffer.lost_frozen()).sum()),
        missed: None,
        notes,
        limits: Vec::new(),
        cut_short: None,
    };
    writer.keep_tasks(&seen.tasks)?;
    if !seen.unwound.is_empty() {
        writer.keep_unwound(&seen.unwound)?;
    }
    let written = writer.finish(&summary, &seen.symbols, &seen.processes)?;
    Ok(Dumped {
        path: path.to_owned(),
        written,
        summary,
        overwritten,
    })
}

/// The buffers wanted, with their numbers.
fn choose<'a>(buffers: &'a [Buffer], names: &[String]) -> Result<Vec<(u32, &'a Buffer)>> {
    let all = || (0..).zip(buffers).filter(|(_, buffer)| !buffer.is_removed());
    if names.is_empty() {
        return Ok(all().filter(|(_, buffer)| buffer.name() != MESSAGES).collect());
    }
    let mut chosen: Vec<(u32, &Buffer)> = Vec::new();
    for name in names {
        let Some(found) = all().find(|(_, buffer)| buffer.name() == name) else {
            return Err(no_buffer(buffers, name));
        };
        if chosen.iter().all(|(number, _)| *number != found.0) {
            chosen.push(found);
        }
    }
    Ok(chosen)
}

/// These buffers' parts, each with its buffer's place and the number in its packets.
fn each<'a>(chosen: &[(u32, &'a Buffer)]) -> impl Iterator<Item = (u32, u32, &'a Buffer)> {
    let parts = |&(place, buffer): &(u32, &'a Buffer)| {
        buffer
            .parts(place)
            .map(move |(number, part)| (place, number, part))
    };
    chosen.iter().flat_map(parts).collect::<Vec<_>>().into_iter()
}

/// All rings of these buffers, with what they hold now.
fn parts<'a>(
    control: &Control,
    chosen: &[(u32, &'a Buffer)],
    since: Option<Duration>,
    now: u64,
) -> Vec<Part<'a>> {
    let since = since.map_or(0, |since| now.saturating_sub(since.as_nanos() as u64));
    let mut parts = Vec::new();
    for (place, number, buffer) in each(chosen) {
        let since_ns = since.max(control.since(place));
        for cpu in buffer.ring().cpus() {
            parts.push(Part {
                number,
                buffer,
                cpu,
                since_ns,
                cursor: buffer.ring().cursor(cpu, Begin::Since(since_ns)),
            });
        }
    }
    parts
}

/// Remark about a buffer for readers.
fn remark(buffer: &Buffer, number: u32, control: &Control, unread: Unread, notes: &mut Vec<String>) {
    let name = buffer.name();
    if unread.overwritten > 0 {
        notes.push(format!(
            "{} of buffer {name} {} overwritten while copying",
            counted(unread.overwritten, "packet"),
            were(unread.overwritten)
        ));
    }
    if unread.unfinished > 0 {
        notes.push(format!(
            "{} of buffer {name} {} copied while a record was written; {} behind it {} missing",
            counted(unread.unfinished, "packet"),
            were(unread.unfinished),
            counted(unread.torn, "record"),
            are(unread.torn)
        ));
    }
    notes.extend(note_frozen(name, buffer.lost_frozen()));
    if control.is_frozen(number) {
        notes.push(format!("buffer {name} was frozen"));
    }
}

/// When the oldest record happened (ns since 1970, by the wall clock as it stood when the session was made, like all times of the trace), and
/// how long after it the newest.
fn span(seen: &Review, now: u64, clock: ClockOffset) -> (u64, u64) {
    let (first, last) = seen.span.unwrap_or((now, now));
    let offset = clock.seconds * 1_000_000_000 + u64::from(clock.nanoseconds);
    (offset + first, last - first)
}
