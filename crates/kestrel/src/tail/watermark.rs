//! Up to which moment all that happened has been kept: a program that read its clock earlier may still be running on another CPU, interrupted or
//! preempted, with its record to come. Asking the kernel takes some 10 to 50 ms, so a thread of its own does.

use kestrel_kernel::barrier::wait_for_running_programs;
use kestrel_kernel::procfs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// Pause of the thread between two questions.
const REST: Duration = Duration::from_millis(5);

/// The moment up to which all records are in their rings, kept up to date by a thread, while it is asked for, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watermark {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Debug, Default)]
struct Shared {
    /// Time up to which records are complete (CLOCK_MONOTONIC), ns.
    until: AtomicU64,
    /// Whether a moment after this one is wanted.
    asked: AtomicBool,
    over: AtomicBool,
}

impl Watermark {
    /// Begins with no moment; [`Watermark::ask`] sets off the search for one.
    pub(crate) fn new() -> Self {
        let shared = Arc::new(Shared::default());
        let asking = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while !asking.over.load(Ordering::Relaxed) {
                if !asking.asked.swap(false, Ordering::Acquire) {
                    std::thread::park();
                    continue;
                }
                let now = procfs::monotonic();
                // A kernel that cannot be asked leaves the order to the length of the rest.
                let asked = wait_for_running_programs();
                std::thread::sleep(REST);
                asking.until.store(now, Ordering::Release);
                if asked.is_err() {
                    std::thread::sleep(REST);
                }
            }
        });
        let thread = thread.thread().clone();
        Self { shared, thread }
    }

    /// Asks for a moment that is not before this call, to be there some time later.
    pub(crate) fn ask(&self) {
        self.shared.asked.store(true, Ordering::Release);
        self.thread.unpark();
    }

    /// Time (CLOCK_MONOTONIC, ns) up to which all events are in their rings by now, if they were to be kept.
    pub(crate) fn until(&self) -> u64 {
        self.shared.until.load(Ordering::Acquire)
    }
}

impl Drop for Watermark {
    /// Does not wait for the thread: it holds nothing.
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.thread.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn each_moment_settles() {
        let settled = Watermark::new();
        let asked = procfs::monotonic();
        settled.ask();
        assert!(
            settled.until() < asked,
            "nothing is settled before it was asked for"
        );
        let begun = Instant::now();
        while settled.until() < asked {
            assert!(begun.elapsed() < Duration::from_secs(60), "in vain");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(settled.until() <= procfs::monotonic());
    }
}
