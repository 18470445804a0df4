//! Calls of macros: what their bodies are with what the call gives.

use super::rewrite::Expander;
use super::scope::{Call, MacroArgument, Scope};
use crate::builtin::{self, no_definition};
use crate::lang::ast::{Arg, Expr, ExprKind, Macro, MacroParameter, MacroParameterKind, Span, ValueBlock};
use crate::lang::diag::Diagnostic;
use std::collections::BTreeMap;

impl Expander<'_> {
    /// Expansion of a macro call; `None` where the name is none of a macro that could be meant.
    pub(super) fn macro_call(
        &mut self,
        name: &str,
        args: Option<&[Arg]>,
        scope: &Scope<'_>,
        depth: u32,
        span: Span,
    ) -> Option<Expr> {
        let called = args.is_some();
        let args = args.unwrap_or_default();
        let Some(known) = self.macros.find(name, args, scope.in_library()) else {
            let all = self.macros.of_name(name, scope.in_library());
            if all.is_empty() || builtin::find(name).is_some() || !called {
                return None;
            }
            return Some(self.wrong_count(&all, args.len(), span));
        };
        // The compiler's own built-in is preferred to the library's macro, which adds what takes arguments.
        if known.library && args.is_empty() && builtin::find(name).is_some() {
            return None;
        }
        let (macro_, library) = (known.macro_, known.library);
        if scope.is_in(name, library, args.len()) {
            let message = format!("the macro \"{name}\" calls itself");
            let chain = scope.chain(name).join(" > ");
            let known = format!("Recursive macro call detected. Call chain: {chain}");
            let kind = self.error(Diagnostic::error(span, message).known_as(span, known));
            return Some(Expr { kind, span });
        }
        let mut arguments = BTreeMap::new();
        for (parameter, arg) in macro_.parameters.iter().zip(args) {
            let one = self.argument((macro_, span), parameter, &arg.value, scope, depth + 1);
            arguments.insert(parameter.name.as_str(), one);
        }
        self.calls += 1;
        // In the library's macros it is the call that is wrong, and its user did not write them.
        let copy = match library {
            true => None,
            false => self.copies.add(macro_.span, span),
        };
        let inner = Scope::Call(Call {
            name: &macro_.name.node,
            library,
            arguments,
            number: self.calls,
            place: span,
            copy,
            caller: scope,
        });
        self.height = 0;
        self.size = 0;
        if let (Some(value), true) = (&macro_.body.value, macro_.body.statements.is_empty()) {
            return Some(self.expr(value, &inner, depth + 1));
        }
        let block = self.value_block(&macro_.body, &inner, depth + 1);
        let kind = ExprKind::Block(block);
        Some(Expr { kind, span })
    }

    /// Argument of a macro call for one parameter; what does not fit is reported, and stands for itself.
    fn argument(
        &mut self,
        (macro_, call): (&Macro, Span),
        parameter: &MacroParameter,
        value: &Expr,
        scope: &Scope<'_>,
        depth: u32,
    ) -> MacroArgument {
        let (kind, name) = (parameter.kind, parameter.name.as_str());
        let place = scope.place(value.span);
        self.height = 0;
        self.size = 0;
        let expr = self.expr(value, scope, depth);
        let (height, nodes) = (self.height, self.size);
        let wanted = match (kind, &expr.kind) {
            (MacroParameterKind::Variable, ExprKind::Variable(name)) => {
                return MacroArgument::Variable(name.clone());
            }
            (MacroParameterKind::Map, ExprKind::Map { name, keys }) if keys.is_empty() => {
                return MacroArgument::Map(name.clone());
            }
            // A parameter without a sign is a value: of a map without keys, what it holds, as `{ @x }` is.
            (MacroParameterKind::Expression, ExprKind::Map { keys, .. }) if keys.is_empty() => {
                let span = expr.span;
                let block = ValueBlock {
                    statements: Vec::new(),
                    value: Some(Box::new(expr)),
                    span,
                };
                let kind = ExprKind::Block(block);
                return MacroArgument::Expr {
                    expr: Expr { kind, span },
                    height: height + 1,
                    nodes: nodes + 1,
                };
            }
            (MacroParameterKind::Expression, _) => {
                return MacroArgument::Expr { expr, height, nodes };
            }
            (MacroParameterKind::Variable, _) => format!("a variable for ${name}"),
            (MacroParameterKind::Map, _) => format!("a map for @{name}"),
        };
        let own = &macro_.name.node;
        let message =
            format!("the macro \"{own}\" wants {wanted}, which it may change, and no other expression");
        let wrong = Diagnostic::error(place, message).known_as(call, no_definition(own));
        self.error(wrong.label(macro_.span, "its definition"));
        match kind {
            MacroParameterKind::Map => MacroArgument::Map(name.to_owned()),
            _ => MacroArgument::Variable(name.to_owned()),
        }
    }

    fn wrong_count(&mut self, all: &[&Macro], count: usize, span: Span) -> Expr {
        let mut counts: Vec<String> = all.iter().map(|one| one.parameters.len().to_string()).collect();
        counts.sort_unstable();
        counts.dedup();
        let name = all.first().map_or("", |one| &one.name.node);
        let plural = if counts == ["1"] { "" } else { "s" };
        let counts = counts.join(" or ");
        let message = format!("the macro \"{name}\" takes {counts} argument{plural}, not {count}");
        let mut diagnostic = Diagnostic::error(span, message).known_as(span, no_definition(name));
        if let Some(one) = all.first() {
            diagnostic = diagnostic.label(one.name.span, "its definition");
        }
        let kind = self.error(diagnostic);
        Expr { kind, span }
    }
}
