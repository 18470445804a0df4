//! Loops by the helpers `bpf_loop` and `bpf_for_each_map_elem`: a number of times, until they are left, or over the elements of a map. The body of such a loop
//! becomes a function of its own, which the helper calls back.
//!
//! ```text
//!   the caller's frame:  context | left | which event | captured variable … ◄── a function that is called back knows this address alone
//! ```
//!
//! A number that the body shares with the code around the loop is in its word there while the loop runs; for any other shared variable the word has the address.

use super::{Lower, VariablePlace};
use crate::check::tree::{Expr, ExprKind, LoopRange, Statement, StatementKind, VariableId};
use crate::check::visit::statements_of;
use crate::error::Error;
use crate::ir::{Builder, Condition, Operand, Vreg, Width, helper};
use kestrel_bpf::code::SourceRange as Span;
use std::collections::BTreeMap;

/// Offsets in the memory shared with the callback: the program's context, whether the handler is to be left, which of the program's events it is, and the
/// captured variables.
const CONTEXT: i16 = 0;
const LEFT: i16 = 8;
const INSTANCE: i16 = 16;
const CAPTURED: i16 = 24;

const MAX_TIMES: i64 = LoopRange::MAX_INDEX;

/// Registers of a callback function with the memory that its caller shares, and with the element.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallbackFrame {
    /// The shared memory of the caller.
    shared: Vreg,
    /// The address of the element's key, or the index of the iteration.
    key: Vreg,
    /// The address of the element's value.
    value: Option<Vreg>,
}

