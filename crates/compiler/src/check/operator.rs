//! Operators: arithmetic in 64 bits, comparison, logic, pointer arithmetic; constants are folded.
//!
//! Comparisons have C's signedness after everything is widened to 64 bits: unsigned if either operand is an unsigned integer of 8 bytes or an address, else signed
//! (every smaller integer fits). Results are bpftrace's: unsigned where all operands are, whatever their width; differences are signed.

use super::checker::{Checked, Checker, Reported};
use super::fold;
use super::operands::no_operator;
use super::phrase::{alike, compared, no_sign};
use super::tree::{BinaryOp, CompareOp, Expr, ExprKind, Pointee, Pointer, Show, Type, UnaryOp};
use super::value::{
    common, comparison, constant, is_literal, is_natural, literal_type, operation, scaled, string_constant,
};
use crate::lang::ast::{self, Span};
use crate::lang::diag::{Diagnostic, did_you_mean};
use kestrel_trace::aggregate::MapType;
use kestrel_trace::layout::Space;
use std::sync::Arc;

/// Operator of the checked tree for a written one.
enum Meaning {
    Arithmetic(BinaryOp),
    Compare(CompareOp),
    /// Whether it is `&&`.
    Logic(bool),
}

fn meaning(op: ast::BinaryOp) -> Meaning {
    use ast::BinaryOp as Op;
    match op {
        Op::Add => Meaning::Arithmetic(BinaryOp::Add),
        Op::Subtract => Meaning::Arithmetic(BinaryOp::Subtract),
        Op::Multiply => Meaning::Arithmetic(BinaryOp::Multiply),
        Op::Divide => Meaning::Arithmetic(BinaryOp::Divide),
        Op::Modulo => Meaning::Arithmetic(BinaryOp::Modulo),
        Op::ShiftLeft => Meaning::Arithmetic(BinaryOp::ShiftLeft),
        Op::ShiftRight => Meaning::Arithmetic(BinaryOp::ShiftRight),
        Op::BitAnd => Meaning::Arithmetic(BinaryOp::And),
        Op::BitOr => Meaning::Arithmetic(BinaryOp::Or),
        Op::BitXor => Meaning::Arithmetic(BinaryOp::Xor),
        Op::Equal => Meaning::Compare(CompareOp::Equal),
        Op::NotEqual => Meaning::Compare(CompareOp::NotEqual),
        Op::Less => Meaning::Compare(CompareOp::Less),
        Op::LessEqual => Meaning::Compare(CompareOp::LessEqual),
        Op::Greater => Meaning::Compare(CompareOp::Greater),
        Op::GreaterEqual => Meaning::Compare(CompareOp::GreaterEqual),
        Op::And => Meaning::Logic(true),
        Op::Or => Meaning::Logic(false),
    }
}

