//! Questions about the records of a scope, each answered in one pass by what `report` and `print` answer it with, too.

use super::index::{Checkpoint, Index};
use super::pass::{AfterRecord, Pass, Progress};
use super::scope::Scope;
use crate::calls;
use crate::exit::Failure;
use kestrel::language::{Style as Looks, render};
use kestrel_query::{Grouped, Groups, Keys, Latencies, Latency, Pairs, Unpaired};
use kestrel_trace::analyze::ANALYSES;
use kestrel_trace::calls::{By, Row as CallRow, Summary};
use kestrel_trace::event::EventClass;
use kestrel_trace::export::{self, Calls, Export as _, Layout, Style, Text};
use kestrel_trace::info::ClockOffset;
use kestrel_trace::print::{self, shown};
use kestrel_trace::record::Record;
use kestrel_trace::report::{self, Report, ReportBuilder};
use kestrel_trace::stacks::{CallTree, Stacks, Weight};
use kestrel_trace::symbol::Symbols;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A question about the records of a level.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// The tables of plain `report`, and where the records lie.
    Overview,
    /// The call graph.
    Stacks(Weight),
    /// Times from one event to another.
    Latencies(Vec<Pairs>),
    /// System calls.
    Calls,
    /// Records by the values of expressions.
    Groups(Keys),
    /// Lines of records.
    Lines(Lines),
    /// One record with all its fields.
    Detail(Lines),
}

/// Records to show as lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    /// Where reading begins.
    pub(crate) checkpoint: Checkpoint,
    /// Number of the first line.
    pub(crate) first: u64,
    /// Records that were counted.
    pub(crate) count: u64,
    /// How their times look.
    pub(crate) style: Style,
}

/// Answer to a question.
#[derive(Debug)]
pub(crate) enum Answer {
    /// To [`Question::Overview`].
    Overview(Box<Report>, Index),
    /// To [`Question::Stacks`].
    Stacks(Box<CallTree>),
    /// To [`Question::Latencies`].
    Latencies(Vec<Latency>, Vec<Unpaired>),
    /// To [`Question::Calls`]: those that returned, and how many did not.
    Calls(Vec<CallRow>, BTreeMap<String, u64>),
    /// To [`Question::Groups`].
    Groups(Box<Grouped>),
    /// To [`Question::Lines`]: the first one's number, and the lines.
    Lines(u64, Vec<Line>),
    /// To [`Question::Detail`].
    Detail(Vec<String>),
}

/// A record as a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The record's time.
    pub(crate) time_ns: u64,
    /// The line's text.
    pub(crate) text: String,
    /// Lines below it: its stacks.
    pub(crate) more: usize,
}

/// Characters of a line that are kept; all of a record is in its detail.
const LONGEST: usize = 2048;

/// A recording that is asked again and again.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The recording's directory.
    pub(crate) path: PathBuf,
    /// Time of its first record.
    pub(crate) begin_ns: u64,
    /// Names of addresses, with inlined functions where these are wanted.
    pub(crate) symbols: Symbols,
}

impl Source {
    /// Answers a question about a scope; none where the answer is not wanted any more.
    pub(crate) fn answer(
        &self,
        scope: &Scope,
        question: Question,
        progress: &Arc<Progress>,
    ) -> Result<Option<Answer>, Failure> {
        let skip_to = match &question {
            Question::Lines(lines) | Question::Detail(lines) => Some(lines.checkpoint.time_ns),
            _ => None,
        };
        let pass = Pass::open(&self.path, scope, self.begin_ns, skip_to, progress)?;
        match question {
            Question::Overview => self.overview(pass),
            Question::Stacks(weight) => self.stacks(pass, weight),
            Question::Latencies(pairs) => latencies(pass, pairs),
            Question::Calls => self.calls(pass),
            Question::Groups(keys) => groups(pass, keys),
            Question::Lines(lines) => self.lines(pass, lines),
            Question::Detail(lines) => self.detail(pass, lines),
        }
    }

