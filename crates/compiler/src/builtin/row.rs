//! The row of a built-in: its name, usage, type and code; and a use of one in a text.

use crate::check::aggregation::PendingAggregation;
use crate::check::checker::{Checked, Checker, Reported};
use crate::check::tree::{Expr, ExprKind, Intrinsic, MapPlace, StatementKind, Type};
use crate::codegen::lower::Lower;
use crate::error::Error;
use crate::ir::Vreg;
use crate::lang::ast::{self, Arg, Span};
use crate::lang::diag::Diagnostic;
use kestrel_trace::action::Verb;
use kestrel_trace::aggregate::Aggregation;

/// A name that the language knows.
#[derive(Debug)]
pub struct Builtin {
    /// The name; of numbered ones (`arg0`, `arg1`, …) what stands before the number.
    pub name: &'static str,
    /// Whether a number follows the name.
    pub numbered: bool,
    /// How it is written: `str(address[, bytes])`.
    pub usage: &'static str,
    /// The value or effect, in a sentence without a full stop.
    pub about: &'static str,
    pub(super) kind: BuiltinKind,
}

/// Kind of a built-in: what its name stands for in a text.
pub(super) enum BuiltinKind {
    /// A value, such as `pid`.
    Value(fn(&mut Checker<'_>, &Use<'_>) -> Checked<Expr>),
    /// A statement, such as `printf(…)`.
    Statement(fn(&mut Checker<'_>, &Use<'_>) -> Checked<StatementKind>),
    /// A statement that changes a map; as a value it says whether there was anything.
    MapChange(fn(&mut Checker<'_>, &Use<'_>) -> Checked<StatementKind>),
    /// A statement: a record that asks something of user space.
    UserAction(&'static Verb),
    /// An aggregation of a map.
    Aggregation {
        /// How, and the value that is added, if it takes one.
        check: fn(&mut Checker<'_>, &Use<'_>) -> Checked<PendingAggregation>,
        /// Adds a value (1 where it takes none) to what a map holds.
        lower: LowerAggregation,
    },
}

impl std::fmt::Debug for BuiltinKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Value(_) => "Value",
            Self::Statement(_) => "Statement",
            Self::MapChange(_) => "MapChange",
            Self::UserAction(_) => "UserAction",
            Self::Aggregation { .. } => "Aggregation",
        })
    }
}

/// The function of an aggregation that emits the code which adds a value to a map.
pub(crate) type LowerAggregation = fn(&mut Lower<'_>, &MapPlace, &Aggregation, Vreg) -> Result<(), Error>;

/// A place where a name is used.
pub(crate) struct Use<'a> {
    pub(crate) name: &'a str,
    pub(crate) name_span: Span,
    /// The arguments in parentheses, if there are any.
    pub(crate) args: Option<&'a [Arg]>,
    /// The place of the whole use.
    pub(crate) span: Span,
    /// How its built-in is written.
    pub(crate) written: Option<&'static str>,
}

impl<'a> Use<'a> {
    /// Arguments without names, at least `least` and at most `most` of them; parentheses may be left out if none are
    /// needed.
    pub(crate) fn positional(
        &self,
        checker: &mut Checker<'_>,
        least: usize,
        most: usize,
    ) -> Checked<Vec<&'a ast::Expr>> {
        let args = self.args.unwrap_or_default();
        let usage = self.written.unwrap_or_default();
        if let Some(named) = args.iter().find_map(|a| a.name.as_ref()) {
            let message = format!("{} takes no argument named \"{}\"", self.name, named.node);
            let hint = format!("it is written {usage}");
            return Err(checker.report(Diagnostic::error(named.span, message).hint(hint)));
        }
        if args.len() < least || args.len() > most {
            let counted = |count: usize| match count {
                0 => "no arguments".to_owned(),
                1 => "one argument".to_owned(),
                count => format!("{count} arguments"),
            };
            let wanted = match args.len() < least {
                _ if least == most => format!("requires {}", counted(least)),
                true => format!("requires at least {}", counted(least)),
                false => format!("takes up to {}", counted(most)),
            };
            let message = format!("{}() {wanted} ({} provided)", self.name, args.len());
            let hint = format!("it is written {usage}");
            return Err(checker.report(Diagnostic::error(self.span, message).hint(hint)));
        }
        Ok(args.iter().map(|a| &a.value).collect())
    }

    /// Reports an argument that must be a string in quotes and is not, with its type.
    pub(crate) fn wants_literal(&self, checker: &mut Checker<'_>, instead: &ast::Expr) -> Reported {
        let Ok(value) = checker.expression(instead) else {
            return Reported;
        };
        let (word, _) = checker.spelled_type(&value.ty);
        let message = format!("{}() expects a string literal ({word} provided)", self.name);
        checker.report(Diagnostic::error(self.span, message).maybe_hint(self.spelling()))
    }

    /// Usage as a hint.
    pub(crate) fn spelling(&self) -> Option<String> {
        self.written.map(|written| format!("it is written {written}"))
    }

    /// Checks that there are no arguments.
    pub(super) fn alone(&self, checker: &mut Checker<'_>) -> Checked<()> {
        self.positional(checker, 0, 0).map(|_| ())
    }

    /// Expression for a value that a helper gives, of type `ty`.
    pub(super) fn intrinsic(&self, which: Intrinsic, ty: Type) -> Expr {
        Expr::new(ExprKind::Intrinsic(which), ty, self.span)
    }
}

impl Checker<'_> {
    /// A number from 1 to `most`, known now: a size or a depth.
    pub(super) fn limit(&mut self, value: &ast::Expr, most: u32, what: &str) -> Checked<u32> {
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
