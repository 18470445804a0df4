//! The checked tree becomes intermediate code: one probe, one function; the sink says how a record is kept.

mod aggregation;
mod bucket;
mod bytes;
mod callback;
mod composite;
mod failure;
mod glob;
mod long_record;
mod map;
mod memory;
mod numbers;
mod packet;
mod processor;
mod record;
mod search;
mod stack_copy;
mod stack_flags;
mod string;
mod unwound;
mod value;
mod value_cache;

use crate::check::tree::{
    CheckedProbe, Expr, ExprKind, MapChange, Record, Statement, StatementKind, Type, VariableId,
};
use crate::context::{Context, EventNumber};
use crate::error::Error;
use crate::ir::{BlockId, Builder, Condition, Function, Slot, Vreg, Width, helper};
use crate::lang::ast::Span;
use crate::sink::Sink;
use callback::{CallbackFrame, variables_in};
use kestrel_trace::layout::Layout;
use std::collections::{BTreeMap, BTreeSet};
use value_cache::ValueCache;

/// A function, and the layouts of the records it writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Lowered {
    /// The program's main function.
    pub function: Function,
    /// Functions that helpers call back, by their numbers.
    pub callbacks: Vec<Function>,
    /// By what its number exceeds the event's; empty if it writes none.
    pub layouts: Vec<Layout>,
}

/// Lowers the handlers of one hook.
///
/// # Errors
/// When the sink refuses a record, or the tree is not one that the checker makes.
pub fn lower(handlers: &[&CheckedProbe], context: &Context, sink: &dyn Sink) -> Result<Lowered, Error> {
    let mut b = Builder::new();
    let done = b.block();
    let mut lower = Lower {
        b,
        context,
        sink,
        variables: Vec::new(),
        loops: Vec::new(),
        cache: ValueCache::default(),
        done,
        instance: None,
        inside: None,
        callbacks: BTreeMap::new(),
        next_callback: 0,
        mentions: BTreeMap::new(),
        shapes: Vec::new(),
        records: handlers.iter().flat_map(|probe| probe.records()).collect(),
        whole: sink.wants_preemption_off_throughout(),
    };
    if lower.whole {
        lower.b.kfunc("bpf_preempt_disable", &[]);
        lower.done = lower.b.block();
    }
    let leave = lower.done;
    sink.admit(&mut lower.b, leave);
    if sink.by_instance()
        && let Some(first) = handlers.first()
    {
        lower.find_instance(first.selector.as_ref())?;
    }
    let entries: Vec<BlockId> = handlers.iter().map(|_| lower.b.block()).collect();
    sink.choose(&mut lower.b, &entries, lower.instance, leave);
    let (known, instance) = (lower.cache.clone(), lower.instance);
    for (probe, entry) in handlers.iter().zip(entries) {
        lower.b.switch_to(entry);
        // Values that one handler has computed are not there on the way to another.
        lower.cache = known.clone();
        lower.instance = instance;
        lower.b.clear_named_values();
        lower.handler(probe)?;
    }
    if lower.whole {
        lower.b.switch_to(leave);
        emit_preemption_on(&mut lower.b);
        lower.b.jump(done);
    }
    lower.b.switch_to(done);
    lower.b.exit(0);
    Ok(Lowered {
        layouts: lower.records.iter().map(|r| r.layout.clone()).collect(),
        callbacks: lower.callbacks.into_values().collect(),
        function: lower.b.finish(),
    })
}

/// Switches preemption on with interrupts off, where it changes nothing yet: a thread whose time was up meanwhile is preempted at the next occasion, which
/// is behind the program.
pub fn emit_preemption_on(b: &mut Builder) {
    let flags = b.slot(8, 8);
    let flags = b.slot_address(flags, 0);
    b.kfunc("bpf_local_irq_save", &[flags.into()]);
    b.kfunc("bpf_preempt_enable", &[]);
    b.kfunc("bpf_local_irq_restore", &[flags.into()]);
}

/// Writes process and thread id into a record; the helper gives them the other way round.
pub fn emit_identity(b: &mut Builder, pid_tgid: Vreg, record: Vreg) {
    b.store(Width::B4, record, TID, pid_tgid);
    let pid = b.shift_right(pid_tgid, 32);
    b.store(Width::B4, record, PID, pid);
}

/// Offsets of the common context: process and thread id, `u32` each.
const PID: i16 = 8;
const TID: i16 = 12;

/// Place of a scratch variable.
#[derive(Clone, Copy, Debug)]
enum VariablePlace {
    Register(Vreg),
    Memory(Slot),
    /// In what the caller of a loop's body shares with it: the number itself, or the address.
    Shared {
        base: Vreg,
        offset: i16,
        scalar: bool,
    },
    /// In another function, which does not share it.
    Elsewhere,
}

