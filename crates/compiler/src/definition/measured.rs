//! `sizeof` in numbers of definitions: `enum { WORD = sizeof(long) }`, `char bytes[sizeof(struct point) * 2]`.

use super::Maker;
use crate::lang::ast::{CShape, CTypeUse, Expr, ExprKind, SizeofOperand, TypeName, TypeSuffix};

impl Maker<'_> {
    /// Measures the types that a number asks the sizes of.
    pub(super) fn measure_sizes(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Sizeof(operand) => {
                let measured = type_of(operand).and_then(|ty| self.measure(&ty, 0));
                if let Some((size, _)) = measured {
                    self.sizes.insert(expr.span, size);
                }
            }
            ExprKind::Unary { value, .. } => self.measure_sizes(value),
            ExprKind::Binary { left, right, .. } => {
                self.measure_sizes(left);
                self.measure_sizes(right);
            }
            ExprKind::Ternary {
                condition,
                then,
                otherwise,
            } => {
                self.measure_sizes(condition);
                then.iter().for_each(|then| self.measure_sizes(then));
                self.measure_sizes(otherwise);
            }
            _ => {}
        }
    }

    /// A number with the sizes that were measured in place of `sizeof`.
    pub(super) fn with_sizes(&self, expr: &Expr) -> Expr {
        let boxed = |inner: &Expr| Box::new(self.with_sizes(inner));
        let kind = match &expr.kind {
            ExprKind::Sizeof(_) => match self.sizes.get(&expr.span) {
                Some(size) => ExprKind::Integer {
                    value: *size,
                    unsigned: true,
                },
                None => expr.kind.clone(),
            },
            ExprKind::Unary { op, value } => ExprKind::Unary {
                op: *op,
                value: boxed(value),
            },
            ExprKind::Binary { op, left, right } => ExprKind::Binary {
                op: *op,
                left: boxed(left),
                right: boxed(right),
            },
            ExprKind::Ternary {
                condition,
                then,
                otherwise,
            } => ExprKind::Ternary {
                condition: boxed(condition),
                then: then.as_ref().map(|then| boxed(then)),
                otherwise: boxed(otherwise),
            },
            other => other.clone(),
        };
        Expr {
            kind,
            span: expr.span,
        }
    }
}

/// The type that is measured; none where it is that of a value.
fn type_of(operand: &SizeofOperand) -> Option<CTypeUse> {
    match operand {
        SizeofOperand::Type(ty) => written(ty),
        SizeofOperand::Expr(value) => match &value.kind {
            // A name by `typedef`.
            ExprKind::Identifier(name) => Some(CTypeUse {
                tag: None,
                name: name.clone(),
                shape: Vec::new(),
                span: value.span,
            }),
            _ => None,
        },
    }
}

fn written(ty: &TypeName) -> Option<CTypeUse> {
    let shape = ty.suffixes.iter().map(|suffix| match suffix {
        TypeSuffix::Pointer => CShape::Pointer,
        TypeSuffix::Array(length) => CShape::Array(length.clone()),
    });
    ty.of.is_none().then(|| CTypeUse {
        tag: ty.tag,
        name: ty.name.clone(),
        shape: shape.collect(),
        span: ty.span,
    })
}
