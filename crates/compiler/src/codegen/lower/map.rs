//! Maps: keys are put together on the stack, elements found or made, values added to atomically; where things lie is
//! [`kestrel_trace::aggregate`]'s.
//!
//! ```text
//!   found = lookup(key) ── none ──► insert(key, zeroes) if it is new ──► lookup(key) ── none ──► lost += 1
//!        └──────────────► add ◄─────────────────────────────────────────────┘
//! ```
//!
//! Two CPUs may insert the same key at once: one of them succeeds, and both find it then. Programs of several events share a map and interrupt
//! each other, so values of one CPU are added to atomically, too.

use super::Lower;
use super::bytes::Bytes;
use crate::builtin;
use crate::check::tree::{Expr, ExprKind, MapChange, MapPlace};
use crate::error::Error;
use crate::ir::{AluOp, Bits, BlockId, Condition, Operand, Slot, Vreg, Width, helper};
use crate::map::{external_name, stacks_name};
use kestrel_trace::aggregate::{Buckets, MapType, ValueKind, state};
use kestrel_trace::layout::{FieldType, Frames, Space};

/// Attempts to raise a word (a maximum, or the complement of a minimum) that interrupts change meanwhile.
const RAISE_ATTEMPTS: u32 = 4;

impl Lower<'_> {
    /// Changes a map.
    pub(super) fn change_map(&mut self, place: &MapPlace, change: &MapChange) -> Result<(), Error> {
        match change {
            MapChange::Set(value) => self.set(place, value),
            MapChange::Add(value) => {
                // Values of a map without a mark are not negative, so a positive addend leaves no 0.
                let marks = value.constant().is_none_or(|known| known.cast_signed() <= 0);
                let value = self.value(value)?;
                if marks {
                    self.mark(&place.map, 1);
                }
                self.with_element_or_new(place, &mut |lower, element, _| {
                    lower.b.atomic_add(Width::B8, element, 0, value);
                })
            }
            MapChange::Aggregate(value) => self.aggregate(place, value.as_ref()),
            MapChange::Delete if place.keys.is_empty() => {
                self.change_map(place, &MapChange::Clear { zeroed: false })
            }
            MapChange::Delete => {
                let key = self.map_key(place)?;
                let map = self.map_pointer(&place.map);
                self.b.helper(helper::MAP_DELETE_ELEM, &[map.into(), key.into()]);
                Ok(())
            }
            MapChange::Clear { zeroed } => {
                // The mark and the element say whether the map was set: they are read before both are emptied.
                let was_set = match zeroed {
                    true => self.was_set(&place.map),
                    false => None,
                };
                self.mark(&place.map, 0);
                // Maps of keys, or of an element for each generation, begin a new generation, for which look-ups find nothing yet; readers sweep what is older.
                if place.map.keys.is_empty() && place.map.entries <= 1 {
                    self.empty(&place.map)?;
                }
                let generation = self.state(state::generation(place.map.number));
                self.b.atomic_add(Width::B8, generation, 0, 1);
                if *zeroed {
                    let (set, end) = (self.b.block(), self.b.block());
                    match was_set {
                        Some(was) => self.b.branch(Condition::Equal, was, 0, end, set),
                        None => self.b.jump(set),
                    }
                    self.b.switch_to(set);
                    // Readers show the keys of generations before this one, with zeros.
                    let now = self.generation(&place.map);
                    let zeroed = self.state(state::zeroed(place.map.number));
                    self.b.store(Width::B8, zeroed, 0, now);
                    self.b.jump(end);
                    self.b.switch_to(end);
                }
                Ok(())
            }
        }
    }

    /// Not 0 where a map of one value holds something: it is marked, not zero, or was zeroed before. None where a handler cannot tell.
    fn was_set(&mut self, map: &MapType) -> Option<Vreg> {
        if !map.marks || map.entries > 1 {
            return None;
        }
        let element = self.only_element(map)?;
        let written = self.state(state::written(map.number));
        let written = self.b.load(Width::B8, written, 0);
        // A value without a mark has a first word that is not 0.
        let first = self.b.load(Width::B8, element, 0);
        let was = self.b.alu(AluOp::Or, Bits::B64, written, first);
        // No map is zeroed in its generation 0.
        let (again, end, result) = (self.b.block(), self.b.block(), self.b.vreg());
        self.b.assign(result, was);
        let generation = self.generation(map);
        let zeroed = self.state(state::zeroed(map.number));
        let zeroed = self.b.load(Width::B8, zeroed, 0);
        self.b.branch(Condition::Equal, zeroed, generation, again, end);
        self.b.switch_to(again);
        let both = self.b.alu(AluOp::Or, Bits::B64, result, zeroed);
        self.b.assign(result, both);
        self.b.jump(end);
        self.b.switch_to(end);
        Some(result)
    }

    /// Scalar at a map's place, 0 where it holds nothing.
    pub(super) fn map_scalar(&mut self, place: &MapPlace) -> Result<Vreg, Error> {
        let result = self.b.vreg();
        self.b.assign(result, 0);
        self.with_element(place, &mut |lower, element| {
            let value = lower.b.load(Width::B8, element, 0);
            lower.b.assign(result, value);
        })?;
        Ok(result)
    }

    /// 1 where the map holds something there, else 0.
    pub(super) fn has_key(&mut self, place: &MapPlace) -> Result<Vreg, Error> {
        let result = self.b.vreg();
        self.b.assign(result, 0);
        if let Some(was_set) = self.was_set(&place.map).filter(|_| place.keys.is_empty()) {
            let (set, end) = (self.b.block(), self.b.block());
            self.b.branch(Condition::Equal, was_set, 0, end, set);
            self.b.switch_to(set);
            self.b.assign(result, 1);
            self.b.jump(end);
            self.b.switch_to(end);
            return Ok(result);
        }
        self.with_element_if_any(place, false, &mut |lower, _| lower.b.assign(result, 1))?;
        Ok(result)
    }

    /// A string that the map holds, brought to the stack.
    pub(super) fn map_string(&mut self, place: &MapPlace) -> Result<Bytes, Error> {
        let size = place.map.value.size();
        let slot = self.b.slot(size, 8);
        let to = self.b.slot_address(slot, 0);
        self.store_string(&[], size, to, 0);
        self.with_element(place, &mut |lower, element| {
            let to = lower.b.slot_address(slot, 0);
            lower.copy(Bytes::at(element), size, to, 0);
        })?;
        Ok(Bytes::of_slot(slot))
    }

    pub(super) fn map_pointer(&mut self, map: &MapType) -> Vreg {
        let map = self.b.external(&external_name(map));
        self.b.map_pointer(map)
    }

    /// The generation of a map: the number of times that it was cleared.
    pub(super) fn generation(&mut self, map: &MapType) -> Vreg {
        let state = self.state(state::generation(map.number));
        self.b.load(Width::B8, state, 0)
    }

    /// An address in the state map.
    fn state(&mut self, offset: u32) -> Vreg {
        let map = self.b.external(state::MAP);
        self.b.map_value(map, offset)
    }

    /// The address of the kernel's key.
    pub(super) fn map_key(&mut self, place: &MapPlace) -> Result<Vreg, Error> {
        let map = &place.map;
        let slot = self.b.slot(map.key_size(), 8);
        if place.keys.is_empty() {
            let index: Operand = match map.entries {
                0 | 1 => 0.into(),
                // One element for each of the last generations: readers still see those before.
                kept => {
                    let generation = self.generation(map);
                    self.b.and(generation, i64::from(kept) - 1).into()
                }
            };
            let key = self.b.slot_address(slot, 0);
            self.b.store(Width::B4, key, 0, index);
            return Ok(key);
        }
        for ((ty, key), offset) in map.keys.iter().zip(&place.keys).zip(map.key_offsets()) {
            match ty {
                FieldType::CharArray { .. } => self.string_into(key, slot, offset, MapType::key_room(ty))?,
                FieldType::Stack { space, .. } => self.stack_into(*space, map, slot, offset),
                FieldType::HeldStack(held) if held.frames == Frames::Numbered => {
                    self.stack_into(held.space, map, slot, offset);
                }
                FieldType::Composite(_)
                | FieldType::Array { .. }
                | FieldType::Named(_)
                | FieldType::Buffer { .. }
                | FieldType::HeldStack(_) => {
                    // Keys are compared as bytes: the room behind a field is always zero.
                    let room = MapType::key_room(ty);
                    self.clear(slot, offset + ty.fixed_size() / 8 * 8, offset + room);
                    self.put(key, slot, offset, ty.fixed_size())?;
                }
                _ => {
                    let value = self.operand(key)?;
                    let to = self.b.slot_address(slot, offset);
                    self.b.store(Width::B8, to, 0, value);
                }
            }
        }
        if !map.generations {
            return Ok(self.b.slot_address(slot, 0));
        }
        let generation = self.generation(map);
        let key = self.b.slot_address(slot, 0);
        self.b.store(Width::B8, key, 0, generation);
        Ok(key)
    }

    /// Puts a stack into a key: the number under which the kernel keeps it (an error, where another stack has its place), and whose it is.
    fn stack_into(&mut self, space: Space, map: &MapType, slot: Slot, offset: u32) {
        let flags = self.stack_flags(space);
        let context = self.program_context();
        let stacks = self.b.external(&stacks_name(map));
        let stacks = self.b.map_pointer(stacks);
        let number = self
            .b
            .helper(helper::GET_STACKID, &[context.into(), stacks.into(), flags]);
        let to = self.b.slot_address(slot, offset);
        self.b.store(Width::B8, to, 0, number);
        let process = match space {
            Space::Kernel => Operand::from(0),
            Space::User => {
                let both = self.task_numbers();
                self.b.alu(AluOp::ShiftRight, Bits::B64, both, 32).into()
            }
        };
        let to = self.b.slot_address(slot, offset);
        self.b.store(Width::B8, to, 8, process);
    }

    /// Runs `then` on the element of a key; a missing key is counted as a failed look-up.
    pub(super) fn with_element(
        &mut self,
        place: &MapPlace,
        then: &mut dyn FnMut(&mut Self, Vreg),
    ) -> Result<(), Error> {
        self.with_element_if_any(place, true, then)
    }

    /// Runs `then` on the element of a key, if there is one; where `counts_missing`, a missing key is counted as a failed look-up.
    fn with_element_if_any(
        &mut self,
        place: &MapPlace,
        counts_missing: bool,
        then: &mut dyn FnMut(&mut Self, Vreg),
    ) -> Result<(), Error> {
        let end = self.b.block();
        let element = match self.only_element(&place.map) {
            Some(element) => element,
            None => {
                let key = self.map_key(place)?;
                let map = self.map_pointer(&place.map);
                let found = self.b.helper(helper::MAP_LOOKUP_ELEM, &[map.into(), key.into()]);
                let reported = counts_missing && self.sink.counts_failures() && !place.map.is_hidden();
                let missing = match reported {
                    true => self.b.cold_block(),
                    false => end,
                };
                self.b.branch_if(Condition::Equal, found, 0, missing);
                if reported {
                    let there = self.b.block();
                    self.b.jump(there);
                    self.b.switch_to(missing);
                    self.failed(helper::MAP_LOOKUP_ELEM, 0.into());
                    self.b.jump(end);
                    self.b.switch_to(there);
                }
                found
            }
        };
        then(self, element);
        self.b.jump(end);
        self.b.switch_to(end);
        Ok(())
    }

    /// The value of a map that has no keys and is not per CPU, which can be addressed without a look-up.
    fn only_element(&mut self, map: &MapType) -> Option<Vreg> {
        if !map.keys.is_empty() || map.value.is_per_cpu() {
            return None;
        }
        let map = self.b.external(&external_name(map));
        Some(self.b.map_value(map, 0))
    }

    /// Runs `then` on the element of a key, which is made first if need be. `then` may jump to the block it is given, where the update is counted as lost.
    pub(crate) fn with_element_or_new(
        &mut self,
        place: &MapPlace,
        then: &mut dyn FnMut(&mut Self, Vreg, BlockId),
    ) -> Result<(), Error> {
        let (end, lost) = (self.b.block(), self.b.cold_block());
        let element = match self.only_element(&place.map) {
            Some(element) => element,
            None => self.found_or_made(place, lost)?,
        };
        then(self, element, lost);
        self.b.jump(end);
        self.lose(&place.map, lost, end);
        Ok(())
    }

    /// In block `lost`, counts a lost update; goes on at `end`, which becomes the current block.
    fn lose(&mut self, map: &MapType, lost: BlockId, end: BlockId) {
        self.b.switch_to(lost);
        let counter = self.state(state::lost(map.number));
        self.b.atomic_add(Width::B8, counter, 0, 1);
        if !map.is_hidden() {
            self.update_failed();
        }
        self.b.jump(end);
        self.b.switch_to(end);
    }

    fn found_or_made(&mut self, place: &MapPlace, lost: BlockId) -> Result<Vreg, Error> {
        let key = self.map_key(place)?;
        let map = self.map_pointer(&place.map);
        let element = self.b.vreg();
        let found = self.b.helper(helper::MAP_LOOKUP_ELEM, &[map.into(), key.into()]);
        self.b.assign(element, found);
        if place.keys.is_empty() {
            self.b.branch_if(Condition::Equal, element, 0, lost);
            return Ok(element);
        }
        let (missing, there) = (self.b.cold_block(), self.b.block());
        self.b.branch(Condition::Equal, element, 0, missing, there);
        self.b.switch_to(missing);
        let map = self.map_pointer(&place.map);
        let zeroes = self.state(state::ZEROES);
        self.b.helper(
            helper::MAP_UPDATE_ELEM,
            &[
                map.into(),
                key.into(),
                zeroes.into(),
                helper::NOEXIST.cast_signed().into(),
            ],
        );
        let map = self.map_pointer(&place.map);
        let found = self.b.helper(helper::MAP_LOOKUP_ELEM, &[map.into(), key.into()]);
        self.b.assign(element, found);
        self.b.branch(Condition::Equal, element, 0, lost, there);
        self.b.switch_to(there);
        Ok(element)
    }

    /// Says in the state map whether a map was written (1) or not (0), where its type wants that.
    fn mark(&mut self, map: &MapType, written: i64) {
        if map.marks {
            let word = self.state(state::written(map.number));
            self.b.store(Width::B8, word, 0, written);
        }
    }

    /// Says that a map is written where `value` compares so to a number: another value leaves no zeroes. CPUs that store only zeroes do not take the word from
    /// each other.
    pub(crate) fn mark_where(&mut self, map: &MapType, value: Vreg, condition: Condition, number: i64) {
        if !map.marks {
            return;
        }
        let (first, unmarked, end) = (self.b.cold_block(), self.b.cold_block(), self.b.block());
        self.b.branch(condition, value, number, first, end);
        self.b.switch_to(first);
        let word = self.state(state::written(map.number));
        let written = self.b.load(Width::B8, word, 0);
        self.b.branch(Condition::Equal, written, 0, unmarked, end);
        self.b.switch_to(unmarked);
        self.mark(map, 1);
        self.b.jump(end);
        self.b.switch_to(end);
    }

    /// `@x[keys] = value`.
    fn set(&mut self, place: &MapPlace, value: &Expr) -> Result<(), Error> {
        let size = place.map.value.size();
        let slot = self.b.slot(size, 8);
        match &place.map.value {
            ValueKind::CharArray { size: text } => {
                self.string_into(value, slot, 0, text.next_multiple_of(8))?
            }
            ValueKind::Whole(ty) => {
                self.clear(slot, ty.fixed_size() / 8 * 8, size);
                self.put(value, slot, 0, ty.fixed_size())?;
            }
            _ => {
                let value = self.operand(value)?;
                let to = self.b.slot_address(slot, 0);
                self.b.store(Width::B8, to, 0, value);
            }
        }
        if let Some(element) = self.only_element(&place.map) {
            self.copy_all(Bytes::of_slot(slot), size, element, 0);
            if !is_never_zeroes(value) {
                self.mark(&place.map, 1);
            }
            return Ok(());
        }
        let key = self.map_key(place)?;
        let map = self.map_pointer(&place.map);
        let from = self.b.slot_address(slot, 0);
        let answer = self.b.helper(
            helper::MAP_UPDATE_ELEM,
            &[map.into(), key.into(), from.into(), 0.into()],
        );
        let (end, lost) = (self.b.block(), self.b.cold_block());
        self.b.branch(Condition::NotEqual, answer, 0, lost, end);
        self.lose(&place.map, lost, end);
        Ok(())
    }

    /// Sets the one value of a map without keys to zeros.
    fn empty(&mut self, map: &MapType) -> Result<(), Error> {
        let Some(element) = self.only_element(map) else {
            return Err(Error::Malformed {
                what: "a map of one value per CPU to be emptied by one of them",
                span: self.b.span(),
            });
        };
        self.store_string(&[], map.value.size(), element, 0);
        Ok(())
    }

    /// Adds a value to an aggregation; 1 where none is given.
    fn aggregate(&mut self, place: &MapPlace, value: Option<&Expr>) -> Result<(), Error> {
        let value = match value {
            Some(value) => self.value(value)?,
            None => self.b.constant(1),
        };
        let lower = match &place.map.value {
            ValueKind::Aggregation(aggregation) => {
                builtin::lower_aggregation(aggregation.function.name()).map(|lower| (lower, aggregation))
            }
            ValueKind::Scalar(_) | ValueKind::CharArray { .. } | ValueKind::Whole(_) => None,
        };
        let Some((lower, aggregation)) = lower else {
            return Err(Error::Malformed {
                what: "an aggregation in a map of plain values",
                span: self.b.span(),
            });
        };
        lower(self, place, aggregation, value)
    }

    /// Code for [`kestrel_trace::aggregate::aggregation::rank`].
    pub(crate) fn rank(&mut self, value: Vreg, signed: bool) -> Vreg {
        if signed {
            self.b.alu(AluOp::Xor, Bits::B64, value, i64::MIN)
        } else {
            value
        }
    }

    /// Keeps the greater of the element and `rank`. A rank of 0 also sets the second word, since an element that nothing wrote is 0, too.
    pub(crate) fn raise(&mut self, place: &MapPlace, rank: Vreg) -> Result<(), Error> {
        self.with_element_or_new(place, &mut |lower, element, lost| {
            let (least, greater, end) = (lower.b.cold_block(), lower.b.block(), lower.b.block());
            lower.b.branch(Condition::Equal, rank, 0, least, greater);
            lower.b.switch_to(least);
            lower.b.store(Width::B8, element, 8, 1);
            lower.b.jump(end);
            lower.b.switch_to(greater);
            lower.raise_word(element, 0, rank, lost);
            lower.b.jump(end);
            lower.b.switch_to(end);
        })
    }

    /// Keeps the greater of a word and `rank`; goes to `lost` where interrupts keep changing it.
    pub(crate) fn raise_word(&mut self, at: Vreg, offset: i16, rank: Vreg, lost: BlockId) {
        let end = self.b.block();
        for _ in 0..RAISE_ATTEMPTS {
            let current = self.b.load(Width::B8, at, offset);
            self.b.branch_if(Condition::GreaterEqual, current, rank, end);
            let was = self.b.compare_exchange(Width::B8, at, offset, current, rank);
            self.b.branch_if(Condition::Equal, was, current, end);
        }
        self.b.jump(lost);
        self.b.switch_to(end);
    }

    /// Adds 1 to the bucket of a value.
    pub(crate) fn count_in(&mut self, place: &MapPlace, buckets: Buckets, value: Vreg) -> Result<(), Error> {
        let index = self.bucket(buckets, value);
        self.with_element_or_new(place, &mut |lower, element, lost| {
            let bucket = lower.part(element, index, (buckets.count(), 8), lost);
            lower.b.atomic_add(Width::B8, bucket, 0, 1);
        })
    }

    /// The address of one of the `count` parts of an element, each of `size` bytes. The verifier learns from the comparison that it is one of the element's; the mask keeps what
    /// is compared in a register of its own.
    pub(crate) fn part(
        &mut self,
        element: Vreg,
        index: Vreg,
        (count, size): (u32, u32),
        lost: BlockId,
    ) -> Vreg {
        let mask = count.next_power_of_two() - 1;
        let index = self.b.and(index, i64::from(mask));
        self.b
            .branch_if(Condition::GreaterEqual, index, i64::from(count), lost);
        let offset = match size.is_power_of_two() {
            true => self.b.shift_left(index, i64::from(size.trailing_zeros())),
            false => self.b.mul(index, i64::from(size)),
        };
        self.b.add(element, offset)
    }
}

/// Whether a value is known not to be kept as zeroes, and not to become them by a positive addend: a negative number would.
fn is_never_zeroes(value: &Expr) -> bool {
    match &value.kind {
        ExprKind::ConstantBytes(text) => text.first().is_some_and(|byte| *byte != 0),
        _ => value.constant().is_some_and(|known| known.cast_signed() > 0),
    }
}
