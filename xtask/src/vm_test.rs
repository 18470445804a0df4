//! `cargo xtask vm-test`: the guest tests whose name contains a word, on one kernel or several.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::{
    guest::kernel,
    guest_tests::{self, Selection},
    install,
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
}

/// Runs the selected tests; the status tells whether all of them passed.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    install::ensure(install::GUESTS)?;
    let series: Vec<&str> = options.kernel.split(',').collect();
    let series = (options.kernel != "all").then_some(series.as_slice());
    let selection = Selection {
        name: &options.name,
        series,
        output: options.show_output,
    };
    let (tally, pace) = guest_tests::run(&selection)?;
    if pace.run.len() > 1 {
        println!("{pace}");
    }
    println!("{tally}");
    Ok(if tally.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
