//! From syntax tree to checked tree: names, types and walks through the kernel's types; no instructions.
//!
//! | room | what it checks |
//! |---|---|
//! | `statement` | blocks, scratch variables, branches |
//! | `expression` | every kind of expression, sent on to the rooms below |
//! | `operator` | arithmetic, comparison, logic, with constants folded |
//! | `walk` | members, indices, dereferences: chains of loads |
//! | `name` | bare words and `args`: built-ins, event fields, enumerators |
//! | `field` | where an event's values come from, field rules among them |
//! | `record` | `record()`: names, types and the layout |
//! | `map` | `@x[keys]`: keys, values, and that all uses agree |
//! | `control` | tables, buffers and messages that handlers name |
//! | `pair` | `entry.EXPRESSION`: what an event keeps for the one that it belongs to |
//! | `parameter` | `param NAME = VALUE` |
//! | `globals` | what the probes of one text share |
//! | `uses` | which maps and parameters a checked probe uses |
//! | `types` | the kernel's types and written types as [`tree::Type`] |
//!
//! What the built-in names mean is not here: [`crate::builtin`].

mod control;
mod event;
mod expression;
mod field;
mod fold;
pub mod globals;
mod map;
mod name;
mod operator;
mod pair;
mod parameter;
mod record;
mod statement;
mod string;
mod text;
pub mod tree;
mod types;
pub mod uses;
mod walk;

pub(crate) use control::Telling;
pub(crate) use expression::text_constant;
pub(crate) use map::Gathering;
pub(crate) use text::room;
pub(crate) use types::STRING;

use crate::context::Context;
use crate::lang::ast::{Probe, Span};
use crate::lang::diag::{Diagnostic, has_errors};
use globals::Globals;
use kestrel_trace::layout::Names;
use std::collections::HashMap;
use tree::{Action, CheckedProbe, Statement, StatementKind, Variable, VariableId};

/// Most findings reported about one probe.
const FINDINGS: usize = 50;

/// Checks a probe against one event on one kernel.
///
/// A probe without a block records all fields of the event if `record_default` says so, else does nothing. There is a
/// checked probe where no diagnostic is an error; only then `globals` may have grown.
pub fn check(
    probe: &Probe,
    context: &Context,
    record_default: bool,
    globals: &mut Globals,
) -> (Option<CheckedProbe>, Vec<Diagnostic>) {
    let mut checker = Checker::new(context, globals.clone());
    let pattern = |part: &crate::lang::ast::EventPart| part.text.contains(['*', '?', '[', '{']);
    checker.plain = matches!(probe.events.as_slice(), [one] if !one.parts.iter().any(pattern));
    let paired = checker.pair_always(probe.span);
    let selector = context
        .selector
        .as_ref()
        .map(|s| checker.selector(&s.value, probe.span));
    let predicate = probe.predicate.as_ref().map(|p| checker.condition(p));
    let mut body = match &probe.block {
        Some(block) => checker.block(block),
        None if record_default => checker.record_everything(probe.span).into_iter().collect(),
        None => Vec::new(),
    };
    body.extend(probe.object.as_ref().map(|object| Statement {
        kind: StatementKind::Act(Action::Call {
            object: object.node.clone(),
            program: String::new(),
        }),
        span: object.span,
    }));
    let Checker {
        mut found,
        variables,
        globals: shared,
        pair,
        ..
    } = checker;
    let place = probe.events.first().map_or(probe.span, |event| event.span);
    let remarks = context
        .remarks
        .iter()
        .map(|r| Diagnostic::warning(place, r.clone()));
    found.extend(remarks);
    found.sort_by_key(|d| d.span.start);
    found.truncate(FINDINGS);
    let wrong = has_errors(&found) || paired.is_err();
    let checked = match (predicate.transpose(), selector.transpose(), wrong) {
        (Ok(predicate), Ok(selector), false) => {
            *globals = shared;
            Some(CheckedProbe {
                predicate,
                guarded: false,
                selector,
                body,
                variables,
                pair,
            })
        }
        _ => None,
    };
    (checked, found)
}

/// Something is wrong and has been reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported;

pub(crate) type Checked<T> = Result<T, Reported>;

/// What is known while a probe is checked.
pub(crate) struct Checker<'a> {
    pub(crate) context: &'a Context,
    pub(crate) globals: Globals,
    found: Vec<Diagnostic>,
    /// Scratch variables that can be seen, innermost block last.
    scopes: Vec<HashMap<String, VariableId>>,
    variables: Vec<Variable>,
    /// Event fields whose rules are being followed, outermost first.
    rules: Vec<String>,
    /// How many `record()` there are.
    records: u32,
    /// Names of enumerations already asked for.
    names: HashMap<kestrel_bpf::btf::TypeId, Names>,
    /// How often the statements being checked are repeated by `unroll`.
    repeats: u64,
    /// Functions of the aggregations that name no map, in source order.
    pub(crate) bare: Vec<(&'static str, Span)>,
    /// What it has to do with the event before, so far.
    pair: Option<tree::CheckedPair>,
    /// Whether the handler was written for one event, by its name.
    plain: bool,
}

impl<'a> Checker<'a> {
    fn new(context: &'a Context, globals: Globals) -> Self {
        Self {
            context,
            globals,
            found: Vec::new(),
            scopes: vec![HashMap::new()],
            variables: Vec::new(),
            rules: Vec::new(),
            records: 0,
            names: HashMap::new(),
            repeats: 1,
            bare: Vec::new(),
            pair: None,
            plain: false,
        }
    }

    /// Reports an error.
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) -> Reported {
        if self.found.len() < FINDINGS && !self.found.contains(&diagnostic) {
            self.found.push(diagnostic);
        }
        Reported
    }

    /// Reports an error without more to say.
    pub(crate) fn error(&mut self, span: Span, message: impl Into<String>) -> Reported {
        self.report(Diagnostic::error(span, message))
    }

    /// Reports that a part of the language is not there yet.
    pub(crate) fn not_yet(&mut self, span: Span, what: &str) -> Reported {
        self.error(span, format!("not yet supported: {what}"))
    }
}
