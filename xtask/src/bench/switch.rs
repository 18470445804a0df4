//! `cargo xtask bench switch`: what a masked event costs beside an empty program on the same hook, and what a switch costs: the store, and
//! the time until no CPU does what the table before it said, both on this machine, of one process's events; and what loading a table of many
//! events takes, in a guest: its hooks see everybody's events.

use std::{
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{
    artifact::{self, Profile},
    guest::{GuestSpec, GuestTemplate},
    install,
};

/// The kernel series that tables are loaded on.
const SERIES: &str = "6.12";
/// An emulated processor takes its time for a thousand programs.
const LONGEST_LOAD: Duration = Duration::from_secs(600);

/// A masked event costs at most so much more than an empty program, ns.
const MASKED_AT_MOST: f64 = 3.0;

/// Measure what masked events and switches cost.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds over all rows; 0 leaves masked events out.
    #[arg(long, default_value_t = 8)]
    rounds: u32,
    /// Switches; 0 leaves them out.
    #[arg(long, default_value_t = 500)]
    switches: u32,
    /// Events of the tables that are loaded in a guest; 0 leaves it out.
    #[arg(long, value_delimiter = ',', default_value = "100,1000")]
    load: Vec<u32>,
}

/// The rows that the promise is about, as the measuring program names them.
const EMPTY: &str = "empty";
const MASKED: [&str; 2] = ["masked", "masked-of-two"];

/// Measures, prints, judges the promise.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    install::ensure(install::TRACERS)?;
    let program = artifact::switch()?;
    let kept = options.rounds == 0 || masked(&program, options.rounds)?;
    if options.switches > 0 {
        switches(&program, options.switches)?;
    }
    let sizes: Vec<u32> = options
        .load
        .iter()
        .copied()
        .filter(|events| *events > 0)
        .collect();
    if !sizes.is_empty() {
        loads(&program, &sizes)?;
    }
    Ok(if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whether masked events cost no more than promised.
fn masked(program: &Path, rounds: u32) -> Result<bool> {
    let costs = numbers(&measure(
        program,
        &["taskset", "-c", "1"],
        &["masked", &rounds.to_string()],
    )?);
    println!("raw_syscalls:sys_enter of one process; ns per getppid, best of all rounds");
    let cost = |name: &str| -> Result<f64> {
        let row = costs.iter().find(|(row, _)| row == name);
        row.and_then(|(_, values)| values.first().copied())
            .with_context(|| format!("{} did not measure {name}", program.display()))
    };
    let empty = cost(EMPTY)?;
    let mut kept = true;
    for (name, values) in &costs {
        let value = values.first().copied().unwrap_or(f64::NAN);
        let mut promise = String::new();
        if MASKED.contains(&name.as_str()) {
            kept &= value - empty <= MASKED_AT_MOST;
            promise = format!("(promised {MASKED_AT_MOST})");
        }
        println!("{name:<16}{value:>8.1}{:>+8.1} {promise}", value - empty);
    }
    for name in MASKED {
        cost(name)?;
    }
    Ok(kept)
}

fn switches(program: &Path, switches: u32) -> Result<()> {
    println!("\na switch under load on all CPUs, ns: median, greatest");
    for (name, values) in numbers(&measure(program, &[], &["store", &switches.to_string()])?) {
        let values: Vec<String> = values.iter().map(|value| format!("{value:>10.0}")).collect();
        println!("{:<40}{}", explain(&name), values.concat());
    }
    Ok(())
}

/// In a guest of its own for each size.
fn loads(program: &Path, sizes: &[u32]) -> Result<()> {
    install::ensure(install::GUESTS)?;
    let stable = GuestTemplate::prepare(&GuestSpec::plain(SERIES), &artifact::bare(Profile::Release)?.init)?;
    println!(
        "\na table of tracepoints in a persistent session, ms in an emulated guest ({}): loaded, replaced, taken out",
        stable.release()
    );
    for events in sizes {
        let mut guest = stable.guest()?;
        guest.copy(program, LOADER)?;
        let out = guest.output(&[LOADER, "load", &events.to_string()], LONGEST_LOAD)?;
        for (_, values) in numbers(&out) {
            let [events, hooks, times @ ..] = values.as_slice() else {
                continue;
            };
            let times: Vec<String> = times.iter().map(|ms| format!("{ms:>10.0}")).collect();
            println!(
                "{:<40}{}",
                format!("{events} events, {hooks} hooks"),
                times.concat()
            );
        }
    }
    Ok(())
}

/// The measuring program in a guest.
const LOADER: &str = "/usr/bin/switch";

/// Meaning of the measuring program's words.
fn explain(name: &str) -> &str {
    match name {
        "met" => "switches that met a load, of how many",
        "store" => "the store, two looks at the clock included",
        "seen" => "newest record after the store began",
        other => other,
    }
}

fn measure(program: &Path, before: &[&str], arguments: &[&str]) -> Result<String> {
    let path = program.to_str().context("a path that is not UTF-8")?;
    let words: Vec<&str> = before.iter().chain(&[path]).chain(arguments).copied().collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("run {}", words[0]))?;
    ensure!(output.status.success(), "{}: {}", words.join(" "), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lines of a name and numbers.
fn numbers(text: &str) -> Vec<(String, Vec<f64>)> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?.to_owned();
            Some((name, words.filter_map(|word| word.parse().ok()).collect()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_names_and_numbers() {
        let want = vec![
            ("bare".to_owned(), vec![95.1]),
            ("seen".to_owned(), vec![0.0, 2228.0]),
        ];
        assert_eq!(numbers("bare 95.1\nseen 0 2228\n\n"), want);
    }
}
