//! The macros of a script and of the library, by name.

use crate::builtin;
use crate::lang::ast::{Arg, ExprKind, Macro, MacroParameterKind, Span};
use crate::lang::diag::Diagnostic;
use std::collections::BTreeMap;

/// A macro and where it comes from.
#[derive(Debug)]
pub(super) struct OriginatedMacro<'a> {
    pub(super) macro_: &'a Macro,
    /// Whether it is from the library, and not from the script.
    pub(super) library: bool,
}

/// All macros by name. Those of one name differ in the kinds of their parameters.
#[derive(Debug, Default)]
pub(super) struct Macros<'a> {
    by_name: BTreeMap<&'a str, Vec<OriginatedMacro<'a>>>,
}

impl<'a> Macros<'a> {
    /// Adds a macro; reports an error if there is one of the same name, origin and kinds of parameters.
    pub(super) fn add(&mut self, macro_: &'a Macro, library: bool, found: &mut Vec<Diagnostic>) {
        for (index, parameter) in macro_.parameters.iter().enumerate() {
            let again = macro_.parameters[..index]
                .iter()
                .find(|other| other.name == parameter.name);
            if let Some(first) = again {
                let message = format!("\"{}\" is a parameter twice", parameter.name);
                let known = format!(
                    "Ident for macro argument has already been used: {}",
                    parameter.name
                );
                let wrong = Diagnostic::error(parameter.span, message).known_as(parameter.span, known);
                found.push(wrong.label(first.span, "here"));
            }
        }
        let all = self.by_name.entry(&macro_.name.node).or_default();
        let same = all
            .iter()
            .find(|known| known.library == library && kinds(known.macro_) == kinds(macro_));
        if let Some(first) = same {
            let message = format!(
                "there is a macro \"{}\" already that takes the same",
                macro_.name.node
            );
            let head = Span {
                start: macro_.span.start,
                end: macro_.name.span.end,
            };
            let known = format!("Redefinition of macro: {}", macro_.name.node);
            let wrong = Diagnostic::error(macro_.name.span, message).known_as(head, known);
            found.push(wrong.label(first.macro_.name.span, "here"));
            return;
        }
        all.push(OriginatedMacro { macro_, library });
    }

    /// The macro that a call means, of those with its name and number of parameters: one that takes these arguments before one that does not, one of the
    /// script before one of the library, then the one with the most parameters of exactly the kind. Macros of the library do not see those of scripts.
    pub(super) fn find(&self, name: &str, args: &[Arg], from_library: bool) -> Option<&OriginatedMacro<'a>> {
        let fitting = |known: &&OriginatedMacro<'a>| {
            known.macro_.parameters.len() == args.len() && (known.library || !from_library)
        };
        let all = self.by_name.get(name)?.iter().filter(fitting);
        all.max_by_key(|known| {
            let exact = known
                .macro_
                .parameters
                .iter()
                .zip(args)
                .filter(|(parameter, arg)| fits(parameter.kind, &arg.value.kind) == Some(true))
                .count();
            let wrong = known
                .macro_
                .parameters
                .iter()
                .zip(args)
                .any(|(parameter, arg)| fits(parameter.kind, &arg.value.kind).is_none());
            (!wrong, !known.library, exact)
        })
    }

    /// Whether there is a macro of that name, and no built-in, that is called with or without parentheses.
    pub(super) fn is_known(&self, name: &str, called: bool) -> bool {
        let known = self.by_name.get(name).into_iter().flatten();
        let mut known = known.filter(|one| called || one.macro_.parameters.is_empty());
        known.next().is_some() && builtin::find(name).is_none()
    }

    /// All macros of that name, whatever their parameters.
    pub(super) fn of_name(&self, name: &str, from_library: bool) -> Vec<&'a Macro> {
        let all = self.by_name.get(name).into_iter().flatten();
        all.filter(|known| known.library || !from_library)
            .map(|known| known.macro_)
            .collect()
    }
}

/// Whether a parameter takes an argument: `Some(true)` if it takes only that kind, `Some(false)` if it takes any expression, `None` if it does not.
fn fits(parameter: MacroParameterKind, arg: &ExprKind) -> Option<bool> {
    match (parameter, arg) {
        (MacroParameterKind::Expression, _) => Some(false),
        (MacroParameterKind::Variable, ExprKind::Variable(_)) => Some(true),
        (MacroParameterKind::Map, ExprKind::Map { keys, .. }) if keys.is_empty() => Some(true),
        _ => None,
    }
}

fn kinds(one: &Macro) -> Vec<MacroParameterKind> {
    one.parameters.iter().map(|parameter| parameter.kind).collect()
}
