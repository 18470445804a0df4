//! Common Trace Format (1.8 and 2) of other tracers: LTTng's kernel and user traces, and what babeltrace2, barectf and `perf data convert --to-ctf` write. Kestrel's own
//! traces are `crate::ctf`'s.

mod bits;
mod class;
mod json;
mod names;
mod stream;
mod tsdl;
mod types;

use super::foreign::Foreign;
use crate::event::EventId;
use crate::files::Folder;
use crate::info::{ClockOffset, TraceInfo};
use crate::process::Processes;
use crate::tasks::Tasks;
use class::Class;
use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stream::{RanFirst, Shared, Stream, nanoseconds};
use tsdl::{Clock, Metadata};

/// The name of the format.
pub(super) const NAME: &str = "Common Trace Format";
/// The file that describes a trace.
const METADATA: &str = crate::ctf::METADATA;
/// Most bytes of it.
const MAX: u64 = 1 << 27;
/// How deep under a folder a trace is looked for, and how many folders are looked into.
const DEPTH: u32 = 5;
const FOLDERS: usize = 1024;

/// The folders under `path` in which traces lie: LTTng puts them into folders of its own.
pub(super) fn traces_under(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut ahead = vec![(path.to_owned(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = ahead.pop() {
        seen += 1;
        if folder.join(METADATA).is_file() {
            found.push(folder);
            continue;
        }
        if depth == DEPTH || seen > FOLDERS {
            continue;
        }
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|ty| ty.is_dir()) {
                ahead.push((entry.path(), depth + 1));
            }
        }
    }
    found.sort_unstable();
    found
}

/// Whether metadata are those of Kestrel's own traces.
pub(super) fn is_own(path: &Path) -> bool {
    let mut head = Vec::new();
    let read =
        std::fs::File::open(path.join(METADATA)).and_then(|file| file.take(MAX).read_to_end(&mut head));
    read.is_ok() && crate::ctf::metadata::is_own(&head)
}

pub(super) fn open(path: &Path) -> Result<Foreign, String> {
    let in_words = |error: io::Error| error.to_string();
    let folder = Folder::followed(path).map_err(in_words)?;
    let file = folder.read(METADATA).map_err(in_words)?;
    let mut bytes = Vec::new();
    file.take(MAX + 1).read_to_end(&mut bytes).map_err(in_words)?;
    if bytes.len() as u64 > MAX {
        return Err(format!("its metadata are longer than {} MiB", MAX >> 20));
    }
    let text = tsdl::text(&bytes)?;
    let mut metadata = match json::is_json(&text) {
        true => json::parse(&text)?,
        false => tsdl::parse(&text).map_err(|error| error.to_string())?,
    };
    // TSDL lets a trace of one kind of stream leave its declaration out.
    if metadata.streams.is_empty() {
        metadata.streams.push(tsdl::StreamClass::default());
    }
    let mut remarks = std::mem::take(&mut metadata.remarks);
    let (clock, offset) = clock(&metadata, &mut remarks);
    // LTTng's names of the kernel's events differ from the kernel's; those of programs are the programs' own and stay.
    let is_kernel = metadata
        .env
        .get("domain")
        .is_some_and(|domain| domain == "kernel")
        && metadata
            .env
            .get("tracer_name")
            .is_some_and(|tracer| tracer.starts_with("lttng"));
    let mut events = Vec::new();
    let mut classes = std::collections::HashMap::default();
    for (event, number) in metadata.events.iter().zip(1..EVENTS) {
        let of_stream = metadata.streams.iter().find(|stream| stream.id == event.stream);
        let context = of_stream.and_then(|stream| stream.event_context.as_ref());
        let class = Class::new(
            &event.name,
            EventId(number),
            [context, event.context.as_ref()],
            event.fields.as_ref(),
            is_kernel,
        );
        events.push(class.event.clone());
        classes.insert((event.stream, event.id), class);
    }
    if metadata.events.len() >= usize::from(EVENTS) {
        remarks.push(format!(
            "it describes {} events; {EVENTS} are read",
            metadata.events.len()
        ));
    }
    let env = |key: &str| metadata.env.get(key).cloned().unwrap_or_default();
    let info = TraceInfo {
        clock: offset,
        hostname: env("hostname"),
        kernel_release: env("kernel_release"),
        machine: env("machine"),
        events,
        ..TraceInfo::default()
    };
    let tool = match (env("tracer_name"), env("tracer_major"), env("tracer_minor")) {
        (name, ..) if name.is_empty() => "another tracer".to_owned(),
        (name, major, _) if major.is_empty() => name,
        (name, major, minor) => format!("{name} {major}.{minor}"),
    };
    let shared = Arc::new(Shared {
        little: metadata.little,
        packet_header: metadata.packet_header,
        streams: metadata.streams,
        classes,
        frequency: clock.frequency,
    });
    let mut streams = Vec::new();
    let mut packets = 0;
    let mut knows_threads = false;
    let mut ran_first = Vec::new();
    let (mut processes, mut tasks) = (Processes::default(), Tasks::default());
    for (name, number) in stream_names(&folder).map_err(in_words)?.into_iter().zip(0..) {
        let file = folder.read(&name).map_err(in_words)?;
        let length = file.metadata().map_err(in_words)?.len();
        packets += length.div_ceil(4096);
        // Names and processes of threads are needed before the first record is shown, so a pass of its own looks for them.
        let again = file.try_clone().map_err(in_words)?;
        let survey = Stream::new(name.clone(), again, length, shared.clone(), number);
        let found = survey.survey(&mut processes, &mut tasks).map_err(in_words)?;
        knows_threads |= found.knows_threads;
        let events = Stream::new(name, file, length, shared.clone(), number)
            .running(found.first.as_ref().map_or(0, |first| first.thread));
        ran_first.extend(found.first);
        streams.push(super::foreign::Stream {
            buffer: String::new(),
            cpu: number,
            events: Box::new(events),
        });
    }
    // A thread's name can change: what the earliest switch says is nearest to the records before all switches, and what contexts say is the records' own.
    ran_first.sort_unstable();
    for RanFirst { thread, name, .. } in ran_first {
        if !name.is_empty() && processes.name(thread, thread).is_none() {
            processes.insert(thread, name);
        }
    }
    if is_kernel && packets > 0 && !knows_threads {
        remarks.push(NO_THREADS.to_owned());
    }
    Ok(Foreign {
        info,
        streams,
        processes,
        tasks,
        tool,
        packets,
        remarks,
        ..Foreign::default()
    })
}

const NO_THREADS: &str = "no record says of which thread it is, all are shown as of 0: `lttng add-context -k -t pid -t tid -t procname` adds it to the next recording, and so does the event sched_switch";

/// Most events of a trace.
const EVENTS: u16 = u16::MAX - 1;

/// The clock of the trace, and what it differs from the wall's by.
fn clock(metadata: &Metadata, remarks: &mut Vec<String>) -> (Clock, ClockOffset) {
    let Some(clock) = metadata.clocks.first().cloned() else {
        let clock = Clock {
            frequency: 1_000_000_000,
            ..Clock::default()
        };
        return (clock, ClockOffset::default());
    };
    let others: BTreeMap<&str, ()> = metadata
        .clocks
        .iter()
        .skip(1)
        .filter(|other| {
            (other.frequency, other.offset, other.offset_seconds)
                != (clock.frequency, clock.offset, clock.offset_seconds)
        })
        .map(|other| (other.name.as_str(), ()))
        .collect();
    if !others.is_empty() {
        let others: Vec<&str> = others.into_keys().collect();
        remarks.push(format!(
            "it has several clocks: times of {} are shown as if they were of {}",
            others.join(", "),
            clock.name
        ));
    }
    let cycles = u64::try_from(clock.offset).unwrap_or(0);
    let ns = nanoseconds(cycles, clock.frequency);
    let seconds = u64::try_from(clock.offset_seconds).unwrap_or(0);
    let offset = ClockOffset {
        seconds: seconds.saturating_add(ns / 1_000_000_000),
        nanoseconds: (ns % 1_000_000_000) as u32,
    };
    (clock, offset)
}

/// The files beside the metadata, in order of name.
fn stream_names(folder: &Folder) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in folder.entries()? {
        if let Ok(name) = entry.name.into_string()
            && !name.starts_with('.')
            && name != METADATA
            && entry.is_file
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
