//! `kestrel probe enable` and `kestrel probe disable`: named probes one by one, the switch for all of them, and the kernel's own.

use super::remarks;
use crate::exit::{Exit, Failure};
use clap::Args;
use kestrel::catalog::Catalog;
use kestrel::kernel::{Host, kprobes};
use kestrel::session::named::SESSION;

/// Options of `probe enable` and `probe disable`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Names of the probes
    #[arg(value_name = "NAME", required_unless_present_any = ["all", "kernel"])]
    names: Vec<String>,
    /// The switch for all named probes of the session; probes that were disabled by name stay disabled when it is on again
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// The kernel's own switch (debugfs kprobes/enabled), which affects the kprobes of all programs
    #[arg(long, conflicts_with_all = ["names", "all"])]
    kernel: bool,
    /// The session
    #[arg(long, value_name = "SESSION", default_value = SESSION)]
    session: String,
}

const EXAMPLES: &str = "\
Examples:
  kestrel probe disable reads            from the next event on; it stays registered
  kestrel probe enable reads
  kestrel probe disable --all            one switch for all of them
  kestrel probe enable --all             those disabled by name stay disabled
  kestrel probe disable --kernel         the kernel's own switch, for the kprobes of all programs

A probe whose module was unloaded ([GONE] in `kestrel probe list`) and loaded again is attached anew by `enable NAME`.";

/// Runs `kestrel probe switch`.
pub(crate) fn run(options: &Options, on: bool) -> Result<Exit, Failure> {
    let host = Host::default();
    if options.kernel {
        kprobes::set_enabled(&host, on)?;
        let state = if on {
            "on"
        } else {
            "off: nobody's kprobes do anything"
        };
        eprintln!("the kernel's kprobes are switched {state}");
        return Ok(Exit::Done);
    }
    let mut change = remarks::change(&crate::sessions::store(&host)?, &options.session)?;
    if options.all {
        change.switch_probes(on)?;
    } else {
        change.enable_probes(&options.names, on, &Catalog::new(host.clone()))?;
    }
    remarks::report_inactive(&change, &host);
    Ok(Exit::Done)
}
