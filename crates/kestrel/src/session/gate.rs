//! What stands before every handler of a session: which table is active, is this process wanted; then its handler, and the rings.

use super::{control, target};
use crate::buffer::emit::RingSink;
use kestrel_bpf::helper;
use kestrel_compiler::check::tree::{Action, Destination};
use kestrel_compiler::ir::{BlockId, Builder, Condition, Vreg};
use kestrel_compiler::sink::{Number, Refused, Reservation, Sink, Size};

/// Name by which a hook refers to the program array of handlers that were loaded after it.
pub const SLOTS: &str = "slots";

/// Which handler an event meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The only one, whenever any table is active.
    Only,
    /// By the active table: for each handler the numbers of its tables. Where none fits, and there are `slots`, the slot that the active word
    /// names is tried: a table that was loaded after the hook.
    Tables {
        /// Per handler.
        tables: Vec<Vec<u32>>,
        /// Whether the hook has slots.
        slots: bool,
    },
    /// The program is called from a slot, so the table was chosen before: for each handler the places of its events among those that the hook
    /// serves; empty where it is for all of them.
    Instances(Vec<Vec<u16>>),
}

/// Rings behind a session's gate.
#[derive(Clone, Debug)]
pub struct Gate {
    /// Where records go, by name; the first where nothing else is said.
    pub buffers: Vec<(String, RingSink)>,
    /// Names of the tables by their places.
    pub tables: Vec<String>,
    /// Names of the parameters by their places.
    pub parameters: Vec<String>,
    /// Whether only followed processes are wanted.
    pub followed: bool,
    /// Which handler.
    pub choice: Choice,
}

impl Gate {
    fn ring(&self, name: &str) -> Result<&RingSink, Refused> {
        let found = self.buffers.iter().find(|(known, _)| known == name);
        let (_, ring) = found.ok_or_else(|| Refused(format!("there is no buffer {name}")))?;
        Ok(ring)
    }

    fn default_ring(&self) -> Result<&RingSink, Refused> {
        let first = self.buffers.first();
        let (_, ring) = first.ok_or_else(|| Refused("there is no buffer".to_owned()))?;
        Ok(ring)
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

/// Calls the handler that stands in the slot that the active word names, if any: does not come back from it.
fn call_slot(b: &mut Builder, active: Vreg, refused: BlockId) {
    let slot = b.shift_right(active, 32);
    b.branch_if(Condition::Equal, slot, 0, refused);
    let slot = b.sub(slot, 1);
    let slots = b.external(SLOTS);
    let slots = b.map_pointer(slots);
    let context = b.context();
    b.helper(helper::TAIL_CALL, &[context.into(), slots.into(), slot.into()]);
    b.jump(refused);
}

impl Sink for Gate {
    fn by_instance(&self) -> bool {
        matches!(&self.choice, Choice::Instances(sets) if sets.iter().any(|set| !set.is_empty()))
    }

    fn choose(&self, b: &mut Builder, handlers: &[BlockId], instance: Option<Vreg>, refused: BlockId) {
        let first = handlers.first().copied().unwrap_or(refused);
        match &self.choice {
            Choice::Only => {
                control::emit_any_active(b, refused);
            }
            Choice::Tables { tables, slots } => {
                let active = control::emit_active(b);
                let none = if *slots { b.block() } else { refused };
                let known = b.block();
                let number = b.and(active, i64::from(u32::MAX));
                b.jump(known);
                b.switch_to(known);
                let to: Vec<BlockId> = handlers.iter().map(|_| b.block()).collect();
                branch_runs(b, number, &runs(tables, &to), none);
                if *slots {
                    b.switch_to(none);
                    call_slot(b, active, refused);
                }
                for (entry, handler) in to.into_iter().zip(handlers) {
                    b.switch_to(entry);
                    if self.followed {
                        target::emit_admit(b, refused);
                    }
                    b.jump(*handler);
                }
                return;
            }
            Choice::Instances(sets) => {
                if self.followed {
                    target::emit_admit(b, refused);
                }
                match instance {
                    Some(instance) => branch_runs(b, instance, &runs(sets, handlers), refused),
                    None => b.jump(first),
                }
                return;
            }
        }
        if self.followed {
            target::emit_admit(b, refused);
        }
        b.jump(first);
    }

    fn act(&self, b: &mut Builder, action: &Action) -> Result<(), Refused> {
        match action {
            Action::UseTable(name) => {
                let place = self.tables.iter().position(|known| known == name);
                let place = place.ok_or_else(|| Refused(format!("there is no table {name}")))?;
                control::emit_use_table(b, place as u32);
                Ok(())
            }
            other => Err(Refused(format!("{other:?} is not possible here"))),
        }
    }

    fn parameter(&self, b: &mut Builder, name: &str) -> Result<Vreg, Refused> {
        let index = self.parameters.iter().position(|known| known == name);
        let index = index.ok_or_else(|| Refused(format!("there is no parameter {name}")))?;
        Ok(control::emit_parameter(b, index as u32))
    }

    fn reserve(
        &self,
        b: &mut Builder,
        number: Number,
        size: Size,
        to: &Destination,
        refused: BlockId,
    ) -> Result<Reservation, Refused> {
        let ring = match to {
            Destination::Buffer(name) => self.ring(name)?,
            Destination::Current => self.default_ring()?,
            Destination::Messages => return Err(Refused("there is no agent to tell".to_owned())),
        };
        ring.reserve(b, number, size, to, refused)
    }

    fn commit(&self, b: &mut Builder, reservation: Reservation) {
        if let Ok(ring) = self.default_ring() {
            ring.commit(b, reservation);
        }
    }

    fn start_time(&self, b: &mut Builder) -> Result<Vreg, Refused> {
        Ok(control::emit_start(b))
    }

    fn slack(&self) -> u32 {
        self.buffers
            .iter()
            .map(|(_, ring)| ring.slack())
            .min()
            .unwrap_or(0)
    }

    fn wants_preemption_off(&self) -> bool {
        self.buffers.iter().any(|(_, ring)| ring.wants_preemption_off())
    }
}
