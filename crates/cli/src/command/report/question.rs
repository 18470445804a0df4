//! Groups and latencies in the place of the usual tables.

use super::Options;
use crate::exit::{Exit, Failure};
use crate::filter::{self, Choice};
use crate::output::groups::GroupsJson;
use crate::output::json;
use crate::output::latencies::LatenciesJson;
use crate::output::losses::report_read;
use crate::output::{self, Format};
use crate::style;
use kestrel::language::Diagnostic;
use kestrel_query::{Background, Groups, Keys, Latencies, Measure, Sort};
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::ctf::read::Losses;
use kestrel_trace::record::Record;
use serde::Serialize;
use std::io::Write;

/// Where ends may be that a recording of some threads does not have.
const ELSEWHERE: &str = "nothing that began has its end in the recording: other threads and interrupts may have ended it, which `kestrel record -a` records, too";

/// Answers with groups or latencies.
pub(super) fn answer(options: &Options, mut trace: Trace, choice: &mut Choice) -> Result<Exit, Failure> {
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
    let losses = trace.reader.losses();
    let line = |answer: Answer<'_>| {
        json::line(&AnswerJson {
            records,
            losses: &losses,
            answer,
        })
    };
    let (text, line) = match question {
        Question::Groups(groups) => {
            let grouped = groups.finish(sort.as_ref(), options.limit)?;
            (
                output::groups::text(&grouped, records),
                line(Answer::Groups(output::groups::json(&grouped)))?,
            )
        }
        Question::Latencies(latencies) => {
            let names = latencies.names();
            let (rows, unpaired) = latencies.finish(sort.as_ref())?;
            if rows.is_empty() && unpaired.iter().any(|pair| pair.begins > 0) {
                eprintln!("hint: {ELSEWHERE}");
            }
            let text = output::latencies::text(&names, &rows, limit, &unpaired);
            let answer = output::latencies::json(&names, &rows, limit, &unpaired);
            (text, line(Answer::Latencies(answer))?)
        }
    };
    match options.format() {
        Format::Text => write!(stdout, "{text}")?,
        Format::Json => writeln!(stdout, "{line}")?,
    }
    stdout.flush()?;
    let whole = report_read(&trace.reader, trace.summary.as_ref());
    match records {
        0 => Ok(filter::none_found(
            &options.trace.path,
            options.filter.are_given(),
        )),
        _ => Ok(whole),
    }
}

/// An answer as JSON has it, with what it is about.
#[derive(Debug, Serialize)]
struct AnswerJson<'a> {
    records: u64,
    losses: &'a Losses,
    #[serde(flatten)]
    answer: Answer<'a>,
}

/// Groups or latencies.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer<'a> {
    Groups(GroupsJson<'a>),
    Latencies(LatenciesJson<'a>),
}

/// Question that replaces the usual tables.
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
            let pairs = options.latency.iter().map(|text| filter::pairs(text, events));
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
