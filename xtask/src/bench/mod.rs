//! `cargo xtask bench`: what tracing and reading recordings costs, one file or folder per way of measuring it.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

mod exactness;
pub(crate) mod instructions;
mod language;
mod lkst;
mod overhead;
mod page;
mod read;
mod switch;
mod tracepoint;

/// Measure what tracing costs.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Exactness(exactness::Options),
    Instructions(instructions::Options),
    Language(language::Options),
    Lkst(lkst::Options),
    Overhead(overhead::Options),
    Page(page::Options),
    Read(read::Options),
    Switch(switch::Options),
    Tracepoint(tracepoint::Options),
}

/// Runs the measurement asked for.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    match &options.what {
        What::Exactness(options) => exactness::run(options),
        What::Instructions(options) => instructions::run(options),
        What::Language(options) => language::run(options),
        What::Lkst(options) => lkst::run(options),
        What::Overhead(options) => overhead::run(options),
        What::Page(options) => page::run(options),
        What::Read(options) => read::run(options),
        What::Switch(options) => switch::run(options),
        What::Tracepoint(options) => tracepoint::run(options),
    }
}
