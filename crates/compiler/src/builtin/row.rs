//! The row of a built-in: its name, usage, type and code; and a use of one in a text.

use crate::check::aggregation::PendingAggregation;
use crate::check::checker::{Checked, Checker, Reported};
use crate::check::phrase::Refused;
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

/// Built-ins that are macros of bpftrace's library: of a wrong number of arguments it says what it says of any macro.
const MACROS: &[&str] = &[
    "comm",
    "cpu",
    "curtask",
    "elapsed",
    "gid",
    "len",
    "ncpus",
    "numaid",
    "probe",
    "rand",
    "signal",
    "str_concat",
    "strcap",
    "strcontains",
    "strerror",
    "strlen",
    "strstr",
    "uid",
    "usermode",
];

/// bpftrace's words for a call that no macro of that name fits.
pub(crate) fn no_definition(name: &str) -> String {
    format!("Call to {name}() has arguments that do not match any definition.")
}

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
            let mut wrong = Diagnostic::error(self.span, message).hint(hint);
            if MACROS.contains(&self.name) {
                wrong.know_as(self.span, || no_definition(self.name));
            }
            return Err(checker.report(wrong));
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

    /// A number that the built-in takes, as 64 bits.
    pub(super) fn number(&self, checker: &mut Checker<'_>, value: &ast::Expr) -> Checked<Expr> {
        self.only(
            checker,
            value,
            |checker| checker.number(value),
            |refused| format!("integer arguments ({} provided)", refused.whole),
        )
    }

    /// A scalar that the built-in takes.
    pub(super) fn scalar(&self, checker: &mut Checker<'_>, value: &ast::Expr) -> Checked<Expr> {
        self.only(
            checker,
            value,
            |checker| checker.scalar(value),
            |refused| format!("int arguments ({} provided)", refused.word),
        )
    }

    /// What `check` gives of an argument; `kinds` says in bpftrace's words what the built-in takes in the place of what was refused.
    pub(super) fn only<T>(
        &self,
        checker: &mut Checker<'_>,
        value: &ast::Expr,
        check: impl FnOnce(&mut Checker<'_>) -> Checked<T>,
        kinds: impl FnOnce(&Refused) -> String,
    ) -> Checked<T> {
        let name = self.name;
        checker.phrased(value.span, self.span, check, |refused| {
            format!("{name}() only supports {}", kinds(refused))
        })
    }

    /// A number that is known when the script is compiled; anything else is refused in bpftrace's words: an invalid `what`.
    pub(super) fn known(
        &self,
        checker: &mut Checker<'_>,
        value: &ast::Expr,
        what: &str,
        about: &str,
    ) -> Checked<i64> {
        let name = self.name;
        checker.phrased(
            value.span,
            self.span,
            |checker| checker.whole(value, i64::MIN..=i64::MAX, about),
            |_| format!("{name}: invalid {what}"),
        )
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
