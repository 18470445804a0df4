//! `cargo xtask bench exactness`: for each kind of event and each kernel, how many events were sent, recorded, lost and missed, with four busy threads
//! on two CPUs; each row in a guest of its own.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, Result};
use clap::Args;
use vm_tests::recording::{Counts, counts};

use crate::{
    artifact::{self, Profile},
    guest::{GuestSpec, GuestTemplate, kernel},
    install,
};

/// Count what was sent, recorded, lost and missed, by kind of event and kernel.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Kernel series, several with commas.
    #[arg(long, value_delimiter = ',', default_values = kernel::MATRIX.iter().copied())]
    kernel: Vec<String>,
    /// Events that each thread sends.
    #[arg(long, default_value_t = 200_000)]
    events: u64,
    /// Only rows whose name contains this.
    #[arg(long, default_value = "")]
    row: String,
}

/// Threads that send.
const THREADS: u64 = 4;
/// Of so many events one may be missed.
const ONE_IN: u64 = 100_000;
/// Time limit of one run: emulation is slow.
const LONGEST: Duration = Duration::from_secs(300);

/// A kind of event, and how it is recorded.
struct Row {
    name: &'static str,
    event: &'static str,
    /// Source of the number of events that there were.
    sent: Sent,
    /// Whether a session's tables take turns, in the place of a recording.
    by_turns: bool,
    /// Whether any number may be missed, as long as it is reported: one guard stands before all such programs of a CPU.
    unbounded: bool,
}

/// Number of events that there were.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// The number that the threads were asked for.
    Asked,
    /// The kernel's own count (a `hist` trigger on this tracepoint), where threads do more than they were asked for, or interrupts come meanwhile.
    Counted(&'static str),
}

/// A hook in which interrupts meet threads: files are freed by interrupts.
const INTERRUPTED: &str = "kmem/kmem_cache_free";

/// A session whose two tables take turns while the threads call, as often as the command can be run.
const TAKING_TURNS: &str = "echo 'buffer main { size = 64M } \
    table one { syscalls:sys_enter_getpriority { record() } } \
    table two { syscalls:sys_enter_getpriority { record(comm) } }' > /tmp/turns.kst && \
    kestrel start /tmp/turns.kst > /tmp/started 2>&1 && { calls getpriority EVENTS THREADS & } && \
    while kill -0 $! 2> /dev/null; do kestrel table use two && kestrel table use one || exit 1; done; \
    wait $! && kestrel status --format json";

/// Light handlers record what an event has; heavy ones take the kernel's stack, too.
const ROWS: &[Row] = &[
    row(
        "system call, light",
        "syscalls:sys_enter_getpriority { record() }",
    ),
    row(
        "system call, heavy",
        "syscalls:sys_enter_getpriority { record(comm, kstack) }",
    ),
    row(
        "raw tracepoint, light",
        "syscalls:sys_enter_getpriority { record() } --via raw",
    ),
    row(
        "raw tracepoint, heavy",
        "syscalls:sys_enter_getpriority { record(comm, kstack) } --via raw",
    ),
    row("its return", "syscalls:sys_exit_getpriority { record() }"),
    Row {
        sent: Sent::Counted(INTERRUPTED),
        ..row(
            "with interrupts",
            "kmem:kmem_cache_free /comm == \"calls\"/ { record(kstack) } --nested",
        )
    },
    Row {
        sent: Sent::Counted("syscalls/sys_enter_openat"),
        ..row(
            "system call, its text",
            "syscalls:sys_enter_openat /comm == \"calls\"/ { record(str(args.filename)) }",
        )
    },
    Row {
        unbounded: true,
        ..row(
            "formatted tracepoint",
            "syscalls:sys_enter_getpriority --via classic",
        )
    },
    Row {
        by_turns: true,
        ..row("tables that take turns", "syscalls:sys_enter_getpriority")
    },
    row("kprobe", "kprobe:__x64_sys_getpriority { record(comm) }"),
    row("kretprobe", "kretprobe:__x64_sys_getpriority { record(retval) }"),
    row("fentry, light", "fentry:__x64_sys_getpriority { record(pid) }"),
    row(
        "fentry, heavy",
        "fentry:__x64_sys_getpriority { record(comm, kstack) }",
    ),
    row("fexit", "fexit:__x64_sys_getpriority { record(retval) }"),
];

