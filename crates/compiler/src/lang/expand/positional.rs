//! `$1`, `$#`, `str($1)`: what stands on the command line, as a number where it is one.

use super::rewrite::Expander;
use crate::lang::ast::{BinaryOp, Expr, ExprKind, Span, UnaryOp};
use crate::lang::diag::Diagnostic;
use crate::lang::lexer::parameter_number;

impl Expander<'_> {
    /// `$1` or `$#` as a value: a number, or else a text; 0 where nothing is given.
    pub(super) fn positional(&mut self, index: u32, count: bool, span: Span) -> ExprKind {
        let number = |value| ExprKind::Integer {
            value,
            unsigned: false,
        };
        if count {
            return number(self.inputs.positional.len() as u64);
        }
        if index == 0 {
            let message = "parameters of the command line are counted from $1";
            let known = "syntax: param $0 is out of integer range [1, 9223372036854775807]";
            return self.error(Diagnostic::error(span, message).known_as(span, known));
        }
        match self.parameter(index) {
            None => {
                let message = format!("Positional parameter ${index} is empty or not provided.");
                let hint = "it is 0 here; arguments stand behind the program on the command line";
                self.found.push(Diagnostic::warning(span, message).hint(hint));
                number(0)
            }
            Some(text) => signed(text, span).unwrap_or_else(|| ExprKind::String(text.to_owned())),
        }
    }

    /// `$1`, `$1 + 2` as the argument of `str`: the text, or what is left of it behind its first bytes.
    pub(super) fn text_of_positional(&mut self, expr: &Expr) -> Option<ExprKind> {
        let (index, skipped, place) = match &expr.kind {
            ExprKind::Positional { index, count: false } => (*index, 0, expr.span),
            ExprKind::Binary {
                op: BinaryOp::Add,
                left,
                right,
            } => match (&left.kind, &right.kind) {
                (ExprKind::Positional { index, count: false }, ExprKind::Integer { value, .. })
                | (ExprKind::Integer { value, .. }, ExprKind::Positional { index, count: false }) => {
                    (*index, *value, right.span)
                }
                _ => return None,
            },
            _ => return None,
        };
        if index == 0 {
            // It is refused as a value.
            return None;
        }
        let text = self.parameter(index).unwrap_or_default();
        let rest = usize::try_from(skipped)
            .ok()
            .and_then(|skipped| text.get(skipped..));
        Some(match rest {
            Some(rest) => ExprKind::String(rest.to_owned()),
            None => {
                let message = format!("${index} has fewer than {skipped} bytes: nothing is left of it");
                self.found.push(Diagnostic::warning(place, message));
                ExprKind::String(String::new())
            }
        })
    }

    /// A text with what its `$1` and `$#` stand for.
    pub(super) fn in_text(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out += &rest[..at];
            let behind = &rest[at + 1..];
            if let Some(behind) = behind.strip_prefix('#') {
                out += &self.inputs.positional.len().to_string();
                rest = behind;
                continue;
            }
            let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
            match behind[..end].parse() {
                Ok(index) => out += self.parameter(index).unwrap_or_default(),
                Err(_) => {
                    out.push('$');
                    out += &behind[..end];
                }
            }
            rest = &behind[end..];
        }
        out + rest
    }

    fn parameter(&self, index: u32) -> Option<&str> {
        let index = usize::try_from(index).ok()?.checked_sub(1)?;
        self.inputs.positional.get(index).map(String::as_str)
    }
}

/// A number or a time with or without a sign, as an expression.
pub(super) fn signed(text: &str, span: Span) -> Option<ExprKind> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let kind = ExprKind::Integer {
        value: parameter_number(digits)?,
        unsigned: false,
    };
    Some(match negative {
        false => kind,
        true => ExprKind::Unary {
            op: UnaryOp::Negate,
            value: Box::new(Expr { kind, span }),
        },
    })
}
