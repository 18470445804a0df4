//! Reports of losses of a trace: events lost or overwritten, packets that are missing or unreadable.

use crate::exit::Exit;
use kestrel_trace::print::thousands;
use kestrel_trace::summary::{self, Absent, CutShort, EventCount};

/// Reports events lost or overwritten, a line for each event and CPU.
pub(crate) fn report_lost(counts: &[EventCount]) {
    for count in counts.iter().filter(|c| c.lost + c.overwritten > 0) {
        eprintln!(
            "  {} on CPU {}: lost {}, overwritten {}",
            count.event,
            count.cpu,
            thousands(count.lost),
            thousands(count.overwritten)
        );
    }
}

/// Reports records that the recorder could not write and records that are missing from the files; returns the exit code.
pub(crate) fn report_absent(cut_short: Option<&CutShort>, absent: &[Absent], recorded: u64) -> Exit {
    let cut_short = cut_short.map(ToString::to_string);
    let said = summary::absent_lines(absent, recorded);
    for line in cut_short.iter().chain(&said) {
        eprintln!("{line}");
    }
    match (cut_short, said.as_slice()) {
        (None, []) => Exit::Done,
        _ => Exit::Failed,
    }
}
