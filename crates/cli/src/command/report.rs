//! `kestrel report`: a recorded trace as tables and a histogram over time.

use crate::arguments::default_trace;
use crate::exit::{Exit, Failure};
use crate::filter::{self, Choice};
use crate::output::losses::{report_absent, report_read};
use crate::output::{self, Format};
use crate::progress;
use crate::stacks::StackOptions;
use crate::style;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{ArgGroup, Args};
use kestrel::language::Diagnostic;
use kestrel_query::{Background, Groups, Keys, Latencies, Measure, Pairs, Sort};
use kestrel_trace::analyze::ANALYSES;
use kestrel_trace::ctf::directory::{self, Trace};
use kestrel_trace::info::TraceInfo;
use kestrel_trace::record::Record;
use kestrel_trace::report::{self, Report};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

/// Options of `report`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("asked").args(["by", "latency"]).multiple(true))]
pub(crate) struct Options {
    /// The trace directory
    #[arg(value_name = "DIR", default_value_os_t = default_trace())]
    trace: PathBuf,
    /// How it looks
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Also this table; may be repeated
    #[arg(long, value_name = "TABLE", value_parser = tables())]
    also: Vec<String>,
    /// Also the most frequent values of this field
    #[arg(long, value_name = "FIELD")]
    field: Option<String>,
    #[command(flatten)]
    stacks: StackOptions,
    /// Instead, a table of how many records there are for each value of these expressions: fields, `comm`, `pid`, `tid`, `thread`, `process`, `cpu`, `event`
    #[arg(long, value_name = "EXPR,…", conflicts_with_all = ["also", "field"])]
    by: Option<String>,
    /// In each group of --by, the sum, mean, least, greatest, median and 99th percentile of this expression
    #[arg(long, value_name = "EXPR", requires = "by", conflicts_with = "latency")]
    value: Option<String>,
    /// Instead, how long it took from one event to another of the same thread, or of the same KEY; may be repeated; a lone pattern stands for all its events that begin and end something; --by splits
    #[arg(long, value_name = "BEGIN,END[,KEY]", conflicts_with_all = ["also", "field"])]
    latency: Vec<String>,
    /// The column that --by and --latency sort by; `-` before it turns the order round
    #[arg(long, value_name = "COLUMN", requires = "asked", allow_hyphen_values = true)]
    sort: Option<String>,
    /// The first rows only; others are summed up
    #[arg(long, value_name = "ROWS", requires = "asked")]
    limit: Option<usize>,
    #[command(flatten)]
    filter: filter::Options,
}

const EXAMPLES: &str = "\
Examples:
  kestrel report                                          the trace in ./kestrel.trace
  kestrel report --field next_comm                        and the most frequent values of a field
  kestrel report --also threads                           and the threads
  kestrel report -g                                       the call graph of a profile: functions, and what they called
  kestrel report --flame cpu.svg                          the same as a flame graph
  kestrel report --off-cpu --flame off.svg                where threads waited, by `kestrel record -g -e sched:sched_switch -a`
  kestrel report --where 'bytes_req > 4096' -e kmalloc    of some records only
  kestrel report --by comm,args.target_cpu --limit 10     counts by what expressions are
  kestrel report --by comm --value 'ret > 0 ? ret : 0' -e 'sys_exit_read' --sort sum
  kestrel report --latency 'syscalls:*' --by comm         how long system calls took
  kestrel report --latency block:block_rq_issue,block:block_rq_complete,dev,sector
  kestrel report --latency sched:sched_waking,sched:sched_switch,args.pid=next_pid
  kestrel report --format json my.trace | jq .events";

/// Columns where the output is no terminal.
const WIDTH: usize = 100;

/// The tables that not every report has, as an option's values.
fn tables() -> PossibleValuesParser {
    let others = ANALYSES.iter().filter(|kind| !kind.usual);
    PossibleValuesParser::new(others.map(|kind| PossibleValue::new(kind.name).help(kind.about)))
}

/// Reports.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut trace = directory::open(&options.trace)?;
    if let Some(field) = &options.field {
        check_field(field, trace.reader.info())?;
    }
    let total = trace.packets;
    let asked = options.by.is_some() || !options.latency.is_empty();
    let mut choice = options.filter.choose(&mut trace, asked)?;
    if options.stacks.are_wanted() {
        let wanted = &mut |record: &Record<'_>| choice.wants(record);
        return options
            .stacks
            .report(&mut trace, &options.trace, options.format, wanted);
    }
    if let Some(mut bar) = progress::bar("counting") {
        trace.reader.watch(Box::new(move |done| bar(done, total)));
    }
    if asked {
        return answer(options, trace, &mut choice);
    }
    let report = Report::of_chosen(
        &mut trace.reader,
        report::Options {
            processes: trace.processes,
            symbols: trace.symbols,
            summary: trace.summary,
            also: options.also.clone(),
            field: options.field.clone(),
            maps: trace.maps,
            remarks: trace.remarks,
        },
        &mut |record| choice.wants(record),
    )?;
    // The bar goes before the tables come.
    drop(trace.reader);
    let mut stdout = crate::screen::out();
    match options.format {
        Format::Json => {
            let text = serde_json::to_string(&report)
                .map_err(|e| Failure::new(Exit::Internal, format!("cannot write the report as JSON: {e}")))?;
            writeln!(stdout, "{text}")?;
        }
        Format::Text => {
            let colour = style::colour(std::io::stdout().is_terminal());
            write!(stdout, "{}", report::text(&report, width(), colour))?;
            writeln!(stdout, "\nThe trace lies in {}", options.trace.display())?;
        }
    }
    let recorded: u64 = report.counted.iter().flatten().map(|count| count.recorded).sum();
    let whole = report_absent(report.cut_short.as_ref(), &report.absent, recorded);
    if report.records == 0 && report.maps.is_empty() {
        return Ok(filter::none_found(&options.trace, options.filter.are_given()));
    }
    Ok(whole)
}

