//! The code before every handler of a session: the active table is read and the process filtered, then the table's handler is called.
//!
//! A record that names no buffer goes to the one that its CPU uses now. Where handlers of the session may change that, the reservation stands
//! once per buffer that can be meant, and the branches join before the record is filled:
//!
//! ```text
//!   current buffer of this CPU ─┬─ 1 ─► frozen? ─► reserve in ring 1 ─┐
//!                               ├─ 2 ─► frozen? ─► reserve in ring 2 ─┼─► fill, commit
//!                               └─────► frozen? ─► reserve in ring 0 ─┘
//! ```
//!
//! Before that, the buffers that are for one process are asked ([`super::owner`]).

use super::owner::{self, Owner};
use super::relay::{self, Relay, RelayedHandler};
use super::second_chance::{self, ProgramPlace, Switches};
use super::{Call, control, named, process_filter};
use crate::buffer::REMOVED;
pub use crate::buffer::name::MESSAGES;
use crate::buffer::writer::RingSink;
use kestrel_bpf::helper;
use kestrel_compiler::check::tree::{Action, CheckedProbe, Destination, StatementKind};
use kestrel_compiler::codegen::lower::emit_preemption_on;
use kestrel_compiler::ir::{BlockId, Builder, Condition, Vreg};
use kestrel_compiler::sink::{Number, Reservation, Sink, SinkError, Size};

/// Name by which a hook refers to the program array of handlers that were loaded after it.
pub const SLOTS_MAP: &str = "slots";

/// Choice of the handler for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerChoice {
    /// The only one, whenever any table is active.
    Only,
    /// The only one, whatever table is active: the session itself runs the program.
    Always,
    /// By the active table: for each handler the numbers of its tables. Where none fits, and there are `slots`, the slot that the active word
    /// names is tried: a table that was loaded after the hook.
    Tables {
        /// For each handler, numbers of the tables that have it.
        tables: Vec<Vec<u32>>,
        /// Whether the hook has slots.
        slots: bool,
    },
    /// The program is called from a slot, so the table was chosen before: for each handler the places of its events among those that the hook
    /// serves; empty where it is for all of them.
    Instances(Vec<Vec<u16>>),
    /// The program is called from a slot, for the handler at this place alone.
    Handler(usize),
    /// The handler of a named probe, whatever table is active. Where it has `slots`, its word may name one: a program that was made after the hook.
    Named {
        /// The named probe.
        own: named::ProbeIdentity,
        /// Whether the hook has slots.
        slots: bool,
    },
    /// The handler of a named probe, recompiled: it is called from a slot, so the probe's word was read before.
    Recompiled(named::ProbeIdentity),
}

/// Changes of a session's buffers while its hooks run, for which their code must then check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferPolicy {
    /// Names of the buffers that can become a CPU's current one; empty where the first always is.
    pub current: Vec<String>,
    /// Whether a buffer may be frozen.
    pub freezing: bool,
}

impl BufferPolicy {
    /// Policy where a command or a later handler may do anything to these buffers.
    pub fn any(buffers: &[String]) -> Self {
        Self {
            current: buffers
                .iter()
                .filter(|name| !name.starts_with(REMOVED))
                .cloned()
                .collect(),
            freezing: true,
        }
    }

    /// Policy for these handlers.
    pub fn of<'t>(handlers: impl IntoIterator<Item = &'t CheckedProbe>) -> Self {
        let mut policy = Self::default();
        for handler in handlers {
            for statement in handler.statements() {
                match &statement.kind {
                    StatementKind::Act(Action::UseBuffer(name)) if !policy.current.contains(name) => {
                        policy.current.push(name.clone());
                    }
                    StatementKind::Act(Action::Freeze(_)) => policy.freezing = true,
                    _ => {}
                }
            }
        }
        policy
    }
}

