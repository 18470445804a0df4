//! What a session will do, before it does anything: events resolved, handlers checked, numbers given out; pure but for asking the catalog.

mod apart;
mod pair;
mod rows;
mod show;

pub(crate) use apart::Apart;
pub(crate) use rows::{Candidate, Checked, Refused, Wanted, check_set, without_set};
pub use show::show;

use crate::agent;
use crate::bpf::HandlerFile;
use crate::buffer::emit::{RingSink, map_name};
use crate::buffer::layout::{Geometry, Mode};
use crate::catalog::jprobe;
use crate::catalog::kind::Companions;
use crate::catalog::{Attachment, Catalog, Instance, Resolved, Via};
use crate::error::{Error, Result};
use crate::session::SLOTS;
use crate::session::gate::{Choice, Gate, Steering};
use crate::session::named::{self, Own};
use crate::session::target::Target;
use kestrel_compiler::check::globals::{Globals, Parameter};
use kestrel_compiler::check::tree::{Action, CheckedProbe, StatementKind};
use kestrel_compiler::context::Context;
use kestrel_compiler::lang::ast::{BinaryOp, Expr, ExprKind, Probe, Span};
use kestrel_compiler::lang::diag::{Diagnostic, has_errors};
use kestrel_compiler::lang::parse_events;
use kestrel_compiler::{Program, compile_hook};
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::layout::Layout;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// What a user asks for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Texts of `-e`: events, an optional predicate, an optional block.
    pub events: Vec<String>,
    /// Whose events.
    pub target: Target,
    /// Add the kernel's call stack to records of events without a block.
    pub kernel_stack: bool,
    /// Add the process's call stack to records of events without a block.
    pub user_stack: bool,
    /// What happens when the buffer is full.
    pub mode: Mode,
    /// Bytes of buffer per CPU.
    pub buffer_bytes: u64,
    /// How tracepoints are read.
    pub via: Via,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            events: Vec::new(),
            target: Target::All,
            kernel_stack: false,
            user_stack: false,
            mode: Mode::Stream,
            buffer_bytes: 4 << 20,
            via: Via::Auto,
        }
    }
}

/// One program to attach, with its alternatives.
#[derive(Clone)]
pub struct Hook {
    /// The event kind's canonical name.
    pub kind: &'static str,
    /// Events that the program serves.
    pub instances: Vec<Instance>,
    /// The number of the first instance's first record; each instance has `records` of them.
    pub first: u16,
    /// Kinds of record that the handlers write, all rows together.
    pub records: u16,
    /// The handlers that the event has in the tables: each differs from the others, each stands in at least one table.
    pub rows: Vec<Row>,
    /// Ways to see it, best first.
    pub ways: Vec<PlannedWay>,
    /// Whether the session may do without it where the kernel does not let it be attached: nobody named the event, only a pattern did.
    pub optional: bool,
    /// Where it is no hook of its own but a program that a hook of a running session calls.
    pub slot: Option<Slot>,
    /// Which named probe it is a part of.
    pub own: Option<Own>,
    /// Whether it only serves another hook: its hits are not what the user asked for.
    pub companion: bool,
    /// Where in its program array the first program of an object stands that its handlers call.
    pub(crate) first_call: u32,
    /// Where they stand, if that is decided already.
    pub(crate) known_calls: Vec<Call>,
}

/// A program of a compiled object that a handler calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The path of the object's file, from the root.
    pub object: String,
    /// The program's name.
    pub program: String,
    /// Its place in the hook's program array.
    pub entry: u32,
}

/// The object and the program that a handler calls.
pub(crate) fn called(handler: &CheckedProbe) -> Option<(&str, &str)> {
    handler.body.iter().find_map(|statement| match &statement.kind {
        StatementKind::Act(Action::Call { object, program }) => Some((object.as_str(), program.as_str())),
        _ => None,
    })
}

/// A program for a slot of a hook that a running session has already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Which of [`crate::table::Existing::hooks`].
    pub hook: usize,
    /// Per row: the places of its events among the program's instances; empty where it is for all of them.
    pub sets: Vec<Vec<u16>>,
    /// The places of the program's instances among the hook's; empty where they are the same.
    pub events: Vec<u16>,
    /// The one row that it is for, whatever the event; the others are there for the sake of their numbers.
    pub only: Option<usize>,
}