/// Answers with groups or latencies.
fn answer(options: &Options, mut trace: Trace, choice: &mut Choice) -> Result<Exit, Failure> {
    let mut question = Question::new(options, &trace)?;
    let mut records = 0;
    while let Some(record) = trace.reader.next()? {
        if choice.wants(&record) {
            records += 1;
            question.add(&record, &choice.background);
        }
    }
    // The bar goes before the table comes.
    trace.reader.watch(Box::new(|_| {}));
    let limit = options.limit.unwrap_or(usize::MAX);
    let sort = options.sort.as_deref().map(Sort::parse);
    let mut stdout = crate::screen::out();
    let mut json = serde_json::json!({ "records": records, "losses": trace.reader.losses() });
    let (text, answer) = match question {
        Question::Groups(groups) => {
            let grouped = groups.finish(sort.as_ref(), options.limit)?;
            (
                output::groups::text(&grouped, records),
                output::groups::json(&grouped),
            )
        }
        Question::Latencies(latencies) => {
            let names = latencies.names();
            let (rows, unpaired) = latencies.finish(sort.as_ref())?;
            let text = output::latencies::text(&names, &rows, limit, &unpaired);
            (text, output::latencies::json(&names, &rows, limit, &unpaired))
        }
    };
    match options.format {
        Format::Text => write!(stdout, "{text}")?,
        Format::Json => {
            if let (Some(all), Value::Object(answer)) = (json.as_object_mut(), answer) {
                all.extend(answer);
            }
            writeln!(stdout, "{json}")?;
        }
    }
    stdout.flush()?;
    let whole = report_read(&trace.reader, trace.summary.as_ref());
    match records {
        0 => Ok(filter::none_found(&options.trace, options.filter.are_given())),
        _ => Ok(whole),
    }
}

/// What is asked in the place of the usual tables.
#[derive(Debug)]
enum Question {
    Groups(Groups),
    Latencies(Latencies),
}

impl Question {
    fn new(options: &Options, trace: &Trace) -> Result<Self, Failure> {
        let events = &trace.reader.info().events;
        let symbols = &trace.symbols;
        if !options.latency.is_empty() {
            let pairs = options.latency.iter().map(|text| Pairs::new(text, events));
            let pairs = pairs.collect::<Result<_, _>>()?;
            let latencies = Latencies::new(pairs, options.by.as_deref(), events, symbols)?;
            return Ok(Self::Latencies(latencies));
        }
        let by = options.by.as_deref().unwrap_or_default();
        let keys = Keys::new(by, events, symbols.clone())?;
        warn("--by", keys.warnings(), by);
        let measure = options.value.as_deref().map(|text| Measure::new(text, events));
        let measure = measure.transpose()?;
        if let Some(measure) = &measure {
            warn("--value", measure.warnings(), measure.text());
        }
        Ok(Self::Groups(Groups::new(keys, measure)))
    }

    fn add(&mut self, record: &Record<'_>, background: &Background) {
        match self {
            Self::Groups(groups) => groups.add(record, background),
            Self::Latencies(latencies) => latencies.add(record, background),
        }
    }
}

fn warn(option: &str, warnings: &[Diagnostic], text: &str) {
    if !warnings.is_empty() {
        eprintln!("{}", style::diagnostics_in(option, warnings, text));
    }
}

/// Whether any event of a trace has such a field.
fn check_field(field: &str, info: &TraceInfo) -> Result<(), Failure> {
    let fields = info.events.iter().flat_map(|event| event.layout.fields());
    let names: BTreeSet<&str> = fields.map(|field| field.name.as_str()).collect();
    if names.contains(field) {
        return Ok(());
    }
    let failure = Failure::new(Exit::Usage, format!("no event of this trace has a field {field}"));
    let names: Vec<&str> = names.into_iter().collect();
    Err(match names.as_slice() {
        [] => failure.hint("its events have no fields at all"),
        names => failure.hint(format!("its fields are {}", names.join(", "))),
    })
}

fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    columns
        .or_else(|| terminal_size::terminal_size().map(|(w, _)| usize::from(w.0)))
        .unwrap_or(WIDTH)
}
