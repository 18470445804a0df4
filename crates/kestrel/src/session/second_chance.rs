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
//! one hit and differs between threads, interrupts and nested hits that are on their way at once. The program that takes a hit *marks* that:
//!
//! ```text
//!   cell   63                    19 18      3 2      0
//!          context address         since      ran        0: free
//! ```
//!
//! Each address has two cells, of which a hit uses one. `ran` is the number (from 1) of the program that ran last for the hit; a program that finds itself or a later one there knows that the mark is left
//! from the hit before. The last program frees the cell.
//!
//! *Exactly one program takes a hit*: whoever finds other hits' marks in both does not take its own but leaves it to the next program, and the last, behind which
//! nobody could take it again, needs no cell. A mark that nobody will free (its hit was skipped in the last program) goes when its address has another hit, or when it
//! was in the way for [`OLD`]. (A thread's contexts lie at 64 addresses or so: the kernel shifts its stack by chance at each system call.)
//!
//! *Preemption is off in handlers* (`Sink::wants_program_whole`), and is switched on again while interrupts are off, so that nobody is preempted there: what is left are
//! the few instructions around the handlers. Switched on with interrupts on, it would be in the program that the thread is preempted.
//!
//! *Counts stay exact*: hits that the kernel skipped in the first program or that it left to others, less those that a later one took, are what no program saw.
//!
//! The programs are copies, not one that the others call: some kernels give a program a stack per CPU because it cannot run twice there (`priv_stack_ptr` on
//! x86, Linux 6.13), and a program that is called is not guarded. What they share per CPU they change atomically.

use crate::catalog::Attachment;
use crate::error::{Error, Result};
use kestrel_bpf::helper;
use kestrel_compiler::ir::{AluOp, Bits, BlockId, Builder, Condition, Vreg, Width};
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, ValueCheck};
use kestrel_kernel::preemption::Preemption;

/// Programs of a hook. It misses nothing while fewer threads than this are preempted inside of them on one CPU: four busy threads on one miss none.
pub(super) const PROGRAMS: u32 = 4;
/// With more hooks than this on one function none of them is several programs: a function takes 38 of all tracers together.
pub(super) const MOST_ON_A_FUNCTION: usize = 4;
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
/// Hits that the first program left to others.
const LEFT: u32 = IN_VAIN + 8;
const SIZE: u32 = LEFT + 8;

/// Who ran last, in a mark.
const RAN: i64 = 7;
/// When another hit met the mark first, in [`CLOCK`] ticks and odd; 0 if none has.
const SINCE_SHIFT: i64 = 3;
const SINCE: i64 = 0xffff;
/// Bits of a mark below the address.
const LOW: i64 = 19;
/// Bits of an address that are not kept: the same in all addresses of the kernel.
const HIGH: i64 = 16;
/// Ticks of the clock of marks, as a shift of jiffies: a quarter of a second to 2.56 s.
const CLOCK: i64 = 8;
/// No hit takes as long as so many ticks, a thread's preemption between two of its programs included.
const OLD: i64 = 32;
/// Spreads addresses (2^64 divided by the golden ratio).
const SPREAD: i64 = 0x9e37_79b9_7f4a_7c15_u64 as i64;

/// Whether a hook that is attached so has several programs.
pub fn wanted(attachment: &Attachment, preemption: Preemption) -> bool {
    match attachment {
        Attachment::RawTracepoint { .. } | Attachment::TypedTracepoint { .. } => preemption.tracepoints,
        Attachment::Trampoline { .. } => preemption.trampolines,
        // The kernel turns preemption off before it calls these; or they share one guard, which other programs on the event would meet, too.
        Attachment::Tracepoint { .. }
        | Attachment::Tracepoints
        | Attachment::Instruction { .. }
        | Attachment::Instructions { .. }
        | Attachment::Functions { .. }
        | Attachment::Counter { .. } => false,
    }
}

/// Whether the kernel has no room for all programs of a hook: a function takes 38, of all tracers together (`BPF_MAX_TRAMP_LINKS`). One is more important
/// than second chances.
pub(super) fn is_without_room(error: &Error) -> bool {
    let Error::Kernel(error) = error else {
        return false;
    };
    error.verifier_log().is_none() && error.errno().is_some_and(|errno| errno.name() == Some("E2BIG"))
}

