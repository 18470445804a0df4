//! Losses of a running program: events, packets, missed intervals, and failures of helpers.

use super::ProgramRun;
use super::failures::Failed;
use super::message;
use crate::exit::Failure;
use crate::output::losses::report_lost;
use kestrel::script::PacketFiles;
use kestrel_trace::print::counted;
use std::io::Write;
use std::time::{Duration, Instant};

/// Losses are said so often at most.
const BETWEEN_LOSSES: Duration = Duration::from_secs(1);

impl ProgramRun<'_> {
    /// Says what failed in helpers.
    pub(super) fn say(&self, failures: &[Failed]) {
        let text = || self.program.text.to_string();
        let failed: Vec<_> = failures.iter().map(|one| (text(), one.warning())).collect();
        message::warnings(self.options, &self.program.name, &failed);
    }

    /// Writes the packets that are left, and says how many found no room.
    pub(super) fn lost_packets(&mut self) -> Result<(), Failure> {
        let lost = self.packets.as_mut().map_or(Ok(0), PacketFiles::finish)?;
        if lost > 0 {
            let packets = counted(lost, "packet");
            eprintln!(
                "WARNING: {packets} of skboutput found no room in its rings; BPFTRACE_PERF_RB_PAGES makes them larger"
            );
        }
        Ok(())
    }

    /// Says what was lost since that was said last.
    pub(super) fn losses(&mut self, last: bool) -> Result<(), Failure> {
        if !last && self.losses_reported.elapsed() < BETWEEN_LOSSES {
            return Ok(());
        }
        self.losses_reported = Instant::now();
        let (full, frozen) = self.running.live_mut().take_lost();
        if full + frozen > 0 {
            self.live.erase()?;
            let line = self.perform.form().lost(full + frozen);
            self.out.write_all(line.as_bytes())?;
        }
        let skipped = self.running.take_skipped();
        if skipped > 0 {
            self.live.erase()?;
            let times = counted(skipped, "time");
            eprintln!(
                "WARNING: missed intervals {times}: their output is written too slowly; what was counted meanwhile is in the next ones"
            );
        }
        let failed = self
            .failures
            .borrow_mut()
            .since(self.running.session().failures()?);
        if !failed.is_empty() {
            self.live.erase()?;
        }
        match self.perform.json {
            true if self.options.no_warnings => {}
            true => {
                for failed in failed {
                    let line = failed.json(&self.program.name, &self.program.text);
                    self.out.write_all(line.as_bytes())?;
                }
            }
            false => self.say(&failed),
        }
        if last {
            let lost = self.running.live_mut().lost();
            let all: u64 = lost.iter().map(|count| count.lost).sum();
            if all > 0 {
                // The words that scripts look for.
                eprintln!("WARNING: Total lost event count: {all}");
            }
            report_lost(&lost);
        }
        Ok(())
    }
}
