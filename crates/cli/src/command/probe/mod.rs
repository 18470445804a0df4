//! `kestrel probe`: probes in the kernel's code; one file and one row per verb.

mod add;
mod list;
mod remarks;
mod remove;
mod rows;
mod show;
mod switch;

use crate::exit::{Exit, Failure};
use clap::Subcommand;

/// A first look, and the kinds of probes.
pub(crate) const EXAMPLES: &str = "\
A first look:
  kestrel probe show vfs_read                       its instructions: where probes can be put
  kestrel probe add first 'kprobe:vfs_read { record(args.count) }'
  kestrel probe list                                where it sits, its hits, and those that were missed
  kestrel probe disable first                       from the next event on
  kestrel probe remove first

Kinds of probes; `kestrel trace -e EVENT` and `kestrel record -e EVENT` attach the same kinds, and detach them when they end:
  kprobe:FUNCTION, kprobe:FUNCTION+OFFSET, kprobe:0xADDRESS, kprobe:MODULE:FUNCTION
                                                    before an instruction: args.NAME, arg0, reg(\"ax\"), record(regs), kstack
  kprobe:FUNCTION+OFFSET:post, …:fault              after it has run; when it faulted (args.address)
  jprobe:FUNCTION                                   a call with all its parameters, printed as in C
  kretprobe:FUNCTION, kretprobe:FUNCTION:maxactive=N
                                                    a return: retval, entry.args.NAME, entry.nsecs";

/// Subcommands of `kestrel probe`.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Add named probes, which stay attached when the command returns
    Add(add::Options),
    /// List named probes with their hits, or all kprobes of the kernel
    List(list::Options),
    /// Enable named probes
    Enable(switch::Options),
    /// Disable named probes without removing them
    Disable(switch::Options),
    /// Remove named probes
    #[command(alias = "del", alias = "delete")]
    Remove(remove::Options),
    /// Show the instructions of a kernel function: which can be probed, and where probes sit
    Show(show::Options),
}

/// Carries out a verb.
pub(crate) fn run(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Add(options) => add::run(options),
        Command::List(options) => list::run(options),
        Command::Enable(options) => switch::run(options, true),
        Command::Disable(options) => switch::run(options, false),
        Command::Remove(options) => remove::run(options),
        Command::Show(options) => show::run(options),
    }
}
