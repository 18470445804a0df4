//! The line of the recording's losses.

use kestrel_trace::print::thousands;
use kestrel_trace::report::Report;

/// The losses by kind; `lost 0` where there are none.
pub(super) fn losses_line(report: &Report) -> String {
    let mut text = format!("lost {}", thousands(report.lost()));
    if let Some(missed) = &report.missed {
        text.push_str(&format!(", {missed}"));
    }
    for (count, what) in [
        (report.overwritten(), "overwritten"),
        (report.absent(), "absent"),
        (report.losses.packets_absent, "absent packets"),
        (report.losses.packets_damaged, "damaged packets"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {what} {}", thousands(count)));
        }
    }
    text
}

/// Whether no events are lost or missed.
pub(super) fn is_whole(report: &Report) -> bool {
    let missed = report.missed.map_or(0, |missed| missed.hits);
    missed + report.lost() + report.overwritten() + report.absent() == 0
        && report.losses.is_none()
        && report.cut_short.is_none()
}