/// All that the code before a hook's handlers depends on; the [`Sink`] that emits it.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// Buffers of records, by name and in the order of their numbers; the first is the default.
    pub buffers: Vec<(String, RingSink)>,
    /// Buffers that are for one process, by number.
    pub owners: Vec<(u32, Owner)>,
    /// How handlers and commands may change them while hooks run.
    pub buffer_policy: BufferPolicy,
    /// Whether failures of helpers are counted.
    pub counts_failures: bool,
    /// Whether updates of full maps are counted, by their places.
    pub counts_updates: bool,
    /// Whether divisions by zero are counted, and loops that the kernel ends.
    pub counts_divisions: bool,
    /// Names of the tables by their places.
    pub tables: Vec<String>,
    /// Names of the parameters by their places.
    pub parameters: Vec<String>,
    /// Whether only events of followed threads are wanted.
    pub followed: bool,
    /// Programs of objects that handlers call, and where they stand.
    pub calls: Vec<Call>,
    /// How the handler is found.
    pub choice: HandlerChoice,
    /// Where another hook on its event looks at the active word for it.
    pub taken_from: Option<Relay>,
    /// Relayed hooks that take the active word from this hook.
    pub relayed_hooks: Vec<Relay>,
    /// Set in the stand-in program of a relayed handler: where it stores the active word for the relayed hook instead of calling the handler.
    pub passes_to: Option<RelayedHandler>,
    /// Where the hook is several programs: which of them this is.
    pub place: Option<ProgramPlace>,
    /// Where the kernel counts how often the thread was switched out, if that is known.
    pub switches: Option<Switches>,
    /// Whether the program runs with preemption off from its first instruction to its last.
    pub preemption_off: bool,
    /// Whether the check for second chances may be a BPF subprogram.
    pub subprogram: bool,
}

impl HandlerChoice {
    /// Whether the program is called by the one that is attached.
    pub fn is_called(&self) -> bool {
        matches!(self, Self::Instances(_) | Self::Handler(_) | Self::Recompiled(_))
    }
}

impl Dispatch {
    /// The number of a buffer.
    fn buffer_number(&self, name: &str) -> Result<u32, SinkError> {
        let found = self.buffers.iter().position(|(known, _)| known == name);
        let number = found.ok_or_else(|| SinkError(format!("there is no buffer {name}")))?;
        Ok(number as u32)
    }

    /// Numbers of the buffers that a record may go to, the default last.
    fn possible_buffers(&self, to: &Destination) -> Result<Vec<u32>, SinkError> {
        match to {
            Destination::Buffer(name) => Ok(vec![self.buffer_number(name)?]),
            Destination::Messages => match self.buffer_number(MESSAGES) {
                Ok(number) => Ok(vec![number]),
                Err(_) => Err(SinkError(
                    "this session has no buffer for messages to the agent".to_owned(),
                )),
            },
            Destination::Current => {
                let mut possible = Vec::new();
                for name in &self.buffer_policy.current {
                    possible.push(self.buffer_number(name)?);
                }
                possible.extend(self.owners.iter().map(|(number, _)| *number));
                possible.retain(|number| *number != 0);
                possible.sort_unstable();
                possible.dedup();
                possible.push(0);
                Ok(possible)
            }
        }
    }

    /// Reserves in one buffer, unless it is frozen.
    fn reserve_in(
        &self,
        b: &mut Builder,
        buffer: u32,
        number: Number,
        size: Size,
        skip: BlockId,
    ) -> Result<Reservation, SinkError> {
        let found = self.buffers.get(buffer as usize);
        let (name, ring) = found.ok_or_else(|| SinkError("there is no buffer".to_owned()))?;
        if self.buffer_policy.freezing && name != MESSAGES {
            let frozen = control::emit_frozen(b, buffer);
            let (refuse, open) = (b.cold_block(), b.block());
            b.branch(Condition::NotEqual, frozen, 0, refuse, open);
            b.switch_to(refuse);
            ring.emit_lose_frozen(b, number, skip);
            b.switch_to(open);
        }
        ring.reserve(b, number, size, &Destination::Current, skip)
    }
}

