//! Relays: a hook of another program type beside one that is there, for an object's program that the first cannot call.
//!
//! Two hooks on one event that each look at the active word could both take a hit during which the table is switched, or both leave it. So only
//! the first looks. In the slot of a table whose handler the other hook has, it finds a program that passes on what it decided, and the other hook does that
//! and nothing else:
//!
//! ```text
//!   hit ──► first hook: active word ─► slot of the table: passes the word on ──► relayed hook: is there a word for this hit? ─► handler
//!                                    └► any other handler                        (none: leaves)
//! ```
//!
//! The kernel runs the programs of a tracepoint in the order in which they were attached, so the relayed hook comes later in the same hit. A word is passed on by the thread
//! that is hit (idle threads, by the processor), and taken away by the program that acts on it. Where the kernel skipped the relayed hook it is left over; so whatever else the
//! first hook calls takes it away before anything else, and so does what stands in the slots of tables that mask the event.

use kestrel_bpf::helper;
use kestrel_catalog::Result;
use kestrel_compiler::ir::{BlockId, Builder, Condition, Vreg, Width};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec};
use serde::{Deserialize, Serialize};

/// Name by which programs refer to the words that are passed on.
pub const MAP: &str = "relay";

/// Cells, each of [`CELL`] bytes: whose word it is, and the word.
const CELLS: u32 = 1 << 14;
const CELL: u32 = 16;
const WORD: i16 = 8;
/// Spreads keys (2^64 divided by the golden ratio).
const SPREAD: i64 = 0x9e37_79b9_7f4a_7c15_u64 as i64;
/// Marks the key of an idle thread, which is its processor: all idle threads have the number 0.
const IDLE: i64 = 1 << 31;

/// The hook whose table a relay acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relay {
    /// The number of the hook that looks at the active word.
    pub from: u32,
    /// Which of those that it passes words on to: the kernel's number for the type of their programs.
    pub channel: u32,
}

/// Stand-in for a handler of another hook: it passes the active word on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayedHandler {
    /// The relay that the word is passed to.
    pub relay: Relay,
    /// The table's word; none where the table has no handler for the event.
    pub word: Option<u64>,
}

impl Relay {
    /// Key of its words, different from those of others.
    fn key(self) -> i64 {
        (i64::from(self.from) << 8 | i64::from(self.channel)) << 32
    }
}

/// Makes the map of a session: no word is passed on.
pub fn create_map() -> Result<Map> {
    let spec = MapSpec::new(MapKind::ARRAY, "kestrel_relay", 4, CELLS * CELL, 1);
    Ok(Map::create(&spec)?)
}

/// The thread that is hit, and the cell of its words.
fn cell(b: &mut Builder, relay: Relay) -> (Vreg, Vreg) {
    let id = b.helper(helper::GET_CURRENT_PID_TGID, &[]);
    let who = b.vreg();
    let thread = b.and(id, i64::from(u32::MAX));
    b.assign(who, thread);
    let (idle, known) = (b.block(), b.block());
    b.branch(Condition::Equal, thread, 0, idle, known);
    b.switch_to(idle);
    let cpu = b.helper(helper::GET_SMP_PROCESSOR_ID, &[]);
    let cpu = b.or(cpu, IDLE);
    b.assign(who, cpu);
    b.jump(known);
    b.switch_to(known);
    let key = b.constant(relay.key());
    let key = b.or(who, key);
    let spread = b.mul(key, SPREAD);
    let index = b.shift_right(spread, 64 - i64::from(CELLS.trailing_zeros()));
    let at = b.shift_left(index, i64::from(CELL.trailing_zeros()));
    let map = b.external(MAP);
    let cells = b.map_value(map, 0);
    (key, b.add(cells, at))
}

/// In a relay: gives the word that was passed on for this hit; leaves where there is none.
pub(crate) fn emit_take(b: &mut Builder, relay: Relay, skip: BlockId) -> Vreg {
    let (key, cell) = cell(b, relay);
    let whose = b.load(Width::B8, cell, 0);
    b.branch_if(Condition::NotEqual, whose, key, skip);
    let word = b.load(Width::B8, cell, WORD);
    b.store(Width::B8, cell, 0, 0);
    word
}

