//! `getopt("name", default, "help")`: options of the script itself.

use super::comptime;
use super::positional::signed;
use super::rewrite::Expander;
use super::scope::Scope;
use crate::builtin;
use crate::lang::ast::{Arg, Expr, ExprKind, Span, Spanned, UnaryOp};
use crate::lang::diag::Diagnostic;

/// An option that a script asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedOption {
    /// Name of the option, without dashes.
    pub name: String,
    /// The default, as it is written; `None` for a flag.
    pub default: Option<String>,
    /// Description in the script.
    pub help: Option<String>,
}

/// All options that a script declares.
#[derive(Default)]
pub(super) struct Options {
    all: Vec<NamedOption>,
}

impl Options {
    /// Options that are given and not asked for.
    pub(super) fn unknown(&self, named: &[(String, Option<String>)]) -> Vec<String> {
        let names = named.iter().map(|(name, _)| name);
        names
            .filter(|name| !self.all.iter().any(|option| option.name == **name))
            .cloned()
            .collect()
    }

    pub(super) fn take(self) -> Vec<NamedOption> {
        self.all
    }

    /// Adds an option; the default that it has elsewhere, if that is another.
    fn add(&mut self, option: NamedOption) -> Result<(), Option<String>> {
        match self.all.iter_mut().find(|known| known.name == option.name) {
            Some(known) if known.default != option.default => return Err(known.default.clone()),
            Some(known) => known.help = known.help.take().or(option.help),
            None => self.all.push(option),
        }
        Ok(())
    }
}

