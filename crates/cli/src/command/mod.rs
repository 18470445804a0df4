//! The commands: one file and one row each.

mod agent;
mod bpf;
mod buffer;
mod completions;
mod cut;
mod doctor;
mod export;
mod handler;
mod list;
mod man;
mod mark;
mod merge;
mod print;
mod probe;
mod record;
mod recover;
mod report;
mod run;
mod sched;
mod start;
mod stat;
mod status;
mod stop;
mod table;
mod top;
mod trace;

pub(crate) use run::as_bpftrace;

use crate::exit::{Exit, Failure};
use clap::Subcommand;

/// Commands of `kestrel`.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the events of this kernel: tracepoints, functions, clocks, counters
    List(list::Options),
    /// Record events into a trace directory
    Record(record::Options),
    /// Show events as they happen
    Trace(trace::Options),
    /// Run a program in bpftrace's language
    Run(run::Options),
    /// Count events: of a command, processes, CPUs, a cgroup
    Stat(stat::Options),
    /// Watch events, who causes them, maps, buffers and losses, in a view that fills the terminal
    Top(top::Options),
    /// Show a recorded trace as lines
    Print(print::Options),
    /// Show a recorded trace as tables
    Report(report::Options),
    /// Write a part of a recorded trace as a trace of its own
    Cut(cut::Options),
    /// Merge several recordings into one
    Merge(merge::Options),
    /// Write a recorded trace as a file of another tool: perf.data, trace.dat, …
    Export(export::Options),
    /// Record and show what the scheduler does: delays, run times, CPU maps, wakeups
    #[command(subcommand, after_help = sched::EXAMPLES)]
    Sched(sched::Command),
    /// Start a persistent session from a table file
    Start(start::Options),
    /// Show persistent sessions: tables, buffers, busiest events, cost
    Status(status::Options),
    /// Stop a persistent session
    Stop(stop::Options),
    /// Check and show table files; switch, load and unload the tables of a session
    #[command(subcommand)]
    Table(table::Command),
    /// Dump, freeze, resize, create and remove the buffers of a session
    Buffer(buffer::Options),
    /// Show the counts, maps and parameters of a session's handlers; change parameters
    #[command(subcommand)]
    Handler(handler::Command),
    /// Run compiled BPF objects, and show what is in them
    #[command(subcommand)]
    Bpf(bpf::Command),
    /// Add, list, switch and remove named probes; show where a function can be probed
    #[command(subcommand, after_help = probe::EXAMPLES)]
    Probe(probe::Command),
    /// Recover trace buffers from a crash dump or memory image
    Recover(recover::Options),
    /// Run the user-space side of handlers: print notify() messages, run exec() commands, write logs, serve metrics
    Agent(agent::Options),
    /// Emit a mark, an event of user space: a text and values
    Mark(mark::Options),
    /// Check which features work on this machine, and why others do not
    Doctor(doctor::Options),
    /// Print a script that lets a shell complete command lines
    Completions(completions::Options),
    /// Write a manual page for each command
    #[command(hide = true)]
    Man(man::Options),
}

/// Commands that change no session: their help leaves out `--wait`, which they accept.
pub(crate) const WITHOUT_SESSIONS: &[&str] = &[
    "list",
    "record",
    "run",
    "stat",
    "print",
    "report",
    "cut",
    "merge",
    "export",
    "sched",
    "bpf",
    "recover",
    "mark",
    "doctor",
    "completions",
];

/// Runs a command; manual pages and completions are made from the definition of the command line.
pub(crate) fn run(command: Command, definition: fn() -> clap::Command) -> Result<Exit, Failure> {
    match command {
        Command::List(options) => list::run(&options),
        Command::Record(options) => record::run(&options),
        Command::Trace(options) => trace::run(&options),
        Command::Run(options) => run::run(&options),
        Command::Stat(options) => stat::run(&options),
        Command::Top(options) => top::run(&options),
        Command::Print(options) => print::run(&options),
        Command::Report(options) => report::run(&options),
        Command::Cut(options) => cut::run(&options),
        Command::Merge(options) => merge::run(&options),
        Command::Export(options) => export::run(&options),
        Command::Sched(command) => sched::run(command),
        Command::Start(options) => start::run(&options),
        Command::Status(options) => status::run(&options),
        Command::Stop(options) => stop::run(&options),
        Command::Table(command) => table::run(&command),
        Command::Buffer(options) => buffer::run(&options),
        Command::Handler(command) => handler::run(&command),
        Command::Bpf(command) => bpf::run(&command),
        Command::Probe(command) => probe::run(&command),
        Command::Recover(options) => recover::run(&options),
        Command::Agent(options) => agent::run(&options),
        Command::Mark(options) => mark::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Completions(options) => completions::run(&options, definition()),
        Command::Man(options) => man::run(&options, definition()),
    }
}
