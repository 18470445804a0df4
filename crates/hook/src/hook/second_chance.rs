//! Second chances: programs that catch the hits which the kernel keeps from a hook because a thread was preempted inside it.
//!
//! The kernel never runs a program on a CPU where it is running already (`prog->active`): it skips the hit and counts it. Where threads are preempted inside
//! programs ([`Preemption`](kestrel_kernel::preemption::Preemption)), one that is makes the kernel skip every other thread's hits on that CPU until it runs again. So a hook on such an event is
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
//!   cell   63                    22 21   16 15    11 10        3 2      0
//!          context address         since   number   switches     ran        0: free
//! ```
//!
//! Each address has two cells, of which a hit uses one. `ran` is the number (from 1) of the program that ran last for the hit; a program that finds itself or a later one there knows that the mark is left
//! from the hit before. The last program frees the cell.
//!
//! *A mark that is left over* because its hit was skipped in the last program could be taken for one of the next hit at the same address. As long as one thread runs on a CPU, the kernel
//! skips the same programs for all its hits, so that the first of the others always meets its own mark. When it ran again meanwhile (`switches`: how often the thread has been
//! switched out, `nvcsw + nivcsw`), the mark is this hit's only if the thread was preempted between two of the hook's programs, and then this is the newest hit in this
//! stack. So a table holds, by stack, the address of its newest hit. Marks of older ones make room for others' where those find both cells taken; `number` counts a stack's
//! hits, so that none makes room that was marked again in that moment.
//!
//! *Exactly one program takes a hit*: a program that finds marks of other hits that may be on their way in both does not take its own but leaves it to the next program, and the last, behind which
//! no other takes it, needs no cell. A mark that no program will free (its hit was skipped in the last program) goes when its address has another hit, when it
//! is in the way and its stack has had a newer one, or when it was in the way for `OLD`. (A thread's contexts lie at 64 addresses or so: the kernel shifts its stack by chance at each system call.)
//!
//! *Preemption is off in handlers* (`Sink::wants_preemption_off_throughout`), and is switched on again while interrupts are off, so that no thread is preempted there: what is left are
//! the few instructions around the handlers. Switched on with interrupts on, it would be in the program that the thread is preempted.
//!
//! *What is left*: a hit is missed, and counted, if it is a thread's first after it was switched out, has the address of the thread's last hit before, and the kernel skips
//! it in all programs up to the one that took that last hit, which in turn was skipped in all programs behind that one. A hit is taken twice if another one of the hook interrupts it
//! in the same stack (a page fault in a handler) and the thread is preempted between both and the next program.
//!
//! *Counts stay exact*: hits that the kernel skipped in the first program or that it left to others, less those that a later one took, are what no program saw.
//!
//! The programs are copies, not one that the others call: some kernels give a program a stack per CPU because it cannot run twice there (`priv_stack_ptr` on
//! x86, Linux 6.13), and a program that is called is not guarded. What they share per CPU they change atomically.

use kestrel_bpf::btf::{Btf, BtfKind};
use kestrel_bpf::helper;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::ir::{AluOp, Bits, BlockId, Builder, Condition, Operand, Vreg, Width};
use kestrel_kernel::Errno;
use kestrel_kernel::bpf::{Map, MapKind, MapSpec, ValueCheck};

/// Programs of a hook. It misses nothing while fewer threads than this are preempted inside of them on one CPU: four busy threads on one miss none.
pub const PROGRAMS: u32 = 4;
/// With more hooks than this on one function none of them is several programs: a function takes 38 of all tracers together.
pub const MAX_ON_A_FUNCTION: usize = 4;
/// Position of a program in a hook that consists of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramPlace {
    /// The number, from 0: the order in which the kernel runs them.
    pub number: u32,
    /// Whether none comes behind it.
    pub last: bool,
}

