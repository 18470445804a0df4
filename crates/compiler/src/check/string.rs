//! Strings at an address (`str()`), and the length that is read.

use super::checker::{Checked, Checker};
use super::tree::{Access, BinaryOp, Expr, ExprKind, Pointee, Pointer, Type};
use super::value::{STRING, constant, operation, read_string, shortened};
use crate::lang::ast::Span;
use crate::lang::diag::Diagnostic;
use kestrel_trace::layout::Space;

impl Checker<'_> {
    /// Most bytes of a string, without its NUL: `max_strlen`, or the default.
    pub(crate) fn longest(&self) -> u32 {
        self.globals.max_strlen.unwrap_or(STRING)
    }

    /// The string at an address, or of an expression that is a string already: at most `max` bytes. Where neither `space` nor
    /// the type of the address says whose memory it is, the address itself does.
    pub(crate) fn string(
        &mut self,
        value: Expr,
        max: u32,
        space: Option<Space>,
        span: Span,
    ) -> Checked<Expr> {
        let value = self.name_as_string(value);
        match (value.ty.clone(), value.kind.clone()) {
            (
                Type::CharArray { size: 0 },
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
            (Type::CharArray { size }, ExprKind::Comm) if max + 1 < size => {
                let name = self.in_memory(value);
                match &name.kind {
                    // Read as other strings are, whose end says where they were cut.
                    ExprKind::Bytes {
                        address, offset: 0, ..
                    } if max == self.longest() => {
                        Ok(read_string((**address).clone(), Some(Space::Kernel), max, span))
                    }
                    _ => Ok(shortened(Expr { span, ..name }, max)),
                }
            }
            (Type::CharArray { size }, _) => Ok(shortened(Expr { span, ..value }, size.min(max))),
            (Type::String { max: own }, ExprKind::ReadString { .. }) => {
                Ok(shortened(Expr { span, ..value }, own.min(max)))
            }
            (Type::Pointer(pointer), _) if may_be_string(pointer) || self.globals.infers_types => {
                // The kernel's types rarely say `__user`: only pointers with it are certain.
                let certain = (pointer.space == Space::User).then_some(Space::User);
                Ok(read_string(value, space.or(certain), max, span))
            }
            (ty, _) if ty.is_word() => Ok(read_string(value, space, max, span)),
            (ty, _) => {
                let spelled = self.spelled_type(&ty).1;
                let message = format!("a string cannot be read at {}", self.describe(&ty));
                let hint = "cast it if a string lies there: (char *)…";
                let known = format!(
                    "str() expects a string, integer or a pointer type as first argument ({spelled} provided)"
                );
                let wrong = Diagnostic::error(value.span, message).hint(hint);
                Err(self.report(if span == value.span {
                    wrong
                } else {
                    wrong.known_as(span, known)
                }))
            }
        }
    }
}

impl Expr {
    /// The string, read up to this number of bytes.
    pub(crate) fn cut_at(mut self, bytes: Expr) -> Self {
        if let ExprKind::ReadString { length, .. } = &mut self.kind {
            *length = Some(Box::new(bytes));
        }
        self
    }
}

/// Whether a string can lie at an address; scripts read one at any, as in bpftrace.
fn may_be_string(pointer: Pointer) -> bool {
    let to = matches!(
        pointer.to,
        Pointee::Unknown
            | Pointee::Char
            | Pointee::Integer { size: 1, .. }
            | Pointee::String { .. }
            | Pointee::Value(_)
    );
    to && pointer.levels == 0
}