/// One handler of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The text it comes from; spans of the checked handler count in it.
    pub source: Arc<str>,
    /// The handler's own bytes in it, its events included.
    pub span: Span,
    /// Numbers of the tables (from 1) in which the event has this handler.
    pub tables: Vec<u32>,
    /// Kinds of record that it writes.
    pub records: u16,
}

impl Row {
    /// What the user wrote: events, predicate, block.
    pub fn text(&self) -> &str {
        let Span { start, end } = self.span;
        self.source
            .get(start as usize..end as usize)
            .unwrap_or(&self.source)
    }
}

/// One way, with the handlers checked for it.
#[derive(Clone)]
pub struct PlannedWay {
    /// What to attach to.
    pub attachment: Attachment,
    /// What the compiler is told.
    pub context: Context,
    /// One per row of the hook.
    pub handlers: Vec<CheckedProbe>,
    /// The hooks that the context's pair needs beside this one.
    pub(crate) companions: Option<Companions>,
}

/// One buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferPlan {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub geometry: Geometry,
}

/// All of it.
pub struct Plan {
    /// Names of the tables: the first has number 1.
    pub tables: Vec<String>,
    /// Programs.
    pub hooks: Vec<Hook>,
    /// Whose events.
    pub target: Target,
    /// Buffers, at least one: the first is where records go that name none.
    pub buffers: Vec<BufferPlan>,
    /// What the handlers share.
    pub globals: Globals,
    /// Whether tables can be loaded later, so that hooks have slots for their handlers.
    pub slots: bool,
    /// Compiled objects that rows name.
    pub objects: Vec<Arc<HandlerFile>>,
    /// Remarks about the texts that do not stand in the way.
    pub warnings: Vec<(String, Diagnostic)>,
}

/// The one buffer of a nameless table.
pub const BUFFER: &str = "main";
/// The name under which a nameless table is known.
pub const TABLE: &str = "main";

/// Makes a plan.
///
/// # Errors
/// The first text that is wrong, names nothing, or asks for what this kernel cannot do.
pub fn plan(request: &Request, catalog: &Catalog) -> Result<Plan> {
    plan_with(request, Vec::new(), catalog)
}

/// The same with parameters that the texts may name.
pub(crate) fn plan_with(request: &Request, parameters: Vec<Parameter>, catalog: &Catalog) -> Result<Plan> {
    let (mut hooks, mut objects) = (Vec::new(), Vec::new());
    let mut warnings = Vec::new();
    let mut globals = Globals {
        buffers: vec![BUFFER.to_owned()],
        parameters,
        ..Globals::default()
    };
    let mut unwritten: Vec<(u32, &str)> = Vec::new();
    for (number, text) in (0_u32..).zip(&request.events) {
        globals.text = number.to_string();
        let made = (&mut hooks, &mut objects);
        plan_text(request, catalog, text, &mut globals, made, &mut warnings)?;
        let new = globals.unwritten.iter().map(|(number, _)| *number);
        let known = |number: &u32| unwritten.iter().any(|(n, _)| n == number);
        let new: Vec<u32> = new.filter(|number| !known(number)).collect();
        unwritten.extend(new.into_iter().map(|number| (number, text.as_str())));
    }
    if let Some((number, diagnostic)) = globals.unwritten.first() {
        let text = unwritten.iter().find(|(n, _)| n == number);
        return Err(Error::Program {
            source_text: text.map_or_else(String::new, |(_, text)| (*text).to_owned()),
            diagnostics: vec![diagnostic.clone()],
        });
    }
    let next = number(&mut hooks, 1)?;
    Ok(Plan {
        tables: vec![TABLE.to_owned()],
        hooks,
        target: request.target,
        buffers: vec![BufferPlan {
            name: BUFFER.to_owned(),
            geometry: Geometry::new(request.mode, request.buffer_bytes, next),
        }],
        globals,
        slots: false,
        objects,
        warnings,
    })
}

/// Gives out numbers of records from `next` on; gives the one after the last.
///
/// # Errors
/// When a trace has no room for so many.
pub fn number(hooks: &mut [Hook], mut next: u32) -> Result<u32> {
    for hook in hooks {
        let numbers = hook.instances.len() as u32 * u32::from(hook.records.max(1));
        hook.first = u16::try_from(next).map_err(|_| too_many())?;
        next += numbers;
    }
    if next > u32::from(u16::MAX) {
        return Err(too_many());
    }
    Ok(next)
}

