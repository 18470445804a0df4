//! Checks statements and blocks: scratch variables, branches, loops, records.

use super::checker::{Checked, Checker, Reported};
use super::effect::choice_of_statements;
use super::leaving::{leaves, unreachable};
use super::phrase::Refused;
use super::tree::{Access, Expr, ExprKind, Statement, StatementKind, Type, Variable, VariableId};
use super::value::STRING;
use crate::lang::ast::{self, Block, ExprKind as Kind, Span, Spanned, StatementKind as Written};
use crate::lang::diag::{Diagnostic, did_you_mean};
use std::collections::HashMap;

/// Most repetitions that `unroll` may make, nested ones multiplied.
const UNROLL: u64 = 1000;
/// Most repetitions of one `unroll` of a script, as in bpftrace.
const UNROLLED: u64 = 100;

/// Lets the pointers of a written type lead where those of the value do: words do not say whose memory is meant.
fn lead_as(written: &mut Type, value: &Type) {
    match (written, value) {
        (Type::Pointer(written), Type::Pointer(value)) => written.space = value.space,
        (Type::Array { element: written, .. }, Type::Array { element: value, .. }) => lead_as(written, value),
        _ => {}
    }
}

/// The name of a variable as it was written: expansion appends `'N` to the names of a macro's.
pub(super) fn as_written(name: &str) -> &str {
    name.split('\'').next().unwrap_or(name)
}

