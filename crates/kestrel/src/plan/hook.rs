//! One program to attach: its strategies, its handlers, the slot that it is for, and the object programs that it calls.

use kestrel_catalog::attach::Mechanism;
use kestrel_catalog::catalog::kind::HelperHooks;
use kestrel_catalog::catalog::{Instance, find_kind};
use kestrel_compiler::check::tree::{Action, CheckedProbe, StatementKind};
use kestrel_compiler::context::Context;
use kestrel_compiler::lang::ast::Span;
use kestrel_hook::hook::named::ProbeIdentity;
use kestrel_hook::hook::relay::{Relay, RelayedHandler};
use kestrel_hook::hook::{Call, MAX_TABLE_SLOTS};
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::layout::Layout;
use std::sync::Arc;

/// A hook to attach: one program, with its alternatives.
#[derive(Clone)]
pub struct Hook {
    /// The event kind's canonical name.
    pub kind: &'static str,
    /// Events that the program serves.
    pub instances: Vec<Instance>,
    /// The number of the first instance's first record; each instance has `records` of them.
    pub first_record_id: u16,
    /// Handlers of a program that are one here, because they are of the same event.
    pub merged_probes: usize,
    /// Which of several hits of its events it is, where a probe of a program names them more than once.
    pub(crate) turn: usize,
    /// Kinds of record that the handlers write, all together.
    pub records: u16,
    /// The handlers that the event has in the tables: each differs from the others, each stands in at least one table.
    pub handlers: Vec<PlannedHandler>,
    /// Strategies to see it, best first.
    pub strategies: Vec<PlannedStrategy>,
    /// Whether the session may do without it where the kernel does not let it be attached: a pattern matched the event, no text names it.
    pub optional: bool,
    /// Whether it may do so where the kernel loads its program and refuses to attach it, by `missing_probes`.
    pub may_be_missing: bool,
    /// Where it is no hook of its own but a program that a hook of a running session calls.
    pub slot: Option<Slot>,
    /// Which named probe it is a part of.
    pub named_probe: Option<ProbeIdentity>,
    /// Number shared by the hooks on the entries and on the returns of the same functions, where one program sees both.
    pub(crate) entry_exit_id: Option<u32>,
    /// Whether it only serves another hook: its hits are not what the user asked for.
    pub companion: bool,
    /// Fields by which an event can be about the target processes: the handlers compare these, and the thread that runs.
    pub(crate) about: Vec<&'static str>,
    /// Index in the program array of the first program of an object that the handlers call.
    pub(crate) first_call: u32,
    /// Indices of these programs, if they are decided already.
    pub(crate) known_calls: Vec<Call>,
    /// The relay by which another hook on the same event passes the active word (which handler runs) to this one.
    pub(crate) taken_from: Option<Relay>,
    /// Relays of the hooks that get the active word from the hook that calls this program.
    pub(crate) relayed_hooks: Vec<Relay>,
    /// Set in the stand-in program of a relayed handler: where it stores the active word for the relayed hook.
    pub(crate) passes_to: Option<RelayedHandler>,
}

/// An event's name with its kind, which those of tracepoints do not have.
pub(crate) fn whole_name(kind: &str, name: &str) -> String {
    let group = name.split(':').next().unwrap_or_default();
    match find_kind(group) {
        None if name.contains(':') => format!("{kind}:{name}"),
        _ => name.to_owned(),
    }
}

/// The object and the program that a handler calls.
pub(crate) fn called(handler: &CheckedProbe) -> Option<(&str, &str)> {
    handler.statements().find_map(|statement| match &statement.kind {
        StatementKind::Act(Action::Call { object, program }) => Some((object.as_str(), program.as_str())),
        _ => None,
    })
}

/// A program for a slot of a hook that a running session has already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Which of [`crate::plan::Existing::hooks`].
    pub hook: usize,
    /// Per row: the places of its events among the program's instances; empty where it is for all of them.
    pub sets: Vec<Vec<u16>>,
    /// The places of the program's instances among the hook's; empty where they are the same.
    pub events: Vec<u16>,
    /// The one row that it is for, whatever the event; the others are there for the sake of their numbers.
    pub only: Option<usize>,
}

