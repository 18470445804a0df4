//! Expansion of macros: walks over a script's syntax tree and makes the expanded tree.

use super::comptime;
use super::inputs::Inputs;
use super::macros::Macros;
use super::option::{NamedOption, Options};
use super::scope::{MacroArgument, Scope};
use crate::builtin;
use crate::lang::ast::{
    Arg, Block, CHAIN_LINKS, EventSpec, Expr, ExprKind, ForRange, Item, Probe, Span, Spanned, Statement,
    StatementKind, Subprogram, Table, ValueBlock,
};
use crate::lang::config::Config;
use crate::lang::diag::Diagnostic;
use crate::lang::expansion::Copies;
use crate::lang::lexer::number_of;
use crate::lang::parse::settled_kind;

/// Greatest height of an expanded tree, so that code that walks it can recurse safely.
pub(super) const HEIGHT: u32 = 256;
/// Most nodes of a tree with macros.
const NODES: u32 = 500_000;

/// Prefix of words that stand for the compiler's built-in, even where a macro has the same name.
const OWN: &str = "__builtin_";

pub(super) struct Expander<'a> {
    pub(super) macros: &'a Macros<'a>,
    pub(super) inputs: &'a Inputs<'a>,
    pub(super) config: &'a Config,
    pub(super) options: Options,
    /// The texts of macros, one for each call.
    pub(super) copies: Copies<'a>,
    pub(super) found: Vec<Diagnostic>,
    /// Calls of macros so far.
    pub(super) calls: u32,
    /// Nodes made so far.
    pub(super) nodes: u32,
    /// Greatest height below the node that is being made.
    pub(super) height: u32,
    /// Nodes below the node that is being made.
    pub(super) size: u32,
    /// Whether the error about too many nodes has been reported.
    refused: bool,
}

/// Result of walking all items.
pub(super) struct Finished {
    pub(super) options: Vec<NamedOption>,
    pub(super) unknown: Vec<String>,
    pub(super) found: Vec<Diagnostic>,
    /// The text of all copies of macros.
    pub(super) copies: String,
}

impl<'a> Expander<'a> {
    pub(super) fn new(
        macros: &'a Macros<'a>,
        inputs: &'a Inputs<'a>,
        config: &'a Config,
        sources: &'a str,
    ) -> Self {
        Self {
            macros,
            inputs,
            config,
            options: Options::default(),
            copies: Copies::new(sources),
            found: Vec::new(),
            calls: 0,
            nodes: 0,
            height: 0,
            size: 0,
            refused: false,
        }
    }

    pub(super) fn finish(self) -> Finished {
        Finished {
            unknown: self.options.unknown(self.inputs.named),
            options: self.options.take(),
            found: self.found,
            copies: self.copies.finish(),
        }
    }

    /// An item as it is after expansion; `None` for one that is no part of the expanded script.
    pub(super) fn item(&mut self, item: &Item) -> Option<Item> {
        Some(match item {
            Item::Probe(probe) => Item::Probe(self.probe(probe)),
            Item::Table(table) => Item::Table(Table {
                name: table.name.clone(),
                parent: table.parent.clone(),
                probes: table.probes.iter().map(|probe| self.probe(probe)).collect(),
            }),
            Item::Subprogram(one) => Item::Subprogram(Subprogram {
                name: one.name.clone(),
                parameters: one
                    .parameters
                    .iter()
                    .map(|(name, ty)| (name.clone(), self.type_name(ty, &Scope::Script, 0)))
                    .collect(),
                result: self.type_name(&one.result, &Scope::Script, 0),
                body: self.block(&one.body, &Scope::Script, 0),
                span: one.span,
            }),
            Item::Map(map) => {
                let mut map = map.clone();
                map.args = map
                    .args
                    .iter()
                    .map(|arg| self.expr(arg, &Scope::Script, 0))
                    .collect();
                Item::Map(map)
            }
            Item::Param(name, value) => Item::Param(name.clone(), self.expr(value, &Scope::Script, 0)),
            Item::Buffer(_) => item.clone(),
            Item::Config(_) | Item::Import(_) | Item::Definition(_) | Item::Macro(_) => return None,
        })
    }

