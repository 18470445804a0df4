//! The options that say which records of a trace are wanted, and the choice made of them.

use crate::arguments::recorded;
use crate::exit::{Exit, Failure};
use crate::style;
use crate::targets::nobodys_own;
use clap::Args;
use kestrel::catalog::find_kind;
use kestrel_query::{Background, Clocks, Criteria, Filter, Moment, Pairs};
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::event::EventClass;
use kestrel_trace::info::TraceInfo;
use kestrel_trace::record::Record;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Filter options of commands that read recordings.
#[derive(Args, Debug)]
#[command(next_help_heading = "Which records")]
#[group(skip)]
pub(crate) struct Options {
    /// Only records of which this predicate holds
    #[arg(long = "where", value_name = "PREDICATE")]
    predicate: Option<String>,
    /// Only records of these events; patterns are allowed
    #[arg(short, long = "event", value_name = "EVENT,…")]
    events: Vec<String>,
    /// Only records of these processes, and those about them: their wakeups, switches to them, signals
    #[arg(short, long = "pid", value_name = "PID,…", value_delimiter = ',', value_parser = recorded)]
    pids: Vec<u32>,
    /// Only records of these threads, and those about them
    #[arg(short, long = "tid", value_name = "TID,…", value_delimiter = ',', value_parser = recorded)]
    tids: Vec<u32>,
    /// With -p or -t: only what these did themselves, not what others did to them
    #[arg(long)]
    only_own: bool,
    /// Only records of threads with these names; patterns are allowed
    #[arg(long = "comm", value_name = "NAME,…", value_delimiter = ',')]
    comms: Vec<String>,
    /// Only records of these CPUs: `0-3,5`
    #[arg(long = "cpu", value_name = "CPUS", value_delimiter = ',', value_parser = cpus)]
    cpus: Vec<RangeInclusive<u32>>,
    /// Only records from this time on: seconds since the start (`1.5`, `250ms`), a time of day (`12:03:04.5`), a date, or `@` and a time as lines show it
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Moment>,
    /// Only records up to this time; `+2` is two seconds after --from
    #[arg(long, value_name = "TIME", value_parser = moment)]
    to: Option<Moment>,
}

/// A choice among the records of a trace, asked record by record.
#[derive(Debug)]
pub(crate) struct Choice {
    filter: Option<Filter>,
    /// Names of threads at the time of the record at hand.
    pub(crate) background: Background,
    /// Whether names are followed although no option asks for them.
    follows_names: bool,
}

impl Options {
    /// Whether times are chosen.
    pub(crate) fn have_times(&self) -> bool {
        self.from.is_some() || self.to.is_some()
    }

    /// Whether some records are not wanted.
    pub(crate) fn are_given(&self) -> bool {
        !self.wanted().is_all()
    }

    /// Patterns of events.
    fn patterns(&self) -> impl Iterator<Item = String> {
        let texts = self.events.iter().filter(|text| !is_program(text));
        texts.flat_map(|text| text.split(',')).map(with_whole_kind)
    }

    /// The programs that stand in the place of patterns (`-e 'EVENT { … }'`), as one; none where there are only patterns.
    pub(crate) fn program(&self) -> Option<String> {
        let texts: Vec<&str> = self
            .events
            .iter()
            .map(String::as_str)
            .filter(|text| is_program(text))
            .collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    fn wanted(&self) -> Criteria {
        Criteria {
            events: self.patterns().collect(),
            pids: self.pids.clone(),
            tids: self.tids.clone(),
            only_own: self.only_own,
            comms: self.comms.clone(),
            cpus: self.cpus.clone(),
            from: self.from,
            to: self.to,
            predicate: self.predicate.clone(),
        }
    }

    /// Makes the choice for a trace of which nothing was read, and lets its reader step over what lies out of the times. `follows_names`: names of threads are
    /// wanted for something else, too.
    pub(crate) fn choose(&self, trace: &mut Trace, follows_names: bool) -> Result<Choice, Failure> {
        if self.only_own && self.pids.is_empty() && self.tids.is_empty() {
            return Err(nobodys_own("-p or -t"));
        }
        let begin_ns = trace.reader.begin()?.unwrap_or(0);
        let background = Background::new(trace.processes.clone(), begin_ns).with_tasks(trace.tasks.clone());
        if !self.are_given() {
            return Ok(Choice {
                filter: None,
                background,
                follows_names,
            });
        }
        let info = trace.reader.info();
        let filter = Filter::new(&self.wanted(), &info.events, &clocks(info, begin_ns))?;
        if let Some(text) = &self.predicate
            && !filter.warnings().is_empty()
        {
            eprintln!("{}", style::diagnostics_in("--where", filter.warnings(), text));
        }
        let times = filter.times();
        // Nothing can be between them: said now, not after a long trace was read.
        if times.is_empty() {
            return Err(Failure::new(
                Exit::Usage,
                "the times that are asked for end before they begin",
            ));
        }
        trace.reader.within(times);
        let duration_ns = trace.summary.as_ref().map(|summary| summary.duration_ns);
        match (self.from, duration_ns) {
            (Some(Moment::Start(since)), Some(duration_ns)) => {
                if let Some(time) = shown_on_lines(since, begin_ns, duration_ns) {
                    eprintln!("hint: times as lines show them have `@` before them: --from @{time}");
                }
            }
            (Some(Moment::Monotonic(time)), Some(duration_ns)) => {
                if let Some(since) = since_the_start(time, begin_ns, duration_ns) {
                    eprintln!(
                        "hint: @{since} is before the recording; since its start (`--time start`) it is --from {since}"
                    );
                }
            }
            _ => {}
        }
        Ok(Choice {
            filter: Some(filter),
            background,
            follows_names: follows_names || self.predicate.is_some() || !self.comms.is_empty(),
        })
    }
}

impl Choice {
    /// The choice of all records of a trace of which nothing was read yet.
    #[cfg(test)]
    pub(crate) fn everything(trace: &mut Trace) -> Result<Self, Failure> {
        let begin_ns = trace.reader.begin()?.unwrap_or(0);
        Ok(Self {
            filter: None,
            background: Background::new(trace.processes.clone(), begin_ns),
            follows_names: false,
        })
    }

