//! The words and functions that the language knows by itself: one file for each, and one row in its group's `mod.rs`.
//!
//! How each becomes BPF is not here: a built-in is made of nodes of the checked tree.

mod address;
mod aggregate;
mod control;
mod event;
mod map;
mod number;
mod output;
mod stack;
mod task;
mod text;
mod time;

pub(crate) use control::to::TO;
pub(crate) use event::entry::ENTRY;
pub(crate) use event::func::FUNC;
pub(crate) use event::probe::PROBE;
pub(crate) use event::reg::REG;
pub(crate) use event::regs::REGS;

use crate::check::tree::{Expr, ExprKind, Intrinsic, MapPlace, StatementKind, Type};
use crate::check::{Checked, Checker, Gathering};
use crate::codegen::lower::Lower;
use crate::error::Error;
use crate::ir::Vreg;
use crate::lang::ast::{self, Arg, Span};
use crate::lang::diag::{Diagnostic, did_you_mean};
use kestrel_trace::aggregate::Gathered;

/// A name that the language knows.
#[derive(Debug)]
pub struct Builtin {
    /// The name; of numbered ones (`arg0`, `arg1`, …) what stands before the number.
    pub name: &'static str,
    /// Whether a number follows the name.
    pub numbered: bool,
    /// How it is written: `str(address[, bytes])`.
    pub usage: &'static str,
    /// What it gives or does, in a sentence without a full stop.
    pub about: &'static str,
    meaning: Meaning,
}

/// What a name stands for.
enum Meaning {
    /// A value.
    Value(fn(&mut Checker<'_>, &Use<'_>) -> Checked<Expr>),
    /// A statement.
    Action(fn(&mut Checker<'_>, &Use<'_>) -> Checked<StatementKind>),
    /// What a map gathers.
    Aggregation {
        /// How, and the value that is added, if it takes one.
        check: fn(&mut Checker<'_>, &Use<'_>) -> Checked<Gathering>,
        /// Adds a value (1 where it takes none) to what a map holds.
        lower: Gather,
    },
}

impl std::fmt::Debug for Meaning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Value(_) => "Value",
            Self::Action(_) => "Action",
            Self::Aggregation { .. } => "Aggregation",
        })
    }
}

/// Emits code that adds a value to what a function keeps.
pub(crate) type Gather = fn(&mut Lower<'_>, &MapPlace, &Gathered, Vreg) -> Result<(), Error>;

/// The table, by groups.
static GROUPS: &[&[&Builtin]] = &[
    task::ROWS,
    number::ROWS,
    time::ROWS,
    event::ROWS,
    stack::ROWS,
    text::ROWS,
    address::ROWS,
    output::ROWS,
    aggregate::ROWS,
    map::ROWS,
    control::ROWS,
];

/// Built-ins of bpftrace. One that has no row here is refused as not yet supported.
const BPFTRACE: &[&str] = &[
    "bswap",
    "buf",
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
    GROUPS.iter().copied().flatten().copied()
}

/// All names as they are typed.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|b| if b.numbered { "arg0" } else { b.name })
}

pub(crate) fn find(name: &str) -> Option<&'static Builtin> {
    all().find(|b| match name.strip_prefix(b.name) {
        Some(rest) if b.numbered => !rest.is_empty() && rest.bytes().all(|c| c.is_ascii_digit()),
        Some(rest) => rest.is_empty(),
        None => false,
    })
}

/// Whether bpftrace has the name and we shall.
pub(crate) fn is_later(name: &str) -> bool {
    BPFTRACE.contains(&name) && find(name).is_none()
}

/// A place where a name is used.
pub(crate) struct Use<'a> {
    pub(crate) name: &'a str,
    pub(crate) name_span: Span,
    /// What stands in parentheses, if there are any.
    pub(crate) args: Option<&'a [Arg]>,
    /// All of it.
    pub(crate) span: Span,
}