    fn probe(&mut self, probe: &Probe) -> Probe {
        Probe {
            events: probe.events.iter().map(|event| self.event(event)).collect(),
            ..self.handler(probe)
        }
    }

    /// A probe of which only predicate and block are expanded.
    pub(super) fn handler(&mut self, probe: &Probe) -> Probe {
        let scope = &Scope::Script;
        Probe {
            events: probe.events.clone(),
            predicate: probe
                .predicate
                .as_ref()
                .map(|predicate| self.expr(predicate, scope, 0)),
            block: probe.block.as_ref().map(|block| self.block(block, scope, 0)),
            object: probe.object.clone(),
            span: probe.span,
        }
    }

    fn event(&mut self, event: &EventSpec) -> EventSpec {
        let mut event = event.clone();
        for part in &mut event.parts {
            if part.text.contains('$') {
                let offset = part.text.contains("+$");
                part.text = self.in_text(&part.text);
                let cut = part.text.rsplit_once('+').filter(|_| offset);
                if let Some((name, Some(offset))) = cut.map(|(name, digits)| (name, number_of(digits))) {
                    part.offset = Some(offset);
                    part.text = name.to_owned();
                }
            }
        }
        event
    }

    pub(super) fn error(&mut self, diagnostic: Diagnostic) -> ExprKind {
        self.found.push(diagnostic);
        ExprKind::Error
    }

    pub(super) fn block(&mut self, block: &Block, scope: &Scope<'_>, depth: u32) -> Block {
        if depth >= HEIGHT {
            self.too_deep(scope.place(block.span));
            return Block {
                statements: Vec::new(),
                span: scope.place(block.span),
            };
        }
        Block {
            statements: self.statements(&block.statements, scope, depth),
            span: scope.place(block.span),
        }
    }

    pub(super) fn value_block(&mut self, block: &ValueBlock, scope: &Scope<'_>, depth: u32) -> ValueBlock {
        ValueBlock {
            statements: self.statements(&block.statements, scope, depth),
            value: block
                .value
                .as_ref()
                .map(|value| Box::new(self.expr(value, scope, depth + 1))),
            span: scope.place(block.span),
        }
    }

    fn statements(&mut self, all: &[Statement], scope: &Scope<'_>, depth: u32) -> Vec<Statement> {
        let mut out = Vec::with_capacity(all.len());
        for statement in all {
            self.statement(statement, scope, depth + 1, &mut out);
        }
        out
    }

    fn statement(&mut self, statement: &Statement, scope: &Scope<'_>, depth: u32, out: &mut Vec<Statement>) {
        use StatementKind as Kind;
        let span = scope.place(statement.span);
        let name = |name: &Spanned<String>| Spanned {
            node: scope.variable(&name.node),
            span: scope.place(name.span),
        };
        let kind = match &statement.kind {
            // Where the statement was a call of a macro, the macro's body has become a block or an `if`.
            Kind::Expr(expr) => settled_kind(Kind::Expr(self.expr(expr, scope, depth))),
            Kind::Discard(expr) => Kind::Discard(self.expr(expr, scope, depth)),
            Kind::Assign { target, op, value } => Kind::Assign {
                target: self.expr(target, scope, depth),
                op: *op,
                value: self.expr(value, scope, depth),
            },
            Kind::Let { name: own, ty, value } => Kind::Let {
                ty: ty.as_ref().map(|ty| self.type_name(ty, scope, depth)),
                value: value.as_ref().map(|value| self.expr(value, scope, depth)),
                name: name(own),
            },
            Kind::If {
                condition,
                then,
                otherwise,
            } => {
                let known = matches!(condition.kind, ExprKind::Comptime(_));
                let condition = self.expr(condition, scope, depth);
                if let (true, Some(holds)) = (known, comptime::truth(&condition)) {
                    let branch = if holds { Some(then) } else { otherwise.as_ref() };
                    let Some(branch) = branch else { return };
                    Kind::Block(self.block(branch, scope, depth))
                } else {
                    Kind::If {
                        condition,
                        then: self.block(then, scope, depth),
                        otherwise: otherwise.as_ref().map(|block| self.block(block, scope, depth)),
                    }
                }
            }
            Kind::While { condition, body } => Kind::While {
                condition: self.expr(condition, scope, depth),
                body: self.block(body, scope, depth),
            },
            Kind::For {
                name: own,
                over,
                body,
            } => Kind::For {
                over: match over {
                    ForRange::Range(start, end) => {
                        ForRange::Range(self.expr(start, scope, depth), self.expr(end, scope, depth))
                    }
                    ForRange::Map(map) => ForRange::Map(self.expr(map, scope, depth)),
                },
                name: name(own),
                body: self.block(body, scope, depth),
            },
            Kind::Unroll { count, body } => Kind::Unroll {
                count: self.expr(count, scope, depth),
                body: self.block(body, scope, depth),
            },
            Kind::Block(block) => Kind::Block(self.block(block, scope, depth)),
            Kind::Handler { predicate, body } => Kind::Handler {
                predicate: predicate
                    .as_ref()
                    .map(|predicate| self.expr(predicate, scope, depth)),
                body: self.block(body, scope, depth),
            },
            Kind::Return(value) => Kind::Return(value.as_ref().map(|value| self.expr(value, scope, depth))),
            Kind::Break => Kind::Break,
            Kind::Continue => Kind::Continue,
        };
        out.push(Statement { kind, span });
    }

