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
    install, objects,
    pace::{Memory, Pace, Took},
    tally::Tally,
};

/// Files of tests that do not simply run on the matrix, and the kernels that they run on.
const ELSEWHERE: &[(&str, &[&str])] = &[
    ("boot", kernel::ALL),
    ("old_kernel", &["5.10"]),
    // Guests with packages are of a kind of their own: the oldest and the newest kernel say enough.
    ("bpftool", &["6.1", "7.2"]),
];

/// Files of tests that load compiled objects; they have modules to load, too.
const OBJECTS: &[&str] = &["objects", "bpftool"];
/// Files of tests whose guests have Debian packages, and which.
const PACKAGES: &[(&str, &[&str])] = &[("bpftool", &["bpftool"])];
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
        ],
    ),
    ("objects", &["bpf_calls"]),
];

/// Guests at one time at least; more where there are more processors, since each guest keeps one busy most of the time.
const GUESTS: usize = 2;
/// Guests at one time at most: each has memory of its own.
const MOST_GUESTS: usize = 8;

/// Tests that share a clone at most, whatever files they are in: what was emulated once is emulated quickly from then on, so that a test's first run in a
/// clone takes several times what the next takes.
const SHARE: usize = 48;

/// Files whose tests need a clone that saw no others: they end it, or are about what everything before left in memory.
const FRESH: &[&str] = &["boot", "old_kernel", "extremes", "hotplug", "recover"];

/// A file that nobody is at comes before one where somebody could be helped, whatever is left there, in seconds.
const ALONE: f64 = 1e6;

/// How long a test may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Variables of the environment that make tests longer than they are every day, and how long a test may take then.
const LENGTHS: &[&str] = &[
    "KESTREL_SWITCHES",
    "KESTREL_LOADS",
    "KESTREL_KILLS",
    "KESTREL_MUTANTS",
    "KESTREL_AGENT_KILLS",
    "KESTREL_PROBES",
    "KESTREL_ALL_OFFSETS",
    "KESTREL_INSTRUCTIONS",
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

/// All that is still to do.
struct Queue(Mutex<Vec<Rest>>);

/// What came of one test on one kernel.
enum Verdict {
    Passed,
    Failed(Ending),
    Skipped(String),
}

/// Which tests to run, where, and how much to say.
pub(crate) struct Selection<'a> {
    /// Part of `file::test`, or nothing for all.
    pub(crate) name: &'a str,
    /// Kernel series, or nothing for those that each file is meant for.
    pub(crate) series: Option<&'a [&'a str]>,
    /// Show what passing tests print, too.
    pub(crate) output: bool,
}

