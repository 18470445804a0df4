//! Filters of a trace's records: those of some events, processes, threads, CPUs, names, times, and those of which a predicate holds.

use crate::background::Background;
use crate::error::Result;
use crate::expression::Predicate;
use crate::moment::{Clocks, Moment};
use crate::pattern;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_trace::about::about_fields;
use kestrel_trace::event::EventClass;
use kestrel_trace::layout::Field;
use kestrel_trace::record::Record;
use std::ops::RangeInclusive;

/// Criteria of a filter; what is empty is not asked.
#[derive(Clone, Debug, Default)]
pub struct Criteria {
    /// Patterns of events.
    pub events: Vec<String>,
    /// Processes.
    pub pids: Vec<u32>,
    /// Threads.
    pub tids: Vec<u32>,
    /// Of these only what they did themselves, not what others did to them.
    pub only_own: bool,
    /// Patterns of names of threads.
    pub comms: Vec<String>,
    /// CPUs.
    pub cpus: Vec<RangeInclusive<u32>>,
    /// The first moment.
    pub from: Option<Moment>,
    /// The last moment.
    pub to: Option<Moment>,
    /// A predicate of the event language.
    pub predicate: Option<String>,
}

/// A choice among the records of one trace.
#[derive(Clone, Debug)]
pub struct Filter {
    /// By the number of the event.
    events: Option<Vec<bool>>,
    pids: Vec<u32>,
    tids: Vec<u32>,
    /// By the number of the event: the fields by which it may be about a thread that is wanted.
    about: Vec<Vec<Field>>,
    comms: Vec<String>,
    cpus: Vec<RangeInclusive<u32>>,
    times: RangeInclusive<u64>,
    predicate: Option<Predicate>,
}

impl Criteria {
    /// Whether all records are wanted.
    pub fn is_all(&self) -> bool {
        let lists = self.events.is_empty() && self.comms.is_empty() && self.cpus.is_empty();
        let numbers = self.pids.is_empty() && self.tids.is_empty();
        lists && numbers && self.from.is_none() && self.to.is_none() && self.predicate.is_none()
    }
}

impl Filter {
    /// Makes the choice for a trace with these events and clocks.
    ///
    /// # Errors
    /// When no event fits a pattern, or the predicate means nothing at any event that is wanted.
    pub fn new(wanted: &Criteria, events: &[EventClass], clocks: &Clocks) -> Result<Self> {
        let mut chosen: Vec<&EventClass> = events.iter().collect();
        let mut numbers = None;
        if !wanted.events.is_empty() {
            chosen.clear();
            let mut by_number = vec![false; usize::from(u16::MAX) + 1];
            for pattern in &wanted.events {
                for event in pattern::events(pattern, events)? {
                    by_number[usize::from(event.id.0)] = true;
                    chosen.push(event);
                }
            }
            numbers = Some(by_number);
        }
        let named = !wanted.pids.is_empty() || !wanted.tids.is_empty();
        let asks = named && !wanted.only_own;
        let mut about = Vec::new();
        for event in events.iter().filter(|_| asks) {
            let number = usize::from(event.id.0);
            about.resize(about.len().max(number + 1), Vec::new());
            about[number] = about_fields(event);
        }
        let from = wanted.from.map_or(0, |from| from.ns(clocks, clocks.begin_ns));
        // A relative end counts from the beginning that was asked for.
        let base = if wanted.from.is_some() {
            from
        } else {
            clocks.begin_ns
        };
        let to = wanted.to.map_or(u64::MAX, |to| to.ns(clocks, base));
        let predicate = wanted.predicate.as_deref();
        Ok(Self {
            events: numbers,
            pids: wanted.pids.clone(),
            tids: wanted.tids.clone(),
            about,
            comms: wanted.comms.clone(),
            cpus: wanted.cpus.clone(),
            times: from..=to,
            predicate: predicate.map(|text| Predicate::new(text, chosen)).transpose()?,
        })
    }

    /// The times that are wanted, for who can leave out others unread.
    pub fn times(&self) -> RangeInclusive<u64> {
        self.times.clone()
    }

    /// Leaves out, from now on, records that are only about what is asked for.
    pub fn leave_out_others(&mut self) {
        self.about.clear();
    }

    /// Warnings about the expression.
    pub fn warnings(&self) -> &[Diagnostic] {
        self.predicate.as_ref().map_or(&[], Predicate::warnings)
    }

    /// Whether a record is wanted. What is cheap to ask is asked first.
    pub fn wants(&self, record: &Record<'_>, background: &Background) -> bool {
        let number = usize::from(record.event.id.0);
        self.times.contains(&record.time_ns)
            && self.events.as_ref().is_none_or(|wanted| wanted[number])
            && (self.wants_task(record.pid, record.tid) || self.is_about(record, background))
            && (self.cpus.is_empty() || self.cpus.iter().any(|range| range.contains(&record.cpu)))
            && self.wants_name(record, background)
            && self
                .predicate
                .as_ref()
                .is_none_or(|predicate| predicate.holds(record, &background.processes, background.begin_ns))
    }

    fn wants_task(&self, pid: u32, tid: u32) -> bool {
        let listed = |list: &[u32], number: u32| list.is_empty() || list.contains(&number);
        listed(&self.pids, pid) && listed(&self.tids, tid)
    }

    /// Whether a record is about a thread that is wanted, by a field that holds its number.
    fn is_about(&self, record: &Record<'_>, background: &Background) -> bool {
        let fields = self.about.get(usize::from(record.event.id.0));
        let threads = fields.into_iter().flatten();
        let mut threads = threads.filter_map(|field| record.value(field).as_u64());
        threads.any(|tid| {
            let tid = tid as u32;
            self.wants_task(background.tasks.process(tid), tid)
        })
    }

    fn wants_name(&self, record: &Record<'_>, background: &Background) -> bool {
        if self.comms.is_empty() {
            return true;
        }
        let name = background.processes.name(record.tid, record.pid);
        name.is_some_and(|name| self.comms.iter().any(|pattern| pattern::matches(pattern, name)))
    }
}