    fn too_deep(&mut self, place: Span) -> ExprKind {
        self.height = 0;
        self.error(Diagnostic::error(
            place,
            "what stands here expands to something that is nested too deeply",
        ))
    }

    /// An expression as it is after expansion; `self.height` is its height then.
    pub(super) fn expr(&mut self, expr: &Expr, scope: &Scope<'_>, depth: u32) -> Expr {
        let span = scope.place(expr.span);
        self.nodes += 1;
        let kind = if depth >= HEIGHT {
            self.too_deep(span)
        } else if self.nodes > NODES && self.calls > 0 {
            self.height = 0;
            if !std::mem::replace(&mut self.refused, true) {
                self.error(Diagnostic::error(span, "the macros here expand to too much"));
            }
            ExprKind::Error
        } else {
            let (height, size) = (std::mem::take(&mut self.height), std::mem::take(&mut self.size));
            let expr = self.expr_inside(expr, scope, depth, span);
            self.height = height.max(self.height + 1);
            self.size = self.size.saturating_add(size).saturating_add(1);
            return expr;
        };
        Expr { kind, span }
    }

    fn boxed(&mut self, expr: &Expr, scope: &Scope<'_>, depth: u32) -> Box<Expr> {
        Box::new(self.expr(expr, scope, depth + 1))
    }

    fn all(&mut self, all: &[Expr], scope: &Scope<'_>, depth: u32) -> Vec<Expr> {
        all.iter().map(|expr| self.expr(expr, scope, depth + 1)).collect()
    }

