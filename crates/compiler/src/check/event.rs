//! `probe` and `func`: the names of events, which programs that serve many of them only know by number.

use super::checker::{Checked, Checker};
use super::tree::{CompareOp, Expr, ExprKind, Intrinsic, Pointer, Show, Type};
use super::value::{comparison, constant};
use crate::builtin;
use crate::context::Member;
use crate::lang::ast::{self, Span};
use crate::lang::diag::{Diagnostic, did_you_mean};
use kestrel_trace::layout::{EventName, Space};

impl Member {
    /// Whether a text names it, in full (`tracepoint:sched:sched_switch`) or as events are shown (`sched:sched_switch`).
    pub(crate) fn is(&self, what: EventName, text: &str) -> bool {
        match what {
            EventName::Function => self.function.as_deref() == Some(text),
            EventName::Event => {
                let kinds = ["tracepoint:", "tp:", "t:"];
                let short = kinds.iter().find_map(|kind| text.strip_prefix(kind));
                self.name == text || short == Some(self.name.as_str())
            }
        }
    }
}

/// Event name that an expression means.
pub(super) fn named(expr: &ast::Expr) -> Option<EventName> {
    match &expr.kind {
        ast::ExprKind::Identifier(word) if word == builtin::PROBE.name => Some(EventName::Event),
        ast::ExprKind::Identifier(word) if word == builtin::FUNC.name => Some(EventName::Function),
        _ => None,
    }
}

impl Checker<'_> {
    /// The kind of the event, as messages name it: of `begin` and its like the name.
    pub(crate) fn probe_word(&self) -> &str {
        match self.context.probe_type() {
            "special" => &self.context.name,
            kind => kind,
        }
    }

    /// The event's number, shown by a name of the event.
    pub(crate) fn event_number(&self, what: EventName, span: Span) -> Expr {
        let ty = Type::Integer {
            size: 8,
            signed: false,
            show: Show::Names(what.unnamed()),
        };
        Expr::new(ExprKind::EventNumber, ty, span)
    }

    /// The address of the traced function, shown by its name.
    pub(crate) fn function_address(&self, span: Span) -> Expr {
        let ty = Type::Pointer(Pointer {
            symbolic: true,
            ..Pointer::untyped(Space::Kernel)
        });
        Expr::new(ExprKind::Intrinsic(Intrinsic::FunctionAddress), ty, span)
    }

    /// `func` as a key of a map: the function's address where the kernel gives it, which takes less than to seek the event's number, and is the same at all
    /// events of the function.
    pub(super) fn key_value(&mut self, key: &ast::Expr) -> Checked<Expr> {
        let named = named(key) == Some(EventName::Function);
        match named && self.globals.infers_types && self.context.features.func_ip {
            true => {
                self.expression(key)?;
                Ok(self.function_address(key.span))
            }
            false => self.kept(key),
        }
    }

    /// The kept form of a map's value: of the event's names its number, whatever serves the event, because other events share the map.
    pub(super) fn kept(&mut self, value: &ast::Expr) -> Checked<Expr> {
        let checked = self.expression(value)?;
        let event = named(value) == Some(EventName::Event) && self.globals.infers_types;
        match &checked.kind {
            // A script's handlers of single events know their names.
            ExprKind::ConstantBytes(_) if event && self.globals.shapes.event_strings() => {
                return Ok(checked);
            }
            ExprKind::EventNumber if event => self.globals.shapes.notes_event_number(),
            _ => {}
        }
        match (named(value), &checked.kind) {
            (Some(what), ExprKind::ConstantBytes(_)) => Ok(self.event_number(what, value.span)),
            // A number whose names are this handler's own says nothing to the others.
            _ => Ok(super::compare::ternary_as_string(checked)),
        }
    }

    /// `probe == "text"` and the like; `None` for what is no such comparison.
    pub(super) fn compare_event(
        &mut self,
        op: CompareOp,
        left: &ast::Expr,
        right: &ast::Expr,
        span: Span,
    ) -> Option<Checked<Expr>> {
        let (what, text, at) = match (named(left), &right.kind, named(right), &left.kind) {
            (Some(what), ast::ExprKind::String(text), ..) => (what, text, right.span),
            (.., Some(what), ast::ExprKind::String(text)) => (what, text, left.span),
            _ => return None,
        };
        let negated = match op {
            CompareOp::Equal => false,
            CompareOp::NotEqual => true,
            _ => return None,
        };
        let context = self.context;
        let one = [Member {
            name: context.name.clone(),
            function: context.function.clone(),
        }];
        let members = match context.members.is_empty() {
            true => &one[..],
            false => &context.members[..],
        };
        if what == EventName::Function && members.iter().any(|member| member.function.is_none()) {
            return None;
        }
        let places = members.iter().filter(|member| member.is(what, text)).count();
        // A pattern or a list may match other events on another kernel: only an event written out is certainly a mistake.
        if places == 0 && self.plain {
            let name = |member: &Member| match what {
                EventName::Event => member.name.clone(),
                EventName::Function => member.function.clone().unwrap_or_default(),
            };
            let names: Vec<String> = members.iter().map(name).collect();
            let hint = match names.as_slice() {
                [only] => Some(format!("it is \"{only}\" here")),
                _ => did_you_mean(text, names.iter().map(String::as_str)),
            };
            let message = "no event of this handler is called so: these are never equal";
            self.report(Diagnostic::warning(at, message).maybe_hint(hint));
        }
        if places == 0 || places == members.len() {
            let holds = (places > 0) != negated;
            return Some(Ok(constant(u64::from(holds), Type::Bool, span)));
        }
        let kind = ExprKind::EventIs {
            what,
            text: text.clone(),
        };
        let is = Expr::new(kind, Type::Bool, span);
        Some(Ok(match negated {
            false => is,
            true => comparison(CompareOp::Equal, false, is, constant(0, Type::Bool, span), span),
        }))
    }
}
