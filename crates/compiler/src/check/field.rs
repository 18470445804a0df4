//! Sources of an event's values: the context, its arrays and strings, arguments, registers, and field rules, which are
//! expressions of the language over the event's other fields.

use super::checker::{Checked, Checker, Reported};
use super::tree::{Access, BinaryOp, Expr, ExprKind, Pointee, Pointer, Type};
use super::value::{constant, narrowed, operation, read_string, shortened};
use super::walk::MemoryPlace;
use crate::context::{EventField, Register, Source};
use crate::lang::ast::{self, Span};
use crate::lang::diag::{Diagnostic, has_errors};
use crate::lang::parse_expression;
use kestrel_trace::layout::Space;

impl<'a> Checker<'a> {
    /// A field by its name. An operand of rules may bear the name of a field (`state`): a rule means the operand, everybody
    /// else the field.
    pub(super) fn find_field(&self, name: &str) -> Option<&'a EventField> {
        let in_rule = !self.rules.is_empty();
        let is_rule = |f: &EventField| matches!(f.source, Source::Expression(_));
        let named = || self.context.fields.iter().filter(|f| f.name == name);
        let wanted = |f: &&EventField| if in_rule { !is_rule(f) } else { f.recorded };
        named().find(wanted).or_else(|| named().next())
    }

    /// The names of the event's fields, those first that `record()` takes.
    pub(crate) fn field_names(&self) -> Vec<&'a str> {
        let (recorded, others): (Vec<_>, Vec<_>) = self.context.fields.iter().partition(|f| f.recorded);
        recorded
            .into_iter()
            .chain(others)
            .map(|f| f.name.as_str())
            .collect()
    }

    /// The value of a field of the event, used at `span`.
    pub(crate) fn event_field(&mut self, field: &EventField, span: Span) -> Checked<Expr> {
        let ty = self.value_type(&field.ty).ok_or_else(|| {
            let message = format!(
                "the field \"{}\" has a type whose values cannot be handled",
                field.name
            );
            self.error(span, message)
        })?;
        match &field.source {
            Source::Expression(rule) => self.rule(&field.name, rule, ty, span),
            Source::Absent { why, instead } => {
                let message = format!("the field \"{}\" cannot be had: {why}", field.name);
                Err(self.report(Diagnostic::error(span, message).maybe_hint(instead.clone())))
            }
            source => self.input(source, ty, span),
        }
    }

    /// A value of type `ty` from a source that is not a rule.
    pub(crate) fn input(&mut self, source: &Source, ty: Type, span: Span) -> Checked<Expr> {
        let spot = |offset: u32| MemoryPlace {
            address: context_pointer(span),
            offset: i64::from(offset),
            access: Access::Context,
        };
        match source {
            Source::Context { offset, size } => {
                let word = Type::integer(*size, ty.is_signed());
                let word = self.value_at(spot(*offset), word, span)?;
                Ok(retyped(word, ty, span))
            }
            Source::Register { offset } => {
                let word = self.value_at(spot(*offset), Type::U64, span)?;
                Ok(retyped(word, ty, span))
            }
            Source::Argument { index, trusted } => {
                let word = self.value_at(spot(index * 8), Type::U64, span)?;
                let mut value = retyped(word, ty, span);
                if let Type::Pointer(pointer) = &mut value.ty {
                    // A type of BTF says whether the walk may be direct; the context whether the verifier agrees.
                    pointer.trusted =
                        *trusted && self.context.direct_loads && self.is_struct(pointer.to, pointer.levels);
                }
                Ok(value)
            }
            Source::ContextArray { offset, bytes } => {
                let ty = match ty {
                    Type::String { .. } => Type::CharArray { size: *bytes },
                    ty => ty,
                };
                self.value_at(spot(*offset), ty, span)
            }
            Source::DataLocation { offset } => {
                let word = self.value_at(spot(*offset), Type::integer(4, false), span)?;
                let low = constant(0xffff, Type::I64, span);
                let inside = operation(BinaryOp::And, Type::I64, word, low, span);
                let address = operation(BinaryOp::Add, Type::U64, context_pointer(span), inside, span);
                let Type::Memory { max } = ty else {
                    return Ok(read_string(address, Some(Space::Kernel), self.longest(), span));
                };
                let word = self.value_at(spot(*offset), Type::integer(4, false), span)?;
                let bits = constant(16, Type::I64, span);
                let length = operation(BinaryOp::ShiftRight, Type::U64, word, bits, span);
                let kind = ExprKind::ReadMemory {
                    address: Box::new(address),
                    space: Some(Space::Kernel),
                    max,
                    length: Box::new(length),
                };
                Ok(Expr::new(kind, ty, span))
            }
            &Source::UserMemory {
                register,
                offset,
                behind,
            } => {
                let address = self.value_at(spot(register), Type::U64, span)?;
                let there = |address, offset| MemoryPlace {
                    address,
                    offset,
                    access: Access::User,
                };
                if !behind {
                    return self.value_at(there(address, offset), ty, span);
                }
                let address = self.value_at(there(address, offset), Type::U64, span)?;
                match ty {
                    Type::String { max } => Ok(read_string(address, Some(Space::User), max, span)),
                    ty => self.value_at(there(address, 0), ty, span),
                }
            }
            Source::Words(sources) => {
                let words: Checked<Vec<Expr>> = sources
                    .iter()
                    .map(|source| self.input(source, Type::U64, span))
                    .collect();
                let address = Expr::new(ExprKind::FrameWords(words?), Type::U64, span);
                let spot = MemoryPlace {
                    address,
                    offset: 0,
                    access: Access::Context,
                };
                self.value_at(spot, ty, span)
            }
            Source::Expression(_) | Source::Absent { .. } => {
                Err(self.error(span, "this cannot be a source here"))
            }
        }
    }

    /// A register by its name or another of its names.
    pub(crate) fn register(&mut self, register: &Register, span: Span) -> Checked<Expr> {
        let field = EventField {
            name: register.name.to_owned(),
            ty: register.ty.clone(),
            source: register.source.clone(),
            recorded: true,
        };
        let value = self.event_field(&field, span)?;
        if register.added == 0 {
            return Ok(value);
        }
        let ty = value.ty.clone();
        let added = constant(register.added, Type::U64, span);
        Ok(operation(BinaryOp::Subtract, ty, value, added, span))
    }

    /// Says that an event has no registers.
    pub(crate) fn no_registers(&mut self, span: Span) -> Reported {
        let message = format!("the registers are not known at {}", self.context.name);
        let hint = "kprobes and kretprobes have them: kprobe:FUNCTION { record(regs) }";
        let mut wrong = Diagnostic::error(span, message).hint(hint);
        let kind = self.context.name.split(':').next().unwrap_or_default();
        wrong.know_as(span, || format!("reg can not be used with \"{kind}\" probes"));
        self.report(wrong)
    }

    fn is_struct(&self, to: Pointee, levels: u8) -> bool {
        match (to, self.btf()) {
            (Pointee::Btf(id), Some(btf)) => levels == 0 && btf.composite(id).is_some(),
            _ => false,
        }
    }

    /// Expression by which a program distinguishes its events.
    pub(super) fn selector(&mut self, value: &str, span: Span) -> Checked<Expr> {
        self.rule("(selector)", value, Type::U64, span)
    }

    /// The value of a field rule, in the words of the event's other fields.
    pub(crate) fn rule(&mut self, name: &str, rule: &str, ty: Type, span: Span) -> Checked<Expr> {
        if self.rules.iter().any(|n| n == name) {
            let message = format!("the rule of the field \"{name}\" needs its own value");
            return Err(self.error(span, message));
        }
        let outer = std::mem::take(&mut self.found);
        self.rules.push(name.to_owned());
        let (expr, found) = parse_expression(rule);
        let value = match has_errors(&found) {
            true => {
                self.found = found;
                Err(Reported)
            }
            false => self.rule_value(&expr, ty),
        };
        self.rules.pop();
        let inner = std::mem::replace(&mut self.found, outer);
        value
            .map(|mut value| {
                value.set_span(span);
                value
            })
            .map_err(|reported| {
                let Some(why) = inner.first() else {
                    return reported;
                };
                let message = format!(
                    "the field \"{name}\" cannot be read on this kernel: {}",
                    why.message
                );
                let mut diagnostic =
                    Diagnostic::error(span, message).hint(format!("it is made by the rule: {rule}"));
                diagnostic.hints.extend(why.hints.iter().cloned());
                self.report(diagnostic)
            })
    }

    /// A rule's expression as the type that its field declares; a tuple gives an array's elements.
    fn rule_value(&mut self, expr: &ast::Expr, ty: Type) -> Checked<Expr> {
        match (&expr.kind, &ty) {
            (ast::ExprKind::Tuple(parts), Type::Array { element, count })
                if parts.len() == *count as usize =>
            {
                let parts = parts.iter().map(|part| {
                    let value = self.expression(part)?;
                    self.as_declared(value, (**element).clone(), part.span)
                });
                let parts = parts.collect::<Checked<Vec<_>>>()?;
                Ok(Expr::new(ExprKind::Elements(parts), ty, expr.span))
            }
            _ => {
                let value = self.expression(expr)?;
                self.as_declared(value, ty, expr.span)
            }
        }
    }

    /// A value as the type that its field declares.
    fn as_declared(&mut self, value: Expr, ty: Type, span: Span) -> Checked<Expr> {
        match (&value.ty, &ty) {
            _ if value.ty == ty => Ok(value),
            (from, to) if from.is_scalar() && to.is_scalar() => Ok(self.converted(value, ty, span)),
            (Type::Pointer(_) | Type::CharArray { .. } | Type::String { .. }, Type::String { max }) => {
                self.string(value, *max, None, span)
            }
            (Type::CharArray { size: from }, Type::CharArray { size: to }) if from >= to => {
                let to = *to;
                Ok(shortened(value, to))
            }
            _ => {
                let message = format!(
                    "{} where {} is wanted",
                    self.describe(&value.ty),
                    self.describe(&ty)
                );
                Err(self.error(span, message))
            }
        }
    }
}

/// The address of the hook's context.
pub(crate) fn context_pointer(span: Span) -> Expr {
    Expr::new(ExprKind::ContextPointer, Type::hexadecimal(8), span)
}

/// A word of the context as a value of type `ty`.
fn retyped(word: Expr, ty: Type, span: Span) -> Expr {
    match ty {
        Type::Pointer(pointer) => Expr {
            ty: Type::Pointer(Pointer {
                trusted: false,
                ..pointer
            }),
            span,
            ..word
        },
        ty if ty.is_scalar() => narrowed(word, ty, span),
        _ => word,
    }
}