    fn overview(&self, mut pass: Pass) -> Result<Option<Answer>, Failure> {
        let trace = &mut pass.trace;
        if pass.judge.knows_by_heads() {
            trace.reader.heads_alone();
        }
        let mut report = ReportBuilder::new(report::Options {
            processes: trace.processes.clone(),
            symbols: self.symbols.clone(),
            summary: trace.summary.clone(),
            also: ANALYSES.iter().map(|kind| kind.name.to_owned()).collect(),
            field: None,
            maps: std::mem::take(&mut trace.maps),
            remarks: std::mem::take(&mut trace.remarks),
        });
        let mut index = Index::default();
        let whole = pass.run(|record, wanted, _| {
            report.take(record, wanted);
            index.take(record.time_ns, wanted);
            AfterRecord::GoOn
        })?;
        let answer = || Answer::Overview(Box::new(report.finish(&pass.trace.reader)), index);
        Ok(whole.then(answer))
    }

    fn stacks(&self, mut pass: Pass, weight: Weight) -> Result<Option<Answer>, Failure> {
        let trace = &pass.trace;
        let tasks = trace.tasks.clone();
        let mut stacks = Stacks::new(self.symbols.clone(), trace.processes.clone(), weight);
        let whole = pass.run(|record, wanted, _| {
            // Of other threads than the recording is about, only those switches were recorded that are about these.
            let is_fragment = weight == Weight::OffCpu && !tasks.is_target(record.tid);
            if wanted && !is_fragment {
                stacks.add(record);
            } else {
                stacks.pass(record);
            }
            AfterRecord::GoOn
        })?;
        Ok(whole.then(|| Answer::Stacks(Box::new(stacks.finish()))))
    }

    fn calls(&self, mut pass: Pass) -> Result<Option<Answer>, Failure> {
        let (signatures, shown) = calls::of_recording(&pass.trace, &self.path, None)?;
        // A call is counted where one of its records is wanted.
        pass.trace.reader.within(0..=u64::MAX);
        let calls = Calls::new(signatures, shown, Layout::Lines, Style::default());
        let mut counted = calls.counted(Summary::new(By::Call));
        let mut none = Vec::new();
        let whole = pass.run(|record, wanted, _| {
            counted.record(record, wanted, &mut none);
            AfterRecord::GoOn
        })?;
        let summary = counted.finish(None, &mut none).unwrap_or_default();
        let group = summary.finish(&|_, _| None).pop().unwrap_or_default();
        Ok(whole.then_some(Answer::Calls(group.rows, group.unfinished)))
    }

