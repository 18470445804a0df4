//! The programs of one hook as the kernel runs them for a hit: any of them skipped, hits nested in each other, addresses that meet.

use super::*;
use kestrel_bpf::code::{Code, MapRef};
use kestrel_bpf::interp::{self, Machine};
use kestrel_compiler::codegen;

/// Where stacks are, in this test: away from all that the machine places itself.
const STACKS: u64 = 0xffff_b000_0000_0000;
/// The map that the programs count in: a word for each.
const COUNTS: MapRef = MapRef(1);
const ALL: usize = LIGHT as usize;

/// One CPU with the programs of a hook.
struct Kernel {
    machine: Machine,
    programs: Vec<Code>,
    /// The kernel's guards.
    active: [u32; ALL],
    /// Hits that the kernel skipped in the first program.
    skipped: u64,
}

/// The programs of a hook, whose maps the machine has in this order: seen, counts. Each counts the hits that it took.
fn programs() -> Vec<Code> {
    let program = |place: Place| {
        let mut b = Builder::new();
        let leave = b.block();
        for map in [MAP, "counts"] {
            b.external(map);
        }
        emit_enter(&mut b, place, leave);
        let map = b.external("counts");
        let word = b.map_value(map, place.number * 8);
        b.atomic_add(Width::B8, word, 0, 1);
        b.jump(leave);
        b.switch_to(leave);
        b.exit(0);
        codegen::generate(&b.finish()).unwrap().code
    };
    std::iter::once(Place::FIRST)
        .chain(later(LIGHT))
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
        assert_eq!(machine.add_map(array, 4, LIGHT * 8), COUNTS);
        Self {
            machine,
            programs: programs.to_vec(),
            active: [0; ALL],
            skipped: 0,
        }
    }

    /// An address that has the same cells as the `n`th stack.
    fn rival(&mut self, of: u64) -> u64 {
        let cells = self
            .machine
            .value_address(MapRef(0), &0_u32.to_ne_bytes())
            .unwrap();
        let place = |address: u64| address.wrapping_sub(cells).wrapping_mul(SPREAD as u64) >> 55;
        let all = (1..).map(|n| of + n * 64);
        all.into_iter()
            .find(|address| place(*address) == place(of))
            .unwrap()
    }

    /// One hit at an address, as the kernel brings it to all programs; `between` runs before each of their instructions.
    fn hit(&mut self, address: u64, between: &mut dyn FnMut(&mut Self)) {
        for number in 0..ALL {
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
        (0..ALL).map(word).sum()
    }

    /// What user space takes for missed.
    fn missed(&self) -> u64 {
        let value = self.machine.value(MapRef(0), &0_u32.to_ne_bytes(), 0);
        self.skipped - value.map_or(0, |value| word_at(&value, TAKEN as usize))
    }
}

#[test]
fn the_first_that_runs_takes_the_hit_and_the_others_leave_it() {
    const HITS: u32 = 3;
    let programs = programs();
    // All sequences of hits at one address in which the kernel skips any of the programs.
    let ways = 1_u32 << ALL;
    for sequence in 0..ways.pow(HITS) {
        let mut kernel = Kernel::new(&programs);
        let mut taken = 0_u64;
        // Who ran last for the hit before: a cell says no more.
        let mut last = ALL;
        for place in 0..HITS {
            let skipped = sequence / ways.pow(place) % ways;
            for number in (0..ALL).filter(|number| skipped >> number & 1 == 1) {
                kernel.active[number] = 1;
            }
            kernel.plain(STACKS);
            kernel.active = [0; ALL];
            let mut ran = (1..=ALL).filter(|number| skipped >> (number - 1) & 1 == 0);
            let Some(first) = ran.next() else { continue };
            // Where the hit before was skipped in all that came behind, and this one in all that had run, this one looks as if it had been seen.
            taken += u64::from(first == 1 || last >= first);
            last = ran.last().unwrap_or(first);
        }
        assert_eq!(kernel.handled(), taken, "sequence {sequence:#x}");
        assert_eq!(
            kernel.handled() + kernel.missed(),
            u64::from(HITS),
            "sequence {sequence:#x}"
        );
    }
}

#[test]
fn an_interrupt_anywhere_is_taken_by_a_later_program_and_disturbs_nothing() {
    let mut kernel = Kernel::new(&programs());
    let rival = kernel.rival(STACKS);
    // At which address the interrupt's hits are, and how many; they come before the nth instruction.
    for (address, times) in [(STACKS - 512, 1), (rival, 1), (rival, 2)] {
        for at in 0.. {
            let (before, mut count, mut came) = (kernel.handled(), 0, 0);
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
            let what = format!("at instruction {at}, {times} at {address:#x}");
            assert_eq!(kernel.handled() - before, 1 + came, "{what}");
        }
    }
    assert_eq!(kernel.missed(), 0);
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
    let mut kernel = Kernel::new(&programs());
    let mut hits = 0;
    nest(&mut kernel, 0, &mut hits);
    assert!(kernel.missed() > 0, "deep enough to miss some");
    assert_eq!(kernel.handled() + kernel.missed(), hits);
}

#[test]
fn addresses_that_meet_keep_their_own_cells_while_their_hits_are_on_the_way() {
    let mut kernel = Kernel::new(&programs());
    let rival = kernel.rival(STACKS);
    // On another CPU, which has guards of its own, a thread with the same two cells has one hit after the other.
    for step in 1..40 {
        let (before, mut count, mut others) = (kernel.handled(), 0, 0);
        kernel.hit(STACKS, &mut |kernel| {
            count += 1;
            if count % step == 0 {
                let active = std::mem::take(&mut kernel.active);
                kernel.plain(rival);
                kernel.active = active;
                others += 1;
            }
        });
        assert_eq!(kernel.handled() - before, 1 + others, "every {step} instructions");
    }
    assert_eq!(kernel.missed(), 0);
}