/// The places behind the first of so many programs.
pub(super) fn later(programs: u32) -> impl Iterator<Item = Place> {
    (1..programs).map(move |number| Place {
        number,
        last: number + 1 == programs,
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

/// Forgets what happened while the programs were attached one by one: hits that one of them left to another that was not there yet.
///
/// # Errors
/// The kernel's.
pub(super) fn begin(seen: &Map) -> Result<()> {
    Ok(seen.update(&0_u32.to_ne_bytes(), &[0; SIZE as usize], ValueCheck::Any)?)
}

/// By how much fewer hits were missed than the kernel skipped in a hook's first program.
///
/// # Errors
/// The kernel's.
pub(super) fn taken(seen: &Map) -> Result<i64> {
    Ok(difference(
        &seen.lookup(&0_u32.to_ne_bytes())?.unwrap_or_default(),
    ))
}

fn difference(value: &[u8]) -> i64 {
    let word = |at: u32| {
        let bytes = value.get(at as usize..at as usize + 8);
        bytes
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, i64::from_ne_bytes)
    };
    word(TAKEN) - word(IN_VAIN) - word(LEFT)
}

/// The two cells of this hit, and what they hold.
struct Cells {
    /// The address as it stands in marks: less that of the map, since the verifier takes a context for no number.
    hit: Vreg,
    pair: Vreg,
    held: [Vreg; 2],
    /// `held` less the address.
    rest: [Vreg; 2],
}

impl Cells {
    fn of(b: &mut Builder) -> Self {
        let context = b.context();
        let map = b.external(MAP);
        let cells = b.map_value(map, 0);
        let address = b.sub(context, cells);
        let spread = b.mul(address, SPREAD);
        let index = b.shift_right(spread, 64 - i64::from(PAIRS.trailing_zeros()));
        let at = b.shift_left(index, i64::from(PAIR.trailing_zeros()));
        let pair = b.add(cells, at);
        let held = [0, 8].map(|offset| b.load(Width::B8, pair, offset));
        let hit = b.shift_left(address, HIGH);
        let rest = held.map(|held| b.alu(AluOp::Xor, Bits::B64, held, hit));
        Self {
            hit,
            pair,
            held,
            rest,
        }
    }

    /// Replaces what cell number `cell` held; goes to `lost` where somebody else came first.
    fn swap(&self, b: &mut Builder, cell: usize, mark: Vreg, lost: BlockId) {
        let held = self.held[cell];
        let was = b.compare_exchange(Width::B8, self.pair, cell as i16 * 8, held, mark);
        b.branch_if(Condition::NotEqual, was, held, lost);
    }

    /// Marks the hit as this program's, where no cell is its own: in a free one, or in the place of a mark that nobody will free; goes to `lost` where
    /// both are others'.
    fn claim(&self, b: &mut Builder, number: i64, take: BlockId, lost: BlockId) {
        let mark = b.or(self.hit, number);
        let others = b.cold_block();
        for (cell, held) in self.held.into_iter().enumerate() {
            let (free, next) = (b.block(), b.block());
            b.branch(Condition::Equal, held, 0, free, next);
            b.switch_to(free);
            self.swap(b, cell, mark, next);
            b.jump(take);
            b.switch_to(next);
        }
        b.jump(others);
        b.switch_to(others);
        let now = b.helper(helper::JIFFIES64, &[]);
        let now = b.shift_right(now, CLOCK);
        let now = b.or(now, 1);
        for (cell, held) in self.held.into_iter().enumerate() {
            let (met, known, old, next) = (b.block(), b.block(), b.block(), b.block());
            let since = b.shift_right(held, SINCE_SHIFT);
            let since = b.and(since, SINCE);
            b.branch(Condition::Equal, since, 0, met, known);
            b.switch_to(met);
            let stamp = b.and(now, SINCE);
            let stamp = b.shift_left(stamp, SINCE_SHIFT);
            let stamped = b.or(held, stamp);
            self.swap(b, cell, stamped, next);
            b.jump(next);
            b.switch_to(known);
            let age = b.sub(now, since);
            let age = b.and(age, SINCE);
            b.branch(Condition::GreaterEqual, age, OLD, old, next);
            b.switch_to(old);
            self.swap(b, cell, mark, next);
            b.jump(take);
            b.switch_to(next);
        }
        b.jump(lost);
    }
}

/// At the start of one of a hook's programs: leaves where an earlier one has seen this hit, or a later one shall take it; else takes it.
pub(super) fn emit_enter(b: &mut Builder, place: Place, leave: BlockId) {
    let number = i64::from(place.number) + 1;
    let cells = Cells::of(b);
    let own = [b.block(), b.cold_block()];
    let (take, lost) = (b.block(), b.cold_block());
    for (rest, own) in cells.rest.into_iter().zip(own) {
        b.branch_if(Condition::Less, rest, 1 << LOW, own);
    }
    match place.last {
        true => b.jump(take),
        false => cells.claim(b, number, take, lost),
    }
    for (cell, (own, rest)) in own.into_iter().zip(cells.rest).enumerate() {
        b.switch_to(own);
        let offset = cell as i16 * 8;
        if place.last {
            b.store(Width::B8, cells.pair, offset, 0);
            b.jump(leave);
            continue;
        }
        if place.number > 0 {
            // Left from the hit before.
            let (left, seen) = (b.cold_block(), b.block());
            let ran = b.and(rest, RAN);
            b.branch(Condition::GreaterEqual, ran, number, left, seen);
            b.switch_to(seen);
            let mark = b.or(cells.hit, number);
            b.store(Width::B8, cells.pair, offset, mark);
            b.jump(leave);
            b.switch_to(left);
        }
        let mark = b.or(cells.hit, number);
        cells.swap(b, cell, mark, lost);
        b.jump(take);
    }
    b.switch_to(lost);
    if place.number == 0 {
        count(b, LEFT);
    }
    b.jump(leave);
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
