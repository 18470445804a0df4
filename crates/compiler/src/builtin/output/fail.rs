//! The built-in `fail`: refuses a program when it is compiled.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{Expr, ExprKind, StatementKind, Type};
use crate::lang::ast;

pub(crate) static FAIL: Builtin = Builtin {
    name: "fail",
    numbered: false,
    usage: "fail(\"format\"[, value, …])",
    about: "refuse the program with that message, unless it stands where a condition that is known says that it is not reached",
    kind: BuiltinKind::Statement(|checker, usage| {
        let args = usage.positional(checker, 1, usize::MAX)?;
        let Some((format, values)) = args.split_first() else {
            return Err(checker.error(usage.span, "a format is missing"));
        };
        let ast::ExprKind::String(text) = &format.kind else {
            return Err(checker.error(format.span, "the format of fail() is a string in quotes"));
        };
        let mut known = Vec::new();
        for value in values {
            let span = value.span;
            let value = checker.expression(value)?;
            let Some(word) = known_word(&value) else {
                return Err(checker.error(span, "the values of fail() must be known before the program runs"));
            };
            known.push(word);
        }
        // Inside a branch whose condition is known not to hold, `fail` is not reached and does nothing.
        if checker.unreached == 0 {
            return Err(checker.error(usage.span, filled(text, &known)));
        }
        Ok(StatementKind::Block(Vec::new()))
    }),
};

/// A value that is known when the program is compiled, as text.
fn known_word(value: &Expr) -> Option<String> {
    if let ExprKind::ConstantBytes(text) = &value.kind {
        return Some(String::from_utf8_lossy(text).into_owned());
    }
    let number = value.constant()?;
    Some(match value.ty {
        Type::Bool => (number != 0).to_string(),
        ref ty if ty.is_signed() => number.cast_signed().to_string(),
        _ => number.to_string(),
    })
}

/// The format with each directive replaced by its value.
fn filled(format: &str, values: &[String]) -> String {
    let mut values = values.iter();
    let mut parts = format.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    let mut doubled = false;
    for part in parts {
        if std::mem::take(&mut doubled) {
            out.push_str(part);
            continue;
        }
        if part.is_empty() {
            // An empty part is the middle of `%%`.
            out.push('%');
            doubled = true;
            continue;
        }
        let directive = part.find(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'l' | 'h' | 'z'));
        let rest = directive.map_or("", |at| part.get(at + 1..).unwrap_or_default());
        out.push_str(values.next().map_or("", String::as_str));
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::filled;

    #[test]
    fn values_take_the_places_of_directives() {
        let values = ["1".to_owned(), "abc".to_owned()];
        assert_eq!(filled("got %lld and %s%%.", &values), "got 1 and abc%.");
        assert_eq!(filled("nothing", &values), "nothing");
        assert_eq!(filled("%d%d%d", &values), "1abc");
    }
}
