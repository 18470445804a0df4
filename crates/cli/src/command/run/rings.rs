//! Size of the rings of a program that does not say it (`perf_rb_pages`).

use kestrel::kernel::host::Host;
use kestrel::kernel::procfs::{available_memory, possible_cpus};
use kestrel::plan::ProgramText;

/// Bytes of all rings together: they are in this process's memory from the start, whatever is in them.
const ALL: u64 = 4 << 20;
/// Least bytes of a ring.
const AT_LEAST: u64 = 256 << 10;
/// The same where a handler of `begin` or `end` loops: it fills a ring in milliseconds, in which its reader need not get a processor.
const ALL_OF_LOOPS: u64 = 64 << 20;
/// Most bytes of a ring then.
const AT_MOST: u64 = 16 << 20;
/// Part of the available memory that all rings take then.
const PART: u64 = 256;

/// Bytes of each CPU's ring.
pub(super) fn bytes(program: &ProgramText) -> u64 {
    let cpus = possible_cpus().map_or(1, |cpus| cpus.iter().count() as u64);
    let all = match program.loops_at_once() {
        true => available_memory(&Host::default()).map_or(ALL, of_loops),
        false => ALL,
    };
    each(all, cpus)
}

/// Bytes of all rings where a handler loops, with so much memory available.
fn of_loops(available: u64) -> u64 {
    (available / PART).clamp(ALL, ALL_OF_LOOPS)
}

/// The ring of each CPU, in a power of two.
fn each(all: u64, cpus: u64) -> u64 {
    let share = (all / cpus.max(1)).clamp(AT_LEAST, AT_MOST);
    1 << share.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_as_large_as_processors_and_memory_let_them_be() {
        assert_eq!(
            (each(ALL, 2), each(ALL, 3), each(ALL, 64)),
            (2 << 20, 1 << 20, 256 << 10)
        );
        let of = |gib: u64, cpus| each(of_loops(gib << 30), cpus);
        assert_eq!((of(64, 1), of(64, 2), of(64, 8)), (16 << 20, 16 << 20, 8 << 20));
        assert_eq!((of(2, 2), of(0, 2)), (4 << 20, 2 << 20));
    }
}
