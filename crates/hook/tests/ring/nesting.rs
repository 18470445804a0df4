//! Interrupts between any two instructions of a writer: every record that was kept is readable, every other one counted, times in order.

use crate::support::{
    Attempts, Bench, OTHER_VARIABLE, Recorder, Shape, VARIABLE, check_overwrite, check_stream,
};
use kestrel_bpf::code::Code;
use kestrel_bpf::interp::Machine;
use kestrel_hook::buffer::layout::{Geometry, Mode};
use kestrel_trace::packet::CAPACITY;
use std::sync::OnceLock;

const SIZES: [(u16, u32); 5] = [(1, 40), (2, 64), (3, 2400), (4, CAPACITY - 40), (5, 40)];

/// Pages of the least ring that there is, and of one in that a page lies between that written and that left before.
const MIN: u32 = 2;
const SOME: u32 = 4;

/// The programs of a ring: small, middling, large, variable, and one that leaves exactly room for a small one.
struct Programs {
    small: Recorder,
    middling: Recorder,
    large: Recorder,
    filler: Recorder,
    variable: Recorder,
    /// The interrupted program: the kernel never runs a program on a CPU where it is running already, so these are in no interrupt.
    outer: Recorder,
    outer_variable: Recorder,
}

/// Which programs commit as those must that another task may interrupt, by their numbers; the others commit alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Locking {
    None,
    Nested,
    Outer,
    All,
}

const LOCKINGS: [Locking; 4] = [Locking::None, Locking::Nested, Locking::Outer, Locking::All];

impl Locking {
    fn locks(self, number: u16) -> bool {
        match self {
            Self::None => false,
            Self::Nested => [2, 3, VARIABLE].contains(&number),
            Self::Outer => [5, OTHER_VARIABLE].contains(&number),
            Self::All => true,
        }
    }
}

impl Programs {
    fn of(geometry: Geometry, locking: Locking) -> &'static Self {
        static MADE: [OnceLock<Programs>; 16] = [const { OnceLock::new() }; 16];
        let overwrite = usize::from(geometry.mode == Mode::Overwrite);
        let large = usize::from(geometry.pages > MIN);
        MADE[locking as usize * 4 + large * 2 + overwrite].get_or_init(|| Self::new(geometry, locking))
    }

    fn new(geometry: Geometry, locking: Locking) -> Self {
        let made = |number, shape| {
            if locking.locks(number) {
                Recorder::preemptible(geometry, number, shape)
            } else {
                Recorder::new(geometry, number, shape)
            }
        };
        let [small, middling, large, filler, outer] =
            SIZES.map(|(number, size)| made(number, Shape::Constant(size)));
        Self {
            small,
            middling,
            large,
            filler,
            variable: made(VARIABLE, Shape::Variable),
            outer,
            outer_variable: made(OTHER_VARIABLE, Shape::Variable),
        }
    }
}

/// How the clock of an interrupt differs from that of what it interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Clock {
    Steady,
    /// The clock lags behind while the interrupt lasts.
    Behind,
    /// The clock runs ahead while the interrupt lasts, and then is set back.
    Ahead,
}

const CLOCKS: [Clock; 3] = [Clock::Steady, Clock::Behind, Clock::Ahead];

/// Strange clocks matter to the reservation, which is the same for all.
const MIXED: [(Clock, Locking); 6] = [
    (Clock::Steady, Locking::None),
    (Clock::Behind, Locking::None),
    (Clock::Ahead, Locking::None),
    (Clock::Steady, Locking::Nested),
    (Clock::Steady, Locking::Outer),
    (Clock::Steady, Locking::All),
];

impl Clock {
    fn during(self, machine: &mut Machine, interrupt: impl FnOnce(&mut Machine)) {
        let by = 35;
        let (before, after) = match self {
            Self::Steady => (0i64, 0i64),
            Self::Behind => (-by, by),
            Self::Ahead => (by, -by),
        };
        let clock = &mut machine.environment.clock;
        *clock = clock.wrapping_add_signed(before);
        interrupt(machine);
        let clock = &mut machine.environment.clock;
        *clock = clock.wrapping_add_signed(after);
    }
}

/// Where the ring is when the outer writer starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Empty,
    /// The outer record fits exactly.
    ExactlyFull,
    /// The outer record opens a page.
    Switch,
    /// The outer record opens the last page there is (stream), or one used before (overwrite).
    LastPage,
    /// The outer record is lost (stream), or two laps are done (overwrite).
    Full,
}

