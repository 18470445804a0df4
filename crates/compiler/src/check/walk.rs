//! Checks `a.b`, `a->b`, `a[i]`, `*a` and `&a`: each becomes a chain of loads from the kernel's or the process's memory.
//!
//! A struct is not loaded as a value: it is [`ExprKind::Bytes`] at an address, and its members are at offsets from the same
//! address. So a walk through embedded structs is one load, and each pointer followed is one more.

use super::checker::{Checked, Checker, Reported};
use super::phrase::no_sign;
use super::tree::{
    Access, BinaryOp, CompareOp, Expr, ExprKind, Pointee, Pointer, Statement, StatementKind, Type,
};
use super::value::{comparison, constant, operation, scaled, there_are};
use crate::lang::ast::{Span, Spanned};
use crate::lang::diag::Diagnostic;
use kestrel_bpf::btf::{MemberPlace, TypeId};
use kestrel_trace::layout::Space;

/// Place of a value in memory: an address, a constant offset from it, and how memory is read there.
pub(crate) struct MemoryPlace {
    pub(crate) address: Expr,
    pub(crate) offset: i64,
    pub(crate) access: Access,
}

/// Name of a member of `typeinfo(…)` before bpftrace 0.27.
fn earlier_name(member: &str) -> Option<&str> {
    match member {
        "base_type" => Some("base_ty"),
        "full_type" => Some("full_ty"),
        _ => None,
    }
}

