//! `cargo xtask bench tracepoint`: what an event of a program costs, ours and those of other tracers of programs side by side in one run of one process. LTTng takes part where
//! it is installed (`liblttng-ust-dev`, `lttng-tools`).

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::artifact::cargo;

/// Measure events of users' own programs beside those of other tracers.
#[derive(Debug, Args)]
pub(crate) struct Options {}

/// The promises, ns of the cheapest batch without those of the row named: an event that has no listener, and one with a time and three integers that is recorded.
const PROMISES: [(&str, &str, f64); 2] = [
    ("kestrel, off", "nothing", 0.5),
    ("kestrel, recorded", "nothing", 25.0),
];
/// Millions of events in a second of a thread's processor time, at least.
const RATE: f64 = 10.0;

/// LTTng's header, in one of the folders where headers are.
const LTTNG: &str = "lttng/tracepoint.h";

/// Measures, prints, judges.
pub(crate) fn run(_: &Options) -> Result<ExitCode> {
    let folder = tempfile::tempdir().context("make a folder for traces")?;
    let lttng = Lttng::start(folder.path())?;
    let mut build = cargo();
    build.args([
        "build",
        "--quiet",
        "--release",
        "--manifest-path",
        "bench/tracepoint/Cargo.toml",
        "--target-dir",
        "target/bench-tracepoint",
    ]);
    if lttng.is_some() {
        build.args(["--features", "lttng"]);
    }
    ensure!(
        build.status().context("run cargo")?.success(),
        "the bench's program does not build"
    );
    let program = crate::workspace::root().join("target/bench-tracepoint/release/kestrel-bench-tracepoint");
    let mut program = Command::new(program);
    program.arg(folder.path()).stdin(Stdio::null());
    if let Some(lttng) = &lttng {
        program.env("LTTNG_HOME", &lttng.home);
    }
    let output = program
        .stderr(Stdio::inherit())
        .output()
        .context("run the bench")?;
    ensure!(output.status.success(), "the bench failed: {}", output.status);
    drop(lttng);
    judge(&String::from_utf8_lossy(&output.stdout))
}

/// Prints the lines of the bench, and says which promises are not kept.
fn judge(text: &str) -> Result<ExitCode> {
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let number = |name: &str| -> Result<f64> {
        let line = lines.iter().find(|line| line[0] == name);
        let number = line.and_then(|line| line.get(1)?.parse().ok());
        number.with_context(|| format!("the bench says nothing of {name}"))
    };
    println!("ns an event: the cheapest of many batches, the median one");
    for line in &lines {
        match line.as_slice() {
            ["clock", source] => println!("times of records come from the {source}"),
            [name @ ("overwriting" | "streamed"), rate, lost] => {
                println!("{name}: {rate} million events a second of one thread, {lost} lost");
            }
            [name, best, median] => println!("{name:<26} {best:>9} {median:>9}"),
            _ => bail!("the bench says {line:?}"),
        }
    }
    let mut kept = true;
    for (name, over, most) in PROMISES {
        let costs = number(name)? - number(over)?;
        if costs > most {
            println!("bench tracepoint: {name} costs {costs:.2} ns, promised {most}");
            kept = false;
        }
    }
    if number("overwriting")? < RATE {
        println!("bench tracepoint: less than {RATE} million events a second");
        kept = false;
    }
    Ok(if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A session of LTTng that records the bench's event.
struct Lttng {
    home: std::path::PathBuf,
}

impl Lttng {
    /// Starts it; `None`, with a message, where it is not installed.
    fn start(folder: &Path) -> Result<Option<Self>> {
        let has_daemon = Command::new("lttng-sessiond").arg("--version").output().is_ok();
        let folders = [
            "/usr/include",
            "/usr/include/x86_64-linux-gnu",
            "/usr/local/include",
        ];
        let has_header = folders
            .iter()
            .any(|folder| Path::new(folder).join(LTTNG).exists());
        if !has_daemon || !has_header {
            println!("skipped: lttng-ust (packages liblttng-ust-dev and lttng-tools)");
            return Ok(None);
        }
        let home = folder.join("lttng");
        fs::create_dir(&home)?;
        let lttng = Self { home };
        let pid = lttng.home.join("pid");
        let pid = format!("--pidfile={}", pid.display());
        lttng.run("lttng-sessiond", &["--daemonize", "--no-kernel", &pid])?;
        let output = format!("--output={}", lttng.home.join("trace").display());
        lttng.run("lttng", &["create", "bench", &output])?;
        // A ring as large as ours, and the newest events stay.
        lttng.run(
            "lttng",
            &[
                "enable-channel",
                "--userspace",
                "ring",
                "--subbuf-size=1M",
                "--num-subbuf=2",
                "--overwrite",
            ],
        )?;
        lttng.run(
            "lttng",
            &["enable-event", "--userspace", "--channel=ring", "bench:step"],
        )?;
        lttng.run("lttng", &["start"])?;
        Ok(Some(lttng))
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(program);
        let output = command.args(arguments).env("LTTNG_HOME", &self.home).output();
        let output = output.with_context(|| format!("run {program}"))?;
        ensure!(
            output.status.success(),
            "{program} {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

impl Drop for Lttng {
    fn drop(&mut self) {
        // The rest of the session ends with its daemon.
        _ = self.run("lttng", &["destroy", "bench"]);
        if let Ok(pid) = fs::read_to_string(self.home.join("pid")) {
            _ = Command::new("kill").arg(pid.trim()).status();
        }
    }
}