    /// Passes by the records before the first one, then calls `take` with each, and its number behind it.
    fn walk(pass: &mut Pass, lines: &Lines, mut take: impl FnMut(&Record<'_>, u64)) -> Result<bool, Failure> {
        let mut before = lines.checkpoint.before;
        let mut number = lines.checkpoint.number;
        let end = lines.first.saturating_add(lines.count);
        pass.run(|record, wanted, _| {
            if !wanted || record.time_ns < lines.checkpoint.time_ns {
                return AfterRecord::GoOn;
            }
            if before > 0 {
                before -= 1;
                return AfterRecord::GoOn;
            }
            if number >= lines.first && number < end {
                take(record, number);
            }
            number += 1;
            match number < end {
                true => AfterRecord::GoOn,
                false => AfterRecord::Stop,
            }
        })
    }

    fn lines(&self, mut pass: Pass, lines: Lines) -> Result<Option<Answer>, Failure> {
        let mut text = Text::new(lines.style, self.symbols.clone(), pass.trace.processes.clone());
        let (mut found, mut bytes) = (Vec::new(), Vec::new());
        let whole = Self::walk(&mut pass, &lines, |record, _| {
            bytes.clear();
            text.record(record, &mut bytes);
            let all = String::from_utf8_lossy(&bytes);
            let mut each = all.lines();
            found.push(Line {
                time_ns: record.time_ns,
                text: each.next().unwrap_or_default().chars().take(LONGEST).collect(),
                more: each.count(),
            });
        })?;
        Ok(whole.then_some(Answer::Lines(lines.first, found)))
    }

    fn detail(&self, mut pass: Pass, lines: Lines) -> Result<Option<Answer>, Failure> {
        let mut text = Text::new(lines.style, self.symbols.clone(), pass.trace.processes.clone());
        let mut all = Vec::new();
        let symbols = &self.symbols;
        let whole = Self::walk(&mut pass, &lines, |record, number| {
            let mut bytes = Vec::new();
            text.record(record, &mut bytes);
            all.extend(String::from_utf8_lossy(&bytes).lines().map(str::to_owned));
            all.push(String::new());
            all.push(format!("record {}", print::thousands(number + 1)));
            all.extend(fields(record, symbols));
        })?;
        Ok(whole.then_some(Answer::Detail(all)))
    }
}

/// Fields of a record, in lines.
fn fields(record: &Record<'_>, symbols: &Symbols) -> Vec<String> {
    let event = record.event;
    let mut lines = vec![
        format!("event    {} ({})", shown(&event.name), shown(&event.kind)),
        format!(
            "time     {}.{:09}",
            record.time_ns / 1_000_000_000,
            record.time_ns % 1_000_000_000
        ),
        format!(
            "process  {}, thread {}, CPU {}",
            record.pid, record.tid, record.cpu
        ),
    ];
    let names = event
        .layout
        .fields()
        .iter()
        .map(|field| field.name.chars().count());
    let wide = names.max().unwrap_or(0).max(7);
    for (field, value) in record.fields() {
        let mut text = Vec::new();
        print::value(value, symbols, &mut text);
        let (name, text) = (shown(&field.name), String::from_utf8_lossy(&text));
        lines.push(format!("{name:<wide$}  {}", shown(&text)));
    }
    lines
}

fn latencies(mut pass: Pass, pairs: Vec<Pairs>) -> Result<Option<Answer>, Failure> {
    let events = &pass.trace.reader.info().events;
    let mut latencies = Latencies::new(pairs, None, events, &pass.trace.symbols)?;
    pass.judge.follow_names();
    let whole = pass.run(|record, wanted, background| {
        if wanted {
            latencies.add(record, background);
        }
        AfterRecord::GoOn
    })?;
    let (rows, unpaired) = latencies.finish(None)?;
    Ok(whole.then_some(Answer::Latencies(rows, unpaired)))
}

fn groups(mut pass: Pass, keys: Keys) -> Result<Option<Answer>, Failure> {
    let mut groups = Groups::new(keys, None);
    pass.judge.follow_names();
    let whole = pass.run(|record, wanted, background| {
        if wanted {
            groups.add(record, background);
        }
        AfterRecord::GoOn
    })?;
    let grouped = groups.finish(None, None)?;
    Ok(whole.then(|| Answer::Groups(Box::new(grouped))))
}

/// The pairs of events that are looked at where none are named: all that begin and end something by their names, and wakeups.
pub(crate) fn usual_pairs(events: &[EventClass]) -> Vec<Pairs> {
    let usual = ["*", "sched:sched_waking,sched:sched_switch,args.pid=next_pid"];
    let pairs = usual.iter().filter_map(|text| Pairs::new(text, events).ok());
    // A handler chooses what it records, and may have left out what pairs.
    let bound =
        |pairs: &Pairs| Latencies::new(vec![pairs.clone()], None, events, &Symbols::default()).is_ok();
    pairs.filter(bound).collect()
}

/// Error in a question, in lines, with its place where it has one.
pub(crate) fn wrong(error: &kestrel_query::Error) -> Vec<String> {
    let text = match error {
        kestrel_query::Error::Expression { text, found } => {
            render(found, "expression", text, Looks { colour: false })
        }
        error => error.to_string(),
    };
    text.trim_end()
        .lines()
        .map(|line| shown(line).into_owned())
        .collect()
}

/// The formats of times, in turn; without times of day where the recording does not say them.
pub(crate) fn next_style(style: Style, begin_ns: u64, clock: ClockOffset) -> Style {
    use export::Times;
    let times = match style.times {
        Times::Monotonic => Times::Start { begin_ns },
        Times::Start { .. } if clock.date_ns(begin_ns).is_some() => Times::Wall {
            offset_ns: clock.ns(),
        },
        _ => Times::Monotonic,
    };
    Style { times, ..style }
}
