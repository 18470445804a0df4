//! Output of a pinned iterator: the kernel writes it to the file whose reading runs the iterator (`bpf_seq_printf`, `bpf_seq_write`), since no session reads records.

use super::checker::{Checked, Checker};
use super::tree::{Expr, ExprKind, Statement, StatementKind, Type};
use super::value::{bytes_constant, constant, narrowed, room};
use crate::builtin;
use crate::lang::ast::Span;
use crate::lang::diag::Diagnostic;
use kestrel_bpf::helper::{self, Helper};
use kestrel_trace::layout::FieldType;
use kestrel_trace::print::printf::{Format, KernelPart, KernelValue};

impl Checker<'_> {
    /// Whether what is printed goes to a file of the kernel's, and not to records.
    pub(super) fn writes_to_file(&self) -> bool {
        self.context.seq_file.is_some()
    }

    /// The statements that write what `verb` prints. Refuses what the reader of records would do.
    pub(super) fn written_to_file(
        &mut self,
        verb: &str,
        text: &str,
        values: Vec<Expr>,
        span: Span,
    ) -> Checked<StatementKind> {
        let (verb, format) = match verb {
            _ if verb == builtin::PRINTF.name => (builtin::PRINTF.name, text),
            _ if verb == builtin::PRINT.name => (builtin::PRINT.name, "%s\n"),
            _ => return Err(self.needs_a_session(span)),
        };
        let mut types = Vec::new();
        for value in &values {
            let ty = self.printed_type(&value.ty);
            types.push(ty.ok_or_else(|| self.not_written(value, None))?);
        }
        let parts = Format::parse(format).for_kernel(&types);
        let parts = parts.map_err(|wrong| match values.get(wrong.argument) {
            Some(value) => self.not_written(value, wrong.instead),
            None => self.needs_a_session(span),
        })?;
        let mut file = ToFile {
            file: self.seq_file(span)?,
            verb,
            span,
            statements: Vec::new(),
        };
        let mut values = values.into_iter();
        for part in parts {
            file.part(self, part, &mut values);
        }
        Ok(StatementKind::Block(file.statements))
    }

    /// Type of a value as formats are checked against it.
    pub(super) fn printed_type(&mut self, ty: &Type) -> Option<FieldType> {
        Self::field_type(ty).or_else(|| self.kept_type(ty))
    }

    /// The `struct seq_file`.
    fn seq_file(&mut self, span: Span) -> Checked<Expr> {
        let rule = self.context.seq_file.clone().unwrap_or_default();
        self.rule("(seq_file)", &rule, Type::U64, span)
    }

    /// Refuses a record, which has no reader once the session is over.
    pub(super) fn needs_a_session(&mut self, span: Span) -> super::checker::Reported {
        let message = "a pinned iterator outlives this command, which performs this while it runs";
        let hint =
            "it can count in maps, and print() and printf() numbers and strings, which the kernel writes";
        self.report(Diagnostic::error(span, message).hint(hint))
    }

    fn not_written(&mut self, value: &Expr, instead: Option<&str>) -> super::checker::Reported {
        let ty = self.describe(&value.ty);
        let (message, hint) = match instead {
            Some(instead) => (
                format!("the kernel, which writes what a pinned iterator prints, does not write {ty} so"),
                format!("write {instead}"),
            ),
            None => (
                format!("the kernel, which writes what a pinned iterator prints, cannot write {ty}"),
                "it writes numbers and strings".to_owned(),
            ),
        };
        self.report(Diagnostic::error(value.span, message).hint(hint))
    }
}

/// Statements that write to a file.
struct ToFile {
    file: Expr,
    verb: &'static str,
    span: Span,
    statements: Vec<Statement>,
}

impl ToFile {
    fn part(&mut self, checker: &mut Checker<'_>, part: KernelPart, values: &mut impl Iterator<Item = Expr>) {
        match part {
            KernelPart::Bytes(bytes) => {
                let size = bytes.len();
                let place = self.kept(checker, bytes_constant(bytes, self.span), size as u32);
                self.call(helper::SEQ_WRITE, vec![place, self.number(size as u64)]);
            }
            KernelPart::Character => {
                let word = self.words(values.take(1).collect());
                self.call(helper::SEQ_WRITE, vec![word, self.number(1)]);
            }
            KernelPart::Format {
                format,
                values: kinds,
            } => {
                let mut words = Vec::new();
                for (kind, value) in kinds.iter().zip(values) {
                    words.push(self.word(checker, *kind, value));
                }
                let size = format.len() as u32 + 1;
                let format = bytes_constant(format.into_bytes(), self.span);
                let format = self.kept(checker, format, size);
                let bytes = words.len() as u64 * 8;
                let operands = vec![
                    format,
                    self.number(size.into()),
                    self.words(words),
                    self.number(bytes),
                ];
                self.call(helper::SEQ_PRINTF, operands);
            }
        }
    }

    /// A value as the kernel is given it.
    fn word(&mut self, checker: &mut Checker<'_>, kind: KernelValue, value: Expr) -> Expr {
        match kind {
            KernelValue::Number => value,
            KernelValue::Narrow { bytes, signed } => {
                let span = value.span;
                narrowed(value, Type::integer(bytes, signed), span)
            }
            KernelValue::String => {
                let size = room(&value) + 1;
                self.kept(checker, value, size)
            }
        }
    }

    /// Puts bytes where a helper can read them; their address.
    fn kept(&mut self, checker: &mut Checker<'_>, value: Expr, size: u32) -> Expr {
        let variable = checker.hidden_variable("text", Type::CharArray { size });
        self.statements.push(Statement {
            kind: StatementKind::Set { variable, value },
            span: self.span,
        });
        Expr::new(ExprKind::VariableAddress(variable), Type::U64, self.span)
    }

    fn call(&mut self, helper: Helper, rest: Vec<Expr>) {
        let operands = std::iter::once(self.file.clone()).chain(rest).collect();
        self.statements.push(Statement {
            kind: StatementKind::Perform {
                verb: self.verb,
                helper,
                operands,
            },
            span: self.span,
        });
    }

    fn words(&self, words: Vec<Expr>) -> Expr {
        Expr::new(ExprKind::FrameWords(words), Type::U64, self.span)
    }

    fn number(&self, value: u64) -> Expr {
        constant(value, Type::U64, self.span)
    }
}
