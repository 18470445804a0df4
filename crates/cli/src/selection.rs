//! The options that select events, processes, buffers and the command to trace, shared by `record` and `trace`, and the plan made of them.

use crate::actor::Rights;
use crate::arguments::{duration, size};
use crate::call_graph::{CallGraph, call_graph};
use crate::events::Events;
use crate::exit::{Exit, Failure};
use crate::sampling::Sampling;
use crate::style;
use crate::targets::{Targets, nobodys_own};
use clap::{Args, ValueEnum};
use kestrel::buffer::bell::Bell;
use kestrel::buffer::layout::{MIN_BYTES, Mode};
use kestrel::catalog::{Catalog, Via};
use kestrel::kernel::Host;
use kestrel::kernel::process::PausedCommand;
use kestrel::plan::{Options, Plan, Source, UserStack};
use kestrel::session::process_filter::ProcessFilter;
use kestrel::syscalls::EntryStacks;
use kestrel::table::shipped::open;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::Write;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Selection of what to trace, from the command line.
#[derive(Args, Debug)]
pub(crate) struct Selection {
    #[command(flatten)]
    events: Events,
    /// Events, handlers and buffers of a table file, or of one that comes with Kestrel (`kestrel table list --shipped`): its first table is
    /// active
    #[arg(long, value_name = "FILE", conflicts_with_all = ["events", "filters"])]
    table: Option<String>,
    /// Start with this table of the file instead of its first
    #[arg(long, value_name = "TABLE", requires = "table")]
    table_name: Option<String>,
    /// Set a parameter of the table file; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", requires = "table")]
    parameters: Vec<String>,
    #[command(flatten)]
    pub(crate) targets: Targets,
    /// Trace all processes (the default without -p and COMMAND); with COMMAND: all processes while it runs
    #[arg(short, long, alias = "all-cpus", conflicts_with_all = ["pid", "tid"])]
    all: bool,
    /// Also record Kestrel's own system calls and scheduling events, which are left out otherwise
    #[arg(long)]
    include_self: bool,
    /// Record the kernel and user call stacks with each event that has no block
    #[arg(short = 'g', long = "stacks", conflicts_with = "table")]
    stacks: bool,
    /// Record call stacks as -g does, those of processes by frame pointers (fp) or from a copy of the stack (dwarf), which needs none: BYTES of
    /// it (8 to 65528) [default: 8192], unwound by .eh_frame when the recording ends
    #[arg(long, value_name = "fp|dwarf[,BYTES]", conflicts_with = "table", value_parser = call_graph)]
    pub(crate) call_graph: Option<CallGraph>,
    /// Record the kernel call stack with each event that has no block
    #[arg(long, conflicts_with = "table")]
    kernel_stack: bool,
    /// Record tracefs's flags with each event that has no block (rescheduling needed, in an interrupt, how often preemption was off; interrupts
    /// off: of kprobes, and from Linux 6.14 on of all events), for `print --format tracefs`; `trace --format tracefs` does it without being asked
    #[arg(long, conflicts_with = "table")]
    flags: bool,
    /// Ring size per CPU: bytes, or with K, M, G; rounded up to a power of two [default: 4M, or what the table file says]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    buffer_size: Option<u64>,
    /// Stop after this time: seconds, or with ms, s, m, h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Duration>,
    #[command(flatten)]
    sampling: Sampling,
    #[command(flatten)]
    pub(crate) rights: Rights,
    /// How tracepoints are read
    #[arg(long, value_enum, default_value = "auto", hide_short_help = true)]
    via: ViaOption,
    /// Do not miss events in interrupts that arrive while a handler runs, on kernels that would miss them; an event costs three times as much
    #[arg(long, hide_short_help = true)]
    nested: bool,
    /// Print the plan (programs, maps, records) and exit; nothing is loaded
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print how events are attached, how long that took, and the BPF code
    #[arg(short, long, overrides_with = "verbose")]
    pub(crate) verbose: bool,
    /// Print nothing but errors and what was lost or missed: no counts, hints or status line
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// A command to run and trace, from its exec to its exit, children included; -- before it may be left out
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ViaOption {
    /// Raw arguments where Kestrel can compute the fields from them, else the formatted entry
    Auto,
    /// Raw arguments only
    Raw,
    /// The kernel's formatted entry only
    Classic,
}

impl Selection {
    /// The event specifications of -e, as the language has them.
    pub(crate) fn events(&self, catalog: &Catalog) -> Result<Vec<String>, Failure> {
        self.sampling.events(&self.events.texts(catalog)?)
    }