impl Lower<'_> {
    /// The address of the hook's context.
    pub(super) fn program_context(&mut self) -> Vreg {
        match self.inside {
            Some(inside) => self.b.load(Width::B8, inside.shared, CONTEXT),
            None => self.b.context(),
        }
    }

    /// The register with the address of the current element's key or value; in a loop of a number of times, with the index of the iteration.
    pub(super) fn element(&mut self, key: bool, span: Span) -> Result<Vreg, Error> {
        let found = match self.inside {
            Some(inside) if key => Some(inside.key),
            Some(inside) => inside.value,
            None => None,
        };
        found.ok_or(Error::Malformed {
            what: "an element where no loop is at one",
            span,
        })
    }

    /// Number of iterations that a helper is asked for: its limit at most, for it refuses more without a single iteration.
    fn repeated(&mut self, times: Operand) -> Operand {
        if matches!(times, Operand::Imm(known) if (0..=MAX_TIMES + 1).contains(&known)) {
            return times;
        }
        let taken = self.b.vreg();
        self.b.assign(taken, times);
        let (many, on) = (self.b.cold_block(), self.b.block());
        self.b
            .branch(Condition::SignedGreater, taken, MAX_TIMES + 1, many, on);
        self.b.switch_to(many);
        self.ended_by_kernel();
        self.b.assign(taken, MAX_TIMES);
        self.b.jump(on);
        self.b.switch_to(on);
        taken.into()
    }

    /// `for (… : …) { body }`.
    pub(super) fn for_each(&mut self, over: &LoopRange, body: &[Statement], span: Span) -> Result<(), Error> {
        let times = match over {
            LoopRange::Times(count) => Some(self.operand(count)?),
            LoopRange::Endless => Some((MAX_TIMES + 1).into()),
            LoopRange::Map(_) => None,
        };
        let inner = variables_in(body);
        // Captured are the variables of the body that are mentioned outside of it, too.
        let captured: Vec<VariableId> = inner
            .iter()
            .filter(|(id, count)| self.mentions.get(id).is_some_and(|all| all > count))
            .map(|(id, _)| *id)
            .collect();
        // A callback has a frame of its own and no registers of its caller's: what both use goes through memory whose address the helper hands on.
        let shared = self
            .b
            .framed_slot((CAPTURED as u32) + 8 * captured.len() as u32, 8);
        let context = self.program_context();
        let base = self.b.slot_address(shared, 0);
        self.b.store(Width::B8, base, CONTEXT, context);
        self.b.store(Width::B8, base, LEFT, 0);
        let instance: Operand = self.instance.map_or(0.into(), Operand::Reg);
        self.b.store(Width::B8, base, INSTANCE, instance);
        for (id, at) in captured.iter().zip(offsets()) {
            let word: Operand = match self.place(*id, span)? {
                VariablePlace::Register(register) => {
                    self.share(*id, base, at, register.into());
                    continue;
                }
                VariablePlace::Memory(slot) => self.b.slot_address(slot, 0).into(),
                VariablePlace::Shared { base, offset, .. } => self.b.load(Width::B8, base, offset).into(),
                VariablePlace::Elsewhere => 0.into(),
            };
            self.b.store(Width::B8, base, at, word);
        }
        let number = self.callback(over, body, &captured, &inner)?;
        let (function, base) = (self.b.callback(number), self.b.slot_address(shared, 0));
        match (over, times) {
            (LoopRange::Map(map), _) => {
                let map = self.map_pointer(map);
                let arguments = [map.into(), function.into(), base.into(), 0.into()];
                self.b.helper(helper::FOR_EACH_MAP_ELEM, &arguments);
            }
            (LoopRange::Times(_) | LoopRange::Endless, times) => {
                let times = self.repeated(times.unwrap_or(0.into()));
                let arguments = [times, function.into(), base.into(), 0.into()];
                self.b.helper(helper::LOOP, &arguments);
            }
        }
        let base = self.b.slot_address(shared, 0);
        for (id, at) in captured.iter().zip(offsets()) {
            match self.place(*id, span)? {
                VariablePlace::Register(register) => {
                    let now = self.b.load(Width::B8, base, at);
                    self.b.assign(register, now);
                }
                VariablePlace::Memory(slot) => self.b.keep(slot),
                VariablePlace::Shared {
                    base: outer,
                    offset,
                    scalar: true,
                } => {
                    let now = self.b.load(Width::B8, base, at);
                    self.share(*id, outer, offset, now.into());
                }
                VariablePlace::Shared { .. } | VariablePlace::Elsewhere => {}
            }
        }
        // `return` in the body ends the callback alone; this word says that the handler around the loop ends, too.
        let left = self.b.load(Width::B8, base, LEFT);
        self.b.branch_if(Condition::NotEqual, left, 0, self.done);
        Ok(())
    }

    /// Stores a shared variable; a number in two halves. The verifier walks through the loop's body until it sees no new state. It does not track a number that is
    /// put together from halves, so one that grows is not a new state each time.
    pub(super) fn share(&mut self, id: VariableId, base: Vreg, offset: i16, value: Operand) {
        let shape = self.shapes.get(id.0 as usize);
        if shape.is_none_or(|shape| shape.pointer || shape.addressed) {
            return self.b.store(Width::B8, base, offset, value);
        }
        let value = self.b.materialize(value);
        let high = self.b.shift_right(value, 32);
        self.b.store(Width::B4, base, offset, value);
        self.b.store(Width::B4, base, offset + 4, high);
    }

    /// Generates the callback function of a loop's body; gives its number.
    fn callback(
        &mut self,
        over: &LoopRange,
        body: &[Statement],
        captured: &[VariableId],
        inner: &BTreeMap<VariableId, usize>,
    ) -> Result<u32, Error> {
        let number = self.next_callback;
        self.next_callback += 1;
        let span = self.b.span();
        let mut builder = Builder::new();
        builder.at(span);
        std::mem::swap(builder.maps_mut(), self.b.maps_mut());
        let outer_builder = std::mem::replace(&mut self.b, builder);
        let entered = match over {
            LoopRange::Map(_) => {
                let [key, value, shared] = self.b.parameters(2);
                CallbackFrame {
                    shared,
                    key,
                    value: Some(value),
                }
            }
            LoopRange::Times(_) | LoopRange::Endless => {
                let [key, shared] = self.b.parameters(1);
                // Gives the verifier an upper bound of the index.
                let key = self.b.and(key, MAX_TIMES);
                CallbackFrame {
                    shared,
                    key,
                    value: None,
                }
            }
        };
        let outer = (
            self.inside.replace(entered),
            self.instance,
            std::mem::take(&mut self.cache),
            std::mem::take(&mut self.loops),
            self.done,
            self.variables.clone(),
        );
        let (next, stop, leave) = (self.b.block(), self.b.block(), self.b.block());
        self.done = leave;
        self.loops.push((next, stop));
        if self.instance.is_some() {
            self.instance = Some(self.b.load(Width::B8, entered.shared, INSTANCE));
        }
        self.own_variables(captured, inner, entered.shared);
        if let LoopRange::Map(map) = over
            && !map.keys.is_empty()
            && map.generations
        {
            // Elements of an earlier generation, from before `clear`, are passed over.
            let now = self.generation(map);
            let then = self.b.load(Width::B8, entered.key, 0);
            self.b.branch_if(Condition::NotEqual, then, now, next);
        }
        if matches!(over, LoopRange::Endless) {
            // The body does not run in the last iteration: reaching it means that the loop did not end by its condition or by break.
            let (last, on) = (self.b.cold_block(), self.b.block());
            self.b.branch(Condition::Equal, entered.key, MAX_TIMES, last, on);
            self.b.switch_to(last);
            self.ended_by_kernel();
            // Inside another callback loop the whole handler is left: the outer loop might run this one as often again.
            let around = outer.0.is_some();
            self.b.jump(if around { leave } else { stop });
            self.b.switch_to(on);
        }
        let lowered = self.statements(body);
        if !self.b.is_ended() {
            self.b.jump(next);
        }
        for (block, leaves, answer) in [(next, false, 0), (stop, false, 1), (leave, true, 1)] {
            self.b.switch_to(block);
            if leaves {
                self.b.store(Width::B8, entered.shared, LEFT, 1);
            }
            self.b.exit(answer);
        }
        (
            self.inside,
            self.instance,
            self.cache,
            self.loops,
            self.done,
            self.variables,
        ) = outer;
        let mut builder = std::mem::replace(&mut self.b, outer_builder);
        std::mem::swap(builder.maps_mut(), self.b.maps_mut());
        self.callbacks.insert(number, builder.finish());
        lowered.map(|()| number)
    }

    /// Gives the variables of a loop's body their places: captured ones in the shared memory, others in the callback's own frame.
    fn own_variables(&mut self, captured: &[VariableId], inner: &BTreeMap<VariableId, usize>, shared: Vreg) {
        let shapes = self.shapes.clone();
        let mut places = vec![VariablePlace::Elsewhere; shapes.len()];
        for (id, at) in captured.iter().zip(offsets()) {
            let index = id.0 as usize;
            if let (Some(place), Some(shape)) = (places.get_mut(index), shapes.get(index)) {
                *place = VariablePlace::Shared {
                    base: shared,
                    offset: at,
                    scalar: shape.scalar,
                };
            }
        }
        for id in inner.keys().filter(|id| !captured.contains(id)) {
            let index = id.0 as usize;
            if let (Some(place), Some(shape)) = (places.get_mut(index), shapes.get(index)) {
                *place = self.new_place(*shape);
            }
        }
        self.variables = places;
    }
}

/// Offsets of the captured variables in the shared memory.
fn offsets() -> impl Iterator<Item = i16> {
    (0..).map(|place| CAPTURED + place * 8)
}

/// The variables that statements mention, and how often each.
pub(super) fn variables_in(statements: &[Statement]) -> BTreeMap<VariableId, usize> {
    let mut found = BTreeMap::new();
    for statement in statements_of(statements) {
        if let StatementKind::Set { variable, .. } = &statement.kind {
            *found.entry(*variable).or_default() += 1;
        }
        let keys = statement.kind.place().into_iter().flat_map(|place| &place.keys);
        for expr in statement.kind.expressions().into_iter().chain(keys) {
            mentioned(expr, &mut found);
        }
    }
    found
}

/// Adds the variables that an expression mentions, except those in statements inside of it.
pub(super) fn mentioned(expr: &Expr, found: &mut BTreeMap<VariableId, usize>) {
    if let ExprKind::Variable(id) | ExprKind::VariableAddress(id) = &expr.kind {
        *found.entry(*id).or_default() += 1;
    }
    let keys = expr.place().into_iter().flat_map(|place| &place.keys);
    for inner in expr.operands().into_iter().chain(keys) {
        mentioned(inner, found);
    }
}
