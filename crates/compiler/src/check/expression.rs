//! Every kind of expression: operands first, then the room that knows the kind.

use super::checker::{Checked, Checker};
use super::text;
use super::tree::{Access, CompareOp, Expr, ExprKind, Pointee, Pointer, Show, Type};
use super::value::{comparison, constant, literal, narrowed, text_constant, widened};
use super::walk::MemoryPlace;
use crate::builtin;
use crate::lang::ast::{self, Arg, PathStep, SizeofOperand, Span, Spanned, TypeName};
use crate::lang::diag::Diagnostic;
use kestrel_trace::layout::Space;
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
            Kind::String(text) => self.text_literal(text, span),
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
                let (base, index) = (self.expression(base), self.scalar(index));
                self.index(base?, index?, span)
            }
            Kind::Cast { ty, value } => self.cast(ty, value, span),
            Kind::Unary { op, value } => self.unary(*op, value, span),
            Kind::Binary { op, left, right } => self.binary(*op, left, right, span),
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
                    return Err(self.error(name.span, &message));
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
                self.ternary(condition, Some(&block(then)), &block(otherwise), span)
            }
            Kind::Comptime(inner) => {
                let value = self.expression(inner)?;
                match value.constant().is_some() || matches!(value.kind, ExprKind::Text(_)) {
                    true => Ok(value),
                    false => Err(self.error(span, "this is not known before the program runs")),
                }
            }
            Kind::Typeof(_) => Err(self.not_yet(span, "typeof outside of types")),
            Kind::Typeinfo(operand) => self.typeinfo(operand, span),
            Kind::Error => Err(self.error(span, "this expression could not be read")),
        }
    }

    /// A text in quotes, which may be as long as texts are.
    fn text_literal(&mut self, text: &str, span: Span) -> Checked<Expr> {
        match self.globals.max_strlen {
            Some(max) if raw::to_bytes(text).len() > max as usize => {
                let message = format!("String is too long (over {max} bytes): {text}");
                let hint = "config = { max_strlen = N } lets strings be longer";
                Err(self.report(Diagnostic::error(span, message).hint(hint)))
            }
            _ => Ok(text_constant(text, span)),
        }
    }

    /// An expression whose value is one register.
    pub(crate) fn scalar(&mut self, expr: &ast::Expr) -> Checked<Expr> {
        let value = self.expression(expr)?;
        if value.ty.is_scalar() {
            return Ok(value);
        }
        let message = format!("an integer is wanted here, not {}", self.describe(&value.ty));
        let hint = match &value.ty {
            Type::Text { .. } => {
                Some("a number stands without quotes, and a string cannot be calculated with")
            }
            Type::Tuple(_) => Some("take one of its members: .0, .1 or by name"),
            _ => None,
        };
        let found = Diagnostic::error(expr.span, message).maybe_hint(hint.map(str::to_owned));
        Err(self.report(found))
    }

    /// A scalar as a plain 64-bit number, signed as arithmetic takes it.
    pub(crate) fn number(&mut self, value: &ast::Expr) -> Checked<Expr> {
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
        if let ExprKind::Text(known) = &value.kind
            && self.globals.infers_types
        {
            return Ok(constant(u64::from(!known.is_empty()), Type::Bool, value.span));
        }
        let message = format!(
            "a condition is an integer or a comparison, not {}",
            self.describe(&value.ty)
        );
        let hint = value.ty.is_text().then(|| "compare it: … == \"text\"".to_owned());
        Err(self.report(Diagnostic::error(expr.span, message).maybe_hint(hint)))
    }

    fn call(&mut self, name: &Spanned<String>, args: &[Arg], span: Span) -> Checked<Expr> {
        let usage = builtin::used(&name.node, name.span, Some(args), span);
        builtin::value(self, &usage)
    }

    /// Warns of a cast to the type that a value has already.
    fn warn_of_cast(&mut self, ty: &Type, written: &ast::Expr, value: &Expr, span: Span) {
        use ast::ExprKind as Kind;
        // What a map or a field holds is known no better than by its width.
        let known = matches!(
            written.kind,
            Kind::Variable(_) | Kind::Cast { .. } | Kind::Integer { .. } | Kind::Identifier(_)
        );
        let same = match (ty, &value.ty) {
            (
                Type::Integer { size, signed, .. },
                Type::Integer {
                    size: own,
                    signed: own_sign,
                    show,
                },
            ) => (size, signed) == (own, own_sign) && matches!(show, Show::Natural | Show::Number(_)),
            (Type::Pointer(to), Type::Pointer(from)) => {
                to.to != Pointee::Unknown && (to.to, to.levels) == (from.to, from.levels)
            }
            _ => false,
        };
        if known && same && self.globals.infers_types {
            let (_, spelled) = self.spelled_type(ty);
            let message = format!("Unnecessary cast: expression is already of type {spelled}");
            self.report(Diagnostic::warning(span, message));
        }
    }

    fn cast(&mut self, ty: &TypeName, written: &ast::Expr, span: Span) -> Checked<Expr> {
        let value = self.expression(written);
        let ty_written = match (ty.plain(), &value) {
            // As many elements as the value has bytes for.
            (Some((0, arrays)), Ok(value)) if arrays == [None] => self.array_over(ty, value),
            _ => self.written_type(ty),
        };
        let (ty_written, value) = (ty_written?, value?);
        if let Type::Array { .. } | Type::Text { .. } = &ty_written {
            return self.cast_to_array(ty_written, value, ty.span, span);
        }
        if ty_written.is_scalar()
            && !matches!(ty_written, Type::Pointer(_))
            && let Type::Array { .. } = value.ty
        {
            return self.cast_of_array(value, ty_written, span);
        }
        if !ty_written.is_scalar() {
            let message = format!("a value cannot be cast to {}", self.describe(&ty_written));
            let hint =
                matches!(ty_written, Type::Struct(_)).then(|| format!("cast an address: ({} *)…", ty.name));
            return Err(self.report(Diagnostic::error(ty.span, message).maybe_hint(hint)));
        }
        if let (Type::Bool, ExprKind::Text(known)) = (&ty_written, &value.kind)
            && self.globals.infers_types
        {
            return Ok(constant(u64::from(!known.is_empty()), Type::Bool, span));
        }
        if !value.ty.is_scalar() {
            let message = format!("{} cannot be cast", self.describe(&value.ty));
            return Err(self.error(value.span, message));
        }
        self.warn_of_cast(&ty_written, written, &value, ty.span);
        Ok(self.converted(value, ty_written, span))
    }

    /// `TYPE[]`, of as many elements as a value has bytes for.
    fn array_over(&mut self, name: &TypeName, value: &Expr) -> Checked<Type> {
        let mut element = name.clone();
        element.suffixes.clear();
        let element = self.written_type(&element)?;
        let (whole, one) = match &value.kind {
            ExprKind::Text(known) if self.globals.infers_types => {
                (u32::try_from(known.len() + 1).ok(), self.size_of(&element))
            }
            _ => (self.size_of(&value.ty), self.size_of(&element)),
        };
        match (whole, one) {
            (Some(whole), Some(one)) if one > 0 && whole >= one => Ok(Type::Array {
                element: Box::new(element),
                count: whole / one,
            }),
            _ => Err(self.error(name.span, "how many elements this array has is not known")),
        }
    }

    /// `(int8[8])value`: the bytes of a scalar, or of an array of as many bytes.
    fn cast_to_array(&mut self, ty: Type, value: Expr, written: Span, span: Span) -> Checked<Expr> {
        let size = self.size_of(&ty).unwrap_or_default();
        let has = self.size_of(&value.ty).unwrap_or_default();
        let ends = self.globals.infers_types && matches!(value.kind, ExprKind::Text(_));
        let fits = match value.ty.is_scalar() {
            // A number that is known now has as many bytes as are asked of it.
            true => size <= has || value.constant().is_some() && size <= 8,
            false => size == has || ends && size == has + 1,
        };
        if !fits {
            let message = format!(
                "{} of {has} bytes cannot be cast to {}, which takes {size}",
                self.describe(&value.ty),
                self.describe(&ty)
            );
            return Err(self.error(written, message));
        }
        match value.kind {
            // The NUL behind a text in quotes is one of its bytes.
            ExprKind::Text(mut known) => {
                known.resize(size as usize, 0);
                Ok(Expr::new(ExprKind::Text(known), ty, span))
            }
            ExprKind::Bytes { .. } => Ok(Expr { ty, span, ..value }),
            _ if value.ty.is_scalar() => {
                let address = Expr::new(ExprKind::FrameWords(vec![value]), Type::hexadecimal(8), span);
                let kind = ExprKind::Bytes {
                    address: Box::new(address),
                    offset: 0,
                    size,
                    access: Access::Context,
                };
                Ok(Expr::new(kind, ty, span))
            }
            _ => {
                let message = format!("{} cannot be cast", self.describe(&value.ty));
                Err(self.error(span, message))
            }
        }
    }

    /// `(uint32)array`: its bytes as a number.
    fn cast_of_array(&mut self, value: Expr, ty: Type, span: Span) -> Checked<Expr> {
        let size = self.size_of(&ty).unwrap_or_default();
        if self.size_of(&value.ty) != Some(size) {
            let message = format!(
                "{} cannot be cast to {}: they take different numbers of bytes",
                self.describe(&value.ty),
                self.describe(&ty)
            );
            return Err(self.error(span, message));
        }
        if let ExprKind::Text(known) = &value.kind {
            let mut word = [0; 8];
            word.iter_mut().zip(known).for_each(|(to, byte)| *to = *byte);
            let whole = constant(u64::from_le_bytes(word), Type::U64, span);
            return Ok(narrowed(whole, ty, span));
        }
        let value = self.in_memory(value);
        match value.kind {
            ExprKind::Bytes {
                address,
                offset,
                access,
                ..
            } => {
                let spot = MemoryPlace {
                    address: *address,
                    offset: i64::from(offset),
                    access,
                };
                self.value_at(spot, ty, span)
            }
            _ => Err(self.error(span, "this value lies nowhere in memory")),
        }
    }

    /// A scalar as another scalar type. An address keeps its space, and its trust if it points to the same.
    pub(crate) fn converted(&mut self, value: Expr, ty: Type, span: Span) -> Expr {
        match ty {
            Type::Pointer(mut to) => {
                match value.ty {
                    Type::Pointer(from) => {
                        to.space = from.space;
                        to.trusted = from.trusted && (from.to, from.levels) == (to.to, to.levels);
                    }
                    _ if self.context.space == Space::User => to.space = Space::User,
                    _ => {}
                }
                // As in bpftrace a narrow number is an address by its own bytes: (uint8 *)-1 is 0xff.
                let value = match value.ty {
                    Type::Integer {
                        size: size @ (1 | 2 | 4),
                        signed: true,
                        ..
                    } if self.globals.infers_types => narrowed(value, Type::integer(size, false), span),
                    _ => value,
                };
                Expr {
                    ty: Type::Pointer(to),
                    span,
                    ..value
                }
            }
            Type::Bool if value.ty == Type::Bool => value,
            Type::Bool => {
                let zero = constant(0, Type::I64, span);
                comparison(CompareOp::NotEqual, false, value, zero, span)
            }
            ty => narrowed(value, ty, span),
        }
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
            && then.ty.is_text()
            && otherwise.ty.is_text()
        {
            return Ok(if known == 0 { otherwise } else { then.clone() });
        }
        if let Some((ty, yes, no)) = named_choice(then.as_ref(), &otherwise) {
            return self.choice(condition, Some(yes), no, ty, span);
        }
        let is_text = |side: &Expr| text::ternary_side_size(side).is_some();
        let (then, otherwise) = match then {
            Some(then) if is_text(&then) => (Some(then), text::ternary_as_string(otherwise)),
            Some(then) if is_text(&otherwise) => (Some(text::ternary_as_string(then)), otherwise),
            then => (then, otherwise),
        };
        if let Some(then) = &then
            && let (Some(yes), Some(no)) =
                (text::ternary_side_size(then), text::ternary_side_size(&otherwise))
        {
            if let Some(value) = condition.constant() {
                return Ok(if value == 0 { otherwise } else { then.clone() });
            }
            // Whole words, so that what is behind its end is cleared in words.
            let size = yes.max(no).next_multiple_of(8);
            let ty = Type::Text { size };
            return self.choice(condition, Some(then.clone()), otherwise, ty, span);
        }
        if let Some(then) = &then
            && !then.ty.is_scalar()
            && !is_text(then)
        {
            return self.choice_of_bytes(condition, then.clone(), otherwise, span);
        }
        let first = then.as_ref().unwrap_or(&condition);
        for side in [first, &otherwise] {
            if !side.ty.is_scalar() && text::ternary_side_size(side).is_some() {
                let message =
                    "\"?:\" chooses between two strings or two numbers, not between a string and a number";
                return Err(self.error(side.span, message.to_owned()));
            }
            if !side.ty.is_scalar() {
                let message = format!("{} as a choice of \"?:\"", self.describe(&side.ty));
                return Err(self.not_yet(side.span, &message));
            }
        }
        let ty = match &first.ty {
            // The verifier's trust does not survive a choice.
            Type::Pointer(pointer) if first.ty == otherwise.ty => Type::Pointer(Pointer {
                trusted: false,
                ..*pointer
            }),
            ty if *ty == otherwise.ty => ty.clone(),
            _ => super::value::common(first, &otherwise),
        };
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
            let message = format!(
                "\"?:\" chooses between values of one type, not between {} and {}",
                self.describe(&then.ty),
                self.describe(&otherwise.ty)
            );
            return Err(self.error(span, message));
        };
        self.choice(condition, Some(then), otherwise, ty, span)
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
            SizeofOperand::Type(ty) => self.written_type(ty)?,
            SizeofOperand::Expr(value) => self.type_of(value)?,
        };
        let size = self.size_of(&ty).ok_or_else(|| {
            let message = format!("the size of {} is not known", self.describe(&ty));
            self.error(span, message)
        })?;
        Ok(constant(u64::from(size), Type::U64, span))
    }

    /// The type of a value, which is not calculated: a map's as narrow as all that is stored in it.
    fn type_of(&mut self, value: &ast::Expr) -> Checked<Type> {
        if let ast::ExprKind::Map { name, .. } = &value.kind
            && let Some(inferred) = self.globals.shapes.stored_type(name)
        {
            return Ok(inferred.clone());
        }
        let checked = self.expression(value)?;
        match checked.ty {
            Type::Text { .. } | Type::String { .. } | Type::Integer { .. } => self.holding(&checked, false),
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
            Type::Struct(id) => u64::from(id.0),
            _ => 0,
        };
        let (base, full) = self.spelled_type(&ty);
        let parts = vec![
            (
                "btf_id".to_owned(),
                constant(number, Type::integer(4, false), span),
            ),
            ("base_type".to_owned(), text_constant(base, span)),
            ("full_type".to_owned(), text_constant(&full, span)),
        ];
        self.tuple(parts, span)
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
            let Type::Struct(id) = ty else {
                let message = format!("{} has no members", self.describe(&ty));
                return Err(self.error(member.span, message));
            };
            let place = self.find_member(id, member)?;
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
    let then = then.filter(|then| then.ty.is_text() && otherwise.ty.is_text())?;
    let (ExprKind::Text(yes), ExprKind::Text(no)) = (&then.kind, &otherwise.kind) else {
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
