//! The one pass over the records of a trace.

use super::columns::Columns;
use super::document::Document;
use super::events::Events;
use super::spans::{Returns, Spans};
use super::states::States;
use super::steps::Steps;
use super::strings::Strings;
use super::threads::Threads;
use crate::analyze::Timeline;
use crate::export::Calls;
use crate::info::TraceInfo;
use crate::process::{Learner, Processes};
use crate::record::Record;
use crate::sched::Present;
use crate::stacks::{CallTree, Stacks, Weight};
use crate::symbol::Symbols;
use crate::tasks::Tasks;
use serde_json::json;

/// Description of a page's recording besides its records.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The machine that was traced, its kernel, the command that recorded it.
    pub info: TraceInfo,
    /// The recording's path.
    pub path: String,
    /// Missing data, in lines.
    pub missing: Vec<String>,
    /// Notes for readers.
    pub notes: Vec<String>,
}

/// Limits of a page.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Events, of which the most frequent are sampled.
    pub events: usize,
    /// States of threads, of which the shortest are left out.
    pub states: usize,
    /// System calls, of which the shortest are left out.
    pub calls: usize,
}

impl Limits {
    /// Usual limits: what browsers draw at once, in a file that can be mailed.
    pub const USUAL: Self = Self {
        events: 1_200_000,
        states: 1_500_000,
        calls: 600_000,
    };
}

/// Takes records in the order of time and builds the page's columns of them.
#[derive(Debug)]
pub struct PageBuilder {
    symbols: Symbols,
    tasks: Tasks,
    processes: Processes,
    learner: Learner,
    strings: Strings,
    threads: Threads,
    events: Events,
    timeline: Timeline,
    states: Option<States>,
    spans: Option<Spans>,
    stacks: Stacks,
    losses: Vec<Loss>,
    records: u64,
    last_ns: u64,
    cpus: Vec<bool>,
}

/// Events or packets that were lost between two records.
#[derive(Clone, Copy, Debug)]
struct Loss {
    from_ns: u64,
    to_ns: u64,
    count: u64,
}

/// Most losses that are kept one by one; later ones are added to the last.
const LOSSES: usize = 10_000;

impl PageBuilder {
    /// For a trace with these events and names; with the calls among its records, where it has such.
    pub fn new(
        info: &TraceInfo,
        symbols: Symbols,
        (processes, tasks): (Processes, Tasks),
        calls: Option<Calls>,
        limits: Limits,
    ) -> Self {
        Self {
            stacks: Stacks::new(symbols.clone(), processes.clone(), Weight::Records),
            states: States::new(Present::of(info), processes.clone(), limits.states),
            symbols,
            tasks,
            processes,
            learner: Learner::default(),
            strings: Strings::default(),
            threads: Threads::default(),
            events: Events::new(limits.events),
            timeline: Timeline::default(),
            spans: Spans::new(
                calls.map(|calls| (calls, Returns::of(&info.events))),
                Steps::new(&info.events),
                limits.calls,
            ),
            losses: Vec::new(),
            records: 0,
            last_ns: 0,
            cpus: Vec::new(),
        }
    }