const STARTS: [Start; 5] = [
    Start::Empty,
    Start::ExactlyFull,
    Start::Switch,
    Start::LastPage,
    Start::Full,
];

/// One ring, ready.
struct Scene {
    bench: Bench,
    programs: &'static Programs,
    attempts: Attempts,
}

impl Scene {
    fn new(mode: Mode, start: Start, locking: Locking) -> Self {
        Self::of(mode, SOME, start, locking)
    }

    fn of(mode: Mode, ring: u32, start: Start, locking: Locking) -> Self {
        let mut bench = Bench::new(mode, ring, &SIZES);
        let programs = Programs::of(bench.geometry, locking);
        let mut attempts = Attempts::default();
        let laps = if mode == Mode::Overwrite { ring } else { 0 };
        let (pages, small) = match start {
            Start::Empty => (0, false),
            Start::ExactlyFull => (1 + laps, false),
            Start::Switch => (1, true),
            Start::LastPage => (ring - 1 + laps, true),
            Start::Full => (ring + laps * 2, true),
        };
        for page in 0..pages {
            let payload = attempts.next(4);
            assert!(programs.filler.run(&mut bench.machine, payload, 0));
            if small || page + 1 < pages {
                let payload = attempts.next(1);
                assert!(programs.small.run(&mut bench.machine, payload, 0));
            }
        }
        Self {
            bench,
            programs,
            attempts,
        }
    }

    #[track_caller]
    fn check(mut self) {
        match self.bench.geometry.mode {
            Mode::Stream => check_stream(&mut self.bench, &self.attempts, &[]),
            Mode::Overwrite => check_overwrite(&mut self.bench, &self.attempts),
        };
    }
}

/// Nested programs, by what they do.
#[derive(Clone, Copy, Debug)]
enum Interrupt {
    One,
    Several,
    Large,
    /// Enough for two pages.
    Storm,
    /// Enough for any stream to refuse some.
    Flood,
}

const INTERRUPTS: [Interrupt; 5] = [
    Interrupt::One,
    Interrupt::Several,
    Interrupt::Large,
    Interrupt::Storm,
    Interrupt::Flood,
];

impl Interrupt {
    fn run(self, machine: &mut Machine, p: &Programs, attempts: &mut Attempts) {
        let list: &[(&Recorder, u32)] = match self {
            Self::One => &[(&p.middling, 0)],
            Self::Several => &[(&p.variable, 96), (&p.small, 0), (&p.variable, 24)],
            Self::Large => &[(&p.large, 0)],
            Self::Flood => &[(&p.large, 0); 6],
            Self::Storm => &[(&p.large, 0), (&p.large, 0), (&p.large, 0), (&p.small, 0)],
        };
        for (program, size) in list {
            let payload = attempts.next(program.number);
            program.run(machine, payload, *size);
        }
    }
}

/// Runs `scene` with an interrupt before the `at`th instruction executed; false once the program is shorter.
fn interrupted(
    scene: &mut Scene,
    outer: fn(&Programs) -> &Recorder,
    at: usize,
    interrupt: &mut dyn FnMut(&mut Machine, &Programs, &mut Attempts),
) -> bool {
    let Scene {
        bench,
        programs,
        attempts,
    } = scene;
    let program = outer(programs);
    let payload = attempts.next(program.number);
    let mut steps = 0;
    program.run_hooked(&mut bench.machine, payload, 200, &mut |machine, _| {
        if steps == at {
            interrupt(machine, programs, attempts);
        }
        steps += 1;
    });
    steps > at
}

fn small(p: &Programs) -> &Recorder {
    &p.outer
}

fn variable(p: &Programs) -> &Recorder {
    &p.outer_variable
}

#[test]
fn one_interrupt_anywhere() {
    one_interrupt(SOME);
}

#[test]
fn one_interrupt_anywhere_in_the_least_ring() {
    one_interrupt(MIN);
}

