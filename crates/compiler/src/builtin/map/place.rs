//! The map that is a built-in's argument.

use crate::builtin::row::Use;
use crate::check::checker::{Checked, Checker, Reported};
use crate::check::tree::StatementKind;
use crate::lang::ast;
use crate::lang::diag::Diagnostic;

/// Name and keys of a built-in's map: `f(@x[keys])` or `f(@x, key)`.
pub(super) fn place<'a>(
    checker: &mut Checker<'_>,
    usage: &Use<'a>,
    most: usize,
    misplaced: Misplaced,
) -> Checked<(&'a str, Vec<&'a ast::Expr>)> {
    let count = usage.args.map_or(0, <[_]>::len);
    if checker.globals.infers_types && most > 1 && !(1..=most).contains(&count) {
        return Err(no_definition(checker, usage));
    }
    let args = usage.positional(checker, 1, most)?;
    let Some((ast::ExprKind::Map { name, keys }, more)) =
        args.split_first().map(|(first, more)| (&first.kind, more))
    else {
        let message = format!("{}() expects a map argument", usage.name);
        let span = args.first().map_or(usage.span, |first| first.span);
        return Err(checker.error(span, message));
    };
    let known = checker
        .globals
        .map(name)
        .filter(|_| checker.globals.infers_types)
        .map(|map| !map.keys.is_empty());
    if let Some(message) = known.and_then(|has_keys| misplaced(keys.len(), more.len(), has_keys)) {
        let hint = "the uses of a map have keys, or none has one";
        return Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)));
    }
    let written = keys.iter().chain(more.iter().copied());
    Ok((name, written.collect()))
}

/// Reports a use with another number of arguments than any that is known.
fn no_definition(checker: &mut Checker<'_>, usage: &Use<'_>) -> Reported {
    let message = format!(
        "Call to {}() has arguments that do not match any definition.",
        usage.name
    );
    checker.report(Diagnostic::error(usage.span, message).maybe_hint(usage.spelling()))
}

/// What a built-in says of keys that stand at a wrong place: of the map's own, as `@x[1]`, and of those beside it; whether the map has keys is the third.
pub(super) type Misplaced = fn(usize, usize, bool) -> Option<&'static str>;

/// For built-ins that take a whole map.
pub(super) const NOWHERE: Misplaced = |_, _, _| None;

/// The operation that removes a map's keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Clearing {
    /// The keys are removed.
    Forget,
    /// The keys are kept, with values of 0.
    Zero,
}

/// Clears a whole map: `clear(@x)`, `zero(@x)`.
pub(super) fn clear_whole(
    checker: &mut Checker<'_>,
    usage: &Use<'_>,
    clearing: Clearing,
) -> Checked<StatementKind> {
    let (name, keys) = place(checker, usage, 1, NOWHERE)?;
    if let Some(key) = keys.first() {
        let message = format!("{}() expects a map argument", usage.name);
        let hint = format!("it is about the whole map; delete(@{name}[key]) takes one key away");
        return Err(checker.report(Diagnostic::error(key.span, message).hint(hint)));
    }
    checker.clear_map(name, clearing == Clearing::Zero, usage.span)
}
