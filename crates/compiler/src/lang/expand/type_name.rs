//! Types and paths of members, which macros may be given.

use super::rewrite::Expander;
use super::scope::{MacroArgument, Scope};
use crate::lang::ast::{Expr, ExprKind, PathStep, SizeofOperand, Spanned, TypeName, TypeSuffix};

impl Expander<'_> {
    /// Operand of `sizeof` and its kin: `a[2]` and `a` are types where `a` was given one.
    pub(super) fn operand(
        &mut self,
        of: &SizeofOperand,
        scope: &Scope<'_>,
        depth: u32,
    ) -> Box<SizeofOperand> {
        Box::new(match of {
            SizeofOperand::Type(ty) => SizeofOperand::Type(self.type_name(ty, scope, depth + 1)),
            SizeofOperand::Expr(expr) => {
                let expr = self.expr(expr, scope, depth + 1);
                match as_type(&expr) {
                    Some(ty) => SizeofOperand::Type(ty),
                    None => match expr.kind {
                        ExprKind::Typeof(of) => *of,
                        kind => SizeofOperand::Expr(Expr {
                            kind,
                            span: expr.span,
                        }),
                    },
                }
            }
        })
    }

    pub(super) fn path(&mut self, path: &[PathStep], scope: &Scope<'_>, depth: u32) -> Vec<PathStep> {
        let mut out = Vec::new();
        for step in path {
            match step {
                PathStep::Index(index) => out.push(PathStep::Index(self.expr(index, scope, depth + 1))),
                PathStep::Member(name) => match scope.argument(&name.node) {
                    Some(MacroArgument::Expr { expr, .. }) if members(expr, &mut out) => {}
                    _ => out.push(PathStep::Member(Spanned {
                        node: name.node.clone(),
                        span: scope.place(name.span),
                    })),
                },
            }
        }
        out
    }

    pub(super) fn type_name(&mut self, ty: &TypeName, scope: &Scope<'_>, depth: u32) -> TypeName {
        let span = scope.place(ty.span);
        let suffixes: Vec<TypeSuffix> = ty
            .suffixes
            .iter()
            .map(|suffix| match suffix {
                TypeSuffix::Array(Some(count)) => {
                    TypeSuffix::Array(Some(Box::new(self.expr(count, scope, depth + 1))))
                }
                other => other.clone(),
            })
            .collect();
        let of = ty.of.as_ref().map(|of| self.expr(of, scope, depth + 1));
        // In a macro the name of a type may be a parameter, which stands for a type, or for an expression that has it.
        let given = match scope.argument(&ty.name) {
            Some(MacroArgument::Expr { expr, height, .. }) if ty.tag.is_none() && ty.of.is_none() => {
                self.height = self.height.max(*height);
                Some(expr.clone())
            }
            _ => None,
        };
        let mut base = match of.or(given) {
            None => TypeName {
                tag: ty.tag,
                name: ty.name.clone(),
                of: None,
                suffixes: Vec::new(),
                span,
            },
            Some(expr) => as_type(&expr).unwrap_or_else(|| {
                let (tag, name, of) = match expr.kind {
                    ExprKind::Identifier(name) if ty.of.is_none() => (None, name, None),
                    ExprKind::Typeof(of) => match *of {
                        SizeofOperand::Type(ty) => return ty,
                        SizeofOperand::Expr(expr) => (None, String::new(), Some(Box::new(expr))),
                    },
                    _ => (None, String::new(), Some(Box::new(expr))),
                };
                TypeName {
                    tag,
                    name,
                    of,
                    suffixes: Vec::new(),
                    span,
                }
            }),
        };
        base.suffixes.extend(suffixes);
        base.span = span;
        base
    }
}

/// `typeof(T)`, `typeof(T)[2]` as a type.
fn as_type(expr: &Expr) -> Option<TypeName> {
    match &expr.kind {
        ExprKind::Typeof(of) => match of.as_ref() {
            SizeofOperand::Type(ty) => Some(ty.clone()),
            SizeofOperand::Expr(_) => None,
        },
        ExprKind::Index { base, index } => {
            let mut ty = as_type(base)?;
            ty.suffixes.push(TypeSuffix::Array(Some(index.clone())));
            Some(ty)
        }
        _ => None,
    }
}

/// `a.b[2]` as steps of a path; `false` for what is none.
fn members(expr: &Expr, out: &mut Vec<PathStep>) -> bool {
    let name = |node: &str| {
        PathStep::Member(Spanned {
            node: node.to_owned(),
            span: expr.span,
        })
    };
    match &expr.kind {
        ExprKind::Identifier(word) => out.push(name(word)),
        ExprKind::Member { base, name: own, .. } => {
            if !members(base, out) {
                return false;
            }
            out.push(name(&own.node));
        }
        ExprKind::Index { base, index } => {
            if !members(base, out) {
                return false;
            }
            out.push(PathStep::Index((**index).clone()));
        }
        _ => return false,
    }
    true
}