    /// The selection with these events before its own, of all processes where none are named.
    pub(crate) fn with_events(self, events: Vec<String>) -> Self {
        Self {
            events: self.events.behind(events),
            all: true,
            ..self
        }
    }

    /// The call stacks that are asked for.
    pub(crate) fn entry_stacks(&self) -> EntryStacks {
        EntryStacks {
            kernel: self.stacks || self.kernel_stack || self.call_graph.is_some(),
            user: match (self.call_graph, self.stacks) {
                (Some(call_graph), _) => call_graph.user_stack(),
                (None, true) => UserStack::FramePointers,
                (None, false) => UserStack::Nothing,
            },
        }
    }

    /// Whether call stacks are asked for; from now on they are not.
    pub(crate) fn take_stacks(&mut self) -> bool {
        let stacks = std::mem::take(&mut self.stacks);
        std::mem::take(&mut self.kernel_stack) || stacks
    }

    /// Whether programs that write to our terminal run meanwhile: the traced command, or those of handlers.
    pub(crate) fn shares_terminal(&self) -> bool {
        !self.command.is_empty() || self.rights.may_run()
    }

    /// Whether a table file is named.
    pub(crate) fn names_table(&self) -> bool {
        self.table.is_some()
    }
}

/// Forks the command to trace and holds it before its exec, if one was given.
pub(crate) fn start_held(selection: &Selection) -> Result<Option<PausedCommand>, Failure> {
    hold(&selection.command)
}

/// Forks a command and holds it before its exec, if there is one.
pub(crate) fn hold(command: &[OsString]) -> Result<Option<PausedCommand>, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Ok(None);
    };
    let mut command = Command::new(place_of(program)?);
    command.arg0(program).args(arguments);
    Ok(Some(PausedCommand::start(command)?))
}

/// Finds the file of a program that can be executed: an exec that fails would come after the old trace was replaced, and those with which the C library tries one
/// folder of `PATH` after the other would be among the command's events.
fn place_of(program: &OsStr) -> Result<PathBuf, Failure> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    let may_run = |file: &Metadata| file.permissions().mode() & 0o111 != 0;
    let fails = |why: String| {
        Err(Failure::new(
            Exit::Failed,
            format!("cannot run `{}`: {why}", program.display()),
        ))
    };
    if !program.as_bytes().contains(&b'/') {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // A folder without a name is the current one.
        let places = std::env::split_paths(&path).map(|folder| Path::new(".").join(folder).join(program));
        let files: Vec<PathBuf> = places.filter(|place| place.is_file()).collect();
        let first = files
            .iter()
            .find(|place| place.metadata().is_ok_and(|file| may_run(&file)));
        return match first.or(files.first()) {
            Some(place) => Ok(place.clone()),
            None => fails("no folder of PATH has such a program".to_owned()),
        };
    }
    match std::fs::metadata(program) {
        Ok(file) if file.is_dir() => fails("it is a directory".to_owned()),
        Ok(file) if !may_run(&file) => fails("it is not executable (chmod +x)".to_owned()),
        Ok(_) => Ok(program.into()),
        Err(error) => fails(error.to_string()),
    }
}

/// Prints the plan: to stdout with `--dry-run`, to stderr with `--verbose`. Returns whether it was a dry run.
pub(crate) fn print_plan(selection: &Selection, plan: &Plan) -> Result<bool, Failure> {
    if !selection.dry_run && !selection.verbose {
        return Ok(false);
    }
    let text = kestrel::plan::show(plan, selection.verbose)?;
    if selection.dry_run {
        crate::screen::out().write_all(text.as_bytes())?;
    } else {
        eprint!("{text}");
    }
    Ok(selection.dry_run)
}

/// The process filter: what is named, the command, or all processes.
fn target(
    selection: &Selection,
    held: Option<&PausedCommand>,
    host: &Host,
) -> Result<ProcessFilter, Failure> {
    let named = selection.targets.find(host)?;
    let held = held.filter(|_| !selection.all);
    match (named, held) {
        (Some(named), _) => Ok(named),
        (None, Some(held)) => Ok(ProcessFilter::Command(held.pid())),
        (None, None) if selection.targets.only_own => Err(nobodys_own("-p, -t or `-- COMMAND` without -a")),
        (None, None) => Ok(ProcessFilter::All),
    }
}

/// The catalog of events, with `--nested` applied.
pub(crate) fn catalog(selection: &Selection) -> Catalog {
    let catalog = Catalog::new(Host::default());
    match selection.nested {
        true => catalog.with_nested_hits(),
        false => catalog,
    }
}