/// Numbers as runs without gaps: first and last, with what each run leads to.
fn runs<N: Copy + Into<u64>>(sets: &[Vec<N>], to: &[BlockId]) -> Vec<(u64, u64, BlockId)> {
    let mut all: Vec<(u64, BlockId)> = Vec::new();
    for (numbers, block) in sets.iter().zip(to) {
        all.extend(numbers.iter().map(|n| ((*n).into(), *block)));
    }
    all.sort_unstable_by_key(|(number, _)| *number);
    let mut runs: Vec<(u64, u64, BlockId)> = Vec::new();
    for (number, block) in all {
        match runs.last_mut() {
            Some((_, last, same)) if *same == block && *last + 1 == number => *last = number,
            _ => runs.push((number, number, block)),
        }
    }
    runs
}

/// Goes where the run leads that `value` is in, else to `otherwise`: halving, so that two hundred tables take eight comparisons.
fn branch_runs(b: &mut Builder, value: Vreg, runs: &[(u64, u64, BlockId)], otherwise: BlockId) {
    match runs {
        [] => b.jump(otherwise),
        [(first, last, block)] if first == last => {
            b.branch(Condition::Equal, value, *first as i64, *block, otherwise);
        }
        [(first, last, block)] => {
            let above = b.block();
            b.branch(Condition::GreaterEqual, value, *first as i64, above, otherwise);
            b.switch_to(above);
            b.branch(Condition::LessEqual, value, *last as i64, *block, otherwise);
        }
        many => {
            let (low, high) = many.split_at(many.len() / 2);
            let (left, right) = (b.block(), b.block());
            let border = high.first().map_or(0, |run| run.0);
            b.branch(Condition::Less, value, border as i64, left, right);
            b.switch_to(left);
            branch_runs(b, value, low, otherwise);
            b.switch_to(right);
            branch_runs(b, value, high, otherwise);
        }
    }
}

/// Tail-calls the handler in the slot that a word names, if any, and does not return from it. No program can be called with preemption off, so
/// one that runs `whole` switches it on.
fn call_slot(b: &mut Builder, word: Vreg, whole: bool, skip: BlockId) {
    let slot = b.shift_right(word, 32);
    b.branch_if(Condition::Equal, slot, 0, skip);
    let slot = b.sub(slot, 1);
    if whole {
        emit_preemption_on(b);
    }
    let slots = b.external(SLOTS_MAP);
    let slots = b.map_pointer(slots);
    let context = b.context();
    b.helper(helper::TAIL_CALL, &[context.into(), slots.into(), slot.into()]);
    match whole {
        true => b.exit(0),
        false => b.jump(skip),
    }
}

impl Sink for Dispatch {
    fn admit(&self, b: &mut Builder, skip: BlockId) {
        // One that is called has been let in by its caller.
        if let Some(place) = self.place.filter(|_| !self.choice.is_called()) {
            second_chance::emit_enter(b, place, self.switches, self.subprogram, skip);
        }
    }

    fn counts_failures(&self) -> bool {
        self.counts_failures
    }

    fn counts_updates(&self) -> bool {
        self.counts_updates
    }

    fn counts_divisions(&self) -> bool {
        self.counts_divisions
    }

    fn by_instance(&self) -> bool {
        matches!(&self.choice, HandlerChoice::Instances(sets) if sets.iter().any(|set| !set.is_empty()))
    }

