//! `cargo xtask test`: everything that must hold, in one go, on a machine that may have nothing yet.

use std::{
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use clap::Args;

use crate::{
    artifact::{self, Executable, cargo},
    bench, demo,
    guest_tests::{self, Selection},
    install, recovery,
    tally::{Tally, skipped_sections},
};

/// Install what is missing and run every test: format, lints, host, guests.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Leave the guests out.
    #[arg(long)]
    no_guests: bool,
}

/// A part of the run: its name and what it does. What is to be seen at the run's end it adds to the notes.
type Part = (&'static str, fn(&mut Notes) -> Result<Tally>);
type Notes = Vec<String>;

/// In the order in which they run: what fails soonest comes first.
const PARTS: &[Part] = &[
    ("format", |_| format()),
    ("lints", |_| lints()),
    ("host tests", |_| host()),
    ("bare", |_| bare()),
    ("models", |_| models()),
];

/// The parts that need guests.
const GUEST_PARTS: &[Part] = &[
    ("guest tests", guests),
    ("instructions", |_| bench::instructions::check()),
    ("recovery", |_| recovery::check()),
    ("demo", |_| demo::check()),
];

/// Runs every part, whatever became of the one before; the last line counts the tests.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    install::ensure(&[install::GUESTS, install::PEERS].concat())?;
    let parts = PARTS
        .iter()
        .chain(if options.no_guests { &[] } else { GUEST_PARTS });
    let mut results: Vec<(&str, Tally, Duration)> = Vec::new();
    let mut notes = Notes::new();
    for (name, part) in parts {
        println!("── {name}");
        let begun = Instant::now();
        let tally = part(&mut notes).unwrap_or_else(|error| {
            println!("{name}: {error:#}");
            Tally::one(false)
        });
        results.push((name, tally, begun.elapsed()));
    }
    println!("──");
    for note in &notes {
        println!("{note}");
    }
    for (name, tally, took) in &results {
        println!("{name:<12} {:>6.1} s  {tally}", took.as_secs_f64());
    }
    let total: Tally = results.iter().map(|(_, tally, _)| *tally).sum();
    println!("{total}");
    Ok(if total.holds() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn format() -> Result<Tally> {
    check(&["fmt", "--all", "--check"])
}

fn lints() -> Result<Tally> {
    check(&[
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])
}

/// A cargo command that holds or does not.
fn check(arguments: &[&str]) -> Result<Tally> {
    let status = cargo().args(arguments).status().context("run cargo")?;
    Ok(Tally::one(status.success()))
}

/// All tests that run here; of the guest side only what is not a guest test.
fn host() -> Result<Tally> {
    let mut command = cargo();
    command.env("PYTHONPATH", install::readers()?);
    let workspace = run_tests(&mut command, &["--workspace", "--exclude", "vm-tests"])?;
    let guest_side = guest_side().unwrap_or_else(|error| {
        println!("vm-tests --lib: {error:#}");
        Tally::one(false)
    });
    Ok(workspace + guest_side)
}

/// The tests of what host and guests speak to each other with. Cargo is asked for all packages and one program of it is run: asked for that package alone it
/// would give others fewer features, and compile half the workspace once more.
fn guest_side() -> Result<Tally> {
    let programs = artifact::host_tests()?;
    let ours = |program: &&Executable| program.name == "vm_tests";
    let program = programs.iter().find(ours).context("cargo built no vm_tests")?;
    let mut command = Command::new(&program.path);
    // Where cargo runs them.
    command.current_dir(crate::workspace().join("tests/vm"));
    count(command.arg("--show-output"), "vm-tests --lib")
}

/// `kestrel-tracepoint` without the standard library.
fn bare() -> Result<Tally> {
    cargo_test(&[
        "-p",
        "kestrel-tracepoint",
        "--no-default-features",
        "--test",
        "bare",
    ])
}

/// Every interleaving of what threads do at once in `kestrel-tracepoint`, by loom: its types stand in for those of the standard library.
fn models() -> Result<Tally> {
    let mut command = cargo();
    // Beside the other builds, which the flag would have made anew.
    command.env("CARGO_TARGET_DIR", "target/models");
    command.env("RUSTFLAGS", "--cfg loom");
    run_tests(&mut command, &["-p", "kestrel-tracepoint", "--lib", "--release"])
}

fn cargo_test(arguments: &[&str]) -> Result<Tally> {
    run_tests(&mut cargo(), arguments)
}

fn run_tests(cargo: &mut Command, arguments: &[&str]) -> Result<Tally> {
    cargo
        .args(["test", "--quiet", "--no-fail-fast"])
        .args(arguments)
        .args(["--", "--show-output"]);
    count(cargo, &arguments.join(" "))
}

/// Runs tests and counts what they say.
fn count(command: &mut Command, name: &str) -> Result<Tally> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("run the tests of {name}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let mut tally = Tally::of_cargo_test(&said);
    for reason in skipped_sections(&said) {
        println!("skipped: {reason}");
    }
    if !output.status.success() {
        println!("{said}");
        // A file that does not compile, or a test that ends its process, leaves no count.
        tally.failed = tally.failed.max(1);
    }
    println!("{name}: {tally}");
    Ok(tally)
}

fn guests(notes: &mut Notes) -> Result<Tally> {
    let (tally, pace) = guest_tests::run(&Selection {
        name: "",
        series: None,
        output: false,
        hostile: false,
        again: true,
    })?;
    notes.push(pace.to_string());
    Ok(tally)
}
