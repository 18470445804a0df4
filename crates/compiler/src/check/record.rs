//! `record()`: what is written, under which names, and where each value lies in the record.

use super::tree::{Expr, ExprKind, Record, Statement, StatementKind, Type};
use super::types::STRING;
use super::{Checked, Checker};
use crate::context::EventField;
use crate::lang::ast::{self, Arg, Span};
use crate::lang::diag::{Diagnostic, Severity};
use kestrel_trace::layout::{FieldType, Layout};
use kestrel_trace::packet::CAPACITY;

/// A field on its way into a record.
type Recorded = (String, FieldType, Expr);

impl Checker<'_> {
    /// All recorded fields of the event, as `record()` without arguments and a probe without a block take them.
    pub(super) fn record_everything(&mut self, span: Span) -> Checked<Statement> {
        let kind = self.record(&[], span)?;
        Ok(Statement { kind, span })
    }

    /// `record(value, name = value)`.
    pub(crate) fn record(&mut self, args: &[Arg], span: Span) -> Checked<StatementKind> {
        let (layout, values) = match args {
            [] => fitted(self.everything(span)),
            args => placed(self.chosen(args)?),
        };
        if layout.max_size() > CAPACITY {
            let message = format!(
                "this record could take {} bytes; there is room for {CAPACITY}",
                layout.max_size()
            );
            let hint = "limit texts and stacks: str(p, 64), kstack(16)";
            return Err(self.report(Diagnostic::error(span, message).hint(hint)));
        }
        match &self.layout {
            Some(first) if *first != layout => {
                return Err(self.not_yet(
                    span,
                    "a second record() of one event with other fields than the first",
                ));
            }
            Some(_) => {}
            None => self.layout = Some(layout.clone()),
        }
        Ok(StatementKind::Record(Record { layout, values }))
    }

    /// All recorded fields. One that cannot be recorded is left out, with a warning: the others are still worth having.
    fn everything(&mut self, span: Span) -> Vec<Recorded> {
        let context = self.context;
        let named_twice = |r: &&EventField| context.fields.iter().any(|f| f.name == r.name);
        let result = context.return_value.iter().filter(|r| !named_twice(r));
        let recorded = context.fields.iter().chain(result).filter(|f| f.recorded);
        let mut all = Vec::new();
        for field in recorded {
            let outer = std::mem::take(&mut self.found);
            let value = self
                .event_field(field, span)
                .and_then(|value| self.recorded(field.name.clone(), value));
            let inner = std::mem::replace(&mut self.found, outer);
            all.extend(value);
            for mut diagnostic in inner {
                diagnostic.severity = Severity::Warning;
                let hint = format!("record() leaves the field \"{}\" out", field.name);
                self.report(diagnostic.hint(hint));
            }
        }
        all
    }

    /// A value with its type in the record.
    fn recorded(&mut self, name: String, value: Expr) -> Checked<Recorded> {
        if self.size_of(&value.ty).is_none_or(|size| size > CAPACITY) && !matches!(value.ty, Type::Struct(_))
        {
            let message = format!("this is larger than a record can be ({CAPACITY} bytes)");
            return Err(self.error(value.span, message));
        }
        match Self::field_type(&value.ty) {
            Some(ty) => Ok((name, ty, value)),
            None => Err(self.unrecordable(&value)),
        }
    }

    fn chosen(&mut self, args: &[Arg]) -> Checked<Vec<Recorded>> {
        let mut fields: Vec<Recorded> = Vec::new();
        let mut failed = None;
        for arg in args {
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

    fn unrecordable(&mut self, value: &Expr) -> super::Reported {
        let hint = match (&value.ty, &value.kind) {
            (Type::Struct(_), _) => Some("record its members one by one"),
            (Type::Text { size: 0 }, ExprKind::Bytes { .. }) => {
                Some("its length is not known: str() reads it to its end")
            }
            _ => None,
        };
        let message = format!("{} cannot be recorded", self.describe(&value.ty));
        let diagnostic = Diagnostic::error(value.span, message);
        self.report(diagnostic.maybe_hint(hint.map(str::to_owned)))
    }
}

/// Fields with their places.
fn placed(fields: Vec<Recorded>) -> (Layout, Vec<Expr>) {
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

/// Fields with their places, strings cut until the record fits into a packet: nobody chose their length.
fn fitted(mut fields: Vec<Recorded>) -> (Layout, Vec<Expr>) {
    let mut most = STRING;
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

/// A name for what an expression gives: its last two words, `args` left out. `args.prev->pid` is `prev_pid`.
fn derived(expr: &ast::Expr) -> String {
    let words = words(expr);
    let last = words.len().saturating_sub(2);
    let name = words[last..].join("_");
    if name.is_empty() { "value".to_owned() } else { name }
}

fn words(expr: &ast::Expr) -> Vec<String> {
    use ast::ExprKind as Kind;
    match &expr.kind {
        Kind::Identifier(name) if name == "args" => Vec::new(),
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