    fn choose(&self, b: &mut Builder, handlers: &[BlockId], instance: Option<Vreg>, skip: BlockId) {
        for relay in self.relayed_hooks.iter().filter(|_| self.choice.is_called()) {
            // A hit before this one may have left a word that its other hook never took.
            relay::emit_clear(b, *relay);
        }
        let first = handlers.first().copied().unwrap_or(skip);
        match &self.choice {
            HandlerChoice::Only => {
                control::emit_any_active(b, skip);
            }
            HandlerChoice::Named { own, slots: false } => {
                control::emit_probe(b, own.place, own.number, skip);
                control::emit_probes_on(b, skip);
            }
            HandlerChoice::Named { own, slots: true } => {
                let word = control::emit_probe_word(b, own.place);
                let (known, other) = (b.block(), b.cold_block());
                // The usual case is one comparison; a word with a slot in it goes the long way.
                b.branch(Condition::Equal, word, i64::from(own.number), known, other);
                b.switch_to(other);
                let number = b.and(word, i64::from(u32::MAX));
                b.branch_if(Condition::NotEqual, number, i64::from(own.number), skip);
                control::emit_probes_on(b, skip);
                call_slot(b, word, self.preemption_off, skip);
                b.switch_to(known);
                control::emit_probes_on(b, skip);
            }
            HandlerChoice::Always => {
                b.jump(first);
                return;
            }
            HandlerChoice::Recompiled(_) => {}
            HandlerChoice::Tables { tables, slots } => {
                let active = match self.taken_from {
                    Some(relay) => relay::emit_take(b, relay, skip),
                    None => control::emit_active(b),
                };
                let none = if *slots { b.block() } else { skip };
                let known = b.block();
                let number = b.and(active, i64::from(u32::MAX));
                b.jump(known);
                b.switch_to(known);
                // The processes are asked for behind the table: most hits of a masked event end before that.
                let to: Vec<BlockId> = handlers.iter().map(|_| b.block()).collect();
                branch_runs(b, number, &runs(tables, &to), none);
                if *slots {
                    b.switch_to(none);
                    call_slot(b, active, self.preemption_off, skip);
                }
                for (entry, handler) in to.into_iter().zip(handlers) {
                    b.switch_to(entry);
                    if self.followed {
                        process_filter::emit_admit(b, skip);
                    }
                    b.jump(*handler);
                }
                return;
            }
            HandlerChoice::Handler(row) => {
                if self.followed {
                    process_filter::emit_admit(b, skip);
                }
                b.jump(handlers.get(*row).copied().unwrap_or(skip));
                return;
            }
            HandlerChoice::Instances(sets) => {
                if self.followed {
                    process_filter::emit_admit(b, skip);
                }
                match instance {
                    Some(instance) => branch_runs(b, instance, &runs(sets, handlers), skip),
                    None => b.jump(first),
                }
                return;
            }
        }
        if self.followed {
            process_filter::emit_admit(b, skip);
        }
        b.jump(first);
    }

    fn entered(&self, b: &mut Builder, skip: BlockId) {
        if let HandlerChoice::Named { own, .. } | HandlerChoice::Recompiled(own) = &self.choice
            && own.counted
        {
            named::emit_hit(b, *own, skip);
        }
    }

    fn prepare(&self, b: &mut Builder, records: usize, skip: BlockId) {
        if let [(_, ring)] = self.buffers.as_slice() {
            ring.prepare(b, records, skip);
        }
    }

    fn identifies(&self, number: Number) -> bool {
        // Each ring of a session is written in the same way.
        self.buffers
            .first()
            .is_some_and(|(_, ring)| ring.identifies(number))
    }

    fn act(&self, b: &mut Builder, action: &Action) -> Result<(), SinkError> {
        match action {
            Action::UseTable(name) => {
                let place = self.tables.iter().position(|known| known == name);
                let place = place.ok_or_else(|| SinkError(format!("there is no table {name}")))?;
                control::emit_use_table(b, place as u32);
            }
            Action::Leave => control::emit_deactivate(b),
            Action::Call { object, program } => {
                if let Some(passing) = self.passes_to {
                    relay::emit_pass(b, passing);
                    return Ok(());
                }
                let call = |call: &&Call| call.object == *object && call.program == *program;
                let call = self.calls.iter().find(call);
                let call = call
                    .ok_or_else(|| SinkError(format!("the object {object} is not loaded in this session")))?;
                if self.place.is_some_and(|place| place.number > 0) {
                    // Its author relies on the kernel: no program runs twice at once on one CPU.
                    second_chance::emit_missed(b);
                    return Ok(());
                }
                let slots = b.external(SLOTS_MAP);
                let slots = b.map_pointer(slots);
                let context = b.context();
                b.helper(
                    helper::TAIL_CALL,
                    &[context.into(), slots.into(), call.entry.into()],
                );
            }
            Action::UseBuffer(name) => control::emit_use_buffer(b, self.buffer_number(name)?),
            Action::Freeze(name) => control::emit_freeze(b, self.buffer_number(name)?, true),
            Action::Thaw(name) => control::emit_freeze(b, self.buffer_number(name)?, false),
            Action::Reset(name) => control::emit_reset(b, self.buffer_number(name)?),
        }
        Ok(())
    }