/// In any program that the first hook calls: takes away what a hit before this one left, whose other hook was skipped.
pub(crate) fn emit_clear(b: &mut Builder, relay: Relay) {
    let (key, cell) = cell(b, relay);
    let whose = b.load(Width::B8, cell, 0);
    let (left, clear) = (b.cold_block(), b.block());
    b.branch(Condition::Equal, whose, key, left, clear);
    b.switch_to(left);
    b.store(Width::B8, cell, 0, 0);
    b.jump(clear);
    b.switch_to(clear);
}

/// Emits, for the slot of a table, the code that passes the table's word on to the other hook.
pub(crate) fn emit_pass(b: &mut Builder, passing: RelayedHandler) {
    let Some(word) = passing.word else { return };
    let (key, cell) = cell(b, passing.relay);
    let word = b.constant(word.cast_signed());
    b.store(Width::B8, cell, WORD, word);
    b.store(Width::B8, cell, 0, key);
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_bpf::code::Code;
    use kestrel_bpf::interp::{self, Machine};
    use kestrel_compiler::codegen;

    const RELAY: Relay = Relay { from: 3, channel: 1 };
    const WORD: u64 = 5 << 32 | 9;

    fn generate(b: Builder) -> Code {
        codegen::generate(&b.finish()).unwrap().code
    }

    /// A machine, the program that passes on, and one that says which number it was passed.
    fn bench() -> (
        Machine,
        impl Fn(&mut Machine, Relay),
        impl Fn(&mut Machine, Relay) -> u64,
    ) {
        let mut machine = Machine::new();
        let array = || interp::MapKind::Array { entries: 1 };
        machine.add_map(array(), 4, CELLS * CELL);
        let pass = |machine: &mut Machine, relay| {
            let mut b = Builder::new();
            emit_pass(
                &mut b,
                RelayedHandler {
                    relay,
                    word: Some(WORD),
                },
            );
            b.exit(0);
            machine.run(&generate(b), &[0; 8]).unwrap();
        };
        let take = |machine: &mut Machine, relay| {
            let mut b = Builder::new();
            let skip = b.block();
            let word = emit_take(&mut b, relay, skip);
            let number = b.and(word, 0xff);
            b.exit(number);
            b.switch_to(skip);
            b.exit(0);
            machine.run(&generate(b), &[0; 8]).unwrap()
        };
        (machine, pass, take)
    }

    #[test]
    fn a_word_is_taken_once_by_the_thread_that_it_was_passed_to() {
        let (mut machine, pass, take) = bench();
        let other = Relay { channel: 2, ..RELAY };
        for (tid, cpu) in [(7, 0), (0, 0), (0, 1), (4_194_303, 1)] {
            (machine.environment.tid, machine.environment.cpu) = (tid, cpu);
            assert_eq!(take(&mut machine, RELAY), 0, "nothing yet for {tid}");
            pass(&mut machine, RELAY);
            assert_eq!(take(&mut machine, other), 0, "another hook's");
            (machine.environment.tid, machine.environment.cpu) = (tid ^ 8, 2);
            assert_eq!(take(&mut machine, RELAY), 0, "another thread's");
            (machine.environment.tid, machine.environment.cpu) = (tid, cpu);
            assert_eq!([0; 2].map(|_| take(&mut machine, RELAY)), [9, 0]);
        }
    }

    #[test]
    fn words_left_by_a_relay_are_cleared() {
        let (mut machine, pass, take) = bench();
        pass(&mut machine, RELAY);
        let clear = |machine: &mut Machine, relay| {
            let mut b = Builder::new();
            emit_clear(&mut b, relay);
            b.exit(0);
            machine.run(&generate(b), &[0; 8]).unwrap();
        };
        clear(&mut machine, Relay { from: 4, ..RELAY });
        assert_eq!(take(&mut machine, RELAY), 9);
        pass(&mut machine, RELAY);
        clear(&mut machine, RELAY);
        assert_eq!(take(&mut machine, RELAY), 0);
    }
}
