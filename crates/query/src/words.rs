//! Bare words of an expression at one recorded event: a field, a name of one of its values, or a word that every record answers.

use kestrel_compiler::lang::ast::{BinaryOp, Expr, ExprKind, SizeofOperand, Span, Spanned};
use kestrel_compiler::lang::diag::{Diagnostic, did_you_mean};
use kestrel_trace::event::EventClass;
use kestrel_trace::layout::{Base, Field, FieldType, Names};
use kestrel_trace::syscall::{family, named_number as number};

/// Words that every record answers: they go before fields of these names, which are `args.pid` and so on, as in handlers.
pub(crate) const ALWAYS: [&str; 8] = ["pid", "tid", "cpu", "comm", "nsecs", "elapsed", "probe", "func"];

/// Why an expression has no meaning at an event.
#[derive(Debug)]
pub(crate) enum NoMeaning {
    /// The event has no such field; another event may have it.
    Field(Spanned<String>),
    /// An error whatever the event.
    Wrong(Diagnostic),
}

/// The expression with `args.` before words that name fields, and with numbers in place of the names of a field's values.
pub(crate) fn resolve(expr: &Expr, event: &EventClass) -> Result<Expr, NoMeaning> {
    let mut expr = expr.clone();
    resolve_in(&mut expr, event)?;
    Ok(expr)
}

/// The field that an expression is, if it is one and nothing else: `prev_pid`, `args.prev_pid`.
pub(crate) fn field<'e>(expr: &Expr, event: &'e EventClass) -> Option<&'e Field> {
    let name = match &expr.kind {
        ExprKind::Identifier(word) if !ALWAYS.contains(&word.as_str()) => word,
        ExprKind::Member { base, name, .. } if is_args(base) => &name.node,
        _ => return None,
    };
    event.layout.fields().iter().find(|field| field.name == *name)
}

fn is_args(expr: &Expr) -> bool {
    matches!(&expr.kind, ExprKind::Identifier(word) if word == "args")
}

fn has_field(event: &EventClass, name: &str) -> bool {
    event.layout.fields().iter().any(|field| field.name == name)
}

fn resolve_in(expr: &mut Expr, event: &EventClass) -> Result<(), NoMeaning> {
    let span = expr.span;
    match &mut expr.kind {
        ExprKind::Identifier(word) if ALWAYS.contains(&word.as_str()) => {}
        ExprKind::Identifier(word) => {
            let word = word.clone();
            *expr = match (has_field(event, &word), number(&word)) {
                (true, _) => member_of_args(word, span),
                // Names of the kernel's headers, as handlers have them: `flags & O_CREAT`.
                (false, Some(number)) => Expr {
                    kind: integer(number),
                    span,
                },
                (false, None) => return Err(NoMeaning::Field(Spanned { node: word, span })),
            };
        }
        ExprKind::Member { base, name, .. } if is_args(base) => {
            if !has_field(event, &name.node) {
                return Err(NoMeaning::Field(name.clone()));
            }
        }
        ExprKind::Binary {
            op: BinaryOp::Equal | BinaryOp::NotEqual,
            left,
            right,
        } => {
            named_value(left, right, event)?;
            named_value(right, left, event)?;
            resolve_in(left, event)?;
            resolve_in(right, event)?;
        }
        kind => {
            for child in children(kind) {
                resolve_in(child, event)?;
            }
        }
    }
    Ok(())
}

fn member_of_args(name: String, span: Span) -> Expr {
    let base = Expr {
        kind: ExprKind::Identifier("args".to_owned()),
        span,
    };
    let kind = ExprKind::Member {
        base: Box::new(base),
        name: Spanned { node: name, span },
        arrow: false,
    };
    Expr { kind, span }
}

