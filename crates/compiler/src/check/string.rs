//! Texts that are read where an address says, and how much of them.

use super::expression::constant;
use super::operator::operation;
use super::tree::{Access, BinaryOp, Expr, ExprKind, Pointee, Pointer, Type};
use super::{Checked, Checker};
use crate::lang::ast::Span;
use crate::lang::diag::Diagnostic;
use kestrel_trace::layout::Space;

impl Checker<'_> {
    /// The text at an address, or that an expression already is: at most `max` bytes. Where neither `space` nor
    /// the type of the address says whose memory it is, the address itself does.
    pub(crate) fn string(
        &mut self,
        value: Expr,
        max: u32,
        space: Option<Space>,
        span: Span,
    ) -> Checked<Expr> {
        match (value.ty.clone(), value.kind.clone()) {
            (
                Type::Text { size: 0 },
                ExprKind::Bytes {
                    address,
                    offset,
                    access,
                    ..
                },
            ) => {
                let offset = constant(i64::from(offset) as u64, Type::I64, span);
                let address = operation(BinaryOp::Add, Type::U64, *address, offset, span);
                let own = if access == Access::User {
                    Space::User
                } else {
                    Space::Kernel
                };
                Ok(read_string(address, Some(own), max, span))
            }
            (Type::Text { size }, _) => Ok(shortened(Expr { span, ..value }, size.min(max))),
            (Type::String { max: own }, ExprKind::ReadString { .. }) => {
                Ok(shortened(Expr { span, ..value }, own.min(max)))
            }
            (Type::Pointer(pointer), _) if may_be_text(pointer) => {
                // The kernel's types rarely say `__user`: only that which says so is certain.
                let certain = (pointer.space == Space::User).then_some(Space::User);
                Ok(read_string(value, space.or(certain), max, span))
            }
            (Type::Integer { size: 8, .. }, _) => Ok(read_string(value, space, max, span)),
            (ty, _) => {
                let message = format!("a text cannot be read at {}", self.describe(&ty));
                let hint = "cast it if a text lies there: (char *)…";
                Err(self.report(Diagnostic::error(value.span, message).hint(hint)))
            }
        }
    }
}

impl Expr {
    /// A text that is read, no further than so many bytes.
    pub(crate) fn cut_at(mut self, bytes: Expr) -> Self {
        if let ExprKind::ReadString { length, .. } = &mut self.kind {
            *length = Some(Box::new(bytes));
        }
        self
    }
}

/// Whether a text can lie at an address.
fn may_be_text(pointer: Pointer) -> bool {
    let to = matches!(
        pointer.to,
        Pointee::Unknown | Pointee::Char | Pointee::Integer { size: 1, .. }
    );
    to && pointer.levels == 0
}

/// The string at an address.
pub(crate) fn read_string(address: Expr, space: Option<Space>, max: u32, span: Span) -> Expr {
    let kind = ExprKind::ReadString {
        address: Box::new(address),
        space,
        max,
        length: None,
    };
    Expr::new(kind, Type::String { max }, span)
}

/// The first `to` bytes of a text in memory.
pub(super) fn shortened(value: Expr, to: u32) -> Expr {
    let kind = match value.kind {
        ExprKind::Bytes {
            address,
            offset,
            access,
            ..
        } => ExprKind::Bytes {
            address,
            offset,
            size: to,
            access,
        },
        ExprKind::Text(mut bytes) => {
            bytes.truncate(to as usize);
            ExprKind::Text(bytes)
        }
        ExprKind::ReadString {
            address,
            space,
            max,
            length,
        } => {
            let max = max.min(to);
            let kind = ExprKind::ReadString {
                address,
                space,
                max,
                length,
            };
            return Expr::new(kind, Type::String { max }, value.span);
        }
        ExprKind::Ternary {
            condition,
            then: Some(then),
            otherwise,
        } => {
            let kind = ExprKind::Ternary {
                condition,
                then: Some(Box::new(shortened(*then, to))),
                otherwise: Box::new(shortened(*otherwise, to)),
            };
            let size = (to + 1).next_multiple_of(8);
            return Expr::new(kind, Type::Text { size }, value.span);
        }
        kind => return Expr { kind, ..value }, // comm, whose size is fixed
    };
    Expr::new(kind, Type::Text { size: to }, value.span)
}
