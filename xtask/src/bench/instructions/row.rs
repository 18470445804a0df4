//! A row of the costs: what is measured in a guest of its own, and what it may cost.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::{artifact::Base, guest::GuestTemplate};

/// One cost: a shell line in a fresh guest whose last word on standard output is the number.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The row whose cost is taken off: what is left is the cost of an event.
    pub(super) baseline: Option<&'static str>,
    /// The promised limit of an event's cost.
    pub(super) limit: Option<Limit>,
    pub(super) command: &'static str,
}

impl Row {
    /// Whether something of ours runs in it.
    pub(super) fn is_ours(&self) -> bool {
        self.command.contains("kestrel ")
    }

    /// Runs it in a guest.
    pub(super) fn cost(&self, base: &Base, stable: &GuestTemplate) -> Result<u64> {
        let mut guest = stable.guest()?;
        for program in &base.programs {
            guest.copy(&program.path, &format!("/usr/bin/{}", program.name))?;
        }
        let out = guest
            .output(&["sh", "-c", self.command], Duration::from_secs(60))
            .context(self.name)?;
        let cost = out.split_whitespace().last().and_then(|word| word.parse().ok());
        cost.with_context(|| format!("bench {}: a number in {out:?}", self.name))
    }
}

/// The greatest cost of an event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// This much of what it costs in the row named.
    Ratio(f64, &'static str),
    /// A number of instructions.
    Instructions(u64),
}
