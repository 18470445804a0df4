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
use crate::event::{EventClass, EventId};
use crate::files::Folder;
use crate::info::ClockOffset;
use class::Class;
use std::collections::{BTreeMap, HashMap};
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
const DEPTH: u32 = 8;
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

/// A trace of those that are read as one.
#[derive(Debug)]
struct Part {
    folder: Folder,
    metadata: Metadata,
    frequency: u64,
    /// What its clock differs from the wall's by.
    offset: ClockOffset,
    remarks: Vec<String>,
    is_kernel: bool,
}

impl Part {
    /// Reads a trace's metadata.
    fn of(path: &Path) -> Result<Self, String> {
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
        let env = |key: &str| metadata.env.get(key).map_or("", String::as_str);
        let is_kernel = env("domain") == "kernel" && env("tracer_name").starts_with("lttng");
        Ok(Self {
            folder,
            frequency: clock.frequency,
            offset,
            remarks,
            is_kernel,
            metadata,
        })
    }

    fn env(&self, key: &str) -> String {
        self.metadata.env.get(key).cloned().unwrap_or_default()
    }

    /// The tracer and its version.
    fn tool(&self) -> String {
        let [name, major, minor] = ["tracer_name", "tracer_major", "tracer_minor"].map(|key| self.env(key));
        match (name.is_empty(), major.is_empty()) {
            (true, _) => "another tracer".to_owned(),
            (false, true) => name,
            (false, false) => format!("{name} {major}.{minor}"),
        }
    }

    /// The process of a trace that is of one alone, and its name.
    fn process(&self) -> Option<(u32, String)> {
        let pid = self.env("vpid").parse().ok()?;
        Some((pid, self.env("procname"))).filter(|(_, name)| !name.is_empty())
    }
}

/// Opens a trace, or several as one: their events together, by the clock of the one whose clock differs least from the wall's. Of an error the trace is named.
pub(super) fn open(paths: &[PathBuf]) -> Result<Foreign, (PathBuf, String)> {
    let mut parts = Vec::new();
    for path in paths {
        parts.push(Part::of(path).map_err(|why| (path.clone(), why))?);
    }
    let offset = parts.iter().map(|part| part.offset).min_by_key(since_epoch);
    let mut events = Events::default();
    let mut foreign = Foreign::default();
    let mut ran_first = Vec::new();
    let mut tools: Vec<String> = Vec::new();
    for (part, path) in parts.into_iter().zip(paths) {
        let tool = part.tool();
        if !tools.contains(&tool) {
            tools.push(tool);
        }
        if foreign.info.hostname.is_empty() {
            foreign.info.hostname = part.env("hostname");
        }
        if part.is_kernel || foreign.info.kernel_release.is_empty() {
            foreign.info.kernel_release = part.env("kernel_release");
            foreign.info.machine = part.env("machine");
        }
        let shift_ns = since_epoch(&part.offset) - offset.as_ref().map_or(0, since_epoch);
        part.read(&mut events, shift_ns, &mut ran_first, &mut foreign)
            .map_err(|error| (path.clone(), error.to_string()))?;
    }
    if events.left_out > 0 {
        foreign.remarks.push(format!(
            "it describes {} events; {EVENTS} are read",
            events.all.len() + events.left_out
        ));
    }
    // A thread's name can change: what the earliest switch says is nearest to the records before all switches, and what contexts say is the records' own.
    ran_first.sort_unstable();
    for RanFirst { thread, name, .. } in ran_first {
        if !name.is_empty() && foreign.processes.name(thread, thread).is_none() {
            foreign.processes.insert(thread, name);
        }
    }
    foreign.info.clock = offset.unwrap_or_default();
    foreign.info.events = events.all;
    foreign.tool = tools.join(", ");
    Ok(foreign)
}

/// Event classes of all parts: those that several describe alike are one.
#[derive(Debug, Default)]
struct Events {
    all: Vec<EventClass>,
    /// Places of the first ones of each name.
    known: HashMap<String, Vec<usize>>,
    left_out: usize,
}

