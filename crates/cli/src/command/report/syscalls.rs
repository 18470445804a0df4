//! System calls of a recording, as `strace -c` and `perf trace -s` count them.

use super::Options;
use crate::exit::{Exit, Failure};
use crate::filter::Choice;
use crate::output::calls;
use crate::output::losses::report_absent;
use crate::progress;
use clap::ValueEnum;
use kestrel::arch;
use kestrel_trace::calls::{Pairing, Reader, Signature, Signatures, Summary};
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::print::{thousands, were};
use kestrel_trace::process::Learner;

/// Reports system calls.
pub(super) fn report(mut trace: Trace, options: &Options, choice: &mut Choice) -> Result<Exit, Failure> {
    let by = match options.by.as_deref() {
        None => calls::By::default(),
        Some(by) => calls::By::from_str(by, true).map_err(|_| {
            let failure = Failure::new(Exit::Usage, format!("system calls cannot be counted by `{by}`"));
            failure.hint("--by call, thread or process; without --syscalls any expression")
        })?,
    };
    if !trace.reader.info().events.iter().any(Reader::is_of_calls) {
        let failure = Failure::new(
            Exit::Failed,
            format!("{} holds no events of system calls", options.trace.display()),
        );
        return Err(failure.hint("`kestrel record -e 'raw_syscalls:*' -- COMMAND` records them; `kestrel trace --syscalls --summary -- COMMAND` counts them at once"));
    }
    let total = trace.packets;
    if let Some(mut bar) = progress::bar("counting") {
        trace.reader.watch(Box::new(move |done| bar(done, total)));
    }
    let mut reader = Reader::new(signatures());
    let (mut pairing, mut summary) = (Pairing::default(), Summary::new(by.into()));
    let (mut learner, mut processes) = (Learner::default(), trace.processes);
    while let Some(record) = trace.reader.next()? {
        learner.learn(&record, &mut processes);
        if !choice.wants(&record) {
            continue;
        }
        if let Some(moment) = reader.read(&record) {
            pairing.add((record.pid, record.tid), record.time_ns, moment, &mut |call| {
                summary.add(&call)
            });
        }
    }
    pairing.finish(&mut |call| summary.add(&call));
    let groups = summary.finish(&|tid, pid| processes.name(tid, pid).map(str::to_owned));
    calls::write(&groups, options.format, &mut crate::screen::out())?;
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

/// The calls of this architecture by their numbers, as far as names.
fn signatures() -> Signatures {
    let mut signatures = Signatures::default();
    for number in 0..=arch::HIGHEST_SYSCALL {
        if let Some(name) = (arch::current().syscall_name)(number) {
            signatures.insert(u64::from(number), Signature::new(name, []));
        }
    }
    signatures
}
