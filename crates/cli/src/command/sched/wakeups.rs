//! `kestrel sched wakeups`: who woke whom, and what led to the longest delays.

use super::filter::Filter;
use super::reading::{Gaps, Reading};
use super::show::{milliseconds, seconds, short};
use crate::arguments::TraceArgument;
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::output::columns::Column::{Left, Right};
use crate::output::columns::Columns;
use crate::output::json;
use clap::Args;
use kestrel_trace::print::counted;
use kestrel_trace::sched::{Pair, Reason, Wakeups, Worst};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write as _;

/// Options of `sched wakeups`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    trace: TraceArgument,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// The number of longest delays to show, with what led to each
    #[arg(long, value_name = "N", default_value_t = 10)]
    worst: u16,
    /// The largest number of pairs of tasks to show; JSON has all
    #[arg(long, value_name = "N", default_value_t = 30)]
    pairs: usize,
    #[command(flatten)]
    filter: Filter,
}

const EXAMPLES: &str = "\
Examples:
  kestrel sched wakeups                        the trace in ./kestrel.trace
  kestrel sched wakeups --worst 3 -p 1234      who woke a process, and what led to its longest delays
  kestrel sched wakeups --time 1162.5,1163     within half a second
  kestrel sched wakeups --format json | jq '.worst[0].chain'

A waker is what ran on the CPU where the wakeup came from: an interrupt that came while it ran counts as it, and as <idle> where nothing ran.";

#[derive(Serialize)]
struct Document<'a> {
    pairs: &'a [Pair],
    worst: &'a [Worst],
    #[serde(flatten)]
    gaps: Gaps,
}

/// Runs `kestrel sched wakeups`.
pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let mut reading = Reading::open(&options.trace.path, true)?.with_bar(false);
    if !reading.present.waking {
        eprintln!(
            "the trace holds no sched:sched_waking: where a task is woken across CPUs, sched:sched_wakeup may name what ran on its own"
        );
    }
    let mut wakeups = Wakeups::new(
        reading.present,
        reading.names(),
        options.filter.only(reading.tasks()),
        options.worst.into(),
    );
    reading.each(|record| {
        wakeups.add(record);
        Ok(())
    })?;
    let (pairs, worst) = wakeups.finish();
    let mut out = crate::screen::out();
    match options.format {
        Format::Json => {
            let document = Document {
                pairs: &pairs,
                worst: &worst,
                gaps: reading.gaps(),
            };
            writeln!(out, "{}", json::line(&document)?)?;
        }
        Format::Text => {
            out.write_all(table(&pairs, options.pairs).as_bytes())?;
            for (index, worst) in worst.iter().enumerate() {
                writeln!(out)?;
                out.write_all(story(index + 1, worst).as_bytes())?;
            }
        }
    }
    Ok(reading.finish())
}

fn table(pairs: &[Pair], most: usize) -> String {
    let mut columns = Columns::new([Left, Left, Right, Right, Right]);
    columns.head("", ["waker", "woken", "wakeups", "avg delay ms", "max delay ms"]);
    for pair in pairs.iter().take(most) {
        columns.row(
            "",
            [
                short(&pair.waker),
                short(&pair.woken),
                pair.count.to_string(),
                milliseconds(pair.average_ns),
                milliseconds(pair.max_ns),
            ],
        );
    }
    if pairs.len() > most {
        let rest = pairs.len() - most;
        columns.line(&format!("and {} (--pairs)", counted(rest as u64, "more pair")));
    }
    columns.text()
}

/// A long delay: what led to it, and what ran meanwhile.
fn story(number: usize, worst: &Worst) -> String {
    let mut text = String::new();
    let ended = worst.began_ns + worst.delay_ns;
    // A preempted thread did not sleep: there is no wakeup to name.
    let why = match worst.reason {
        Reason::Preempted => "preempted at",
        _ => "woken at",
    };
    let _ = writeln!(
        text,
        "{number}. {} waited {} ms for CPU {}: {why} {} s, ran at {} s",
        short(&worst.task),
        milliseconds(worst.delay_ns),
        worst.cpu,
        seconds(worst.began_ns),
        seconds(ended)
    );
    for link in &worst.chain {
        let waited = match link.delay_ns {
            Some(ns) => format!(", which ran {} ms later", milliseconds(ns)),
            None => String::new(),
        };
        let _ = writeln!(
            text,
            "   {} s  {} on CPU {} woke {}{waited}",
            seconds(link.time_ns),
            short(&link.waker),
            link.cpu,
            short(&link.woken)
        );
    }
    for it in &worst.meanwhile {
        let _ = writeln!(
            text,
            "   {} s  CPU {} ran {} for {} ms",
            seconds(it.from_ns),
            it.cpu,
            short(&it.task),
            milliseconds(it.ns)
        );
    }
    text
}
