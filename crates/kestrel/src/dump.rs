//! Dumping: a running session's buffers copied into a trace directory while it goes on recording. Nothing is taken from the buffers.
//!
//! What each ring holds is noted for all of them at once; then they are copied one after the other, and what was overwritten before its turn came
//! is counted. The trace appears at its place when it is whole.

use crate::buffer::Buffer;
use crate::buffer::snapshot::{Copied, Stretch};
use crate::error::{Error, Result};
use crate::review::{Progress, Review, counts, review, tally};
use crate::session::control::Control;
use crate::session::gate::MESSAGES;
use kestrel_kernel::Host;
use kestrel_kernel::procfs::{self, ClockPair};
use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::write::Written;
use kestrel_trace::decode::EventTable;
use kestrel_trace::info::{ClockOffset, TraceInfo};
use kestrel_trace::print::{are, counted, were};
use kestrel_trace::process::Processes;
use kestrel_trace::summary::Summary;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A session as a dump sees it.
#[derive(Debug)]
pub struct Source<'a> {
    /// All of its buffers, by number.
    pub buffers: &'a [Buffer],
    /// Its control page.
    pub control: &'a Control,
    /// Its trace, with all kinds of record.
    pub info: &'a TraceInfo,
    /// Names of threads that it has kept.
    pub threads: Processes,
}

/// What of it is wanted.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Names of buffers; none: all but that of the agent's messages.
    pub buffers: Vec<String>,
    /// Only what is not older.
    pub since: Option<Duration>,
}

/// What came of it.
#[derive(Debug)]
pub struct Dumped {
    /// Where it lies.
    pub path: PathBuf,
    /// How much was written.
    pub written: Written,
    /// What was counted, with what a reader should know in its notes.
    pub summary: Summary,
    /// Packets overwritten after the dump began, before they were copied.
    pub overwritten: u64,
}

/// A ring that is to be copied.
struct Part<'a> {
    number: u32,
    buffer: &'a Buffer,
    cpu: u32,
    since_ns: u64,
    stretch: Stretch,
}

/// Writes a trace of what the buffers hold now to `path`, which must be free or hold an old trace, which is replaced. `progress` is told how
/// many packets of the trace were looked through.
///
/// # Errors
/// A buffer that is not there, or what writing meets; then nothing is left at `path` that was not there before.
pub fn dump(
    source: &Source<'_>,
    request: &Request,
    path: &Path,
    host: &Host,
    progress: Option<Progress>,
) -> Result<Dumped> {
    if !directory::is_free(path)? {
        return Err(kestrel_trace::Error::Occupied { path: path.into() }.into());
    }
    let beside = directory::beside_of(path);
    let dumped = match write(source, request, &beside, host, progress) {
        // What lies there is somebody else's, who writes a trace to the same place.
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
        // What is left of it is of no use; that removing it may fail, too, changes nothing.
        let _ = directory::discard(&beside);
    }
    let mut dumped = dumped?;
    path.clone_into(&mut dumped.path);
    Ok(dumped)
}

fn write(
    source: &Source<'_>,
    request: &Request,
    path: &Path,
    host: &Host,
    progress: Option<Progress>,
) -> Result<Dumped> {
    let chosen = choose(source, &request.buffers)?;
    let mut info = source.info.clone();
    info.buffers
        .retain(|buffer| chosen.iter().any(|(number, _)| *number == buffer.place()));
    let classes = info.events.clone();
    let events = EventTable::new(classes.iter().cloned());
    let mut writer = directory::create(path, info, true)?;
    let clocks = ClockPair::now();
    let parts = parts(source, &chosen, request.since, clocks.monotonic);
    let mut tally = tally(chosen.iter().copied(), &classes);
    let mut notes = Vec::new();
    let mut overwritten = 0;
    let mut pages = Vec::new();
    for (place, number, buffer) in each(&chosen) {
        let mut all = Copied::default();
        let mut cut = false;
        for part in parts.iter().filter(|part| part.number == number) {
            pages.clear();
            let now = procfs::monotonic();
            let (cpu, since_ns) = (part.cpu, part.since_ns);
            let ring = part.buffer.ring();
            let copied = ring.copy_stretch(cpu, part.stretch, since_ns, now, &events, &mut pages)?;
            all.add(copied);
            cut |= since_ns > 0;
            let appended = writer.append(number, cpu, &pages);
            appended.map_err(|error| error.within(path))?;
        }
        if cut {
            // Of the rest nobody can say whether it was overwritten or just not asked for.
            let of_this = tally.iter_mut().filter(|((of, _, _), _)| *of == number);
            of_this.for_each(|(_, counts)| counts.recorded = 0);
        }
        overwritten += all.overwritten;
        remark(buffer, place, source.control, all, &mut notes);
    }
    let seen = review(path, &classes, source.threads.clone(), host, progress)?;
    let (started_ns, duration_ns) = span(&seen, clocks.monotonic, source.info.clock);
    let summary = Summary {
        version: source.info.tracer_version.clone(),
        command: source.info.command.clone(),
        started_ns,
        duration_ns,
        events: counts(&classes, &tally, &seen.recorded),
        missed: None,
        notes,
        cut_short: None,
    };
    let written = writer.finish(&summary, &seen.symbols, &seen.processes)?;
    Ok(Dumped {
        path: path.to_owned(),
        written,
        summary,
        overwritten,
    })
}

