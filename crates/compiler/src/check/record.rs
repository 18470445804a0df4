//! `record()`: what is written, under which names, and where each value lies in the record.

use super::checker::{Checked, Checker, Reported};
use super::tree::{BinaryOp, Destination, Expr, ExprKind, Record, Show, Statement, Type};
use super::value::{constant, is_literal, operation, widened};
use crate::builtin;
use crate::context::{EventField, Source};
use crate::lang::ast::{self, Arg, Span, Spanned};
use crate::lang::diag::{Diagnostic, Severity};
use kestrel_bpf::btf::{Type as BtfType, TypeId};
use kestrel_trace::layout::{EventName, FieldType, Layout};
use kestrel_trace::packet::CAPACITY;
use kestrel_trace::stack_pieces::PIECE_BYTES;

/// Structs in structs by value.
const DEPTH: usize = 4;
/// Most kinds of record of one event: each takes a number of its own.
const RECORDS: u32 = 256;

/// A copy of a stack is not cut below so many bytes: other fields are.
const STACK_BYTES: u32 = 512;

/// A field on its way into a record.
type Recorded = (String, FieldType, Expr);

impl Checker<'_> {
    /// All recorded fields of the event, as `record()` without arguments and a probe without a block take them.
    pub(super) fn record_everything(&mut self, span: Span) -> Checked<Statement> {
        let kind = self.record(&[], span)?;
        Ok(Statement { kind, span })
    }

    /// Record that `record(value, name = value)` and `record(args, value)` write.
    pub(super) fn made_record(&mut self, args: &[Arg], span: Span) -> Checked<Record> {
        let shape = match args {
            [] => fitted(self.everything(span)),
            args if args.iter().any(is_everything) => fitted(self.chosen(args)?),
            args => placed(self.chosen(args)?),
        };
        self.counted(shape, span)
    }

    /// Record of a message: the values given, else the event's fields if it `carries` them, without those for which there is no room.
    pub(super) fn message_record(&mut self, args: &[Arg], carries: bool, span: Span) -> Checked<Record> {
        if !args.is_empty() {
            return self.made_record(args, span);
        }
        if !carries {
            return self.counted(fitted(Vec::new()), span);
        }
        let mut fields = self.everything(span);
        let mut shape = fitted(fields.clone());
        while shape.0.max_size() > CAPACITY {
            let sizes = fields
                .iter()
                .map(|field| Layout::new([(field.0.clone(), field.1.clone())]).max_size());
            let Some((largest, _)) = sizes.enumerate().max_by_key(|(_, size)| *size) else {
                break;
            };
            let (name, ..) = fields.remove(largest);
            let message = format!("there is no room for the field \"{name}\": it is left out of the message");
            let hint = "choose what the message carries: (…, name = value)";
            self.report(Diagnostic::warning(span, message).hint(hint));
            shape = fitted(fields.clone());
        }
        self.counted(shape, span)
    }

    /// A record of this shape, if there is room for it.
    fn counted(&mut self, (layout, values): (Layout, Vec<Expr>), span: Span) -> Checked<Record> {
        if self.writes_to_file() {
            return Err(self.needs_a_session(span));
        }
        if layout.max_size() > CAPACITY {
            let message = format!(
                "this record could take {} bytes; there is room for {CAPACITY}",
                layout.max_size()
            );
            let hint = "limit strings and stacks: str(p, 64), kstack(16), ustack_copy(1024)";
            return Err(self.report(Diagnostic::error(span, message).hint(hint)));
        }
        self.records += 1;
        if self.records > RECORDS {
            return Err(self.error(
                span,
                format!("one event can write at most {RECORDS} kinds of record"),
            ));
        }
        Ok(Record {
            layout,
            values,
            to: Destination::Current,
            asks: None,
        })
    }

    /// All recorded fields. One that cannot be recorded is left out, with a warning: the others are still worth having.
    /// But a rule that does not hold is an error, because then there is another way to see the event.
    fn everything(&mut self, span: Span) -> Vec<Recorded> {
        let context = self.context;
        let named_twice = |r: &&EventField| context.fields.iter().any(|f| f.name == r.name);
        let result = context.return_value.iter().filter(|r| !named_twice(r));
        let recorded = context.fields.iter().chain(result).filter(|f| f.recorded);
        let mut all = Vec::new();
        for field in recorded {
            let outer = std::mem::take(&mut self.found);
            let value = self.event_field(field, span).and_then(|value| {
                let parts = match (&value.ty, &field.source) {
                    (Type::Struct(..), Source::Words(_) | Source::Expression(_)) => {
                        self.members(&field.name, value, 0)?
                    }
                    _ => vec![(field.name.clone(), value)],
                };
                let parts = parts.into_iter().map(|(name, value)| self.recorded(name, value));
                parts.collect::<Checked<Vec<_>>>()
            });
            let inner = std::mem::replace(&mut self.found, outer);
            all.extend(value.into_iter().flatten());
            for diagnostic in inner {
                self.report(match field.source {
                    Source::Expression(_) => diagnostic,
                    _ => left_out(diagnostic, &field.name),
                });
            }
        }
        all
    }

    /// The members of a struct by value: one alone under the struct's own name, several behind it (`size_lo`); what lies in another member (a union's)
    /// is there once.
    fn members(&mut self, name: &str, value: Expr, depth: usize) -> Checked<Vec<(String, Expr)>> {
        let Type::Struct(id, _) = value.ty else {
            return Ok(vec![(name.to_owned(), value)]);
        };
        let btf = self.btf().map(|btf| {
            let composite = btf.composite(id);
            let union = matches!(btf.resolved(id), BtfType::Union(_));
            let members = composite.into_iter().flat_map(|composite| composite.members());
            let members: Vec<(String, TypeId)> = members.map(|m| (m.name.to_owned(), m.ty)).collect();
            (members, union)
        });
        let (mut members, union) = btf.unwrap_or_default();
        if union {
            members.truncate(1);
        }
        let alone = members.len() == 1;
        let mut all = Vec::new();
        for (member, ty) in members {
            let span = value.span;
            let (inner, called) = match member.is_empty() {
                // An anonymous member's own are reached through the struct.
                true => {
                    let first = self
                        .btf()
                        .and_then(|btf| btf.member_names(ty).first().map(|n| (*n).to_owned()));
                    let Some(first) = first else { continue };
                    (first.clone(), first)
                }
                false => (member.clone(), member),
            };
            let found = self.member(value.clone(), &Spanned { node: inner, span }, span)?;
            let called = if alone {
                name.to_owned()
            } else {
                format!("{name}_{called}")
            };
            match depth < DEPTH {
                true => all.extend(self.members(&called, found, depth + 1)?),
                false => all.push((called, found)),
            }
        }
        Ok(all)
    }

    /// A value with its type in the record.
    fn recorded(&mut self, name: String, value: Expr) -> Checked<Recorded> {
        if matches!(value.ty, Type::Struct(..))
            && let Ok(mut parts) = self.members(&name, value.clone(), 0)
            && let [(_, only)] = parts.as_mut_slice()
            && !matches!(only.ty, Type::Struct(..))
        {
            return self.recorded(name, only.clone());
        }
        if self.size_of(&value.ty).is_none_or(|size| size > CAPACITY) && !matches!(value.ty, Type::Struct(..))
        {
            let message = format!("this is larger than a record can be ({CAPACITY} bytes)");
            return Err(self.error(value.span, message));
        }
        // A field is as wide whichever number stands there.
        let natural = matches!(
            value.ty,
            Type::Integer {
                show: Show::Natural,
                ..
            }
        );
        let value = match natural || is_literal(&value) {
            true => widened(value),
            false => value,
        };
        match Self::field_type(&value.ty) {
            // A record is of one event, whose name its class has: there is nothing to write.
            Some(ty) if EventName::wanted(&ty).is_some() => {
                if value.kind != ExprKind::EventNumber {
                    let message =
                        "the name of an event that was kept before is known to readers of maps only";
                    let diagnostic = Diagnostic::error(value.span, message);
                    return Err(self.report(
                        diagnostic.hint("probe and func by themselves are those of the record's own event"),
                    ));
                }
                let value = constant(0, value.ty, value.span);
                Ok((name, ty, value))
            }
            Some(ty) => Ok((name, ty, value)),
            None => Err(self.unrecordable(&value)),
        }
    }

    fn chosen(&mut self, args: &[Arg]) -> Checked<Vec<Recorded>> {
        let mut fields: Vec<Recorded> = Vec::new();
        // All arguments are checked, so that one run shows all mistakes.
        let mut failed = None;
        // Names of fields in whose place a value stands that comes later.
        let mut replaced: Vec<String> = Vec::new();
        let has_everything = args.iter().any(is_everything);
        let result = self.context.return_value.as_ref();
        let returns = result.is_some_and(|result| result.recorded && result.name == builtin::RETVAL.name);
        for arg in args {
            if is_everything(arg) {
                for (name, ty, value) in self.everything(arg.value.span) {
                    // A value that is given the name of a field takes its place.
                    let given = args.iter().find(|arg| is_called(arg, &name));
                    if let Some(given) = given {
                        if fields.iter().any(|(taken, ..)| *taken == name) {
                            continue;
                        }
                        let value = self.expression(&given.value);
                        match value.and_then(|value| self.recorded(name.clone(), value)) {
                            Ok(field) => fields.push(field),
                            Err(reported) => failed = Some(reported),
                        }
                        replaced.push(name);
                        continue;
                    }
                    let name = unique(&name, args, &fields);
                    fields.push((name, ty, value));
                }
                continue;
            }
            // The return value is among `args` already.
            if is_word(arg, builtin::RETVAL.name) && has_everything && returns {
                continue;
            }
            if is_registers(arg) {
                match self.all_registers(&arg.value, args, &fields) {
                    Ok(all) => fields.extend(all),
                    Err(reported) => failed = Some(reported),
                }
                continue;
            }
            if let Some(name) = &arg.name
                && let Some(place) = replaced.iter().position(|other| *other == name.node)
            {
                replaced.swap_remove(place);
                continue;
            }
            if let Some(name) = &arg.name
                && fields.iter().any(|(taken, ..)| *taken == name.node)
            {
                let message = format!("the record has a field \"{}\" already", name.node);
                failed = Some(self.error(name.span, message));
                continue;
            }
            let name = match &arg.name {
                Some(name) => name.node.clone(),
                None => unique(&derived(&arg.value), args, &fields),
            };
            let value = self.expression(&arg.value);
            match value.and_then(|value| self.recorded(name, value)) {
                Ok(field) => fields.push(field),
                Err(reported) => failed = Some(reported),
            }
        }
        match failed {
            Some(reported) => Err(reported),
            None => Ok(fields),
        }
    }

    /// All registers, as fields of their names.
    fn all_registers(
        &mut self,
        value: &ast::Expr,
        args: &[Arg],
        fields: &[Recorded],
    ) -> Checked<Vec<Recorded>> {
        let context = self.context;
        if context.registers.is_empty() {
            return Err(self.no_registers(value.span));
        }
        let mut all = Vec::new();
        for register in &context.registers {
            let mut value = self.register(register, value.span)?;
            if register.meaningless != 0 {
                let (ty, span) = (value.ty.clone(), value.span);
                let kept = constant(!register.meaningless, Type::U64, span);
                value = operation(BinaryOp::And, ty, value, kept, span);
            }
            let name = unique(register.name, args, fields);
            all.push(self.recorded(name, value)?);
        }
        Ok(all)
    }

    fn unrecordable(&mut self, value: &Expr) -> Reported {
        let hint = match (&value.ty, &value.kind) {
            (Type::Struct(..), _) => Some("record its members one by one"),
            (Type::CharArray { size: 0 }, ExprKind::Bytes { .. }) => {
                Some("its length is not known: str() reads it to its end")
            }
            _ => None,
        };
        let message = format!("{} cannot be recorded", self.describe(&value.ty));
        let diagnostic = Diagnostic::error(value.span, message);
        self.report(diagnostic.maybe_hint(hint.map(str::to_owned)))
    }
}