/// Builds the selected tests, runs them, tells each result as it comes.
pub(crate) fn run(selection: &Selection<'_>) -> Result<(Tally, Pace)> {
    let base = artifact::base(Profile::Quick)?;
    let memory = Memory::recall();
    let file = selection.name.split_once("::").map(|(file, _)| file);
    let queue = Queue::of(selection, artifact::guest_tests(file)?, &memory)?;
    if queue.rests().iter().any(|rest| !rest.job.packages().is_empty()) {
        install::ensure(install::IMAGES)?;
    }
    let stables = queue.stables(&base)?;
    let begun = Instant::now();
    let worker = || -> Result<(Tally, Vec<Took>)> {
        let (mut tally, mut run) = (Tally::default(), Vec::new());
        let mut used: Option<Used> = None;
        while let Some((index, job)) = queue.enter(used.as_ref().map(|used| &*used.kind.0)) {
            let stable = stables
                .get(&job.kind())
                .context("a guest that was not prepared")?;
            let next = || queue.next(index);
            let done = job.run(stable, &base, selection.output, next, &mut used, &mut run);
            queue.leave(index);
            tally = tally + done?;
        }
        Ok((tally, run))
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    // One more than there are processors: guests wait, too, for timers and for their kernels' grace periods.
    let guests = (cores + 1).clamp(GUESTS, MOST_GUESTS);
    let (tally, run) = thread::scope(|scope| {
        let workers: Vec<_> = (0..guests).map(|_| scope.spawn(worker)).collect();
        let mut all = (Tally::default(), Vec::new());
        for worker in workers {
            let Ok(done) = worker.join() else {
                bail!("a thread that ran guests panicked")
            };
            let (tally, run) = done?;
            all = (all.0 + tally, [all.1, run].concat());
        }
        Ok(all)
    })?;
    memory.keep(&run);
    let wall = begun.elapsed();
    Ok((tally, Pace { wall, guests, run }))
}

impl Queue {
    /// Every file on every kernel it is meant for.
    fn of(selection: &Selection<'_>, files: Vec<Executable>, memory: &Memory) -> Result<Self> {
        let mut all = Vec::new();
        for file in files {
            let meant = ELSEWHERE
                .iter()
                .find(|(name, _)| *name == file.name)
                .map_or(kernel::MATRIX, |(_, on)| on);
            let on: Vec<&str> = match selection.series {
                None => meant.to_vec(),
                Some(series) => series
                    .iter()
                    .filter(|series| meant.contains(series) || !kernel::ALL.contains(series))
                    .copied()
                    .collect(),
            };
            let wanted = |test: &String| format!("{}::{test}", file.name).contains(selection.name);
            let tests: Vec<String> = list(&file)?.into_iter().filter(wanted).collect();
            if tests.is_empty() {
                continue;
            }
            let examples = match EXAMPLES.iter().find(|(name, _)| *name == file.name) {
                Some((_, names)) => artifact::examples(names)?,
                None => Vec::new(),
            };
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

impl Job {
    fn packages(&self) -> &'static [&'static str] {
        let mut all = PACKAGES.iter();
        all.find(|(name, _)| *name == self.file.name)
            .map_or(&[], |(_, packages)| packages)
    }

    fn kind(&self) -> Kind {
        (self.series.clone(), self.packages())
    }

    /// Runs tests in the clone that was used before where that can be, in a new one after each failure: what follows must not suffer from it.
    fn run(
        &self,
        stable: &Stable,
        base: &Base,
        output: bool,
        next: impl Fn() -> Option<String>,
        used: &mut Option<Used>,
        run: &mut Vec<Took>,
    ) -> Result<Tally> {
        let mut tally = Tally::default();
        while let Some(test) = &next() {
            let begun = Instant::now();
            let (mut running, before, seen) = match used.take().filter(|used| self.may_use(used)) {
                Some(mut used) => {
                    let before = used.guest.busy();
                    if used.file != self.file.name {
                        clear(&mut used.guest)?;
                        self.equip(&mut used.guest, stable)?;
                    }
                    (used.guest, before, used.seen)
                }
                None => (self.start(stable, base)?, Duration::ZERO, 0),
            };
            let mut said = Vec::new();
            let ending = running.run(&self.program(stable, test)?, |_, bytes| {
                said.extend_from_slice(bytes)
            })?;
            let said = String::from_utf8_lossy(&said).into_owned();
            let verdict = verdict(ending, &said);
            let failed = matches!(verdict, Verdict::Failed(_));
            let took = Took {
                series: self.series.clone(),
                test: format!("{}::{test}", self.file.name),
                wall: begun.elapsed(),
                busy: running.busy().saturating_sub(before),
            };
            let mut report = line(&took, &verdict);
            run.push(took);
            if output || failed {
                report += &format!("\n{}", said.trim_end());
            }
            if matches!(ending, Ending::Died | Ending::TimedOut) {
                let (path, end) = running.keep_log()?;
                report += &format!("\n{end}\nkernel log kept in {}", path.display());
            }
            println!("{report}"); // In one piece: two guests are told of at once.
            tally = tally + verdict.tally();
            if !failed && seen + 1 < SHARE {
                *used = Some(Used {
                    guest: running,
                    kind: self.kind(),
                    file: self.file.name.clone(),
                    seen: seen + 1,
                });
            }
        }
        Ok(tally)
    }

    fn may_use(&self, used: &Used) -> bool {
        let fresh = |file: &str| FRESH.contains(&file);
        let same_file = used.file == self.file.name;
        used.kind == self.kind() && (same_file || !fresh(&self.file.name) && !fresh(&used.file))
    }

    fn start(&self, stable: &Stable, base: &Base) -> Result<Guest> {
        let mut guest = stable.guest()?;
        for program in &base.programs {
            guest.copy(&program.path, &format!("/usr/bin/{}", program.name))?;
        }
        self.equip(&mut guest, stable)?;
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

    fn program(&self, stable: &Stable, test: &str) -> Result<Program> {
        let argv = ["/test", "--exact", test, "--nocapture", "--test-threads=1"]
            .map(str::to_owned)
            .to_vec();
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)?
            .as_secs();
        let env = [
            ("KESTREL_GUEST_SERIES", self.series.clone()),
            ("KESTREL_GUEST_RELEASE", stable.release().to_owned()),
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

fn line(took: &Took, verdict: &Verdict) -> String {
    let (mark, note) = match verdict {
        Verdict::Passed => ("ok", String::new()),
        Verdict::Failed(ending) => ("FAILED", format!(" ({ending:?})")),
        Verdict::Skipped(reason) => ("skipped", format!(": {reason}")),
    };
    format!(
        "{:>5} {} {mark} {:.2} s{note}",
        took.series,
        took.test,
        took.wall.as_secs_f64()
    )
}

impl Verdict {
    fn tally(&self) -> Tally {
        match self {
            Self::Passed => Tally::one(true),
            Self::Failed(_) => Tally::one(false),
            Self::Skipped(_) => Tally {
                skipped: 1,
                ..Tally::default()
            },
        }
    }
}

fn verdict(ending: Ending, said: &str) -> Verdict {
    if ending != Ending::Exited(0) {
        return Verdict::Failed(ending);
    }
    // The harness writes "test NAME ... " without a newline before what the test prints.
    let reason = said
        .lines()
        .find_map(|line| line.split_once("skipped: ").map(|(_, reason)| reason.to_owned()));
    let ignored = said
        .lines()
        .any(|line| line.starts_with("test ") && line.contains(" ... ignored"));
    match reason {
        Some(reason) => Verdict::Skipped(reason),
        None if ignored => Verdict::Skipped("ignored".to_owned()),
        None => Verdict::Passed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_says_skipped_is_skipped_even_on_the_harness_line() {
        let skipped = |said: &str| matches!(verdict(Ending::Exited(0), said), Verdict::Skipped(_));
        assert!(skipped(
            "running 1 test\ntest a ... skipped: no fentry on 6.1\nok\n"
        ));
        assert!(skipped("test a ... ignored, needs a PMU\n"));
        assert!(!skipped("test a ... ok\n"));
        assert!(matches!(
            verdict(Ending::Exited(101), "skipped: x"),
            Verdict::Failed(_)
        ));
        assert!(matches!(verdict(Ending::Died, ""), Verdict::Failed(Ending::Died)));
    }
}