/// The buffers wanted, with their numbers.
fn choose<'a>(source: &Source<'a>, names: &[String]) -> Result<Vec<(u32, &'a Buffer)>> {
    let all = || (0..).zip(source.buffers);
    if names.is_empty() {
        return Ok(all().filter(|(_, buffer)| buffer.name() != MESSAGES).collect());
    }
    let mut chosen: Vec<(u32, &Buffer)> = Vec::new();
    for name in names {
        let Some(found) = all().find(|(_, buffer)| buffer.name() == name) else {
            return Err(no_buffer(source.buffers, name));
        };
        if chosen.iter().all(|(number, _)| *number != found.0) {
            chosen.push(found);
        }
    }
    Ok(chosen)
}

/// Numbers of the buffers that are frozen, thawed or reset under these names; no names: all but that of the agent's messages.
///
/// # Errors
/// When there is none of a name; it names those that can be meant. [`Error::AgentsBuffer`] for that of the messages.
pub fn numbers(buffers: &[Buffer], names: &[String]) -> Result<Vec<u32>> {
    let own: Vec<&str> = buffers.iter().map(Buffer::name).collect();
    steered(&own, names)
}

fn steered(buffers: &[&str], names: &[String]) -> Result<Vec<u32>> {
    let all = (0..).zip(buffers).filter(|(_, buffer)| **buffer != MESSAGES);
    let all: Vec<(u32, &str)> = all.map(|(number, buffer)| (number, *buffer)).collect();
    if names.is_empty() {
        return Ok(all.iter().map(|(number, _)| *number).collect());
    }
    let number = |name: &String| match all.iter().find(|(_, buffer)| buffer == name) {
        Some((number, _)) => Ok(*number),
        None if name == MESSAGES && buffers.contains(&MESSAGES) => {
            Err(Error::AgentsBuffer { buffer: name.clone() })
        }
        None => Err(Error::NoSuchBuffer {
            wanted: name.clone(),
            known: all.iter().map(|(_, buffer)| (*buffer).to_owned()).collect(),
        }),
    };
    names.iter().map(number).collect()
}

pub(crate) fn no_buffer(buffers: &[Buffer], wanted: &str) -> Error {
    Error::NoSuchBuffer {
        wanted: wanted.to_owned(),
        known: buffers.iter().map(|buffer| buffer.name().to_owned()).collect(),
    }
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
    source: &Source<'a>,
    chosen: &[(u32, &'a Buffer)],
    since: Option<Duration>,
    now: u64,
) -> Vec<Part<'a>> {
    let since = since.map_or(0, |since| now.saturating_sub(since.as_nanos() as u64));
    let mut parts = Vec::new();
    for (place, number, buffer) in each(chosen) {
        let since_ns = since.max(source.control.since(place));
        for cpu in buffer.ring().cpus() {
            parts.push(Part {
                number,
                buffer,
                cpu,
                since_ns,
                stretch: buffer.ring().stretch(cpu, since_ns),
            });
        }
    }
    parts
}

/// What a reader should know of a buffer.
fn remark(buffer: &Buffer, number: u32, control: &Control, copied: Copied, notes: &mut Vec<String>) {
    let name = buffer.name();
    if copied.overwritten > 0 {
        notes.push(format!(
            "{} of buffer {name} {} overwritten while copying",
            counted(copied.overwritten, "packet"),
            were(copied.overwritten)
        ));
    }
    if copied.unfinished > 0 {
        notes.push(format!(
            "{} of buffer {name} {} copied while a record was written; {} behind it {} missing",
            counted(copied.unfinished, "packet"),
            were(copied.unfinished),
            counted(copied.torn, "record"),
            are(copied.torn)
        ));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_of_messages_is_the_agents() {
        let all = ["m", MESSAGES, "n"];
        let asked = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            steered(&all, &names).map_err(|error| error.to_string())
        };
        assert_eq!(asked(&[]), Ok(vec![0, 2]));
        assert_eq!(asked(&["n"]), Ok(vec![2]));
        let said = asked(&["m", MESSAGES]).unwrap_err();
        assert!(said.contains("is the agent's"), "{said}");
        assert_eq!(
            asked(&["x"]).unwrap_err(),
            "the session has no buffer x; it has m, n"
        );
    }
}
