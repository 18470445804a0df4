//! `kestrel export`: a recorded trace as a file of another tool.

use crate::arguments::TraceArgument;
use crate::exit::{Exit, Failure};
use crate::filter;
use crate::opening;
use crate::output::losses::report_read;
use crate::progress;
use clap::Args;
use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use kestrel::kernel::process::Interrupt;
use kestrel_trace::convert::{self, FORMATS, OutputPath, RecordingContext};
use kestrel_trace::event::EventClass;
use kestrel_trace::print::{counted, thousands};
use kestrel_trace::record::Record;
use std::path::PathBuf;

/// Options of `export`.
#[derive(Args, Debug)]
// `--to` is the format here; elsewhere it is a time.
#[command(after_help = EXAMPLES, mut_arg("to", |time| time.long("until")))]
pub(crate) struct Options {
    #[command(flatten)]
    trace: TraceArgument,
    /// What to make of it
    #[arg(long = "to", value_name = "FORMAT", value_parser = formats())]
    format: String,
    /// The file to write [default: the format's usual name]
    #[arg(short, long, value_name = "FILE", value_parser = file())]
    output: Option<PathBuf>,
    #[command(flatten)]
    filter: filter::Options,
}

const EXAMPLES: &str = "\
Examples:
  kestrel export --to perf-data && perf script -i perf.data          also perf report, perf sched latency
  kestrel export --to trace-dat -o my.dat my.trace && trace-cmd report -i my.dat
  kestrel export --to perf-data -e 'sched:*' --from 1.5 --until +2
  kestrel export --to ctf -o plain small.trace && babeltrace2 plain  a compressed recording as plain Common Trace Format

Losses are carried over where the format has a place for them, and reported on stderr. Lines and tables: kestrel print --format, kestrel report.";

/// The formats there are, as an option's values.
fn formats() -> PossibleValuesParser {
    let value = |target: &convert::ConversionFormat| PossibleValue::new(target.name).help(target.about);
    PossibleValuesParser::new(FORMATS.iter().map(value))
}

/// The parser of the file: any path but `-`.
fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.as_os_str() == "-" {
        true => Err("what is exported is not written in one go and cannot go to standard output; ./- is a file of that name"),
        false => Ok(path),
    })
}

/// Runs `kestrel export`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let target = convert::find_format(&options.format).unwrap_or(&FORMATS[0]);
    let path = options.output.clone().unwrap_or_else(|| target.file.into());
    opening::ensure_not_input(&options.trace.path, &path)?;
    let mut trace = opening::open(&options.trace.path)?;
    opening::stop_when_interrupted(&mut trace, &Interrupt::install()?);
    let total = trace.packets;
    if let Some(mut bar) = progress::bar("exporting") {
        trace.reader.watch(Box::new(move |done| bar(done, total)));
    }
    let has_stacks = |event: &EventClass| event.layout.fields().iter().any(|field| field.ty.is_stack());
    // Known before the trace is read, whose end would give an empty file.
    if target.name == "folded" && !trace.reader.info().events.iter().any(has_stacks) {
        let path = options.trace.path.display();
        let failure = Failure::new(Exit::Failed, format!("{path} has no call stacks"));
        return Err(
            failure.hint("`kestrel record -g …` records them; `kestrel record -F 99 -g -a` takes a profile")
        );
    }
    let mut choice = options.filter.choose(&mut trace, false)?;
    let recording = RecordingContext {
        info: trace.reader.info().clone(),
        symbols: trace.symbols,
        processes: trace.processes,
        tasks: trace.tasks,
        unwound: trace.reader.unwound().cloned().unwrap_or_default(),
        summary: trace.summary.clone(),
        calls: trace.calls,
    };
    let conversion = (target.begin)(recording, OutputPath::at(&path)?)?;
    let mut wanted = |record: &Record<'_>| choice.wants(record);
    let summary = trace.summary.as_ref();
    let converted = convert::convert(&mut trace.reader, summary, &mut wanted, conversion)?;
    let whole = report_read(&trace.reader, summary);
    // The file is there and can be opened, so this is no failure.
    if converted.records == 0 {
        filter::warn_of_none(&options.trace.path, options.filter.are_given());
    }
    let all = counted(converted.records, "event");
    let path = path.display();
    match converted.left_out {
        0 => remark!("{all} in {path}"),
        left_out => {
            let written = thousands(converted.records - left_out);
            remark!("{written} of {all} in {path}: the others have no call stack");
        }
    }
    Ok(whole)
}