/// Size and alignment of a variable.
#[derive(Clone, Copy, Debug)]
struct Shape {
    scalar: bool,
    size: u32,
    /// Whether the verifier may take it for an address.
    pointer: bool,
    /// Whether its address is taken, so that it must lie in memory.
    addressed: bool,
}

/// The state of lowering one probe.
pub(crate) struct Lower<'a> {
    pub(crate) b: Builder,
    context: &'a Context,
    sink: &'a dyn Sink,
    /// Scratch variables.
    variables: Vec<VariablePlace>,
    /// Of the loops around: where the next time begins, and what comes behind; innermost last.
    loops: Vec<(BlockId, BlockId)>,
    /// Values already in registers on every path to here.
    cache: ValueCache,
    /// In the function of a loop's body: where it finds things.
    inside: Option<CallbackFrame>,
    /// Functions that helpers call back, by number.
    callbacks: BTreeMap<u32, Function>,
    next_callback: u32,
    /// Number of times that the handler mentions each of its variables.
    mentions: BTreeMap<VariableId, usize>,
    /// Sizes of its variables.
    shapes: Vec<Shape>,
    /// Leaves the program.
    done: BlockId,
    /// Which of the events it is that the program serves, once that was asked.
    instance: Option<Vreg>,
    /// All that the handlers may write, in source order.
    records: Vec<&'a Record>,
    /// Whether handlers run with preemption off from their first instruction to their last.
    whole: bool,
}

