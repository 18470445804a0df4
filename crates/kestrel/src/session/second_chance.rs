//! Second chances: programs that catch the hits which the kernel keeps from a hook because a thread was preempted inside it.
//!
//! The kernel never runs a program on a CPU where it is running already (`prog->active`): it skips the hit and counts it. Where threads are preempted inside
//! programs ([`Preemption`]), one that is makes the kernel skip every other thread's hits on that CPU until it runs again. So a hook on such an event is
//! several programs with the same handlers. For one hit the kernel runs all of them one after the other, each with a guard of its own:
//!
//! ```text
//!   first     runs          skipped        skipped
//!   second    seen: leaves  takes the hit  skipped
//!   third     seen: leaves  seen: leaves   takes the hit
//! ```
//!
//! *Which hit it is*, all of them know by their context's address: it lies in the stack that the hit happened on, so it is the same for all programs of
//! one hit and differs between threads, interrupts and nested hits that are on their way at once. Under it the *seen* map holds who ran last:
//!
//! ```text
//!   cell   context address | 1, 2, 3: first, second, third program; 7: the last, so the hit is over and others may take the cell
//! ```
//!
//! A program takes the hit if the cell is not its hit's, or says that itself or a later one ran last: then the cell is left from the hit before. An address has two
//! cells, and a hit that is on its way keeps its own whatever other address falls on it.
//!
//! *Counts stay exact*: hits that the kernel skipped in the first program less those that a later one took are what no program saw.
//!
//! The programs are copies, not one that the others call: some kernels give a program a stack per CPU because it cannot run twice there (`priv_stack_ptr` on
//! x86, Linux 6.13), and a program that is called is not guarded. What they share per CPU they change atomically.

use crate::catalog::Attachment;
use crate::error::Result;
use kestrel_bpf::helper::{self, Helper};
use kestrel_compiler::ir::{AluOp, Bits, BlockId, Builder, Condition, Vreg, Width};
use kestrel_compiler::program::Uses;
use kestrel_kernel::bpf::{Map, MapKind, MapSpec};
use kestrel_kernel::preemption::Preemption;

/// Programs of a hook on a tracepoint whose handlers take no longer than to read a clock, some numbers and arguments: threads are preempted elsewhere, mostly.
const LIGHT: u32 = 3;
/// Programs of any other hook on a tracepoint. It misses nothing while fewer threads than this are preempted inside of them on one CPU.
const HEAVY: u32 = 4;
/// Helpers of light programs.
const QUICK: &[Helper] = &[
    helper::KTIME_GET_NS,
    helper::GET_SMP_PROCESSOR_ID,
    helper::GET_CURRENT_PID_TGID,
    helper::GET_CURRENT_UID_GID,
    helper::GET_CURRENT_TASK,
    helper::MAP_LOOKUP_ELEM,
    helper::TAIL_CALL,
];

/// One of the programs of a hook that is several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number, from 0: the order in which the kernel runs them.
    pub number: u32,
    /// Whether none comes behind it.
    pub last: bool,
}

impl Place {
    /// Of the program that the kernel runs first.
    pub const FIRST: Self = Self {
        number: 0,
        last: false,
    };
}

/// Name by which programs refer to the map of hits that were seen.
pub const MAP: &str = "seen";

/// Pairs of cells.
const PAIRS: u32 = 512;
const PAIR: u32 = 16;
/// Hits that a later program took: a u64 behind the cells.
const TAKEN: u32 = PAIRS * PAIR;
/// Of these, hits whose handler is a program of a compiled object: only the first program calls those.
const IN_VAIN: u32 = TAKEN + 8;
const SIZE: u32 = IN_VAIN + 8;

/// Who ran last, in a cell; all bits where that was the last program.
const RAN: i64 = 7;
const OVER: i64 = RAN;
/// Spreads addresses (2^64 divided by the golden ratio).
const SPREAD: i64 = 0x9e37_79b9_7f4a_7c15_u64 as i64;

/// Whether a hook that is attached so has several programs.
pub fn wanted(attachment: &Attachment, preemption: Preemption) -> bool {
    match attachment {
        Attachment::RawTracepoint { .. } | Attachment::TypedTracepoint { .. } => preemption.tracepoints,
        // A function has room for 38 programs of trampolines, all tracers together (`BPF_MAX_TRAMP_LINKS`), and each takes 0.1 s to detach.
        Attachment::Trampoline { .. }
        // The kernel turns preemption off before it calls these; or they share one guard, which other programs on the event would meet, too.
        | Attachment::Tracepoint { .. }
        | Attachment::Tracepoints
        | Attachment::Instruction { .. }
        | Attachment::Instructions { .. }
        | Attachment::Functions { .. }
        | Attachment::Counter { .. } => false,
    }
}