/// A finding about a field without which the record is still worth having.
fn left_out(diagnostic: Diagnostic, field: &str) -> Diagnostic {
    let diagnostic = diagnostic.hint(format!("record() leaves the field \"{field}\" out"));
    Diagnostic {
        severity: Severity::Warning,
        ..diagnostic
    }
}

/// Whether an argument is `args`, which stands for all fields of the event.
fn is_everything(arg: &Arg) -> bool {
    is_word(arg, "args")
}

/// Whether an argument is a word alone.
fn is_word(arg: &Arg, wanted: &str) -> bool {
    arg.name.is_none() && matches!(&arg.value.kind, ast::ExprKind::Identifier(word) if word == wanted)
}

/// Whether an argument is given this name.
fn is_called(arg: &Arg, wanted: &str) -> bool {
    arg.name.as_ref().is_some_and(|name| name.node == wanted)
}

/// Whether an argument is `regs`, which stands for all registers.
fn is_registers(arg: &Arg) -> bool {
    is_word(arg, builtin::REGS.name)
}

/// Fields with their places.
fn placed(mut fields: Vec<Recorded>) -> (Layout, Vec<Expr>) {
    fill_room(&mut fields);
    let mut values = Vec::new();
    let shapes: Vec<_> = fields
        .into_iter()
        .map(|(name, ty, value)| {
            values.push(value);
            (name, ty)
        })
        .collect();
    (Layout::new(shapes), values)
}