impl ProgramPlace {
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
/// Of these, hits that are missed all the same: their handler is a program of a compiled object, which only the first program calls.
const MISSED_BY_OBJECTS: u32 = TAKEN + 8;
/// Hits that the first program left to others.
const LEFT: u32 = MISSED_BY_OBJECTS + 8;
/// The newest hits by stack: address and number, as they stand in marks.
const NEWEST: u32 = LEFT + 8;
/// Number of these stacks.
const STACKS: u32 = 512;
const SIZE: u32 = NEWEST + STACKS * 8;
/// Bits of an address within a stack, or more.
const STACK: i64 = 15;
/// Hits of one stack that are of one hook are not as far from each other, those of two stacks are farther.
const NEAR: i64 = 8192;

/// The program that ran last, in a mark.
const RAN: i64 = 7;
/// Number of times that the thread had been switched out.
const SWITCHES_SHIFT: i64 = 3;
const SWITCHES: i64 = 0xff;
/// The number of the hit among its stack's.
const NUMBER_SHIFT: i64 = 11;
const NUMBER: i64 = 0x1f;
/// When another hit met the mark first, in [`CLOCK`] ticks and odd; 0 if none has.
const SINCE_SHIFT: i64 = 16;
const SINCE: i64 = 0x3f;
/// Bits of a mark below the address.
const LOW: i64 = 22;
/// By how much an address is shifted in marks. Bits above are the same in all addresses of stacks.
const HIGH: i64 = LOW - 3;
/// Ticks of the clock of marks, as a shift of jiffies: a quarter of a second to 2.56 s.
const CLOCK: i64 = 8;
/// Upper bound of a hit's duration, in ticks, a thread's preemption between two of its programs included.
const OLD: i64 = 32;
/// Spreads addresses (2^64 divided by the golden ratio).
const SPREAD: i64 = 0x9e37_79b9_7f4a_7c15_u64 as i64;

/// Whether the kernel has no room for all programs of a hook: a function takes 38, of all tracers together (`BPF_MAX_TRAMP_LINKS`). One is more important
/// than second chances.
pub fn is_without_room(error: &Error) -> bool {
    let Error::Kernel(error) = error else {
        return false;
    };
    error.verifier_log().is_none() && error.errno() == Some(Errno::E2BIG)
}

/// The places behind the first of so many programs.
pub fn later(programs: u32) -> impl Iterator<Item = ProgramPlace> {
    (1..programs).map(move |number| ProgramPlace {
        number,
        last: number + 1 == programs,
    })
}

/// Makes the map of a hook.
///
/// # Errors
/// When the kernel refuses.
pub fn create_map() -> Result<Map> {
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
/// When the kernel refuses.
pub fn begin(seen: &Map) -> Result<()> {
    Ok(seen.update(&0_u32.to_ne_bytes(), &[0; SIZE as usize], ValueCheck::Any)?)
}

/// By how much fewer hits were missed than the kernel skipped in a hook's first program.
///
/// # Errors
/// When the kernel refuses.
pub fn taken(seen: &Map) -> Result<i64> {
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
    word(TAKEN) - word(MISSED_BY_OBJECTS) - word(LEFT)
}

/// The two cells of this hit, and what they hold.
struct Cells {
    /// The address as it stands in marks: less that of the map, since the verifier takes a context for no number.
    hit: Vreg,
    /// The address less that of the map.
    address: Vreg,
    /// Where it stands how often the thread was switched out.
    switches: Option<Switches>,
    /// Whether what is rarely needed is a function.
    subprogram: bool,
    pair: Vreg,
    held: [Vreg; 2],
    /// `held` less the address.
    rest: [Vreg; 2],
}

impl Cells {
    fn of(b: &mut Builder, address: Vreg, switches: Option<Switches>, subprogram: bool) -> Self {
        let pair = Self::pair(b, address);
        let held = [0, 8].map(|offset| b.load(Width::B8, pair, offset));
        Self::holding(b, address, (pair, held), (switches, subprogram))
    }

    /// The place of an address's two cells.
    fn pair(b: &mut Builder, address: Vreg) -> Vreg {
        let map = b.external(MAP);
        let cells = b.map_value(map, 0);
        let spread = b.mul(address, SPREAD);
        let index = b.shift_right(spread, 64 - i64::from(PAIRS.trailing_zeros()));
        let at = b.shift_left(index, i64::from(PAIR.trailing_zeros()));
        b.add(cells, at)
    }

    fn holding(
        b: &mut Builder,
        address: Vreg,
        (pair, held): (Vreg, [Vreg; 2]),
        (switches, subprogram): (Option<Switches>, bool),
    ) -> Self {
        let hit = b.shift_left(address, HIGH);
        let rest = held.map(|held| b.alu(AluOp::Xor, Bits::B64, held, hit));
        Self {
            hit,
            address,
            switches,
            subprogram,
            pair,
            held,
            rest,
        }
    }

    /// Makes the hit the newest in its stack, and gives its mark.
    fn become_newest(&self, b: &mut Builder) -> Vreg {
        let Some(switches) = self.switches else {
            return self.hit;
        };
        let place = newest(b, self.hit);
        let before = b.load(Width::B8, place, 0);
        let number = b.add(before, 1 << NUMBER_SHIFT);
        let number = b.and(number, NUMBER << NUMBER_SHIFT);
        let now = b.or(self.hit, number);
        b.store(Width::B8, place, 0, now);
        let switches = switches.emit(b);
        b.or(now, switches)
    }

    /// Goes to `left` where a mark at the hit's address is another hit's, to `seen` where it is not, as far as can be known.
    fn branch_left(&self, b: &mut Builder, rest: Vreg, left: BlockId, seen: BlockId) {
        let Some(switches) = self.switches else {
            b.jump(seen);
            return;
        };
        let over = b.cold_block();
        branch_over(b, self.hit, over, seen);
        b.switch_to(over);
        let then = b.and(rest, SWITCHES << SWITCHES_SHIFT);
        let now = switches.emit(b);
        b.branch(Condition::Equal, then, now, seen, left);
    }

    /// Replaces what cell number `cell` held; goes to `lost` where another CPU came first.
    fn swap(&self, b: &mut Builder, cell: usize, mark: Vreg, lost: BlockId) {
        let held = self.held[cell];
        let was = b.compare_exchange(Width::B8, self.pair, cell as i16 * 8, held, mark);
        b.branch_if(Condition::NotEqual, was, held, lost);
    }

    /// Marks the hit as this program's, where no cell is its own: in a free one, or in the place of a mark that no program will free; goes to `lost` where
    /// both are others'.
    fn claim(&self, b: &mut Builder, number: i64, take: BlockId, lost: BlockId) {
        let mark = self.become_newest(b);
        let mark = b.or(mark, number);
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
        if !self.subprogram {
            return self.replace(b, mark, take, lost);
        }
        let (switches, [first, second]) = (self.switches, self.held);
        b.own("replace", |b, [address, mark, first, second]| {
            let pair = Self::pair(b, address);
            let cells = Self::holding(b, address, (pair, [first, second]), (switches, false));
            let (take, lost) = (b.block(), b.block());
            cells.replace(b, mark, take, lost);
            b.switch_to(take);
            b.exit(1);
            b.switch_to(lost);
            b.exit(0);
        });
        let arguments = [self.address, mark, first, second].map(Operand::Reg);
        let taken = b.call("replace", &arguments);
        b.branch(Condition::NotEqual, taken, 0, take, lost);
    }

    /// Marks the hit in the place of one of the two that the cells hold, if no program will free it; else goes to `lost`.
    fn replace(&self, b: &mut Builder, mark: Vreg, take: BlockId, lost: BlockId) {
        for (cell, held) in self.held.into_iter().enumerate() {
            if self.switches.is_none() {
                break;
            }
            let (over, next) = (b.block(), b.block());
            // The newest value is to be read after the mark.
            b.compare_exchange(Width::B8, self.pair, cell as i16 * 8, held, held);
            branch_over(b, held, over, next);
            b.switch_to(over);
            self.swap(b, cell, mark, next);
            b.jump(take);
            b.switch_to(next);
        }
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

/// Where the newest hit stands of the stack in which a mark's hit is.
fn newest(b: &mut Builder, mark: Vreg) -> Vreg {
    let stack = b.shift_right(mark, HIGH + STACK);
    let index = b.and(stack, i64::from(STACKS - 1));
    let at = b.shift_left(index, 3);
    let map = b.external(MAP);
    let first = b.map_value(map, NEWEST);
    b.add(first, at)
}

/// Goes to `over` where the stack of a mark's hit has had a newer one, elsewhere in it; else to `not`, also where that is not known.
fn branch_over(b: &mut Builder, mark: Vreg, over: BlockId, not: BlockId) {
    let place = newest(b, mark);
    let newest = b.load(Width::B8, place, 0);
    let address = |b: &mut Builder, mark| {
        let address = b.shift_right(mark, LOW);
        b.shift_left(address, LOW)
    };
    let [newest, mark] = [newest, mark].map(|mark| address(b, mark));
    let distance = b.sub(newest, mark);
    let other = b.cold_block();
    b.branch(Condition::Equal, distance, 0, not, other);
    b.switch_to(other);
    let distance = b.shift_right(distance, HIGH);
    let near = b.add(distance, NEAR);
    let near = b.shift_left(near, HIGH);
    let far = b.shift_right(near, HIGH + 1 + i64::from(NEAR.trailing_zeros()));
    b.branch(Condition::Equal, far, 0, over, not);
}

/// Offset in `task_struct` of the counts of context switches.
#[derive(Clone, Copy, Debug)]
pub struct Switches {
    /// Because it waited.
    voluntary: u32,
    /// Because it was preempted.
    involuntary: u32,
}

impl Switches {
    /// Where these types have them.
    pub fn find(types: &Btf) -> Option<Self> {
        let task = types.find(BtfKind::Struct, "task_struct")?;
        let offset = |name| {
            let place = types.find_member(task, name)?;
            (place.bits.is_none() && types.size_of(place.ty) == Some(8)).then(|| place.offset())
        };
        Some(Self {
            voluntary: offset("nvcsw")?,
            involuntary: offset("nivcsw")?,
        })
    }

    /// How often, as it stands in marks.
    fn emit(self, b: &mut Builder) -> Vreg {
        let task = b.helper(helper::GET_CURRENT_TASK_BTF, &[]);
        let [voluntary, involuntary] =
            [self.voluntary, self.involuntary].map(|offset| b.load(Width::B8, task, offset as i16));
        let all = b.add(voluntary, involuntary);
        let all = b.and(all, SWITCHES);
        b.shift_left(all, SWITCHES_SHIFT)
    }
}

/// At the start of one of a hook's programs: leaves where an earlier one has seen this hit, or a later one shall take it; else takes it.
/// Where it may be `apart`, it is a function of the program's own: the verifier need not go through the handler for each way to it.
pub(crate) fn emit_enter(
    b: &mut Builder,
    place: ProgramPlace,
    switches: Option<Switches>,
    subprogram: bool,
    leave: BlockId,
) {
    let context = b.context();
    let map = b.external(MAP);
    let cells = b.map_value(map, 0);
    let address = b.sub(context, cells);
    if !subprogram {
        return enter(b, address, place, (switches, false), leave);
    }
    b.own("enter", |b, [address]| {
        let leave = b.block();
        enter(b, address, place, (switches, true), leave);
        b.exit(1);
        b.switch_to(leave);
        b.exit(0);
    });
    let taken = b.call("enter", &[address.into()]);
    b.branch_if(Condition::Equal, taken, 0, leave);
}

fn enter(
    b: &mut Builder,
    address: Vreg,
    place: ProgramPlace,
    (switches, subprogram): (Option<Switches>, bool),
    leave: BlockId,
) {
    let number = i64::from(place.number) + 1;
    let cells = Cells::of(b, address, switches, subprogram);
    let own = [b.block(), b.cold_block()];
    let (take, lost) = (b.block(), b.cold_block());
    for (rest, own) in cells.rest.into_iter().zip(own) {
        b.branch_if(Condition::Less, rest, 1 << LOW, own);
    }
    match place.last {
        // No program comes behind the last one that would look for its mark.
        true => b.jump(take),
        false => cells.claim(b, number, take, lost),
    }
    for (cell, (own, rest)) in own.into_iter().zip(cells.rest).enumerate() {
        b.switch_to(own);
        let offset = cell as i16 * 8;
        if place.last {
            b.store(Width::B8, cells.pair, offset, 0);
            cells.branch_left(b, rest, take, leave);
            continue;
        }
        if place.number > 0 {
            let (left, earlier, seen) = (b.cold_block(), b.block(), b.block());
            let ran = b.and(rest, RAN);
            b.branch(Condition::GreaterEqual, ran, number, left, earlier);
            b.switch_to(earlier);
            cells.branch_left(b, rest, left, seen);
            b.switch_to(seen);
            let mark = b.sub(cells.held[cell], ran);
            let mark = b.or(mark, number);
            b.store(Width::B8, cells.pair, offset, mark);
            b.jump(leave);
            b.switch_to(left);
        }
        let mark = cells.become_newest(b);
        let mark = b.or(mark, number);
        // Another hit may have taken the cell meanwhile: then this one is left to the next program.
        cells.swap(b, cell, mark, lost);
        b.jump(take);
    }
    b.switch_to(lost);
    if place.number == 0 {
        count(b, LEFT);
    }
    b.jump(leave);
    b.switch_to(take);
    if place.last {
        cells.become_newest(b);
    }
    if place.number > 0 {
        count(b, TAKEN);
    }
}

/// Counts a hit that this copy took and that is missed all the same: only the first copy calls an object's program.
pub(crate) fn emit_missed(b: &mut Builder) {
    count(b, MISSED_BY_OBJECTS);
}

fn count(b: &mut Builder, at: u32) {
    let map = b.external(MAP);
    let counter = b.map_value(map, at);
    b.atomic_add(Width::B8, counter, 0, 1);
}

#[cfg(test)]
mod tests;