    fn expr_inside(&mut self, expr: &Expr, scope: &Scope<'_>, depth: u32, span: Span) -> Expr {
        use ExprKind as Kind;
        let kind = match &expr.kind {
            Kind::Integer { .. } | Kind::String(_) | Kind::Bool(_) | Kind::Error => expr.kind.clone(),
            Kind::Identifier(word) => return self.word(word, scope, depth, span),
            Kind::Variable(name) => Kind::Variable(scope.variable(name)),
            Kind::Map { name, keys } => {
                let keys = self.all(keys, scope, depth);
                match scope.map(name) {
                    Some(name) => Kind::Map { name, keys },
                    None => self.foreign_map(name, scope, span),
                }
            }
            Kind::Positional { index, count } => self.positional(*index, *count, span),
            Kind::Call { name, args } => return self.call(name, args, scope, depth, span),
            Kind::Member { base, name, arrow } => match self.setting(base, name, scope) {
                Some(setting) => setting,
                None => Kind::Member {
                    base: self.boxed(base, scope, depth),
                    name: placed(name, scope),
                    arrow: *arrow,
                },
            },
            Kind::Index { base, index } => Kind::Index {
                base: self.boxed(base, scope, depth),
                index: self.boxed(index, scope, depth),
            },
            Kind::Cast { ty, value } => Kind::Cast {
                ty: self.type_name(ty, scope, depth + 1),
                value: self.boxed(value, scope, depth),
            },
            Kind::Unary { op, value } => Kind::Unary {
                op: *op,
                value: self.boxed(value, scope, depth),
            },
            Kind::Binary { op, left, right } => Kind::Binary {
                op: *op,
                left: self.boxed(left, scope, depth),
                right: self.boxed(right, scope, depth),
            },
            Kind::Chain { first, rest } => {
                let depth = depth + CHAIN_LINKS as u32;
                let first = self.boxed(first, scope, depth);
                let rest = rest
                    .iter()
                    .map(|(op, operand)| (*op, self.expr(operand, scope, depth + 1)));
                let rest = rest.collect();
                // As high as its pieces, of which the checker makes trees.
                self.height += CHAIN_LINKS as u32;
                Kind::Chain { first, rest }
            }
            Kind::Ternary {
                condition,
                then,
                otherwise,
            } => Kind::Ternary {
                condition: self.boxed(condition, scope, depth),
                then: then.as_ref().map(|then| self.boxed(then, scope, depth)),
                otherwise: self.boxed(otherwise, scope, depth),
            },
            Kind::Step {
                target,
                increment,
                prefix,
            } => Kind::Step {
                target: self.boxed(target, scope, depth),
                increment: *increment,
                prefix: *prefix,
            },
            Kind::Tuple(all) => Kind::Tuple(self.all(all, scope, depth)),
            Kind::Record(all) => Kind::Record(
                all.iter()
                    .map(|(name, value)| (placed(name, scope), self.expr(value, scope, depth + 1)))
                    .collect(),
            ),
            Kind::Block(block) => Kind::Block(self.value_block(block, scope, depth + 1)),
            Kind::If {
                condition,
                then,
                otherwise,
            } => {
                // Only `if (comptime …)` drops a branch: of any other condition both are checked, whatever it happens to be.
                let known = matches!(condition.kind, ExprKind::Comptime(_));
                let condition = self.boxed(condition, scope, depth);
                match comptime::truth(&condition).filter(|_| known) {
                    Some(true) => return self.branch(then, scope, depth, span),
                    Some(false) => match otherwise {
                        Some(otherwise) => return self.branch(otherwise, scope, depth, span),
                        None => Kind::Block(ValueBlock {
                            statements: Vec::new(),
                            value: None,
                            span,
                        }),
                    },
                    None => Kind::If {
                        condition,
                        then: self.value_block(then, scope, depth + 1),
                        otherwise: otherwise
                            .as_ref()
                            .map(|block| self.value_block(block, scope, depth + 1)),
                    },
                }
            }
            Kind::Comptime(value) => {
                let value = self.boxed(value, scope, depth);
                match comptime::literal(&value) {
                    Some(kind) => kind,
                    None => Kind::Comptime(value),
                }
            }
            Kind::Sizeof(of) => Kind::Sizeof(self.operand(of, scope, depth)),
            Kind::Typeof(of) => Kind::Typeof(self.operand(of, scope, depth)),
            Kind::Typeinfo(of) => Kind::Typeinfo(self.operand(of, scope, depth)),
            Kind::Offsetof { of, path } => Kind::Offsetof {
                of: self.operand(of, scope, depth),
                path: self.path(path, scope, depth),
            },
        };
        Expr { kind, span }
    }

    /// The block of an `if` whose condition is known, in the place of the `if`.
    fn branch(&mut self, block: &ValueBlock, scope: &Scope<'_>, depth: u32, span: Span) -> Expr {
        if let (Some(value), true) = (&block.value, block.statements.is_empty()) {
            return self.expr(value, scope, depth + 1);
        }
        let kind = ExprKind::Block(self.value_block(block, scope, depth + 1));
        Expr { kind, span }
    }

