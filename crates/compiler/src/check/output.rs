//! Output of programs: `printf` and the like become statements that write a record, which the reader carries out in the order of time. The reader interprets
//! the format.

use super::checker::{Checked, Checker, Reported};
use super::tree::{
    Action, Destination, Expr, ExprKind, Pointee, Pointer, Record, Statement, StatementKind, Type,
};
use super::value::{constant, room, string_constant};
use crate::builtin::Use;
use crate::context::ProgramKind;
use crate::lang::ast::{self, Span};
use crate::lang::diag::{Diagnostic, place};
use kestrel_bpf::helper;
use kestrel_trace::action::Action as Asked;
use kestrel_trace::layout::{Field, FieldType, Layout, Space};
use kestrel_trace::packet::CAPACITY;
use kestrel_trace::print::printf::{Format, Mismatch, Wrong};
use kestrel_trace::stack_pieces::{MAX, PIECE_BYTES};

/// Most values of a line that the kernel writes (MAX_BPRINTF_VARARGS).
const KERNEL_VALUES: usize = 12;
/// Its conversions.
const KERNEL_CONVERSIONS: &[&str] = &["d", "i", "u", "x", "X", "c", "s", "p"];

/// Most strings of `join`, and most bytes of each.
const JOINED: u64 = 16;
const JOINED_STRING: u32 = 200;

