//! Guest tests: which run where, and running them, a guest for each processor. What is in a test is the test's business.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    num::NonZero,
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    artifact::{self, Base, Executable, Profile},
    guest::{Ending, Guest, Program, Stable, Wish, kernel},
    install,
    kept_index::KeptIndex,
    objects,
    pace::{Memory, Pace, Took},
    tally::Tally,
    verdict::Verdict,
};

/// Files of tests that do not simply run on the matrix, and the kernels that they run on.
const ELSEWHERE: &[(&str, &[&str])] = &[
    ("boot", kernel::ALL),
    ("old_kernel", &["5.10"]),
    // Guests with packages are of a kind of their own: the oldest and the newest kernel say enough.
    ("bpftool", &["6.1", "7.2"]),
    ("uprobes", &["6.1", "7.3"]),
    ("stat", &["6.1", "7.3"]),
    ("tracepoints", &["6.1", "6.12", "7.2"]),
    // What readers type is the same everywhere.
    ("pages", &["6.1", "7.3"]),
];

/// Files about what kernels do differently: attaching, verifying, memory that is shared with the kernel, loading objects, recovering. They run on the whole
/// matrix, on [`NEIGHBOUR`] as far as [`VERSION_BY_VERSION`] says; all others, on its oldest and its newest kernel: five emulated kernels for each file take longer than anybody waits.
const WHOLE_MATRIX: &[&str] = &[
    "buffers",
    "functions",
    "handlers",
    "library",
    "marks",
    "missed",
    "moments",
    "named",
    "objects",
    "recover",
    "run",
    "session",
    "shapes",
    "tracefs_layouts",
];

/// The newest kernel's neighbour. Users of commands and tables meet the same there as on the newest, in the same way: only what may differ from version to version
/// is tried on both.
const NEIGHBOUR: &str = "7.2";

/// Those are: the functions and types that there are, where hits are missed, what lies in memory, where the preemption count is.
const VERSION_BY_VERSION: &[&str] = &[
    "functions",
    "missed",
    "objects",
    "recover",
    "shapes",
    "tracefs_layouts",
];

/// Files of tests that load compiled objects; they have modules to load, too.
const OBJECTS: &[&str] = &["objects", "bpftool"];
/// Files of tests whose guests have Debian packages, and which.
const PACKAGES: &[(&str, &[&str])] = &[
    ("bpftool", &["bpftool"]),
    ("uprobes", &["bpftool"]),
    ("stat", &["linux-perf"]),
    ("calls", &["strace", "linux-perf"]),
    ("sched", &["linux-perf"]),
    ("tracepoints", &["bpftrace", "linux-perf"]),
    ("perf_stacks", &["linux-perf", "python3-minimal"]),
];
/// What stands before the names of modules in a guest that are there to be loaded, in the order of the file `order`.
const MODULES: &str = "/module_";
/// Files of tests that run examples of the library, and which.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "library",
        &[
            "probe_registers",
            "probe_processes",
            "probe_open_latency",
            "probe_fault",
            "probe_tracepoint",
        ],
    ),
    ("objects", &["bpf_calls"]),
];

/// Files of tests that run programs with tracepoints of their own, which are examples: of which package, and which.
const TRACEPOINTS: &[(&str, &[(&str, &str)])] = &[(
    "tracepoints",
    &[
        ("kestrel-tracepoint", "server"),
        ("kestrel-tracepoint", "fork"),
        ("kestrel-tracing", "shop"),
    ],
)];

/// Guests at one time at least; more where there are more processors, since each guest keeps one busy most of the time.
const GUESTS: usize = 2;
/// Guests at one time at most: each has memory of its own.
const MOST_GUESTS: usize = 8;

/// Tests that share a clone at most, whatever files they are in: what was emulated once is emulated quickly from then on, so that a test's first run in a
/// clone takes several times what the next takes.
const SHARE: usize = 48;

/// Files whose tests need a clone that saw no others: they end it, or are about what everything before left in memory.
const FRESH: &[&str] = &["extremes", "hotplug", "recover"];

/// A file that nobody is at comes before one where somebody could be helped, whatever is left there, in seconds.
const ALONE: f64 = 1e6;

/// How long a test may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Files whose tests may take twice as long: what they do is given from outside, and cannot be made shorter or fewer.
const SLOW: &[&str] = &["pages"];

