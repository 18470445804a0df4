//! Built-ins about maps as such.

pub(super) mod clear;
pub(super) mod delete;
pub(super) mod has_key;
pub(super) mod zero;

use super::{Builtin, Use};
use crate::check::tree::StatementKind;
use crate::check::{Checked, Checker};
use crate::lang::ast;

/// These built-ins.
pub(super) static ROWS: &[&Builtin] = &[&delete::DELETE, &clear::CLEAR, &zero::ZERO, &has_key::HAS_KEY];

/// `f(@x[keys])` or `f(@x, key)`: the map's name and its keys.
fn place<'a>(
    checker: &mut Checker<'_>,
    usage: &Use<'a>,
    most: usize,
) -> Checked<(&'a str, Vec<&'a ast::Expr>)> {
    let args = usage.positional(checker, 1, most)?;
    let Some((ast::ExprKind::Map { name, keys }, more)) =
        args.split_first().map(|(first, more)| (&first.kind, more))
    else {
        return Err(checker.error(usage.span, format!("{} wants a map: @name", usage.name)));
    };
    let written = keys.iter().chain(more.iter().copied());
    Ok((name, written.collect()))
}

/// `clear(@x)`, `zero(@x)`.
fn emptied(checker: &mut Checker<'_>, usage: &Use<'_>) -> Checked<StatementKind> {
    let (name, keys) = place(checker, usage, 1)?;
    if let Some(key) = keys.first() {
        let message = format!("{}() is about the whole map", usage.name);
        return Err(checker.error(key.span, message));
    }
    checker.clear_map(name, usage.span)
}