impl Expander<'_> {
    /// Expands a call that needs no types (`getopt()`, `str()` of a positional parameter, `config()`, …); `None` for all others.
    pub(super) fn expand_builtin_call(
        &mut self,
        name: &str,
        args: &[Arg],
        scope: &Scope<'_>,
        depth: u32,
        span: Span,
    ) -> Option<ExprKind> {
        match name {
            "getopt" => Some(self.getopt(args, scope, depth, span)),
            name if name == builtin::STR.name => {
                let text = self.text_of_positional(&args.first()?.value)?;
                let [first, more @ ..] = args else { return None };
                if more.is_empty() {
                    return Some(text);
                }
                let mut all = vec![Arg {
                    name: None,
                    value: Expr {
                        kind: text,
                        span: scope.place(first.value.span),
                    },
                }];
                for arg in more {
                    all.push(Arg {
                        name: arg.name.clone(),
                        value: self.expr(&arg.value, scope, depth + 1),
                    });
                }
                Some(ExprKind::Call {
                    name: Spanned {
                        node: name.to_owned(),
                        span,
                    },
                    args: all,
                })
            }
            // Settings are literals.
            "config" if args.is_empty() => {
                let values = self.config.values().into_iter();
                let element = |(name, kind): (&str, ExprKind)| {
                    let node = name.to_owned();
                    (Spanned { node, span }, Expr { kind, span })
                };
                Some(ExprKind::Record(values.map(element).collect()))
            }
            "default_str_length" if args.is_empty() => Some(ExprKind::Integer {
                value: self.config.max_strlen,
                unsigned: false,
            }),
            "is_literal" => {
                let [Arg { value, .. }] = args else { return None };
                let value = self.expr(value, scope, depth + 1);
                Some(ExprKind::Bool(comptime::is_literal(&value)))
            }
            _ => None,
        }
    }

    /// `config.name`, `config().name`: a setting as a literal.
    pub(super) fn setting(&self, base: &Expr, name: &Spanned<String>, scope: &Scope<'_>) -> Option<ExprKind> {
        let word = match &base.kind {
            ExprKind::Identifier(word) => word,
            ExprKind::Call { name, args } if args.is_empty() => &name.node,
            _ => return None,
        };
        if word != "config" || scope.argument(word).is_some() {
            return None;
        }
        let mut values = self.config.values().into_iter();
        values.find(|(own, _)| *own == name.node).map(|(_, value)| value)
    }

    fn getopt(&mut self, args: &[Arg], scope: &Scope<'_>, depth: u32, span: Span) -> ExprKind {
        let values: Vec<Expr> = args
            .iter()
            .map(|arg| self.expr(&arg.value, scope, depth + 1))
            .collect();
        let (name, default, help) = match values.as_slice() {
            [name] => (name, None, None),
            [name, default] => (name, Some(default), None),
            [name, default, help] => (name, Some(default), Some(help)),
            _ => {
                let message = "getopt wants a name, a default and a help text";
                let hint =
                    "getopt(\"limit\", 10, \"how many\"); without a default it is true where it is given";
                return self.error(Diagnostic::error(span, message).hint(hint));
            }
        };
        let ExprKind::String(name) = &name.kind else {
            return self.error(Diagnostic::error(
                name.span,
                "First argument to 'getopt' must be a string literal.",
            ));
        };
        let help = match help.map(|help| (&help.kind, help.span)) {
            None => None,
            Some((ExprKind::String(text), _)) => Some(text.clone()),
            Some((_, place)) => {
                return self.error(Diagnostic::error(
                    place,
                    "the help text of getopt() must be a string in quotes",
                ));
            }
        };
        let given = self.inputs.named.iter().rfind(|(known, _)| known == name);
        let given = given.map(|(_, value)| value.as_deref());
        let (written, answer) = match default.map(|default| (&default.kind, default)) {
            None => (None, truth(given.unwrap_or(Some("false")))),
            Some((ExprKind::Bool(value), _)) => (
                Some(value.to_string()),
                given.map_or(Ok(ExprKind::Bool(*value)), truth),
            ),
            Some((ExprKind::String(text), default)) => (
                Some(format!("{text:?}")),
                match given {
                    None => Ok(default.kind.clone()),
                    Some(Some(text)) => Ok(ExprKind::String(text.to_owned())),
                    Some(None) => Err("string"),
                },
            ),
            Some((kind, default)) => match number_text(kind) {
                Some(text) => (
                    Some(text),
                    match given {
                        None => Ok(kind.clone()),
                        Some(text) => text.and_then(|text| signed(text, span)).ok_or("integer"),
                    },
                ),
                None => {
                    let message = "Second argument to 'getopt' must be a string literal, integer literal, or a boolean literal.";
                    return self.error(Diagnostic::error(default.span, message));
                }
            },
        };
        let added = self.options.add(NamedOption {
            name: name.clone(),
            default: written,
            help,
        });
        if let Err(previous) = added {
            let previous = previous.unwrap_or_else(|| "none".to_owned());
            let message = format!(
                "Command line option '{name}' needs to have the same default value in all places it is used. Previous default value: {previous}"
            );
            return self.error(Diagnostic::error(span, message));
        }
        answer.unwrap_or_else(|wanted| {
            let (value, number) = match given.flatten() {
                Some(value) => (value, value.trim_start_matches('-')),
                None => ("true", "true"),
            };
            let wrong = match wanted {
                "boolean" => "expects a boolean (e.g. 'true')",
                "integer" if given.flatten().is_none() => "expects an integer",
                "integer" if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
                    "value is out of range"
                }
                "integer" if number.starts_with(|first: char| first.is_ascii_digit()) => {
                    "invalid trailing bytes"
                }
                "integer" => "invalid integer",
                _ => "expects a string",
            };
            // The words that scripts' tests know.
            let message = format!("program command line option --{name} {wrong} (value: {value})");
            // The command line is wrong, and no place of the text.
            self.error(Diagnostic::error(Span::NOWHERE, message))
        })
    }
}

/// Value of `--name` or `--name=value` for an option that is given or not.
fn truth(value: Option<&str>) -> Result<ExprKind, &'static str> {
    match value {
        None => Ok(ExprKind::Bool(true)),
        Some(word) => match word.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(ExprKind::Bool(true)),
            "false" | "no" | "off" | "0" => Ok(ExprKind::Bool(false)),
            _ => Err("boolean"),
        },
    }
}

fn number_text(kind: &ExprKind) -> Option<String> {
    match kind {
        ExprKind::Integer { value, .. } => Some(value.to_string()),
        ExprKind::Unary {
            op: UnaryOp::Negate,
            value,
        } => Some(format!("-{}", number_text(&value.kind)?)),
        _ => None,
    }
}