/// A handler of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedHandler {
    /// The text it comes from; spans of the checked handler count in it.
    pub source: Arc<str>,
    /// The handler's own bytes in it, its events included.
    pub span: Span,
    /// Numbers of the tables (from 1) in which the event has this handler.
    pub tables: Vec<u32>,
    /// Kinds of record that it writes.
    pub records: u16,
}

impl PlannedHandler {
    /// Text as the user wrote it: events, predicate, block.
    pub fn text(&self) -> &str {
        let Span { start, end } = self.span;
        self.source
            .get(start as usize..end as usize)
            .unwrap_or(&self.source)
    }
}

/// A strategy, with the handlers checked for it.
#[derive(Clone)]
pub struct PlannedStrategy {
    /// How the hook is attached.
    pub mechanism: Mechanism,
    /// The event as the compiler sees it.
    pub context: Context,
    /// One per handler of the hook.
    pub checked: Vec<CheckedProbe>,
    /// The hooks that the context's pair needs beside this one.
    pub(crate) companions: Option<HelperHooks>,
}

/// The layouts of the handlers' records, one handler after the other, each in source order.
pub(super) fn layouts(handlers: &[CheckedProbe]) -> Vec<Layout> {
    let records = handlers.iter().flat_map(|handler| handler.records());
    records.map(|record| record.layout.clone()).collect()
}

impl Slot {
    /// An event that no hook has.
    pub(crate) const NO_EVENT: u16 = u16::MAX;

    /// The place in the hook of one of the program's instances.
    pub(crate) fn place(&self, instance: u16) -> u16 {
        self.events
            .get(usize::from(instance))
            .copied()
            .unwrap_or(instance)
    }
}

impl Hook {
    /// A hook of its own: an event of a table, not yet numbered.
    pub(crate) fn new(
        kind: &'static str,
        instances: Vec<Instance>,
        rows: Vec<PlannedHandler>,
        strategies: Vec<PlannedStrategy>,
        optional: bool,
    ) -> Self {
        Self {
            kind,
            instances,
            first_record_id: 0,
            merged_probes: 1,
            turn: 0,
            // More than a trace has room for is refused when numbers are given out.
            records: rows.iter().fold(0, |sum, row| sum.saturating_add(row.records)),
            handlers: rows,
            strategies,
            optional,
            may_be_missing: false,
            slot: None,
            named_probe: None,
            entry_exit_id: None,
            companion: false,
            about: Vec::new(),
            first_call: MAX_TABLE_SLOTS,
            known_calls: Vec::new(),
            taken_from: None,
            relayed_hooks: Vec::new(),
            passes_to: None,
        }
    }

    /// The name of its event, or of the first of its set.
    pub(crate) fn event(&self) -> String {
        let first = self.instances.first();
        first.map_or_else(String::new, |instance| instance.name.clone())
    }

    /// The name of its program's function: the event's, as the kernel may have it, and the number of its first record, which no other hook has.
    pub(crate) fn function(&self) -> String {
        format!(
            "{}_{}",
            whole_name(self.kind, &self.event()),
            self.first_record_id
        )
    }

    /// Leaves only instances that a row of its slot is for, where the program finds out by a table of numbers which one it is: records of
    /// the others need no numbers.
    pub(crate) fn leave_out_idle(&mut self) {
        let selected = self
            .strategies
            .iter()
            .all(|strategy| strategy.context.selector.is_some());
        let Some(slot) = self.slot.as_ref().filter(|_| selected) else {
            return;
        };
        if slot.sets.iter().any(Vec::is_empty) {
            return;
        }
        let mut events: Vec<u16> = slot.sets.iter().flatten().copied().collect();
        events.sort_unstable();
        events.dedup();
        self.keep_only(&events);
    }