    /// Takes the next record in time. Of one that is not wanted only names and the objects of calls are learned.
    pub fn record(&mut self, record: &Record<'_>, wanted: bool) {
        self.learner.learn(record, &mut self.processes);
        if let Some(spans) = &mut self.spans {
            spans.record(record, wanted, (&mut self.strings, &mut self.threads));
        }
        self.last_ns = self.last_ns.max(record.time_ns);
        if !wanted {
            return self.stacks.pass(record);
        }
        self.records += 1;
        self.timeline.add(record);
        let cpu = record.cpu as usize;
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, false);
        }
        self.cpus[cpu] = true;
        let thread = self.threads.index_of(record.tid, record.pid);
        let stack = match self.events.wants_stack(record) || self.states.is_some() {
            true => self.stacks.node(record).map_or(0, |node| node + 1),
            false => 0,
        };
        if let Some(states) = &mut self.states {
            states.step(record, stack, &mut self.threads, &self.tasks);
        }
        self.events
            .add(record, (thread, stack), &self.symbols, &mut self.strings);
    }

    /// Notes that `count` events and packets are missing before the last record.
    pub fn lose(&mut self, count: u64, before: Option<u64>) {
        let from_ns = before.unwrap_or(self.last_ns);
        if let Some(spans) = &mut self.spans {
            spans.lose();
        }
        let full = self.losses.len() >= LOSSES;
        let loss = Loss {
            from_ns,
            to_ns: self.last_ns,
            count,
        };
        match self.losses.last_mut().filter(|_| full) {
            Some(last) => {
                last.to_ns = loss.to_ns;
                last.count += count;
            }
            None => self.losses.push(loss),
        }
    }

    /// The time of the last record, ns; none before the first.
    pub fn last_ns(&self) -> Option<u64> {
        (self.last_ns > 0).then_some(self.last_ns)
    }

    /// Number of selected records.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The page of all records that were taken.
    pub fn finish(mut self, about: About) -> Document {
        let mut columns = Columns::default();
        let timeline = self.timeline.finish();
        let end_ns = timeline.end_ns;
        let world = (&mut self.strings, &mut self.threads);
        let has_steps = self.spans.as_ref().is_some_and(Spans::has_steps);
        let calls = self.spans.map(|spans| spans.finish(end_ns, &mut columns, world));
        let states = self.states.map(|states| states.finish(end_ns, &mut columns));
        let classes = self.events.finish(&mut columns);
        let threads = self.threads.iter();
        // A thread of which no record said the process is looked up in the recording's list of tasks.
        let process = |(tid, pid): (u32, u32)| match pid == tid {
            true => self.tasks.process(tid),
            false => pid,
        };
        let name = |thread: (u32, u32)| self.processes.name(thread.0, process(thread)).unwrap_or("<...>");
        columns.numbers("thread.tid", threads.clone().map(|(tid, _)| tid.into()));
        columns.numbers("thread.pid", threads.clone().map(|it| process(it).into()));
        let is_followed = |(tid, _): (u32, u32)| i128::from(self.tasks.is_target(tid));
        columns.numbers("thread.followed", threads.clone().map(is_followed));
        columns.strings("thread.name", threads.map(name));
        columns.strings("strings", self.strings.iter());
        tree(&self.stacks.finish(), &mut columns);
        columns.numbers("timeline", timeline.counts.iter().map(|count| (*count).into()));
        let losses = self.losses.iter();
        columns.rising("loss.from", losses.clone().map(|loss| loss.from_ns));
        columns.numbers(
            "loss.ns",
            losses.clone().map(|loss| (loss.to_ns - loss.from_ns).into()),
        );
        columns.numbers("loss.count", losses.map(|loss| loss.count.into()));
        let clock = about.info.clock;
        let offset = clock.date_ns(timeline.begin_ns).map(|_| clock.ns().to_string());
        let cpus = self.cpus.iter().enumerate().filter(|(_, is)| **is);
        let about = json!({
            "host": about.info.hostname,
            "kernel": about.info.kernel_release,
            "machine": about.info.machine,
            "command": about.info.command,
            "path": about.path,
            "missing": about.missing,
            "notes": about.notes,
            "clock": offset,
            "begin": timeline.begin_ns.to_string(),
            "end": end_ns.to_string(),
            "bucket": timeline.bucket_ns,
            "records": self.records,
            "cpus": cpus.map(|(cpu, _)| cpu).collect::<Vec<_>>(),
            "classes": classes,
            "states": states,
            "calls": calls.map(|(count, left, up_to)| {
                json!({ "count": count, "left_out": left, "up_to": up_to, "spans": has_steps })
            }),
            "strings_left_out": self.strings.left_out(),
        });
        Document::new(&columns.finish(about))
    }
}

/// The frames of all stacks, each below its caller.
fn tree(tree: &CallTree, columns: &mut Columns) {
    let nodes = tree.nodes().iter();
    let (mut frames, mut numbers) = (Strings::default(), Vec::with_capacity(tree.nodes().len()));
    for node in nodes.clone() {
        let frame = tree.frame_of(node);
        let mark = if frame.kernel { "k" } else { "u" };
        numbers.push(frames.number(&format!("{mark}{}", frame.folded())));
    }
    columns.numbers("node.parent", nodes.map(|node| node.parent.into()));
    columns.numbers("node.frame", numbers.iter().map(|number| (*number).into()));
    columns.strings("frames", frames.iter());
}
