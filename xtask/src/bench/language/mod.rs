//! `cargo xtask bench language`: Kestrel beside bpftrace with the same scripts, in a guest that has both, or on this machine.

mod same;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::{
    artifact::{self, Profile},
    guest::{GuestSpec, GuestTemplate, kernel},
    install,
};

/// Runs in the guest, or here; prints rows of words.
const MEASURE: [&str; 3] = [
    include_str!("measure.sh"),
    include_str!("same.sh"),
    include_str!("main.sh"),
];
/// Where the guest has the scripts.
const SCRIPTS: &str = "/";
/// Time limit of the whole measurement in a guest: emulation is slow.
const LONGEST: Duration = Duration::from_secs(3000);
/// The promise for any script where nothing is emulated.
const ATTACHED_AT_MOST_MS: f64 = 30.0;
const MEMORY_AT_MOST_MIB: f64 = 40.0;
/// Fewer intervals say little about what is lost between two of them.
const INTERVALS_AT_LEAST: f64 = 100.0;

/// Compare scripts under Kestrel and under bpftrace.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A folder of scripts (*.bt), such as bpftrace's own tools.
    #[arg(long, value_name = "FOLDER")]
    tools: PathBuf,
    /// Kernel series of the guest.
    #[arg(long, default_value = kernel::DEFAULT)]
    kernel: String,
    /// Debian suite that bpftrace comes from: forky has 0.27.
    #[arg(long, default_value = "forky")]
    suite: String,
    /// Measure on this machine, Kestrel alone or beside --bpftrace, with no guest.
    #[arg(long)]
    here: bool,
    /// How bpftrace is called on this machine.
    #[arg(long, value_name = "COMMAND", requires = "here")]
    bpftrace: Option<String>,
    /// Build kestrel for the guest quickly, where only what happens in the kernel is of interest.
    #[arg(long)]
    quick: bool,
    /// Count instructions: the guest has one processor, whose clock ticks with each of them, and what stands for nanoseconds are instructions.
    #[arg(long, conflicts_with = "here")]
    counted: bool,
    /// Rounds of each; the middle one counts.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// What to measure or compare.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "tools,compile,exact,same"
    )]
    parts: Vec<Part>,
    /// Increments of each of four threads.
    #[arg(long, default_value_t = 2_500_000)]
    increments: u64,
}

/// A part of the comparison: a function of the measuring script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Per script: time until it is attached, peak memory, verified instructions, time per event.
    Tools,
    /// Time to compile a block of 1,000 lines.
    Compile,
    /// Whether intervals that are printed and cleared count exactly.
    Exact,
    /// Whether both tracers print the same about the same events.
    Same,
}

impl Part {
    /// The word that calls it in the measuring script.
    fn word(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Compile => "compile",
            Self::Exact => "exact",
            Self::Same => "same",
        }
    }

    /// Whether a row is one of Kestrel's results of this part.
    fn is_result(self, row: &[&str]) -> bool {
        match (self, row) {
            (Self::Tools, ["tool", _, "kestrel", ..]) | (Self::Same, ["said", _, "kestrel", ..]) => true,
            (Self::Compile, [first, "kestrel", ..]) | (Self::Exact, [first, "kestrel", ..]) => {
                *first == self.word()
            }
            _ => false,
        }
    }
}

/// Parts that were asked for and gave no result: their tools are missing, or Kestrel refused all scripts.
fn without_results(parts: &[Part], rows: &[Vec<&str>]) -> Vec<&'static str> {
    let has_result = |part: Part| rows.iter().any(|row| part.is_result(row));
    let missing = parts.iter().filter(|part| !has_result(**part));
    missing.map(|part| part.word()).collect()
}

/// Measurements of a tracer with a script.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    attached_ms: f64,
    memory_mib: f64,
    verified: u64,
    per_event_ns: Option<f64>,
}

