//! Probes whose events overlap without being the same (`kprobe:vfs_* { … } kprobe:vfs_read { … }`): each event gets one program with all its handlers, in
//! source order. Programs of their own would run in the order of the kernel's lists.

use super::Planner;
use crate::plan::events::{EventSet, Events};
use crate::plan::together;
use kestrel_catalog::catalog::{Glob, find_kind};
use kestrel_compiler::lang::ast::{EventSpec, Probe};
use kestrel_compiler::lang::diag::Diagnostic;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A probe, or some of its events, with the handlers of all probes that name these events.
pub(super) struct ProbePart {
    pub(super) probe: Probe,
    /// The events that are planned with these handlers, where the probe has others with other handlers; none where it is all of them.
    pub(super) only: Option<Rc<EventSet>>,
}

impl ProbePart {
    fn whole(probe: Probe) -> Self {
        Self { probe, only: None }
    }
}

impl Planner<'_> {
    /// The probes of a program, divided so that each event is planned once, with all its handlers.
    pub(super) fn parts(&self, text: &str, probes: &[Probe]) -> Vec<ProbePart> {
        let joined = together::joined(text, probes);
        let may_meet = |one: usize| {
            let others = (0..joined.len()).filter(|&other| other != one);
            others
                .into_iter()
                .any(|other| may_overlap(&joined[one], &joined[other]))
        };
        let meeting: Vec<bool> = (0..joined.len())
            .map(|at| together::may_join(text, &joined[at]) && may_meet(at))
            .collect();
        // The events of probes that meet others; one with an event that is missing, or that it names twice, is planned alone.
        let events: Vec<Option<EventSet>> = joined
            .iter()
            .zip(&meeting)
            .map(|(probe, meets)| meets.then(|| self.events_once(probe)).flatten())
            .collect();
        let mut handlers: HashMap<&(&'static str, String), Vec<usize>> = HashMap::new();
        for (number, events) in events.iter().enumerate() {
            for event in events.iter().flatten() {
                handlers.entry(event).or_default().push(number);
            }
        }
        let overlaps = |events: &EventSet| events.iter().any(|event| handlers[event].len() > 1);
        let mut parts: BTreeMap<(usize, Vec<usize>), Option<EventSet>> = BTreeMap::new();
        for (number, events) in events.iter().enumerate() {
            match events.as_ref().filter(|events| overlaps(events)) {
                None => {
                    parts.insert((number, Vec::new()), None);
                }
                Some(events) => {
                    for event in events.iter().filter(|event| handlers[event][0] == number) {
                        let part = parts.entry((number, handlers[event].clone())).or_default();
                        part.get_or_insert_default().insert(event.clone());
                    }
                }
            }
        }
        let part = |((number, all), only): ((usize, Vec<usize>), Option<EventSet>)| match only {
            None => ProbePart::whole(joined[number].clone()),
            Some(only) => ProbePart {
                probe: together::with_handlers_of(&joined[number], all.iter().map(|&number| &joined[number])),
                only: Some(Rc::new(only)),
            },
        };
        parts.into_iter().map(part).collect()
    }

    /// Drops those of the warnings from number `first` on that are among the ones before: a handler is checked with each part that it is in.
    pub(super) fn drop_repeated_warnings(&mut self, first: usize) {
        if self.only.is_none() {
            return;
        }
        let new = self.warnings.split_off(first);
        for (text, warning) in new {
            let known = |(_, known): &(String, Diagnostic)| {
                (known.span, &known.message) == (warning.span, &warning.message)
            };
            if !self.warnings.iter().any(known) {
                self.warnings.push((text, warning));
            }
        }
    }

    /// The events of a probe, if each of its specifications has some and none has those of another.
    fn events_once(&self, probe: &Probe) -> Option<EventSet> {
        let mut events = Events::new(self.catalog, self.options.via, &self.resolved);
        events.with_modules = false;
        let mut all = EventSet::new();
        for spec in &probe.events {
            let found = events.find(spec).ok().filter(|found| !found.is_empty())?;
            for found in found.iter() {
                if !all.insert(events.identity(*found)) {
                    return None;
                }
            }
        }
        Some(all)
    }
}

/// Whether two probes can have an event in common, by their texts alone.
fn may_overlap(one: &Probe, other: &Probe) -> bool {
    one.events
        .iter()
        .any(|one| other.events.iter().any(|other| may_be_one(one, other)))
}

fn may_be_one(one: &EventSpec, other: &EventSpec) -> bool {
    let kind = |spec: &EventSpec| Some(find_kind(&spec.parts.first()?.text)?.name());
    let last = |spec: &EventSpec| spec.parts.last().map(|part| (Glob::new(&part.text), part.offset));
    let (Some((left, left_offset)), Some((right, right_offset))) = (last(one), last(other)) else {
        return false;
    };
    let alike = match (left.is_plain(), right.is_plain()) {
        (true, _) => right.matches(left.text()),
        (false, true) => left.matches(right.text()),
        (false, false) => left.fixed().starts_with(right.fixed()) || right.fixed().starts_with(left.fixed()),
    };
    alike && left_offset == right_offset && kind(one) == kind(other)
}