fn one_interrupt(ring: u32) {
    for mode in [Mode::Stream, Mode::Overwrite] {
        for start in STARTS {
            for outer in [small as fn(&Programs) -> &Recorder, variable] {
                for interrupt in INTERRUPTS {
                    for (clock, locking) in MIXED {
                        for at in 0.. {
                            let mut scene = Scene::of(mode, ring, start, locking);
                            let went = interrupted(&mut scene, outer, at, &mut |m, p, a| {
                                clock.during(m, |m| interrupt.run(m, p, a));
                            });
                            println!(
                                "{mode:?} {start:?} {locking:?} {interrupt:?} {clock:?} before instruction {at}"
                            );
                            scene.check();
                            if !went {
                                break;
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn two_interrupts_of_one_attempt() {
    for mode in [Mode::Stream, Mode::Overwrite] {
        for start in [Start::Empty, Start::Switch] {
            for (clock, locking) in MIXED {
                for first in 0.. {
                    let mut went = true;
                    for second in first.. {
                        let mut scene = Scene::new(mode, start, locking);
                        let Scene {
                            bench,
                            programs,
                            attempts,
                        } = &mut scene;
                        let payload = attempts.next(5);
                        let mut steps = 0;
                        programs
                            .outer
                            .run_hooked(&mut bench.machine, payload, 0, &mut |machine, _| {
                                // Only the first comes from a strange clock; the second sees the true one.
                                if steps == first {
                                    clock.during(machine, |m| Interrupt::One.run(m, programs, attempts));
                                }
                                if steps == second {
                                    Interrupt::Several.run(machine, programs, attempts);
                                }
                                steps += 1;
                            });
                        println!(
                            "{mode:?} {start:?} {locking:?} {clock:?} before instructions {first} and {second}"
                        );
                        scene.check();
                        went = steps > first;
                        if steps <= second {
                            break;
                        }
                    }
                    if !went {
                        break;
                    }
                }
            }
        }
    }
}

/// An interrupt that is interrupted itself.
#[test]
fn two_levels_deep_anywhere() {
    for mode in [Mode::Stream, Mode::Overwrite] {
        for (start, locking) in [Start::ExactlyFull, Start::LastPage]
            .iter()
            .flat_map(|s| LOCKINGS.map(|l| (*s, l)))
        {
            for at in 0.. {
                let mut outer_went = true;
                for inner in 0.. {
                    let mut scene = Scene::new(mode, start, locking);
                    let mut inner_went = false;
                    outer_went = interrupted(&mut scene, small, at, &mut |machine, p, attempts| {
                        let payload = attempts.next(2);
                        let mut steps = 0;
                        p.middling.run_hooked(machine, payload, 0, &mut |machine, _| {
                            if steps == inner {
                                inner_went = true;
                                let payload = attempts.next(1);
                                p.small.run(machine, payload, 0);
                            }
                            steps += 1;
                        });
                    });
                    println!(
                        "{mode:?} {start:?} {locking:?} before instructions {at} and {inner} of the interrupt"
                    );
                    scene.check();
                    if !inner_went {
                        break;
                    }
                }
                if !outer_went {
                    break;
                }
            }
        }
    }
}

/// The instructions that stand so far before the compare-and-swaps of a writer's attempts.
fn before_each_swap(code: &Code, back: usize) -> Vec<usize> {
    const ATOMIC: u8 = 0xdb;
    const COMPARE_EXCHANGE: i32 = 0xf1;
    let swaps = code.insns.iter().enumerate();
    let swaps = swaps.filter(|(_, insn)| insn.code == ATOMIC && insn.imm == COMPARE_EXCHANGE);
    swaps.filter_map(|(at, _)| at.checked_sub(back)).collect()
}

/// A nested writer comes first at every attempt: after the first and so many others the record is lost, and counted.
#[test]
fn until_the_retry_limit() {
    for mode in [Mode::Stream, Mode::Overwrite] {
        let mut refusals = 0;
        for back in 0..4 {
            let places = {
                let scene = Scene::new(mode, Start::Empty, Locking::None);
                before_each_swap(&scene.programs.small.code, back)
            };
            for clock in CLOCKS {
                let mut scene = Scene::new(mode, Start::Empty, Locking::None);
                let Scene {
                    bench,
                    programs,
                    attempts,
                } = &mut scene;
                let payload = attempts.next(1);
                let mut interrupts = 0;
                let kept = programs
                    .small
                    .run_hooked(&mut bench.machine, payload, 0, &mut |machine, insn| {
                        if places.contains(&insn) {
                            interrupts += 1;
                            clock.during(machine, |m| Interrupt::One.run(m, programs, attempts));
                        }
                    });
                if !kept {
                    assert_eq!(interrupts, 3, "{back} instructions before each swap");
                    refusals += 1;
                }
                println!("{mode:?} {clock:?} {back} instructions before each swap");
                scene.check();
            }
        }
        // Before the swap itself, and before what prepares it.
        assert!(refusals >= 3 * 2, "{refusals}");
    }
}
