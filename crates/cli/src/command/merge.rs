//! `kestrel merge`: several recordings as one.

use crate::arguments::{directory, level};
use crate::exit::{Exit, Failure};
use crate::opening;
use crate::output::losses::missing;
use crate::style::bytes;
use clap::Args;
use kestrel::kernel::process::Interrupt;
use kestrel_trace::ctf::directory;
use kestrel_trace::ctf::merge::{Merge, Merged};
use kestrel_trace::import;
use kestrel_trace::print::{counted, shown};
use std::path::PathBuf;

/// Options of `merge`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The trace directories: two or more
    #[arg(value_name = "DIR", num_args = 2.., required = true)]
    traces: Vec<PathBuf>,
    /// The new trace directory; an old trace there is replaced when the new one is whole
    #[arg(short, long, value_name = "DIR", value_parser = directory())]
    output: PathBuf,
    /// Write a small trace: compressed by zstd at this level, 1 to 19 [default: 3]
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "3", value_parser = level())]
    compress: Option<u8>,
}

const EXAMPLES: &str = "\
Examples:
  kestrel merge kestrel.trace.2026* -o whole              what `record --switch-output` wrote, as one recording
  kestrel merge sched.trace net.trace -o both             two recordings of the same time
  kestrel merge client/kestrel.trace server/kestrel.trace --compress -o both

Records are merged in order of time: by the kernel's clock where all recordings are of one boot, else by the wall clock, with a note on standard error. Events
of one name with different fields stay two events. Lost records of each recording stay counted; names of threads, processes and symbols are merged, too.";

/// Runs `kestrel merge`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let interrupt = Interrupt::install()?;
    let mut named = Vec::new();
    let mut places = Vec::new();
    for path in &options.traces {
        let place = path.canonicalize().unwrap_or_else(|_| path.clone());
        let name = path.display().to_string();
        if places.contains(&place) {
            let failure = Failure::new(
                Exit::Usage,
                format!("{name} is named twice: its records would be there twice"),
            );
            return Err(failure);
        }
        opening::ensure_not_input(path, &options.output)?;
        places.push(place);
        let mut trace = import::open(path)?;
        opening::stop_when_interrupted(&mut trace, &interrupt);
        named.push((name, trace));
    }
    directory::is_free(&options.output)?;
    let mut merge = Merge::new(named)?;
    for remark in merge.remarks() {
        remark!("{}", shown(remark));
    }
    let beside = directory::staging_path(&options.output);
    let Merged { records, written } = match merge.write(&beside, options.compress) {
        Ok(merged) => merged,
        Err(error) => {
            // The unfinished trace is of no use.
            _ = directory::discard(&beside);
            return Err(error.into());
        }
    };
    let mut exit = Exit::Done;
    for (name, reader, summary) in merge.sources() {
        let (lines, whole) = missing(reader, summary);
        lines.iter().for_each(|line| eprintln!("{}: {line}", shown(name)));
        if whole != Exit::Done {
            exit = whole;
        }
    }
    directory::publish(&beside, &options.output)?;
    let (output, size) = (options.output.display(), bytes(written.bytes));
    remark!(
        "{} of {}, {size} in {output}",
        counted(records, "event"),
        counted(options.traces.len() as u64, "recording")
    );
    Ok(exit)
}