impl Checker<'_> {
    pub(super) fn binary(
        &mut self,
        op: ast::BinaryOp,
        left: &ast::Expr,
        right: &ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        if let (ast::BinaryOp::Add, ast::ExprKind::String(one), ast::ExprKind::String(other)) =
            (op, &left.kind, &right.kind)
        {
            return Ok(string_constant(&format!("{one}{other}"), span));
        }
        match meaning(op) {
            Meaning::Arithmetic(op) => {
                let (l, r) = self.both((left, right), (op.word(), false), span, Self::scalar)?;
                self.arithmetic(op, l, r, span)
            }
            Meaning::Compare(op) => {
                if let Some(compared) = self.compare_event(op, left, right, span) {
                    return compared;
                }
                let (l, r) = (self.operand(left), self.operand(right));
                self.compare(op, l?, r?, span)
            }
            Meaning::Logic(and) => {
                let word = if and { "&&" } else { "||" };
                let (l, r) = self.both((left, right), (word, true), span, |checker, side| {
                    checker.truth(side, and)
                })?;
                Ok(logic(and, l, r, span))
            }
        }
    }

    /// Arithmetic on two scalars.
    pub(crate) fn arithmetic(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Checked<Expr> {
        self.refuse_of_address(op, &left, &right, span)?;
        match (op, &left.ty, &right.ty) {
            (BinaryOp::Add, Type::Pointer(p), Type::Integer { .. } | Type::Bool) => {
                let pointer = *p;
                return self.offset_pointer(op, pointer, left, right, span);
            }
            (BinaryOp::Add, Type::Integer { .. } | Type::Bool, Type::Pointer(p)) => {
                let pointer = *p;
                return self.offset_pointer(op, pointer, right, left, span);
            }
            (BinaryOp::Subtract, Type::Pointer(p), Type::Integer { .. } | Type::Bool) => {
                let pointer = *p;
                return self.offset_pointer(op, pointer, left, right, span);
            }
            (BinaryOp::Subtract, Type::Pointer(a), Type::Pointer(b)) => {
                let (a, b) = (*a, *b);
                return self.distance((a, left), (b, right), span);
            }
            (BinaryOp::Add, Type::Pointer(_), Type::Pointer(_)) => {
                let hint = "cast one of them to uint64";
                let (one, other) = (self.spelled_type(&left.ty).1, self.spelled_type(&right.ty).1);
                let diagnostic = Diagnostic::error(span, "two addresses cannot be added")
                    .known_as(span, no_operator("+", &one, &other));
                return Err(self.report(diagnostic.hint(hint)));
            }
            (BinaryOp::Add | BinaryOp::Subtract, ..) => {
                self.counts_with(&left)?;
                self.counts_with(&right)?;
            }
            _ => {}
        }
        // In tables it is an error; scripts follow bpftrace, which warns, and the quotient is bpftrace's.
        if matches!(op, BinaryOp::Divide | BinaryOp::Modulo) && right.constant() == Some(0) {
            let hint = "divide by a value that was tested: if ($n != 0) { … / $n }";
            if !self.globals.infers_types || left.constant().is_some() {
                let known = "unable to fold literals due to overflow or underflow";
                let wrong = Diagnostic::error(right.span, "this divides by zero").hint(hint);
                return Err(self.report(wrong.known_as(span, known)));
            }
            let warning = Diagnostic::warning(right.span, "this divides by zero, which gives 1");
            self.report(warning.hint(hint));
            return Ok(self.guarded_division(op, left, right, span));
        }
        if matches!(op, BinaryOp::ShiftLeft | BinaryOp::ShiftRight)
            && right.constant().is_some_and(|n| n > 63)
        {
            return Err(self.error(right.span, "values have 64 bits: they cannot be shifted that far"));
        }
        if let (Some(l), Some(r)) = (literal_value(&left), literal_value(&right)) {
            return self.folded(op, l, r, span);
        }
        if matches!(op, BinaryOp::Divide | BinaryOp::Modulo) {
            self.warn_of_signed_division(op, &left, &right, span);
            return Ok(match right.constant().is_none() && self.globals.infers_types {
                true => self.guarded_division(op, left, right, span),
                false => self.divided(op, left, right, span),
            });
        }
        let ty = Self::result_type(op, &left, &right);
        if op == BinaryOp::ShiftRight {
            // As in bpftrace: of signed numbers, too, zeroes come in at the top; only a shift by nothing leaves a sign.
            let shifted = operation(op, Type::U64, left, right, span);
            return Ok(Expr { ty, ..shifted });
        }
        Ok(operation(op, ty, left, right, span))
    }

    /// A division: unsigned where either side is a whole word without a sign, as in C, and in scripts always, as in bpftrace; its type is that of the other
    /// operators.
    fn divided(&self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        let ty = Self::result_type(op, &left, &right);
        let by = match self.globals.infers_types || left.ty == Type::U64 || right.ty == Type::U64 {
            true => Type::U64,
            false => ty.clone(),
        };
        Expr {
            ty,
            ..operation(op, by, left, right, span)
        }
    }

    /// A division whose divisor may be zero: that gives 1 and is counted.
    fn guarded_division(&mut self, op: BinaryOp, left: Expr, right: Expr, span: Span) -> Expr {
        self.globals.divides = true;
        let ty = Self::result_type(op, &left, &right);
        let (first, left) = self.in_variable("dividend", left);
        let (second, right) = self.in_variable("divisor", right);
        let zero = constant(0, right.ty.clone(), span);
        let kind = ExprKind::Ternary {
            condition: Box::new(comparison(CompareOp::NotEqual, false, right.clone(), zero, span)),
            then: Some(Box::new(self.divided(op, left, right, span))),
            otherwise: Box::new(Expr::new(ExprKind::DividedByZero, ty.clone(), span)),
        };
        let value = Box::new(Expr::new(kind, ty.clone(), span));
        let statements = vec![first, second];
        Expr::new(ExprKind::Sequence { statements, value }, ty, span)
    }

    /// The type of arithmetic.
    fn result_type(op: BinaryOp, left: &Expr, right: &Expr) -> Type {
        match op {
            // As in bpftrace: shifted by a number with a sign it has one, unless that is a number of the text.
            BinaryOp::ShiftLeft if is_natural(left) && is_natural(right) => Type::U64,
            BinaryOp::ShiftLeft | BinaryOp::ShiftRight if is_unsigned(left) => {
                match right.ty.is_signed() && !is_natural(right) {
                    true => Type::I64,
                    false => Type::U64,
                }
            }
            BinaryOp::ShiftLeft | BinaryOp::ShiftRight => common(left, left),
            // As in bpftrace a difference is signed, also of unsigned numbers.
            BinaryOp::Subtract => Type::I64,
            // As in bpftrace what comes of unsigned numbers has no sign, whatever their width.
            _ if is_unsigned(left) && (is_unsigned(right) || is_natural(right)) => Type::U64,
            _ if is_unsigned(right) && is_natural(left) => Type::U64,
            _ => common(left, right),
        }
    }

    /// An operation on numbers of the text: exact, or refused.
    fn folded(&mut self, op: BinaryOp, left: i128, right: i128, span: Span) -> Checked<Expr> {
        let bits = right & 63;
        let word = |value: i128| value as u64;
        let exact = match op {
            BinaryOp::Add => Some(left + right),
            BinaryOp::Subtract => Some(left - right),
            BinaryOp::Multiply => left.checked_mul(right),
            BinaryOp::Divide => left.checked_div(right),
            BinaryOp::Modulo => left.checked_rem(right),
            BinaryOp::ShiftRight => Some(left >> bits),
            BinaryOp::ShiftLeft if left < 0 => Some(word(left << bits).cast_signed().into()),
            BinaryOp::ShiftLeft => Some(word(left << bits).into()),
            BinaryOp::And => Some(left & right),
            BinaryOp::Or => Some(left | right),
            BinaryOp::Xor => Some(left ^ right),
        };
        let fits = |value: &i128| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(value);
        match exact.filter(fits) {
            Some(value) => Ok(constant(
                word(value),
                literal_type(word(value), value <= i128::from(i64::MAX)),
                span,
            )),
            None => {
                let message = "unable to fold literals due to overflow or underflow";
                let hint = "values have 64 bits: cast one of the numbers to uint64 to calculate modulo 2^64";
                Err(self.report(Diagnostic::error(span, message).hint(hint)))
            }
        }
    }

    /// `pointer ± count`, in units of what it points to.
    fn offset_pointer(
        &mut self,
        op: BinaryOp,
        pointer: Pointer,
        address: Expr,
        count: Expr,
        span: Span,
    ) -> Checked<Expr> {
        let size = self.step(pointer, span)?;
        let bytes = scaled(count, size);
        let ty = Type::Pointer(Pointer {
            trusted: false,
            ..pointer
        });
        Ok(operation(op, ty, address, bytes, span))
    }

    /// `a - b` of two addresses, in units of what they point to.
    fn distance(
        &mut self,
        (a, left): (Pointer, Expr),
        (b, right): (Pointer, Expr),
        span: Span,
    ) -> Checked<Expr> {
        let (size, other) = (self.step(a, span)?, self.step(b, span)?);
        if (a.to, a.levels) != (b.to, b.levels) && (size, other) != (1, 1) {
            let message = format!(
                "the distance between {} and {} has no unit",
                self.describe(&left.ty),
                self.describe(&right.ty)
            );
            let hint = "cast one of them to the other's type, or both to uint64";
            return Err(self.report(Diagnostic::error(span, message).hint(hint)));
        }
        let bytes = operation(BinaryOp::Subtract, Type::I64, left, right, span);
        if size == 1 {
            return Ok(bytes);
        }
        let size = constant(u64::from(size), Type::I64, span);
        Ok(operation(BinaryOp::Divide, Type::I64, bytes, size, span))
    }

    /// Bytes from one of the things that an address points to to the next; 1 where nothing is said of them (`void *`), as in C.
    pub(super) fn step(&mut self, pointer: Pointer, span: Span) -> Checked<u32> {
        if pointer.to == Pointee::Unknown && pointer.levels == 0 {
            return Ok(1);
        }
        let size = self.pointee(pointer).and_then(|ty| self.size_of(&ty));
        size.filter(|size| *size > 0).ok_or_else(|| {
            let described = self.describe(&Type::Pointer(pointer));
            let message = format!("how far a step of {described} goes is not known");
            self.report(Diagnostic::error(span, message).hint("cast the address: (uint8 *)… goes by bytes"))
        })
    }

    /// Notes that what a map holds is counted with, where that is not known to be an address.
    fn counts_with(&mut self, value: &Expr) -> Checked<()> {
        let ExprKind::MapValue(place) = &value.kind else {
            return Ok(());
        };
        if matches!(value.ty, Type::Pointer(_)) {
            return Ok(());
        }
        self.globals.counted.insert(place.map.number);
        match value.ty == Type::hexadecimal(8) {
            true => self.known_unit(&place.map, value.span),
            // Cast to a number.
            false => Ok(()),
        }
    }

    /// Refuses to count with a map's addresses where it is not known what they point to: another text filled it, and the session keeps no types.
    pub(super) fn known_unit(&mut self, map: &MapType, span: Span) -> Checked<()> {
        if !map.value.is_address() || self.globals.held.contains_key(&map.number) {
            return Ok(());
        }
        let title = map.title();
        let message = format!(
            "{title} holds addresses of a table loaded before: how far a step goes is not known here"
        );
        let hint = format!(
            "say what lies there, {title} = (TYPE *){title} + …, or go by bytes, (uint64){title} + …"
        );
        Err(self.report(Diagnostic::error(span, message).hint(hint)))
    }

    fn compare(&mut self, op: CompareOp, left: Expr, right: Expr, span: Span) -> Checked<Expr> {
        let (left, right) = (self.named_value(left, &right)?, right);
        let (right, left) = (self.named_value(right, &left)?, left);
        if let Some(compared) = self.compare_name(op, &left, &right, span) {
            return compared;
        }
        let (left, right) = match (left.ty.is_string(), right.ty.is_string()) {
            (true, false) => (left, self.name_as_string(right)),
            (false, true) => (self.name_as_string(left), right),
            _ => (left, right),
        };
        match (left.ty.is_string(), right.ty.is_string()) {
            (true, true) => self.compare_strings(op, left, right, span),
            (false, false) if left.ty.is_scalar() && right.ty.is_scalar() => {
                self.warn_of_distinct_pointers(&left, &right, span);
                let signed = common(&left, &right).is_signed();
                self.warn_of_negative(op, signed, &left, &right);
                Ok(comparison(op, signed, left, right, span))
            }
            (false, false) if !left.ty.is_scalar() && !right.ty.is_scalar() => {
                self.compare_bytes(op, left, right, span)
            }
            _ => Err(self.incomparable(op, &left, &right, span)),
        }
    }

    /// Values that are no scalars are equal where they are the same bytes as they are kept: buffers, tuples, arrays, stacks.
    fn compare_bytes(&mut self, op: CompareOp, left: Expr, right: Expr, span: Span) -> Checked<Expr> {
        let negated = match op {
            CompareOp::Equal => false,
            CompareOp::NotEqual => true,
            _ => return Err(self.incomparable(op, &left, &right, span)),
        };
        let (one, other) = (self.holding(&left, false)?, self.holding(&right, false)?);
        if let (Type::Tuple(one), Type::Tuple(other)) = (&one, &other)
            && one.members.len() != other.members.len()
            && self.globals.infers_types
        {
            let (l, r) = (self.describe(&left.ty), self.describe(&right.ty));
            self.report(Diagnostic::warning(span, format!("{l} and {r} are never equal")));
            return Ok(constant(u64::from(negated), Type::Bool, span));
        }
        let fitted = super::shape::join(&one, &other).and_then(|ty| {
            let size = self.size_of(&ty)?;
            let one = self.fitted_to(left.clone(), &ty)?;
            Some((one, self.fitted_to(right.clone(), &ty)?, size))
        });
        match fitted {
            Some((one, other, size)) => Ok(super::compare::same_bytes(one, other, size, negated, span)),
            None => Err(self.incomparable(op, &left, &right, span)),
        }
    }

    fn incomparable(&mut self, op: CompareOp, left: &Expr, right: &Expr, span: Span) -> Reported {
        let (l, r) = (self.describe(&left.ty), self.describe(&right.ty));
        let is_address = |e: &Expr| matches!(e.ty, Type::Pointer(_));
        let of_event = |e: &Expr| matches!(e.kind, ExprKind::EventNumber);
        if of_event(left) || of_event(right) {
            let message = format!(
                "the name of one of many events cannot be compared with {}",
                if of_event(left) { r } else { l }
            );
            let hint =
                "compare it with a string in quotes: probe == \"kprobe:vfs_read\", func == \"vfs_read\"";
            return self.report(Diagnostic::error(span, message).hint(hint));
        }
        if let (Type::Array { .. }, Type::Array { .. }) = (&left.ty, &right.ty) {
            let message = match op {
                CompareOp::Equal | CompareOp::NotEqual => {
                    "Only arrays of same sized integer support comparison operators.".to_owned()
                }
                _ => format!("The {} operator cannot be used on arrays.", op.word()),
            };
            return self.error(span, message);
        }
        let hint = (is_address(left) && right.ty.is_string() || is_address(right) && left.ty.is_string())
            .then(|| "read the string at an address with str()".to_owned());
        let hint = hint.or_else(|| beside(left, right).or_else(|| beside(right, left)));
        let hint = hint.or_else(|| match (&left.ty, &right.ty) {
            (Type::Tuple(_), Type::Tuple(_)) => None,
            (Type::Tuple(_), _) => Self::hint_of_parts(&left.ty),
            _ => Self::hint_of_parts(&right.ty),
        });
        let of_two_kinds = !alike(&self.refused_as(left), &self.refused_as(right));
        let (left, right) = (self.spelled_value(left), self.spelled_value(right));
        let message = match op {
            _ if !self.globals.infers_types => format!("{l} cannot be compared with {r}"),
            CompareOp::Equal | CompareOp::NotEqual => compared(op.word(), &left, &right),
            _ if of_two_kinds => compared(op.word(), &left, &right),
            _ => no_operator(op.word(), &left, &right),
        };
        self.report(Diagnostic::error(span, message).maybe_hint(hint))
    }

    /// A text that stands beside an enumeration is the name of one of its values.
    fn named_value(&mut self, value: Expr, other: &Expr) -> Checked<Expr> {
        let (
            ExprKind::ConstantBytes(text),
            Type::Integer {
                show: Show::Names(names),
                ..
            },
        ) = (&value.kind, &other.ty)
        else {
            return Ok(value);
        };
        let wanted = String::from_utf8_lossy(text);
        if let Some((number, _)) = names.iter().find(|(_, name)| *name == wanted) {
            return Ok(constant(*number as u64, other.ty.clone(), value.span));
        }
        let hint = did_you_mean(&wanted, names.iter().map(|(_, name)| name.as_str())).unwrap_or_else(|| {
            let all: Vec<&str> = names.iter().take(12).map(|(_, name)| name.as_str()).collect();
            format!("its values are {}", all.join(", "))
        });
        let message = format!("\"{wanted}\" is not a value of this enumeration");
        Err(self.report(Diagnostic::error(value.span, message).hint(hint)))
    }

    fn warn_of_negative(&mut self, op: CompareOp, signed: bool, left: &Expr, right: &Expr) {
        if matches!(op, CompareOp::Equal | CompareOp::NotEqual) {
            return;
        }
        if signed {
            return self.warn_of_word(left, right);
        }
        let negative = |e: &&Expr| e.ty.is_signed() && e.constant().is_some_and(|v| (v as i64) < 0);
        if let Some(constant) = [left, right].into_iter().find(negative) {
            let message = "an unsigned value is compared with a negative number, which counts as a huge one";
            self.report(Diagnostic::warning(constant.span, message).hint("cast the other side: (int64)…"));
        }
    }

    pub(super) fn unary(&mut self, op: ast::UnaryOp, value: &ast::Expr, span: Span) -> Checked<Expr> {
        let op = match op {
            ast::UnaryOp::Dereference => {
                if let ast::ExprKind::Unary {
                    op: ast::UnaryOp::AddressOf,
                    value,
                } = &value.kind
                {
                    return self.expression(value);
                }
                // What `args` points to is the same record.
                let is_args = matches!(&value.kind, ast::ExprKind::Identifier(word) if word == "args");
                let fields = (is_args && self.globals.infers_types).then(|| self.all_fields(span));
                if let Some(all) = fields.flatten() {
                    return all;
                }
                let pointer = self.expression(value)?;
                return self.dereference(pointer, span);
            }
            ast::UnaryOp::AddressOf => {
                if let ast::ExprKind::Map { name, keys } = &value.kind
                    && keys.is_empty()
                    && self.globals.infers_types
                {
                    let map = Arc::new(self.known_map(name, value.span)?);
                    let pointer = match map.value.function() {
                        // No value lies at the address of a map with keys or of an aggregation.
                        Some(_) => Pointer::untyped(Space::Kernel),
                        None if !map.keys.is_empty() => Pointer::untyped(Space::Kernel),
                        None => {
                            let held = self.unread(value)?;
                            // The verifier refuses reads beyond the first bytes at a map's address.
                            if let Type::Tuple(_) = held.ty {
                                return self.address_of(held, span);
                            }
                            self.own_address(&held.ty)
                        }
                    };
                    return Ok(Expr::new(ExprKind::MapAddress(map), Type::Pointer(pointer), span));
                }
                // Something may be stored through the address.
                if let ast::ExprKind::Variable(name) = &value.kind
                    && let Some(variable) = self.find_variable(name)
                {
                    self.unset.retain(|open| *open != variable);
                }
                let place = match &value.kind {
                    ast::ExprKind::Variable(_) => self.unread(value)?,
                    _ => self.expression(value)?,
                };
                return self.address_of(place, span);
            }
            ast::UnaryOp::Not => UnaryOp::Not,
            ast::UnaryOp::Negate => UnaryOp::Negate,
            ast::UnaryOp::BitNot => {
                return self.signed('~', value, span, |checker| checker.complement(value, span));
            }
        };
        if op == UnaryOp::Negate {
            let negated = self.signed('-', value, span, |checker| checker.negated(value, span))?;
            return Ok(self.as_word(negated, false));
        }
        if let ast::ExprKind::String(_) = value.kind
            && self.globals.infers_types
        {
            let message = "a string has no opposite";
            let hint = "compare it: … != \"text\"";
            let spelled = self.operand(value).map(|value| self.spelled_value(&value))?;
            let wrong = Diagnostic::error(span, message)
                .known_as(span, no_sign('!', &spelled))
                .hint(hint);
            return Err(self.report(wrong));
        }
        let value = self.condition(value)?;
        if let Some(known) = value.constant() {
            return Ok(constant(fold::unary(op, known), Type::Bool, span));
        }
        let value = Box::new(value);
        Ok(Expr::new(ExprKind::Unary { op, value }, Type::Bool, span))
    }
}