/// So many times as long where the guest is stopped again and again.
const HOSTILE: u32 = 5;

/// So many times as long where a test is tried again: in a fresh guest all is emulated for the first time, and what was slow is slower there.
const AGAIN: u32 = 2;

/// So many failed tests are tried once more at most: where more fail, it is not their luck.
const TRIED_AGAIN: usize = 10;

/// Variables of the environment that make tests longer than they are every day, and how long a test may take then.
const LENGTHS: &[&str] = &[
    "KESTREL_SWITCHES",
    "KESTREL_LOADS",
    "KESTREL_RELOADS",
    "KESTREL_KILLS",
    "KESTREL_MUTANTS",
    "KESTREL_AGENT_KILLS",
    "KESTREL_PROBES",
    "KESTREL_ALL_OFFSETS",
    "KESTREL_INSTRUCTIONS",
    "KESTREL_LINES",
    "KESTREL_LINES_SEED",
    "KESTREL_SHAPES",
];
const LONG: Duration = Duration::from_secs(3600);

/// A file of tests on one kernel.
struct Job {
    series: String,
    file: Executable,
    examples: Vec<Executable>,
}

/// What makes guests alike: their kernel and their packages.
type Kind = (String, &'static [&'static str]);

/// What of a job is still to do, and who is at it. Whoever has nothing left to do helps where most is left, so that no guest idles at the end
/// for longer than one test takes.
struct Rest {
    job: Arc<Job>,
    /// With what each is expected to take, in seconds.
    tests: VecDeque<(String, f64)>,
    workers: usize,
}

/// A clone that tests ran in, for the next.
struct Used {
    guest: Guest,
    kind: Kind,
    /// The file whose tests it is equipped for.
    file: String,
    /// How many tests it saw.
    seen: usize,
}

impl Used {
    /// Whether what it has in memory is what others have that begin.
    fn may_make(&self, selection: &Selection<'_>) -> bool {
        !selection.hostile && !OBJECTS.contains(&&*self.file) && !FRESH.contains(&&*self.file)
    }
}

/// All that is still to do.
struct Queue(Mutex<Vec<Rest>>);

/// What a worker did.
#[derive(Default)]
struct Done {
    tally: Tally,
    run: Vec<Took>,
    failed: Vec<Failure>,
}

/// A test that failed, and all that was told of it.
struct Failure {
    job: Arc<Job>,
    test: String,
    report: String,
}

/// Where tests run, and how.
struct Ground<'a> {
    stable: &'a Stable,
    base: &'a Base,
    /// What is made in one guest for all.
    index: &'a KeptIndex<Kind>,
    /// Whether the first guest makes it before its tests: where few tests run, each would wait for it longer than it gains.
    many: bool,
    output: bool,
    hostile: bool,
    /// So many times as long as usual a test may take.
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

/// What a run of guest tests came to.
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) pace: Pace,
    /// The tests that failed, each with the first lines of its report.
    pub(crate) failed: Vec<String>,
}

