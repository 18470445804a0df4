//! The command line of `kestrel run`: bpftrace's options.

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Options of `run`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("live", |live| live.conflicts_with("trace")))]
pub(crate) struct Options {
    /// The program's file, or - for standard input; with -l also a pattern of events
    #[arg(value_name = "SCRIPT", required_unless_present_any = ["program", "list", "info"])]
    pub(super) script: Option<OsString>,
    /// The program itself
    #[arg(
        short = 'e',
        value_name = "PROGRAM",
        overrides_with = "program",
        value_parser = OsStringValueParser::new().map(|text| super::encoding::decoded(text.into_vec()))
    )]
    pub(super) program: Option<String>,
    /// Values of $1, $2, …; behind -- also of named parameters: --NAME=VALUE
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true)]
    pub(super) arguments: Vec<OsString>,
    /// List the events that match a pattern, or those of a program; with -v, what is in `args`
    #[arg(short = 'l', long = "list")]
    pub(super) list: bool,
    /// A command to run meanwhile: the program ends with it
    #[arg(short = 'c', long = "cmd", value_name = "COMMAND")]
    pub(super) command: Option<String>,
    /// Probe only this process; the program ends with it
    #[arg(short = 'p', long = "pid", value_name = "PID", allow_negative_numbers = true)]
    pub(super) pid: Option<String>,
    /// Another process whose stacks dw_ustack unwinds by DWARF tables, beside those of -p and -c
    #[arg(long, value_name = "PID")]
    pub(super) dwarf_pid: Vec<u32>,
    /// Replay a recorded trace: run the program over its records instead of live events
    #[arg(
        long,
        value_name = "TRACE",
        conflicts_with_all = ["command", "pid", "list", "mode", "info", "fmt", "probe_filter"]
    )]
    pub(super) trace: Option<PathBuf>,
    /// A folder in which debug files of programs may lie, too
    #[arg(long, value_name = "DIR")]
    pub(super) debuginfo: Vec<PathBuf>,
    /// Output format
    #[arg(short = 'f', long = "format", value_enum, default_value = "text")]
    pub(super) format: OutputFormat,
    /// Write output to a file
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) live: crate::live::LiveOption,
    /// Print nothing but the program's own output
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Attach everything and end; with -v, print the plan (programs, maps, records)
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print how events are attached, how long that took, and the BPF code
    #[arg(short, long, overrides_with = "verbose")]
    pub(super) verbose: bool,
    /// Print the compiled program: its plan and its BPF code, whichever of bpftrace's stages is named
    #[arg(
        short = 'd',
        value_name = "STAGE",
        value_delimiter = ',',
        value_parser = STAGES,
        hide_short_help = true
    )]
    pub(super) debug: Vec<String>,
    /// Allow functions that act on the system: system(), signal(), …
    #[arg(long)]
    pub(super) r#unsafe: bool,
    /// Only probes whose names match
    #[arg(long, value_name = "REGEX")]
    pub(super) probe_filter: Option<String>,
    /// A file that lists the functions of the kernel that may be probed, as available_filter_functions does
    #[arg(long, value_name = "FILE")]
    pub(super) traceable_functions: Option<PathBuf>,
    /// Print no warnings
    #[arg(long)]
    pub(super) no_warnings: bool,
    /// Report failures of helpers: memory that cannot be read, keys that maps do not have
    #[arg(short = 'k', alias = "warnings", action = clap::ArgAction::Count)]
    pub(super) helper_errors: u8,
    /// Print the program in the language's standard layout, and end
    #[arg(long)]
    pub(super) fmt: bool,
    /// Print what this kernel can do
    #[arg(long)]
    pub(super) info: bool,
    /// Run the `bench:` probes repeatedly and print the time of one run, or run the `test:` probes and print which pass; compile the program only; print it in the standard layout
    #[arg(long = "mode", value_enum, value_name = "MODE")]
    pub(super) mode: Option<RunMode>,
    /// Same as --mode test
    #[arg(long)]
    pub(super) test: bool,
    /// Same as --mode bench
    #[arg(long)]
    pub(super) bench: bool,
    /// When output is written: at once, by line, or when there is much of it
    #[arg(
        short = 'B',
        value_enum,
        value_name = "MODE",
        default_value = "line",
        hide_short_help = true
    )]
    pub(super) buffering: Buffering,
    /// Accepted for compatibility with bpftrace and ignored: types come from the kernel
    #[arg(short = 'I', value_name = "DIR", hide = true)]
    pub(super) include_directory: Vec<PathBuf>,
    /// Accepted for compatibility with bpftrace and ignored: types come from the kernel
    #[arg(long, value_name = "FILE", hide = true)]
    pub(super) include: Vec<PathBuf>,
    /// Accepted for compatibility with bpftrace and ignored: semaphores of USDT probes are always raised by the file
    #[arg(long, hide = true)]
    pub(super) usdt_file_activation: bool,
    /// Do not use a feature of this kernel: kprobe_session (one program for a function's entry and its return), kprobe_multi, uprobe_multi (one link for many functions)
    #[arg(long, value_name = "FEATURE", value_delimiter = ',', value_parser = FEATURES, hide_possible_values = true)]
    pub(super) no_feature: Vec<String>,
    /// Accepted for compatibility with bpftrace and ignored: types always come from the kernel
    #[arg(long, hide = true)]
    pub(super) btf: bool,
    /// Accepted for compatibility with bpftrace and ignored: there is no LLVM here
    #[arg(long, hide = true)]
    pub(super) verify_llvm_ir: bool,
    /// Whether it was called by the name bpftrace
    #[arg(skip)]
    pub(super) as_bpftrace: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// As bpftrace prints
    Text,
    /// One JSON object a line, in bpftrace's shapes
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RunMode {
    /// Compile the program and end
    Codegen,
    /// Benchmarks
    Bench,
    /// Tests
    Test,
    /// Same as --fmt
    Format,
}