/// The value of a use.
pub(crate) fn value(checker: &mut Checker<'_>, usage: &Use<'_>) -> Checked<Expr> {
    match find(usage.name).map(|b| (b, &b.meaning)) {
        Some((_, Meaning::Value(check))) => check(checker, usage),
        Some((builtin, Meaning::Action(_))) => {
            let message = format!("{}() is a statement and has no value", builtin.name);
            Err(checker.error(usage.span, message))
        }
        Some((builtin, Meaning::Aggregation { .. })) => {
            let message = format!("{}() fills a map and has no value", builtin.name);
            let hint = format!("write it as a statement: @x = {}", builtin.usage);
            Err(checker.report(Diagnostic::error(usage.span, message).hint(hint)))
        }
        None if is_later(usage.name) => Err(checker.not_yet(usage.name_span, &format!("{}()", usage.name))),
        None => {
            let hint = did_you_mean(usage.name, names()).or_else(|| {
                let functions = all().filter(|b| b.usage.contains('(')).map(|b| b.usage);
                Some(format!("there are: {}", functions.collect::<Vec<_>>().join(", ")))
            });
            let message = format!("unknown function \"{}\"", usage.name);
            Err(checker.report(Diagnostic::error(usage.name_span, message).maybe_hint(hint)))
        }
    }
}

/// What a use does, if it is of an action.
pub(crate) fn action(checker: &mut Checker<'_>, usage: &Use<'_>) -> Option<Checked<StatementKind>> {
    match find(usage.name)?.meaning {
        Meaning::Action(check) => Some(check(checker, usage)),
        Meaning::Aggregation { check, .. } => {
            Some(check(checker, usage).and_then(|g| checker.gather(g, usage.span)))
        }
        Meaning::Value(_) => None,
    }
}

/// What a use gathers in a map, if it is an aggregation.
pub(crate) fn aggregation(checker: &mut Checker<'_>, usage: &Use<'_>) -> Option<Checked<Gathering>> {
    match find(usage.name)?.meaning {
        Meaning::Aggregation { check, .. } => Some(check(checker, usage)),
        Meaning::Value(_) | Meaning::Action(_) => None,
    }
}

/// The code of an aggregation.
pub(crate) fn gather(function: &str) -> Option<Gather> {
    match find(function)?.meaning {
        Meaning::Aggregation { lower, .. } => Some(lower),
        Meaning::Value(_) | Meaning::Action(_) => None,
    }
}

impl<'a> Use<'a> {
    /// Arguments without names, at least `least` and at most `most` of them; parentheses may be left out if none are
    /// needed.
    fn positional(
        &self,
        checker: &mut Checker<'_>,
        least: usize,
        most: usize,
    ) -> Checked<Vec<&'a ast::Expr>> {
        let args = self.args.unwrap_or_default();
        let usage = find(self.name).map_or("", |b| b.usage);
        if let Some(named) = args.iter().find_map(|a| a.name.as_ref()) {
            let message = format!("{} takes no argument named \"{}\"", self.name, named.node);
            let hint = format!("it is written {usage}");
            return Err(checker.report(Diagnostic::error(named.span, message).hint(hint)));
        }
        if args.len() < least || args.len() > most {
            let wanted = match (least, most) {
                (0, 0) => "no arguments".to_owned(),
                (1, 1) => "one argument".to_owned(),
                (least, most) if least == most => format!("{least} arguments"),
                (least, most) => format!("{least} to {most} arguments"),
            };
            let message = format!("{} takes {wanted}, not {}", self.name, args.len());
            let hint = format!("it is written {usage}");
            return Err(checker.report(Diagnostic::error(self.span, message).hint(hint)));
        }
        Ok(args.iter().map(|a| &a.value).collect())
    }

    /// How it is written, as a hint.
    pub(crate) fn spelling(&self) -> Option<String> {
        find(self.name).map(|b| format!("it is written {}", b.usage))
    }

    /// Checks that there are no arguments.
    fn alone(&self, checker: &mut Checker<'_>) -> Checked<()> {
        self.positional(checker, 0, 0).map(|_| ())
    }

    /// What a helper gives, of type `ty`.
    fn intrinsic(&self, which: Intrinsic, ty: Type) -> Expr {
        Expr::new(ExprKind::Intrinsic(which), ty, self.span)
    }
}

impl Checker<'_> {
    /// A number from 1 to `most`, known now: a size or a depth.
    fn limit(&mut self, value: &ast::Expr, most: u32, what: &str) -> Checked<u32> {
        let checked = self.scalar(value)?;
        let Some(known) = checked.constant() else {
            return Err(self.error(
                value.span,
                format!("{what} must be known before the program runs"),
            ));
        };
        match u32::try_from(known) {
            Ok(number) if (1..=most).contains(&number) => Ok(number),
            _ => Err(self.error(value.span, format!("{what} is 1 to {most}"))),
        }
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