/// Builds the selected tests, runs them, tells each result as it comes.
pub(crate) fn run(selection: &Selection<'_>) -> Result<Outcome> {
    let base = artifact::base(Profile::Quick)?;
    let memory = Memory::recall();
    let file = selection.name.split_once("::").map(|(file, _)| file);
    let queue = Queue::of(selection, artifact::guest_tests(file)?, &memory)?;
    if queue.rests().iter().any(|rest| !rest.job.packages().is_empty()) {
        install::ensure(install::IMAGES)?;
    }
    let stables = queue.stables(&base)?;
    let tests: usize = queue.rests().iter().map(|rest| rest.tests.len()).sum();
    let index = KeptIndex::of(base.kestrel()?)?;
    let ground = |kind: &Kind| -> Result<Ground<'_>> {
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
        // For the next run, when nobody waits for a test any more; it is not the tests' failure where it does not succeed.
        if let Some(used) = used.as_mut().filter(|used| used.may_make(selection))
            && let Ok(kept) = ground(&used.kind).and_then(|ground| ground.stable.kept())
        {
            let _ = index.make_once(&used.kind, &mut used.guest, &kept);
        }
        Ok(done)
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    // One more than there are processors: guests wait, too, for timers and for their kernels' grace periods.
    let guests = (cores + 1).clamp(GUESTS, MOST_GUESTS);
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

impl Queue {
    /// Every file on every kernel it is meant for.
    fn of(selection: &Selection<'_>, files: Vec<Executable>, memory: &Memory) -> Result<Self> {
        let mut all = Vec::new();
        for file in files {
            let on = kernels(&file.name, selection.series);
            let wanted = |test: &String| format!("{}::{test}", file.name).contains(selection.name);
            let tests: Vec<String> = list(&file)?.into_iter().filter(wanted).collect();
            if tests.is_empty() {
                continue;
            }
            let mut examples = match EXAMPLES.iter().find(|(name, _)| *name == file.name) {
                Some((_, names)) => artifact::examples(names)?,
                None => Vec::new(),
            };
            if let Some((_, marked)) = TRACEPOINTS.iter().find(|(name, _)| *name == file.name) {
                examples.extend(artifact::marked_examples(marked)?);
            }
            for series in on {
                let expected = |test: &String| memory.expected(series, &format!("{}::{test}", file.name));
                let job = Arc::new(Job {
                    series: series.to_owned(),
                    file: file.clone(),
                    examples: examples.clone(),
                });
                let tests = tests.iter().map(|test| (test.clone(), expected(test))).collect();
                all.push(Rest {
                    job,
                    tests,
                    workers: 0,
                });
            }
        }
        ensure!(
            !all.is_empty(),
            "no guest test is called {:?} and meant for the kernels asked for",
            selection.name
        );
        Ok(Self(Mutex::new(all)))
    }

    /// What the guests of each kind are cloned from.
    fn stables(&self, base: &Base) -> Result<BTreeMap<Kind, Stable>> {
        let kinds: BTreeSet<Kind> = self.rests().iter().map(|rest| rest.job.kind()).collect();
        let prepare = |(series, packages): &Kind| {
            let wish = Wish {
                packages: packages.iter().map(|name| (*name).to_owned()).collect(),
                ..Wish::plain(series)
            };
            Stable::prepare(&wish, &base.init)
        };
        kinds
            .into_iter()
            .map(|kind| Ok((kind.clone(), prepare(&kind)?)))
            .collect()
    }

    fn rests(&self) -> MutexGuard<'_, Vec<Rest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where most is left for each who would be at it; whoever has a clone of a kernel stays with that kernel while it has files that nobody is at.
    fn enter(&self, series: Option<&str>) -> Option<(usize, Arc<Job>)> {
        let mut rests = self.rests();
        let left: Vec<(usize, f64)> = rests.iter().map(Rest::share).enumerate().collect();
        let most = |of: &dyn Fn(usize, f64) -> bool| {
            let among = left.iter().copied().filter(|(index, share)| of(*index, *share));
            among.max_by(|a, b| a.1.total_cmp(&b.1))
        };
        let same = |index: usize| Some(&*rests[index].job.series) == series;
        let here = most(&|index, share| share >= ALONE && same(index));
        let (index, _) = here.or_else(|| most(&|_, share| share > 0.0))?;
        rests[index].workers += 1;
        Some((index, Arc::clone(&rests[index].job)))
    }

    fn next(&self, index: usize) -> Option<String> {
        Some(self.rests()[index].tests.pop_front()?.0)
    }

    fn leave(&self, index: usize) {
        self.rests()[index].workers -= 1;
    }
}

impl Rest {
    /// What would be left for one more who came. A guest's start is not worth while where nobody is needed.
    fn share(&self) -> f64 {
        let left: f64 = self.tests.iter().map(|(_, seconds)| seconds).sum();
        // Others come where nobody is before they come to help.
        if self.workers == 0 && left > 0.0 {
            left + ALONE
        } else {
            left / (self.workers + 1) as f64
        }
    }
}

/// The kernels that a file's tests run on; of those asked for, where some are.
fn kernels<'a>(file: &str, asked: Option<&[&'a str]>) -> Vec<&'a str> {
    let elsewhere = ELSEWHERE.iter().find(|(name, _)| *name == file);
    let meant = elsewhere.map_or(kernel::MATRIX, |(_, on)| on);
    let on: &[&str] = match (asked, elsewhere) {
        (Some(asked), _) => {
            let among = |series: &&&str| meant.contains(series) || !kernel::ALL.contains(series);
            return asked.iter().filter(among).copied().collect();
        }
        (None, Some(_)) => meant,
        (None, None) if VERSION_BY_VERSION.contains(&file) => meant,
        (None, None) if WHOLE_MATRIX.contains(&file) => {
            let apart = |series: &&&str| **series != NEIGHBOUR;
            return meant.iter().filter(apart).copied().collect();
        }
        (None, None) => kernel::MATRIX_ENDS,
    };
    on.to_vec()
}

