//! Blocks: scratch variables, branches, records; loops are not there yet.

use super::checker::{Checked, Checker, Reported};
use super::tree::{Expr, ExprKind, Pointer, Statement, StatementKind, Type, Variable, VariableId};
use super::value::{constant, widened};
use crate::builtin;
use crate::lang::ast::{self, Block, ExprKind as Kind, Span, Spanned, StatementKind as Written};
use crate::lang::diag::{Diagnostic, did_you_mean};
use std::collections::HashMap;

/// Most repetitions that `unroll` may make, nested ones multiplied.
const UNROLL: u64 = 1000;

impl Checker<'_> {
    /// The statements of a block, in a scope of its own.
    pub(super) fn block(&mut self, block: &Block) -> Vec<Statement> {
        self.scopes.push(HashMap::new());
        let mut all = Vec::new();
        for statement in &block.statements {
            // What is wrong has been reported; the other statements are still checked.
            let _reported = self.statement(statement, &mut all);
        }
        self.scopes.pop();
        all
    }

    fn statement(&mut self, statement: &ast::Statement, all: &mut Vec<Statement>) -> Checked<()> {
        let span = statement.span;
        let kind = match &statement.kind {
            Written::Expr(expr) => match self.effect(expr)? {
                Some(kind) => kind,
                None => return Ok(()),
            },
            Written::Assign { target, op, value } => self.assign(target, *op, value, span)?,
            Written::Let { name, ty, value } => self.declare(name, ty.as_ref(), value.as_ref())?,
            Written::If {
                condition,
                then,
                otherwise,
            } => {
                let condition = self.condition(condition);
                let then = self.block(then);
                let otherwise = otherwise.as_ref().map_or_else(Vec::new, |b| self.block(b));
                // The branches are checked even if the condition is wrong: their mistakes are reported, too.
                let condition = condition?;
                StatementKind::If {
                    condition,
                    then,
                    otherwise,
                }
            }
            Written::Block(block) => {
                let inner = self.block(block);
                all.extend(inner);
                return Ok(());
            }
            Written::Unroll { count, body } => return self.unroll(count, body, all),
            Written::Return(value) => {
                if let Some(value) = value {
                    self.scalar(value)?;
                }
                StatementKind::Return
            }
            Written::Discard(_) => return Err(self.not_yet(span, "\"_ = value\"")),
            Written::While { .. } => return Err(self.not_yet(span, "while loops")),
            Written::For { .. } => return Err(self.not_yet(span, "for loops")),
            Written::Break => return Err(self.not_yet(span, "\"break\"")),
            Written::Continue => return Err(self.not_yet(span, "\"continue\"")),
        };
        all.push(Statement { kind, span });
        Ok(())
    }

    /// An expression as a statement; `None` where it does nothing.
    fn effect(&mut self, expr: &ast::Expr) -> Checked<Option<StatementKind>> {
        match &expr.kind {
            Kind::Call { name, args } => {
                let usage = builtin::used(&name.node, name.span, Some(args), expr.span);
                if let Some(action) = builtin::action(self, &usage) {
                    return action.map(Some);
                }
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
                return self.assign(target, Some(op), &one, expr.span).map(Some);
            }
            _ => {}
        }
        let value = self.expression(expr)?;
        let hint = format!("record it: record({})", self.source_like(expr));
        let diagnostic = Diagnostic::warning(value.span, "this value is not used");
        self.report(diagnostic.hint(hint));
        Ok(None)
    }

    /// A few words that stand for an expression in a hint.
    fn source_like(&self, expr: &ast::Expr) -> String {
        match &expr.kind {
            Kind::Identifier(name) => name.clone(),
            Kind::Variable(name) => format!("${name}"),
            Kind::Call { name, .. } => format!("{}(…)", name.node),
            _ => "…".to_owned(),
        }
    }

    fn unroll(&mut self, count: &ast::Expr, body: &Block, all: &mut Vec<Statement>) -> Checked<()> {
        let times = self.scalar(count)?.constant().ok_or_else(|| {
            self.error(
                count.span,
                "how often to unroll must be known before the program runs",
            )
        })?;
        let outer = self.repeats;
        self.repeats = outer.saturating_mul(times.max(1));
        if self.repeats > UNROLL {
            self.repeats = outer;
            let message = format!("this unrolls to more than {UNROLL} repetitions");
            return Err(self.error(count.span, message));
        }
        for _ in 0..times {
            let inner = self.block(body);
            all.extend(inner);
        }
        self.repeats = outer;
        Ok(())
    }

    fn find_variable(&self, name: &str) -> Option<VariableId> {
        self.scopes
            .iter()
            .rev()
            .find_map(|scope| scope.get(name).copied())
    }

    fn variable_type(&self, id: VariableId) -> Type {
        self.variables
            .get(id.0 as usize)
            .map_or(Type::U64, |v| v.ty.clone())
    }

    /// `$name` as a value.
    pub(super) fn variable(&mut self, name: &str, span: Span) -> Checked<Expr> {
        let Some(id) = self.find_variable(name) else {
            let known: Vec<String> = self.scopes.iter().flat_map(|s| s.keys().cloned()).collect();
            let elsewhere = self.variables.iter().any(|v| v.name == name);
            let hint = if elsewhere {
                Some(
                    "a variable lives in the block where it is first set: set it before that block"
                        .to_owned(),
                )
            } else {
                did_you_mean(name, known.iter().map(String::as_str))
            };
            let message = format!("the variable \"${name}\" has no value here");
            return Err(self.report(Diagnostic::error(span, message).maybe_hint(hint)));
        };
        Ok(Expr::new(ExprKind::Variable(id), self.variable_type(id), span))
    }

    fn new_variable(&mut self, name: &str, ty: Type) -> VariableId {
        let id = VariableId(u32::try_from(self.variables.len()).unwrap_or(u32::MAX));
        self.variables.push(Variable {
            name: name.to_owned(),
            ty,
        });
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), id);
        }
        id
    }

    /// `target = value`, `target += value`.
    fn assign(
        &mut self,
        target: &ast::Expr,
        op: Option<ast::BinaryOp>,
        value: &ast::Expr,
        span: Span,
    ) -> Checked<StatementKind> {
        let name = match &target.kind {
            Kind::Variable(name) => name,
            Kind::Map { name, keys } => return self.assign_map(name, keys, op, target, value, span),
            _ => return Err(self.not_yet(target.span, "assignment to a part of a value")),
        };
        let value = match op {
            Some(op) => self.binary(op, target, value, span)?,
            None => self.storable(value)?,
        };
        match self.find_variable(name) {
            Some(id) => self.set(id, value),
            None => {
                let ty = variable_type_of(&value);
                let id = self.new_variable(name, ty);
                self.set(id, value)
            }
        }
    }

    /// `let $name: type = value`.
    fn declare(
        &mut self,
        name: &Spanned<String>,
        ty: Option<&ast::TypeName>,
        value: Option<&ast::Expr>,
    ) -> Checked<StatementKind> {
        let written = ty.map(|ty| self.written_type(ty)).transpose()?;
        if let (Some(ty), Some(written)) = (&written, ty)
            && !ty.is_scalar()
        {
            let what = format!("variables of this type ({})", self.describe(ty));
            return Err(self.not_yet(written.span, &what));
        }
        let value = match value {
            Some(value) => self.storable(value)?,
            None => constant(0, written.clone().unwrap_or(Type::I64), name.span),
        };
        let ty = written.unwrap_or_else(|| variable_type_of(&value));
        let id = self.new_variable(&name.node, ty);
        self.set(id, value)
    }

    /// A value that a variable can hold.
    fn storable(&mut self, value: &ast::Expr) -> Checked<Expr> {
        let checked = self.expression(value)?;
        if checked.ty.is_scalar() {
            return Ok(checked);
        }
        let what = format!("{} in a variable", self.describe(&checked.ty));
        Err(self.not_yet(value.span, &what))
    }

    fn set(&mut self, variable: VariableId, value: Expr) -> Checked<StatementKind> {
        let ty = self.variable_type(variable);
        if let (Type::Pointer(to), Type::Pointer(from)) = (&ty, &value.ty)
            && (to.to, to.levels) != (from.to, from.levels)
        {
            return Err(self.other_pointer(&ty, &value));
        }
        let span_of_value = value.span;
        let value = match ty {
            Type::Pointer(_) => Expr { ty, ..value },
            ty => self.converted(value, ty, span_of_value),
        };
        Ok(StatementKind::Set { variable, value })
    }

    fn other_pointer(&mut self, ty: &Type, value: &Expr) -> Reported {
        let message = format!(
            "this is {}, but the variable holds {}",
            self.describe(&value.ty),
            self.describe(ty)
        );
        self.report(Diagnostic::error(value.span, message).hint("cast it, or use another variable"))
    }
}

/// The type of a variable whose first value this is: integers are as wide as they get, addresses lose the verifier's trust
/// (which does not survive branches).
fn variable_type_of(value: &Expr) -> Type {
    match value.ty {
        Type::Pointer(pointer) => Type::Pointer(Pointer {
            trusted: false,
            ..pointer
        }),
        _ => widened(value.clone()).ty,
    }
}