/// How many programs a hook has, the first of which calls these helpers.
pub(super) fn copies(uses: &Uses) -> u32 {
    match uses.helpers.iter().all(|helper| QUICK.contains(helper)) {
        true => LIGHT,
        false => HEAVY,
    }
}

/// The places behind the first of so many programs.
pub(super) fn later(copies: u32) -> impl Iterator<Item = Place> {
    (1..copies).map(move |number| Place {
        number,
        last: number + 1 == copies,
    })
}

/// Makes the map of a hook.
///
/// # Errors
/// The kernel's.
pub(super) fn create_map() -> Result<Map> {
    Ok(Map::create(&MapSpec::new(
        MapKind::ARRAY,
        "kestrel_seen",
        4,
        SIZE,
        1,
    ))?)
}

/// Of the hits that the kernel skipped in a hook's first program, how many a later one took.
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
        let map = b.external(MAP);
        let cells = b.map_value(map, 0);
        let hit = b.sub(context, cells);
        let spread = b.mul(hit, SPREAD);
        let index = b.shift_right(spread, 64 - i64::from(PAIRS.trailing_zeros()));
        let at = b.shift_left(index, i64::from(PAIR.trailing_zeros()));
        let pair = b.add(cells, at);
        let held = [0, 8].map(|offset| b.load(Width::B8, pair, offset));
        Self { hit, pair, held }
    }

    /// Goes to one of `own` with who ran last, where this hit has a cell; else the current block goes on.
    fn find(&self, b: &mut Builder, own: [BlockId; 2]) -> [Vreg; 2] {
        let ran = self.held.map(|held| b.alu(AluOp::Xor, Bits::B64, held, self.hit));
        for (ran, own) in ran.into_iter().zip(own) {
            b.branch_if(Condition::LessEqual, ran, RAN, own);
        }
        ran
    }

    /// Writes this hit's cell number `cell`, if it still holds what was read; else goes to `lost`.
    fn swap(&self, b: &mut Builder, cell: usize, who: i64, lost: BlockId) {
        let value = b.or(self.hit, who);
        let held = self.held[cell];
        let was = b.compare_exchange(Width::B8, self.pair, cell as i16 * 8, held, value);
        b.branch_if(Condition::NotEqual, was, held, lost);
    }

    /// Takes a cell that no hit on its way has, and goes to `done`. Where both are another's, the first is taken: it is most likely left by a
    /// thread that is gone.
    fn claim(&self, b: &mut Builder, who: i64, done: BlockId) {
        for (cell, held) in self.held.into_iter().enumerate() {
            let (free, next) = (b.block(), b.block());
            let ran = b.and(held, RAN);
            b.branch_if(Condition::Equal, ran, OVER, free);
            b.branch(Condition::Equal, held, 0, free, next);
            b.switch_to(free);
            self.swap(b, cell, who, next);
            b.jump(done);
            b.switch_to(next);
        }
        let value = b.or(self.hit, who);
        b.store(Width::B8, self.pair, 0, value);
        b.jump(done);
    }
}

/// At the start of one of a hook's programs: leaves where an earlier one has seen this hit, else takes it.
pub(super) fn emit_enter(b: &mut Builder, place: Place, leave: BlockId) {
    let number = i64::from(place.number) + 1;
    let says = if place.last { OVER } else { number };
    let (claim, take) = (b.cold_block(), b.block());
    let own = [b.block(), b.cold_block()];
    let cells = Cells::of(b);
    let ran = cells.find(b, own);
    b.jump(claim);
    for (cell, (own, ran)) in own.into_iter().zip(ran).enumerate() {
        b.switch_to(own);
        if place.number > 0 {
            // Left from the hit before.
            let (left, seen) = (b.cold_block(), b.block());
            b.branch(Condition::GreaterEqual, ran, number, left, seen);
            b.switch_to(seen);
            let value = b.or(cells.hit, says);
            b.store(Width::B8, cells.pair, cell as i16 * 8, value);
            b.jump(leave);
            b.switch_to(left);
        }
        cells.swap(b, cell, says, claim);
        b.jump(take);
    }
    b.switch_to(claim);
    cells.claim(b, says, take);
    b.switch_to(take);
    if place.number > 0 {
        count(b, TAKEN);
    }
}

/// Counts a hit that was taken in vain.
pub(super) fn emit_in_vain(b: &mut Builder) {
    count(b, IN_VAIN);
}

fn count(b: &mut Builder, at: u32) {
    let map = b.external(MAP);
    let counter = b.map_value(map, at);
    b.atomic_add(Width::B8, counter, 0, 1);
}

#[cfg(test)]
mod tests;
