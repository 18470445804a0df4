//! The words and functions that the language knows by itself: one file for each, and one row in its group's `mod.rs`.
//!
//! How each becomes BPF is not here: a built-in is made of nodes of the checked tree.

mod address;
mod aggregate;
mod control;
mod event;
mod map;
mod named;
mod number;
mod output;
mod row;
mod stack;
mod string;
mod task;
mod time;
mod user_space;

pub(crate) use control::to::TO;
pub(crate) use event::ctx::CTX;
pub(crate) use event::entry::ENTRY;
pub(crate) use event::func::FUNC;
pub(crate) use event::probe::PROBE;
pub(crate) use event::reg::REG;
pub(crate) use event::regs::REGS;
pub(crate) use event::retval::RETVAL;
pub(crate) use output::exit::EXIT;
pub(crate) use output::print::PRINT;
pub(crate) use output::printf::PRINTF;
pub(crate) use output::record::RECORD;
pub use row::Builtin;
pub(crate) use row::{LowerAggregation, Use, no_definition};
pub(crate) use string::str::STR;

use crate::check::aggregation::PendingAggregation;
use crate::check::checker::{Checked, Checker, Reported};
use crate::check::tree::{Expr, StatementKind};
use crate::lang::ast::{Arg, Span};
use crate::lang::diag::{Diagnostic, did_you_mean};
use row::BuiltinKind;

/// The table, by groups.
static GROUPS: &[&[&Builtin]] = &[
    task::ROWS,
    number::ROWS,
    time::ROWS,
    event::ROWS,
    stack::ROWS,
    string::ROWS,
    address::ROWS,
    named::ROWS,
    output::ROWS,
    aggregate::ROWS,
    map::ROWS,
    control::ROWS,
];

/// Built-ins of bpftrace. One that has no row here is refused as not yet supported.
const BPFTRACE: &[&str] = &[
    "bswap",
    "cat",
    "cgroup_path",
    "cgroupid",
    "exit",
    "join",
    "kaddr",
    "len",
    "macaddr",
    "ntop",
    "numaid",
    "path",
    "print",
    "printf",
    "pton",
    "signal",
    "sizeof_map",
    "skboutput",
    "strcontains",
    "strerror",
    "strftime",
    "strncmp",
    "system",
    "time",
    "tseries",
    "uaddr",
    "unwatch",
    "username",
    "usym",
];

/// All names, for help and completion.
pub fn all() -> impl Iterator<Item = &'static Builtin> {
    GROUPS
        .iter()
        .copied()
        .flatten()
        .copied()
        .chain(user_space::rows())
}

/// All names as they are typed.
pub fn names() -> impl Iterator<Item = &'static str> {
    all().map(|b| if b.numbered { "arg0" } else { b.name })
}

/// Whether a word is one of these names: `pid`, `arg3`.
pub fn is_known(name: &str) -> bool {
    find(name).is_some()
}

pub(crate) fn find(name: &str) -> Option<&'static Builtin> {
    all().find(|b| match name.strip_prefix(b.name) {
        Some(rest) if b.numbered => !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit()),
        Some(rest) => rest.is_empty(),
        None => false,
    })
}

/// Whether bpftrace has a built-in of this name that is not supported yet.
pub(crate) fn is_later(name: &str) -> bool {
    BPFTRACE.contains(&name) && find(name).is_none()
}

/// A use of a name, whether or not a built-in has it.
pub(crate) fn used<'a>(name: &'a str, name_span: Span, args: Option<&'a [Arg]>, span: Span) -> Use<'a> {
    Use {
        name,
        name_span,
        args,
        span,
        written: find(name).map(|builtin| builtin.usage),
    }
}

