//! Every kind of expression: operands first, then the room that knows the kind.

use super::checker::{Checked, Checker, Reported};
use super::compare;
use super::tree::{Expr, ExprKind, Show, Type};
use super::value::{constant, literal, string_constant, there_are, widened};
use crate::builtin;
use crate::lang::ast::{self, Arg, PathStep, SizeofOperand, Span, Spanned, TypeName};
use crate::lang::diag::Diagnostic;
use kestrel_trace::print::raw;
use std::ops::RangeInclusive;

impl Checker<'_> {
    /// Checks an expression.
    pub(crate) fn expression(&mut self, expr: &ast::Expr) -> Checked<Expr> {
        use ast::ExprKind as Kind;
        let span = expr.span;
        if let Some(inner) = super::pair::at_entry(expr) {
            return self.entry_value(&inner, span);
        }
        match &expr.kind {
            Kind::Integer { value, .. } => Ok(literal(*value, span)),
            Kind::String(text) => self.string_literal(text, span),
            Kind::Bool(value) => Ok(constant(u64::from(*value), Type::Bool, span)),
            Kind::Identifier(name) => self.word(name, span),
            Kind::Variable(name) => self.variable(name, span),
            Kind::Map { name, keys } => self.map_value(name, keys, span),
            Kind::Positional { .. } => Err(self.not_yet(span, "positional parameters ($1)")),
            Kind::Call { name, args } => self.call(name, args, span),
            Kind::Member { base, name, .. } => match self.args_member(base, name, span) {
                Some(field) => field,
                None => {
                    let base = self.expression(base)?;
                    self.member(base, name, span)
                }
            },
            Kind::Index { base, index } => {
                let (base, index) = (self.expression(base), self.index_value(index, span));
                self.index(base?, index?, span)
            }
            Kind::Cast { ty, value } => self.cast(ty, value, span),
            Kind::Unary { op, value } => self.unary(*op, value, span),
            Kind::Binary { op, left, right } => self.binary(*op, left, right, span),
            Kind::Chain { first, rest } => self.chain(first, rest, span),
            Kind::Ternary {
                condition,
                then,
                otherwise,
            } => self.ternary(condition, then.as_deref(), otherwise, span),
            Kind::Step {
                target,
                increment,
                prefix,
            } => self.stepped(target, *increment, *prefix, span),
            Kind::Tuple(parts) if parts.is_empty() => {
                let message = "() has no value: a tuple without parts can be neither printed nor stored";
                let hint = "a tuple of one part is written (1,)";
                Err(self.report(Diagnostic::error(span, message).hint(hint)))
            }
            Kind::Tuple(parts) => {
                let parts: Vec<_> = parts
                    .iter()
                    .map(|part| Ok((String::new(), self.expression(part)?)))
                    .collect::<Checked<_>>()?;
                self.tuple(parts, span)
            }
            Kind::Sizeof(operand) => self.sizeof(operand, span),
            Kind::Offsetof { of, path } => match of.as_ref() {
                SizeofOperand::Type(ty) => self.offsetof(ty, path, span),
                SizeofOperand::Expr(of) => {
                    let of = self.expression(of)?;
                    self.offset_in(of.ty, path, span)
                }
            },
            Kind::Record(parts) => {
                let again = parts.iter().enumerate().find(|(at, (name, _))| {
                    parts
                        .iter()
                        .take(*at)
                        .any(|(earlier, _)| earlier.node == name.node)
                });
                if let Some((_, (name, _))) = again {
                    let message = format!("Named argument list already contains name: {}", name.node);
                    let known = format!("syntax: {message}");
                    let wrong = Diagnostic::error(name.span, message);
                    return Err(self.report(wrong.known_as(name.span, known)));
                }
                let parts: Vec<_> = parts
                    .iter()
                    .map(|(name, part)| Ok((name.node.clone(), self.expression(part)?)))
                    .collect::<Checked<_>>()?;
                self.tuple(parts, span)
            }
            Kind::Block(block) => self.value_block(block),
            Kind::If {
                condition,
                then,
                otherwise,
            } => {
                // As a value `if` is the ternary operator, whose branches may be blocks.
                let block = |block: &ast::ValueBlock| ast::Expr {
                    kind: Kind::Block(block.clone()),
                    span: block.span,
                };
                let Some(otherwise) = otherwise else {
                    return Err(self.error(span, "\"if\" as a value needs an \"else\""));
                };
                if let Kind::Comptime(_) = condition.kind {
                    // Only what is chosen is looked at: the other may not fit the types that were asked for.
                    let chosen = match self.condition(condition)?.constant() {
                        Some(0) => otherwise,
                        _ => then,
                    };
                    return self.value_block(chosen);
                }
                self.ternary(condition, Some(&block(then)), &block(otherwise), span)
            }
            Kind::Comptime(inner) => {
                let value = self.expression(inner)?;
                match value.constant().is_some() || matches!(value.kind, ExprKind::ConstantBytes(_)) {
                    true => Ok(value),
                    false => Err(self.error(span, "Unable to resolve comptime expression")),
                }
            }
            Kind::Typeof(_) => Err(self.not_yet(span, "typeof outside of types")),
            Kind::Typeinfo(operand) => self.typeinfo(operand, span),
            Kind::Error => Err(self.error(span, "this expression could not be read")),
        }
    }

    /// A string literal; it may be as long as strings are.
    fn string_literal(&mut self, text: &str, span: Span) -> Checked<Expr> {
        match self.globals.max_strlen {
            Some(max) if raw::to_bytes(text).len() > max as usize => {
                let message = format!("String is too long (over {max} bytes): {text}");
                let hint = "config = { max_strlen = N } lets strings be longer";
                Err(self.report(Diagnostic::error(span, message).hint(hint)))
            }
            _ => Ok(string_constant(text, span)),
        }
    }

    /// An expression whose value is one register.
    pub(crate) fn scalar(&mut self, expr: &ast::Expr) -> Checked<Expr> {
        let value = self.operand(expr)?;
        if value.ty.is_scalar() {
            return Ok(value);
        }
        self.refuse(&value);
        let message = format!("an integer is wanted here, not {}", self.describe(&value.ty));
        let hint = match &value.ty {
            Type::CharArray { .. } => {
                Some("a number stands without quotes, and a string cannot be calculated with".to_owned())
            }
            other => Self::hint_of_parts(other),
        };
        let found = Diagnostic::error(expr.span, message).maybe_hint(hint);
        Err(self.report(found))
    }

    /// A scalar as a plain 64-bit number, signed as arithmetic takes it.
    pub(crate) fn number(&mut self, value: &ast::Expr) -> Checked<Expr> {
        self.integer(value)?;
        self.as_number(value)
    }

    /// A scalar that is, in scripts, no bool.
    pub(crate) fn integer(&mut self, expr: &ast::Expr) -> Checked<Expr> {
        let value = self.scalar(expr)?;
        if self.globals.infers_types && value.ty == Type::Bool {
            self.refuse(&value);
            let found = Diagnostic::error(expr.span, "an integer is wanted here, not a bool");
            return Err(self.report(found.hint("cast it: (uint64)…")));
        }
        Ok(value)
    }

    /// A scalar, also a bool, as a plain 64-bit number.
    pub(crate) fn as_number(&mut self, value: &ast::Expr) -> Checked<Expr> {
        let checked = self.scalar(value)?;
        let ty = Type::integer(8, widened(checked.clone()).ty.is_signed());
        Ok(Expr {
            ty,
            ..widened(checked)
        })
    }

    /// A number of `range` that is known now.
    pub(crate) fn whole(
        &mut self,
        value: &ast::Expr,
        range: RangeInclusive<i64>,
        what: &str,
    ) -> Checked<i64> {
        let checked = self.scalar(value)?;
        let Some(known) = checked.constant() else {
            let message = format!("{what} must be known before the program runs");
            return Err(self.error(value.span, message));
        };
        let number = known.cast_signed();
        if range.contains(&number) {
            return Ok(number);
        }
        let message = format!("{what} is {} to {}", range.start(), range.end());
        Err(self.error(value.span, message))
    }

    /// An expression that is true or false: a scalar.
    pub(crate) fn condition(&mut self, expr: &ast::Expr) -> Checked<Expr> {
        let value = self.expression(expr)?;
        if value.ty.is_scalar() {
            return Ok(value);
        }
        if let ExprKind::ConstantBytes(known) = &value.kind
            && self.globals.infers_types
        {
            return Ok(constant(u64::from(!known.is_empty()), Type::Bool, value.span));
        }
        self.refuse(&value);
        let message = format!(
            "a condition is an integer or a comparison, not {}",
            self.describe(&value.ty)
        );
        let hint = value
            .ty
            .is_string()
            .then(|| "compare it: … == \"text\"".to_owned());
        Err(self.report(Diagnostic::error(expr.span, message).maybe_hint(hint)))
    }

    fn call(&mut self, name: &Spanned<String>, args: &[Arg], span: Span) -> Checked<Expr> {
        let usage = builtin::used(&name.node, name.span, Some(args), span);
        builtin::value(self, &usage)
    }

    fn ternary(
        &mut self,
        condition: &ast::Expr,
        then: Option<&ast::Expr>,
        otherwise: &ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        let condition = self.condition(condition);
        let then = then.map(|t| self.expression(t)).transpose();
        let otherwise = self.expression(otherwise);
        let (condition, then, otherwise) = (condition?, then?, otherwise?);
        if let (Some(known), Some(then)) = (condition.constant(), &then)
            && then.ty.is_string()
            && otherwise.ty.is_string()
        {
            return Ok(if known == 0 { otherwise } else { then.clone() });
        }
        // In scripts it is a string as others are.
        if !self.globals.infers_types
            && let Some((ty, yes, no)) = named_choice(then.as_ref(), &otherwise)
        {
            return self.choice(condition, Some(yes), no, ty, span);
        }
        let is_string = |side: &Expr| compare::ternary_side_size(side).is_some();
        let (then, otherwise) = match then {
            Some(then) if is_string(&then) => {
                let otherwise = compare::ternary_as_string(otherwise);
                (Some(then), self.name_as_string(otherwise))
            }
            Some(then) if is_string(&otherwise) => {
                let then = compare::ternary_as_string(then);
                (Some(self.name_as_string(then)), otherwise)
            }
            then => (then, otherwise),
        };
        if let Some(then) = &then
            && let (Some(yes), Some(no)) = (
                compare::ternary_side_size(then),
                compare::ternary_side_size(&otherwise),
            )
        {
            if let Some(value) = condition.constant() {
                return Ok(if value == 0 { otherwise } else { then.clone() });
            }
            // Whole words, so that what is behind its end is cleared in words.
            let size = yes.max(no).next_multiple_of(8);
            let ty = Type::CharArray { size };
            return self.choice(condition, Some(then.clone()), otherwise, ty, span);
        }
        if let Some(then) = &then
            && !then.ty.is_scalar()
            && !is_string(then)
        {
            return self.choice_of_bytes(condition, then.clone(), otherwise, span);
        }
        if let Some(then) = &then
            && self.globals.infers_types
            && (then.ty == Type::Bool) != (otherwise.ty == Type::Bool)
            && then.ty.is_scalar()
            && otherwise.ty.is_scalar()
        {
            if let Some(known) = condition.constant() {
                return Ok(if known == 0 { otherwise } else { then.clone() });
            }
            return Err(self.unlike(then, &otherwise, span));
        }
        let first = then.as_ref().unwrap_or(&condition);
        for side in [first, &otherwise] {
            if !side.ty.is_scalar() && compare::ternary_side_size(side).is_some() {
                return Err(self.unlike(first, &otherwise, span));
            }
            if !side.ty.is_scalar() {
                let message = format!("{} as a choice of \"?:\"", self.describe(&side.ty));
                return Err(self.not_yet(side.span, &message));
            }
        }
        let ty = self.choice_type(first, &otherwise, span);
        self.choice(condition, then, otherwise, ty, span)
    }

    /// A choice between two values that are kept alike: buffers, tuples, stacks, arrays.
    fn choice_of_bytes(&mut self, condition: Expr, then: Expr, otherwise: Expr, span: Span) -> Checked<Expr> {
        let (one, other) = (self.holding(&then, false)?, self.holding(&otherwise, false)?);
        let joined = super::shape::join(&one, &other);
        let fitted = joined.and_then(|ty| {
            let then = self.fitted_to(then.clone(), &ty)?;
            Some((then, self.fitted_to(otherwise.clone(), &ty)?, ty))
        });
        let Some((then, otherwise, ty)) = fitted else {
            return Err(self.unlike(&then, &otherwise, span));
        };
        self.choice(condition, Some(then), otherwise, ty, span)
    }

    /// Reports a choice between values of two types.
    fn unlike(&mut self, then: &Expr, otherwise: &Expr, span: Span) -> Reported {
        let message = format!(
            "Branches must return the same type or compatible types: have '{}' and '{}'",
            self.spelled_value(then),
            self.spelled_value(otherwise)
        );
        self.error(span, message)
    }

    /// `condition ? then : otherwise`, of type `ty`.
    fn choice(
        &mut self,
        condition: Expr,
        then: Option<Expr>,
        otherwise: Expr,
        ty: Type,
        span: Span,
    ) -> Checked<Expr> {
        if let Some(value) = condition.constant() {
            let chosen = if value == 0 {
                otherwise
            } else {
                then.unwrap_or(condition)
            };
            return Ok(Expr { ty, span, ..chosen });
        }
        let kind = ExprKind::Ternary {
            condition: Box::new(condition),
            then: then.map(Box::new),
            otherwise: Box::new(otherwise),
        };
        Ok(Expr::new(kind, ty, span))
    }

    fn sizeof(&mut self, operand: &SizeofOperand, span: Span) -> Checked<Expr> {
        let ty = match operand {
            // As in bpftrace; to C it is a mistake.
            SizeofOperand::Type(ty) if is_void(ty) => return Ok(constant(0, Type::U64, span)),
            SizeofOperand::Type(ty) => self.written_type(ty)?,
            SizeofOperand::Expr(value) => self.type_of(value)?,
        };
        let size = self.size_by_name(&ty).ok_or_else(|| {
            let message = format!("the size of {} is not known", self.describe(&ty));
            self.error(span, message)
        })?;
        Ok(constant(u64::from(size), Type::U64, span))
    }

    /// An expression of which only the type or the address is asked for.
    pub(super) fn unread(&mut self, value: &ast::Expr) -> Checked<Expr> {
        let before = std::mem::replace(&mut self.is_read, false);
        let checked = self.expression(value);
        self.is_read = before;
        checked
    }

    /// The type of all that is stored in a map, as narrow as that is, where an expression is one.
    pub(crate) fn stored_in(&self, value: &ast::Expr) -> Option<Type> {
        match &value.kind {
            ast::ExprKind::Map { name, .. } => self.globals.shapes.stored_type(name).cloned(),
            _ => None,
        }
    }

    /// The type of a value, which is not calculated: a map's as narrow as all that is stored in it.
    fn type_of(&mut self, value: &ast::Expr) -> Checked<Type> {
        if let ast::ExprKind::Block(block) = &value.kind
            && let (Some(inner), true) = (&block.value, block.statements.is_empty())
        {
            return self.type_of(inner);
        }
        if let Some(stored) = self.stored_in(value) {
            return Ok(stored);
        }
        let checked = self.unread(value)?;
        match checked.ty {
            Type::CharArray { .. } | Type::String { .. } | Type::Integer { .. } => {
                self.holding(&checked, false)
            }
            ty => Ok(ty),
        }
    }

    /// `typeinfo(TYPE)`, `typeinfo(value)`: a record of the type's number in the kernel's types, what it is, and all of it in words.
    fn typeinfo(&mut self, operand: &SizeofOperand, span: Span) -> Checked<Expr> {
        let ty = match operand {
            SizeofOperand::Type(ty) => self.written_type(ty)?,
            SizeofOperand::Expr(value) => self.type_of(value)?,
        };
        let number = match &ty {
            Type::Struct(id, _) => u64::from(id.0),
            _ => 0,
        };
        let (base, full) = self.spelled_type(&ty);
        let parts = vec![
            (
                "btf_id".to_owned(),
                constant(number, Type::integer(4, false), span),
            ),
            ("base_type".to_owned(), string_constant(base, span)),
            ("full_type".to_owned(), string_constant(&full, span)),
        ];
        self.tuple(parts, span)
    }

    /// The index of an element.
    fn index_value(&mut self, index: &ast::Expr, span: Span) -> Checked<Expr> {
        let value = self.operand(index)?;
        if value.ty.is_scalar() {
            return Ok(value);
        }
        let ty = self.holding(&value, false)?;
        Err(self.no_index(&ty, span))
    }

    fn offsetof(&mut self, ty: &TypeName, path: &[PathStep], span: Span) -> Checked<Expr> {
        let ty = self.written_type(ty)?;
        self.offset_in(ty, path, span)
    }

    /// Bytes from the begin of a value to what a path leads to in it.
    fn offset_in(&mut self, mut ty: Type, path: &[PathStep], span: Span) -> Checked<Expr> {
        let mut offset = 0;
        for step in path {
            let member = match step {
                PathStep::Member(member) => member,
                PathStep::Index(index) => {
                    let index = self.scalar(index)?;
                    let (Type::Array { element, count }, Some(at)) = (ty, index.constant()) else {
                        return Err(self.error(index.span, "this is no element whose place is known"));
                    };
                    if at >= u64::from(count) {
                        let message = format!("the array has {count} elements");
                        return Err(self.error(index.span, message));
                    }
                    offset += at * u64::from(self.size_of(&element).unwrap_or_default());
                    ty = *element;
                    continue;
                }
            };
            let Type::Struct(id, _) = ty else {
                let message = format!("{} has no members", self.describe(&ty));
                return Err(self.error(member.span, message));
            };
            let absent = self
                .btf()
                .filter(|btf| btf.find_member(id, &member.node).is_none());
            if let (Some(btf), true) = (absent, self.globals.infers_types) {
                let message = format!("'{}' has no field named '{}'", btf.render(id), member.node);
                let hint = there_are(&member.node, &btf.member_names(id));
                return Err(self.report(Diagnostic::error(span, message).hint(hint)));
            }
            let place = self.find_member(id, member, member.span)?;
            if place.bits.is_some() {
                return Err(self.error(member.span, "a bit field has no offset in bytes"));
            }
            offset += u64::from(place.offset());
            ty = self.btf_type(place.ty).unwrap_or(Type::U64);
        }
        Ok(constant(offset, Type::U64, span))
    }
}

/// `c ? "a" : "b"` is an enumeration with two names: its type, and its two values.
fn named_choice(then: Option<&Expr>, otherwise: &Expr) -> Option<(Type, Expr, Expr)> {
    let then = then.filter(|then| then.ty.is_string() && otherwise.ty.is_string())?;
    let (ExprKind::ConstantBytes(yes), ExprKind::ConstantBytes(no)) = (&then.kind, &otherwise.kind) else {
        return None;
    };
    let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ty = Type::Integer {
        size: 1,
        signed: false,
        show: Show::Names([(0, name(no)), (1, name(yes))].into()),
    };
    let value = |value, side: &Expr| constant(value, ty.clone(), side.span);
    Some((ty.clone(), value(1, then), value(0, otherwise)))
}

/// Whether a type is plain `void`.
fn is_void(ty: &ast::TypeName) -> bool {
    ty.name == "void" && ty.tag.is_none() && ty.suffixes.is_empty()
}