impl Checker<'_> {
    /// The statements of a block, in a scope of its own.
    pub(super) fn block(&mut self, block: &Block) -> Vec<Statement> {
        self.scopes.push(HashMap::new());
        let mut all = Vec::new();
        if let Some(unreachable) = unreachable(&block.statements) {
            let message = "Unreachable statement.";
            self.report(Diagnostic::warning(unreachable.span, message));
        }
        for statement in &block.statements {
            // The error has been reported; the other statements are still checked.
            let _reported = self.statement(statement, &mut all);
        }
        self.scopes.pop();
        all
    }

    /// A branch, which may be one that is known not to be reached.
    fn branch(&mut self, unreached: bool, block: &Block) -> Vec<Statement> {
        self.unreached += u32::from(unreached);
        let inner = self.block(block);
        self.unreached -= u32::from(unreached);
        inner
    }

    pub(super) fn statement(&mut self, statement: &ast::Statement, all: &mut Vec<Statement>) -> Checked<()> {
        let span = statement.span;
        let kind = match &statement.kind {
            Written::Expr(expr) | Written::Discard(expr) => {
                if let Some(kind) = choice_of_statements(expr) {
                    return self.statement(&ast::Statement { kind, span }, all);
                }
                let meant = matches!(statement.kind, Written::Discard(_));
                match self.effect(expr, meant)? {
                    Some(kind) => kind,
                    None => return Ok(()),
                }
            }
            Written::Assign { target, op, value } => self.assign(target, *op, value, span)?,
            Written::Let { name, ty, value } => self.declare(name, ty.as_ref(), value.as_ref(), span)?,
            Written::If {
                condition,
                then,
                otherwise,
            } => {
                if let Kind::Comptime(_) = condition.kind {
                    // Only what is chosen is looked at: the other may not fit the types that were asked for.
                    let chosen = self.condition(condition)?.constant();
                    let chosen = match chosen {
                        Some(0) => otherwise.as_ref(),
                        _ => Some(then),
                    };
                    let inner = chosen.map_or_else(Vec::new, |chosen| self.block(chosen));
                    all.extend(inner);
                    return Ok(());
                }
                let condition = self.condition(condition);
                let known = condition.as_ref().ok().and_then(Expr::constant);
                let then = self.branch(known == Some(0), then);
                let never = known.is_some_and(|known| known != 0);
                let otherwise = otherwise
                    .as_ref()
                    .map_or_else(Vec::new, |b| self.branch(never, b));
                // The branches are checked even if the condition is wrong: their mistakes are reported, too.
                let condition = condition?;
                StatementKind::If {
                    condition,
                    then,
                    otherwise,
                }
            }
            Written::Block(block) => {
                let inner = self.block(block);
                all.extend(inner);
                return Ok(());
            }
            Written::Handler { predicate, body } => {
                let condition = predicate.as_ref().map(|predicate| self.condition(predicate));
                let then = self.block(body);
                StatementKind::Handler(match condition.transpose()? {
                    None => then,
                    Some(condition) => {
                        let kind = StatementKind::If {
                            condition,
                            then,
                            otherwise: Vec::new(),
                        };
                        vec![Statement { kind, span }]
                    }
                })
            }
            Written::Unroll { count, body } => return self.unroll(count, body, span, all),
            Written::Return(value) => {
                if let Some(value) = value {
                    let value = self.operand(value)?;
                    if !value.ty.is_scalar() {
                        let found = self.spelled_value(&value);
                        let message = format!("Probe return values can only be integers. Found {found}");
                        return Err(self.error(span, message));
                    }
                    all.extend(self.verdict(value, span)?);
                }
                StatementKind::Return
            }
            Written::While { condition, body } => {
                if self.globals.infers_types {
                    let message = "While loops are deprecated and may be removed in the future.";
                    let hint = "for loops go over ranges, too, and their end is seen by the kernel: for ($x : 0..10) { … }";
                    self.report(Diagnostic::warning(span, message).hint(hint));
                }
                let condition = self.condition(condition);
                let body = self.looped(body);
                self.endless(condition?, body)
            }
            Written::For { name, over, body } => self.count_loop(name, over, body, span)?,
            Written::Break | Written::Continue if self.loops == 0 => {
                let word = match statement.kind {
                    Written::Break => "break",
                    _ => "continue",
                };
                let message = format!("'{word}' statement is not allowed in a probe outside of a loop");
                return Err(self.report(
                    Diagnostic::error(span, message)
                        .hint("break and continue stand in while and for; return leaves a handler"),
                ));
            }
            Written::Break => StatementKind::Break,
            Written::Continue => StatementKind::Continue,
        };
        all.push(Statement { kind, span });
        Ok(())
    }

    fn unroll(
        &mut self,
        count: &ast::Expr,
        body: &Block,
        span: Span,
        all: &mut Vec<Statement>,
    ) -> Checked<()> {
        let value = self.operand(count)?;
        let times = match value.constant().filter(|_| value.ty.is_scalar()) {
            Some(times) if times.cast_signed() >= 0 => times,
            _ => {
                let hint = "how often is a number that is known before the program runs: unroll(3)";
                return Err(self.report(Diagnostic::error(span, "invalid unroll value").hint(hint)));
            }
        };
        if times == 0 {
            return Err(self.error(span, "unroll minimum value is 1"));
        }
        if self.globals.infers_types && times > UNROLLED {
            let message = format!("unroll maximum value is {UNROLLED}");
            let hint = format!("a loop takes any number: for $i : 0..{times} {{ … }}");
            return Err(self.report(Diagnostic::error(span, message).hint(hint)));
        }
        let outer = self.repeats;
        self.repeats = outer.saturating_mul(times.max(1));
        if self.repeats > UNROLL {
            self.repeats = outer;
            let message = format!("this unrolls to more than {UNROLL} repetitions");
            return Err(self.error(count.span, message));
        }
        for _ in 0..times {
            let inner = self.block(body);
            all.extend(inner);
        }
        self.repeats = outer;
        Ok(())
    }

    /// Refuses a name that a variable of the block, or of one around it, has: which is meant would be a guess.
    pub(super) fn unshadowed(&mut self, name: &Spanned<String>, message: String) -> Checked<()> {
        let known = self
            .find_variable(&name.node)
            .filter(|_| self.globals.infers_types);
        let Some(place) = known.and_then(|known| self.declared.get(&known).copied()) else {
            return Ok(());
        };
        let found = Diagnostic::error(name.span, message).label(place, "This is the initial declaration.");
        Err(self.report(found.hint("give one of them another name")))
    }

    pub(super) fn find_variable(&self, name: &str) -> Option<VariableId> {
        self.scopes
            .iter()
            .rev()
            .find_map(|scope| scope.get(name).copied())
    }

    pub(super) fn variable_type(&self, id: VariableId) -> Type {
        self.variables
            .get(id.0 as usize)
            .map_or(Type::U64, |v| v.ty.clone())
    }

    /// `$name` as a value.
    pub(super) fn variable(&mut self, name: &str, span: Span) -> Checked<Expr> {
        let Some(id) = self.find_variable(name) else {
            if self.without_value.contains(name) {
                // The value that should be stored in it is wrong, and was reported.
                return Err(Reported);
            }
            let known: Vec<String> = self.scopes.iter().flat_map(|s| s.keys().cloned()).collect();
            let written = as_written(name);
            let elsewhere = self.variables.iter().any(|v| v.name == name);
            let of_caller = name != written && self.find_variable(written).is_some();
            let hint = if of_caller {
                Some(format!(
                    "a macro has variables of its own, and those that it is given: macro NAME(…, ${written})"
                ))
            } else if elsewhere {
                Some(
                    "a variable lives in the block where it is first set: set it before that block"
                        .to_owned(),
                )
            } else {
                did_you_mean(name, known.iter().map(String::as_str)).or_else(|| {
                    Some(format!(
                        "set it first: ${written} = 0, or declare it: let ${written}"
                    ))
                })
            };
            let message = format!("Undefined or undeclared variable: ${written}");
            return Err(self.report(Diagnostic::error(span, message).maybe_hint(hint)));
        };
        if self.undecided.contains(&id) && self.without_value.contains(name) {
            return Err(Reported);
        }
        let ty = self.variable_type(id);
        let is_stored = !self.unset.contains(&id) && !self.undecided.contains(&id);
        if self.is_read && !is_stored && self.globals.infers_types && self.read_early.insert(id) {
            let written = as_written(name);
            let message = format!("Variable used before it was assigned: ${written}");
            self.report(Diagnostic::warning(span, message));
        }
        if ty.is_scalar() {
            return Ok(Expr::new(ExprKind::Variable(id), ty, span));
        }
        let address = Expr::new(ExprKind::VariableAddress(id), Type::hexadecimal(8), span);
        let kind = ExprKind::Bytes {
            address: Box::new(address),
            offset: 0,
            size: self.size_of(&ty).unwrap_or_default(),
            access: Access::Context,
        };
        Ok(Expr::new(kind, ty, span))
    }

    /// Refuses to read variables that are declared without a type and never assigned to.
    pub(super) fn refuse_reads_without_type(&mut self, undecided: &[VariableId]) {
        let read = undecided.iter().filter(|id| self.read_early.contains(id));
        let declared: Vec<Span> = read.filter_map(|id| self.declared.get(id).copied()).collect();
        for place in declared {
            let diagnostic = Diagnostic::error(place, "Could not resolve the type of this variable");
            self.report(diagnostic.hint("nothing is ever assigned to it: declare its type, let $a: int64"));
        }
    }

    /// A variable that is first set at a place: it holds what all its uses have shown that it must.
    pub(super) fn new_variable(&mut self, name: &str, ty: Type, declared: Span) -> VariableId {
        let id = VariableId(u32::try_from(self.variables.len()).unwrap_or(u32::MAX));
        let ty = self.variable_shape(name, declared, ty);
        let size = self.size_of(&ty).unwrap_or(8);
        self.declared.insert(id, declared);
        self.variables.push(Variable {
            name: name.to_owned(),
            ty,
            size,
        });
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), id);
        }
        id
    }

    /// Whether what is checked now is repeated.
    pub(crate) fn is_in_loop(&self) -> bool {
        self.loops > 0
    }

    /// The body of a loop.
    pub(super) fn looped(&mut self, body: &Block) -> Vec<Statement> {
        self.loops += 1;
        let body = self.block(body);
        self.loops -= 1;
        body
    }

    /// A variable that no text can name.
    pub(crate) fn hidden_variable(&mut self, name: &str, ty: Type) -> VariableId {
        let id = VariableId(u32::try_from(self.variables.len()).unwrap_or(u32::MAX));
        let size = self.size_of(&ty).unwrap_or(8);
        self.variables.push(Variable {
            name: format!("({name})"),
            ty,
            size,
        });
        id
    }

    /// `target++`, `--target`: the value is that from before the change, or with `prefix` from behind it.
    pub(super) fn stepped(
        &mut self,
        target: &ast::Expr,
        increment: bool,
        prefix: bool,
        span: Span,
    ) -> Checked<Expr> {
        let op = match increment {
            true => ast::BinaryOp::Add,
            false => ast::BinaryOp::Subtract,
        };
        let one = ast::Expr {
            kind: Kind::Integer {
                value: 1,
                unsigned: false,
            },
            span,
        };
        let change = self.assign(target, Some(op), &one, span)?;
        let value = self.scalar(target)?;
        let kept = self.hidden_variable("before", value.ty.clone());
        let ty = value.ty.clone();
        let keep = Statement {
            kind: StatementKind::Set {
                variable: kept,
                value,
            },
            span,
        };
        let change = Statement { kind: change, span };
        let statements = match prefix {
            true => vec![change, keep],
            false => vec![keep, change],
        };
        let value = Box::new(Expr::new(ExprKind::Variable(kept), ty.clone(), span));
        Ok(Expr::new(ExprKind::Sequence { statements, value }, ty, span))
    }

    /// `{ statement…; value }` as a value.
    pub(super) fn value_block(&mut self, block: &ast::ValueBlock) -> Checked<Expr> {
        self.scopes.push(HashMap::new());
        let mut statements = Vec::new();
        for statement in &block.statements {
            let _reported = self.statement(statement, &mut statements);
        }
        if let Some(value) = &block.value
            && block.statements.iter().any(leaves)
        {
            let message = "Unreachable expression: what stands before it leaves the block";
            self.report(Diagnostic::warning(value.span, message));
        }
        let value = match &block.value {
            Some(value) => self.expression(value),
            None => Err(self.error(
                block.span,
                "this block has no value: its last expression stands without a semicolon",
            )),
        };
        self.scopes.pop();
        let value = value?;
        if statements.is_empty() {
            return Ok(value);
        }
        let (ty, span) = (value.ty.clone(), block.span);
        let value = Box::new(value);
        Ok(Expr::new(ExprKind::Sequence { statements, value }, ty, span))
    }

    /// `target = value`, `target += value`.
    pub(super) fn assign(
        &mut self,
        target: &ast::Expr,
        op: Option<ast::BinaryOp>,
        value: &ast::Expr,
        span: Span,
    ) -> Checked<StatementKind> {
        let name = match &target.kind {
            Kind::Variable(name) => name,
            Kind::Map { name, keys } => return self.assign_map(name, keys, op, target, value, span),
            Kind::Member { .. } | Kind::Index { .. } => {
                let message = "Tuples and records are immutable once created. Consider creating a new value and assigning it instead.";
                let hint = "so are parts of structs and arrays; a new value is $x = (1, $x.1)";
                let known = match target.kind {
                    Kind::Index { .. } => "syntax: invalid assignment target".to_owned(),
                    _ => format!("syntax: {message}"),
                };
                let wrong = Diagnostic::error(span, message).hint(hint);
                return Err(self.report(wrong.known_as(span, known)));
            }
            _ => {
                let message = "only variables ($x) and maps (@x) can be changed";
                let hint = "keep a copy and change that: $copy = …";
                let known = "syntax: increment/decrement requires a variable or map";
                let wrong = Diagnostic::error(target.span, message).hint(hint);
                return Err(self.report(wrong.known_as(target.span, known)));
            }
        };
        let written = value;
        let value = match op {
            Some(op) => self.binary(op, target, written, span)?,
            // One fault, and not another at each use of the variable.
            None => self
                .phrased(
                    written.span,
                    span,
                    |checker| checker.expression(written),
                    Refused::in_variable,
                )
                .inspect_err(|Reported| {
                    self.without_value.insert(name.clone());
                })?,
        };
        let value = super::compare::ternary_as_string(value);
        match self.find_variable(name) {
            Some(id) => {
                if op.is_none() {
                    self.fits_declaration(id, written, &value, span)?;
                }
                self.warn_of_implicit_cast(&value, &self.variable_type(id));
                self.set(id, value, span)
            }
            None => {
                let ty = self.holding(&value, false)?;
                let id = self.new_variable(name, ty, target.span);
                self.warn_of_implicit_cast(&value, &self.variable_type(id));
                self.set(id, value, span)
            }
        }
    }

    /// `let $name: type = value`.
    fn declare(
        &mut self,
        name: &Spanned<String>,
        ty: Option<&ast::TypeName>,
        value: Option<&ast::Expr>,
        span: Span,
    ) -> Checked<StatementKind> {
        let message = format!(
            "Variable ${} was already declared. Variable shadowing is not allowed.",
            name.node
        );
        self.unshadowed(name, message)?;
        let written = ty.map(|ty| self.written_type(ty)).transpose()?;
        let literal = value;
        let value = match value {
            Some(value) => Some(super::compare::ternary_as_string(self.expression(value)?)),
            None => None,
        };
        let ty = match (written, &value) {
            (Some(mut ty), _) => {
                // `string` by itself has the length of what is stored, now or later.
                let unsized_string = ty == (Type::CharArray { size: 0 });
                if unsized_string {
                    ty = match &value {
                        Some(value) if value.ty.is_string() => self.holding(value, false)?,
                        _ => Type::CharArray { size: STRING + 1 },
                    };
                }
                match (&value, &mut ty) {
                    (Some(value), ty) => lead_as(ty, &value.ty),
                    // Until something else is stored, it points into the event's memory.
                    (None, Type::Pointer(pointer)) => pointer.space = self.context.space,
                    _ => {}
                }
                let id = self.new_variable(&name.node, ty.clone(), name.span);
                if !unsized_string {
                    self.written.push(id);
                }
                if let (Some(literal), Some(value)) = (literal, &value) {
                    self.fits_declaration(id, literal, value, span)?;
                    self.warn_of_implicit_cast(value, &ty);
                }
                let value = match value {
                    Some(value) => value,
                    None => match self.nothing(&ty, name.span) {
                        Some(value) => value,
                        None => return Ok(StatementKind::Block(Vec::new())),
                    },
                };
                let stored = literal.is_some();
                let set = self.set(id, value, span);
                if !stored {
                    self.unset.push(id);
                }
                return set;
            }
            (None, Some(value)) => self.holding(value, false)?,
            // The type of its values is known from a later store.
            (None, None) => {
                let id = self.new_variable(&name.node, Type::I64, name.span);
                self.undecided.push(id);
                return Ok(self.emptied(id, name.span));
            }
        };
        let id = self.new_variable(&name.node, ty, name.span);
        match value {
            Some(value) => {
                self.warn_of_implicit_cast(&value, &self.variable_type(id));
                self.set(id, value, span)
            }
            None => Ok(StatementKind::Block(Vec::new())),
        }
    }

    /// Empties a variable at each turn of a loop that declares it; outside of loops it is empty already.
    fn emptied(&mut self, variable: VariableId, span: Span) -> StatementKind {
        let ty = self.variable_type(variable);
        let value = self.nothing(&ty, span).filter(|_| self.is_in_loop());
        match value.and_then(|value| self.fitted_to(value, &ty)) {
            Some(value) => StatementKind::Set { variable, value },
            None => StatementKind::Block(Vec::new()),
        }
    }

    fn set(&mut self, variable: VariableId, value: Expr, span: Span) -> Checked<StatementKind> {
        let ty = self.variable_type(variable);
        let declared = self.declared.contains_key(&variable);
        let held = self.holding(&value, false)?;
        let joined = self.joined(&ty, &held);
        self.unset.retain(|open| *open != variable);
        if declared {
            // The first thing stored in a variable that was declared without a type says what it holds.
            let first = self.undecided.iter().position(|open| *open == variable);
            if let Some(first) = first {
                self.undecided.remove(first);
                let fits = joined.as_ref() == Some(&ty);
                if !fits {
                    // At once: the rest of this round must not take it for a number.
                    let size = self.size_of(&held).unwrap_or(8);
                    if let Some(kept) = self.variables.get_mut(variable.0 as usize) {
                        (kept.ty, kept.size) = (held.clone(), size);
                    }
                    self.widen_variable(variable, held);
                    return Ok(StatementKind::Block(Vec::new()));
                }
            } else if let Some(joined) = joined.filter(|joined| *joined != ty)
                && !self.written.contains(&variable)
            {
                self.widen_variable(variable, joined);
            }
        }
        let mixes = self.mixes_pointers(&ty, &value.ty);
        match self.fitted_to(value.clone(), &ty).filter(|_| !mixes) {
            Some(value) => Ok(StatementKind::Set { variable, value }),
            None => Err(self.other_type(variable, &ty, &value, span)),
        }
    }
}
