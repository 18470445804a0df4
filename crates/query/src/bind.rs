//! From the checked tree to code over the places of one event's fields; what a record cannot answer is refused by name.

use crate::code::{Header, Number, Text};
use crate::context::{STRIDE, of};
use crate::words::{NoMeaning, resolve};
use kestrel_compiler::check::check;
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::check::tree::{
    Access, CheckedProbe, Expr, ExprKind, Intrinsic, Statement, StatementKind, VariableId,
};
use kestrel_compiler::ir::{Helper, helper};
use kestrel_compiler::lang::ast;
use kestrel_compiler::lang::diag::{Diagnostic, Severity};
use kestrel_trace::event::EventClass;
use kestrel_trace::layout::FieldType;

/// An expression bound to an event, with warnings about it.
pub(crate) type Bound<T> = Result<(T, Vec<Diagnostic>), NoMeaning>;

/// Value of a grouping key at an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A number, of the type that says how it is shown.
    Number(Number, FieldType),
    /// A text.
    Text(Text),
}

/// An expression that is true or false at records of `event`.
pub(crate) fn condition(expr: &ast::Expr, event: &EventClass) -> Bound<Number> {
    let expr = resolve(expr, event)?;
    let (checked, warnings) = checked(Some(expr), None, event)?;
    let Some(predicate) = &checked.predicate else {
        return Ok((Number::Constant(1), warnings));
    };
    Ok((number(predicate)?, warnings))
}

/// The value of an expression at records of `event`, as `record(EXPRESSION)` would keep it.
pub(crate) fn value(expr: &ast::Expr, event: &EventClass) -> Bound<Value> {
    let expr = resolve(expr, event)?;
    let span = expr.span;
    let argument = ast::Arg {
        name: Some(ast::Spanned {
            node: "value".to_owned(),
            span,
        }),
        value: expr,
    };
    // By way of a handler, so that the value is what a recording of it would have been.
    let call = ast::ExprKind::Call {
        name: ast::Spanned {
            node: "record".to_owned(),
            span,
        },
        args: vec![argument],
    };
    let statement = ast::Statement {
        kind: ast::StatementKind::Expr(ast::Expr { kind: call, span }),
        span,
    };
    let block = ast::Block {
        statements: vec![statement],
        span,
    };
    let (checked, warnings) = checked(None, Some(block), event)?;
    let kept = checked.body.iter().find_map(|statement| match &statement.kind {
        StatementKind::Record(record) => record.layout.fields().first().zip(record.values.first()),
        _ => None,
    });
    let Some((field, value)) = kept else {
        return Err(refused(span, "an expression without a value"));
    };
    let value = match field.ty {
        FieldType::CharArray { .. } | FieldType::String { .. } | FieldType::InlineString { .. } => {
            Value::Text(text(value)?)
        }
        _ => Value::Number(number(value)?, field.ty.clone()),
    };
    Ok((value, warnings))
}

fn checked(
    predicate: Option<ast::Expr>,
    block: Option<ast::Block>,
    event: &EventClass,
) -> Bound<CheckedProbe> {
    let probe = ast::Probe {
        events: Vec::new(),
        predicate,
        block,
        object: None,
        span: ast::Span::default(),
    };
    let (checked, found) = check(&probe, &of(event), false, &mut Globals::default());
    let (errors, warnings): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|found| found.severity == Severity::Error);
    match (checked, errors.into_iter().next()) {
        (Some(checked), None) => Ok((checked, warnings)),
        (_, Some(error)) => Err(NoMeaning::Wrong(error)),
        (None, None) => Err(refused(ast::Span::default(), "this expression")),
    }
}

/// A diagnostic about what only a running kernel answers.
fn refused(span: ast::Span, what: &str) -> NoMeaning {
    let diagnostic = Diagnostic::error(span, format!("{what} was not recorded"));
    NoMeaning::Wrong(diagnostic.hint(
        "a recording answers pid, tid, cpu, comm, nsecs, elapsed, probe, func and the fields of its events",
    ))
}

fn boxed(expr: &Expr) -> Result<Box<Number>, NoMeaning> {
    number(expr).map(Box::new)
}

/// A scalar of the checked tree.
fn number(expr: &Expr) -> Result<Number, NoMeaning> {
    number_behind(None, expr)
}

/// A chain of operators: the checker keeps what each piece comes to in a variable, with which the next begins.
fn chain(statements: &[Statement], value: &Expr) -> Result<Number, NoMeaning> {
    let mut before = None;
    let mut pieces = Vec::new();
    for statement in statements {
        let StatementKind::Set { variable, value } = &statement.kind else {
            return Err(refused(statement.span, "this"));
        };
        pieces.push(number_behind(before, value)?);
        before = Some(*variable);
    }
    let value = Box::new(number_behind(before, value)?);
    Ok(Number::Chain { pieces, value })
}

