//! The load that is recorded: system calls without arguments in batches, with pauses in which rings are emptied. Each call is two events.

use std::{hint::black_box, thread::sleep, time::Duration};

/// Calls of a batch.
pub(super) const CALLS: u64 = 4000;

/// Longer than a recorder takes to empty what a batch fills.
const PAUSE: Duration = Duration::from_millis(3);

/// Makes so many batches.
pub(super) fn run(batches: u64) {
    for _ in 0..batches {
        for _ in 0..CALLS {
            black_box(rustix::process::getppid());
        }
        sleep(PAUSE);
    }
}
