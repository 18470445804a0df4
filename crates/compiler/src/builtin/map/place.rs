//! The map that is a built-in's argument.

use crate::builtin::row::Use;
use crate::check::checker::{Checked, Checker};
use crate::check::tree::StatementKind;
use crate::lang::ast;

/// Name and keys of a built-in's map: `f(@x[keys])` or `f(@x, key)`.
pub(super) fn place<'a>(
    checker: &mut Checker<'_>,
    usage: &Use<'a>,
    most: usize,
) -> Checked<(&'a str, Vec<&'a ast::Expr>)> {
    let args = usage.positional(checker, 1, most)?;
    let Some((ast::ExprKind::Map { name, keys }, more)) =
        args.split_first().map(|(first, more)| (&first.kind, more))
    else {
        let message = format!("{} wants a map: @name", usage.name);
        let span = args.first().map_or(usage.span, |first| first.span);
        return Err(checker.error(span, message));
    };
    let written = keys.iter().chain(more.iter().copied());
    Ok((name, written.collect()))
}

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
    let (name, keys) = place(checker, usage, 1)?;
    if let Some(key) = keys.first() {
        let message = format!("{}() is about the whole map", usage.name);
        return Err(checker.error(key.span, message));
    }
    checker.clear_map(name, clearing == Clearing::Zero, usage.span)
}