    fn parameter(&self, b: &mut Builder, name: &str) -> Result<Vreg, SinkError> {
        let index = self.parameters.iter().position(|known| known == name);
        let index = index.ok_or_else(|| SinkError(format!("there is no parameter {name}")))?;
        Ok(control::emit_parameter(b, index as u32))
    }

    fn is_target(&self, b: &mut Builder, thread: Vreg) -> Result<Vreg, SinkError> {
        Ok(process_filter::emit_is_followed(b, thread))
    }

    fn reserve(
        &self,
        b: &mut Builder,
        number: Number,
        size: Size,
        to: &Destination,
        skip: BlockId,
    ) -> Result<Reservation, SinkError> {
        let possible = self.possible_buffers(to)?;
        let (others, last) = match possible.as_slice() {
            [] => return Err(SinkError("there is no buffer".to_owned())),
            [only] => return self.reserve_in(b, *only, number, size, skip),
            [others @ .., last] => (others, *last),
        };
        let blocks: Vec<(u32, BlockId)> = others.iter().map(|number| (*number, b.block())).collect();
        let block = |number: &u32| blocks.iter().find(|(known, _)| known == number);
        let owners: Vec<(&Owner, BlockId)> = self
            .owners
            .iter()
            .filter_map(|(number, owner)| Some((owner, block(number)?.1)))
            .collect();
        owner::emit_route(b, &owners, &self.parameters)?;
        let rings = possible
            .iter()
            .filter_map(|number| self.buffers.get(*number as usize));
        let kept = rings.map(|(_, ring)| ring.kept()).max().unwrap_or(0);
        // The ring's map is a constant in the code, so each ring has a copy of the reservation, chosen by the current buffer's number.
        let current = control::emit_current(b);
        let joined = b.block();
        let mut join: Option<Reservation> = None;
        let mut into = |b: &mut Builder, buffer: u32| -> Result<(), SinkError> {
            let mut one = self.reserve_in(b, buffer, number, size, skip)?;
            let join = join.get_or_insert_with(|| Reservation {
                record: b.vreg(),
                kept: (0..one.kept.len().max(kept)).map(|_| b.vreg()).collect(),
                size,
                counted: one.counted,
                subprogram_map: None,
            });
            // One commit serves all of them. In rings whose records wake no reader, the word that it looks at is 0 or makes it wake one too early.
            if kept > one.kept.len() {
                RingSink::give_bell(&mut one);
            }
            b.assign(join.record, one.record);
            for (to, from) in join.kept.iter().zip(one.kept) {
                b.assign(*to, from);
            }
            b.jump(joined);
            Ok(())
        };
        for &(buffer, this) in &blocks {
            let next = b.block();
            b.branch(Condition::Equal, current, i64::from(buffer), this, next);
            b.switch_to(this);
            into(b, buffer)?;
            b.switch_to(next);
        }
        into(b, last)?;
        b.switch_to(joined);
        join.ok_or_else(|| SinkError("there is no buffer".to_owned()))
    }

    fn commit(&self, b: &mut Builder, reservation: Reservation, alone: bool) {
        let ring = self
            .buffers
            .iter()
            .map(|(_, ring)| ring)
            .find(|ring| reservation.subprogram_map.as_ref() == Some(&ring.map));
        match ring {
            Some(ring) => ring.commit_apart(b, &reservation, alone),
            None => RingSink::emit_commit(b, reservation, alone),
        }
    }

    fn start_time(&self, b: &mut Builder) -> Result<Vreg, SinkError> {
        Ok(control::emit_start(b))
    }

    fn slack(&self) -> u32 {
        self.buffers
            .iter()
            .map(|(_, ring)| ring.slack())
            .min()
            .unwrap_or(0)
    }

    fn wants_preemption_off_throughout(&self) -> bool {
        self.preemption_off
    }

    fn wants_preemption_off(&self) -> bool {
        self.buffers.iter().any(|(_, ring)| ring.wants_preemption_off())
    }
}