    /// Expands a word: a parameter of the macro, a macro without parameters, or the word itself.
    fn word(&mut self, word: &str, scope: &Scope<'_>, depth: u32, span: Span) -> Expr {
        match scope.argument(word) {
            Some(MacroArgument::Expr { expr, height, nodes }) => {
                self.nodes = self.nodes.saturating_add(*nodes);
                if depth + height > HEIGHT {
                    let kind = self.too_deep(span);
                    return Expr { kind, span };
                }
                self.height = *height;
                self.size = *nodes;
                return expr.clone();
            }
            // In the body of a macro with a parameter `$x` or `@x`, a plain `x` is not the parameter.
            Some(MacroArgument::Variable(_) | MacroArgument::Map(_)) | None => {}
        }
        let own = word.strip_prefix(OWN);
        if own.is_none()
            && let Some(expr) = self.macro_call(word, None, scope, depth, span)
        {
            return expr;
        }
        let word = own.unwrap_or(word);
        let kind = match matches!(word, "config" | "default_str_length") {
            true => self.expand_builtin_call(word, &[], scope, depth, span),
            false => None,
        };
        Expr {
            kind: kind.unwrap_or_else(|| ExprKind::Identifier(word.to_owned())),
            span,
        }
    }

    fn call(
        &mut self,
        name: &Spanned<String>,
        args: &[Arg],
        scope: &Scope<'_>,
        depth: u32,
        span: Span,
    ) -> Expr {
        let own = name.node.strip_prefix(OWN);
        if own.is_none()
            && let Some(expr) = self.macro_call(&name.node, Some(args), scope, depth, span)
        {
            return expr;
        }
        let word = own.unwrap_or(&name.node);
        if let Some(kind) = self.expand_builtin_call(word, args, scope, depth, span) {
            return Expr { kind, span };
        }
        let mut expanded: Vec<Arg> = Vec::with_capacity(args.len());
        for arg in args {
            let value = self.expr(&arg.value, scope, depth + 1);
            let mut given = arg.name.as_ref().map(|name| placed(name, scope));
            if given.is_none() && word == builtin::RECORD.name {
                let of_macro = macro_name(&arg.value, &value).filter(|name| scope.argument(name).is_none());
                let is_free = |name: &&str| {
                    let before = expanded.iter().chain(args).filter_map(|arg| arg.name.as_ref());
                    before.into_iter().all(|taken| taken.node != **name)
                };
                given = of_macro.filter(is_free).map(|node| Spanned {
                    node: node.to_owned(),
                    span: value.span,
                });
            }
            expanded.push(Arg { name: given, value });
        }
        let kind = ExprKind::Call {
            name: Spanned {
                node: word.to_owned(),
                span: scope.place(name.span),
            },
            args: expanded,
        };
        Expr { kind, span }
    }

    fn foreign_map(&mut self, name: &str, scope: &Scope<'_>, span: Span) -> ExprKind {
        let own = match scope {
            Scope::Call(call) => call.name,
            Scope::Script => "",
        };
        let message = format!("the macro \"{own}\" uses @{name}, which is none of its parameters");
        let hint = format!("give it the map: macro {own}(…, @{name}), {own}(…, @map)");
        let known =
            format!("Unhygienic access to map: @{name}. Maps must be passed into the macro as arguments.");
        self.error(Diagnostic::error(span, message).known_as(span, known).hint(hint))
    }
}

/// The macro that a value was written as and that it was expanded from: a record's field bears its name (`record(ppid)`).
fn macro_name<'e>(written: &'e Expr, expanded: &Expr) -> Option<&'e str> {
    let name_of = |expr: &'e Expr| match &expr.kind {
        ExprKind::Identifier(name) => Some(name.as_str()),
        ExprKind::Call { name, .. } => Some(name.node.as_str()),
        _ => None,
    };
    let is_same = matches!(
        (&written.kind, &expanded.kind),
        (ExprKind::Identifier(_), ExprKind::Identifier(_)) | (ExprKind::Call { .. }, ExprKind::Call { .. })
    );
    name_of(written).filter(|name| !is_same && !name.starts_with(OWN))
}

/// A name at the place in the script at which errors in a scope are reported.
fn placed(name: &Spanned<String>, scope: &Scope<'_>) -> Spanned<String> {
    Spanned {
        node: name.node.clone(),
        span: scope.place(name.span),
    }
}
