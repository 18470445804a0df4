//! A walk over all expressions, loops and types of a probe's syntax tree.

use super::ast::{
    Arg, Block, Expr, ExprKind, ForRange, PathStep, Probe, SizeofOperand, Statement, StatementKind, TypeName,
    TypeSuffix, ValueBlock,
};

/// A node that a walk visits.
#[derive(Clone, Copy, Debug)]
pub enum Node<'a> {
    /// An expression, before those in it.
    Expr(&'a Expr),
    /// The name of a type.
    Type(&'a TypeName),
    /// A `while` or `for`, before what is in it.
    Loop,
}

impl Probe {
    /// Whether `matches` holds of any node of its predicate or block.
    pub fn any(&self, matches: &dyn Fn(Node<'_>) -> bool) -> bool {
        let walk = Walk { matches };
        walk.all(self.predicate.iter()) || self.block.as_ref().is_some_and(|block| walk.block(block))
    }
}

struct Walk<'w> {
    matches: &'w dyn Fn(Node<'_>) -> bool,
}

impl Walk<'_> {
    fn all<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>) -> bool {
        exprs.into_iter().any(|expr| self.expr(expr))
    }

    fn block(&self, block: &Block) -> bool {
        self.statements(&block.statements)
    }

    fn statements(&self, statements: &[Statement]) -> bool {
        statements.iter().any(|statement| self.statement(&statement.kind))
    }

    fn value_block(&self, block: &ValueBlock) -> bool {
        self.statements(&block.statements) || self.all(block.value.as_deref())
    }

    fn statement(&self, statement: &StatementKind) -> bool {
        match statement {
            StatementKind::Expr(value) | StatementKind::Discard(value) => self.expr(value),
            StatementKind::Assign { target, value, op: _ } => self.all([target, value]),
            StatementKind::Let { name: _, ty, value } => {
                ty.as_ref().is_some_and(|ty| self.ty(ty)) || self.all(value)
            }
            StatementKind::If {
                condition,
                then,
                otherwise,
            } => {
                self.expr(condition)
                    || self.block(then)
                    || otherwise.as_ref().is_some_and(|block| self.block(block))
            }
            StatementKind::While { condition, body } => {
                (self.matches)(Node::Loop) || self.expr(condition) || self.block(body)
            }
            StatementKind::Unroll { count, body } => self.expr(count) || self.block(body),
            StatementKind::For { name: _, over, body } => {
                if (self.matches)(Node::Loop) {
                    return true;
                }
                let over = match over {
                    ForRange::Range(start, end) => self.all([start, end]),
                    ForRange::Map(map) => self.expr(map),
                };
                over || self.block(body)
            }
            StatementKind::Block(block) => self.block(block),
            StatementKind::Handler { predicate, body } => self.all(predicate) || self.block(body),
            StatementKind::Return(value) => self.all(value),
            StatementKind::Break | StatementKind::Continue => false,
        }
    }

    fn expr(&self, expr: &Expr) -> bool {
        (self.matches)(Node::Expr(expr)) || self.within(&expr.kind)
    }

    fn within(&self, kind: &ExprKind) -> bool {
        // There is no arm for all others: a new form of expression has to say what is inside it.
        match kind {
            ExprKind::Integer { .. }
            | ExprKind::String(_)
            | ExprKind::Bool(_)
            | ExprKind::Identifier(_)
            | ExprKind::Variable(_)
            | ExprKind::Positional { .. }
            | ExprKind::Error => false,
            ExprKind::Map { name: _, keys } => self.all(keys),
            ExprKind::Call { name: _, args } => self.all(args.iter().map(|Arg { value, .. }| value)),
            ExprKind::Member { base: value, .. }
            | ExprKind::Unary { value, .. }
            | ExprKind::Step { target: value, .. }
            | ExprKind::Comptime(value) => self.expr(value),
            ExprKind::Index { base, index } => self.all([&**base, &**index]),
            ExprKind::Cast { ty, value } => self.ty(ty) || self.expr(value),
            ExprKind::Binary { left, right, op: _ } => self.all([&**left, &**right]),
            ExprKind::Chain { first, rest } => {
                self.expr(first) || self.all(rest.iter().map(|(_, operand)| operand))
            }
            ExprKind::Ternary {
                condition,
                then,
                otherwise,
            } => self.all([&**condition, &**otherwise]) || self.all(then.as_deref()),
            ExprKind::Tuple(values) => self.all(values),
            ExprKind::Record(fields) => self.all(fields.iter().map(|(_, value)| value)),
            ExprKind::Block(block) => self.value_block(block),
            ExprKind::If {
                condition,
                then,
                otherwise,
            } => {
                self.expr(condition)
                    || self.value_block(then)
                    || otherwise.as_ref().is_some_and(|block| self.value_block(block))
            }
            ExprKind::Sizeof(of) | ExprKind::Typeof(of) | ExprKind::Typeinfo(of) => self.operand(of),
            ExprKind::Offsetof { of, path } => {
                let index = |step: &PathStep| match step {
                    PathStep::Member(_) => false,
                    PathStep::Index(index) => self.expr(index),
                };
                self.operand(of) || path.iter().any(index)
            }
        }
    }

    fn operand(&self, of: &SizeofOperand) -> bool {
        match of {
            SizeofOperand::Type(ty) => self.ty(ty),
            SizeofOperand::Expr(expr) => self.expr(expr),
        }
    }

    fn ty(&self, ty: &TypeName) -> bool {
        let suffix = |suffix: &TypeSuffix| match suffix {
            TypeSuffix::Array(Some(count)) => self.expr(count),
            TypeSuffix::Array(None) | TypeSuffix::Pointer => false,
        };
        (self.matches)(Node::Type(ty)) || self.all(ty.of.as_deref()) || ty.suffixes.iter().any(suffix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::parse_probes;

    #[test]
    fn every_place_of_a_probe_is_come_upon() {
        for text in [
            "a:b /here/ { }",
            "a:b { here; }",
            "a:b { $x = -here; }",
            "a:b { @[1, here] = 1; }",
            "a:b { @ = hist(1, bits = here); }",
            "a:b { $x = here.b[1]->c; }",
            "a:b { $x = 1 ? 2 : (1, here); }",
            "a:b { if (1) { } else { while (here) { } } }",
            "a:b { for ($i : 0..here) { } }",
            "a:b { $x = (uint64)here; }",
            "a:b { let $x : uint64 = { 1; here }; }",
            "a:b { $x = sizeof(here); return; }",
            "a:b { $x = (typeof(here))1; }",
            "a:b { unroll (2) { here++; } }",
        ] {
            let (probes, found) = parse_probes(text);
            assert!(found.is_empty(), "{text}: {found:?}");
            let named = |wanted: &str| {
                probes[0].any(&|node| {
                    matches!(node, Node::Expr(expr) if expr.kind == ExprKind::Identifier(wanted.to_owned()))
                })
            };
            assert!(named("here"), "{text}");
            assert!(!named("elsewhere"), "{text}");
        }
    }
}
