//! What a session will do, before it does anything: events resolved, handlers checked, numbers given out; pure but for asking the catalog.

mod check_handlers;
mod dedupe;
mod describe;
mod entry_exit;
mod events;
mod hook;
mod load;
mod per_event;
mod relayed;
mod resolve;
mod second_jprobe;
mod show;
mod trust;

pub(crate) use check_handlers::{Candidate, Checked, Refused, Wanted, check_set, without_set};
use dedupe::{MANY, each_once, together};
pub use describe::{Shown, describe, handler};
pub(crate) use hook::called;
pub use hook::{Hook, PlannedStrategy, Row, Slot};
pub use kestrel_hook::hook::Call;
pub use load::{Existing, ExistingHook, plan_load, plan_named};
pub(crate) use per_event::Apart;
pub use resolve::{Options, resolve};
pub(crate) use second_jprobe::no_second;
pub use show::show;

use kestrel_catalog::catalog::jprobe;
use kestrel_catalog::catalog::{Catalog, Instance, Resolved, Via};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::{Globals, Parameter};
use kestrel_compiler::check::tree::{CheckedProbe, Destination};
use kestrel_compiler::lang::ast::{BinaryOp, Expr, ExprKind, Probe, Span};
use kestrel_compiler::lang::diag::{Diagnostic, has_errors};
use kestrel_compiler::lang::{parse_events, probes_apart};
use kestrel_hook::buffer::layout::{Geometry, Mode};
pub use kestrel_hook::buffer::name::MAIN as BUFFER;
use kestrel_hook::buffer::name::{MESSAGES, MESSAGES_BYTES};
use kestrel_hook::hook::dispatch::Steering;
use kestrel_hook::hook::owner::Owner;
use kestrel_hook::hook::process_filter::Target;
use kestrel_object::HandlerFile;
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
    /// Whether what handlers ask of user space (`notify`) goes through a buffer of its own, so that the others need not be read while they are filled.
    pub messages: bool,
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
            messages: false,
        }
    }
}

/// One buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferPlan {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub geometry: Geometry,
    /// The process that it is for, if it is for one.
    pub process: Option<Owner>,
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
        messages: request.messages,
        ..Globals::default()
    };
    let mut unwritten: Vec<(u32, &str)> = Vec::new();
    let texts: Vec<String> = request
        .events
        .iter()
        .flat_map(|text| probes_apart(text))
        .collect();
    for (number, text) in (0_u32..).zip(&texts) {
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
    let mut plan = Plan {
        tables: vec![TABLE.to_owned()],
        hooks,
        target: request.target,
        buffers: vec![BufferPlan {
            name: BUFFER.to_owned(),
            geometry: Geometry::new(request.mode, request.buffer_bytes, next),
            process: None,
        }],
        globals,
        slots: false,
        objects,
        warnings,
    };
    if plan.asks() {
        plan.give_messages_a_buffer();
    }
    Ok(plan)
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
        hooks.extend(checked.into_iter().flat_map(check_handlers::Checked::into_hooks));
    }
    Ok(())
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

/// How many kinds of record the buffers of a session that stays have room for when it begins with so many: tables that are loaded later bring
/// theirs.
pub(crate) fn room_to_grow(numbers: u32) -> u32 {
    (2 * numbers).clamp(1024, u32::from(u16::MAX) + 1)
}

impl Plan {
    /// Whether records go through a buffer of their own because they ask something of user space.
    fn asks(&self) -> bool {
        let ways = self.hooks.iter().flat_map(|hook| &hook.ways);
        let mut records = ways.flat_map(|way| way.handlers.iter().flat_map(CheckedProbe::records));
        records.any(|record| record.to == Destination::Messages)
    }

    /// Makes sure that what handlers have to say to an agent goes through a buffer of its own.
    pub(crate) fn give_messages_a_buffer(&mut self) {
        if self.buffers.iter().any(|buffer| buffer.name == MESSAGES) {
            return;
        }
        let events = self.buffers.iter().map(|b| b.geometry.events).max();
        self.buffers.push(BufferPlan {
            name: MESSAGES.to_owned(),
            geometry: Geometry::new(Mode::Stream, MESSAGES_BYTES, events.unwrap_or(1)),
            process: None,
        });
    }

    /// What may happen to the buffers while the hooks run: in a session that stays, anything.
    pub fn steering(&self) -> Steering {
        if self.globals.persistent {
            return Steering::any(&self.globals.buffers);
        }
        let ways = self.hooks.iter().flat_map(|hook| &hook.ways);
        Steering::of(ways.flat_map(|way| &way.handlers))
    }
}