/// Fields with their places, strings cut until the record fits into a packet, because their length was not chosen by the user.
fn fitted(mut fields: Vec<Recorded>) -> (Layout, Vec<Expr>) {
    let longest = |(_, ty, _): &Recorded| match ty {
        FieldType::String { max } => *max,
        _ => 0,
    };
    let mut most = fields.iter().map(longest).max().unwrap_or(0);
    loop {
        let (layout, values) = placed(fields.clone());
        if layout.max_size() <= CAPACITY || most <= 16 {
            return (layout, values);
        }
        most /= 2;
        for (_, ty, value) in &mut fields {
            if let (FieldType::String { max }, ExprKind::ReadString { max: read, .. }) = (ty, &mut value.kind)
            {
                *max = most.min(*max);
                *read = *max;
                value.ty = Type::String { max: *max };
            }
        }
    }
}

/// Gives copies of stacks room in the record: what they ask for, where the other fields leave that, else a part, behind which pieces have the rest.
fn fill_room(fields: &mut [Recorded]) {
    let open = |(_, _, value): &&mut Recorded| matches!(value.ty, Type::StackCopy { max: None, .. });
    let taken = Layout::new(fields.iter().map(|(name, ty, _)| (name.clone(), ty.clone()))).max_size();
    let mut copies: Vec<&mut Recorded> = fields.iter_mut().filter(open).collect();
    let room = CAPACITY.saturating_sub(taken) / copies.len().max(1) as u32;
    for (_, ty, value) in &mut copies {
        let bytes = match value.kind {
            ExprKind::StackCopy { bytes } => bytes,
            _ => 0,
        };
        let max = match (room & !7).max(STACK_BYTES) {
            room if bytes <= room => bytes,
            room => room.min(PIECE_BYTES),
        };
        *ty = FieldType::StackCopy { max, shown: None };
        value.ty = Type::StackCopy {
            max: Some(max),
            shown: None,
        };
    }
}

