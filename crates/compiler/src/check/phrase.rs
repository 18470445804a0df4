//! bpftrace's words for errors about operands. Their place is the whole expression; the checker's own messages have the operand's.

use super::checker::{Checked, Checker, Reported};
use super::operands::no_operator;
use super::tree::{Expr, Type};
use crate::lang::ast::{self, Span};
use crate::lang::diag::{Diagnostic, Severity};

/// The type of an operand that was refused, as bpftrace spells it: `string`, and `string[2]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refused {
    pub(crate) word: String,
    pub(crate) whole: String,
}

impl Refused {
    /// Why it cannot be in a variable, if it is a map's aggregation.
    pub(super) fn in_variable(&self) -> String {
        match self.whole.as_str() {
            "" => String::new(),
            whole => format!("Value '{whole}' cannot be assigned to a scratch variable."),
        }
    }

    /// Why it cannot be in the map `name`, if it is another map's aggregation.
    pub(super) fn in_map(&self, name: &str) -> String {
        match self.whole.strip_suffix("_t") {
            None => String::new(),
            Some(function) => format!(
                "Map value '{function}_t' cannot be assigned from one map to another. The function that returns this type must be called directly e.g. `@{name} = {function}(retval);`."
            ),
        }
    }
}

impl Checker<'_> {
    /// Notes an operand that is refused.
    pub(super) fn refuse(&mut self, operand: &Expr) {
        self.refused = self.refused_as(operand);
    }

    /// How bpftrace spells an operand's type.
    pub(super) fn refused_as(&self, operand: &Expr) -> Refused {
        Refused {
            word: self.spelled_type(&operand.ty).0.to_owned(),
            whole: self.spelled_value(operand),
        }
    }

    /// Notes a type of bpftrace's that no value has here.
    pub(super) fn refuse_word(&mut self, word: &str) {
        self.refused = Refused {
            word: word.to_owned(),
            whole: word.to_owned(),
        };
    }

    /// What `check` gives of the operand at `operand`; an error about that is at `place`, and as `words` say, where it is shown as bpftrace's.
    pub(crate) fn phrased<T>(
        &mut self,
        operand: Span,
        place: Span,
        check: impl FnOnce(&mut Self) -> Checked<T>,
        words: impl FnOnce(&Refused) -> String,
    ) -> Checked<T> {
        let before = self.found.len();
        self.refused = Refused::default();
        check(self).inspect_err(|Reported| self.phrase_last(before, operand, place, words))
    }

    /// Gives the last of the findings since `before`, if it is about `operand`, bpftrace's words.
    fn phrase_last(
        &mut self,
        before: usize,
        operand: Span,
        place: Span,
        words: impl FnOnce(&Refused) -> String,
    ) {
        let refused = std::mem::take(&mut self.refused);
        if let Some(last) = self.found.get_mut(before..).and_then(<[_]>::last_mut)
            && last.span == operand
            && last.severity == Severity::Error
        {
            let words = words(&refused);
            if !words.is_empty() {
                last.know_as(place, || words);
            }
        }
    }

    /// The operands of the operator `op`, each as `check` gives it, and the second, too, if `all` faults are wanted; where one is refused, bpftrace
    /// names the types of both.
    pub(super) fn both(
        &mut self,
        (left, right): (&ast::Expr, &ast::Expr),
        (op, all): (&str, bool),
        place: Span,
        check: impl Fn(&mut Self, &ast::Expr) -> Checked<Expr>,
    ) -> Checked<(Expr, Expr)> {
        let before = self.found.len();
        let (one, first) = self.refusing(|checker| check(checker, left));
        let said = self.found.len();
        let (two, second) = self.refusing(|checker| match one.is_ok() || all {
            true => check(checker, right),
            false => checker.operand(right),
        });
        if one.is_err() && !all {
            self.found.truncate(said);
        }
        let wrong = match (&one, &two) {
            (Ok(_), Ok(_)) => return Ok((one?, two?)),
            (Ok(_), Err(_)) => right.span,
            (Err(_), _) => left.span,
        };
        let words = match (first, second) {
            (first, second) if first.whole.is_empty() || second.whole.is_empty() => return Err(Reported),
            (first, second) if alike(&first, &second) => no_operator(op, &first.whole, &second.whole),
            (first, second) => compared(op, &first.whole, &second.whole),
        };
        let about = |found: &&mut Diagnostic| found.span == wrong && found.span != place;
        if let Some(found) = self.found.iter_mut().skip(before).find(about) {
            found.know_as(place, || words);
        }
        Err(Reported)
    }

    /// What `check` gives of an operand, and how the operand, refused or not, is spelled.
    fn refusing(&mut self, check: impl FnOnce(&mut Self) -> Checked<Expr>) -> (Checked<Expr>, Refused) {
        self.refused = Refused::default();
        let checked = check(self);
        if let Ok(operand) = &checked {
            self.refuse(operand);
        }
        (checked, std::mem::take(&mut self.refused))
    }

    /// What `check` gives of the operand of a sign that stands before it.
    pub(super) fn signed<T>(
        &mut self,
        sign: char,
        operand: &ast::Expr,
        place: Span,
        check: impl FnOnce(&mut Self) -> Checked<T>,
    ) -> Checked<T> {
        self.phrased(operand.span, place, check, |refused| {
            no_sign(sign, &refused.whole)
        })
    }

    /// bpftrace's words for a part that values of `ty` do not have.
    pub(super) fn no_access(&self, name: &str, ty: &Type) -> String {
        let what = match name.parse::<u64>() {
            Ok(_) => "index",
            Err(_) => "field",
        };
        let (_, spelled) = self.spelled_type(ty);
        format!("Can not access {what} '{name}' on expression of type '{spelled}'")
    }
}

/// bpftrace's words for a sign before a value of this type.
pub(super) fn no_sign(sign: char, spelled: &str) -> String {
    format!("The {sign} operator can not be used on expressions of type '{spelled}'")
}

/// Whether two types are of one kind, or one of them is an address: bpftrace has other words for others.
pub(super) fn alike(one: &Refused, other: &Refused) -> bool {
    one.word == other.word || [one, other].iter().any(|side| side.word == "pointer")
}

/// bpftrace's words for an operator between values of two kinds.
pub(super) fn compared(op: &str, left: &str, right: &str) -> String {
    format!("Type mismatch for '{op}': comparing {left} with {right}")
}