/// Measures, prints, judges what is promised of this machine.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let rows = match options.here {
        true => measure_here(options)?,
        false => measure_in_guest(options)?,
    };
    let words: Vec<Vec<&str>> = rows
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let kept = print_tools(&words, options.here) & print_others(&words) & same::print(&words);
    let missing = without_results(&options.parts, &words);
    ensure!(missing.is_empty(), "no result of {}", missing.join(", "));
    Ok(match kept {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The script with its settings before it.
fn script(options: &Options, folder: &str, calls: &str, tracers: &[(&str, &str)]) -> String {
    let names: Vec<&str> = tracers.iter().map(|(name, _)| *name).collect();
    let mut settings = vec![
        ("folder", folder.to_owned()),
        ("rounds", options.rounds.to_string()),
        ("load", "5".to_owned()),
        (
            "parts",
            options
                .parts
                .iter()
                .map(|part| part.word())
                .collect::<Vec<_>>()
                .join(" "),
        ),
        ("increments", options.increments.to_string()),
        ("threads", "4".to_owned()),
        ("calls", calls.to_owned()),
        ("tracers", names.join(" ")),
    ];
    settings.extend(
        tracers
            .iter()
            .map(|(name, command)| (*name, (*command).to_owned())),
    );
    let settings = settings.iter().map(|(name, value)| format!("{name}='{value}'\n"));
    settings.collect::<String>() + &MEASURE.concat()
}

fn measure_here(options: &Options) -> Result<String> {
    let kestrel = format!("{} run", artifact::release()?.display());
    let mut tracers = vec![("kestrel", kestrel.as_str())];
    tracers.extend(options.bpftrace.as_deref().map(|command| ("bpftrace", command)));
    let folder = options.tools.canonicalize().context("--tools")?;
    // The program that makes the calls that are counted, as guests have it.
    let calls = match options.parts.contains(&Part::Exact) {
        true => {
            let programs = artifact::bare(Profile::Quick)?.programs;
            let calls = programs.into_iter().find(|program| program.name == "calls");
            calls.context("cargo built no calls")?.path
        }
        false => PathBuf::new(),
    };
    let folder = folder.display().to_string();
    let script = script(options, &folder, &calls.display().to_string(), &tracers);
    let output = Command::new("bash")
        .args(["-c", &script])
        .output()
        .context("run bash")?;
    ensure!(
        output.status.success(),
        "the measuring script ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn measure_in_guest(options: &Options) -> Result<String> {
    install::ensure(install::GUESTS)?;
    install::ensure(install::IMAGES)?;
    // The shipped binary is measured; a quick run only tries whether the scripts work.
    let base = artifact::base(match options.quick {
        true => Profile::Quick,
        false => Profile::Release,
    })?;
    let spec = GuestSpec {
        packages: vec!["bpftrace".to_owned(), "perl-base".to_owned()],
        suite: options.suite.clone(),
        memory_mb: 1024,
        ..match options.counted {
            true => GuestSpec::counted(&options.kernel),
            false => GuestSpec::plain(&options.kernel),
        }
    };
    let stable = GuestTemplate::prepare(&spec, &base.init)?;
    println!(
        "in an emulated guest ({}): {}",
        stable.release(),
        match options.counted {
            true => "nanoseconds are instructions",
            false => "ratios count, not times",
        }
    );
    let mut guest = stable.guest()?;
    for program in &base.programs {
        guest.copy(&program.path, &format!("/usr/bin/{}", program.name))?;
    }
    for tool in scripts(&options.tools)? {
        let name = tool
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        guest.copy(&tool, &format!("{SCRIPTS}{name}"))?;
    }
    let text = script(
        options,
        SCRIPTS,
        "calls",
        &[("kestrel", "kestrel run"), ("bpftrace", "bpftrace")],
    );
    guest.output(&["bash", "-c", &text], LONGEST)
}

fn scripts(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut scripts: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "bt"))
        .collect();
    scripts.sort();
    Ok(scripts)
}

fn number(word: Option<&&str>) -> f64 {
    word.and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

/// The rows about scripts: by script, then by tracer.
fn measured<'w>(words: &[Vec<&'w str>]) -> BTreeMap<&'w str, BTreeMap<&'w str, Measured>> {
    let mut all: BTreeMap<&str, BTreeMap<&str, Measured>> = BTreeMap::new();
    for row in words {
        let ["tool", tool, tracer, rest @ ..] = row.as_slice() else {
            continue;
        };
        let (ns, runs) = (number(rest.get(3)), number(rest.get(4)));
        let measured = Measured {
            attached_ms: number(rest.first()) / 10.0,
            memory_mib: number(rest.get(1)) / 1024.0,
            verified: number(rest.get(2)) as u64,
            per_event_ns: (runs >= 1.0).then_some(ns / runs),
        };
        all.entry(tool).or_default().insert(tracer, measured);
    }
    all
}

