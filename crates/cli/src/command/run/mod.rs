//! `kestrel run`: a program of the language, as bpftrace runs it.

use crate::exit::{Exit, Failure};
use crate::foreground::{Foreground, Work, detach};
use crate::output::losses::report_lost;
use crate::selection::hold;
use crate::style;
use clap::{Args, ValueEnum};
use kestrel::buffer::bell::Bell;
use kestrel::buffer::layout::Mode;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::language::config::Config;
use kestrel::language::expand::Inputs;
use kestrel::plan::{Options as PlanOptions, Plan, ProgramText, Source};
use kestrel::script::{Perform, Running};
use kestrel::session::Session;
use kestrel::session::process_filter::ProcessFilter;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Duration;

/// Options of `run`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The program's file, or - for standard input
    #[arg(value_name = "SCRIPT", required_unless_present = "program")]
    script: Option<OsString>,
    /// The program itself
    #[arg(short = 'e', value_name = "PROGRAM")]
    program: Option<String>,
    /// Values of $1, $2, … and of named parameters
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true)]
    arguments: Vec<OsString>,
    /// A command to run meanwhile: the program ends with it
    #[arg(short = 'c', value_name = "COMMAND")]
    command: Option<String>,
    /// A folder in which debug files of programs may lie, too
    #[arg(long, value_name = "DIR")]
    debuginfo: Vec<PathBuf>,
    /// The process whose functions and marks are probed; the program ends with it
    #[arg(short = 'p', value_name = "PID")]
    pid: Option<u32>,
    /// How output looks
    #[arg(short = 'f', value_enum, default_value = "text")]
    format: OutputFormat,
    /// Write output to a file
    #[arg(short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print nothing but the program's own output
    #[arg(short, long)]
    quiet: bool,
    /// Print the plan (programs, maps, records) and exit; nothing is loaded
    #[arg(long)]
    dry_run: bool,
    /// Print how events are attached, how long that took, and the BPF code
    #[arg(short, long)]
    verbose: bool,
    /// Let the program run commands: system()
    #[arg(long)]
    r#unsafe: bool,
    /// Taken for scripts that give it to bpftrace: nothing here is made by LLVM
    #[arg(long, hide = true)]
    verify_llvm_ir: bool,
    /// When output is written: at once, by line, or when there is much of it
    #[arg(short = 'B', value_name = "MODE", hide_short_help = true)]
    buffering: Option<String>,
    /// Print no warnings
    #[arg(long)]
    no_warnings: bool,
    /// Taken for scripts of bpftrace: types come from the kernel
    #[arg(short = 'I', value_name = "DIR", hide = true)]
    include_directory: Vec<PathBuf>,
    /// Taken for scripts of bpftrace: types come from the kernel
    #[arg(long, value_name = "FILE", hide = true)]
    include: Vec<PathBuf>,
    /// Say what goes wrong in helpers: -k errors, -kk all
    #[arg(short = 'k', action = clap::ArgAction::Count, hide_short_help = true)]
    helper_errors: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// As bpftrace prints
    Text,
    /// One JSON object a line, in bpftrace's shapes
    Json,
}

const EXAMPLES: &str = "\
Examples:
  kestrel run script.bt                       a program of bpftrace's language
  kestrel run -e 'begin { printf(\"hello\\n\"); exit() }'
  kestrel run -e 'tracepoint:sched:sched_switch { @[args.prev_comm] = count() }'";

/// The pause between two polls while records wait for others that may be earlier.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The pause where nothing waits and the first record will end it.
const CALM: Duration = Duration::from_millis(200);

/// Runs.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let program = read(options)?;
    let catalog = Catalog::new(Host::default()).with_debug_files(options.debuginfo.clone());
    let held = match &options.command {
        Some(command) if !options.dry_run => hold(&split(command))?,
        _ => None,
    };
    let target = options
        .pid
        .map_or(ProcessFilter::All, |pid| ProcessFilter::Processes(vec![pid]));
    let plan = plan(&program, options, &catalog)?;
    if options.dry_run || options.verbose {
        let text = kestrel::plan::show(&plan, options.verbose)?;
        match options.dry_run {
            true => {
                crate::screen::out().write_all(text.as_bytes())?;
                return Ok(Exit::Done);
            }
            false => eprint!("{text}"),
        }
    }
    let mut foreground = Foreground::new(None)?.with_target(&target, catalog.host());
    let session = Session::start(&plan, &catalog, &crate::arguments::command_line())?;
    let symbols = kestrel::record::live_symbols(&session, catalog.host());
    let json = options.format == OutputFormat::Json;
    let out: Box<dyn Write> = match &options.output {
        Some(path) => Box::new(
            std::fs::File::create(path)
                .map_err(|e| Failure::new(Exit::Failed, format!("cannot write {}: {e}", path.display())))?,
        ),
        None => Box::new(crate::screen::out()),
    };
    let mut work = ProgramRun {
        running: Running::new(session),
        perform: Perform::new(symbols, catalog.host().clone(), json),
        out,
    };
    attached(&plan, options)?;
    work.running.begin(&mut work.perform)?;
    work.write()?;
    foreground.release(held)?;
    foreground.run(&mut work)?;
    report_lost(&work.running.live_mut().lost());
    detach(work.running.session_mut());
    match work.running.exit() {
        Some(code) if code != 0 => std::process::exit(code as i32),
        _ => Ok(foreground.exit()),
    }
}