impl Checker<'_> {
    /// The value of type `ty` at a place in memory: a load where it is a scalar, otherwise the bytes.
    pub(crate) fn value_at(&mut self, spot: MemoryPlace, ty: Type, span: Span) -> Checked<Expr> {
        let MemoryPlace {
            address,
            offset,
            access,
        } = spot;
        let address = Box::new(address);
        let offset =
            i32::try_from(offset).map_err(|_| self.error(span, "this lies too far from its address"))?;
        if !ty.is_scalar() {
            let size = self.size_of(&ty).unwrap_or(0);
            let kind = ExprKind::Bytes {
                address,
                offset,
                size,
                access,
            };
            let ty = match access {
                Access::User => ty.of_process(),
                Access::Context | Access::Direct | Access::Kernel => ty,
            };
            return Ok(Expr::new(kind, ty, span));
        }
        let (size, signed) = match &ty {
            Type::Integer { size, signed, .. } => (*size, *signed),
            Type::Bool => (1, false),
            _ => (8, false),
        };
        let kind = ExprKind::Load {
            address,
            offset,
            size,
            signed,
            access,
        };
        Ok(Expr::new(kind, loaded_type(ty, access), span))
    }

    /// Place and type of the struct that `base` is or points to.
    fn struct_at(&mut self, base: Expr, name: &Spanned<String>) -> Checked<(MemoryPlace, TypeId, Space)> {
        match (base.ty.clone(), base.kind.clone()) {
            (
                Type::Struct(id, within),
                ExprKind::Bytes {
                    address,
                    offset,
                    access,
                    ..
                },
            ) => {
                let spot = MemoryPlace {
                    address: *address,
                    offset: i64::from(offset),
                    access,
                };
                Ok((spot, id, within.0))
            }
            (
                Type::Pointer(
                    pointer @ Pointer {
                        to: Pointee::Btf(id),
                        levels: 0,
                        ..
                    },
                ),
                _,
            ) if self.btf().is_some_and(|btf| btf.composite(id).is_some()) => {
                Ok((pointee_place(base, pointer), id, pointer.space))
            }
            // Without the kernel's types it is not known what its own pointers (`curtask`, parameters) point to.
            (Type::Pointer(_), _) if self.btf().is_none() => Err(self.no_btf(base.span, "this member")),
            (ty, _) => {
                let message = format!("{} has no member \"{}\"", self.describe(&ty), name.node);
                let mut diagnostic = Diagnostic::error(base.span, message);
                let whole = Span {
                    start: base.span.start,
                    end: name.span.end.max(base.span.end),
                };
                diagnostic = diagnostic.known_as(whole, self.no_access(&name.node, &ty));
                let untyped = matches!(
                    ty,
                    Type::Integer { .. }
                        | Type::Pointer(Pointer {
                            to: Pointee::Unknown,
                            levels: 0,
                            ..
                        })
                );
                if untyped {
                    let hint = format!("say what lies there: ((struct NAME *)…)->{}", name.node);
                    diagnostic = diagnostic.hint(hint);
                } else if matches!(ty, Type::Pointer(Pointer { levels: 1.., .. })) {
                    diagnostic = diagnostic.hint("follow the pointer first: (*…)");
                }
                Err(self.report(diagnostic))
            }
        }
    }

    /// Finds a member of a struct by its name; reports similar names where there is none.
    pub(super) fn find_member(
        &mut self,
        id: TypeId,
        name: &Spanned<String>,
        span: Span,
    ) -> Checked<MemberPlace> {
        let btf = self.need_btf(name.span, "this member")?;
        btf.find_member(id, &name.node).ok_or_else(|| {
            let all = btf.member_names(id);
            let (record, name_span) = (btf.render(id), name.span);
            let (message, span) = match self.globals.infers_types {
                true => (
                    format!(
                        "Struct/union of type '{record}' does not contain a field named '{}'",
                        name.node
                    ),
                    span,
                ),
                false => (format!("{record} has no member \"{}\"", name.node), name_span),
            };
            self.report(Diagnostic::error(span, message).hint(there_are(&name.node, &all)))
        })
    }

    /// `base.name`, `base->name`.
    pub(super) fn member(&mut self, base: Expr, name: &Spanned<String>, span: Span) -> Checked<Expr> {
        let base = self.record_behind(base, span)?;
        if let Type::Tuple(ty) = &base.ty {
            let place = match name.node.parse::<usize>() {
                Ok(place) => {
                    let has_name = ty
                        .members
                        .get(place)
                        .is_some_and(|member| !member.name.is_empty());
                    // The members of a record go by their names.
                    let goes_by_place = !(has_name && self.globals.infers_types);
                    Some(place).filter(|place| *place < ty.members.len() && goes_by_place)
                }
                Err(_) => ty.members.iter().position(|member| {
                    member.name == name.node || earlier_name(&member.name) == Some(&name.node)
                }),
            };
            let part = place.and_then(|place| self.part_of_tuple(&base, place, span));
            return part.ok_or_else(|| {
                let is_record = ty.members.iter().any(|member| !member.name.is_empty());
                let message = match name.node.parse::<u64>() {
                    Ok(place) if !is_record => no_such_part(place, ty.members.len()),
                    _ if is_record => format!("Record does not contain a field named '{}'", name.node),
                    _ => format!("{} has no member \"{}\"", self.describe(&base.ty), name.node),
                };
                let names = ty
                    .members
                    .iter()
                    .enumerate()
                    .map(|(place, member)| match member.name.as_str() {
                        "" => format!(".{place}"),
                        name => format!(".{name}"),
                    });
                let hint = format!("its members are {}", names.collect::<Vec<_>>().join(", "));
                let mut wrong = Diagnostic::error(span, message).hint(hint);
                if is_record == name.node.parse::<u64>().is_ok() {
                    wrong = wrong.known_as(span, self.no_access(&name.node, &base.ty));
                }
                self.report(wrong)
            });
        }
        let (mut spot, id, pointers) = self.struct_at(base, name)?;
        let place = self.find_member(id, name, span)?;
        let ty = self.btf_type(place.ty).ok_or_else(|| {
            let what = self.btf().map_or_else(String::new, |btf| btf.render(place.ty));
            self.error(name.span, format!("a member of type \"{what}\" cannot be read"))
        })?;
        let ty = match pointers {
            Space::User => ty.of_process(),
            Space::Kernel => ty,
        };
        let Some(bits) = place.bits else {
            spot.offset += i64::from(place.offset());
            return self.value_at(spot, ty, span);
        };
        self.bit_field(spot, place.bit_offset, bits, ty, span)
    }

    /// A bit field of `bits` bits that begins `bit_offset` bits behind a place; read as the smallest aligned integer that holds it.
    fn bit_field(
        &mut self,
        mut spot: MemoryPlace,
        bit_offset: u32,
        bits: u32,
        ty: Type,
        span: Span,
    ) -> Checked<Expr> {
        let fits = |size: &u32| bit_offset % (size * 8) + bits <= size * 8;
        let (size, start) = match [1, 2, 4, 8].into_iter().find(fits) {
            Some(size) => (size, bit_offset / (size * 8) * size),
            // In a packed struct the word may be unaligned, which the verifier lets only a probe read load.
            None => {
                if spot.access == Access::Direct {
                    spot.access = Access::Kernel;
                }
                (8, bit_offset / 8)
            }
        };
        let shift = bit_offset - start * 8;
        if shift + bits > 64 {
            return Err(self.error(span, "this bit field spans more than eight bytes"));
        }
        spot.offset += i64::from(start);
        let word = self.value_at(spot, Type::integer(size as u8, false), span)?;
        let kind = ExprKind::BitField {
            value: Box::new(word),
            shift: shift as u8,
            bits: bits as u8,
            signed: ty.is_signed(),
        };
        Ok(Expr::new(kind, ty, span))
    }

    /// `base[index]` of an array or an address.
    pub(crate) fn index(&mut self, base: Expr, index: Expr, span: Span) -> Checked<Expr> {
        if let ExprKind::Elements(parts) = &base.kind {
            // The elements are computed one by one, each by an expression of its own: there is no array in memory to index.
            let Some(constant) = index.constant() else {
                return Err(self.error(
                    index.span,
                    "elements of this array are chosen by constant numbers only",
                ));
            };
            let part = usize::try_from(constant)
                .ok()
                .and_then(|at| parts.get(at))
                .cloned();
            return part.ok_or_else(|| {
                let message = format!(
                    "the array has {} elements: there is none at {constant}",
                    parts.len()
                );
                self.error(index.span, message)
            });
        }
        if let (Type::Array { element, .. }, ExprKind::ConstantBytes(known), Some(place)) =
            (&base.ty, &base.kind, index.constant())
            && let Type::Integer { size: 1, .. } = **element
            && let Some(byte) = usize::try_from(place).ok().and_then(|place| known.get(place))
        {
            return Ok(constant(u64::from(*byte), (**element).clone(), span));
        }
        if let (Type::Tuple(ty), Some(place)) = (&base.ty, index.constant()) {
            let count = ty.members.len();
            let part = usize::try_from(place)
                .ok()
                .and_then(|place| self.tuple_part(&base, place, span));
            return part.ok_or_else(|| self.error(span, no_such_part(place, count)));
        }
        let base = self.in_memory(base);
        let (element, count, spot) = match (base.ty.clone(), base.kind.clone()) {
            (
                Type::Array { .. } | Type::CharArray { .. },
                ExprKind::Bytes {
                    address,
                    offset,
                    access,
                    ..
                },
            ) => {
                let (element, count) = match base.ty.clone() {
                    Type::Array { element, count } => (*element, count),
                    Type::CharArray { size } => (Type::integer(1, true), size),
                    _ => (Type::U64, 0),
                };
                let spot = MemoryPlace {
                    address: *address,
                    offset: i64::from(offset),
                    access,
                };
                (element, Some(count).filter(|c| *c > 0), spot)
            }
            (Type::Pointer(pointer), _) => {
                let element = self.pointee(pointer).ok_or_else(|| self.untyped(&base))?;
                let mut spot = pointee_place(base, pointer);
                // The verifier knows one struct at a trusted address, not its neighbours.
                if spot.access == Access::Direct && index.constant() != Some(0) {
                    spot.access = Access::Kernel;
                }
                (element, None, spot)
            }
            (Type::Tuple(ty), _) if ty.members.iter().all(|member| member.name.is_empty()) => {
                let message = "Array-style access for tuples only valid for integer literals";
                return Err(self.error(span, message));
            }
            (ty, _) => {
                let message = format!(
                    "The array index operator [] can only be used on arrays, pointers, and tuples, found {}.",
                    self.spelled_type(&ty).1
                );
                return Err(self.error(span, message));
            }
        };
        self.element(spot, element, count, index, span)
    }

    /// Reports an index of a type, or with a sign, that no element has.
    pub(super) fn no_index(&mut self, ty: &Type, span: Span) -> Reported {
        let message = format!(
            "The array index operator [] only accepts non-negative integer indices. Got: {}",
            self.spelled_type(ty).1
        );
        self.error(span, message)
    }

    /// Element `index` of an array that begins at a place. A variable index is compared with the count, where that is known: beyond it the element is zero.
    fn element(
        &mut self,
        mut spot: MemoryPlace,
        element: Type,
        count: Option<u32>,
        index: Expr,
        span: Span,
    ) -> Checked<Expr> {
        let size = self.size_of(&element).ok_or_else(|| {
            let message = format!("the size of {} is not known", self.describe(&element));
            self.error(span, message)
        })?;
        if let Some(known) = index.constant() {
            if known.cast_signed() < 0 && count.is_some() && index.ty.is_signed() && self.globals.infers_types
            {
                let ty = self.holding(&index, false)?;
                return Err(self.no_index(&ty, span));
            }
            if let Some(count) = count.filter(|count| known >= u64::from(*count)) {
                let message = format!(
                    "the index {} is out of bounds for array of size {count}",
                    known as i64
                );
                let hint = format!("its elements are 0 to {}", count - 1);
                return Err(self.report(Diagnostic::error(index.span, message).hint(hint)));
            }
            let bytes = (known as i64).checked_mul(i64::from(size));
            spot.offset = bytes.and_then(|b| spot.offset.checked_add(b)).unwrap_or(i64::MAX);
            return self.value_at(spot, element, span);
        }
        if matches!(spot.access, Access::Direct | Access::Context) {
            spot.access = Access::Kernel; // plain loads want constant offsets
        }
        // The index is kept in a hidden variable. Where a variable is shared with a loop's body each mention of it is a load of its own, as is each of a map, and the
        // verifier has to see that the number compared with the count is the one added to the address.
        let kept = (count.is_some() && may_change(&index)).then(|| {
            let variable = self.hidden_variable("index", index.ty.clone());
            let set = Statement {
                kind: StatementKind::Set {
                    variable,
                    value: index.clone(),
                },
                span: index.span,
            };
            (
                set,
                Expr::new(ExprKind::Variable(variable), index.ty.clone(), index.span),
            )
        });
        let (set, index) = match kept {
            Some((set, index)) => (Some(set), index),
            None => (None, index),
        };
        let bytes = scaled(index.clone(), size);
        let far = operation(BinaryOp::Add, Type::U64, spot.address, bytes, span);
        spot.address = match count {
            None => far,
            Some(count) => {
                let count = constant(u64::from(count), Type::U64, span);
                // An index beyond the end reads address 0, which faults harmlessly and gives zero.
                let counted = self.globals.infers_types && !self.globals.persistent;
                self.globals.divides |= counted;
                let none = match counted {
                    true => Expr::new(ExprKind::OutsideOfArray, Type::U64, span),
                    false => constant(0, Type::U64, span),
                };
                let inside = comparison(CompareOp::Less, false, index, count, span);
                let kind = ExprKind::Ternary {
                    condition: Box::new(inside),
                    then: Some(Box::new(far)),
                    otherwise: Box::new(none),
                };
                Expr::new(kind, Type::U64, span)
            }
        };
        if let Some(set) = set {
            let kind = ExprKind::Sequence {
                statements: vec![set],
                value: Box::new(spot.address),
            };
            spot.address = Expr::new(kind, Type::U64, span);
        }
        self.value_at(spot, element, span)
    }

    /// `*pointer`.
    pub(super) fn dereference(&mut self, pointer: Expr, span: Span) -> Checked<Expr> {
        if self.globals.infers_types && pointer.ty.is_word() {
            // In bpftrace's programs a plain number is taken for the address of a `uint64`.
            let spot = pointee_place(pointer, pointer_to(&Type::U64, Space::Kernel));
            return self.value_at(spot, Type::U64, span);
        }
        let Type::Pointer(to) = pointer.ty else {
            let message = format!("{} is not an address", self.describe(&pointer.ty));
            let hint = "say what lies there: *(uint32 *)…";
            let known = no_sign('*', &self.spelled_value(&pointer));
            let wrong = Diagnostic::error(pointer.span, message).hint(hint);
            return Err(self.report(wrong.known_as(span, known)));
        };
        let unknown = (to.to, to.levels) == (Pointee::Unknown, 0);
        let ty = match unknown && self.globals.infers_types {
            // `uptr(kaddr("x"))` has an address but no type.
            true => Type::U64,
            false => self.pointee(to).ok_or_else(|| self.untyped(&pointer))?,
        };
        self.value_at(pointee_place(pointer, to), ty, span)
    }

    /// `&place`.
    pub(crate) fn address_of(&mut self, place: Expr, span: Span) -> Checked<Expr> {
        if let ExprKind::Variable(id) = place.kind {
            let address = Expr::new(ExprKind::VariableAddress(id), Type::hexadecimal(8), span);
            let ty = Type::Pointer(self.own_address(&place.ty));
            return Ok(Expr { ty, ..address });
        }
        let (ExprKind::Load {
            address,
            offset,
            access,
            ..
        }
        | ExprKind::Bytes {
            address,
            offset,
            access,
            ..
        }) = place.kind
        else {
            let hint = "& stands before a variable, a map, or what a pointer leads to: &$x";
            let message = "address-of operator (&) can only be used on a map or variable";
            let wrong = Diagnostic::error(place.span, message).hint(hint);
            return Err(self.report(wrong.known_as(place.span, format!("syntax: {message}"))));
        };
        let space = match access {
            Access::User => Space::User,
            Access::Context | Access::Direct | Access::Kernel => Space::Kernel,
        };
        let ty = Type::Pointer(match access {
            Access::Context => self.own_address(&place.ty),
            _ => pointer_to(&place.ty, space),
        });
        let offset = constant(i64::from(offset) as u64, Type::I64, span);
        if offset.constant() == Some(0) {
            return Ok(Expr { ty, span, ..*address });
        }
        Ok(operation(BinaryOp::Add, ty, *address, offset, span))
    }

    /// The type of the address of a value in the program's own memory.
    pub(super) fn own_address(&mut self, ty: &Type) -> Pointer {
        let plain = pointer_to(ty, Space::Kernel);
        match ty {
            Type::Integer { .. } | Type::Pointer(_) | Type::Struct(..) => plain,
            _ if !self.globals.infers_types => plain,
            ty => Pointer {
                to: self.globals.shapes.pointee_of(ty),
                ..plain
            },
        }
    }

    /// The value that an address leads to, where that is a record: its members have names.
    fn record_behind(&mut self, base: Expr, span: Span) -> Checked<Expr> {
        let Type::Pointer(
            pointer @ Pointer {
                to: Pointee::Value(_),
                levels: 0,
                ..
            },
        ) = base.ty
        else {
            return Ok(base);
        };
        match self.pointee(pointer) {
            Some(Type::Tuple(ty)) if ty.members.iter().all(|member| !member.name.is_empty()) => {
                self.dereference(base, span)
            }
            _ => Ok(base),
        }
    }

    fn untyped(&mut self, pointer: &Expr) -> Reported {
        let hint = "say what lies there by a cast: (uint32 *)…";
        self.report(Diagnostic::error(pointer.span, "what lies at this address is not known").hint(hint))
    }
}

