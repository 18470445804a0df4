//! `kestrel probe remove`: takes named probes out of the kernel.

use super::remarks;
use crate::exit::{Exit, Failure};
use clap::Args;
use kestrel::kernel::Host;
use kestrel::session::named::SESSION;
use kestrel_trace::print::counted;
use std::collections::HashSet;

/// Options of `probe remove`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Names of the probes
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// All of the session
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// The session
    #[arg(long, value_name = "SESSION", default_value = SESSION)]
    session: String,
}

const EXAMPLES: &str = "\
Examples:
  kestrel probe remove reads w1
  kestrel probe remove --all
  kestrel stop probes                    removes all of them, and their buffer

The probes are off when the command returns; the kernel detaches them in the background. Their records stay in the session's buffer.";

/// Runs `kestrel probe remove`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let store = crate::sessions::store(&Host::default())?;
    let mut change = remarks::change(&store, &options.session)?;
    let known = change.state().probes.each.iter();
    let names: Vec<String> = match options.all {
        true => known.map(|probe| probe.name.clone()).collect(),
        false => {
            let mut known = HashSet::new();
            let once = options.names.iter().filter(|name| known.insert(name.as_str()));
            once.cloned().collect()
        }
    };
    let (mut missed, mut lost) = (0, 0);
    // The counts go with the probes: they are reported now or never.
    for probe in change.probes(&Host::default())? {
        if names.contains(&probe.name) {
            missed += probe.missed;
            lost += probe.lost;
        }
    }
    change.remove_probes(&names)?;
    let left = change.state().probes.each.len();
    let removed = match names.as_slice() {
        [one] => format!("probe {one}"),
        several => counted(several.len() as u64, "probe"),
    };
    let losses: Vec<String> = [(missed, "hit", "missed"), (lost, "record", "lost")]
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, noun, how)| format!(", {} {how}", counted(*count, noun)))
        .collect();
    eprintln!(
        "{removed} removed from the session {}{}",
        options.session,
        losses.concat()
    );
    if left == 0 {
        eprintln!(
            "the session and what was recorded stay: `kestrel stop {}` ends it",
            options.session
        );
    }
    Ok(Exit::Done)
}
