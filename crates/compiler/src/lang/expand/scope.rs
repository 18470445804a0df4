//! Scopes of names: in the script itself, or in the body of a macro that is called.

use crate::lang::ast::{Expr, Span};
use crate::lang::expansion::Copy;
use std::collections::BTreeMap;

/// Argument for a macro's parameter.
#[derive(Debug)]
pub(super) enum MacroArgument {
    /// The variable that it is in the caller.
    Variable(String),
    /// The map that it is in the caller.
    Map(String),
    /// An expression, and how high and how large it is.
    Expr { expr: Expr, height: u32, nodes: u32 },
}

/// Scope of an expression.
pub(super) enum Scope<'a> {
    /// In the script.
    Script,
    /// In the body of a macro.
    Call(Call<'a>),
}

/// A call of a macro.
pub(super) struct Call<'a> {
    pub(super) name: &'a str,
    /// Whether the macro is of the language's own library.
    pub(super) library: bool,
    pub(super) arguments: BTreeMap<&'a str, MacroArgument>,
    /// Suffix of the body's own variables, different for each call.
    pub(super) number: u32,
    /// Place of the call in the script.
    pub(super) place: Span,
    /// The copy of the macro that errors in it are reported in.
    pub(super) copy: Option<Copy>,
    pub(super) caller: &'a Scope<'a>,
}

impl<'a> Scope<'a> {
    /// The place in the script at which errors in this scope are reported.
    pub(super) fn place(&self, own: Span) -> Span {
        match self {
            Self::Script => own,
            Self::Call(call) => call.copy.and_then(|copy| copy.place(own)).unwrap_or(call.place),
        }
    }

    pub(super) fn in_library(&self) -> bool {
        matches!(self, Self::Call(call) if call.library)
    }

    /// The argument for a macro's parameter.
    pub(super) fn argument(&self, name: &str) -> Option<&MacroArgument> {
        match self {
            Self::Script => None,
            Self::Call(call) => call.arguments.get(name),
        }
    }

    /// The name of a variable as the whole script knows it.
    pub(super) fn variable(&self, name: &str) -> String {
        match self {
            Self::Script => name.to_owned(),
            Self::Call(call) => match call.arguments.get(name) {
                Some(MacroArgument::Variable(own)) => own.clone(),
                _ => format!("{name}'{}", call.number),
            },
        }
    }

    /// The name of a map as the whole script knows it; `None` where the body may not know it.
    pub(super) fn map(&self, name: &str) -> Option<String> {
        match self {
            Self::Script => Some(name.to_owned()),
            Self::Call(call) => match call.arguments.get(name) {
                Some(MacroArgument::Map(own)) => Some(own.clone()),
                _ => None,
            },
        }
    }

    /// Whether this is inside the body of a macro, which may not call itself: expansion would never end.
    pub(super) fn is_in(&self, name: &str, library: bool, arity: usize) -> bool {
        match self {
            Self::Script => false,
            Self::Call(call) => {
                (call.name == name && call.library == library && call.arguments.len() == arity)
                    || call.caller.is_in(name, library, arity)
            }
        }
    }

    /// The names of the macros that this is inside of, the outermost first, and `name`, which the innermost calls.
    pub(super) fn chain(&self, name: &str) -> Vec<String> {
        let mut names = match self {
            Self::Script => return vec![name.to_owned()],
            Self::Call(call) => call.caller.chain(call.name),
        };
        names.push(name.to_owned());
        names
    }
}
