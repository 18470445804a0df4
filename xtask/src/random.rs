//! `cargo xtask random`: random programs run by Kestrel in the kernel, by bpftrace where it is named, and what both store compared with what was computed without either.

use std::{
    collections::HashMap,
    path::PathBuf,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result};
use clap::Args;
use testkit::programs::{ENUMERATION, Piece, piece};

use crate::artifact;

/// Compare the values of random programs.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many.
    #[arg(long, default_value_t = 10_000)]
    programs: u64,
    /// The first one's seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Kestrel; without it a release build is made.
    #[arg(long, value_name = "FILE")]
    kestrel: Option<PathBuf>,
    /// How bpftrace is called; without it Kestrel alone is compared.
    #[arg(long, value_name = "COMMAND")]
    bpftrace: Option<String>,
    /// Programs that are run as one.
    #[arg(long, default_value_t = 25)]
    together: u64,
}

/// Differences that are printed.
const SHOWN: usize = 20;

/// Runs, prints what differs; fails where Kestrel's values are others than computed.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let kestrel = options.kestrel.clone().map_or_else(artifact::release, Ok)?;
    let kestrel = vec![kestrel.display().to_string(), "run".to_owned()];
    let bpftrace = options
        .bpftrace
        .as_ref()
        .map(|command| command.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let mut tally = Tally::default();
    let end = options.seed + options.programs;
    for first in (options.seed..end).step_by(options.together.max(1) as usize) {
        let pieces: Vec<(u64, Piece)> = (first..end.min(first + options.together))
            .map(|seed| (seed, piece(seed, true)))
            .collect();
        tally.compare("kestrel", &kestrel, &pieces)?;
        if let Some(bpftrace) = &bpftrace {
            tally.compare("bpftrace", bpftrace, &pieces)?;
        }
    }
    for (tracer, counts) in &tally.counts {
        println!(
            "{tracer}: {} programs compared, {} differ, {} refused",
            counts.compared, counts.different, counts.refused
        );
    }
    let ours = tally.counts.get("kestrel").copied().unwrap_or_default();
    Ok(match ours.different + ours.refused {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    compared: u64,
    different: u64,
    refused: u64,
}

#[derive(Debug, Default)]
struct Tally {
    counts: HashMap<&'static str, Counts>,
    shown: usize,
}

impl Tally {
    /// Runs pieces as one program; each by itself where the tracer takes not all of them.
    fn compare(&mut self, tracer: &'static str, command: &[String], pieces: &[(u64, Piece)]) -> Result<()> {
        let values = values(command, pieces)?;
        if values.is_empty() && pieces.len() > 1 {
            return pieces
                .iter()
                .try_for_each(|one| self.compare(tracer, command, std::slice::from_ref(one)));
        }
        for (seed, piece) in pieces {
            let counts = self.counts.entry(tracer).or_default();
            let found = values.get(&format!("@v{seed}"));
            match found {
                Some(value) if *value == piece.expected => counts.compared += 1,
                Some(_) => {
                    counts.compared += 1;
                    counts.different += 1;
                }
                None => counts.refused += 1,
            }
            if found != Some(&piece.expected) && self.shown < SHOWN {
                self.shown += 1;
                let Piece {
                    statements,
                    value,
                    expected,
                } = piece;
                println!("{tracer}, seed {seed}: {found:?}, computed {expected:?}: {statements}{value}");
            }
        }
        Ok(())
    }
}

/// Values that a tracer stores in the maps of a program of these pieces.
fn values(command: &[String], pieces: &[(u64, Piece)]) -> Result<HashMap<String, String>> {
    let blocks = pieces
        .iter()
        .map(|(seed, piece)| format!("  {{ {}@v{seed} = {}; }}\n", piece.statements, piece.value));
    let program = format!(
        "{ENUMERATION}\nbegin {{\n{}  exit();\n}}\n",
        blocks.collect::<String>()
    );
    let (name, more) = command.split_first().context("no command")?;
    let output = Command::new(name)
        .args(more)
        .args(["-q", "-e", &program])
        .output();
    let output = output.with_context(|| name.clone())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    Ok(lines
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect())
}