impl Events {
    /// The class with the number of the one that is like it, or with a new one; none where there is no number left.
    fn add(&mut self, mut class: Class) -> Option<Class> {
        let known = self.known.entry(class.event.name.clone()).or_default();
        let mut alike = known.iter().filter_map(|place| self.all.get(*place));
        let id = match alike.find(|it| it.layout == class.event.layout) {
            Some(it) => it.id,
            None if self.all.len() >= usize::from(EVENTS) => {
                self.left_out += 1;
                return None;
            }
            None => EventId(self.all.len() as u16 + 1),
        };
        class.event.id = id;
        if self.all.len() < usize::from(id.0) {
            // More of one name than there may be traces in a session are no tracer's.
            if known.len() < COMPARED {
                known.push(self.all.len());
            }
            self.all.push(class.event.clone());
        }
        Some(class)
    }
}

impl Part {
    /// Adds its events and streams to those of the parts before it.
    fn read(
        self,
        events: &mut Events,
        shift_ns: i128,
        ran_first: &mut Vec<RanFirst>,
        foreign: &mut Foreign,
    ) -> io::Result<()> {
        let process = self.process();
        let metadata = self.metadata;
        foreign.remarks.extend(self.remarks);
        let mut classes = HashMap::default();
        for event in &metadata.events {
            let of_stream = metadata.streams.iter().find(|stream| stream.id == event.stream);
            let context = of_stream.and_then(|stream| stream.event_context.as_ref());
            let class = Class::new(
                &event.name,
                EventId(0),
                [context, event.context.as_ref()],
                event.fields.as_ref(),
                self.is_kernel,
            );
            if let Some(class) = events.add(class) {
                classes.insert((event.stream, event.id), class);
            }
        }
        let shared = Arc::new(Shared {
            little: metadata.little,
            packet_header: metadata.packet_header,
            streams: metadata.streams,
            classes,
            frequency: self.frequency,
            shift_ns,
            process: process.as_ref().map_or(0, |(pid, _)| *pid),
        });
        let mut knows_threads = false;
        let mut is_empty = true;
        for name in stream_names(&self.folder)? {
            let number = foreign.streams.len() as u32;
            let file = self.folder.read(&name)?;
            let length = file.metadata()?.len();
            is_empty &= length == 0;
            foreign.packets += length.div_ceil(4096);
            // Names and processes of threads are needed before the first record is shown, so a pass of its own looks for them.
            let survey = Stream::new(name.clone(), file.try_clone()?, length, shared.clone(), number);
            let found = survey.survey(&mut foreign.processes, &mut foreign.tasks)?;
            knows_threads |= found.knows_threads;
            let events = Stream::new(name, file, length, shared.clone(), number)
                .running(found.first.as_ref().map_or(shared.process, |first| first.thread));
            ran_first.extend(found.first);
            foreign.streams.push(super::foreign::Stream {
                buffer: String::new(),
                cpu: number,
                events: Box::new(events),
            });
        }
        if let Some((pid, name)) = process
            && foreign.processes.name(pid, pid).is_none()
        {
            foreign.processes.insert(pid, name);
        }
        if self.is_kernel && !is_empty && !knows_threads {
            foreign.remarks.push(NO_THREADS.to_owned());
        }
        Ok(())
    }
}

/// Nanoseconds from the epoch to a clock's begin.
fn since_epoch(offset: &ClockOffset) -> i128 {
    i128::from(offset.seconds) * 1_000_000_000 + i128::from(offset.nanoseconds)
}

const NO_THREADS: &str = "no record says of which thread it is, all are shown as of 0: `lttng add-context -k -t pid -t tid -t procname` adds it to the next recording, and so does the event sched_switch";

/// Most event classes of one name with which another one is compared.
const COMPARED: usize = 64;

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
