//! `kestrel sched record`: the scheduler's events of all tasks, or of some, into a trace directory.

use crate::arguments::{DEFAULT_TRACE, directory};
use crate::exit::{Exit, Failure};
use crate::recording::{self, RecordingOptions};
use crate::selection::Selection;
use clap::Args;
use std::path::PathBuf;

/// Options of `sched record`.
#[derive(Args, Debug)]
#[command(
    after_help = EXAMPLES,
    mut_arg("events", |arg| arg.help("Also this event; may be repeated")),
    mut_arg("stacks", |arg| arg.help("Record the kernel's call stack where a task leaves its CPU")),
    mut_arg("all", |arg| arg.help("All tasks, which is the default, with a command too")),
    mut_arg("command", |arg| arg.help("A command to run; all tasks are recorded until it ends")),
    mut_arg("kernel_stack", |arg| arg.hide(true)),
    mut_arg("pid", |arg| arg.help("Record only these processes: their switches, to them and from them, and their wakeups; the questions are then about them alone")),
    mut_arg("tid", |arg| arg.help("Record only these threads, as -p")),
    mut_arg("only_own", |arg| arg.hide(true)),
    mut_arg("table", |arg| arg.hide(true)),
    mut_arg("table_name", |arg| arg.hide(true)),
    mut_arg("parameters", |arg| arg.hide(true)),
)]
pub(crate) struct Options {
    #[command(flatten)]
    selection: Selection,
    /// The trace directory; an old trace there is kept as DIR.old
    #[arg(short, long, value_name = "DIR", default_value = DEFAULT_TRACE, value_parser = directory())]
    output: PathBuf,
    /// Keep the newest events: overwrite the oldest when a ring is full, and write the rings out at the end
    #[arg(long)]
    overwrite: bool,
}

const EXAMPLES: &str = "\
Examples:
  kestrel sched record -- make                 all tasks while a command runs
  kestrel sched record --duration 5            all tasks for five seconds
  kestrel sched record -g --duration 1         with the kernel's call stack where tasks leave their CPU
  kestrel sched record -e 'irq:*' -- make      with events of interrupts
  kestrel sched record -p 1234 --duration 5    one process: what it waits for, and what wakes it
  kestrel sched record --overwrite             the newest events until Ctrl-C

`kestrel sched latency`, `timehist`, `map` and `wakeups` show the trace; so do `kestrel print` and `kestrel report`.";

const SWITCH: &str = "sched:sched_switch";
const SWITCH_WITH_STACK: &str = "sched:sched_switch { record(args.prev_comm, args.prev_pid, args.prev_prio, args.prev_state, \
     args.next_comm, args.next_pid, args.next_prio, kstack) }";

/// Events recorded beside switches: wakeups from both sides, moves, the time that the scheduler charges, and whatever gives tasks their names.
const EVENTS: &[&str] = &[
    "sched:sched_waking",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_stat_runtime",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "task:task_rename",
];

/// Runs `kestrel sched record`.
pub(super) fn run(mut options: Options) -> Result<Exit, Failure> {
    if options.selection.names_table() || options.selection.targets.only_own {
        let failure = Failure::new(
            Exit::Usage,
            "sched record takes no --table and no --only-own: delays are made of what others do to a task, too",
        );
        return Err(failure.hint("`kestrel sched record -p PID` records what is about one process"));
    }
    let switch = match options.selection.take_stacks() {
        true => SWITCH_WITH_STACK,
        false => SWITCH,
    };
    let events = std::iter::once(&switch).chain(EVENTS);
    let events = events.map(|event| (*event).to_owned()).collect();
    let selection = options.selection.with_events(events);
    let keep = RecordingOptions {
        newest: options.overwrite,
        ..RecordingOptions::default()
    };
    recording::run(&selection, &options.output, keep)
}
