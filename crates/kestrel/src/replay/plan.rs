//! Checks and compiles a program for the events of a recording, in rounds, as it is done for a kernel's events.

use super::advice::{advise, advise_alternatives, advise_together, say_absent, with_word, words_to_record};
use super::arguments;
use super::calls::{CallEvent, Calls};
use super::events::{Found, Trigger, is_name, is_tracepoint, kind_of, record_it, trigger, wrong};
use crate::plan::{ProgramText, declared_maps, globals_of, whole_name};
use kestrel_bpf::btf::Btf;
use kestrel_catalog::catalog::text_of;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::check;
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::check::shape::{PROGRAM_ROUNDS, Shapes};
use kestrel_compiler::check::tree::CheckedProbe;
use kestrel_compiler::context::{Context, EventField, Source, ValueType};
use kestrel_compiler::definition::overlay;
use kestrel_compiler::lang::ast::{EventSpec, Expr, ExprKind, Probe, Span};
use kestrel_compiler::lang::config::MissingProbes;
use kestrel_compiler::lang::diag::{Diagnostic, Severity, did_you_mean, has_errors};
use kestrel_compiler::lang::source::words;
use kestrel_compiler::lang::walk::Node;
use kestrel_replay::call::Side;
use kestrel_replay::event;
use kestrel_replay::reads::reads_memory;
use kestrel_replay::refusal::{advice, name_as_written, of_no_thread, refused};
use kestrel_replay::{HandlerId, Held, Replay, unaddressed};
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::layout::Layout;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A handler of a program at one event, checked.
struct Checked<'e> {
    at: RunEvent<'e>,
    context: Context,
    handler: CheckedProbe,
}

/// Event of the run at which a handler runs.
#[derive(Clone)]
enum RunEvent<'e> {
    Begin,
    End,
    Every(u64),
    Record(&'e EventClass),
    Calls(Box<CallEvent<'e>>),
}

/// What is known of the recorded kernel: where it runs here, all.
pub(super) struct RecordedKernel<'k> {
    pub(super) types: Option<Arc<Btf>>,
    /// The layout of a tracepoint.
    pub(super) tracepoint: &'k dyn Fn(&str) -> Option<Layout>,
    /// Whether an event can be recorded; `None` where that is not known.
    pub(super) has: &'k dyn Fn(&EventSpec) -> Option<bool>,
    /// The address of a symbol.
    pub(super) address: &'k dyn Fn(&str) -> Option<u64>,
}

impl RecordedKernel<'_> {
    /// A kernel of which nothing is known.
    #[cfg(test)]
    pub(super) const UNKNOWN: Self = Self {
        types: None,
        tracepoint: &|_| None,
        has: &|_| None,
        address: &|_| None,
    };
}

/// A program that can be run over a recording.
pub(super) struct Planned {
    pub(super) replay: Replay,
    pub(super) begin: Vec<HandlerId>,
    pub(super) end: Vec<HandlerId>,
    /// Handlers that run at intervals, with the interval in nanoseconds.
    pub(super) every: Vec<(HandlerId, u64)>,
    /// Pairs of a handler and a recorded event that it runs at.
    pub(super) events: usize,
    pub(super) warnings: Vec<(String, Diagnostic)>,
}

/// The word for how many CPUs there are.
const NCPUS: &str = "ncpus";

/// Where a probe uses `ncpus`.
fn ncpus(probe: &Probe) -> Option<Span> {
    let found = Cell::new(None);
    probe.any(&|node| match node {
        Node::Expr(Expr {
            kind: ExprKind::Identifier(name),
            span,
        }) if name == NCPUS => {
            found.set(Some(*span));
            true
        }
        _ => false,
    });
    found.get()
}

