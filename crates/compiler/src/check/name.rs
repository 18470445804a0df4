//! Bare words and `args.NAME`: built-ins, fields of the event, enumerators of the kernel.

use super::checker::{Checked, Checker, Reported};
use super::tree::{Expr, ExprKind, Type};
use super::value::{constant, there_are};
use crate::builtin;
use crate::context::ProgramKind;
use crate::lang::ast::{self, Span, Spanned};
use crate::lang::diag::{Diagnostic, did_you_mean};
use kestrel_trace::event_kind;

/// What there is where no debug information has the parameters of a function.
const UNDESCRIBED: &str = "its arguments are arg0, arg1, …; parameters have names in programs that were compiled with -g or have a debug file (--debuginfo DIR)";

/// A table: what other tracers call things, and what they are called here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("arg", "arg0"),
    ("command", "comm"),
    ("cpuid", "cpu"),
    ("curr", "curtask"),
    ("current", "curtask"),
    ("execname", "comm"),
    ("gettimeofday_ns", "nsecs"),
    ("now", "nsecs"),
    ("ppid", "curtask->real_parent->tgid"),
    ("probefunc", "func"),
    ("probename", "probe"),
    ("process", "comm"),
    ("ret", "retval"),
    ("return", "retval"),
    ("stack", "kstack"),
    ("task", "curtask"),
    ("time", "nsecs"),
    ("timestamp", "nsecs"),
];

