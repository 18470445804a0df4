//! Guest tests: running them, a guest for each processor and one more, and the results of a run.

mod files;
mod job;
mod queue;

use crate::artifact::{self, Base, Profile};
use crate::guest::GuestTemplate;
use crate::install;
use crate::kept_index::KeptIndex;
use crate::pace::{Memory, Pace, Took};
use crate::tally::Tally;
use anyhow::{Context, Result, bail};
use job::{Failure, GuestKind, SHARE, Used};
use queue::Queue;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::thread;
use std::time::Instant;

/// Guests at one time at least; more where there are more processors, since each guest keeps one busy most of the time.
const GUESTS: usize = 2;
/// Guests at one time at most: each has memory of its own.
const MAX_GUESTS: usize = 8;

/// Factor of a test's time limit where the guest is stopped again and again.
const HOSTILE: u32 = 5;

/// Factor of a test's time limit where it is tried again: in a fresh guest all is emulated for the first time, and what was slow is slower there.
const AGAIN: u32 = 2;

/// Most failed tests that are tried once more: where more fail, it is not chance.
const TRIED_AGAIN: usize = 10;

/// Results of a worker.
#[derive(Default)]
struct Done {
    tally: Tally,
    run: Vec<Took>,
    failed: Vec<Failure>,
}

/// Where tests run, and how.
struct Ground<'a> {
    stable: &'a GuestTemplate,
    base: &'a Base,
    /// The index that is made in one guest for all.
    index: &'a KeptIndex<GuestKind>,
    /// Whether the first guest makes it before its tests: where few tests run, each would wait for it longer than it gains.
    many: bool,
    output: bool,
    hostile: bool,
    /// Factor of a test's time limit.
    patience: u32,
}

/// Which tests to run, where, and how much to say.
pub(crate) struct Selection<'a> {
    /// Part of `file::test`, or nothing for all.
    pub(crate) name: &'a str,
    /// Kernel series, or nothing for those that each file is meant for.
    pub(crate) series: Option<&'a [&'a str]>,
    /// Show what passing tests print, too.
    pub(crate) output: bool,
    /// Stop the guests at random while tests run.
    pub(crate) hostile: bool,
    /// Try what failed once more, alone.
    pub(crate) again: bool,
}

/// Results of a run of guest tests.
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) pace: Pace,
    /// The tests that failed, each with the first lines of its report.
    pub(crate) failed: Vec<String>,
}

/// Inputs of a run of guest tests: what was built, and the templates of guests.
struct Prepared {
    base: Base,
    memory: Memory,
    queue: Queue,
    stables: BTreeMap<GuestKind, GuestTemplate>,
}

impl Prepared {
    fn of(selection: &Selection<'_>) -> Result<Self> {
        let base = artifact::base(Profile::Quick)?;
        let memory = Memory::recall();
        let file = selection.name.split_once("::").map(|(file, _)| file);
        let queue = Queue::of(selection, artifact::guest_tests(file)?, &memory)?;
        if queue.rests().iter().any(|rest| !rest.job.packages().is_empty()) {
            install::ensure(install::IMAGES)?;
        }
        let stables = queue.stables(&base)?;
        Ok(Self {
            base,
            memory,
            queue,
            stables,
        })
    }
}

/// Builds the selected tests and what their guests are cloned from, ahead of the run, which finds it there.
pub(crate) fn prepare(selection: &Selection<'_>) -> Result<()> {
    Prepared::of(selection).map(drop)
}

/// Builds the selected tests, runs them, prints each result as it comes.
pub(crate) fn run(selection: &Selection<'_>) -> Result<Outcome> {
    let Prepared {
        base,
        memory,
        queue,
        stables,
    } = Prepared::of(selection)?;
    let tests: usize = queue.rests().iter().map(|rest| rest.tests.len()).sum();
    let index = KeptIndex::of(base.kestrel()?)?;
    let ground = |kind: &GuestKind| -> Result<Ground<'_>> {
        Ok(Ground {
            stable: stables.get(kind).context("a guest that was not prepared")?,
            base: &base,
            index: &index,
            many: tests > SHARE,
            output: selection.output,
            hostile: selection.hostile,
            patience: if selection.hostile { HOSTILE } else { 1 },
        })
    };
    let begun = Instant::now();
    let worker = || -> Result<Done> {
        let mut done = Done::default();
        let mut used: Option<Used> = None;
        while let Some((index, job)) = queue.enter(used.as_ref().map(|used| &*used.kind.0)) {
            let ran = ground(&job.kind()).map(|ground| {
                while let Some(test) = queue.next(index) {
                    job.run(&ground, test, &mut used, &mut done);
                }
            });
            queue.leave(index);
            ran?;
        }
        // For the next run, when no test is waited for; its failure is not the tests'.
        if let Some(used) = used.as_mut().filter(|used| used.may_make(selection))
            && let Ok(kept) = ground(&used.kind).and_then(|ground| ground.stable.kept())
        {
            let _ = index.make_once(&used.kind, &mut used.guest, &kept);
        }
        Ok(done)
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    // One more than there are processors: guests wait, too, for timers and for their kernels' grace periods. With two more on two processors each test took a fifth more of a processor.
    let guests = (cores + 1).clamp(GUESTS, MAX_GUESTS);
    let mut all = thread::scope(|scope| {
        let workers: Vec<_> = (0..guests).map(|_| scope.spawn(worker)).collect();
        let mut all = Done::default();
        for worker in workers {
            let Ok(done) = worker.join() else {
                bail!("a thread that ran guests panicked")
            };
            let done = done?;
            all.tally = all.tally + done.tally;
            all.run.extend(done.run);
            all.failed.extend(done.failed);
        }
        Ok(all)
    })?;
    let mut failed = Vec::new();
    for (index, failure) in std::mem::take(&mut all.failed).into_iter().enumerate() {
        let flaky = if selection.again && index < TRIED_AGAIN {
            let mut ground = ground(&failure.job.kind())?;
            ground.patience *= AGAIN;
            failure.again(&ground, &mut all)
        } else {
            false
        };
        failed.push(failure.brief(flaky));
    }
    memory.keep(&all.run);
    let (wall, run) = (begun.elapsed(), all.run);
    Ok(Outcome {
        tally: all.tally,
        pace: Pace { wall, guests, run },
        failed,
    })
}