const fn row(name: &'static str, event: &'static str) -> Row {
    Row {
        name,
        event,
        sent: Sent::Asked,
        by_turns: false,
        unbounded: false,
    }
}

/// Measures and prints; fails where more was missed than promised, or something is not accounted for.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    install::ensure(install::GUESTS)?;
    let base = artifact::base(Profile::Quick)?;
    let mut kept = true;
    println!(
        "{:<10} {:<24} {:>9} {:>9} {:>7} {:>7}",
        "kernel", "event", "sent", "recorded", "lost", "missed"
    );
    for series in &options.kernel {
        let spec = GuestSpec {
            memory_mb: 1024,
            ..GuestSpec::plain(series)
        };
        let stable = GuestTemplate::prepare(&spec, &base.init)?;
        for row in ROWS.iter().filter(|row| row.name.contains(&options.row)) {
            let mut guest = stable.guest()?;
            for program in &base.programs {
                guest.copy(&program.path, &format!("/usr/bin/{}", program.name))?;
            }
            let (counts, sent) = if row.by_turns {
                take_turns(&mut guest, row, options.events)?
            } else {
                record(&mut guest, row, options.events)?
            };
            let Counts {
                recorded,
                lost,
                missed,
                ..
            } = counts;
            // Hits of other processes may be missed, too: only recorded ones can be too many.
            let all = recorded + lost + missed;
            let mut verdict = "";
            if all < sent || recorded > sent {
                (verdict, kept) = ("  not accounted for", false);
            } else if missed > sent / ONE_IN && row.unbounded {
                verdict = "  unbounded by design";
            } else if missed > sent / ONE_IN {
                (verdict, kept) = ("  more than promised", false);
            }
            println!(
                "{series:<10} {:<24} {sent:>9} {recorded:>9} {lost:>7} {missed:>7}{verdict}",
                row.name
            );
        }
    }
    Ok(if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn record(guest: &mut crate::guest::Guest, row: &Row, events: u64) -> Result<(Counts, u64)> {
    let (event, more) = row.event.split_once(" --").unwrap_or((row.event, ""));
    let more = if more.is_empty() {
        String::new()
    } else {
        format!("--{more}")
    };
    let (what, before, after) = match row.sent {
        Sent::Asked => ("getpriority", String::new(), String::new()),
        Sent::Counted(tracepoint) => {
            let folder = format!("/sys/kernel/tracing/events/{tracepoint}");
            (
                "open",
                format!("echo 'hist:keys=common_pid if comm == \"calls\"' > {folder}/trigger && "),
                format!(" && cat {folder}/hist"),
            )
        }
    };
    // Opening takes longer than asking.
    let times = if what == "open" { events / 10 } else { events };
    let line = format!(
        "({before}kestrel record -a -o /tmp/trace --buffer-size 64M {more} -e '{event}' -- calls {what} {times} {THREADS}{after}) 2>&1"
    );
    let output = guest.output(&["sh", "-c", &line], LONGEST).context(row.name)?;
    let counted = output.contains("; lost ").then(|| counts(&output));
    let counted = counted.with_context(|| format!("{}: counts in {output:?}", row.name))?;
    let sent = match row.sent {
        Sent::Asked => THREADS * events,
        Sent::Counted(_) => {
            let hits = output.lines().find_map(|line| line.trim().strip_prefix("Hits:"));
            let hits = hits.and_then(|number| number.trim().parse().ok());
            hits.with_context(|| format!("{}: hits in {output:?}", row.name))?
        }
    };
    Ok((counted, sent))
}

fn take_turns(guest: &mut crate::guest::Guest, row: &Row, events: u64) -> Result<(Counts, u64)> {
    let line = TAKING_TURNS
        .replace("EVENTS", &events.to_string())
        .replace("THREADS", &THREADS.to_string());
    let output = guest.output(&["sh", "-c", &line], LONGEST).context(row.name)?;
    let status: serde_json::Value =
        serde_json::from_str(&output).with_context(|| format!("{}: a status in {output:?}", row.name))?;
    let number = |pointer: &str| {
        let found = status.pointer(pointer).and_then(serde_json::Value::as_u64);
        found.with_context(|| format!("{}: {pointer} in {output:?}", row.name))
    };
    let counts = Counts {
        recorded: number("/events/0/recorded")?,
        lost: number("/events/0/lost")?,
        missed: number("/programs/0/missed")?,
        ..Counts::default()
    };
    Ok((counts, THREADS * events))
}