/// Prints the table of scripts; whether what is promised of this machine is kept.
fn print_tools(words: &[Vec<&str>], here: bool) -> bool {
    let mut kept = true;
    let all = measured(words);
    if !all.is_empty() {
        println!(
            "{:<20} {:>9} {:>9} {:>6} {:>7} {:>7} {:>6} {:>9} {:>9} {:>9} {:>9}",
            "script",
            "ms",
            "bpftrace",
            "ratio",
            "MiB",
            "bpftr.",
            "ratio",
            "verified",
            "bpftrace",
            "ns/run",
            "bpftrace"
        );
    }
    for (tool, by_tracer) in &all {
        let Some(ours) = by_tracer.get("kestrel") else {
            continue;
        };
        let theirs = by_tracer.get("bpftrace");
        let word = |value: Option<f64>, digits: usize| match value {
            Some(value) if value.is_finite() => format!("{value:.digits$}"),
            _ => "-".to_owned(),
        };
        let ratio = |own: f64, their: Option<f64>| word(their.map(|their| own / their), 2);
        println!(
            "{tool:<20} {:>9.1} {:>9} {:>6} {:>7.1} {:>7} {:>6} {:>9} {:>9} {:>9} {:>9}",
            ours.attached_ms,
            word(theirs.map(|t| t.attached_ms), 1),
            ratio(ours.attached_ms, theirs.map(|t| t.attached_ms)),
            ours.memory_mib,
            word(theirs.map(|t| t.memory_mib), 1),
            ratio(ours.memory_mib, theirs.map(|t| t.memory_mib)),
            ours.verified,
            word(theirs.map(|t| t.verified as f64), 0),
            word(ours.per_event_ns, 0),
            word(theirs.and_then(|t| t.per_event_ns), 0),
        );
        let is_within = ours.attached_ms <= ATTACHED_AT_MOST_MS && ours.memory_mib <= MEMORY_AT_MOST_MIB;
        // A failed measurement is not a number, and within no limit.
        if here && !is_within {
            kept = false;
        }
    }
    if !kept {
        println!("promised of every script: {ATTACHED_AT_MOST_MS} ms and {MEMORY_AT_MOST_MIB} MiB at most");
    }
    kept
}

/// Prints what was compiled, counted and refused; whether all counts are exact.
fn print_others(words: &[Vec<&str>]) -> bool {
    let mut kept = true;
    for row in words {
        match row.as_slice() {
            ["compile", tracer, tenths] => {
                println!(
                    "1,000 lines compiled by {tracer}: {:.1} ms",
                    number(Some(tenths)) / 10.0
                );
            }
            ["exact", tracer, sent, counted, shown] => {
                let difference = number(Some(counted)) - number(Some(sent));
                let enough = number(Some(shown)) >= INTERVALS_AT_LEAST;
                kept &= *tracer != "kestrel" || (difference == 0.0 && enough);
                println!(
                    "{tracer}: {sent} increments, {counted} counted in {shown} intervals: {difference:+}"
                );
            }
            ["refused", what, tracer, why @ ..] => println!("{tracer} has no {what}: {}", why.join(" ")),
            _ => {}
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_distinguished() {
        let rows = "tool a.bt kestrel 123 2048 40 900 3\ntool a.bt bpftrace 4000 90112 30 0 0\nrefused b.bt kestrel why not";
        let words: Vec<Vec<&str>> = rows
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let all = measured(&words);
        let ours = &all["a.bt"]["kestrel"];
        assert_eq!(
            (ours.attached_ms, ours.memory_mib, ours.verified),
            (12.3, 2.0, 40)
        );
        assert_eq!(ours.per_event_ns, Some(300.0));
        assert_eq!(all["a.bt"]["bpftrace"].per_event_ns, None);
        assert_eq!(without_results(&[Part::Tools], &words), [""; 0]);
        assert_eq!(without_results(&[Part::Tools, Part::Same], &words), ["same"]);
        let inexact = ["exact", "kestrel", "10", "9", "1"];
        assert!(!print_others(&[inexact.to_vec()]));
    }
}
