//! `kestrel cut`: a part of a recording as a recording of its own.

use crate::arguments::{TraceArgument, directory, level};
use crate::exit::{Exit, Failure};
use crate::filter;
use crate::opening;
use crate::output::losses::report_read;
use crate::progress;
use crate::style::bytes;
use clap::Args;
use kestrel::kernel::process::Interrupt;
use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::rewrite::{Rewriter, SideData};
use kestrel_trace::print::{counted, thousands};
use std::path::PathBuf;

/// Options of `cut`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    trace: TraceArgument,
    /// The new trace directory; an old trace there is replaced when the new one is whole
    #[arg(short, long, value_name = "DIR", value_parser = directory())]
    output: PathBuf,
    /// Write a small trace: compressed by zstd at this level, 1 to 19 [default: 3]
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "3", value_parser = level())]
    compress: Option<u8>,
    #[command(flatten)]
    filter: filter::Options,
}

const EXAMPLES: &str = "\
Examples:
  kestrel cut --from 12.5 --to +0.5 -o spike              half a second of a recording
  kestrel cut -e 'sched:*' --cpu 0 my.trace -o sched      these events of a CPU
  kestrel cut small.trace -o plain && babeltrace2 plain   a compressed recording as plain Common Trace Format
  kestrel cut my.trace --compress -o small                and the other way round

Names of threads, addresses and files come along; maps of handlers, which are of the whole time, do not.";

/// Runs `kestrel cut`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    opening::ensure_not_input(&options.trace.path, &options.output)?;
    let mut trace = opening::open(&options.trace.path)?;
    opening::stop_when_interrupted(&mut trace, &Interrupt::install()?);
    directory::is_free(&options.output)?;
    let total = trace.packets;
    if let Some(mut bar) = progress::bar("cutting") {
        trace.reader.watch(Box::new(move |done| bar(done, total)));
    }
    let mut choice = options.filter.choose(&mut trace, false)?;
    let beside = directory::staging_path(&options.output);
    let cut = write(options, &mut trace, &mut choice, &beside);
    let (all, records, written) = match cut {
        Ok(cut) => cut,
        Err(failure) => {
            // The unfinished trace is of no use.
            _ = directory::discard(&beside);
            return Err(failure);
        }
    };
    let whole = report_read(&trace.reader, trace.summary.as_ref());
    if records == 0 {
        _ = directory::discard(&beside);
        return Ok(filter::none_found(
            &options.trace.path,
            options.filter.are_given(),
        ));
    }
    directory::publish(&beside, &options.output)?;
    // Packets out of the times were stepped over: how many events there are is what the recorder counted, where it did.
    let counted_then = trace.summary.as_ref().map_or(0, |summary| {
        let counts = summary.events.iter();
        counts.map(|count| count.recorded).sum()
    });
    let is_known = counted_then >= all || !options.filter.have_times();
    let all = all.max(counted_then);
    let (output, size) = (options.output.display(), bytes(written));
    if is_known && all != records {
        let (kept, all) = (thousands(records), counted(all, "event"));
        remark!("{kept} of {all}, {size} in {output}");
    } else {
        remark!("{}, {size} in {output}", counted(records, "event"));
    }
    Ok(whole)
}

/// Writes the records that the filters choose; gives the number of records read, the number written, and the bytes written.
fn write(
    options: &Options,
    trace: &mut directory::Trace,
    choice: &mut filter::Choice,
    path: &std::path::Path,
) -> Result<(u64, u64, u64), Failure> {
    let mut rewriter = Rewriter::create(path, &trace.reader, options.compress)?;
    let (mut all, mut records) = (0, 0);
    while let Some((buffer, record, lost)) = trace.reader.next_with_losses()? {
        all += 1;
        if choice.wants(&record) {
            rewriter.record(buffer, &record, lost)?;
            records += 1;
        }
    }
    let beside = SideData {
        summary: trace.summary.clone(),
        symbols: trace.symbols.clone(),
        processes: trace.processes.clone(),
        tasks: trace.tasks.clone(),
        unwound: trace.reader.unwound().cloned().unwrap_or_default(),
        calls: trace.calls.clone(),
    };
    let note = format!("cut from {}", options.trace.path.display());
    let written = rewriter.finish(beside, note)?;
    Ok((all, records, written.bytes))
}