/// Says how many probes are attached.
fn attached(plan: &Plan, options: &Options) -> Result<(), Failure> {
    let probes: usize = plan
        .hooks
        .iter()
        .filter(|hook| !hook.companion)
        .map(|hook| hook.instances.len())
        .sum();
    if !options.quiet {
        match options.format {
            OutputFormat::Json => {
                println!("{{\"type\": \"attached_probes\", \"data\": {{\"probes\": {probes}}}}}")
            }
            OutputFormat::Text => println!("Attached {probes} probe{}", if probes == 1 { "" } else { "s" }),
        }
    }
    if std::env::var_os("__BPFTRACE_NOTIFY_PROBES_ATTACHED").is_some() {
        println!("__BPFTRACE_NOTIFY_PROBES_ATTACHED");
    }
    Ok(())
}

/// Reads the program.
fn read(options: &Options) -> Result<ProgramText, Failure> {
    let (name, text) = match (&options.program, &options.script) {
        (Some(program), _) => ("<program>".to_owned(), program.clone()),
        (None, Some(path)) => {
            let path = std::path::Path::new(path);
            let mut text = String::new();
            let fails = |e: std::io::Error| {
                Failure::new(Exit::Failed, format!("cannot read {}: {e}", path.display()))
            };
            match path.as_os_str() == "-" {
                true => std::io::stdin().read_to_string(&mut text).map_err(fails)?,
                false => std::fs::File::open(path)
                    .and_then(|mut file| file.read_to_string(&mut text))
                    .map_err(fails)?,
            };
            (path.display().to_string(), text)
        }
        (None, None) => return Err(Failure::new(Exit::Usage, "there is no program")),
    };
    let arguments = match (&options.program, &options.script) {
        (Some(_), Some(first)) => std::iter::once(first).chain(&options.arguments).collect(),
        _ => options.arguments.iter().collect::<Vec<_>>(),
    };
    let (mut positional, mut named) = (Vec::new(), Vec::new());
    for word in arguments {
        let word = word.to_string_lossy();
        match word.strip_prefix("--") {
            Some(option) if !option.is_empty() => {
                let (name, value) = match option.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (option, None),
                };
                named.push((name.to_owned(), value));
            }
            _ => positional.push(word.into_owned()),
        }
    }
    let inputs = Inputs {
        positional: &positional,
        named: &named,
        ..Inputs::default()
    };
    Ok(ProgramText::read(&name, &text, Config::default(), &inputs)?)
}

fn plan(program: &ProgramText, given: &Options, catalog: &Catalog) -> Result<Plan, Failure> {
    let options = PlanOptions {
        mode: Some(Mode::Stream),
        bell: Bell::Records,
        allows_unsafe: given.r#unsafe,
        max_map_keys: u32::try_from(program.config.max_map_keys).ok(),
        ..PlanOptions::default()
    };
    let plan = kestrel::plan::plan(Source::Program(program), &options, catalog)?;
    for (text, warning) in plan.warnings.iter().filter(|_| !given.no_warnings) {
        eprintln!("{}", style::diagnostics(std::slice::from_ref(warning), text));
    }
    Ok(plan)
}

/// The words of a command.
fn split(command: &str) -> Vec<OsString> {
    command.split_whitespace().map(OsString::from).collect()
}

/// A program that runs.
struct ProgramRun {
    running: Running,
    perform: Perform,
    out: Box<dyn Write>,
}

impl ProgramRun {
    /// Writes what was printed.
    fn write(&mut self) -> Result<(), Failure> {
        self.out.write_all(&self.perform.out)?;
        self.out.flush()?;
        self.perform.out.clear();
        if !self.perform.err.is_empty() {
            crate::screen::err().write_all(&self.perform.err)?;
            self.perform.err.clear();
        }
        Ok(())
    }
}

impl Work for ProgramRun {
    fn poll(&mut self, last: bool) -> Result<Duration, Failure> {
        if last || self.running.exit().is_some() {
            self.running.end(&mut self.perform)?;
            self.perform.maps(self.running.session())?;
            self.write()?;
            return Ok(Duration::ZERO);
        }
        let came = self.running.poll(&mut self.perform)?;
        self.write()?;
        Ok(match came {
            0 if self.running.has_waiting() => POLL_INTERVAL,
            0 => CALM,
            _ => Duration::ZERO,
        })
    }

    fn has_ended(&self) -> bool {
        self.running.exit().is_some()
    }

    fn bells(&self) -> Vec<BorrowedFd<'_>> {
        let bell = self.running.session().bell();
        bell.filter(|_| !self.running.has_waiting()).into_iter().collect()
    }
}