/// The value of a number that the text names.
pub(super) fn literal_value(expr: &Expr) -> Option<i128> {
    let value = expr.constant().filter(|_| is_literal(expr))?;
    Some(match expr.ty.is_signed() {
        true => value.cast_signed().into(),
        false => value.into(),
    })
}

/// Whether its type has no sign; a name for a number says nothing of that.
fn is_unsigned(expr: &Expr) -> bool {
    match &expr.ty {
        Type::Integer { signed, show, .. } => !signed && !matches!(show, Show::Names(_)),
        _ => false,
    }
}

fn logic(and: bool, left: Expr, right: Expr, span: Span) -> Expr {
    if let Some(known) = left.constant() {
        if (known != 0) != and {
            return constant(u64::from(!and), Type::Bool, span);
        }
        let zero = constant(0, Type::I64, span);
        return match right.ty {
            Type::Bool => right,
            _ => comparison(CompareOp::NotEqual, false, right, zero, span),
        };
    }
    let kind = ExprKind::Logic {
        and,
        left: Box::new(left),
        right: Box::new(right),
    };
    Expr::new(kind, Type::Bool, span)
}

/// Text to compare with a value of another type.
fn beside(text: &Expr, other: &Expr) -> Option<String> {
    if !text.ty.is_string() || other.ty.is_string() {
        return None;
    }
    let number = |text: &[u8]| {
        let text = std::str::from_utf8(text).ok()?;
        text.trim_end_matches('\0').parse::<i64>().ok()
    };
    if let ExprKind::ConstantBytes(text) = &text.kind
        && let Some(number) = number(text)
    {
        return Some(format!("a number stands without quotes: {number}"));
    }
    Some(match (&text.kind, other.constant()) {
        (ExprKind::ConstantBytes(_), _) => "compare the string with a string, such as comm".to_owned(),
        (_, Some(number)) => format!("compare a string with a string: \"{}\"", number.cast_signed()),
        _ => "compare a string with a string, in double quotes if it is known".to_owned(),
    })
}