fn too_many() -> Error {
    Error::Unsupported {
        what: "the events together".to_owned(),
        why: "a trace has room for 65,535 kinds of record; narrow the patterns".to_owned(),
    }
}

fn plan_text(
    request: &Request,
    catalog: &Catalog,
    text: &str,
    globals: &mut Globals,
    (hooks, objects): (&mut Vec<Hook>, &mut Vec<Arc<HandlerFile>>),
    warnings: &mut Vec<(String, Diagnostic)>,
) -> Result<()> {
    let (mut probe, diagnostics) = parse_events(text);
    let wrong = |diagnostics| Error::Program {
        source_text: text.to_owned(),
        diagnostics,
    };
    if has_errors(&diagnostics) {
        return Err(wrong(diagnostics));
    }
    warnings.extend(diagnostics.into_iter().map(|d| (text.to_owned(), d)));
    let object = match &probe.object {
        None => None,
        Some(object) => {
            let read = Wanted::read(&object.node, Path::new(""), objects);
            let read = read.map_err(|error| wrong(vec![Diagnostic::error(object.span, error.to_string())]));
            Some(read?)
        }
    };
    let least = if probe.block.is_some() { 2 } else { MANY };
    complete(&mut probe, request, text);
    // The same text twice asks for nothing more. Comparing it once is enough: it may name a thousand events.
    let mut rows = hooks.iter().flat_map(|hook| &hook.rows);
    let known = rows
        .find(|row| *row.source == *text)
        .map(|row| row.source.clone());
    let source: Arc<str> = known.unwrap_or_else(|| text.into());
    let candidate = Candidate {
        probe: &probe,
        object,
        source: source.clone(),
        tables: vec![1],
        required: true,
    };
    let specs = probe.events.clone().into_iter();
    let mut all: Vec<(Span, Resolved)> = Vec::new();
    for spec in specs {
        let resolved = catalog.resolve(&spec, request.via)?.into_iter();
        all.extend(resolved.map(|resolved| (spec.span, resolved)));
    }
    let all = each_once(all, |span, message| {
        let remark = Diagnostic::warning(span, message).hint("it meets the handler once");
        warnings.push((text.to_owned(), remark));
    });
    for resolved in together(all, least, catalog, request.via)? {
        let known = |i: &&Instance| {
            hooks.iter().any(|h: &Hook| {
                h.kind == resolved.kind && h.instances.iter().any(|h| h.identity() == i.identity())
            })
        };
        if resolved.kind == jprobe::NAME
            && let Some(second) = resolved.instances.iter().find(known)
        {
            return Err(jprobe::second(second));
        }
        if hooks.iter().any(|h: &Hook| {
            h.rows.iter().any(|r| Arc::ptr_eq(&r.source, &source)) && h.instances == resolved.instances
        }) {
            continue;
        }
        let candidates = std::slice::from_ref(&candidate);
        let checked = check_set(resolved, candidates, globals).map_err(|refused| wrong(refused.why))?;
        for (_, remark) in checked.iter().flat_map(|checked| checked.remarks.iter()) {
            if !warnings.iter().any(|(t, d)| t == text && d == remark) {
                warnings.push((text.to_owned(), remark.clone()));
            }
        }
        hooks.extend(checked.into_iter().flat_map(rows::Checked::into_hooks));
    }
    Ok(())
}

