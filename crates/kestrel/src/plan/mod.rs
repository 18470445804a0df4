//! What a session will do, before it does anything: events resolved, handlers checked, numbers given out; pure but for asking the catalog.

mod show;

pub use show::show;

use crate::buffer::emit::{RingSink, map_name};
use crate::buffer::layout::{Geometry, Mode};
use crate::catalog::{Attachment, Catalog, Instance, Resolved, Via, Way};
use crate::error::{Error, Result};
use crate::session::gate::{Choice, Gate};
use crate::session::target::Target;
use kestrel_compiler::check::{check, globals::Globals, tree::CheckedProbe};
use kestrel_compiler::context::Context;
use kestrel_compiler::lang::ast::{BinaryOp, Expr, ExprKind, Probe};
use kestrel_compiler::lang::diag::{Diagnostic, has_errors};
use kestrel_compiler::lang::parse_events;
use kestrel_compiler::{Program, compile_hook};
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::layout::Layout;

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
}

/// One handler of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The text it comes from; spans of the checked handler count in it.
    pub source: String,
    /// Numbers of the tables (from 1) in which the event has this handler.
    pub tables: Vec<u32>,
    /// Kinds of record that it writes.
    pub records: u16,
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
    let mut hooks = Vec::new();
    let mut warnings = Vec::new();
    let mut globals = Globals {
        buffers: vec![BUFFER.to_owned()],
        ..Globals::default()
    };
    let mut unwritten: Vec<(u32, &str)> = Vec::new();
    for text in &request.events {
        plan_text(request, catalog, text, &mut globals, &mut hooks, &mut warnings)?;
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
    let mut next = 1u32;
    for hook in &mut hooks {
        let numbers = hook.instances.len() as u32 * u32::from(hook.records.max(1));
        hook.first = u16::try_from(next).map_err(|_| too_many())?;
        next += numbers;
    }
    if next > u32::from(u16::MAX) {
        return Err(too_many());
    }
    Ok(Plan {
        tables: vec![TABLE.to_owned()],
        hooks,
        target: request.target,
        buffers: vec![BufferPlan {
            name: BUFFER.to_owned(),
            geometry: Geometry::new(request.mode, request.buffer_bytes, next),
        }],
        globals,
        warnings,
    })
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
    hooks: &mut Vec<Hook>,
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
    complete(&mut probe, request);
    for spec in probe.events.clone() {
        for resolved in catalog.resolve(&spec, request.via)? {
            if hooks
                .iter()
                .any(|h: &Hook| h.rows.iter().any(|r| r.source == text) && h.instances == resolved.instances)
            {
                continue;
            }
            for (hook, remarks) in check_set(text, &probe, resolved, globals).map_err(wrong)? {
                for remark in remarks {
                    if !warnings.iter().any(|(t, d)| t == text && *d == remark) {
                        warnings.push((text.to_owned(), remark));
                    }
                }
                hooks.push(hook);
            }
        }
    }
    Ok(())
}

/// Adds what options ask for to what was written: stacks to the default record, the process to the predicate.
fn complete(probe: &mut Probe, request: &Request) {
    if probe.block.is_none() && (request.kernel_stack || request.user_stack) {
        let stacks = [(request.kernel_stack, "kstack"), (request.user_stack, "ustack")];
        let stacks: Vec<&str> = stacks
            .iter()
            .filter(|(wanted, _)| *wanted)
            .map(|(_, name)| *name)
            .collect();
        let text = format!("a:b {{ record(args, {}) }}", stacks.join(", "));
        probe.block = parse_events(&text).0.block;
    }
    if let Target::Process(pid) = request.target {
        guard(probe, &format!("pid == {pid}"));
    }
}

/// Puts a condition before the predicate.
fn guard(probe: &mut Probe, condition: &str) {
    let Some(first) = parse_events(&format!("a:b /{condition}/")).0.predicate else {
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

/// A hook with the remarks about its handler.
type Remarked = (Hook, Vec<Diagnostic>);

/// One hook for a set of events, or one for each of them where the handler asks for what differs.
fn check_set(
    text: &str,
    probe: &Probe,
    mut resolved: Resolved,
    globals: &mut Globals,
) -> std::result::Result<Vec<Remarked>, Vec<Diagnostic>> {
    let apart = std::mem::take(&mut resolved.apart);
    match check_ways(text, probe, resolved, globals) {
        Ok(hook) => Ok(vec![hook]),
        Err(refused) if apart.is_empty() => Err(refused),
        Err(_) => apart
            .into_iter()
            .map(|one| check_ways(text, probe, one, globals))
            .collect(),
    }
}

/// Checks the handler against each way; those that do not fit are left out as long as one does.
fn check_ways(
    text: &str,
    probe: &Probe,
    resolved: Resolved,
    globals: &mut Globals,
) -> std::result::Result<(Hook, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut checked = Vec::new();
    let mut refused = Vec::new();
    for Way {
        attachment,
        context,
        guard: condition,
    } in resolved.ways
    {
        let mut probe = probe.clone();
        if let Some(condition) = condition {
            guard(&mut probe, &condition);
        }
        match check(&probe, &context, true, globals) {
            (Some(handler), remarks) => checked.push((
                PlannedWay {
                    attachment,
                    context,
                    handlers: vec![handler],
                },
                remarks,
            )),
            (None, diagnostics) => refused = diagnostics,
        }
    }
    // A way with more remarks than another cannot give all that was asked for (a field whose rule does not fit this kernel).
    let fewest = checked
        .iter()
        .map(|(_, remarks)| remarks.len())
        .min()
        .unwrap_or(0);
    checked.retain(|(_, remarks)| remarks.len() == fewest);
    let remarks = checked
        .first()
        .map_or_else(Vec::new, |(_, remarks)| remarks.clone());
    let ways: Vec<PlannedWay> = checked.into_iter().map(|(way, _)| way).collect();
    let Some(first) = ways.first() else {
        return Err(refused);
    };
    let records = layouts(&first.handlers).len() as u16;
    let hook = Hook {
        rows: vec![Row {
            source: text.to_owned(),
            tables: vec![1],
            records,
        }],
        kind: resolved.kind,
        instances: resolved.instances,
        first: 0,
        records,
        ways,
    };
    Ok((hook, remarks))
}

/// The layouts of the handlers' records, one handler after the other, each in source order.
fn layouts(handlers: &[CheckedProbe]) -> Vec<Layout> {
    let records = handlers.iter().flat_map(|handler| handler.records());
    records.map(|record| record.layout.clone()).collect()
}

impl Hook {
    /// The numbers of its events (each that of the event's first record), with the events' names.
    pub fn numbers(&self) -> impl Iterator<Item = (i64, String)> {
        let stride = i64::from(self.records.max(1));
        let numbers = (i64::from(self.first)..).step_by(stride as usize);
        numbers.zip(self.instances.iter().map(|i| i.name.clone()))
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
            tables: plan.tables.clone(),
            parameters: plan.globals.parameters.iter().map(|p| p.name.clone()).collect(),
            followed: matches!(plan.target, Target::Command(_)),
            choice: match self.rows.as_slice() {
                [_] if plan.tables.len() == 1 => Choice::Only,
                rows => Choice::Tables {
                    tables: rows.iter().map(|row| row.tables.clone()).collect(),
                    slots: false,
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
