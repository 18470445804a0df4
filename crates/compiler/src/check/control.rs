//! Steering the session: names of tables and buffers, destinations of records, messages to the agent; what a session is, is not known here.

use super::checker::{Checked, Checker, Reported};
use super::tree::{Destination, StatementKind};
use crate::builtin::{TO, Use, used};
use crate::lang::ast::{Arg, ExprKind, Span};
use crate::lang::diag::{Diagnostic, did_you_mean};
use kestrel_trace::action::{Action, Verb};
use std::borrow::Cow;

/// Most bytes of a text or a command for the agent.
const MESSAGE: usize = 4096;

impl Checker<'_> {
    /// The table that `use_table("t")` names.
    pub(crate) fn table_of(&mut self, usage: &Use<'_>) -> Checked<String> {
        self.needs_tables(usage)?;
        let (name, span) = self.name_alone(usage, "table")?;
        let tables = self.globals.tables.clone();
        self.one_of(name, span, "table", &tables)
    }

    /// The buffer that `freeze("b")` and its like name.
    pub(crate) fn steered_buffer(&mut self, usage: &Use<'_>) -> Checked<String> {
        self.needs_tables(usage)?;
        let (name, span) = self.name_alone(usage, "buffer")?;
        self.buffer_named(name, span)
    }

    /// `to("b", …)` as a statement.
    pub(crate) fn record_to(&mut self, usage: &Use<'_>) -> Checked<StatementKind> {
        let Some((first, values)) = usage.args.unwrap_or_default().split_first() else {
            return Err(self.wants(usage, usage.span, "the name of a buffer"));
        };
        let to = self.destination(first, usage)?;
        let record = self.made_record(values, usage.span)?;
        Ok(StatementKind::Record(super::tree::Record { to, ..record }))
    }

    /// `record(…)`, with `to("b")` among the arguments or without.
    pub(crate) fn record(&mut self, args: &[Arg], span: Span) -> Checked<StatementKind> {
        let (args, to) = self.without_destination(args)?;
        let record = self.made_record(&args, span)?;
        Ok(StatementKind::Record(super::tree::Record { to, ..record }))
    }

    /// Takes `to("b")` out of the arguments of `record`.
    fn without_destination<'a>(&mut self, args: &'a [Arg]) -> Checked<(Cow<'a, [Arg]>, Destination)> {
        let mut calls = args.iter().filter_map(as_destination);
        let Some(usage) = calls.next() else {
            return Ok((Cow::Borrowed(args), Destination::Current));
        };
        if let Some(second) = calls.next() {
            let diagnostic = Diagnostic::error(second.span, "a record goes to one buffer")
                .label(usage.span, "this says already where")
                .hint("write two records: record(…, to(\"a\")); record(…, to(\"b\"))");
            return Err(self.report(diagnostic));
        }
        let to = match usage.args.unwrap_or_default() {
            [name] => self.destination(name, &usage)?,
            [_, value, ..] => {
                let message = "inside of record(), to() takes a buffer's name alone";
                let hint = "values are record()'s own: record(value, to(\"buffer\"))";
                return Err(self.report(Diagnostic::error(value.value.span, message).hint(hint)));
            }
            [] => return Err(self.wants(&usage, usage.span, "the name of a buffer")),
        };
        let rest = args.iter().filter(|arg| as_destination(arg).is_none());
        Ok((rest.cloned().collect(), to))
    }

    fn destination(&mut self, arg: &Arg, usage: &Use<'_>) -> Checked<Destination> {
        let (name, span) = self.quoted(arg, usage, "the name of a buffer")?;
        self.buffer_named(name, span).map(Destination::Buffer)
    }

    /// A verb of user space: `notify("text", …)`, `exec("command", …)`.
    pub(crate) fn user_space_verb(&mut self, usage: &Use<'_>, verb: &Verb) -> Checked<StatementKind> {
        let (text, span, values) = match (usage.args.unwrap_or_default().split_first(), verb.default) {
            // A verb that carries a text alone is not given values that would not be shown.
            (Some((_, [_, ..])), Some(_)) if self.globals.infers_types && !verb.carries_fields => {
                let count = usage.args.unwrap_or_default().len();
                let message = format!("{}() takes up to one argument ({count} provided)", usage.name);
                let hint = format!("it is written {}", verb.usage);
                return Err(self.report(Diagnostic::error(usage.span, message).hint(hint)));
            }
            (Some((first, values)), _) => {
                let (text, span) = self.quoted(first, usage, verb.text)?;
                (text, span, values)
            }
            (None, Some(default)) => (default, usage.span, &[][..]),
            (None, None) => return Err(self.wants(usage, usage.span, verb.text)),
        };
        self.sendable(text, span, usage, verb)?;
        if let Err(why) = (verb.check)(text) {
            return Err(self.error(span, why));
        }
        if let Some(undone) = verb.without_agent.filter(|_| !self.globals.persistent) {
            let message = format!("{}() {undone}: its message is shown", usage.name);
            let hint = "put it into a table file, for kestrel start and kestrel agent";
            self.report(Diagnostic::warning(usage.span, message).hint(hint));
        }
        let record = self.message_record(values, verb.carries_fields, usage.span)?;
        Ok(StatementKind::Record(super::tree::Record {
            to: match self.globals.messages {
                true => Destination::Messages,
                false => record.to,
            },
            asks: Some(Action {
                verb: verb.name.to_owned(),
                text: text.to_owned(),
            }),
            ..record
        }))
    }

    /// Refuses what cannot be a message; a `%` gets a hint at how values are given.
    fn sendable(&mut self, text: &str, span: Span, usage: &Use<'_>, verb: &Verb) -> Checked<()> {
        let name = usage.name;
        if text.trim().is_empty() {
            return Err(self.error(span, format!("{name}() has nothing to say here")));
        }
        if text.contains('\0') || text.len() > MESSAGE {
            let message = format!("this must be at most {MESSAGE} bytes without a NUL");
            return Err(self.error(span, message));
        }
        if let Some(hint) = verb.values.filter(|_| has_placeholder(text)) {
            let message = "this string is taken as it is: \"%\" and \"{…}\" are not replaced by values";
            self.report(Diagnostic::warning(span, message).hint(hint));
        }
        Ok(())
    }

    fn needs_tables(&mut self, usage: &Use<'_>) -> Checked<()> {
        if !self.globals.tables.is_empty() {
            return Ok(());
        }
        let message = format!(
            "{}() steers a session of tables, and there is none here",
            usage.name
        );
        let hint = "tables and buffers stand in a file, for kestrel start FILE";
        Err(self.report(Diagnostic::error(usage.span, message).hint(hint)))
    }

    /// The only argument: a name in quotes.
    fn name_alone<'a>(&mut self, usage: &Use<'a>, what: &str) -> Checked<(&'a str, Span)> {
        let what = format!("the name of a {what}");
        match usage.args.unwrap_or_default() {
            [name] => self.quoted(name, usage, &what),
            [] => Err(self.wants(usage, usage.span, &what)),
            [_, more, ..] => Err(self.wants(usage, more.value.span, &format!("{what} alone"))),
        }
    }

    /// An argument that is a text known now.
    fn quoted<'a>(&mut self, arg: &'a Arg, usage: &Use<'_>, what: &str) -> Checked<(&'a str, Span)> {
        match (&arg.value.kind, &arg.name) {
            (ExprKind::String(text), None) => Ok((text, arg.value.span)),
            (ExprKind::Identifier(word), None) if what.starts_with("the name") => {
                let message = format!("{}() wants {what} in quotes", usage.name);
                let hint = format!("write \"{word}\"");
                Err(self.report(Diagnostic::error(arg.value.span, message).hint(hint)))
            }
            (_, None) if self.globals.infers_types => Err(usage.wants_literal(self, &arg.value)),
            _ => {
                let span = arg.name.as_ref().map_or(arg.value.span, |name| name.span);
                Err(self.wants(usage, span, &format!("{what} in quotes")))
            }
        }
    }

    fn wants(&mut self, usage: &Use<'_>, span: Span, what: &str) -> Reported {
        let message = format!("{}() wants {what}", usage.name);
        self.report(Diagnostic::error(span, message).maybe_hint(usage.spelling()))
    }

    fn buffer_named(&mut self, name: &str, span: Span) -> Checked<String> {
        let buffers = self.globals.buffers.clone();
        self.one_of(name, span, "buffer", &buffers)
    }

    fn one_of(&mut self, name: &str, span: Span, what: &str, known: &[String]) -> Checked<String> {
        if known.iter().any(|k| k == name) {
            return Ok(name.to_owned());
        }
        let names = || known.iter().map(String::as_str);
        let hint = did_you_mean(name, names()).or_else(|| match known {
            [] => Some(format!("a table file declares it: {what} NAME {{ … }}")),
            known => Some(format!("there are: {}", known.join(", "))),
        });
        let message = format!("there is no {what} \"{name}\"");
        Err(self.report(Diagnostic::error(span, message).maybe_hint(hint)))
    }
}

/// `to(…)` as an argument.
fn as_destination(arg: &Arg) -> Option<Use<'_>> {
    match &arg.value.kind {
        ExprKind::Call { name, args } if arg.name.is_none() && name.node == TO.name => {
            Some(used(&name.node, name.span, Some(args), arg.value.span))
        }
        _ => None,
    }
}

/// Whether a text looks like one that values are put into: `{pid}`, `%d`.
fn has_placeholder(text: &str) -> bool {
    let after = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '{' || c == '(';
    text.contains('{') || text.split('%').skip(1).any(|rest| rest.starts_with(after))
}
