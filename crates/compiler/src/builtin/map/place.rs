//! A map that a built-in is about.

use crate::builtin::row::Use;
use crate::check::checker::{Checked, Checker};
use crate::check::tree::StatementKind;
use crate::lang::ast;

/// `f(@x[keys])` or `f(@x, key)`: the map's name and its keys.
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

/// What becomes of a map's keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Clearing {
    /// They go.
    Forget,
    /// They stay, with values of 0.
    Zero,
}

/// `clear(@x)`, `zero(@x)`.
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
