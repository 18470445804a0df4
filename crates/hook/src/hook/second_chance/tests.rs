//! The programs of one hook as the kernel runs them for a hit: any of them skipped, hits nested in each other, addresses that meet.

use super::*;
use kestrel_bpf::code::{Code, MapRef};
use kestrel_bpf::interp::{self, Machine, Space};
use kestrel_compiler::codegen;

/// Where stacks are, in this test: away from all that the machine places itself.
const STACKS: u64 = 0xffff_b000_0000_0000;
/// The map that the programs count in: a word for each.
const COUNTS: MapRef = MapRef(1);
/// Where the kernel counts how often the thread that runs was switched out.
const TASK: Switches = Switches {
    voluntary: 16,
    involuntary: 24,
};

/// One CPU with the programs of a hook.
struct Kernel {
    machine: Machine,
    programs: Vec<Code>,
    /// The kernel's guards.
    active: Vec<u32>,
    /// Hits that the kernel skipped in the first program.
    skipped: u64,
}

/// The programs of a hook, whose maps the machine has in this order: seen, counts. Each counts the hits that it took.
fn programs(copies: u32) -> Vec<Code> {
    let program = |place: ProgramPlace| {
        let mut b = Builder::new();
        let leave = b.block();
        for map in [MAP, "counts"] {
            b.external(map);
        }
        emit_enter(&mut b, place, Some(TASK), place.number.is_multiple_of(2), leave);
        let map = b.external("counts");
        let word = b.map_value(map, place.number * 8);
        b.atomic_add(Width::B8, word, 0, 1);
        b.jump(leave);
        b.switch_to(leave);
        b.exit(0);
        codegen::generate(&b.finish()).unwrap().code
    };
    std::iter::once(ProgramPlace::FIRST)
        .chain(later(copies))
        .map(program)
        .collect()
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

impl Kernel {
    fn new(programs: &[Code]) -> Self {
        let mut machine = Machine::new();
        let array = interp::MapKind::Array { entries: 1 };
        machine.add_map(array, 4, SIZE);
        assert_eq!(machine.add_map(array, 4, 8 * 8), COUNTS);
        machine.direct_kernel_reads = true;
        machine.add_memory(Space::Kernel, machine.environment.task, &[0; 32]);
        Self {
            machine,
            programs: programs.to_vec(),
            active: vec![0; programs.len()],
            skipped: 0,
        }
    }

    /// Says how often the thread that runs was switched out.
    fn switched(&mut self, times: u64) {
        let [voluntary, involuntary] = [times / 3, times - times / 3].map(u64::to_ne_bytes);
        let task = self.machine.environment.task;
        self.machine
            .write(task + u64::from(TASK.voluntary), &voluntary)
            .unwrap();
        self.machine
            .write(task + u64::from(TASK.involuntary), &involuntary)
            .unwrap();
    }

    /// An address in another stack that has the same cell.
    fn rival(&mut self, of: u64) -> u64 {
        let cells = self
            .machine
            .value_address(MapRef(0), &0_u32.to_ne_bytes())
            .unwrap();
        let place = |address: u64| address.wrapping_sub(cells).wrapping_mul(SPREAD as u64) >> 55;
        let all = (1..).map(|n| of + n * 0x8000);
        all.into_iter()
            .find(|address| place(*address) == place(of))
            .unwrap()
    }

    /// One hit at an address, as the kernel brings it to all programs; `between` runs before each of their instructions.
    fn hit(&mut self, address: u64, between: &mut dyn FnMut(&mut Self)) {
        for number in 0..self.programs.len() {
            self.active[number] += 1;
            if self.active[number] == 1 {
                let code = self.programs[number].clone();
                let mut machine = std::mem::take(&mut self.machine);
                let mut interrupt = |machine: &mut Machine, _: usize| {
                    std::mem::swap(&mut self.machine, machine);
                    between(self);
                    std::mem::swap(&mut self.machine, machine);
                };
                machine.run_at(address, &code, &[0; 16], &mut interrupt).unwrap();
                self.machine = machine;
            } else if number == 0 {
                self.skipped += 1;
            }
            self.active[number] -= 1;
        }
    }

    fn plain(&mut self, address: u64) {
        self.hit(address, &mut |_| {});
    }

    /// Hits that were taken, by any program.
    fn handled(&self) -> u64 {
        let value = self.machine.value(COUNTS, &0_u32.to_ne_bytes(), 0);
        let word = |number: usize| value.as_ref().map_or(0, |value| word_at(value, number * 8));
        (0..self.programs.len()).map(word).sum()
    }

    /// Number of runs that user space takes for missed.
    fn missed(&self) -> u64 {
        let value = self.machine.value(MapRef(0), &0_u32.to_ne_bytes(), 0);
        self.skipped
            .saturating_add_signed(-difference(&value.unwrap_or_default()))
    }
}

/// Numbers of programs that a hook may have.
const COPIES: [u32; 3] = [2, 3, 4];

#[test]
fn the_first_that_runs_takes_the_hit_and_the_others_leave_it() {
    const HITS: u32 = 3;
    for copies in COPIES {
        let (programs, all) = (programs(copies), copies as usize);
        // All sequences of hits at one address in which the kernel skips any of the programs.
        let ways = 1_u32 << all;
        for sequence in 0..ways.pow(HITS) {
            let mut kernel = Kernel::new(&programs);
            let mut taken = 0_u64;
            // The program that ran last for the hit before: a mark says no more.
            let mut last = all;
            for place in 0..HITS {
                let skipped = sequence / ways.pow(place) % ways;
                for number in (0..all).filter(|number| skipped >> number & 1 == 1) {
                    kernel.active[number] = 1;
                }
                kernel.plain(STACKS);
                kernel.active.fill(0);
                let mut ran = (1..=all).filter(|number| skipped >> (number - 1) & 1 == 0);
                let Some(first) = ran.next() else { continue };
                // All in one slice of time, as if the thread was not switched out. Where the hit before was skipped in all that came behind, and this one in all that had run, this one looks as if it had been seen.
                taken += u64::from(first == 1 || last >= first);
                last = ran.next_back().unwrap_or(first);
            }
            assert_eq!(kernel.handled(), taken, "sequence {sequence:#x} of {copies}");
            assert_eq!(
                kernel.handled() + kernel.missed(),
                u64::from(HITS),
                "sequence {sequence:#x} of {copies}"
            );
        }
    }
}

#[test]
fn no_mark_is_taken_for_a_later_hits_after_the_thread_was_switched_out() {
    const SLICES: u32 = 3;
    // A thread's contexts lie at different places of its stack.
    let addresses = [0, 48, 16, 1008].map(|offset| STACKS + offset);
    for copies in COPIES {
        let programs = programs(copies);
        let ways = 1_u32 << copies;
        // All sequences of slices of time in which any of the programs is another thread's.
        for sequence in 0..ways.pow(SLICES) {
            let mut kernel = Kernel::new(&programs);
            let (mut hits, mut none) = (0, 0);
            for slice in 0..SLICES {
                let busy = sequence / ways.pow(slice) % ways;
                kernel.switched(u64::from(slice) * 5);
                for number in 0..copies as usize {
                    kernel.active[number] = busy >> number & 1;
                }
                for address in addresses {
                    kernel.plain(address);
                    hits += 1;
                    none += u64::from(busy == ways - 1);
                }
            }
            let what = format!("sequence {sequence:#x} of {copies}");
            assert_eq!(kernel.missed(), none, "{what}");
            assert_eq!(kernel.handled(), hits - none, "{what}");
        }
    }
}

#[test]
fn marks_of_hits_that_are_over_make_room_for_others() {
    for copies in COPIES {
        let mut kernel = Kernel::new(&programs(copies));
        let last = copies as usize - 1;
        let second = kernel.rival(STACKS);
        let third = kernel.rival(second);
        // The last program is another thread's: marks are left in both cells of a place, of stacks that have had other hits since.
        kernel.active[last] = 1;
        for address in [STACKS, second] {
            kernel.plain(address);
            kernel.plain(address + 32);
        }
        kernel.plain(third);
        assert_eq!((kernel.handled(), kernel.missed()), (5, 0), "{copies} programs");
        // The newest value in its stack may be on its way.
        kernel.plain(second);
        let fourth = kernel.rival(third);
        kernel.plain(third);
        kernel.plain(fourth);
        assert_eq!((kernel.handled(), kernel.missed()), (7, 1), "{copies} programs");
    }
}

#[test]
fn a_thread_that_is_preempted_anywhere_has_its_hit_taken_once() {
    let other = STACKS + 0x10_0000;
    for copies in COPIES {
        for at in 0.. {
            let mut kernel = Kernel::new(&programs(copies));
            let (mut count, mut came) = (0, 0);
            // The stack has had hits.
            kernel.plain(STACKS + 64);
            kernel.hit(STACKS, &mut |kernel| {
                if count == at {
                    // Of another thread in the same place, and this one goes on.
                    kernel.switched(100);
                    for hit in 0..3 {
                        kernel.plain(other + hit * 16);
                        came += 1;
                    }
                    kernel.switched(7);
                }
                count += 1;
            });
            if came == 0 {
                break;
            }
            let what = format!("preempted at instruction {at} of {copies}");
            assert_eq!(kernel.handled(), 2 + came, "{what}");
            assert_eq!(kernel.missed(), 0, "{what}");
        }
    }
}

#[test]
fn an_interrupt_anywhere_is_taken_by_a_later_program_and_disturbs_nothing() {
    // Instructions that any first program has.
    const FIRST: u64 = 15;
    // On the interrupts' own stack.
    const OWN: u64 = STACKS + 0x10_0000;
    for copies in COPIES {
        let mut kernel = Kernel::new(&programs(copies));
        let rival = kernel.rival(STACKS);
        // At which address the interrupt's hits are, and how many; they come before the nth instruction.
        let interrupts = [(OWN, 1), (OWN, 2), (STACKS - 512, 1), (rival, 1), (rival, 2)];
        for (address, times) in interrupts {
            for at in 0.. {
                let (before, mut count, mut came) = (kernel.handled() + kernel.missed(), 0, 0);
                let mut interrupt = |kernel: &mut Kernel| {
                    if count == at {
                        came = times;
                        (0..times).for_each(|_| kernel.plain(address));
                    }
                    count += 1;
                };
                kernel.hit(STACKS, &mut interrupt);
                if came == 0 {
                    break;
                }
                let what = format!("at instruction {at} of {copies}, {times} at {address:#x}");
                assert_eq!(kernel.handled() + kernel.missed() - before, 1 + came, "{what}");
                // One whose cell is taken needs the last program, which may be busy.
                let busy = address != OWN && at >= FIRST;
                // Skipped in the last program, a hit leaves its mark; the next one at its address may be taken for it if it is skipped in the first.
                assert!(busy || kernel.missed() <= u64::from(times > 1), "{what}");
                kernel = Kernel::new(&kernel.programs);
            }
        }
    }
}

#[test]
fn interrupts_that_nest_deeper_than_there_are_programs_are_counted() {
    fn nest(kernel: &mut Kernel, depth: u64, hits: &mut u64) {
        let mut count = 0;
        *hits += 1;
        kernel.hit(STACKS - depth * 256, &mut |kernel| {
            count += 1;
            if count == 3 && depth < 5 {
                nest(kernel, depth + 1, hits);
            }
        });
    }
    for copies in COPIES {
        let mut kernel = Kernel::new(&programs(copies));
        let mut hits = 0;
        nest(&mut kernel, 0, &mut hits);
        assert!(kernel.missed() > 0, "deep enough to miss some");
        assert_eq!(kernel.handled() + kernel.missed(), hits);
    }
}

#[test]
fn hits_that_share_a_cell_are_taken_once_each() {
    for copies in COPIES {
        let mut kernel = Kernel::new(&programs(copies));
        let rival = kernel.rival(STACKS);
        // On another CPU, which has guards of its own, a thread with the same cell has one hit after the other.
        for step in 1..40 {
            let (before, mut count, mut others) = (kernel.handled(), 0, 0);
            kernel.hit(STACKS, &mut |kernel| {
                count += 1;
                if count % step == 0 {
                    let active = kernel.active.clone();
                    kernel.active.fill(0);
                    kernel.plain(rival);
                    kernel.active = active;
                    others += 1;
                }
            });
            assert_eq!(
                kernel.handled() - before,
                1 + others,
                "every {step} instructions, {copies} programs"
            );
        }
        assert_eq!(kernel.missed(), 0);
    }
}

#[test]
fn a_stale_mark_is_freed_by_the_next_hit_at_its_address_or_by_time() {
    for copies in COPIES {
        let mut kernel = Kernel::new(&programs(copies));
        let last = copies as usize - 1;
        let second = kernel.rival(STACKS);
        let third = kernel.rival(second);
        let left = |kernel: &mut Kernel, address: u64| {
            kernel.active[last] = 1;
            kernel.plain(address);
            kernel.active[last] = 0;
        };
        let taken_by_first = |kernel: &mut Kernel, address: u64| {
            let word =
                |kernel: &Kernel| word_at(&kernel.machine.value(COUNTS, &0_u32.to_ne_bytes(), 0).unwrap(), 0);
            let before = word(kernel);
            kernel.plain(address);
            word(kernel) > before
        };
        left(&mut kernel, STACKS);
        assert!(taken_by_first(&mut kernel, STACKS), "the same address again");
        left(&mut kernel, STACKS);
        left(&mut kernel, second);
        assert!(
            !taken_by_first(&mut kernel, third),
            "the others may be on their way"
        );
        kernel.machine.environment.clock += ((OLD - 2) << CLOCK) as u64;
        assert!(!taken_by_first(&mut kernel, third), "still");
        kernel.machine.environment.clock += 4 << CLOCK;
        assert!(taken_by_first(&mut kernel, third), "nothing takes so long");
        assert_eq!(kernel.missed(), 0);
    }
}
