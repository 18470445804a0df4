//! `cargo xtask bench switch`: what a masked event costs beside an empty program on the same hook, and what a switch costs: the store, and
//! the time until no CPU does what the table before it said; and what loading a table of many events takes. On this machine, of one
//! process's events.

use std::{
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{artifact, install};

/// A masked event costs at most so much more than an empty program, ns.
const MASKED_AT_MOST: f64 = 3.0;

/// Measure what masked events and switches cost.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds over all rows.
    #[arg(long, default_value_t = 8)]
    rounds: u32,
    /// Switches.
    #[arg(long, default_value_t = 500)]
    switches: u32,
    /// Events of the tables that are loaded.
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
    let costs = numbers(&measure(
        &program,
        &["taskset", "-c", "1"],
        &["masked", &options.rounds.to_string()],
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
    let switches = options.switches.to_string();
    println!("\na switch under load on all CPUs, ns: median, greatest");
    for (name, values) in numbers(&measure(&program, &[], &["store", &switches])?) {
        let values: Vec<String> = values.iter().map(|value| format!("{value:>10.0}")).collect();
        println!("{:<40}{}", explain(&name), values.concat());
    }
    println!("\na table of tracepoints in a session that stays, ms: loaded, replaced, taken out");
    for events in &options.load {
        for (_, values) in numbers(&measure(&program, &[], &["load", &events.to_string()])?) {
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
    Ok(if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What the measuring program's words mean.
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
