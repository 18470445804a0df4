//! `cargo xtask test`: everything that must hold, in one go, on a machine that may have nothing yet.

use std::{
    num::NonZero,
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use clap::Args;

use crate::{
    artifact::{self, Executable, cargo, linting_cargo},
    bench, demo,
    guest_tests::{self, Outcome, Selection},
    install, objects, recovery,
    tally::{Tally, account, all_ended, failed_tests, skipped_sections},
};

/// Install what is missing and run every test: format, lints, host, guests.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Leave the guests out, and the lints of their tests.
    #[arg(long)]
    no_guests: bool,
}

/// A part of the run: its name and what it does. What is to be seen at the run's end it adds to the notes.
type Part = (&'static str, fn(&mut Notes) -> Result<Tally>);
type Notes = Vec<String>;

/// In the order in which they run: what fails soonest comes first. Nothing is measured in these; what the later ones need in guests is built beside them.
const BUILDS: &[Part] = &[("format", |_| format()), ("builds and lints", |_| builds())];

/// The tests that run here.
const HOST_PARTS: &[Part] = &[("host tests", host), ("bare", bare), ("models", models)];

/// The parts that need guests.
const GUEST_PARTS: &[Part] = &[("guest tests", guests)];

/// The parts whose guests wait or count rather than keep processors busy: they run at once.
const TOGETHER: &[Part] = &[
    ("instructions", |_| bench::instructions::check()),
    ("recovery", |_| recovery::check()),
    ("demo", |_| demo::check()),
];

/// Runs every part, whatever became of the one before; the last line counts the tests.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    install::ensure(&[install::GUESTS, install::PEERS].concat())?;
    artifact::lint_guest_tests();
    let (mut results, mut notes) = (Vec::new(), Notes::new());
    let mut each = |parts: &[Part]| results.extend(parts.iter().map(|part| perform(part, &mut notes)));
    // The crates of either build wait for one another, so that each alone leaves processors idle; the builds do not share a folder. Tests that run here
    // begin when both have ended: some of them measure time.
    thread::scope(|scope| {
        if !options.no_guests {
            // A panic there is reported by the part that asks for it again.
            scope.spawn(|| std::panic::catch_unwind(guest_builds));
        }
        each(BUILDS);
    });
    each(HOST_PARTS);
    if !options.no_guests {
        each(GUEST_PARTS);
        let together = |part| {
            let mut notes = Notes::new();
            (perform(part, &mut notes), notes)
        };
        thread::scope(|scope| -> Result<()> {
            let parts: Vec<_> = TOGETHER
                .iter()
                .map(|part| scope.spawn(move || together(part)))
                .collect();
            for part in parts {
                let (result, more) = part.join().map_err(|_| anyhow!("a part of the run panicked"))?;
                results.push(result);
                notes.extend(more);
            }
            Ok(())
        })?;
    }
    println!("──");
    for note in &notes {
        println!("{note}");
    }
    for (name, tally, took) in &results {
        println!("{name:<16} {:>6.1} s  {tally}", took.as_secs_f64());
    }
    let total: Tally = results.iter().map(|(_, tally, _)| *tally).sum();
    println!("{total}");
    Ok(if total.holds() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A part that ran: its name, what it came to, and how long it took.
type Performed = (&'static str, Tally, Duration);

fn perform((name, part): &Part, notes: &mut Notes) -> Performed {
    println!("── {name}");
    let begun = Instant::now();
    let tally = part(notes).unwrap_or_else(|error| {
        println!("{name}: {error:#}");
        Tally::one(false)
    });
    (name, tally, begun.elapsed())
}

fn format() -> Result<Tally> {
    check(&["fmt", "--all", "--check"])
}

/// All guest tests.
const GUEST_TESTS: Selection<'_> = Selection {
    name: "",
    series: None,
    output: false,
    hostile: false,
    again: true,
};

/// Builds what guests run, and the images and kernels that they have. A failure is reported by the part that asks for it again.
fn guest_builds() {
    let _ = guest_tests::prepare(&GUEST_TESTS);
    let _ = artifact::counted();
    let _ = objects::compile();
}

/// Builds the tests that run here, and checks their lints; those of the guest tests are checked where these are built.
fn builds() -> Result<Tally> {
    let holds = |cargo: &mut Command, arguments: &[&str]| {
        cargo.args(["test", "--quiet", "--no-run"]).args(arguments);
        cargo.stdout(Stdio::null()).status().context("run cargo")
    };
    let workspace = holds(&mut linting_cargo(), &WORKSPACE)?;
    // Errors of the compiler are reported by the part that runs it.
    holds(linting_cargo().stderr(Stdio::null()), BARE)?;
    holds(loom().stderr(Stdio::null()), MODELS)?;
    let _ = artifact::host_tests();
    Ok(Tally::one(workspace.success()))
}

/// A cargo command that holds or does not.
fn check(arguments: &[&str]) -> Result<Tally> {
    let status = cargo().args(arguments).status().context("run cargo")?;
    Ok(Tally::one(status.success()))
}

/// All packages but the guests' own.
const WORKSPACE: [&str; 3] = ["--workspace", "--exclude", "vm-tests"];

/// All tests that run here; of the guest side only what is not a guest test.
fn host(notes: &mut Notes) -> Result<Tally> {
    let readers = install::readers()?;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let with_readers = || {
        let mut command = linting_cargo();
        command.env("PYTHONPATH", &readers);
        // Many tests wait for programs and times.
        command.env("RUST_TEST_THREADS", (2 * cores).to_string());
        command
    };
    let mut run = run_tests(&mut with_readers(), &WORKSPACE)?;
    if run.whole && !run.failed.is_empty() && run.failed.len() <= TRIED_AGAIN {
        again(&mut with_readers(), &WORKSPACE, &mut run)?;
    }
    let workspace = run.tell(notes);
    let guest_side = guest_side(notes).unwrap_or_else(|error| {
        println!("vm-tests --lib: {error:#}");
        Tally::one(false)
    });
    Ok(workspace + guest_side)
}

/// Most failed tests that are tried once more: where more fail, it is not the machine's fault.
const TRIED_AGAIN: usize = 3;

/// Tries the tests that failed once more, one after the other and with nothing beside them. What passes then fails now and then, which is a fault, too, but
/// another one.
fn again(cargo: &mut Command, packages: &[&str], run: &mut Run) -> Result<()> {
    let names: Vec<&str> = run.failed.iter().map(|failed| failed.name.as_str()).collect();
    cargo
        .args(["test", "--quiet", "--no-fail-fast", "--lib", "--bins", "--tests"])
        .args(packages)
        .args(["--", "--test-threads=1", "--exact"])
        .args(&names);
    let second = count(cargo, &format!("again: {}", names.join(" ")))?;
    let failed = run.failed.len() as u64;
    if second.failed.is_empty() && second.tally.failed == 0 && second.tally.passed >= failed {
        run.tally.failed -= failed;
        run.tally.flaky += failed;
        run.failed.iter_mut().for_each(|failed| failed.flaky = true);
    }
    Ok(())
}

/// The tests of what host and guests speak to each other with. Cargo is asked for all packages and one program of it is run: asked for that package alone it
/// would give others fewer features, and compile half the workspace once more.
fn guest_side(notes: &mut Notes) -> Result<Tally> {
    let programs = artifact::host_tests()?;
    let ours = |program: &&Executable| program.name == "vm_tests";
    let program = programs.iter().find(ours).context("cargo built no vm_tests")?;
    let mut command = Command::new(&program.path);
    // Where cargo runs them.
    command.current_dir(crate::workspace::root().join("tests/vm"));
    Ok(count(command.arg("--show-output"), "vm-tests --lib")?.tell(notes))
}

/// `kestrel-tracepoint` without the standard library.
const BARE: &[&str] = &["-p", "bare-tests", "--lib"];

fn bare(notes: &mut Notes) -> Result<Tally> {
    Ok(run_tests(&mut linting_cargo(), BARE)?.tell(notes))
}

/// Every interleaving of what threads do at once in `kestrel-tracepoint`, by loom: its types stand in for those of the standard library.
const MODELS: &[&str] = &["-p", "kestrel-tracepoint", "--lib", "--release"];

fn models(notes: &mut Notes) -> Result<Tally> {
    Ok(run_tests(&mut loom(), MODELS)?.tell(notes))
}

/// Cargo for the models.
fn loom() -> Command {
    let mut command = cargo();
    // Beside the other builds, which the flag would have made anew.
    command.env("CARGO_TARGET_DIR", "target/models");
    command.env("RUSTFLAGS", "--cfg loom");
    command
}

/// Tests that ran: their counts, and those that failed.
struct Run {
    name: String,
    tally: Tally,
    failed: Vec<Failed>,
    /// Whether each program of tests came to its end.
    whole: bool,
}

/// A test that failed, and the first lines of what it printed.
struct Failed {
    name: String,
    account: String,
    /// Whether it passed when it was tried again.
    flaky: bool,
}

impl Run {
    /// Says at the run's end what failed: above it stand thousands of lines.
    fn tell(self, notes: &mut Notes) -> Tally {
        for Failed { name, account, flaky } in &self.failed {
            let verdict = if *flaky {
                "FLAKY, passed when it was tried again"
            } else {
                "FAILED"
            };
            notes.push(format!("{name}: {verdict}\n{account}"));
        }
        if self.tally.failed > self.failed.iter().filter(|failed| !failed.flaky).count() as u64 {
            notes.push(format!(
                "{}: not compiled, or a program of tests came to no end",
                self.name
            ));
        }
        self.tally
    }
}

fn run_tests(cargo: &mut Command, arguments: &[&str]) -> Result<Run> {
    cargo
        .args(["test", "--quiet", "--no-fail-fast"])
        .args(arguments)
        .args(["--", "--show-output"]);
    count(cargo, &arguments.join(" "))
}

/// Runs tests and counts what they say.
fn count(command: &mut Command, name: &str) -> Result<Run> {
    /// Lines that are shown of what a failed test printed.
    const LINES: usize = 30;
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("run the tests of {name}"))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut tally = Tally::of_cargo_test(&printed);
    let whole = all_ended(&printed);
    for reason in skipped_sections(&printed) {
        println!("skipped: {reason}");
    }
    if !output.status.success() {
        println!("{printed}");
        // A file that does not compile, or a test that ends its process, leaves no count.
        tally.failed += u64::from(!whole || tally.failed == 0);
    }
    println!("{name}: {tally}");
    let failed = failed_tests(&printed).into_iter().map(|name| Failed {
        account: account(&printed, &name, LINES).join("\n"),
        name,
        flaky: false,
    });
    Ok(Run {
        name: name.to_owned(),
        tally,
        failed: failed.collect(),
        whole,
    })
}

fn guests(notes: &mut Notes) -> Result<Tally> {
    let Outcome { tally, pace, failed } = guest_tests::run(&GUEST_TESTS)?;
    notes.push(pace.to_string());
    notes.extend(failed);
    Ok(tally)
}