/// The tests in a file. It is a static program: it can be asked here.
fn list(file: &Executable) -> Result<Vec<String>> {
    let output = Command::new(&file.path)
        .args(["--list", "--format", "terse"])
        .output();
    let output = output.with_context(|| format!("run {}", file.path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect())
}

impl Failure {
    /// Tries it once more, in a guest of its own, and returns whether it passed. What passes then fails now and then, which is a fault, too, but another one.
    fn again(&self, ground: &Ground<'_>, all: &mut Done) -> bool {
        let mut second = Done::default();
        self.job.run(ground, self.test.clone(), &mut None, &mut second);
        all.run.extend(second.run);
        let passed = second.tally.failed == 0;
        if passed {
            all.tally.failed -= 1;
            all.tally.flaky += 1;
        }
        passed
    }

    /// The first lines of its report, for the run's end.
    fn brief(&self, flaky: bool) -> String {
        const LINES: usize = 30;
        let lines: Vec<&str> = self.report.lines().take(LINES).collect();
        let verdict = if flaky {
            "FLAKY, passed when it was tried again: "
        } else {
            ""
        };
        format!("{verdict}{}", lines.join("\n"))
    }
}

impl Job {
    fn packages(&self) -> &'static [&'static str] {
        let mut all = PACKAGES.iter();
        all.find(|(name, _)| *name == self.file.name)
            .map_or(&[], |(_, packages)| packages)
    }

    fn kind(&self) -> Kind {
        (self.series.clone(), self.packages())
    }

    /// Runs a test in the clone that was used before where that can be, in a new one after each failure: what follows must not suffer from it.
    fn run(self: &Arc<Self>, ground: &Ground<'_>, test: String, used: &mut Option<Used>, done: &mut Done) {
        let before = used.take().filter(|used| self.may_use(used));
        let (report, passed) = match self.attempt(ground, &test, before, used, &mut done.run) {
            Ok((report, verdict)) => {
                done.tally = done.tally + verdict.tally();
                (report, !matches!(verdict, Verdict::Failed(_)))
            }
            // The emulator or the guest's agent failed: the test's affair, so that the others are told of.
            Err(error) => {
                done.tally = done.tally + Tally::one(false);
                let name = format!("{}::{test}", self.file.name);
                (format!("{:>5} {name} FAILED: {error:#}", self.series), false)
            }
        };
        println!("{report}"); // In one piece: two guests are told of at once.
        if !passed {
            let job = Arc::clone(self);
            done.failed.push(Failure { job, test, report });
        }
    }

    /// One run of one test, and what is to be told of it.
    fn attempt(
        &self,
        ground: &Ground<'_>,
        test: &str,
        before: Option<Used>,
        used: &mut Option<Used>,
        run: &mut Vec<Took>,
    ) -> Result<(String, Verdict)> {
        let begun = Instant::now();
        let (mut running, before, seen) = match before {
            Some(mut used) => {
                let before = used.guest.busy();
                if used.file != self.file.name {
                    clear(&mut used.guest)?;
                    self.equip(&mut used.guest, ground.stable)?;
                }
                (used.guest, before, used.seen)
            }
            None => (self.start(ground)?, Duration::ZERO, 0),
        };
        let mut said = Vec::new();
        running.hostile = ground.hostile;
        let ending = running.run(&self.program(ground, test)?, |_, bytes| {
            said.extend_from_slice(bytes)
        })?;
        running.hostile = false;
        let said = String::from_utf8_lossy(&said).into_owned();
        let verdict = Verdict::of(ending, &said);
        let failed = matches!(verdict, Verdict::Failed(_));
        let took = Took {
            series: self.series.clone(),
            test: format!("{}::{test}", self.file.name),
            wall: begun.elapsed(),
            busy: running.busy().saturating_sub(before),
        };
        let mut report = verdict.line(&took);
        run.push(took);
        if ground.output || failed {
            report += &format!("\n{}", said.trim_end());
        }
        if matches!(ending, Ending::Died | Ending::TimedOut) {
            let (path, end) = running.keep_log()?;
            report += &format!("\n{end}\nkernel log kept in {}", path.display());
        }
        if !failed && seen + 1 < SHARE {
            *used = Some(Used {
                guest: running,
                kind: self.kind(),
                file: self.file.name.clone(),
                seen: seen + 1,
            });
        }
        Ok((report, verdict))
    }

    fn may_use(&self, used: &Used) -> bool {
        let fresh = |file: &str| FRESH.contains(&file);
        let same_file = used.file == self.file.name;
        used.kind == self.kind() && (same_file || !fresh(&self.file.name) && !fresh(&used.file))
    }

    fn start(&self, ground: &Ground<'_>) -> Result<Guest> {
        let mut guest = ground.stable.guest()?;
        for program in &ground.base.programs {
            guest.copy(&program.path, &format!("/usr/bin/{}", program.name))?;
        }
        let kept = ground.stable.kept()?;
        if !ground.index.give(self.kind(), &mut guest, &kept)? && ground.many {
            ground.index.make(self.kind(), &mut guest, &kept)?;
        }
        self.equip(&mut guest, ground.stable)?;
        Ok(guest)
    }

    /// What the tests of the file need beyond what every guest has.
    fn equip(&self, guest: &mut Guest, stable: &Stable) -> Result<()> {
        for program in &self.examples {
            guest.copy(&program.path, &format!("/usr/bin/{}", program.name))?;
        }
        guest.copy(&self.file.path, "/test")?;
        if OBJECTS.contains(&&*self.file.name) {
            let mut order = String::new();
            for (name, bytes) in stable.spare_modules()? {
                let place = format!("{MODULES}{name}");
                guest.put(&place, &bytes)?;
                order += &format!("{place}\n");
            }
            guest.put(&format!("{MODULES}order"), order.as_bytes())?;
            for object in objects::compile()? {
                let name = object
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                guest.copy(&object, &format!("{}{name}", objects::PLACE))?;
            }
        }
        Ok(())
    }

    fn program(&self, ground: &Ground<'_>, test: &str) -> Result<Program> {
        let argv = ["/test", "--exact", test, "--nocapture", "--test-threads=1"]
            .map(str::to_owned)
            .to_vec();
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)?
            .as_secs();
        let env = [
            ("KESTREL_GUEST_SERIES", self.series.clone()),
            ("KESTREL_GUEST_RELEASE", ground.stable.release().to_owned()),
            ("KESTREL_GUEST_NOW", now.to_string()),
            ("RUST_BACKTRACE", "1".to_owned()),
        ];
        let mut env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let lengths = LENGTHS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
        let always = env.len();
        env.extend(lengths);
        let limit = if env.len() > always { LONG } else { LIMIT };
        let slow = if SLOW.contains(&&*self.file.name) { 2 } else { 1 };
        let limit = limit * slow * ground.patience;
        Ok(Program { argv, env, limit })
    }
}

