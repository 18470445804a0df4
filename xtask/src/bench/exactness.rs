//! `cargo xtask bench exactness`: for each kind of event and each kernel, how many events were sent, recorded, lost and missed, with four busy threads
//! on two CPUs; each row in a guest of its own.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, Result, ensure};
use clap::Args;
use vm_tests::recording::{Counts, counts};

use crate::{
    artifact::{self, Profile},
    guest::{Ending, Program, Stable, Wish, kernel},
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
/// An emulated processor takes its time.
const LONGEST: Duration = Duration::from_secs(300);

/// A kind of event, and how it is recorded.
struct Row {
    name: &'static str,
    event: &'static str,
    /// Whether there is one program, without a second chance (docs/missed-events.md says why).
    single: bool,
}

/// Light handlers record what an event has; heavy ones take the kernel's stack, too.
const ROWS: &[Row] = &[
    Row {
        name: "raw tracepoint, light",
        event: "syscalls:sys_enter_getpriority { record() }",
        single: false,
    },
    Row {
        name: "raw tracepoint, heavy",
        event: "syscalls:sys_enter_getpriority { record(comm, kstack) }",
        single: false,
    },
    Row {
        name: "formatted tracepoint",
        event: "syscalls:sys_enter_getpriority --via classic",
        single: true,
    },
    Row {
        name: "kprobe",
        event: "kprobe:__x64_sys_getpriority { record(comm) }",
        single: false,
    },
    Row {
        name: "kretprobe",
        event: "kretprobe:__x64_sys_getpriority { record(retval) }",
        single: false,
    },
    Row {
        name: "fentry, light",
        event: "fentry:__x64_sys_getpriority { record(pid) }",
        single: true,
    },
    Row {
        name: "fentry, heavy",
        event: "fentry:__x64_sys_getpriority { record(comm, kstack) }",
        single: true,
    },
    Row {
        name: "fexit",
        event: "fexit:__x64_sys_getpriority { record(retval) }",
        single: true,
    },
];

/// Measures and prints; fails where more was missed than promised, or something is not accounted for.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    install::ensure(install::GUESTS)?;
    let base = artifact::base(Profile::Quick)?;
    let sent = THREADS * options.events;
    let mut kept = true;
    println!(
        "{:<10} {:<24} {:>9} {:>9} {:>7} {:>7}",
        "kernel", "event", "sent", "recorded", "lost", "missed"
    );
    for series in &options.kernel {
        let wish = Wish {
            memory_mb: 1024,
            ..Wish::plain(series)
        };
        let stable = Stable::prepare(&wish, &base.init)?;
        for row in ROWS.iter().filter(|row| row.name.contains(&options.row)) {
            let mut guest = stable.guest()?;
            for program in &base.programs {
                guest.copy(&program.path, &format!("/usr/bin/{}", program.name))?;
            }
            let counts = record(&mut guest, row, options.events)?;
            let Counts {
                recorded,
                lost,
                skipped,
                ..
            } = counts;
            let all = recorded + lost + skipped;
            let mut verdict = "";
            if all < sent || recorded > sent {
                (verdict, kept) = ("  not accounted for", false);
            } else if skipped > sent / ONE_IN {
                kept &= row.single;
                verdict = if row.single {
                    "  one program"
                } else {
                    "  more than promised"
                };
            }
            println!(
                "{series:<10} {:<24} {sent:>9} {recorded:>9} {lost:>7} {skipped:>7}{verdict}",
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

fn record(guest: &mut crate::guest::Guest, row: &Row, events: u64) -> Result<Counts> {
    let (event, more) = row.event.split_once(" --").unwrap_or((row.event, ""));
    let more = if more.is_empty() {
        String::new()
    } else {
        format!("--{more}")
    };
    let line = format!(
        "kestrel record -a -o /tmp/trace --buffer-size 64M {more} -e '{event}' -- calls getpriority {events} {THREADS} 2>&1"
    );
    let (ending, out) = guest.capture(&Program {
        argv: ["sh", "-c", &line].map(str::to_owned).to_vec(),
        env: Vec::new(),
        limit: LONGEST,
    })?;
    let said = String::from_utf8_lossy(&out).into_owned();
    ensure!(ending == Ending::Exited(0), "{}: {ending:?}: {said}", row.name);
    let told = said.contains("; lost ").then(|| counts(&said));
    told.with_context(|| format!("{}: counts in {said:?}", row.name))
}
