//! A file of guest tests on one kernel: each of its tests run in a guest, in the one that ran the last where that can be.

use super::files::{FRESH, OBJECTS, PACKAGES, SLOW};
use super::{Done, Ground, Selection};
use crate::artifact::Executable;
use crate::guest::{ExitStatus, Guest, GuestTemplate, Program};
use crate::objects;
use crate::pace::Took;
use crate::tally::Tally;
use crate::verdict::Verdict;
use anyhow::Result;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// The prefix of the names of modules in a guest that are there to be loaded, in the order of the file `order`.
const MODULES: &str = "/module_";

/// Tests that share a clone at most, whatever files they are in: what was emulated once is emulated quickly from then on, so that a test's first run in a
/// clone takes several times what the next takes.
pub(super) const SHARE: usize = 96;

/// Longest time of a test.
const LIMIT: Duration = Duration::from_secs(120);

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
pub(super) struct Job {
    pub(super) series: String,
    pub(super) file: Executable,
    pub(super) examples: Vec<Executable>,
}

/// The kind of a guest: its kernel and its packages.
pub(super) type GuestKind = (String, &'static [&'static str]);

/// A clone that tests ran in, for the next.
pub(super) struct Used {
    pub(super) guest: Guest,
    pub(super) kind: GuestKind,
    /// The file whose tests it is equipped for.
    file: String,
    /// Number of tests that it saw.
    seen: usize,
}

impl Used {
    /// Whether what it has in memory is what others have that begin.
    pub(super) fn may_make(&self, selection: &Selection<'_>) -> bool {
        !selection.hostile && !OBJECTS.contains(&&*self.file) && !FRESH.contains(&&*self.file)
    }
}

/// A test that failed, and its output.
pub(super) struct Failure {
    pub(super) job: Arc<Job>,
    pub(super) test: String,
    report: String,
}

impl Failure {
    /// Tries it once more, in a guest of its own, and returns whether it passed. What passes then fails now and then, which is a fault, too, but another one.
    pub(super) fn again(&self, ground: &Ground<'_>, all: &mut Done) -> bool {
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
    pub(super) fn brief(&self, flaky: bool) -> String {
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
    pub(super) fn packages(&self) -> &'static [&'static str] {
        let mut all = PACKAGES.iter();
        all.find(|(name, _)| *name == self.file.name)
            .map_or(&[], |(_, packages)| packages)
    }

    pub(super) fn kind(&self) -> GuestKind {
        (self.series.clone(), self.packages())
    }

    /// Runs a test in the clone that was used before where that can be, in a new one after each failure: what follows must not suffer from it.
    pub(super) fn run(
        self: &Arc<Self>,
        ground: &Ground<'_>,
        test: String,
        used: &mut Option<Used>,
        done: &mut Done,
    ) {
        let before = used.take().filter(|used| self.may_use(used));
        let (report, passed) = match self.attempt(ground, &test, before, used, &mut done.run) {
            Ok((report, verdict)) => {
                done.tally = done.tally + verdict.tally();
                (report, !matches!(verdict, Verdict::Failed(_)))
            }
            // The emulator or the guest's agent failed: a failure of this test, so that the others are reported.
            Err(error) => {
                done.tally = done.tally + Tally::one(false);
                let name = format!("{}::{test}", self.file.name);
                (format!("{:>5} {name} FAILED: {error:#}", self.series), false)
            }
        };
        println!("{report}"); // In one piece: two guests print at once.
        if !passed {
            let job = Arc::clone(self);
            done.failed.push(Failure { job, test, report });
        }
    }

    /// One run of one test, and its report.
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
                // Files that one file of tests left or was given must not help the next.
                if used.file != self.file.name {
                    clear(&mut used.guest)?;
                    self.equip(&mut used.guest, ground.stable)?;
                }
                (used.guest, before, used.seen)
            }
            None => (self.start(ground)?, Duration::ZERO, 0),
        };
        let mut printed = Vec::new();
        running.hostile = ground.hostile;
        let ending = running.run(&self.program(ground, test)?, |_, bytes| {
            printed.extend_from_slice(bytes)
        })?;
        running.hostile = false;
        let printed = String::from_utf8_lossy(&printed).into_owned();
        let verdict = Verdict::of(ending, &printed);
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
            report += &format!("\n{}", printed.trim_end());
        }
        if matches!(ending, ExitStatus::Died | ExitStatus::TimedOut) {
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

    /// Equips a guest with the files that the tests of the file need beyond those of every guest.
    fn equip(&self, guest: &mut Guest, stable: &GuestTemplate) -> Result<()> {
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