impl Checker<'_> {
    /// Checks a bare word, which may name a field, a built-in, a parameter or a constant.
    pub(super) fn word(&mut self, name: &str, span: Span) -> Checked<Expr> {
        // In the expression of a field's rule a word is another field first, and never a parameter: rules belong to events, parameters to table files.
        if !self.rules.is_empty()
            && let Some(field) = self.find_field(name)
        {
            return self.event_field(field, span);
        }
        if builtin::find(name).is_some() {
            let usage = builtin::used(name, span, None, span);
            return builtin::value(self, &usage);
        }
        if self.rules.is_empty()
            && let Some(parameter) = self.globals.parameter(name)
        {
            let kind = ExprKind::Parameter(parameter.name.clone());
            return Ok(Expr::new(kind, parameter.ty.clone(), span));
        }
        if name == "args"
            && self.globals.infers_types
            && let Some(all) = self.all_fields(span)
        {
            return all;
        }
        if name == "args" {
            let fields = self.field_names();
            if fields.is_empty() {
                let message = self.args_are_elsewhere();
                let hint = match self.is_of_file() {
                    true => UNDESCRIBED,
                    false => "\"args\" are the fields of tracepoints and the parameters of functions",
                };
                return Err(self.report(Diagnostic::error(span, message).hint(hint)));
            }
            let hint = there_are("", &fields);
            let diagnostic =
                Diagnostic::error(span, "\"args\" is all fields of the event: name one of them here");
            return Err(self.report(diagnostic.hint(hint)));
        }
        if let Some(found) = self.btf().and_then(|btf| btf.enumerator(name)) {
            let ty = self.btf_type(found.enumeration).unwrap_or(Type::I64);
            return Ok(constant(found.value as u64, ty, span));
        }
        // Macros are in no BTF. Those of the kernel's interface have one number for ever.
        if self.globals.infers_types
            && let Some(number) = crate::definition::constant(name)
        {
            return Ok(constant(number.cast_unsigned(), Type::I64, span));
        }
        Err(self.unknown_word(name, span))
    }

    /// `args` as a value, in a program: a record of the parameters of a function or of the fields of a tracepoint.
    pub(super) fn all_fields(&mut self, span: Span) -> Option<Checked<Expr>> {
        let of_function = matches!(
            self.context.program,
            ProgramKind::Kprobe
                | ProgramKind::Fentry
                | ProgramKind::Fexit
                | ProgramKind::Tracepoint
                | ProgramKind::TracingTracepoint
                | ProgramKind::RawTracepoint
        );
        let context = self.context;
        let fields = context.fields.iter().filter(|field| field.recorded);
        let named = fields.map(|field| (field.name.clone(), field));
        // What a function returned stands behind its parameters, by a name that none of them has.
        let returned = context.return_value.as_ref();
        let returned = returned.filter(|_| context.program == ProgramKind::Fexit);
        let named: Vec<_> = named
            .chain(returned.map(|value| ("$retval".to_owned(), value)))
            .collect();
        if !of_function || named.is_empty() {
            return None;
        }
        let parts = named
            .into_iter()
            .map(|(name, field)| Ok((name, self.event_field(field, span)?)))
            .collect::<Checked<Vec<_>>>();
        Some(parts.and_then(|parts| self.tuple(parts, span)))
    }

    /// Whether a bare word has a value: a built-in or an enumerator.
    pub(crate) fn is_known_word(&self, name: &str) -> bool {
        let enumerator = || self.btf().is_some_and(|btf| btf.enumerator(name).is_some());
        builtin::find(name).is_some() || enumerator()
    }

    fn unknown_word(&mut self, name: &str, span: Span) -> Reported {
        if builtin::is_later(name) {
            return self.not_yet(span, &format!("\"{name}\""));
        }
        let hint = if self.find_field(name).is_some() {
            Some(format!("did you mean \"args.{name}\"?"))
        } else if self.scopes.iter().any(|scope| scope.contains_key(name)) {
            Some(format!("did you mean the variable \"${name}\"?"))
        } else if self.globals.map(name).is_some() {
            Some(format!("did you mean the map \"@{name}\"?"))
        } else if let Some((_, known)) = ELSEWHERE.iter().find(|(word, _)| *word == name) {
            Some(format!("did you mean \"{known}\"?"))
        } else {
            let fields: Vec<String> = self.field_names().iter().map(|f| format!("args.{f}")).collect();
            let candidates = builtin::names()
                .map(|n| -> &str { n })
                .chain(self.globals.parameters.iter().map(|p| p.name.as_str()))
                .chain(fields.iter().map(String::as_str));
            let otherwise = || {
                format!(
                    "a variable begins with \"$\", a map with \"@\"; a string stands in quotes: \"{name}\""
                )
            };
            did_you_mean(name, candidates).or_else(|| Some(otherwise()))
        };
        self.report(Diagnostic::error(span, format!("Unknown identifier: '{name}'")).maybe_hint(hint))
    }

    /// `args.NAME`, if `base` is `args`; at an iterator also `ctx.NAME`, whose context is a struct of the fields.
    pub(super) fn args_member(
        &mut self,
        base: &ast::Expr,
        name: &Spanned<String>,
        span: Span,
    ) -> Option<Checked<Expr>> {
        let ast::ExprKind::Identifier(word) = &base.kind else {
            return None;
        };
        let of_walk = self.context.program == ProgramKind::Iterator && word == builtin::CTX.name;
        if word != "args" && !of_walk {
            return None;
        }
        Some(match self.find_field(&name.node) {
            Some(field) => self.event_field(field, span),
            None => Err(self.unknown_field(name, span)),
        })
    }

    /// Whether the event is a function of a program's file, whose parameters only debug information knows.
    fn is_of_file(&self) -> bool {
        self.context.probe_type() == event_kind::UPROBE.name
    }

    /// Message that an event has no `args`.
    fn args_are_elsewhere(&self) -> String {
        if self.is_of_file() {
            let event = &self.context.name;
            return format!("{event} has no fields: no debug information (DWARF) describes parameters of it");
        }
        let of_others = ["tracepoint", "rawtracepoint", "fentry", "fexit", "kprobe"];
        if of_others.contains(&self.context.probe_type()) {
            return format!("{} has no fields", self.context.name);
        }
        format!(
            "The args builtin can only be used with tracepoint, rawtracepoint, fentry/fexit, and uprobe probes ({} used here)",
            self.context.probe_type()
        )
    }

    fn unknown_field(&mut self, name: &Spanned<String>, span: Span) -> Reported {
        let names = self.field_names();
        let event = &self.context.name;
        let diagnostic = if names.is_empty() {
            let diagnostic = Diagnostic::error(name.span, self.args_are_elsewhere());
            match (self.context.arguments.is_empty(), self.btf()) {
                _ if self.is_of_file() => diagnostic.hint(UNDESCRIBED),
                (false, None) => {
                    diagnostic.hint("without the kernel's types its arguments are arg0, arg1, …")
                }
                (false, Some(_)) => diagnostic.hint("its arguments are arg0, arg1, …"),
                (true, _) => {
                    diagnostic.hint("\"args\" are the fields of tracepoints and the parameters of functions")
                }
            }
        } else {
            let kind = self.context.probe_type();
            let functions = [
                event_kind::RAW_TRACEPOINT,
                event_kind::FENTRY,
                event_kind::FEXIT,
                event_kind::UPROBE,
            ];
            let message = match kind {
                _ if !self.globals.infers_types => format!("{event} has no field \"{}\"", name.node),
                _ if kind == event_kind::TRACEPOINT.name => format!(
                    "Struct/union of type 'struct {event}_args' does not contain a field named '{}'",
                    name.node
                ),
                _ if functions.iter().any(|known| kind == known.name) => {
                    format!("Can't find function parameter {}", name.node)
                }
                _ => format!("{event} has no field \"{}\"", name.node),
            };
            let place = if self.globals.infers_types {
                span
            } else {
                name.span
            };
            Diagnostic::error(place, message).hint(there_are(&name.node, &names))
        };
        self.report(diagnostic)
    }
}
