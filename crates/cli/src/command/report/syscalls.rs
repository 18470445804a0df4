//! System calls of a recording, as `strace -c` and `perf trace -s` count them.

use super::Options;
use crate::calls::of_recording;
use crate::exit::{Exit, Failure};
use crate::filter::Choice;
use crate::output::calls;
use crate::output::losses::report_absent;
use crate::progress;
use clap::ValueEnum;
use kestrel_trace::calls::Summary;
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::export::{Calls, Layout, Style};
use kestrel_trace::print::{thousands, were};
use kestrel_trace::process::Learner;

/// Reports system calls.
pub(super) fn report(
    mut trace: Trace,
    set: &str,
    options: &Options,
    choice: &mut Choice,
) -> Result<Exit, Failure> {
    let by = match options.by.as_deref() {
        None => calls::By::default(),
        Some(by) => calls::By::from_str(by, true).map_err(|_| {
            let failure = Failure::new(Exit::Usage, format!("system calls cannot be counted by `{by}`"));
            failure.hint("--by call, thread or process; without --syscalls any expression")
        })?,
    };
    let (signatures, shown) = of_recording(&trace, &options.trace.path, Some(set))?;
    let total = trace.packets;
    if let Some(mut bar) = progress::bar("counting") {
        trace.reader.watch(Box::new(move |done| bar(done, total)));
    }
    // A call is counted where one of its records is wanted.
    trace.reader.within(0..=u64::MAX);
    let summary = Summary::new(by.into());
    let mut counted = Calls::new(signatures, shown, Layout::Lines, Style::default()).counted(summary);
    let (mut learner, mut processes) = (Learner::default(), trace.processes);
    let mut out = Vec::new();
    while let Some(record) = trace.reader.next()? {
        learner.learn(&record, &mut processes);
        counted.record(&record, choice.wants(&record), &mut out);
    }
    let summary = counted.finish(None, &mut out).unwrap_or_default();
    let groups = summary.finish(&|tid, pid| processes.name(tid, pid).map(str::to_owned));
    calls::write(&groups, options.format(), &mut crate::screen::out())?;
    let (absent, cut_short) = match &trace.summary {
        Some(summary) => (trace.reader.absent(summary), summary.cut_short.clone()),
        None => (Vec::new(), None),
    };
    let counted = trace.summary.iter().flat_map(|summary| &summary.events);
    let lost: u64 = counted.clone().map(|count| count.lost + count.overwritten).sum();
    let lost = lost.max(trace.reader.losses().lost);
    if lost > 0 {
        eprintln!(
            "{} of this recording {} lost: the counts are too low",
            thousands(lost),
            were(lost)
        );
    }
    let recorded = counted.map(|count| count.recorded).sum();
    Ok(report_absent(cut_short.as_ref(), &absent, recorded))
}
