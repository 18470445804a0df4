//! The project's own chores: guests, tests, benchmarks, demo, tidy. One file per command; this one only lists them.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod artifact;
mod bench;
mod demo;
mod guest;
mod guest_tests;
mod install;
mod kept_index;
mod man;
mod objects;
mod pace;
mod packaging;
mod random;
mod recovery;
mod replay;
mod tally;
mod test;
mod tidy;
mod try_objects;
mod verdict;
mod vm;
mod vm_test;
mod workspace;

/// The project's own chores.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Vm(vm::Options),
    VmTest(vm_test::Options),
    Test(test::Options),
    Bench(bench::Options),
    Demo(demo::Options),
    Random(random::Options),
    Replay(replay::Options),
    Recovery(recovery::Options),
    Objects(try_objects::Options),
    Tidy(tidy::Options),
    Man(man::Options),
    Install(packaging::install::Options),
    Uninstall(packaging::install::UninstallOptions),
    Dist(packaging::dist::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Vm(options) => vm::run(&options),
        Command::VmTest(options) => vm_test::run(&options),
        Command::Test(options) => test::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Demo(options) => demo::run(&options),
        Command::Random(options) => random::run(&options),
        Command::Replay(options) => replay::run(&options),
        Command::Recovery(options) => recovery::run(&options),
        Command::Objects(options) => try_objects::run(&options),
        Command::Tidy(options) => tidy::run(&options),
        Command::Man(options) => man::run(&options),
        Command::Install(options) => packaging::install::run(&options),
        Command::Uninstall(options) => packaging::install::uninstall(&options),
        Command::Dist(options) => packaging::dist::run(&options),
    };
    result.unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::FAILURE
    })
}