impl Options {
    /// Whether a feature of the kernel is not to be used.
    pub(super) fn does_without(&self, feature: &str) -> bool {
        self.no_feature.iter().any(|given| given == feature)
    }

    /// Mode of the run, if it is not an ordinary one: tests or benchmarks.
    pub(super) fn mode(&self) -> Option<RunMode> {
        match (self.test, self.bench) {
            (true, _) => Some(RunMode::Test),
            (false, true) => Some(RunMode::Bench),
            (false, false) => self
                .mode
                .filter(|mode| matches!(mode, RunMode::Test | RunMode::Bench)),
        }
    }

    /// Whether the program is printed in the standard layout instead of being run.
    pub(super) fn formats(&self) -> bool {
        self.fmt || self.mode == Some(RunMode::Format)
    }

    /// Whether the program is compiled and not run.
    pub(super) fn only_compiles(&self) -> bool {
        self.mode == Some(RunMode::Codegen)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Buffering {
    /// As soon as possible
    None,
    /// By line
    Line,
    /// When there is much of it
    Full,
}

/// The features that bpftrace names.
const FEATURES: [&str; 3] = ["kprobe_multi", "kprobe_session", "uprobe_multi"];

/// The stages that bpftrace names.
const STAGES: [&str; 9] = [
    "all",
    "ast",
    "types",
    "codegen",
    "codegen-opt",
    "libbpf",
    "verifier",
    "parse",
    "dis",
];

const EXAMPLES: &str = "\
Examples:
  kestrel run script.bt                       a program of bpftrace's language
  kestrel run -e 'begin { printf(\"hello\\n\"); exit() }'
  kestrel run -e 'tracepoint:sched:sched_switch { @[args.prev_comm] = count() }'
  kestrel run script.bt --trace kestrel.trace the same over a recording
  kestrel run -l 'tracepoint:syscalls:*open*' which events there are; -lv also what is in args
  kestrel run -l script.bt                    the events that a program attaches to";