impl Lower<'_> {
    /// One handler, from its predicate to its end.
    fn handler(&mut self, probe: &CheckedProbe) -> Result<(), Error> {
        if self.instance.is_none() {
            self.select(probe.selector.as_ref())?;
        }
        let Some(pair) = &probe.pair else {
            return self.guarded(probe);
        };
        let mark = self.has_key(&pair.mark)?;
        self.b.branch_if(Condition::Equal, mark, 0, self.done);
        let known = self.cache.clone();
        let leave = self.b.block();
        let done = std::mem::replace(&mut self.done, leave);
        self.guarded(probe)?;
        self.done = done;
        self.b.switch_to(leave);
        self.cache = known;
        for place in std::iter::once(&pair.mark).chain(&pair.kept) {
            self.change_map(place, &MapChange::Delete)?;
        }
        self.b.jump(self.done);
        Ok(())
    }

    /// A handler whose event is known to be wanted.
    fn guarded(&mut self, probe: &CheckedProbe) -> Result<(), Error> {
        let (guard, predicate) = match (&probe.predicate, probe.guarded) {
            (Some(whole), true) => match &whole.kind {
                ExprKind::Logic {
                    and: true,
                    left,
                    right,
                } => (Some(&**left), Some(&**right)),
                _ => (Some(whole), None),
            },
            (predicate, _) => (None, predicate.as_ref()),
        };
        let early = probe.has_statements_in_predicate();
        if early {
            self.declare(probe);
        }
        self.unless(guard)?;
        self.sink.entered(&mut self.b, self.done);
        self.unless(predicate)?;
        let done = self.done;
        self.sink.prepare(&mut self.b, probe.records().count(), done);
        if !early {
            self.declare(probe);
        }
        self.statements(&probe.body)?;
        if !self.b.is_ended() {
            self.b.jump(self.done);
        }
        Ok(())
    }

    /// Makes the variables of a handler, all zero.
    fn declare(&mut self, probe: &CheckedProbe) {
        self.mentions = variables_in(&probe.body);
        let (addressed, numbers) = (addressed(probe), numbers::addresses_by_number(probe));
        self.shapes = probe
            .variables
            .iter()
            .zip(0..)
            .map(|(variable, number)| {
                let scalar = variable.ty.is_scalar();
                Shape {
                    scalar,
                    size: if scalar { 8 } else { variable.size },
                    pointer: matches!(variable.ty, Type::Pointer(_))
                        && !numbers.contains(&VariableId(number)),
                    addressed: scalar && addressed.contains(&VariableId(number)),
                }
            })
            .collect();
        let shapes = self.shapes.clone();
        self.variables = shapes.into_iter().map(|shape| self.new_place(shape)).collect();
    }

    /// A place for a variable, zero.
    fn new_place(&mut self, shape: Shape) -> VariablePlace {
        if shape.scalar && !shape.addressed {
            let register = self.b.vreg();
            self.b.assign(register, 0);
            return VariablePlace::Register(register);
        }
        let slot = self.b.slot(shape.size.max(1).next_multiple_of(8), 8);
        self.clear(slot, 0, shape.size.next_multiple_of(8));
        VariablePlace::Memory(slot)
    }

    fn place(&self, id: VariableId, span: Span) -> Result<VariablePlace, Error> {
        let place = self.variables.get(id.0 as usize).copied();
        place.ok_or(Error::Malformed {
            what: "a variable that was not declared",
            span,
        })
    }

    /// The number that a variable holds.
    fn variable_value(&mut self, id: VariableId, span: Span) -> Result<Vreg, Error> {
        match self.place(id, span)? {
            VariablePlace::Register(register) => {
                // A copy: what is done later to the variable changes nothing here.
                let copy = self.b.vreg();
                self.b.assign(copy, register);
                Ok(copy)
            }
            VariablePlace::Memory(slot) => {
                let at = self.b.slot_address(slot, 0);
                Ok(self.b.load(Width::B8, at, 0))
            }
            VariablePlace::Shared { base, offset, scalar } => {
                let word = self.b.load(Width::B8, base, offset);
                let addressed = self
                    .shapes
                    .get(id.0 as usize)
                    .is_some_and(|shape| shape.addressed);
                Ok(match scalar && !addressed {
                    true => word,
                    false => self.b.load(Width::B8, word, 0),
                })
            }
            VariablePlace::Elsewhere => Err(Error::Malformed {
                what: "a variable of another function",
                span,
            }),
        }
    }

    /// The address of a variable that lies in memory.
    fn variable_address(&mut self, id: VariableId, span: Span) -> Result<Vreg, Error> {
        match self.place(id, span)? {
            VariablePlace::Memory(slot) => Ok(self.b.slot_address(slot, 0)),
            VariablePlace::Shared { base, offset, .. } => Ok(self.b.load(Width::B8, base, offset)),
            VariablePlace::Register(_) | VariablePlace::Elsewhere => Err(Error::Malformed {
                what: "the address of a variable that is a number",
                span,
            }),
        }
    }

    /// `while`: the condition is asked at the head, to which the end of the body goes back.
    fn repeat(&mut self, condition: &Expr, body: &[Statement], step: &[Statement]) -> Result<(), Error> {
        let (head, inner, next, behind) = (self.b.block(), self.b.block(), self.b.block(), self.b.block());
        self.b.jump(head);
        self.b.switch_to(head);
        let (known_inner, known_behind) = self.condition(condition, inner, behind)?;
        self.b.switch_to(inner);
        self.cache = known_inner.clone();
        self.loops.push((next, behind));
        self.statements(body)?;
        self.loops.pop();
        if !self.b.is_ended() {
            self.b.jump(next);
        }
        self.b.switch_to(next);
        // The body may have been left early.
        self.cache = known_inner;
        self.statements(step)?;
        if !self.b.is_ended() {
            self.b.jump(head);
        }
        self.cache = known_behind;
        self.b.switch_to(behind);
        Ok(())
    }

    /// Leaves unless a condition holds.
    fn unless(&mut self, condition: Option<&Expr>) -> Result<(), Error> {
        if let Some(condition) = condition {
            let on = self.b.block();
            self.condition(condition, on, self.done)?;
            self.b.switch_to(on);
        }
        Ok(())
    }

    /// Finds out which of the events it is that the program serves.
    fn find_instance(&mut self, selector: Option<&Expr>) -> Result<(), Error> {
        match self.context.number {
            EventNumber::Constant(_) => self.instance = Some(self.b.constant(0)),
            EventNumber::Cookie { .. } => {
                let context = self.program_context();
                let cookie = self.b.helper(helper::GET_ATTACH_COOKIE, &[context.into()]);
                self.instance = Some(cookie);
            }
            EventNumber::Selected { .. } => self.select(selector)?,
        }
        Ok(())
    }

    /// Looks up which of a set's events this is; leaves where it is not wanted.
    fn select(&mut self, selector: Option<&Expr>) -> Result<(), Error> {
        let (Some(value), Some(selector)) = (selector, self.context.selector.as_ref()) else {
            return Ok(());
        };
        let index = self.operand(value)?;
        let key = self.b.slot(4, 4);
        let key = self.b.slot_address(key, 0);
        self.b.store(Width::B4, key, 0, index);
        let map = self.b.external(&selector.map);
        let map = self.b.map_pointer(map);
        let found = self.b.helper(helper::MAP_LOOKUP_ELEM, &[map.into(), key.into()]);
        self.b.branch_if(Condition::Equal, found, 0, self.done);
        let number = self.b.load(Width::B2, found, 0);
        self.b.branch_if(Condition::Equal, number, 0, self.done);
        self.instance = Some(self.b.sub(number, 1));
        Ok(())
    }

    fn set_variable(&mut self, id: VariableId, value: &Expr, span: Span) -> Result<(), Error> {
        let shape = self.shapes.get(id.0 as usize).copied();
        let place = self.place(id, span)?;
        let scalar = shape.is_some_and(|shape| shape.scalar);
        if scalar {
            let value = self.operand(value)?;
            let addressed = shape.is_some_and(|shape| shape.addressed);
            match place {
                VariablePlace::Register(target) => self.b.assign(target, value),
                VariablePlace::Shared { base, offset, .. } if !addressed => {
                    self.share(id, base, offset, value);
                }
                _ => {
                    let to = self.variable_address(id, span)?;
                    self.b.store(Width::B8, to, 0, value);
                }
            }
            return Ok(());
        }
        let size = shape.map_or(0, |shape| shape.size);
        match place {
            VariablePlace::Memory(slot) => self.set_memory(value, slot, size),
            _ => {
                let to = self.variable_address(id, span)?;
                self.set_memory_at(value, to, size)
            }
        }
    }

    fn statements(&mut self, statements: &[Statement]) -> Result<(), Error> {
        for statement in statements {
            if self.b.is_ended() {
                // Statements behind a return never run.
                break;
            }
            self.b.at(statement.span);
            self.statement(statement)?;
        }
        Ok(())
    }

    /// The statements of a block that has a value. One that ends the handler leaves the value to a place that nothing reaches.
    fn before_value(&mut self, statements: &[Statement]) -> Result<(), Error> {
        self.statements(statements)?;
        if self.b.is_ended() {
            let unreached = self.b.block();
            self.b.switch_to(unreached);
        }
        Ok(())
    }

    fn statement(&mut self, statement: &Statement) -> Result<(), Error> {
        match &statement.kind {
            StatementKind::Set { variable, value } => self.set_variable(*variable, value, statement.span)?,
            StatementKind::If {
                condition,
                then,
                otherwise,
            } => {
                let (yes, no, join) = (self.b.block(), self.b.block(), self.b.block());
                let (known_yes, known_no) = self.condition(condition, yes, no)?;
                let mut after = Vec::new();
                for (block, body, known) in [(yes, then, known_yes), (no, otherwise, known_no)] {
                    self.b.switch_to(block);
                    self.cache = known;
                    self.statements(body)?;
                    if !self.b.is_ended() {
                        self.b.jump(join);
                        after.push(self.cache.clone());
                    }
                }
                // Behind the branches only what both of them have computed is at hand.
                self.cache = after.into_iter().reduce(|a, b| a.common(&b)).unwrap_or_default();
                self.b.switch_to(join);
            }
            StatementKind::Record(record) => self.record(record, statement.span)?,
            StatementKind::Map(place, change) => self.change_map(place, change)?,
            StatementKind::Act(action) => {
                let acted = self.sink.act(&mut self.b, action);
                acted.map_err(|reason| Error::Sink {
                    reason,
                    span: statement.span,
                })?;
            }
            StatementKind::Perform { helper, operands, .. } => {
                let operands = operands.iter().map(|operand| self.operand(operand));
                let operands = operands.collect::<Result<Vec<_>, _>>()?;
                self.b.helper(*helper, &operands);
            }
            StatementKind::Block(statements) => self.statements(statements)?,
            StatementKind::Handler(statements) => {
                let end = self.b.block();
                let done = std::mem::replace(&mut self.done, end);
                // Values at hand now are so wherever the handler is left.
                let known = self.cache.clone();
                self.statements(statements)?;
                if !self.b.is_ended() {
                    self.b.jump(end);
                }
                self.cache = known;
                self.done = done;
                self.b.switch_to(end);
            }
            StatementKind::While {
                condition,
                body,
                step,
            } => self.repeat(condition, body, step)?,
            StatementKind::ForEach { over, body } => self.for_each(over, body, statement.span)?,
            StatementKind::Break | StatementKind::Continue => {
                let (next, behind) = *self.loops.last().ok_or(Error::Malformed {
                    what: "the end of a loop where there is none",
                    span: statement.span,
                })?;
                let to = match statement.kind {
                    StatementKind::Break => behind,
                    _ => next,
                };
                self.b.jump(to);
            }
            StatementKind::Return => self.b.jump(self.done),
        }
        Ok(())
    }
}

/// The variables whose address is taken.
fn addressed(probe: &CheckedProbe) -> BTreeSet<VariableId> {
    fn inside(expr: &Expr, found: &mut BTreeSet<VariableId>) {
        if let ExprKind::VariableAddress(id) = expr.kind {
            found.insert(id);
        }
        let keys = expr.place().into_iter().flat_map(|place| &place.keys);
        for inner in expr.operands().into_iter().chain(keys) {
            inside(inner, found);
        }
    }
    let mut found = BTreeSet::new();
    for statement in probe.statements() {
        let keys = statement.kind.place().into_iter().flat_map(|place| &place.keys);
        for expr in statement.kind.expressions().into_iter().chain(keys) {
            inside(expr, &mut found);
        }
    }
    found
}
