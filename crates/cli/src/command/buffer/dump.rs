//! `kestrel buffer dump`: writes the contents of buffers into a trace directory while recording goes on.

use super::session_option::SessionOption;
use crate::arguments::DEFAULT_TRACE;
use crate::arguments::duration;
use crate::exit::{Exit, Failure};
use crate::progress;
use crate::style::bytes;
use clap::Args;
use kestrel::dump::{DumpRequest, Dumped, dump};
use kestrel::kernel::Host;
use kestrel_trace::print::{counted, thousands};
use std::path::PathBuf;
use std::time::Duration;

/// Options of `buffer dump`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Options {
    /// Only these buffers
    #[arg(long, value_name = "BUFFER,…", value_delimiter = ',')]
    buffer: Vec<String>,
    /// Only records of the last TIME
    #[arg(long, value_name = "TIME", value_parser = duration)]
    since: Option<Duration>,
    /// The trace directory; an old trace there is replaced when the new one is whole
    #[arg(short, long, value_name = "DIR", default_value = DEFAULT_TRACE, value_parser = crate::arguments::directory())]
    output: PathBuf,
    #[command(flatten)]
    session: SessionOption,
}

const EXAMPLES: &str = "\
Examples:
  kestrel buffer dump -o now.trace                        all buffers of the only session
  kestrel buffer dump --since 10s --buffer main           the last ten seconds of one
  kestrel print kestrel.trace --buffer target             what was in one buffer

Packets that were overwritten while they were copied are counted and reported.";

/// Runs `kestrel buffer dump`.
pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let host = Host::default();
    let store = crate::sessions::store(&host)?;
    let session = options.session.session.as_deref();
    let request = DumpRequest {
        buffers: options.buffer.clone(),
        since: options.since,
    };
    let bar = progress::bar("counting and naming");
    let dumped = dump(&store, session, &request, &options.output, &host, bar)?;
    print_summary(&dumped);
    Ok(Exit::Done)
}

fn print_summary(dumped: &Dumped) {
    let summary = &dumped.summary;
    let records: u64 = summary.events.iter().map(|count| count.recorded).sum();
    eprintln!(
        "{} of {:.2} s, {} in {}; lost {}, overwritten {}",
        counted(records, "event"),
        summary.duration_ns as f64 / 1e9,
        bytes(dumped.written.bytes),
        dumped.path.display(),
        thousands(summary.lost()),
        thousands(summary.overwritten())
    );
    for note in &summary.notes {
        eprintln!("  {note}");
    }
}