impl Checker<'_> {
    /// The statement that writes a record of output: `verb` and `text` say what the reader does with `values`.
    pub(crate) fn output(
        &mut self,
        verb: &str,
        text: &str,
        values: Vec<Expr>,
        span: Span,
    ) -> Checked<StatementKind> {
        if self.writes_to_file() {
            return self.written_to_file(verb, text, values, span);
        }
        let mut fields: Vec<(String, FieldType)> = Vec::new();
        let mut written = Vec::new();
        for (place, mut value) in values.into_iter().enumerate() {
            // The record belongs to one event, whose name its class has, so the event's number is not needed.
            if value.kind == ExprKind::EventNumber {
                value = constant(0, value.ty, value.span);
            }
            // A string that is read only for this record is written with its own length.
            let ty = match (&value.kind, &value.ty) {
                // A byte more than the limit shows that the text was longer.
                (ExprKind::ReadString { max, .. }, Type::String { .. })
                    if self.globals.max_strlen == Some(*max) =>
                {
                    Some(FieldType::String { max: max + 1 })
                }
                (ExprKind::Stack { .. }, Type::Stack { .. }) => {
                    let held = self.holding(&value, false)?;
                    self.kept_type(&held)
                }
                // The record has the first piece of a long stack; the others follow it.
                (ExprKind::StackCopy { bytes }, Type::StackCopy { shown, .. }) => {
                    Some(FieldType::StackCopy {
                        max: (*bytes).min(PIECE_BYTES),
                        shown: *shown,
                    })
                }
                (ExprKind::ReadString { .. } | ExprKind::ReadMemory { .. }, ty) => Self::field_type(ty),
                (_, ty) => self.kept_type(ty),
            };
            let ty = ty.ok_or_else(|| {
                let message = format!("{} cannot be printed", self.describe(&value.ty));
                self.error(value.span, message)
            })?;
            fields.push((format!("value{place}"), ty));
            written.push(value);
        }
        let mut layout = Layout::new(fields);
        if layout.max_size() > CAPACITY
            && let Some(whole) = self.long_layout(&layout, &written)
        {
            layout = whole;
        } else if layout.max_size() > CAPACITY {
            let message = format!(
                "what is printed could take {} bytes; there is room for {CAPACITY}",
                layout.max_size()
            );
            return Err(self.error(span, message));
        }
        self.records += 1;
        Ok(StatementKind::Record(Record {
            layout,
            values: written,
            to: Destination::Current,
            asks: Some(Asked {
                verb: verb.to_owned(),
                text: text.to_owned(),
            }),
        }))
    }

    /// The layout of output that is longer than a page and is written in pieces: each value has a place of fixed size. `None` where a value has pieces of its own, or
    /// the whole is longer than all pieces.
    fn long_layout(&mut self, layout: &Layout, values: &[Expr]) -> Option<Layout> {
        let kept = |(field, value): (&Field, &Expr)| {
            let ty = match (&value.kind, &field.ty) {
                (ExprKind::StackCopy { .. }, _) => None,
                (_, FieldType::String { max }) => Some(FieldType::CharArray { size: max + 1 }),
                (_, FieldType::Bytes { .. }) => self.kept_type(&value.ty),
                (_, ty) => Some(ty.clone()),
            };
            Some((field.name.clone(), ty?))
        };
        let fields: Option<Vec<_>> = layout.fields().iter().zip(values).map(kept).collect();
        let whole = Layout::new(fields?);
        (self.globals.infers_types && (CAPACITY + 1..=MAX).contains(&whole.max_size())).then_some(whole)
    }

    /// `printf("format", values…)` and others that take a format.
    pub(crate) fn formatted(&mut self, usage: &Use<'_>, verb: &str) -> Checked<StatementKind> {
        let args = usage.positional(self, 1, usize::MAX)?;
        let Some((format, values)) = args.split_first() else {
            return Err(self.error(usage.span, "a format is missing"));
        };
        let ast::ExprKind::String(text) = &format.kind else {
            return Err(usage.wants_literal(self, format));
        };
        let values: Vec<Checked<Expr>> = values.iter().map(|value| self.printable(value)).collect();
        let values = values.into_iter().collect::<Checked<Vec<_>>>()?;
        let text = text.clone();
        let values_of: Vec<(Type, String)> = values
            .iter()
            .map(|value| (value.ty.clone(), self.spelled_value(value)))
            .collect();
        let made = self.output(verb, &text, values, usage.span)?;
        let types: Vec<FieldType> = match &made {
            StatementKind::Record(record) => record.layout.fields().iter().map(|f| f.ty.clone()).collect(),
            _ => values_of
                .iter()
                .filter_map(|(ty, _)| self.printed_type(ty))
                .collect(),
        };
        for wrong in Format::parse(&text).check(&types) {
            let value = wrong.argument.and_then(|argument| values_of.get(argument));
            self.wrong_format(usage, &wrong, value, &text);
        }
        Ok(made)
    }

    /// Reports a conversion that does not suit its value, or another number of values than conversions.
    fn wrong_format(
        &mut self,
        usage: &Use<'_>,
        wrong: &Mismatch,
        value: Option<&(Type, String)>,
        format: &str,
    ) -> Reported {
        let (message, hint) = match (&wrong.wrong, value) {
            (Wrong::Type { letters, instead }, Some((ty, spelled))) => (
                format!("unsupported format specifier for type '{spelled}': {letters}"),
                Some(format!("this is {}: write {instead}", self.describe(ty))),
            ),
            (Wrong::TooFew { .. }, _) => (
                wrong.wrong.to_string(),
                Some("a value stands behind the format for each of its conversions".to_owned()),
            ),
            (Wrong::TooMany { .. }, _) if format.contains('%') => (
                wrong.wrong.to_string(),
                Some(
                    "each value has a conversion in the format: %d, %u, %x, %s, %c, %p, %r, …; %% is a percent sign"
                        .to_owned(),
                ),
            ),
            (wrong, _) => (wrong.to_string(), None),
        };
        self.report(Diagnostic::error(usage.span, message).maybe_hint(hint))
    }

    /// Reports what the kernel's own printf does not take: it has few conversions, and reads a string wherever one is asked for.
    fn check_kernel_format(&mut self, usage: &Use<'_>, text: &str, format: Span, values: &[Expr]) {
        let values_of: Vec<(Type, String)> = values
            .iter()
            .map(|value| (value.ty.clone(), self.spelled_value(value)))
            .collect();
        let types: Vec<FieldType> = values
            .iter()
            .filter_map(|value| self.printed_type(&value.ty))
            .collect();
        let parsed = Format::parse(text);
        for wrong in parsed.check(&types) {
            let value = wrong.argument.and_then(|argument| values_of.get(argument));
            self.wrong_format(usage, &wrong, value, text);
        }
        for (at, conversion) in parsed.conversions().enumerate() {
            let letters = conversion.letters();
            if !KERNEL_CONVERSIONS.contains(&letters.as_str()) {
                let message = format!("Invalid format specifier for `debugf`: {letters}");
                let hint = format!("the kernel's printf has %{}", KERNEL_CONVERSIONS.join(", %"));
                self.report(Diagnostic::error(format, message).hint(hint));
            } else if letters == "s"
                && let Some(value) = values.get(at)
                && value.ty.is_scalar()
            {
                let message = format!("Type does not match format specifier: {letters}");
                let hint = "a number is written %d, an address %p";
                self.report(Diagnostic::error(value.span, message).hint(hint));
            }
        }
    }

    /// `debugf("format", values…)`: a line that the kernel itself writes (`bpf_trace_vprintk`); strings are passed by address.
    pub(crate) fn kernel_line(&mut self, usage: &Use<'_>) -> Checked<StatementKind> {
        let args = usage.positional(self, 1, 1 + KERNEL_VALUES)?;
        let span = usage.span;
        if self.globals.infers_types {
            let message = "The debugf() builtin is not recommended for production use. For more information see bpf_trace_printk in bpf-helpers(7).";
            let hint = "its lines go to the one buffer of all tracers, and slow the kernel down; printf() writes to the output of this program";
            self.report(Diagnostic::warning(span, message).hint(hint));
        }
        let Some((format, values)) = args.split_first() else {
            return Err(self.error(span, "a format is missing"));
        };
        let ast::ExprKind::String(text) = &format.kind else {
            return Err(usage.wants_literal(self, format));
        };
        let values: Vec<Checked<Expr>> = values.iter().map(|value| self.printable(value)).collect();
        let values = values.into_iter().collect::<Checked<Vec<_>>>()?;
        self.check_kernel_format(usage, text, format.span, &values);
        let statement = |kind| Statement { kind, span };
        let mut statements = Vec::new();
        let mut kept = |checker: &mut Self, value: Expr, size: u32| {
            let variable = checker.hidden_variable("text", Type::CharArray { size });
            statements.push(statement(StatementKind::Set { variable, value }));
            Expr::new(ExprKind::VariableAddress(variable), Type::U64, span)
        };
        let mut words = Vec::new();
        for value in values {
            words.push(match &value.ty {
                ty if ty.is_scalar() => value,
                ty if ty.is_string() => {
                    let size = room(&value) + 1;
                    kept(self, value, size)
                }
                ty => {
                    let message = format!("{} cannot be printed by the kernel", self.describe(ty));
                    return Err(self.error(value.span, message));
                }
            });
        }
        let size = text.len() as u32 + 1;
        let line = kept(self, string_constant(text, span), size);
        let bytes = words.len() as u64 * 8;
        let number = |value: u64| constant(value, Type::U64, span);
        // The helper takes no address where there are no values.
        let data = match words.is_empty() {
            true => number(0),
            false => Expr::new(ExprKind::FrameWords(words), Type::U64, span),
        };
        statements.push(statement(StatementKind::Perform {
            verb: "debugf",
            helper: helper::TRACE_VPRINTK,
            operands: vec![line, number(size.into()), data, number(bytes)],
        }));
        Ok(StatementKind::Block(statements))
    }

    /// Refuses a built-in that changes more than the program itself, unless `--unsafe` allows it.
    pub(crate) fn needs_unsafe(&mut self, usage: &Use<'_>) -> Checked<()> {
        if self.globals.allows_unsafe {
            return Ok(());
        }
        let message = format!("{}() is an unsafe function being used in safe mode", usage.name);
        let hint = "kestrel run --unsafe allows it";
        Err(self.report(Diagnostic::error(usage.span, message).hint(hint)))
    }

    /// Like [`Checker::needs_unsafe`], for what table files may do without `--unsafe`, because only root can write them.
    pub(crate) fn needs_unsafe_in_programs(&mut self, usage: &Use<'_>) -> Checked<()> {
        match self.globals.source {
            Some(_) => self.needs_unsafe(usage),
            None => Ok(()),
        }
    }

    /// `errorf` and `warnf`: like `printf`, with the place in the program before the text.
    pub(crate) fn placed(&mut self, usage: &Use<'_>, verb: &str) -> Checked<StatementKind> {
        let made = self.formatted(usage, verb)?;
        let StatementKind::Record(mut record) = made else {
            return Ok(made);
        };
        if let Some(asked) = &mut record.asks {
            let place = match &self.globals.source {
                Some((name, text)) => place(name, text, usage.span),
                None => String::new(),
            };
            asked.text = format!("{place}\u{1f}{}", asked.text);
        }
        Ok(StatementKind::Record(record))
    }

    /// `join(array, "between")`: at most [`JOINED`] strings.
    pub(crate) fn join(&mut self, usage: &Use<'_>) -> Checked<StatementKind> {
        let args = usage.positional(self, 1, 2)?;
        let between = match args.get(1).map(|arg| (arg, &arg.kind)) {
            None => " ",
            Some((_, ast::ExprKind::String(text))) => text,
            Some((other, _)) => return Err(usage.wants_literal(self, other)),
        };
        let Some(array) = args.first() else {
            return Err(self.error(usage.span, "an array is missing"));
        };
        let mut array = self.expression(array)?;
        // A number is the address of the array, in the memory that a cast would give it.
        if matches!(array.ty, Type::Integer { .. }) {
            let pointers = Pointer {
                to: Pointee::Char,
                levels: 1,
                symbolic: false,
                ..Pointer::untyped(Space::Kernel)
            };
            let span = array.span;
            array = self.converted(array, Type::Pointer(pointers), span);
        }
        let mut strings = Vec::new();
        for place in 0..JOINED {
            let at = constant(place, Type::U64, usage.span);
            let address = self.index(array.clone(), at, usage.span)?;
            strings.push(self.string(address, JOINED_STRING, None, usage.span)?);
        }
        self.output("join", between, strings, usage.span)
    }

    /// Checks a value that is to be printed.
    pub(crate) fn printable(&mut self, value: &ast::Expr) -> Checked<Expr> {
        let checked = super::compare::ternary_as_string(self.expression(value)?);
        match (&checked.ty, &checked.kind) {
            // An empty text is written as a NUL, so that its field has a byte.
            (Type::CharArray { .. }, ExprKind::ConstantBytes(known)) if known.is_empty() => {
                Ok(string_constant("\0", value.span))
            }
            _ => Ok(checked),
        }
    }

    /// `return VALUE` in a test: the value is recorded as the code of `exit` is; in a benchmark only what is not 0, as a record is time that would be
    /// measured. In other events the value means nothing.
    pub(super) fn verdict(&mut self, value: Expr, span: Span) -> Checked<Option<Statement>> {
        let is_benchmark = self.context.name.starts_with("bench:");
        if !is_benchmark && !self.context.name.starts_with("test:")
            || is_benchmark && value.constant() == Some(0)
        {
            return Ok(None);
        }
        let record = self.output("exit", "", vec![value.clone()], span)?;
        let kind = match is_benchmark && value.constant().is_none() {
            true => StatementKind::If {
                condition: value,
                then: vec![Statement { kind: record, span }],
                otherwise: Vec::new(),
            },
            false => record,
        };
        Ok(Some(Statement { kind, span }))
    }

    /// `exit()`, `exit(code)`: ends the handler, and masks all handlers so that none begins any more. An iterator does not mask: it walks to its end, as
    /// bpftrace's do.
    pub(crate) fn exit(&mut self, usage: &Use<'_>) -> Checked<StatementKind> {
        let args = usage.positional(self, 0, 1)?;
        let code = match args.first() {
            Some(code) => self.phrased(
                code.span,
                usage.span,
                |checker| checker.integer(code),
                |refused| format!("exit() only supports int arguments ({} provided)", refused.word),
            )?,
            None => constant(0, Type::I64, usage.span),
        };
        let record = self.output("exit", "", vec![code], usage.span)?;
        let walks = self.context.program == ProgramKind::Iterator;
        let masks = (!walks).then_some(StatementKind::Act(Action::Leave));
        let all = [record].into_iter().chain(masks).chain([StatementKind::Return]);
        let statement = |kind| Statement {
            kind,
            span: usage.span,
        };
        Ok(StatementKind::Block(all.map(statement).collect()))
    }
}
