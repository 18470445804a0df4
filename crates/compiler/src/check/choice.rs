//! The types of `?:` between scalars.

use super::checker::Checker;
use super::shape::join_integers;
use super::tree::{Expr, Pointee, Pointer, Show, Type};
use super::value::{common, is_natural};
use crate::lang::ast::Span;
use crate::lang::diag::Diagnostic;

impl Checker<'_> {
    /// The type of a choice between two scalars: in scripts the smallest one that holds both, as in bpftrace.
    pub(super) fn choice_type(&mut self, one: &Expr, other: &Expr, span: Span) -> Type {
        let number = |ty: &Type| {
            matches!(
                ty,
                Type::Integer {
                    show: Show::Natural | Show::Number(_),
                    ..
                }
            )
        };
        // The verifier's trust does not survive a choice.
        let untrusted = |pointer: &Pointer| {
            Type::Pointer(Pointer {
                trusted: false,
                ..*pointer
            })
        };
        match (&one.ty, &other.ty) {
            (Type::Pointer(a), Type::Pointer(_)) if one.ty == other.ty => untrusted(a),
            (a, b) if a == b => a.clone(),
            (a, b) if self.globals.infers_types && number(a) && number(b) => join_integers(a, b),
            (Type::Pointer(a), Type::Pointer(b)) if self.globals.infers_types => {
                let place = |pointer: &Pointer| (pointer.to, pointer.levels);
                let unknown = |pointer: &Pointer| place(pointer) == (Pointee::Unknown, 0);
                if place(a) == place(b) || unknown(b) {
                    return untrusted(a);
                }
                if unknown(a) {
                    return untrusted(b);
                }
                let (l, r) = (self.spelled_type(&one.ty).1, self.spelled_type(&other.ty).1);
                let message = format!("choice between distinct pointer types: {l}, {r}");
                let hint = "what lies there is not known behind this: cast one to the type of the other";
                self.report(Diagnostic::warning(span, message).hint(hint));
                Type::Pointer(Pointer::untyped(a.space))
            }
            // An integer is no address.
            (Type::Pointer(a), _) if self.globals.infers_types && is_natural(other) => untrusted(a),
            (_, Type::Pointer(b)) if self.globals.infers_types && is_natural(one) => untrusted(b),
            _ => common(one, other),
        }
    }
}
