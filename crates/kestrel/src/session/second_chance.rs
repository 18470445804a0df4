//! Second chances: programs that catch the hits which the kernel keeps from a hook because a thread was preempted inside it.
//!
//! The kernel never runs a program on a CPU where it is running already (`prog->active`): it skips the hit and counts it. Where threads are preempted inside
//! programs ([`Preemption`]), one that is makes the kernel skip every other thread's hits on that CPU until it runs again. So a hook on such an event is
//! attached with [`CHANCES`] more programs behind it. For one hit the kernel runs all of them one after the other, each with a guard of its own:
//!
//! ```text
//!   hook            runs          skipped                skipped
//!   second chance   seen: leaves  calls the hook's code  skipped
//!   third chance    seen: leaves  seen: leaves           calls the hook's code
//! ```
//!
//! *Which hit it is*, all of them know by their context's address: it lies in the stack that the hit happened on, so it is the same for all programs of
//! one hit and differs between threads, interrupts and nested hits that are on their way at once. Under it the *seen* map holds who ran last:
//!
//! ```text
//!   cell   context address | 1, 2, 3: hook, second, third chance | 4: it is about to call the hook's code
//!          3: the hit is over, others may take the cell
//! ```
//!
//! A program takes the hit if the cell is not its hit's, or says that itself or a later one ran last: then the cell is left from the hit before. An address has two
//! cells, and a hit that is on its way keeps its own whatever other address falls on it.
//!
//! *Counts stay exact*: hits that the kernel skipped in the hook less those that a chance took are what nobody saw.
//!
//! The hook's code may thus run several times at once on one CPU. What it keeps per CPU is therefore kept per run ([`RUNS`]), or changed atomically.

use crate::catalog::Attachment;
use crate::error::{Error, Result};
use kestrel_bpf::helper;
use kestrel_compiler::codegen::{self, Generated};
use kestrel_compiler::ir::{AluOp, Bits, BlockId, Builder, Condition, RUNS, Vreg, Width};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec};
use kestrel_kernel::preemption::Preemption;

/// Programs behind a hook: it misses nothing while no more than so many threads are preempted inside of it on one CPU.
pub const CHANCES: u32 = 2;
const _: () = assert!(
    CHANCES + 2 <= RUNS,
    "runs: the hook, its chances, and 0 where it is not known"
);

/// Name by which programs refer to the map of hits that were seen.
pub const SEEN: &str = "seen";
/// Name by which chances refer to the array that holds the hook itself.
pub const HOOK: &str = "hook";

/// Pairs of cells.
const PAIRS: u32 = 512;
const PAIR: u32 = 16;
/// Hits that a chance took: a u64 behind the cells.
const TAKEN: u32 = PAIRS * PAIR;
/// Hits that a chance took in vain: a program of a compiled object is not called while it may be running.
const IN_VAIN: u32 = TAKEN + 8;
const SIZE: u32 = IN_VAIN + 8;

/// Flags in a cell.
const RAN: i64 = 3;
const CALLS: i64 = 4;
const FLAGS: i64 = RAN | CALLS;
/// Spreads addresses (2^64 divided by the golden ratio).
const SPREAD: i64 = 0x9e37_79b9_7f4a_7c15_u64 as i64;

/// Whether a hook that is attached so gets chances.
pub fn wanted(attachment: &Attachment, preemption: Preemption) -> bool {
    match attachment {
        Attachment::RawTracepoint { .. } | Attachment::TypedTracepoint { .. } => preemption.tracepoints,
        Attachment::Trampoline { .. } => preemption.functions,
        // The kernel turns preemption off before it calls these.
        Attachment::Tracepoint { .. }
        | Attachment::Tracepoints
        | Attachment::Instruction { .. }
        | Attachment::Instructions { .. }
        | Attachment::Functions { .. }
        | Attachment::Counter { .. } => false,
    }
}

/// What a hook with chances has beside its program.
#[derive(Debug)]
pub(super) struct SecondChance {
    pub(super) seen: Map,
    /// Holds the hook's program, for chances to call.
    pub(super) hook: Map,
}

impl SecondChance {
    pub(super) fn create() -> Result<Self> {
        Ok(Self {
            seen: Map::create(&MapSpec::new(MapKind::ARRAY, "kestrel_seen", 4, SIZE, 1))?,
            hook: Map::create(&MapSpec::new(MapKind::PROG_ARRAY, "kestrel_hook", 4, 4, 1))?,
        })
    }
}

/// Of the hits that the kernel skipped in a hook, how many a chance took, as the hook's map says.
///
/// # Errors
/// The kernel's.
pub(super) fn taken(seen: &Map) -> Result<u64> {
    let value = seen.lookup(&0_u32.to_ne_bytes())?.unwrap_or_default();
    let word = |at: u32| {
        let bytes = value.get(at as usize..at as usize + 8);
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u64::from_ne_bytes)
    };
    Ok(word(TAKEN).saturating_sub(word(IN_VAIN)))
}

/// The cells of this hit's address, and what they hold.
struct Cells {
    /// The address, as it stands in cells: less that of the map, since the verifier takes a context for no number.
    hit: Vreg,
    pair: Vreg,
    held: [Vreg; 2],
}

impl Cells {
    fn of(b: &mut Builder) -> Self {
        let context = b.context();
        let map = b.external(SEEN);
        let cells = b.map_value(map, 0);
        let hit = b.sub(context, cells);
        let spread = b.mul(hit, SPREAD);
        let index = b.shift_right(spread, 64 - i64::from(PAIRS.trailing_zeros()));
        let at = b.shift_left(index, i64::from(PAIR.trailing_zeros()));
        let pair = b.add(cells, at);
        let held = [0, 8].map(|offset| b.load(Width::B8, pair, offset));
        Self { hit, pair, held }
    }

