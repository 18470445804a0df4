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
    let (lines, exit) = absent_lines(cut_short, absent, recorded);
    lines.iter().for_each(|line| eprintln!("{line}"));
    exit
}

/// Records that the recorder could not write and records that are missing from the files, in lines, and the exit code.
fn absent_lines(cut_short: Option<&CutShort>, absent: &[Absent], recorded: u64) -> (Vec<String>, Exit) {
    let mut lines: Vec<String> = cut_short.map(ToString::to_string).into_iter().collect();
    lines.extend(summary::absent_lines(absent, recorded));
    let exit = match lines.as_slice() {
        [] => Exit::Done,
        _ => Exit::Failed,
    };
    (lines, exit)
}

/// Reports on stderr what is missing from a trace that was read to its end; returns the exit code.
pub(crate) fn report_read<R: Source>(reader: &Reader<R>, summary: Option<&Summary>) -> Exit {
    let (lines, exit) = missing(reader, summary);
    lines.iter().for_each(|line| eprintln!("{line}"));
    exit
}

/// Losses of a trace that was read to its end, in lines, and the exit code.
pub(crate) fn missing<R: Source>(reader: &Reader<R>, summary: Option<&Summary>) -> (Vec<String>, Exit) {
    let lost = summary.map_or(0, Summary::lost);
    let cut_short = summary.and_then(|summary| summary.cut_short.as_ref());
    // Those that could not be written are among the lost ones of the summary, and have a line of their own.
    let unwritten = cut_short.map_or(0, |cut| cut.unwritten);
    let frozen = summary.and_then(|summary| summary.frozen);
    let mut lines = lost_in_packets(&reader.losses(), lost.saturating_sub(unwritten), frozen);
    let Some(summary) = summary else {
        lines.push(UNFINISHED.to_owned());
        return (lines, Exit::Done);
    };
    let (absent, exit) = absent_lines(cut_short, &reader.absent(summary), summary.recorded());
    lines.extend(absent);
    (lines, exit)
}

fn lost_in_packets(losses: &Losses, lost: u64, frozen: Option<u64>) -> Vec<String> {
    let mut lines = lost_lines(losses.lost.max(lost), frozen);
    for (count, what) in [
        (losses.packets_absent, "absent"),
        (losses.packets_damaged, "damaged"),
    ] {
        if count > 0 {
            lines.push(format!("{} {} {what}", counted(count, "packet"), are(count)));
        }
    }
    lines.extend(losses.notes.iter().map(|note| shown(note).into_owned()));
    lines
}