/// `vec == "TIMER"`: the number that the text names among the values of the field.
fn named_value(side: &Expr, text: &mut Expr, event: &EventClass) -> Result<(), NoMeaning> {
    let (Some(field), ExprKind::String(name)) = (field(side, event), &text.kind) else {
        return Ok(());
    };
    let (value, names) = match &field.ty {
        FieldType::Enumeration { names, .. } => (value_of(name, names), names),
        // Several bits are written as they are printed.
        FieldType::Flags { names, .. } => {
            let mut bits = name.split('|').map(|name| value_of(name.trim(), names));
            (bits.try_fold(0, |all, bits| Some(all | bits?)), names)
        }
        FieldType::Integer {
            base: Base::Named(meaning),
            ..
        } => {
            let Some(family) = family(*meaning) else {
                return Ok(());
            };
            let of = |wanted: &str| family.rows.iter().find(|row| row.name == wanted);
            let mut bits = name.split('|').map(|name| Some(of(name.trim())?.value));
            let value = bits.try_fold(0, |all, bits| Some(all | bits?));
            let candidates: Vec<&str> = family.rows.iter().map(|row| row.name).collect();
            return known_value(field, text, value, &candidates);
        }
        _ => return Ok(()),
    };
    let candidates: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
    known_value(field, text, value, &candidates)
}

/// Puts a number in the place of the name of a field's value; an error where no value has that name.
fn known_value(
    field: &Field,
    text: &mut Expr,
    value: Option<i64>,
    candidates: &[&str],
) -> Result<(), NoMeaning> {
    let (ExprKind::String(name), None) = (&text.kind, value) else {
        text.kind = integer(value.unwrap_or(0));
        return Ok(());
    };
    let message = format!("no value of {} is called \"{name}\"", field.name);
    let some: Vec<&str> = candidates.iter().copied().take(SHOWN).collect();
    let more = if candidates.len() > SHOWN { ", …" } else { "" };
    let hint = did_you_mean(name, candidates.iter().copied());
    let hint = hint.unwrap_or_else(|| format!("its values are {}{more}", some.join(", ")));
    Err(NoMeaning::Wrong(Diagnostic::error(text.span, message).hint(hint)))
}

fn integer(value: i64) -> ExprKind {
    ExprKind::Integer {
        value: value.cast_unsigned(),
        unsigned: false,
    }
}

/// Names of values that a hint shows.
const SHOWN: usize = 16;

fn value_of(name: &str, names: &Names) -> Option<i64> {
    names
        .iter()
        .find(|(_, known)| known == name)
        .map(|(value, _)| *value)
}

/// The expressions that a kind of expression is made of.
fn children(kind: &mut ExprKind) -> Vec<&mut Expr> {
    match kind {
        ExprKind::Map { keys, .. } | ExprKind::Tuple(keys) => keys.iter_mut().collect(),
        ExprKind::Record(elements) => elements.iter_mut().map(|(_, value)| value).collect(),
        ExprKind::Call { args, .. } => args.iter_mut().map(|arg| &mut arg.value).collect(),
        ExprKind::Member { base: one, .. }
        | ExprKind::Cast { value: one, .. }
        | ExprKind::Unary { value: one, .. }
        | ExprKind::Comptime(one)
        | ExprKind::Step { target: one, .. } => vec![one],
        ExprKind::Index {
            base: one,
            index: two,
        }
        | ExprKind::Binary {
            left: one,
            right: two,
            ..
        } => vec![one, two],
        ExprKind::Chain { first, rest } => std::iter::once(&mut **first)
            .chain(rest.iter_mut().map(|(_, operand)| operand))
            .collect(),
        ExprKind::Ternary {
            condition,
            then,
            otherwise,
        } => [Some(condition), then.as_mut(), Some(otherwise)]
            .into_iter()
            .flatten()
            .map(|part| &mut **part)
            .collect(),
        ExprKind::Sizeof(operand) | ExprKind::Typeof(operand) | ExprKind::Typeinfo(operand) => match operand.as_mut() {
            SizeofOperand::Expr(expr) => vec![expr],
            SizeofOperand::Type(_) => Vec::new(),
        },
        ExprKind::Integer { .. }
        | ExprKind::String(_)
        | ExprKind::Bool(_)
        | ExprKind::Identifier(_)
        | ExprKind::Variable(_)
        | ExprKind::Positional { .. }
        | ExprKind::Offsetof { .. }
        // Statements mean nothing to a query; the checker says so.
        | ExprKind::Block(_)
        | ExprKind::If { .. }
        | ExprKind::Error => Vec::new(),
    }
}
