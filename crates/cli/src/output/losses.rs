//! Reports of losses of a trace: events lost or overwritten, packets that are missing or unreadable.

use crate::exit::Exit;
use kestrel_trace::ctf::read::{Losses, Reader, Source};
use kestrel_trace::print::{are, counted, shown, thousands};
use kestrel_trace::summary::{self, Absent, CutShort, EventCount, Summary, UNFINISHED, lost_lines};

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

/// Reports on stderr what is missing from a trace that was read to its end; returns the exit code.
pub(crate) fn report_read<R: Source>(reader: &Reader<R>, summary: Option<&Summary>) -> Exit {
    let lost = summary.map_or(0, Summary::lost);
    let unwritten = summary.and_then(|summary| summary.cut_short.as_ref());
    let unwritten = unwritten.map_or(0, |cut| cut.unwritten);
    let frozen = summary.and_then(|summary| summary.frozen);
    report_losses(&reader.losses(), lost.saturating_sub(unwritten), frozen);
    match summary {
        Some(summary) => report_absent(
            summary.cut_short.as_ref(),
            &reader.absent(summary),
            summary.recorded(),
        ),
        None => {
            eprintln!("{UNFINISHED}");
            Exit::Done
        }
    }
}

fn report_losses(losses: &Losses, lost: u64, frozen: Option<u64>) {
    let lost = losses.lost.max(lost);
    for line in lost_lines(lost, frozen) {
        eprintln!("{line}");
    }
    if losses.packets_missing > 0 {
        eprintln!(
            "{} {} missing",
            counted(losses.packets_missing, "packet"),
            are(losses.packets_missing)
        );
    }
    if losses.packets_damaged > 0 {
        eprintln!(
            "{} {} damaged",
            counted(losses.packets_damaged, "packet"),
            are(losses.packets_damaged)
        );
    }
    for note in &losses.notes {
        eprintln!("{}", shown(note));
    }
}
