//! System calls of a recording, as `strace -c` and `perf trace -s` count them.

use super::Options;
use crate::calls::of_recording;
use crate::exit::{Exit, Failure};
use crate::filter::Choice;
use crate::output::calls;
use crate::output::losses::report_read;
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
    // `--from` and `--to` let the reader step over packets, but the entry of a wanted return may lie before them: all is read.
    trace.reader.within(0..=u64::MAX);
    let summary = Summary::new(by.into());
    let mut counted = Calls::new(signatures, shown, Layout::Lines, Style::default()).counted(summary);
    let (mut learner, mut processes) = (Learner::default(), trace.processes);
    let mut out = Vec::new();
    while let Some(record) = trace.reader.next()? {
        learner.learn(&record, &mut processes);
        // A call is counted where one of its records is wanted.
        counted.record(&record, choice.wants(&record), &mut out);
    }
    let summary = counted.finish(None, &mut out).unwrap_or_default();
    let groups = summary.finish(&|tid, pid| processes.name(tid, pid).map(str::to_owned));
    calls::write(&groups, options.format(), &mut crate::screen::out())?;
    if groups.is_empty() {
        eprintln!(
            "no system call that is asked for is in {}",
            options.trace.path.display()
        );
    }
    let exit = report_read(&trace.reader, trace.summary.as_ref());
    let (lost, overwritten) = trace
        .summary
        .as_ref()
        .map_or((0, 0), |summary| (summary.lost(), summary.overwritten()));
    if overwritten > 0 {
        eprintln!(
            "{} of this recording {} overwritten",
            thousands(overwritten),
            were(overwritten)
        );
    }
    let read = trace.reader.losses();
    if read.lost + read.packets_absent + read.packets_damaged + lost + overwritten > 0 {
        eprintln!("the counts are too low");
    }
    Ok(exit)
}
