//! Texts in memory of the program's own, where helpers of the kernel read and write them.

use super::checker::{Checked, Checker};
use super::tree::{Access, BinaryOp, Expr, ExprKind, Statement, StatementKind, Type, VariableId};
use super::value::{constant, operation, room};
use crate::lang::ast::{self, Span};
use crate::lang::diag::Diagnostic;
use kestrel_bpf::helper;

impl Checker<'_> {
    /// An argument that is a text, or the address of one.
    pub(crate) fn string_argument(&mut self, value: &ast::Expr) -> Checked<Expr> {
        let checked = self.expression(value)?;
        self.as_string_argument(checked, value.span)
    }

    /// A value that is checked already as the string that a function takes.
    pub(crate) fn as_string_argument(&mut self, checked: Expr, span: Span) -> Checked<Expr> {
        match checked.ty.is_string() {
            true => Ok(checked),
            // Nothing lies at an address that the program names as a number.
            false
                if self.globals.infers_types
                    && matches!(checked.ty, Type::Integer { .. })
                    && checked.constant().is_some() =>
            {
                let message = format!(
                    "a string is wanted here, and this is {}",
                    self.describe(&checked.ty)
                );
                let hint = "a string stands in quotes";
                Err(self.report(Diagnostic::error(span, message).hint(hint)))
            }
            false => self.string(checked, self.longest(), None, span),
        }
    }

    /// Keeps a text in memory, with zeros behind it, in at least so many bytes: their address, and how many they are.
    pub(crate) fn string_in_memory(
        &mut self,
        text: Expr,
        least: u32,
        statements: &mut Vec<Statement>,
    ) -> (Expr, u32) {
        let span = text.span;
        let size = (room(&text) + 1).max(least);
        let variable = self.hidden_variable("text", Type::CharArray { size });
        let kind = StatementKind::Set {
            variable,
            value: text,
        };
        statements.push(Statement { kind, span });
        let address = Expr::new(ExprKind::VariableAddress(variable), Type::U64, span);
        (address, size)
    }

    /// A copy of a text in memory up to its NUL: its address, and the length of the text.
    pub(crate) fn string_copied(
        &mut self,
        from: Expr,
        size: u32,
        statements: &mut Vec<Statement>,
    ) -> (Expr, Expr) {
        let span = from.span;
        let copy = self.hidden_variable("copy", Type::CharArray { size });
        let nothing = Expr::new(
            ExprKind::ConstantBytes(Vec::new()),
            Type::CharArray { size: 1 },
            span,
        );
        statements.push(Statement {
            kind: StatementKind::Set {
                variable: copy,
                value: nothing,
            },
            span,
        });
        let to = Expr::new(ExprKind::VariableAddress(copy), Type::U64, span);
        let kind = ExprKind::HelperCall {
            helper: helper::PROBE_READ_KERNEL_STR,
            operands: vec![to.clone(), constant(size.into(), Type::U64, span), from],
        };
        let with_nul = Expr::new(kind, Type::I64, span);
        // The helper counts the NUL, too.
        let length = operation(
            BinaryOp::Subtract,
            Type::I64,
            with_nul,
            constant(1, Type::I64, span),
            span,
        );
        (
            to,
            Expr {
                ty: Type::U64,
                ..length
            },
        )
    }

    /// The text that a variable holds.
    pub(crate) fn string_of(&self, variable: VariableId, span: Span) -> Expr {
        let ty = self
            .variables
            .get(variable.0 as usize)
            .map_or(Type::U64, |known| known.ty.clone());
        let size = match ty {
            Type::CharArray { size } => size,
            _ => 0,
        };
        let address = Expr::new(ExprKind::VariableAddress(variable), Type::U64, span);
        let kind = ExprKind::Bytes {
            address: Box::new(address),
            offset: 0,
            size,
            access: Access::Context,
        };
        Expr::new(kind, ty, span)
    }

    /// Stores a value in a hidden variable, so that it is computed once and read several times: the statement, and the variable as a value.
    pub(crate) fn in_variable(&mut self, name: &str, value: Expr) -> (Statement, Expr) {
        let span = value.span;
        let variable = self.hidden_variable(name, value.ty.clone());
        let read = Expr::new(ExprKind::Variable(variable), value.ty.clone(), span);
        let kind = StatementKind::Set { variable, value };
        (Statement { kind, span }, read)
    }

    /// A value behind statements that are done first.
    pub(crate) fn behind(&self, statements: Vec<Statement>, value: Expr, span: Span) -> Expr {
        if statements.is_empty() {
            return value;
        }
        let ty = value.ty.clone();
        let value = Box::new(value);
        Expr::new(ExprKind::Sequence { statements, value }, ty, span)
    }
}