    /// Leaves only instances at these places, in this order; rows of its slot that are for others are for none.
    pub(crate) fn keep_only(&mut self, events: &[u16]) {
        let Some(slot) = &mut self.slot else { return };
        let instances = events
            .iter()
            .map(|&place| self.instances.get(usize::from(place)).cloned());
        let Some(instances) = instances.collect::<Option<Vec<_>>>() else {
            return;
        };
        self.instances = instances;
        for set in &mut slot.sets {
            let place = |event: &u16| events.iter().position(|known| known == event);
            *set = match set
                .iter()
                .filter_map(place)
                .map(|at| at as u16)
                .collect::<Vec<_>>()
            {
                none if none.is_empty() && !set.is_empty() => vec![Slot::NO_EVENT],
                some => some,
            };
        }
        slot.events = events.to_vec();
    }

    /// The numbers of its events (each that of the event's first record), with the events' names.
    pub fn numbers(&self) -> impl Iterator<Item = (i64, String)> {
        let stride = i64::from(self.records.max(1));
        let numbers = (i64::from(self.first_record_id)..).step_by(stride as usize);
        numbers.zip(self.instances.iter().map(|i| i.name.clone()))
    }

    /// The numbers of its events with their whole names, as programs know them.
    pub(crate) fn whole_numbers(&self) -> impl Iterator<Item = (i64, String)> {
        self.numbers()
            .map(|(number, name)| (number, whole_name(self.kind, &name)))
    }

    /// The programs of objects that its handlers call when attached by this strategy.
    pub(crate) fn calls(&self, strategy: &PlannedStrategy) -> Vec<Call> {
        let mut calls = self.known_calls.clone();
        if !calls.is_empty() {
            return calls;
        }
        for (object, program) in strategy.checked.iter().filter_map(called) {
            if calls
                .iter()
                .any(|known| known.object == object && known.program == program)
            {
                continue;
            }
            calls.push(Call {
                object: object.to_owned(),
                program: program.to_owned(),
                entry: self.first_call + calls.len() as u32,
            });
        }
        calls
    }

    /// Most of these, whichever strategy attaches the hook.
    pub(crate) fn most_calls(&self) -> usize {
        self.strategies
            .iter()
            .map(|strategy| self.calls(strategy).len())
            .max()
            .unwrap_or(0)
    }

    /// The event classes that this hook writes when attached by this strategy.
    pub fn classes(&self, strategy: &PlannedStrategy) -> Vec<EventClass> {
        self.classes_among(strategy, &[])
    }

    /// The same, with names for the numbers of other events that its handlers may have found in maps.
    pub(crate) fn classes_among(
        &self,
        strategy: &PlannedStrategy,
        events: &[(i64, String)],
    ) -> Vec<EventClass> {
        let all = || events.iter().map(|(number, name)| (*number, name.as_str()));
        let records = || strategy.checked.iter().flat_map(CheckedProbe::records);
        // Of a program the planner has made it so.
        let is_whole = whole_name(self.kind, &strategy.context.name) == strategy.context.name;
        let mut id = self.first_record_id;
        let mut classes = Vec::new();
        for instance in &self.instances {
            let probe = match is_whole {
                true => whole_name(self.kind, &instance.name),
                false => instance.name.clone(),
            };
            // Of many events each knows itself: what all of them knew of each other would be too much.
            let numbers: Vec<(i64, &str)> = match self.instances.len() {
                1 if !events.is_empty() => all().collect(),
                _ => vec![(i64::from(id), probe.as_str())],
            };
            for record in records() {
                let layout = instance.named_layout(&record.layout, &probe, &numbers);
                classes.push(EventClass {
                    id: EventId(id),
                    name: instance.name.clone(),
                    kind: self.kind.to_owned(),
                    print: instance.print.as_ref().and_then(|print| print.of(&layout)),
                    layout,
                    action: record.asks.clone(),
                });
                id += 1;
            }
        }
        classes
    }
}
