//! `cargo xtask vm-test`: the guest tests whose name contains a word, on one kernel or several.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::{
    guest::kernel,
    guest_tests::{self, Outcome, Selection},
    install,
    tally::Tally,
};

/// Run guest tests by name.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Part of `file::test`; all tests without it.
    #[arg(default_value = "")]
    name: String,
    /// Kernel series, several with commas, `all` for those that each test is meant for.
    #[arg(long, default_value = kernel::DEFAULT)]
    kernel: String,
    /// Show what passing tests print, too.
    #[arg(long)]
    show_output: bool,
    /// Stop the guests again and again at random, for up to 800 ms, as busy machines do.
    #[arg(long)]
    hostile: bool,
    /// Run them so many times, one after the other.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
}

/// Runs the selected tests; the status says whether all of them passed.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    install::ensure(install::GUESTS)?;
    let series: Vec<&str> = options.kernel.split(',').collect();
    let series = (options.kernel != "all").then_some(series.as_slice());
    let selection = Selection {
        name: &options.name,
        series,
        output: options.show_output,
        hostile: options.hostile,
        again: false,
    };
    let mut all = Tally::default();
    for _ in 0..options.times {
        let Outcome { tally, pace, .. } = guest_tests::run(&selection)?;
        if pace.run.len() > 1 {
            println!("{pace}");
        }
        println!("{tally}");
        all = all + tally;
    }
    if options.times > 1 {
        println!("{} runs: {all}", options.times);
    }
    Ok(if all.holds() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