    /// The filter that was entered; nothing where all records are wanted.
    pub(crate) fn into_filter(self) -> Option<Filter> {
        self.filter
    }

    /// Leaves out, from now on, records that are only about the threads that are asked for.
    pub(crate) fn leave_out_others(&mut self) {
        self.filter.iter_mut().for_each(Filter::leave_out_others);
    }

    /// Whether a record is wanted. For every record, in order.
    pub(crate) fn wants(&mut self, record: &Record<'_>) -> bool {
        if self.follows_names {
            self.background.learn(record);
        }
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| filter.wants(record, &self.background))
    }
}

/// A time behind a recording's end that is one of the recording as its lines show it: in seconds of the machine.
fn shown_on_lines(since: Duration, begin_ns: u64, duration_ns: u64) -> Option<String> {
    let ns = u64::try_from(since.as_nanos()).ok()?;
    let is_behind = ns > duration_ns;
    let is_shown = ns >= begin_ns && ns - begin_ns <= duration_ns;
    (is_behind && is_shown).then(|| seconds(ns))
}

/// A time before a recording that is one of the recording if it counts from its start, as in lines of `--time start`: in seconds.
fn since_the_start(time: Duration, begin_ns: u64, duration_ns: u64) -> Option<String> {
    let ns = u64::try_from(time.as_nanos()).ok()?;
    (ns < begin_ns && ns <= duration_ns).then(|| seconds(ns))
}

fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Whether a text of -e says what to do at events.
fn is_program(text: &str) -> bool {
    text.contains('{') && text.contains('}')
}

/// A pattern whose kind has its whole name, as recorded events have it: `kprobe:vfs_read` for `k:vfs_read`.
fn with_whole_kind(pattern: &str) -> String {
    match pattern.split_once(':') {
        Some((kind, rest)) => {
            let name = find_kind(kind).map_or(kind, |kind| kind.name());
            format!("{name}:{rest}")
        }
        None => pattern.to_owned(),
    }
}

/// Pairs of `--latency` whose kinds have their whole names.
pub(crate) fn pairs(text: &str, events: &[EventClass]) -> kestrel_query::Result<Pairs> {
    let parts: Vec<String> = text.split(',').map(with_whole_kind).collect();
    Pairs::new(&parts.join(","), events)
}

/// The clocks of a trace.
fn clocks(info: &TraceInfo, begin_ns: u64) -> Clocks {
    Clocks::here(begin_ns, info.clock.ns())
}

/// Records were wanted and none was found.
pub(crate) fn none_found(trace: &std::path::Path, filtered: bool) -> Exit {
    warn_of_none(trace, filtered);
    Exit::Failed
}

/// Says that no record was found of those that were wanted.
pub(crate) fn warn_of_none(trace: &std::path::Path, filtered: bool) {
    match filtered {
        true => eprintln!("kestrel: none of the events in {} is wanted", trace.display()),
        false => eprintln!("kestrel: {} holds no events", trace.display()),
    }
}

fn moment(text: &str) -> Result<Moment, String> {
    Moment::parse(text).map_err(|error| error.to_string())
}

fn cpus(text: &str) -> Result<RangeInclusive<u32>, String> {
    let number = |text: &str| {
        text.parse()
            .map_err(|_| format!("`{text}` is no number of a CPU"))
    };
    match text.split_once('-') {
        None => number(text).map(|cpu| cpu..=cpu),
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last)?);
            let ordered = (first <= last).then_some(first..=last);
            ordered.ok_or_else(|| format!("{first} is greater than {last}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_lines_is_distinguished_from_one_since_the_start() {
        let second = 1_000_000_000u64;
        let shown =
            |ms, begin, length| shown_on_lines(Duration::from_millis(ms), begin * second, length * second);
        assert_eq!(shown(55_506_190, 55_505, 3).as_deref(), Some("55506.19"));
        assert_eq!(shown(2_000, 55_505, 3), None);
        assert_eq!(shown(99_000, 55_505, 3), None);
        assert_eq!(shown(6_000, 5, 10), None);
        let since = |ms, begin| since_the_start(Duration::from_millis(ms), begin * second, 3 * second);
        assert_eq!(since(1_500, 55_505).as_deref(), Some("1.5"));
        assert_eq!(since(4_000, 55_505), None, "behind the end, too");
        assert_eq!(since(1_500, 1), None, "the machine had just started");
    }

    #[test]
    fn cpus_are_numbers_and_ranges() {
        assert_eq!(cpus("3"), Ok(3..=3));
        assert_eq!(cpus("0-3"), Ok(0..=3));
        for wrong in ["", "x", "3-1", "1-", "-1"] {
            assert!(cpus(wrong).is_err(), "{wrong}");
        }
    }
}
