//! Guest tests: which run where, and running them, two guests at a time. What is in a test is the test's business.

use std::{
    collections::{BTreeMap, VecDeque},
    process::Command,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, ensure};

use crate::{
    artifact::{self, Base, Executable, Profile},
    guest::{Ending, Guest, Program, Stable, Wish, kernel},
    objects,
    tally::Tally,
};

/// Files of tests that do not simply run on the matrix, and the kernels that they run on.
const ELSEWHERE: &[(&str, &[&str])] = &[("boot", kernel::ALL), ("old_kernel", &["5.10"])];

/// The file of tests that load compiled objects.
const OBJECTS: &str = "objects";
/// Files of tests that run examples of the library, and which.
const EXAMPLES: &[(&str, &[&str])] = &[(
    "library",
    &[
        "probe_registers",
        "probe_processes",
        "probe_open_latency",
        "probe_fault",
    ],
)];

/// Guests at one time at least; more where there are more processors, since each guest keeps one busy.
const GUESTS: usize = 2;
/// Guests at one time at most: each has memory of its own.
const MOST_GUESTS: usize = 8;

/// Tests that share a clone at most.
const SHARE: usize = 8;

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
];
const LONG: Duration = Duration::from_secs(3600);

/// Tests of one file on one kernel, run one after the other in one clone.
struct Job {
    series: String,
    file: Executable,
    tests: Vec<String>,
    examples: Vec<Executable>,
}

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
pub(crate) fn run(selection: &Selection<'_>) -> Result<Tally> {
    let base = artifact::base(Profile::Quick)?;
    let jobs = jobs(selection, artifact::guest_tests()?)?;
    ensure!(
        !jobs.is_empty(),
        "no guest test is called {:?} and meant for the kernels asked for",
        selection.name
    );
    let mut stables = BTreeMap::new();
    for job in &jobs {
        if !stables.contains_key(&job.series) {
            stables.insert(
                job.series.clone(),
                Stable::prepare(&Wish::plain(&job.series), &base.init)?,
            );
        }
    }
    let queue = Mutex::new(VecDeque::from(jobs));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let worker = || -> Result<Tally> {
        let mut tally = Tally::default();
        while let Some(job) = next() {
            let stable = stables
                .get(&job.series)
                .context("a kernel that was not prepared")?;
            tally = tally + job.run(stable, &base, selection.output)?;
        }
        Ok(tally)
    };
    let guests =
        thread::available_parallelism().map_or(GUESTS, |cores| cores.get().clamp(GUESTS, MOST_GUESTS));
    thread::scope(|scope| {
        let workers: Vec<_> = (0..guests).map(|_| scope.spawn(worker)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Result<Tally>>| match worker.join() {
            Ok(tally) => tally,
            Err(_) => Err(anyhow::anyhow!("a thread that ran guests panicked")),
        };
        let tallies: Result<Vec<Tally>> = workers.into_iter().map(join).collect();
        Ok(tallies?.into_iter().sum())
    })
}

/// Every file on every kernel it is meant for, cut into portions; kernels take turns so that both workers are busy.
fn jobs(selection: &Selection<'_>, files: Vec<Executable>) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
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
        let examples = match EXAMPLES.iter().find(|(name, _)| *name == file.name) {
            Some((_, names)) if !tests.is_empty() => artifact::examples(names)?,
            _ => Vec::new(),
        };
        for tests in tests.chunks(SHARE) {
            jobs.extend(on.iter().map(|series| Job {
                series: (*series).to_owned(),
                file: file.clone(),
                tests: tests.to_vec(),
                examples: examples.clone(),
            }));
        }
    }
    Ok(jobs)
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
    /// Runs the tests in one clone, in a new one after each failure: what follows must not suffer from it.
    fn run(&self, stable: &Stable, base: &Base, output: bool) -> Result<Tally> {
        let mut tally = Tally::default();
        let mut guest: Option<Guest> = None;
        for test in &self.tests {
            let begun = Instant::now();
            let mut running = match guest.take() {
                Some(guest) => guest,
                None => self.start(stable, base)?,
            };
            let mut said = Vec::new();
            let ending = running.run(&self.program(stable, test)?, |_, bytes| {
                said.extend_from_slice(bytes)
            })?;
            let said = String::from_utf8_lossy(&said).into_owned();
            let verdict = verdict(ending, &said);
            let failed = matches!(verdict, Verdict::Failed(_));
            let mut report = self.line(test, &verdict, begun.elapsed());
            if output || failed {
                report += &format!("\n{}", said.trim_end());
            }
            if matches!(ending, Ending::Died | Ending::TimedOut) {
                let (path, end) = running.keep_log()?;
                report += &format!("\n{end}\nkernel log kept in {}", path.display());
            }
            println!("{report}"); // In one piece: two guests are told of at once.
            tally = tally + verdict.tally();
            if !failed {
                guest = Some(running);
            }
        }
        Ok(tally)
    }

    fn start(&self, stable: &Stable, base: &Base) -> Result<Guest> {
        let mut guest = stable.guest()?;
        for program in base.programs.iter().chain(&self.examples) {
            guest.copy(&program.path, &format!("/usr/bin/{}", program.name))?;
        }
        guest.copy(&self.file.path, "/test")?;
        if self.file.name == OBJECTS {
            for object in objects::compile()? {
                let name = object
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                guest.copy(&object, &format!("{}{name}", objects::PLACE))?;
            }
        }
        Ok(guest)
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

    fn line(&self, test: &str, verdict: &Verdict, took: Duration) -> String {
        let (mark, note) = match verdict {
            Verdict::Passed => ("ok", String::new()),
            Verdict::Failed(ending) => ("FAILED", format!(" ({ending:?})")),
            Verdict::Skipped(reason) => ("skipped", format!(": {reason}")),
        };
        format!(
            "{:>5} {}::{test} {mark} {:.2} s{note}",
            self.series,
            self.file.name,
            took.as_secs_f64()
        )
    }
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