/// Checks a use; a finding without a hint gets the built-in's usage as one.
fn with_usage<T>(
    checker: &mut Checker<'_>,
    usage: &Use<'_>,
    check: impl FnOnce(&mut Checker<'_>) -> Checked<T>,
) -> Checked<T> {
    let before = checker.findings();
    let checked = check(checker);
    if let (Err(_), Some(written)) = (&checked, usage.written) {
        let args = usage.args.unwrap_or_default().iter();
        let places: Vec<Span> = args.map(|arg| arg.value.span).chain([usage.span]).collect();
        checker.add_usage(before, &places, written);
    }
    checked
}

/// The value of a use.
pub(crate) fn value(checker: &mut Checker<'_>, usage: &Use<'_>) -> Checked<Expr> {
    with_usage(checker, usage, |checker| value_without_usage(checker, usage))
}

fn value_without_usage(checker: &mut Checker<'_>, usage: &Use<'_>) -> Checked<Expr> {
    match find(usage.name).map(|b| (b, &b.kind)) {
        Some((_, BuiltinKind::Value(check))) => check(checker, usage),
        Some((_, BuiltinKind::MapChange(check))) => {
            let change = check(checker, usage)?;
            checker.deleted(change, usage.span)
        }
        Some((builtin, BuiltinKind::Statement(_) | BuiltinKind::UserAction(_))) => {
            let message = format!("{}() is a statement and has no value", builtin.name);
            Err(checker.error(usage.span, message))
        }
        Some((builtin, BuiltinKind::Aggregation { .. })) => {
            let message = format!("{}() must be assigned directly to a map", builtin.name);
            let hint = format!("write it as a statement: @x = {}", builtin.usage);
            Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)))
        }
        None if is_later(usage.name) => Err(checker.not_yet(usage.name_span, &format!("{}()", usage.name))),
        None => {
            let functions = all().filter(|b| b.usage.contains('(')).map(|b| b.name);
            let hint = did_you_mean(usage.name, functions)
                .unwrap_or_else(|| "docs/language.md lists the functions; a macro is defined before it is used: macro NAME(parameters) { … }".to_owned());
            let message = format!("Unknown function: '{}'", usage.name);
            Err(checker.report(Diagnostic::error(usage.name_span, message).hint(hint)))
        }
    }
}

/// Whether calls of a name are statements without a value.
pub(crate) fn is_statement(name: &str) -> bool {
    find(name).is_some_and(|builtin| {
        matches!(
            builtin.kind,
            BuiltinKind::Statement(_) | BuiltinKind::UserAction(_) | BuiltinKind::Aggregation { .. }
        )
    })
}

/// Checked statement of a use, if it is of an action.
pub(crate) fn action(checker: &mut Checker<'_>, usage: &Use<'_>) -> Option<Checked<StatementKind>> {
    let kind = &find(usage.name)?.kind;
    if matches!(kind, BuiltinKind::Value(_)) {
        return None;
    }
    Some(with_usage(checker, usage, |checker| match kind {
        BuiltinKind::Statement(check) | BuiltinKind::MapChange(check) => check(checker, usage),
        BuiltinKind::UserAction(verb) => checker.user_space_verb(usage, verb),
        BuiltinKind::Aggregation { check, .. } if checker.globals.infers_types => {
            check(checker, usage)?;
            let message = format!("{}() must be assigned directly to a map", usage.name);
            let hint = format!("@x = {}", usage.written.unwrap_or(usage.name));
            Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)))
        }
        BuiltinKind::Aggregation { check, .. } => {
            check(checker, usage).and_then(|pending| checker.bare_aggregation(pending, usage.span))
        }
        BuiltinKind::Value(_) => Err(Reported),
    }))
}

/// Aggregation of a use, if it is one.
pub(crate) fn aggregation(checker: &mut Checker<'_>, usage: &Use<'_>) -> Option<Checked<PendingAggregation>> {
    match find(usage.name)?.kind {
        BuiltinKind::Aggregation { check, .. } => {
            Some(with_usage(checker, usage, |checker| check(checker, usage)))
        }
        BuiltinKind::Value(_)
        | BuiltinKind::Statement(_)
        | BuiltinKind::MapChange(_)
        | BuiltinKind::UserAction(_) => None,
    }
}

/// Whether a function fills maps.
pub(crate) fn is_aggregation(function: &str) -> bool {
    find(function).is_some_and(|builtin| matches!(builtin.kind, BuiltinKind::Aggregation { .. }))
}

/// The function that emits the code of an aggregation.
pub(crate) fn lower_aggregation(function: &str) -> Option<LowerAggregation> {
    match find(function)?.kind {
        BuiltinKind::Aggregation { lower, .. } => Some(lower),
        BuiltinKind::Value(_)
        | BuiltinKind::Statement(_)
        | BuiltinKind::MapChange(_)
        | BuiltinKind::UserAction(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for builtin in all() {
            let name = if builtin.numbered {
                format!("{}7", builtin.name)
            } else {
                builtin.name.to_owned()
            };
            let found = find(&name).unwrap();
            assert!(std::ptr::eq(found, builtin), "{name}");
            assert!(!is_later(builtin.name), "{name}");
            assert!(!builtin.about.ends_with('.') && builtin.usage.starts_with(builtin.name));
        }
        assert!(find("arg").is_none());
        assert!(find("args").is_none());
        assert!(BPFTRACE.is_sorted());
    }
}