/// A scalar, behind the piece of a chain that this variable has.
fn number_behind(piece: Option<VariableId>, expr: &Expr) -> Result<Number, NoMeaning> {
    let no = |what: &str| Err(refused(expr.span, what));
    let boxed = |expr: &Expr| number_behind(piece, expr).map(Box::new);
    Ok(match &expr.kind {
        ExprKind::Variable(variable) if piece == Some(*variable) => Number::Piece,
        ExprKind::Sequence { statements, value } => chain(statements, value)?,
        ExprKind::Constant(value) => Number::Constant(*value),
        ExprKind::Load {
            address,
            offset,
            size,
            signed,
            access: Access::Context,
        } if address.kind == ExprKind::ContextPointer => {
            let (field, at) = place(*offset);
            Number::Field {
                field,
                at,
                size: *size,
                signed: *signed,
            }
        }
        // Only the context is in the record; what any other address led to is gone.
        ExprKind::Load { .. } => return no("the memory behind this address"),
        ExprKind::BitField {
            value,
            shift,
            bits,
            signed,
        } => Number::BitField {
            value: boxed(value)?,
            shift: *shift,
            bits: *bits,
            signed: *signed,
        },
        ExprKind::Intrinsic(Intrinsic::Identity) => Number::Header(Header::PidTgid),
        ExprKind::Intrinsic(Intrinsic::StartTime) => Number::Header(Header::Begin),
        ExprKind::Intrinsic(Intrinsic::Helper { helper, .. }) => match header(*helper) {
            Some(header) => Number::Header(header),
            None => return no(&format!("what {} gives", helper.name().unwrap_or("this helper"))),
        },
        ExprKind::EventNumber => Number::Header(Header::Event),
        ExprKind::Unary { op, value } => Number::Unary(*op, boxed(value)?),
        ExprKind::Binary {
            op,
            signed,
            left,
            right,
        } => Number::Binary {
            op: *op,
            signed: *signed,
            left: boxed(left)?,
            right: boxed(right)?,
        },
        ExprKind::Compare {
            op,
            signed,
            left,
            right,
        } => Number::Compare {
            op: *op,
            signed: *signed,
            left: boxed(left)?,
            right: boxed(right)?,
        },
        ExprKind::Logic { and, left, right } => Number::Logic {
            and: *and,
            left: boxed(left)?,
            right: boxed(right)?,
        },
        ExprKind::Ternary {
            condition,
            then,
            otherwise,
        } => Number::Ternary {
            condition: boxed(condition)?,
            then: then.as_deref().map(boxed).transpose()?,
            otherwise: boxed(otherwise)?,
        },
        ExprKind::Convert { value, size, signed } => Number::Convert {
            value: boxed(value)?,
            size: *size,
            signed: *signed,
        },
        ExprKind::StringEqual {
            left,
            right,
            bytes,
            negated,
        } => Number::TextEqual {
            left: text(left)?,
            right: text(right)?,
            bytes: *bytes as usize,
            negated: *negated,
        },
        ExprKind::StringGlob {
            text: subject,
            glob,
            bytes,
        } => Number::TextGlob {
            text: text(subject)?,
            glob: glob.clone(),
            bytes: *bytes as usize,
        },
        // The expression is asked of one record, and no program runs beside it: `run --trace` has maps.
        ExprKind::MapValue(_) | ExprKind::HasKey(_) => return no("what a map held"),
        ExprKind::Parameter(_) => return no("the value of a parameter"),
        ExprKind::IsTarget(_) => return no("which threads were followed"),
        _ => return Err(of_programs(expr.span)),
    })
}

/// Says that only programs have something.
fn of_programs(span: ast::Span) -> NoMeaning {
    let message = "an expression over records does not have this function";
    NoMeaning::Wrong(Diagnostic::error(span, message).hint(
        "a program over the recording has all: `kestrel report -e 'EVENT /strncmp(comm, \"k\", 1) == 0/ { @ = count() }'`",
    ))
}

/// A text of the checked tree.
fn text(expr: &Expr) -> Result<Text, NoMeaning> {
    let no = |what: &str| Err(refused(expr.span, what));
    Ok(match &expr.kind {
        ExprKind::ConstantBytes(bytes) => Text::Constant(bytes.clone()),
        ExprKind::Comm => Text::Comm,
        ExprKind::Bytes {
            address,
            offset,
            size,
            access: Access::Context,
        } if address.kind == ExprKind::ContextPointer => {
            let (field, at) = place(*offset);
            let size = *size as usize;
            Text::Field { field, at, size }
        }
        ExprKind::Ternary {
            condition,
            then: Some(then),
            otherwise,
        } => Text::Choice(
            boxed(condition)?,
            Box::new(text(then)?),
            Box::new(text(otherwise)?),
        ),
        ExprKind::ReadString { .. } | ExprKind::ReadMemory { .. } | ExprKind::Bytes { .. } => {
            return no("the string at this address");
        }
        ExprKind::MapValue(_) => return no("what a map held"),
        _ => return no("this string"),
    })
}

/// The field that lies at an offset of the virtual context, and the byte in it.
fn place(offset: i32) -> (usize, usize) {
    let offset = offset.unsigned_abs();
    ((offset / STRIDE) as usize, (offset % STRIDE) as usize)
}

fn header(helper: Helper) -> Option<Header> {
    Some(match helper {
        helper::GET_CURRENT_PID_TGID => Header::PidTgid,
        helper::GET_SMP_PROCESSOR_ID => Header::Cpu,
        helper::KTIME_GET_NS => Header::Time,
        _ => return None,
    })
}
