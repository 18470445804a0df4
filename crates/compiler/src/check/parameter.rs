//! `param NAME = VALUE`: values known before anything runs, changed while it runs; where they are kept is not known here.

use super::checker::Checker;
use super::globals::{Globals, Parameter};
use super::tree::{Show, Type};
use super::value::widened;
use crate::builtin;
use crate::context::{Context, ProgramKind};
use crate::lang::ast::{Expr, ExprKind, Item, Spanned, UnaryOp};
use crate::lang::diag::{Diagnostic, has_errors};
use crate::lang::parse_expression;

/// Words that cannot name a parameter, beside the language's built-ins.
const TAKEN: &[&str] = &[
    "args", "true", "false", "sizeof", "offsetof", "struct", "union", "enum",
];

/// The parameters among the items of a text, in source order, each once; those that are wrong are left out and reported.
///
/// ```
/// use kestrel_compiler::{check::parameters, lang::parse_script};
/// let (script, _) = parse_script("param threshold = 10ms; param loud = false");
/// let (found, wrong) = parameters(&script.items);
/// assert!(wrong.is_empty());
/// assert_eq!((found[0].name.as_str(), found[0].value), ("threshold", 10_000_000));
/// assert_eq!(found[1].parse("true").unwrap(), 1);
/// ```
pub fn parameters(items: &[Item]) -> (Vec<Parameter>, Vec<Diagnostic>) {
    let (mut all, mut found): (Vec<(&Spanned<String>, Parameter)>, _) = (Vec::new(), Vec::new());
    for item in items {
        let Item::Param(name, value) = item else {
            continue;
        };
        let before = all.iter().find(|(known, _)| known.node == name.node);
        if let Some((first, _)) = before {
            let message = format!("there is a parameter \"{}\" already", name.node);
            found.push(Diagnostic::error(name.span, message).label(first.span, "here"));
            continue;
        }
        if builtin::find(&name.node).is_some() || TAKEN.contains(&name.node.as_str()) {
            let message = format!("\"{}\" is a word of the language", name.node);
            found.push(Diagnostic::error(name.span, message).hint("give the parameter another name"));
            continue;
        }
        match value_of(value) {
            Ok((ty, number)) => all.push((
                name,
                Parameter {
                    name: name.node.clone(),
                    ty,
                    value: number,
                },
            )),
            Err(diagnostics) => found.extend(diagnostics),
        }
    }
    (all.into_iter().map(|(_, parameter)| parameter).collect(), found)
}

impl Parameter {
    /// The value that a text gives to this parameter: `20ms`, `4M`, `-1`, `true`.
    ///
    /// # Errors
    /// Diagnostics, with places in the text.
    pub fn parse(&self, text: &str) -> Result<u64, Vec<Diagnostic>> {
        let (expr, found) = parse_expression(text);
        if has_errors(&found) {
            return Err(found);
        }
        let (ty, value) = value_of(&expr)?;
        let wrong = |wanted: &str| {
            let message = format!("\"{}\" is {wanted}", self.name);
            Err(vec![Diagnostic::error(expr.span, message)])
        };
        match (&self.ty, &ty) {
            (Type::Bool, Type::Bool) => Ok(value),
            (Type::Bool, _) => wrong("either true or false"),
            (_, Type::Bool) => wrong("a number"),
            (own, given) if own.is_signed() != given.is_signed() && (value as i64) < 0 => {
                wrong(match own.is_signed() {
                    true => "a number that may be negative: at most 2^63 - 1",
                    false => "a number that is not negative",
                })
            }
            _ => Ok(value),
        }
    }
}

/// The value of an expression of constants.
fn value_of(expr: &Expr) -> Result<(Type, u64), Vec<Diagnostic>> {
    if matches!(expr.kind, ExprKind::Error) {
        return Err(Vec::new()); // the parser has reported it
    }
    if let Some(other) = not_constant(expr) {
        let message = "a parameter's value is known before anything runs";
        let hint = "a number (42, 0x10), a time (10ms), a size (4M), true or false";
        return Err(vec![Diagnostic::error(other.span, message).hint(hint)]);
    }
    let context = nowhere();
    let mut checker = Checker::new(&context, Globals::default());
    let checked = checker.scalar(expr).map(widened);
    // Its value may be another one later, a negative one, too.
    let ty = |ty: Type| match ty {
        Type::Integer {
            show: Show::Natural, ..
        } => Type::I64,
        ty => ty,
    };
    let constant = checked.ok().and_then(|e| Some((ty(e.ty.clone()), e.constant()?)));
    match constant {
        Some((ty, value)) if !has_errors(&checker.found) => Ok((ty, value)),
        _ if checker.found.is_empty() => {
            let message = "the value of this is not known before anything runs";
            Err(vec![Diagnostic::error(expr.span, message)])
        }
        _ => Err(checker.found),
    }
}

/// The first part of an expression that is not made of constants.
fn not_constant(expr: &Expr) -> Option<&Expr> {
    match &expr.kind {
        ExprKind::Integer { .. } | ExprKind::Bool(_) => None,
        ExprKind::Unary {
            op: UnaryOp::Not | UnaryOp::Negate | UnaryOp::BitNot,
            value,
        } => not_constant(value),
        ExprKind::Binary { left, right, .. } => not_constant(left).or_else(|| not_constant(right)),
        ExprKind::Chain { first, rest } => {
            not_constant(first).or_else(|| rest.iter().find_map(|(_, operand)| not_constant(operand)))
        }
        _ => Some(expr),
    }
}

/// No event at all.
pub(super) fn nowhere() -> Context {
    Context::new("a parameter", ProgramKind::RawTracepoint)
}