fn via(selection: &Selection) -> Via {
    match selection.via {
        ViaOption::Auto => Via::Auto,
        ViaOption::Raw => Via::Raw,
        ViaOption::Classic => Via::Classic,
    }
}

/// The options of the planner.
fn options(
    selection: &Selection,
    held: Option<&PausedCommand>,
    (mode, bell): (Mode, Bell),
    host: &Host,
) -> Result<Options, Failure> {
    let stacks = selection.entry_stacks();
    Ok(Options {
        target: target(selection, held, host)?,
        only_own: selection.targets.only_own,
        cpus: selection.targets.cpus(host)?,
        leave_out: (!selection.include_self).then(std::process::id),
        kernel_stack: stacks.kernel,
        user_stack: stacks.user,
        mode: Some(mode),
        buffer_bytes: selection.buffer_size,
        via: via(selection),
        // A live view takes messages with its other records.
        messages: bell == Bell::QuarterFull,
        bell,
        ..Options::default()
    })
}

/// Makes the plan and checks it; warnings go to stderr.
pub(crate) fn plan(
    selection: &Selection,
    held: Option<&PausedCommand>,
    (mode, bell): (Mode, Bell),
    catalog: &Catalog,
) -> Result<Plan, Failure> {
    planned(selection, held, (mode, bell), selection.flags, catalog)
}

/// Makes the plan with tracefs's flags where this kernel says them.
pub(crate) fn plan_with_flags(
    selection: &Selection,
    held: Option<&PausedCommand>,
    mode: (Mode, Bell),
    catalog: &Catalog,
) -> Result<Plan, Failure> {
    let flags = selection.flags || catalog.learn_preempt_count();
    planned(selection, held, mode, flags, catalog)
}

fn planned(
    selection: &Selection,
    held: Option<&PausedCommand>,
    mode: (Mode, Bell),
    flags: bool,
    catalog: &Catalog,
) -> Result<Plan, Failure> {
    let events = selection.events(catalog)?;
    if events.is_empty() && selection.table.is_none() {
        let failure = Failure::new(Exit::Usage, "nothing says what to trace");
        return Err(failure.hint(
            "-e EVENT does (`kestrel list` shows the events there are), --syscalls for system calls, -F 99 for a profile, or --table FILE",
        ));
    }
    let options = Options {
        flags,
        ..checked_options(selection, held, mode, catalog)?
    };
    match &selection.table {
        Some(name) => table(selection, name, &options, catalog),
        None => of_events(&events, &options, catalog),
    }
}

/// Makes the plan of these events instead of those of `-e`.
pub(crate) fn plan_of(
    events: &[String],
    selection: &Selection,
    held: Option<&PausedCommand>,
    mode: (Mode, Bell),
    catalog: &Catalog,
) -> Result<Plan, Failure> {
    let options = checked_options(selection, held, mode, catalog)?;
    of_events(events, &options, catalog)
}

fn checked_options(
    selection: &Selection,
    held: Option<&PausedCommand>,
    mode: (Mode, Bell),
    catalog: &Catalog,
) -> Result<Options, Failure> {
    if selection.buffer_size.is_some_and(|size| size < MIN_BYTES) {
        remark!(
            "a ring takes at least {} per CPU: --buffer-size is rounded up",
            style::bytes(MIN_BYTES)
        );
    }
    options(selection, held, mode, catalog.host())
}

fn of_events(events: &[String], options: &Options, catalog: &Catalog) -> Result<Plan, Failure> {
    let plan = kestrel::plan::plan(Source::Events(events), options, catalog)?;
    for (text, warning) in &plan.warnings {
        eprintln!("{}", style::diagnostics(std::slice::from_ref(warning), text));
    }
    Ok(plan)
}

/// Makes the plan of a table file.
fn table(selection: &Selection, name: &str, options: &Options, catalog: &Catalog) -> Result<Plan, Failure> {
    let mut file = open(name)?;
    if let Some(first) = &selection.table_name {
        file.start_with(first)?;
    }
    for setting in &selection.parameters {
        let Some((name, value)) = setting.split_once('=') else {
            let message = format!("`{setting}` does not set a parameter: it should read NAME=VALUE");
            return Err(Failure::new(Exit::Usage, message));
        };
        file.set(name.trim(), value.trim())?;
    }
    let plan = kestrel::plan::plan(Source::File(&file), options, catalog)?;
    for (_, warning) in &plan.warnings {
        let one = std::slice::from_ref(warning);
        eprintln!("{}", style::diagnostics_in(&file.name, one, &file.text));
    }
    Ok(plan)
}