/// Checks and compiles a program for the events of a recording, which begins at `begin_ns`; dates are `offset` ns later. `kernel` is the recorded
/// one.
///
/// # Errors
/// An error of the program, or a value that was not recorded.
pub(super) fn plan(
    program: &ProgramText,
    (events, calls): (&[EventClass], &Calls<'_>),
    globals: &Globals,
    kernel: &RecordedKernel<'_>,
    (begin_ns, offset): (u64, i64),
) -> Result<Planned> {
    let base = kernel.types.as_ref();
    let known = |name: &str| base?.enumerator(name).map(|found| found.value);
    let (types, found) = overlay(&program.definitions, base, &known);
    if has_errors(&found) {
        return Err(wrong(&program.text, found));
    }
    if globals.cpus == 0
        && let Some(span) = program.probes.iter().find_map(ncpus)
    {
        let message = "how many CPUs there were is not known of a recording of another kernel";
        return Err(wrong(&program.text, vec![Diagnostic::error(span, message)]));
    }
    // A handler may read a map that a later one writes: its type is known after a round over all of them, and all are checked anew until nothing changes.
    let mut shapes = Shapes::of_program();
    for _ in 0..PROGRAM_ROUNDS {
        let mut round = Round {
            program,
            events,
            calls,
            held: Held::of(events),
            types: types.clone(),
            kernel,
            fields: asked_fields(&program.text),
            globals: Globals {
                addresses: addresses(&shapes, kernel),
                is_recorded: true,
                ..globals_of(program, &shapes, globals)?
            },
            checked: Vec::new(),
            warnings: program.warnings.clone(),
            wrong: Vec::new(),
            own: Vec::new(),
            left_out: Vec::new(),
            named: Vec::new(),
        };
        round.check()?;
        match shapes.next(round.globals.shapes.clone()) {
            Some(next) => shapes = next,
            None => return round.compile((begin_ns, offset)),
        }
    }
    Err(Error::Compile {
        event: program.name.clone(),
        why: "what its maps hold is not found after many rounds".to_owned(),
    })
}

/// The addresses of the symbols that a program has asked for.
fn addresses(shapes: &Shapes, kernel: &RecordedKernel<'_>) -> BTreeMap<String, u64> {
    let wanted = shapes.symbols.iter();
    wanted
        .filter_map(|name| Some((name.clone(), (kernel.address)(name)?)))
        .collect()
}

/// One round of checking all handlers.
pub(super) struct Round<'e> {
    pub(super) program: &'e ProgramText,
    events: &'e [EventClass],
    calls: &'e Calls<'e>,
    /// The memory that records hold.
    pub(super) held: Held,
    pub(super) types: Option<Arc<Btf>>,
    kernel: &'e RecordedKernel<'e>,
    fields: BTreeSet<String>,
    pub(super) globals: Globals,
    checked: Vec<Checked<'e>>,
    warnings: Vec<Diagnostic>,
    wrong: Vec<Diagnostic>,
    /// Errors of handlers at the program's own events: they may only follow from what is in `wrong`, as where a map has no handler left that writes it.
    own: Vec<Diagnostic>,
    /// Events that were not recorded and need not be, as the program has it.
    left_out: Vec<Diagnostic>,
    /// Those of them that were named, by their names.
    named: Vec<(&'e EventSpec, Diagnostic)>,
}

impl<'e> Round<'e> {
    fn check(&mut self) -> Result<()> {
        for (number, probe) in self.program.probes.iter().enumerate() {
            self.globals.text = number.to_string();
            let (mut is_any_there, mut patterns) = (false, Vec::new());
            for spec in &probe.events {
                match trigger(spec, self.events, self.calls)? {
                    Ok(trigger) => {
                        is_any_there = true;
                        self.probe(probe, spec, trigger);
                    }
                    Err(missing) if is_name(spec) => {
                        let missing = self.with_needed(probe, spec, missing);
                        self.named.push((spec, missing.clone()));
                        self.missing(missing, self.program.config.missing_probes);
                    }
                    Err(missing) => patterns.push((spec, missing)),
                }
            }
            // A pattern beside other events is for kernels that name a function otherwise (`f, f.constprop.*`): it may stand for nothing, as live.
            let is_named = probe.events.iter().any(is_name);
            for (spec, missing) in patterns {
                let is_other_name = is_any_there || is_named && !is_tracepoint(spec);
                let how = match (is_other_name, self.program.config.missing_probes) {
                    (true, MissingProbes::Error) => MissingProbes::Warn,
                    (_, configured) => configured,
                };
                self.missing(missing, how);
            }
        }
        Ok(())
    }

    fn missing(&mut self, diagnostic: Diagnostic, how: MissingProbes) {
        match how {
            MissingProbes::Error => self.wrong.push(diagnostic),
            MissingProbes::Warn => {
                let warning = Diagnostic::warning(diagnostic.span, diagnostic.message.clone());
                let hints = diagnostic.hints.iter().cloned();
                self.warnings.push(hints.fold(warning, Diagnostic::hint));
                self.left_out.push(diagnostic);
            }
            MissingProbes::Ignore => self.left_out.push(diagnostic),
        }
    }

    /// Has the refusal of an event that was not recorded say what it must be recorded with for this handler, as far as that is known without one of its records.
    fn with_needed(&self, probe: &Probe, spec: &EventSpec, mut missing: Diagnostic) -> Diagnostic {
        let name = text_of(spec);
        let class = EventClass {
            kind: kind_of(spec).to_owned(),
            layout: match is_tracepoint(spec) {
                true => (self.kernel.tracepoint)(&name).unwrap_or_default(),
                false => Layout::default(),
            },
            ..own_class(&name)
        };
        let words = words_to_record(probe);
        let values = match self.needed(probe, &class) {
            Some(values) => words
                .iter()
                .fold(values, |values, word| with_word(values, Some(word))),
            None => words.join(", "),
        };
        let plain = record_it(&name);
        if !values.is_empty()
            && let Some(hint) = missing.hints.iter_mut().find(|hint| **hint == plain)
        {
            *hint = advice(&name, &values);
        }
        missing
    }

    fn probe(&mut self, probe: &Probe, spec: &EventSpec, trigger: Trigger<'e>) {
        let own = |name: &str| event::context(&own_class(name));
        let context = match trigger {
            Trigger::Begin => (RunEvent::Begin, own("begin")),
            Trigger::End => (RunEvent::End, own("end")),
            Trigger::Every { name, nanoseconds } => (RunEvent::Every(nanoseconds), own(&name)),
            Trigger::Recorded(events) => {
                let one = is_name(spec);
                for found in events {
                    let (name, at, context) = match found {
                        Found::Event(event) => {
                            (event.name.clone(), RunEvent::Record(event), self.context(event))
                        }
                        Found::Calls(calls) => {
                            let warning = self.calls.warning(&calls);
                            let warning = warning.map(|it| Diagnostic::warning(spec.span, it));
                            if let Some(warning) = warning
                                && !self.warnings.iter().any(|it| it.message == warning.message)
                            {
                                self.warnings.push(warning);
                            }
                            let name = calls.class.name.clone();
                            let context =
                                self.with_missing(&name, calls.context(), |field| calls.lacks(field));
                            (name, RunEvent::Calls(calls), context)
                        }
                    };
                    let event = match &at {
                        RunEvent::Record(event) => Some(*event),
                        _ => None,
                    };
                    if let Err(mut why) = self.handler(probe, at, context) {
                        self.advise_keepers(&mut why, &name);
                        if let Some(values) = event.and_then(|event| self.needed(probe, event)) {
                            advise(&mut why, &name, values);
                        }
                        self.refused(&name, why, one);
                    }
                }
                return;
            }
        };
        if let Err(why) = self.handler(probe, context.0, context.1) {
            self.own.extend(why);
        }
    }

    /// Handles errors of a handler at one event: an event that only a pattern named is left out, with warnings.
    fn refused(&mut self, event: &str, why: Vec<Diagnostic>, one: bool) {
        if one {
            return self.wrong.extend(why);
        }
        for diagnostic in why {
            let message = format!("left out {event}: {}", diagnostic.message);
            let warning = Diagnostic::warning(diagnostic.span, message);
            self.warnings
                .push(diagnostic.hints.into_iter().fold(warning, Diagnostic::hint));
        }
    }

    /// The context of a recorded event.
    pub(super) fn context(&self, event: &EventClass) -> Context {
        let mut context = event::context(event);
        // The event's name is the one that live programs have for it.
        context.name = whole_name(&event.kind, &event.name);
        if let Some(types) = &self.types {
            arguments::by_number(event, types, &mut context);
        }
        if self.held.user {
            self.calls.declare(event, &mut context);
        }
        self.with_missing(&event.name, context, |_| None)
    }

    /// A context with the fields that the program asks for and the recording does not have: they are refused by name. `lacks` is why recording would not help.
    fn with_missing(
        &self,
        event: &str,
        mut context: Context,
        lacks: impl Fn(&str) -> Option<String>,
    ) -> Context {
        let known: BTreeSet<&str> = context.fields.iter().map(|field| field.name.as_str()).collect();
        let missing = self.fields.iter().filter(|name| !known.contains(name.as_str()));
        let missing: Vec<EventField> = missing
            .map(|name| EventField {
                name: name.clone(),
                ty: ValueType::Pointer { user: false },
                source: {
                    let near = did_you_mean(name, known.iter().copied());
                    match lacks(name) {
                        Some(why) => Source::Absent { why, instead: near },
                        None => Source::Absent {
                            why: format!("it was not recorded with {event}"),
                            instead: Some(near.unwrap_or_else(|| advice(event, name))),
                        },
                    }
                },
                recorded: false,
            })
            .collect();
        context.fields.extend(missing);
        context
    }

    fn handler(
        &mut self,
        probe: &Probe,
        at: RunEvent<'e>,
        context: Context,
    ) -> std::result::Result<(), Vec<Diagnostic>> {
        let context = Context {
            types: self.types.clone(),
            ..context
        };
        let (checked, found) = check(probe, &context, false, &mut self.globals);
        let (errors, warnings): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|found| found.severity == kestrel_compiler::lang::diag::Severity::Error);
        for warning in warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        let Some(handler) = checked.filter(|_| errors.is_empty()) else {
            return Err(errors);
        };
        let event = match &at {
            RunEvent::Record(event) => Some(*event),
            RunEvent::Calls(calls) => Some(&calls.class),
            _ => None,
        };
        let mut refused = refused(&handler, event, self.held);
        if let RunEvent::Every(_) = &at {
            refused.extend(of_no_thread(&handler));
        }
        name_as_written(&mut refused, |span| words(&self.program.text, span));
        if !refused.is_empty() {
            return Err(refused);
        }
        self.checked.push(Checked { at, context, handler });
        Ok(())
    }

    /// Warnings about fields that hold memory at addresses that were not recorded: what reads it finds nothing.
    fn warn_of_unaddressed(&mut self) {
        let mut handlers = self.checked.iter().map(|checked| &checked.handler);
        let Some(reader) = handlers.find(|handler| reads_memory(handler)) else {
            return;
        };
        let span = reader
            .expressions()
            .map(|expr| expr.span)
            .next()
            .unwrap_or_default();
        for event in self.events {
            for field in unaddressed(event, &self.calls.signatures) {
                let (name, argument) = (
                    &event.name,
                    field.trim_start_matches(|c: char| !c.is_ascii_digit()),
                );
                let argument = argument.split('_').next().unwrap_or_default();
                let message = format!(
                    "{field} of {name} is not read as memory: the argument {argument}, which says where it lay, was not recorded with it"
                );
                let hint = match !own_call(name).is_empty() {
                    true => format!("record both: {name} {{ record(args, {field} = …) }}"),
                    false => format!("record both: {name} {{ record(arg{argument}, {field} = …) }}"),
                };
                self.warnings.push(Diagnostic::warning(span, message).hint(hint));
            }
        }
    }

    fn compile(mut self, (begin_ns, offset): (u64, i64)) -> Result<Planned> {
        let text = &self.program.text;
        let is_answered =
            |checked: &Checked<'_>| matches!(checked.at, RunEvent::Record(_) | RunEvent::Calls(_));
        if self.wrong.is_empty() && !self.checked.iter().any(is_answered) && !self.left_out.is_empty() {
            // Of alternatives that may be missing, some must be there: the answer would be that nothing happened.
            let mut missing = std::mem::take(&mut self.left_out);
            advise_alternatives(&mut missing, &self.named, self.kernel.has);
            return Err(wrong(text, missing));
        }
        if self.wrong.is_empty() {
            self.wrong = std::mem::take(&mut self.own);
        }
        if !self.wrong.is_empty() {
            if !say_absent(&mut self.wrong, &self.named, self.kernel.has) {
                advise_together(&mut self.wrong);
            }
            return Err(wrong(text, self.wrong));
        }
        for (_, diagnostic) in &self.globals.unwritten {
            match diagnostic.severity {
                Severity::Error => return Err(wrong(text, vec![diagnostic.clone()])),
                Severity::Warning => self.warnings.push(diagnostic.clone()),
            }
        }
        let unfit = declared_maps::unfit(self.program, &self.globals);
        if !unfit.is_empty() {
            return Err(wrong(text, unfit));
        }
        self.warnings
            .extend(declared_maps::warnings(self.program, &self.globals));
        self.warn_of_unaddressed();
        let mut planned = Planned {
            replay: Replay::new(self.globals.maps, begin_ns, offset),
            begin: Vec::new(),
            end: Vec::new(),
            every: Vec::new(),
            events: 0,
            warnings: Vec::new(),
        };
        // Keeping what records hold of memory costs time for every record, so it is done only where a handler reads some.
        if self.checked.iter().any(|checked| reads_memory(&checked.handler)) {
            planned
                .replay
                .remember_memory(self.events, self.calls.signatures.clone());
        }
        for Checked { at, context, handler } in self.checked {
            let added = match &at {
                RunEvent::Calls(calls) => {
                    planned
                        .replay
                        .add_of_calls(&handler, &context, &calls.events, calls.number())
                }
                RunEvent::Record(event) => planned.replay.add(&handler, &context, Some(event)),
                _ => planned.replay.add(&handler, &context, None),
            };
            let id = added.map_err(|error| Error::Compile {
                event: context.name.clone(),
                why: error.to_string(),
            })?;
            planned.events += 1;
            match at {
                RunEvent::Begin => planned.begin.push(id),
                RunEvent::End => planned.end.push(id),
                RunEvent::Every(nanoseconds) => planned.every.push((id, nanoseconds)),
                RunEvent::Record(_) | RunEvent::Calls(_) => {}
            }
        }
        if planned.events == 0 {
            let first = self
                .program
                .probes
                .first()
                .map(|probe| probe.span)
                .unwrap_or_default();
            let nothing = Diagnostic::error(
                first,
                "no handler of this program is for an event that was recorded",
            );
            return Err(wrong(text, vec![nothing]));
        }
        let warnings = self
            .warnings
            .into_iter()
            .map(|warning| (text.to_string(), warning));
        planned.warnings = warnings.collect();
        Ok(planned)
    }
}