/// Whether an expression is computed from what may differ at each mention of it: variables, maps.
fn may_change(expr: &Expr) -> bool {
    let changes = matches!(expr.kind, ExprKind::Variable(_) | ExprKind::MapValue(_));
    changes || expr.operands().into_iter().any(may_change)
}

/// The type of a pointer to a value of type `ty`.
fn pointer_to(ty: &Type, space: Space) -> Pointer {
    let (to, levels) = match ty {
        Type::Struct(id, _) => (Pointee::Btf(*id), 0),
        Type::Integer { size, signed, .. } => (
            Pointee::Integer {
                size: *size,
                signed: *signed,
            },
            0,
        ),
        Type::CharArray { .. } => (Pointee::Char, 0),
        Type::Pointer(inner) => (inner.to, inner.levels.saturating_add(1)),
        _ => (Pointee::Unknown, 0),
    };
    Pointer {
        to,
        levels,
        space,
        // An address that was computed is a plain number to the verifier.
        trusted: false,
        symbolic: false,
    }
}

/// The place that a pointer points to, and how it may be read there: by its address space, and by whether the verifier trusts it.
fn pointee_place(base: Expr, pointer: Pointer) -> MemoryPlace {
    let access = match (pointer.space, pointer.trusted) {
        _ if base.kind == ExprKind::ContextPointer => Access::Context,
        (Space::User, _) => Access::User,
        (Space::Kernel, true) => Access::Direct,
        (Space::Kernel, false) => Access::Kernel,
    };
    MemoryPlace {
        address: base,
        offset: 0,
        access,
    }
}

/// Message for a member that a tuple lacks.
fn no_such_part(place: u64, count: usize) -> String {
    format!("Invalid tuple index: {place}. Found {count} elements in tuple.")
}

/// The type of a value loaded with `access`: the verifier trusts a loaded pointer only if it was loaded directly.
fn loaded_type(ty: Type, access: Access) -> Type {
    match ty {
        Type::Pointer(pointer) => Type::Pointer(Pointer {
            trusted: pointer.trusted && access == Access::Direct,
            space: if access == Access::User {
                Space::User
            } else {
                pointer.space
            },
            ..pointer
        }),
        ty => ty,
    }
}
