//! From syntax tree to checked tree: names, types and walks through the kernel's types; no instructions.
//!
//! | room | what it checks |
//! |---|---|
//! | `statement` | blocks, scratch variables, branches |
//! | `effect` | expressions as statements: what they change is kept |
//! | `declared` | variables that are declared with a type |
//! | `each` | loops that a helper makes: over maps, over many numbers, by a condition |
//! | `expression` | every kind of expression, sent on to the rooms below |
//! | `operator` | arithmetic, comparison, logic, with constants folded |
//! | `complement` | `~`, which has two widths |
//! | `walk` | members, indices, dereferences: chains of loads |
//! | `name` | bare words and `args`: built-ins, event fields, enumerators |
//! | `number_name` | names of errors, signals and system calls as strings |
//! | `field` | where an event's values come from, field rules among them |
//! | `record` | `record()`: names, types and the layout |
//! | `map` | `@x[keys]`: keys, values, and that all uses agree |
//! | `output` | what programs print: a record for each site |
//! | `seq_file` | what pinned iterators print: calls by which the kernel writes it |
//! | `control` | tables, buffers and messages that handlers name |
//! | `pair` | `entry.EXPRESSION`: what an event keeps for the one that it belongs to |
//! | `parameter` | `param NAME = VALUE` |
//! | `holding` | values made to fit what holds them |
//! | `shape` | what variables and maps hold, over all their uses |
//! | `globals` | what the probes of one text share |
//! | `checker`, `value` | what all of these have at hand; they know none of them |
//! | `uses` | which maps and parameters a checked probe uses |
//! | `types` | the kernel's types and written types as [`tree::Type`] |
//!
//! The meanings of built-in names are not here: [`crate::builtin`].

pub(crate) mod aggregation;
mod cast;
mod chain;
pub(crate) mod checker;
mod choice;
mod compare;
mod complement;
mod control;
mod declared;
mod each;
mod effect;
mod event;
mod expression;
mod field;
mod fold;
pub mod globals;
mod holding;
mod implicit_cast;
mod leaving;
mod map;
mod memory;
mod name;
mod negation;
pub(crate) mod number_name;
mod operands;
mod operator;
mod output;
mod pair;
mod parameter;
pub(crate) mod phrase;
mod record;
mod seq_file;
pub mod shape;
mod statement;
mod string;
pub mod tree;
mod types;
pub mod uses;
pub(crate) mod value;
pub(crate) mod visit;
pub(crate) mod walk;

pub use parameter::parameters;

use crate::context::Context;
use crate::lang::ast::Probe;
use crate::lang::diag::{Diagnostic, has_errors, sort_by_place};
use checker::{Checker, keep_worst};
use globals::Globals;
use statement::as_written;
use tree::{Action, CheckedProbe, Statement, StatementKind};

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
    for _ in 0..shape::ROUNDS {
        let before = globals.shapes.clone();
        let (checked, found) = check_once(probe, context, record_default, globals);
        if globals.shapes == before {
            return (checked, found);
        }
    }
    check_once(probe, context, record_default, globals)
}

/// One round of checking: where more has become known of variables or maps in it, its result is not final yet.
fn check_once(
    probe: &Probe,
    context: &Context,
    record_default: bool,
    globals: &mut Globals,
) -> (Option<CheckedProbe>, Vec<Diagnostic>) {
    let mut checker = Checker::new(context, globals.clone());
    let pattern = |part: &crate::lang::ast::EventPart| part.text.contains(['*', '?', '[', '{']);
    checker.plain = matches!(probe.events.as_slice(), [one] if !one.parts.iter().any(pattern));
    let paired = checker.mark_entry_always(probe.span);
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
    let undecided = std::mem::take(&mut checker.undecided);
    checker.refuse_reads_without_type(&undecided);
    for id in undecided.into_iter().chain(std::mem::take(&mut checker.unset)) {
        let name = checker
            .variables
            .get(id.0 as usize)
            .map(|known| known.name.clone());
        if let (Some(name), Some(declared), true) = (
            name,
            checker.declared.get(&id).copied(),
            checker.globals.infers_types,
        ) && !checker.without_value.contains(&name)
        {
            let message = format!("Variable ${} was never assigned to.", as_written(&name));
            checker.report(Diagnostic::warning(declared, message));
        }
    }
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
    sort_by_place(&mut found);
    keep_worst(&mut found);
    let wrong = has_errors(&found) || paired.is_err();
    if shared.shapes != globals.shapes {
        globals.shapes = shared.shapes;
        return (None, found);
    }
    let checked = match (predicate.transpose(), selector.transpose(), wrong) {
        (Ok(predicate), Ok(selector), false) => {
            // Maps that a wrong handler would have made must not be there for the next one.
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
