//! `kestrel record`: events into a trace directory.

use crate::arguments::{DEFAULT_TRACE, directory, level, nonzero_bytes};
use crate::calls;
use crate::exit::{Exit, Failure};
use crate::recording::{self, RecordingOptions};
use crate::selection::Selection;
use crate::switching::{SwitchAt, Switches, switch_at};
use clap::Args;
use std::path::PathBuf;

/// Options of `record`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    selection: Selection,
    /// The trace directory; an old trace there is kept as DIR.old
    #[arg(short, long, value_name = "DIR", default_value = DEFAULT_TRACE, value_parser = directory())]
    output: PathBuf,
    /// With stacks of processes: keep inlined functions and source lines, too (`print` and `report` find them later, while the binaries are the same)
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    calls: calls::Traced,
    /// Keep the newest events: overwrite the oldest when a ring is full, and write the rings out at the end
    #[arg(long)]
    overwrite: bool,
    /// Stop when the trace on disk has this size: bytes, or with K, M, G; what the rings still hold is added at the end
    #[arg(long, value_name = "SIZE", value_parser = nonzero_bytes, conflicts_with = "overwrite")]
    max_size: Option<u64>,
    /// Go on in a new directory, DIR.TIME, at each SIGUSR2 (`signal`, without a value), and when it has a SIZE (1G) or a TIME is over (30s, 5m, 1h)
    #[arg(long, value_name = "signal|SIZE|TIME", num_args = 0..=1, require_equals = true, default_missing_value = "signal", value_parser = switch_at, conflicts_with = "overwrite")]
    switch_output: Option<SwitchAt>,
    /// As --switch-output with a SIZE or a TIME; tcpdump and LTTng call it rotation
    #[arg(long, value_name = "SIZE|TIME", value_parser = switch_at, conflicts_with_all = ["overwrite", "switch_output"])]
    rotate: Option<SwitchAt>,
    /// Keep at most this many of these directories: the oldest is removed when another one is complete
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    switch_max_files: Option<u32>,
    /// Write a trace compressed with zstd at this level, 1 to 19 [default: 3]; plain Common Trace Format of it is `kestrel export --to ctf`
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "3", value_parser = level())]
    compress: Option<u8>,
}

const EXAMPLES: &str = "\
Examples:
  kestrel record -e sched:sched_switch -- make            a command and its children
  kestrel record -e 'sched:*,irq:*' -a --duration 5       all processes, for five seconds
  kestrel record -e 'syscalls:sys_enter_openat { record(str(args.filename)) }' -p 1234
  kestrel record --syscalls=%file -- make                 system calls; `kestrel print` shows them as strace does
  kestrel record -e 'kprobe:vfs_read /arg2 > 4096/' -g    large reads, with call stacks
  kestrel record -F 99 --call-graph dwarf -- ./server     a profile of code without frame pointers
  kestrel record -e 'profile:hz:99 { record(kstack, ustack) }' -a --duration 5   what runs on every CPU
  kestrel record -e 'kprobe:vfs_read handler \"count.o\"' -a --duration 5   a program of a compiled object instead of a block
  kestrel record --table flight --duration 10             the tables of a file, or one that comes with Kestrel
  kestrel record -e 'sched:*' --overwrite -o last.trace   keep the newest until Ctrl-C
  kestrel record -e 'sched:*' -a --compress --duration 60  a small file; all commands read it as it is
  kestrel record -e 'sched:*' -a --switch-output=1G --switch-max-files 10   the last ten directories of 1 GiB each

Events lost because a ring was full are counted and reported. `kestrel report` and `kestrel print` show the trace.";

/// Runs `kestrel record`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let keep = RecordingOptions {
        newest: options.overwrite,
        lines: options.lines,
        compress: options.compress,
        most: options.max_size,
        calls: options.calls.syscalls.clone(),
        switches: switches(options)?,
    };
    recording::run(&options.selection, &options.output, keep)
}

/// Whether and when the recording goes on in another directory.
fn switches(options: &Options) -> Result<Option<Switches>, Failure> {
    let most = options.switch_max_files.map(|most| most as usize);
    match options.switch_output.or(options.rotate) {
        Some(at) => Ok(Some(Switches { at, most })),
        None if most.is_some() => {
            let failure = Failure::new(
                Exit::Usage,
                "--switch-max-files keeps the newest of several directories, and there is one alone",
            );
            Err(failure
                .hint("--switch-output=1G, or =5m, goes on in a new one; without a value at each SIGUSR2"))
        }
        None => Ok(None),
    }
}