/// A name for what an expression gives: its last two words, `args` left out. `args.prev->pid` is `prev_pid`.
fn derived(expr: &ast::Expr) -> String {
    let words = words(expr);
    let last = words.len().saturating_sub(2);
    let name = words[last..].join("_");
    if name.is_empty() { "value".to_owned() } else { name }
}

pub(super) fn words(expr: &ast::Expr) -> Vec<String> {
    use ast::ExprKind as Kind;
    match &expr.kind {
        Kind::Identifier(name) if name == "args" => Vec::new(),
        Kind::Member { base, name, .. }
            if name.node == "args"
                && matches!(&base.kind, Kind::Identifier(word) if word == builtin::ENTRY.name) =>
        {
            vec![builtin::ENTRY.name.to_owned()]
        }
        Kind::Identifier(name) | Kind::Variable(name) => vec![name.clone()],
        Kind::Member { base, name, .. } => {
            let mut all = words(base);
            all.push(name.node.clone());
            all
        }
        Kind::Index { base, index } => {
            let mut all = words(base);
            if let (Kind::Integer { value, .. }, Some(last)) = (&index.kind, all.last_mut()) {
                *last = format!("{last}_{value}");
            }
            all
        }
        Kind::Cast { value, .. } | Kind::Unary { value, .. } => words(value),
        // reg("ax") is ax.
        Kind::Call { name, args } if name.node.ends_with(builtin::REG.name) => {
            match args.first().map(|a| &a.value.kind) {
                Some(Kind::String(register)) if name.node == builtin::REG.name => vec![register.clone()],
                Some(Kind::String(register)) => vec![builtin::ENTRY.name.to_owned(), register.clone()],
                _ => vec![builtin::REG.name.to_owned()],
            }
        }
        Kind::Call { name, args } => match args.first() {
            Some(first) if !matches!(first.value.kind, Kind::Integer { .. }) => words(&first.value),
            _ => vec![name.node.clone()],
        },
        _ => Vec::new(),
    }
}

/// `name`, or `name_2`, `name_3`, … where it is taken or given to another argument.
fn unique(name: &str, args: &[Arg], fields: &[Recorded]) -> String {
    let taken = |candidate: &str| {
        let given = args.iter().filter_map(|a| a.name.as_ref());
        fields.iter().any(|(n, ..)| n == candidate) || given.into_iter().any(|n| n.node == candidate)
    };
    let numbered = (2_u32..).map(|i| format!("{name}_{i}"));
    let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
    candidates.find(|c| !taken(c)).unwrap_or_else(|| name.to_owned())
}