/// The call in the name of an event of its entry.
fn own_call(event: &str) -> &str {
    event.strip_prefix(Side::Entry.prefix()).unwrap_or_default()
}

/// The class of an event of the program's own (`begin`, `interval`), which has no fields.
pub(super) fn own_class(name: &str) -> EventClass {
    EventClass {
        id: EventId(0),
        name: name.to_owned(),
        kind: String::new(),
        layout: Layout::default(),
        action: None,
        print: None,
    }
}

/// The names behind `args.` in a text: fields that some handler may ask for.
fn asked_fields(text: &str) -> BTreeSet<String> {
    let behind = text.split("args").skip(1);
    let names = behind.filter_map(|rest| {
        let rest = rest.trim_start();
        let rest = rest
            .strip_prefix('.')
            .or_else(|| rest.strip_prefix("->"))?
            .trim_start();
        let word: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        (!word.is_empty()).then_some(word)
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_compiler::lang::parse_events;

    #[test]
    fn uses_of_ncpus_are_expressions() {
        let used = |text: &str| ncpus(&parse_events(text).0).is_some();
        assert!(used("kprobe:f { record(n = ncpus) }"));
        assert!(used("kprobe:f /cpu < ncpus/ { record() }"));
        assert!(!used("kprobe:f { printf(\"ncpus\"); }"));
    }
}
