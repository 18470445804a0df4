//! Expressions as statements: what they change is kept, their values are not.

use super::checker::{Checked, Checker};
use super::tree::{Expr, ExprKind, Statement, StatementKind};
use super::visit::statements_of;
use crate::builtin;
use crate::lang::ast::{self, Block, ExprKind as Kind, StatementKind as Written, ValueBlock};
use crate::lang::diag::Diagnostic;
use crate::lang::settled_kind;

impl Checker<'_> {
    /// A call or a step that is a statement; `None` for other expressions.
    pub(super) fn action(&mut self, expr: &ast::Expr) -> Option<Checked<StatementKind>> {
        match &expr.kind {
            Kind::Call { name, args } => {
                let usage = builtin::used(&name.node, name.span, Some(args), expr.span);
                builtin::action(self, &usage)
            }
            Kind::Step {
                target, increment, ..
            } => {
                let op = if *increment {
                    ast::BinaryOp::Add
                } else {
                    ast::BinaryOp::Subtract
                };
                let one = ast::Expr {
                    kind: Kind::Integer {
                        value: 1,
                        unsigned: false,
                    },
                    span: expr.span,
                };
                Some(self.assign(target, Some(op), &one, expr.span))
            }
            _ => None,
        }
    }

    /// An expression as a statement; `None` where it does nothing, which is warned of where nothing says that it is meant.
    pub(super) fn effect(&mut self, expr: &ast::Expr, meant: bool) -> Checked<Option<StatementKind>> {
        if let Some(action) = self.action(expr) {
            // `delete()` alone is how scripts spell it: bpftrace warns that its answer is discarded, which is no mistake.
            return action.map(Some);
        }
        let value = self.expression(expr)?;
        let mut statements = Vec::new();
        evaluate(&value, &mut statements);
        if statements_of(&statements).iter().any(|one| !self.is_scratch(one)) {
            return Ok(Some(StatementKind::Block(statements)));
        }
        if !meant {
            let hint = match self.globals.infers_types {
                true => format!("print it: print({})", source_like(expr)),
                false => format!("record it: record({})", source_like(expr)),
            };
            let diagnostic = Diagnostic::warning(value.span, "Return value discarded.");
            self.report(diagnostic.hint(hint));
        }
        Ok(None)
    }

    /// Whether a statement does no more than to keep a part of a value for what is calculated next.
    fn is_scratch(&self, statement: &Statement) -> bool {
        match &statement.kind {
            StatementKind::Set { variable, value } => {
                let hidden = self.variables.get(variable.0 as usize);
                hidden.is_some_and(|known| known.name.starts_with('('))
                    && !matches!(value.kind, ExprKind::HelperCall { .. })
            }
            // Those inside of it are asked themselves.
            StatementKind::If { .. } | StatementKind::Block(_) => true,
            _ => false,
        }
    }
}

/// A few words that stand for an expression in a hint.
fn source_like(expr: &ast::Expr) -> String {
    match &expr.kind {
        Kind::Identifier(name) => name.clone(),
        Kind::Variable(name) => format!("${name}"),
        Kind::Call { name, .. } => format!("{}(…)", name.node),
        _ => "…".to_owned(),
    }
}

/// Adds the statements that are executed where an expression is evaluated, in their order and under the same conditions.
fn evaluate(expr: &Expr, all: &mut Vec<Statement>) {
    let of = |expr: &Expr| {
        let mut inner = Vec::new();
        evaluate(expr, &mut inner);
        inner
    };
    let mut choose = |condition: &Expr, then: Vec<Statement>, otherwise: Vec<Statement>| {
        // Without effects on either side there is nothing to branch for, but the condition may have some.
        if then.is_empty() && otherwise.is_empty() {
            evaluate(condition, all);
            return;
        }
        let kind = StatementKind::If {
            condition: condition.clone(),
            then,
            otherwise,
        };
        let span = expr.span;
        all.push(Statement { kind, span });
    };
    match &expr.kind {
        ExprKind::Sequence { statements, value } => {
            all.extend(statements.iter().cloned());
            evaluate(value, all);
        }
        ExprKind::Ternary {
            condition,
            then,
            otherwise,
        } => {
            let then = then.as_deref().map_or_else(Vec::new, of);
            choose(condition, then, of(otherwise));
        }
        ExprKind::Logic {
            and: true,
            left,
            right,
        } => choose(left, of(right), Vec::new()),
        ExprKind::Logic {
            and: false,
            left,
            right,
        } => choose(left, Vec::new(), of(right)),
        _ => {
            let keys = expr.place().into_iter().flat_map(|place| &place.keys);
            for operand in expr.operands().into_iter().chain(keys) {
                evaluate(operand, all);
            }
        }
    }
}

/// A choice between statements as the `if` that it is: `pid == 1 ? print("init") : exit()`; `None` for a choice between values.
pub(super) fn choice_of_statements(expr: &ast::Expr) -> Option<Written> {
    if !is_statement(expr) {
        return None;
    }
    match &expr.kind {
        Kind::If { .. } => Some(settled_kind(Written::Expr(expr.clone()))),
        Kind::Ternary {
            condition,
            then,
            otherwise,
        } => {
            let block = |expr: &ast::Expr| Block {
                statements: vec![ast::Statement {
                    kind: settled_kind(Written::Expr(expr.clone())),
                    span: expr.span,
                }],
                span: expr.span,
            };
            let nothing = || Block {
                statements: Vec::new(),
                span: condition.span,
            };
            Some(Written::If {
                condition: (**condition).clone(),
                then: then.as_deref().map_or_else(nothing, block),
                otherwise: Some(block(otherwise)),
            })
        }
        _ => None,
    }
}

/// Whether an expression is, or chooses between, what has no value.
fn is_statement(expr: &ast::Expr) -> bool {
    let without_value = |block: &ValueBlock| block.value.as_deref().is_none_or(is_statement);
    match &expr.kind {
        Kind::Call { name, .. } => builtin::is_statement(&name.node),
        Kind::Block(block) => without_value(block),
        Kind::If { then, otherwise, .. } => {
            without_value(then) || otherwise.as_ref().is_none_or(without_value)
        }
        Kind::Ternary { then, otherwise, .. } => {
            then.as_deref().is_some_and(is_statement) || is_statement(otherwise)
        }
        _ => false,
    }
}