/// Takes away the files that tests left: they lie in the guest's memory.
fn clear(guest: &mut Guest) -> Result<()> {
    let argv = ["sh", "-c", "cd /tmp && rm -rf ./* ./.[!.]*"]
        .map(str::to_owned)
        .to_vec();
    let limit = LIMIT;
    let program = Program {
        argv,
        env: Vec::new(),
        limit,
    };
    guest.run(&program, |_, _| {}).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_kernels() {
        assert_eq!(kernels("pages", None), ["6.1", "7.3"]);
        assert_eq!(kernels("fields", None), kernel::MATRIX_ENDS);
        assert_eq!(kernels("shapes", None), kernel::MATRIX);
        assert_eq!(kernels("named", None), ["6.1", "6.12", "6.18", "7.3"]);
        assert_eq!(kernels("named", Some(&["7.2"])), ["7.2"], "who asks is answered");
        assert_eq!(kernels("pages", Some(&["6.12", "7.3"])), ["7.3"]);
    }

    #[test]
    fn what_differs_by_version_is_on_the_whole_matrix_and_the_neighbour_in_it() {
        assert!(kernel::MATRIX.contains(&NEIGHBOUR));
        assert!(VERSION_BY_VERSION.iter().all(|file| WHOLE_MATRIX.contains(file)));
    }
}