    /// Goes to one of `own` with the flags of this hit's cell, where it has one; else the current block goes on.
    fn find(&self, b: &mut Builder, own: [BlockId; 2]) -> [Vreg; 2] {
        let flags = self.held.map(|held| b.alu(AluOp::Xor, Bits::B64, held, self.hit));
        for (flags, own) in flags.into_iter().zip(own) {
            b.branch_if(Condition::LessEqual, flags, FLAGS, own);
        }
        flags
    }

    /// Writes this hit's cell number `cell`, if it still holds what was read; else goes to `lost`.
    fn swap(&self, b: &mut Builder, cell: usize, flags: i64, lost: BlockId) {
        let value = b.or(self.hit, flags);
        let held = self.held[cell];
        let was = b.compare_exchange(Width::B8, self.pair, cell as i16 * 8, held, value);
        b.branch_if(Condition::NotEqual, was, held, lost);
    }

    /// Takes a cell that no hit on its way has, and goes to `done`. Where both are another's, the first is taken: it is most likely left by a
    /// thread that is gone.
    fn claim(&self, b: &mut Builder, flags: i64, done: BlockId) {
        for (cell, held) in self.held.into_iter().enumerate() {
            let (free, next) = (b.block(), b.block());
            let state = b.and(held, FLAGS);
            b.branch_if(Condition::Equal, state, RAN, free);
            b.branch(Condition::Equal, held, 0, free, next);
            b.switch_to(free);
            self.swap(b, cell, flags, next);
            b.jump(done);
            b.switch_to(next);
        }
        let value = b.or(self.hit, flags);
        b.store(Width::B8, self.pair, 0, value);
        b.jump(done);
    }
}

/// At the start of a hook: marks the hit as seen, and tells which run of its code this is.
pub(super) fn emit_enter(b: &mut Builder) -> Vreg {
    let run = b.vreg();
    let (claim, first, done) = (b.block(), b.block(), b.block());
    let own = [b.block(), b.block()];
    let cells = Cells::of(b);
    let flags = cells.find(b, own);
    b.jump(claim);
    for (cell, (own, flags)) in own.into_iter().zip(flags).enumerate() {
        b.switch_to(own);
        let called = b.cold_block();
        b.branch_if(Condition::Greater, flags, RAN, called);
        cells.swap(b, cell, 1, claim);
        b.jump(first);
        b.switch_to(called);
        let who = b.and(flags, RAN);
        let value = b.or(cells.hit, who);
        b.store(Width::B8, cells.pair, cell as i16 * 8, value);
        b.assign(run, who);
        b.jump(done);
    }
    b.switch_to(claim);
    cells.claim(b, 1, first);
    b.switch_to(first);
    b.assign(run, 1);
    b.jump(done);
    b.switch_to(done);
    run
}

/// In a program that the hook's code calls: tells which run of that this belongs to; 0 where it is not known.
pub(super) fn emit_run(b: &mut Builder) -> Vreg {
    let run = b.vreg();
    b.assign(run, 0);
    let done = b.block();
    let own = [b.block(), b.block()];
    let cells = Cells::of(b);
    let flags = cells.find(b, own);
    b.jump(done);
    for (own, flags) in own.into_iter().zip(flags) {
        b.switch_to(own);
        let who = b.and(flags, RAN);
        b.assign(run, who);
        b.jump(done);
    }
    b.switch_to(done);
    run
}

/// Counts a hit that a chance took in vain.
pub(super) fn emit_in_vain(b: &mut Builder) {
    count(b, IN_VAIN, 1);
}

fn count(b: &mut Builder, at: u32, by: i64) {
    let map = b.external(SEEN);
    let counter = b.map_value(map, at);
    b.atomic_add(Width::B8, counter, 0, by);
}

/// The code of a hook's second chance (`number` 0), third (1), …. It is the same for all hooks: whether a hook has something to do now, its own code
/// asks, so that what the kernel skipped and what was taken are counted alike at all times.
///
/// # Errors
/// None that a test would not have met.
pub(super) fn program(number: u32) -> Result<Generated> {
    let who = i64::from(number) + 2;
    let mut b = Builder::new();
    let leave = b.block();
    let (claim, call) = (b.cold_block(), b.cold_block());
    let own = [b.block(), b.block()];
    let cells = Cells::of(&mut b);
    let flags = cells.find(&mut b, own);
    b.jump(claim);
    for (cell, (own, flags)) in own.into_iter().zip(flags).enumerate() {
        b.switch_to(own);
        let left = b.cold_block();
        let ran = b.and(flags, RAN);
        b.branch_if(Condition::GreaterEqual, ran, who, left);
        let value = b.or(cells.hit, who);
        b.store(Width::B8, cells.pair, cell as i16 * 8, value);
        b.jump(leave);
        b.switch_to(left);
        cells.swap(&mut b, cell, who | CALLS, claim);
        b.jump(call);
    }
    b.switch_to(claim);
    cells.claim(&mut b, who | CALLS, call);
    b.switch_to(call);
    count(&mut b, TAKEN, 1);
    let (context, hook) = (b.context(), b.external(HOOK));
    let hook = b.map_pointer(hook);
    b.helper(helper::TAIL_CALL, &[context.into(), hook.into(), 0.into()]);
    // Nobody is there any more.
    count(&mut b, TAKEN, -1);
    b.jump(leave);
    b.switch_to(leave);
    b.exit(0);
    codegen::generate(&b.finish()).map_err(|error| Error::Compile {
        event: "a second chance".to_owned(),
        why: error.to_string(),
    })
}

#[cfg(test)]
mod tests;
