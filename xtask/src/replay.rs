//! `cargo xtask replay`: random programs over events, run live and at the same time recorded, then over the recording; what they print is compared.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use clap::Args;
use testkit::live_and_replayed::{Difference, compare, program};

use crate::artifact;

/// Compare random programs live and over the recording of the same run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many.
    #[arg(long, default_value_t = 200)]
    programs: u64,
    /// The first one's seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Kestrel; without it a release build is made.
    #[arg(long, value_name = "FILE")]
    kestrel: Option<PathBuf>,
    /// Programs that are run as one.
    #[arg(long, default_value_t = 20)]
    together: u64,
}

/// Differences that are printed.
const SHOWN: usize = 20;

/// Runs, prints what differs; fails where something does.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let kestrel = options.kestrel.clone().map_or_else(artifact::release, Ok)?;
    let kestrel = kestrel.canonicalize().context("no such command")?;
    let folder = tempfile::tempdir()?;
    let seeds = options.seed..options.seed + options.programs;
    let compared = compare(&kestrel, folder.path(), seeds, options.together)?;
    for Difference { seed, what, output } in compared.differences.iter().take(SHOWN) {
        println!(
            "seed {seed}, {what}:\n  live     {}\n  recorded {}\n{}",
            output.0,
            output.1,
            program(*seed)
        );
    }
    println!(
        "{} programs, {} maps, {} lines: {} differ",
        compared.programs,
        compared.maps,
        compared.lines,
        compared.differences.len()
    );
    Ok(match compared.differences.len() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