/// Leaves out what names an event again, by another name of it: an event meets a handler once. A second jprobe is a matter of its own.
fn each_once(all: Vec<(Span, Resolved)>, mut remark: impl FnMut(Span, String)) -> Vec<Resolved> {
    let mut known: HashMap<(&'static str, String), String> = HashMap::new();
    let mut left = Vec::new();
    for (span, resolved) in all {
        let key = |instance: &Instance| (resolved.kind, instance.identity().to_owned());
        if let [one] = resolved.instances.as_slice()
            && resolved.kind != jprobe::NAME
            && let Some(other) = known.get(&key(one)).filter(|other| **other != one.name)
        {
            remark(
                span,
                format!("{} is another name of {other}: they are one event", one.name),
            );
            continue;
        }
        for instance in &resolved.instances {
            known
                .entry(key(instance))
                .or_insert_with(|| instance.name.clone());
        }
        left.push(resolved);
    }
    left
}

/// Functions named one by one are a set like those of a pattern: attached in one operation where the kernel can. So many named functions at
/// least whose default records have their parameters apart.
const MANY: usize = 17;

/// Puts single functions of one kind together, where there are so many at least.
fn together(all: Vec<Resolved>, least: usize, catalog: &Catalog, via: Via) -> Result<Vec<Resolved>> {
    let is_single = |r: &Resolved| {
        r.instances.len() == 1
            && r.ways
                .iter()
                .all(|way| matches!(way.attachment, Attachment::Functions { maxactive: None, .. }))
    };
    let (singles, mut rest): (Vec<Resolved>, Vec<Resolved>) = all.into_iter().partition(is_single);
    let mut kinds: Vec<(&'static str, Vec<Resolved>)> = Vec::new();
    for single in singles {
        match kinds.iter_mut().find(|(kind, _)| *kind == single.kind) {
            Some((_, same)) if same.iter().any(|s| s.instances == single.instances) => {}
            Some((_, same)) => same.push(single),
            None => kinds.push((single.kind, vec![single])),
        }
    }
    for (kind, singles) in kinds {
        let names: Vec<String> = singles.iter().map(|s| s.instances[0].name.clone()).collect();
        let set = if singles.len() < least {
            None
        } else {
            catalog.set(kind, &names, via)?
        };
        match set {
            Some(set) => rest.push(Resolved {
                apart: singles,
                ..set
            }),
            None => rest.extend(singles),
        }
    }
    Ok(rest)
}

/// Adds what options ask for to what was written: stacks to the default record, the process to the predicate.
fn complete(probe: &mut Probe, request: &Request, source: &str) {
    if probe.block.is_none() && (request.kernel_stack || request.user_stack) {
        let stacks = [(request.kernel_stack, "kstack"), (request.user_stack, "ustack")];
        let stacks: Vec<&str> = stacks
            .iter()
            .filter(|(wanted, _)| *wanted)
            .map(|(_, name)| *name)
            .collect();
        let text = format!("a:b {{ record(args, {}) }}", stacks.join(", "));
        probe.block = beside(source, &text).block;
    }
    if let Target::Process(pid) = request.target {
        guard(probe, &format!("pid == {pid}"), source);
    }
}

/// Parses a text of ours to be added to what stands in `source`. Its places lie beyond the end of that, so that nobody takes them for
/// places in it.
fn beside(source: &str, text: &str) -> Probe {
    let before = " ".repeat(source.len() + 1);
    parse_events(&(before + text)).0
}

/// Puts a condition before the predicate of a probe that stands in `source`.
pub(crate) fn guard(probe: &mut Probe, condition: &str, source: &str) {
    let Some(first) = beside(source, &format!("a:b /{condition}/")).predicate else {
        return;
    };
    probe.predicate = Some(match probe.predicate.take() {
        None => first,
        Some(second) => Expr {
            span: second.span,
            kind: ExprKind::Binary {
                op: BinaryOp::And,
                left: Box::new(first),
                right: Box::new(second),
            },
        },
    });
}

/// The layouts of the handlers' records, one handler after the other, each in source order.
fn layouts(handlers: &[CheckedProbe]) -> Vec<Layout> {
    let records = handlers.iter().flat_map(|handler| handler.records());
    records.map(|record| record.layout.clone()).collect()
}

/// How many kinds of record the buffers of a session that stays have room for when it begins with so many: tables that are loaded later bring
/// theirs.
pub(crate) fn room_to_grow(numbers: u32) -> u32 {
    (2 * numbers).clamp(1024, u32::from(u16::MAX) + 1)
}

impl Plan {
    /// Makes sure that what handlers have to say to an agent goes through a buffer of its own.
    pub(crate) fn give_messages_a_buffer(&mut self) {
        if self.buffers.iter().any(|buffer| buffer.name == agent::BUFFER) {
            return;
        }
        let events = self.buffers.iter().map(|b| b.geometry.events).max();
        self.buffers.push(BufferPlan {
            name: agent::BUFFER.to_owned(),
            geometry: Geometry::new(Mode::Stream, agent::BYTES, events.unwrap_or(1)),
        });
    }

    /// What may happen to the buffers while the hooks run: in a session that stays, anything.
    pub fn steering(&self) -> Steering {
        if self.globals.messages {
            return Steering::any(&self.globals.buffers);
        }
        let ways = self.hooks.iter().flat_map(|hook| &hook.ways);
        Steering::of(ways.flat_map(|way| &way.handlers))
    }
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
    /// Leaves only instances that a row of its slot is for, where the program finds out by a table of numbers which one it is: records of
    /// the others need no numbers.
    pub(crate) fn leave_out_idle(&mut self) {
        let selected = self.ways.iter().all(|way| way.context.selector.is_some());
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
        let numbers = (i64::from(self.first)..).step_by(stride as usize);
        numbers.zip(self.instances.iter().map(|i| i.name.clone()))
    }

    /// The programs of objects that its handlers call when attached in this way.
    pub(crate) fn calls(&self, way: &PlannedWay) -> Vec<Call> {
        let mut calls = self.known_calls.clone();
        if !calls.is_empty() {
            return calls;
        }
        for (object, program) in way.handlers.iter().filter_map(called) {
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

    /// How many programs that are made later its program array has room for: one for each table, or the next of a named probe, whose programs are
    /// made anew where they refer to buffers.
    pub(crate) fn slots(&self, plan: &Plan) -> u32 {
        match self.own {
            _ if !plan.slots => 0,
            None => SLOTS,
            Some(_) if self.records > 0 => named::SLOTS,
            Some(_) => 0,
        }
    }

    /// How many these are at most, whichever way it is attached.
    pub(crate) fn most_calls(&self) -> usize {
        self.ways
            .iter()
            .map(|way| self.calls(way).len())
            .max()
            .unwrap_or(0)
    }

    /// The event classes that this hook writes when attached in this way.
    pub fn classes(&self, way: &PlannedWay) -> Vec<EventClass> {
        let layouts = layouts(&way.handlers);
        let mut id = self.first;
        let mut classes = Vec::new();
        for instance in &self.instances {
            for layout in &layouts {
                classes.push(EventClass {
                    id: EventId(id),
                    name: instance.name.clone(),
                    kind: self.kind.to_owned(),
                    layout: instance.named_layout(layout),
                });
                id += 1;
            }
        }
        classes
    }

    /// Compiles the handlers for a way.
    ///
    /// # Errors
    /// When a record is too large for a page, or needs more stack than BPF has.
    pub fn compile(&self, way: &PlannedWay, plan: &Plan) -> Result<Program> {
        let mut context = way.context.clone();
        context.number = context.number.numbered(self.first, self.records.max(1));
        let ring_of = |buffer: &BufferPlan| RingSink {
            map: map_name(&buffer.name),
            geometry: buffer.geometry,
        };
        let sink = Gate {
            buffers: plan
                .buffers
                .iter()
                .map(|b| (b.name.clone(), ring_of(b)))
                .collect(),
            steering: plan.steering(),
            tables: plan.tables.clone(),
            parameters: plan.globals.parameters.iter().map(|p| p.name.clone()).collect(),
            followed: matches!(plan.target, Target::Command(_)),
            calls: self.calls(way),
            choice: match (self.own, &self.slot, self.rows.as_slice()) {
                (Some(own), Some(_), _) => Choice::Renewed(own),
                (Some(own), None, _) => Choice::Named {
                    own,
                    slots: self.slots(plan) > 0,
                },
                (None, Some(Slot { only: Some(row), .. }), _) => Choice::Row(*row),
                (None, Some(slot), _) => Choice::Instances(slot.sets.clone()),
                (None, None, [_]) if plan.tables.len() == 1 && !plan.slots => Choice::Only,
                (None, None, rows) => Choice::Tables {
                    tables: rows.iter().map(|row| row.tables.clone()).collect(),
                    slots: plan.slots,
                },
            },
        };
        let handlers: Vec<&CheckedProbe> = way.handlers.iter().collect();
        compile_hook(&handlers, &context, &sink).map_err(|e| Error::Compile {
            event: context.name.clone(),
            why: e.to_string(),
        })
    }
}
