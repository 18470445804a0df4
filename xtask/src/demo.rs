//! `cargo xtask demo`: a real workload recorded and reported, on this machine where that works, else in a guest.

use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use vm_tests::protocol::Stream;

use crate::{
    artifact::{self, Base, Profile},
    guest::{ExitStatus, GuestSpec, GuestTemplate, Program, kernel},
    install,
    tally::Tally,
};

/// Events of the recording: who runs when, who wakes whom, who opens what.
const EVENTS: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_wakeup",
    "syscalls:sys_enter_openat",
];

/// Seconds after which recording ends though the workload goes on.
const SECONDS: u32 = 5;

/// Here: a compiler at work.
const HOST_WORKLOAD: &str = r#"
cd "$(mktemp -d)" || exit 1
for n in $(seq 48); do
    printf '#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint f%s(int a) { return printf("%%d", a); }\n' $n > f$n.c
    cc -O2 -c f$n.c &
    [ $((n % 4)) = 0 ] && wait && tar cf - . | gzip > all.tar.gz && sleep 0.05
done
wait
rm -r "$PWD"
"#;

/// There: what a shell and its tools can do.
const GUEST_WORKLOAD: &str = r#"
for n in 1 2 3 4 5 6 7 8; do
    find /proc /sys/kernel/btf /bin -maxdepth 2 -type f 2>/dev/null | sort | gzip > /tmp/list.$n &
    cat /proc/[0-9]*/status /proc/interrupts 2>/dev/null | wc -l > /tmp/count.$n
    [ $((n % 4)) = 0 ] && wait
done
wait
"#;

/// Record a workload and print a report.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Use a guest even where this machine would do.
    #[arg(long)]
    guest: bool,
    /// The guest's kernel series.
    #[arg(long, default_value = kernel::DEFAULT)]
    kernel: String,
}

/// Records, reports, and says where and why.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let base = artifact::base(Profile::Quick)?;
    let kestrel = base
        .programs
        .iter()
        .find(|program| program.name == "kestrel")
        .context("cargo built no kestrel")?;
    let trace = crate::workspace::root().join("target/demo");
    let _ = fs::remove_dir_all(&trace);
    let why_not = if options.guest {
        Err("a guest was asked for".to_owned())
    } else {
        record_here(&kestrel.path, &trace)?
    };
    let place = match why_not {
        Ok(()) => "this machine, because it can".to_owned(),
        Err(reason) => {
            let release = record_in_guest(&base, &options.kernel, &trace)?;
            format!("a guest with kernel {release}, because {reason}")
        }
    };
    let status = Command::new(&kestrel.path)
        .args(["report", "--plain"])
        .arg(&trace)
        .stdin(Stdio::null())
        .status();
    ensure!(
        status.context("run kestrel report")?.success(),
        "kestrel report {} failed",
        trace.display()
    );
    println!("\nrecorded on {place}");
    Ok(ExitCode::SUCCESS)
}

/// The demo as a part of `cargo xtask test`: it counts as one test.
pub(crate) fn check() -> Result<Tally> {
    let options = Options {
        guest: false,
        kernel: kernel::DEFAULT.to_owned(),
    };
    run(&options).map(|_| Tally::one(true))
}

/// The arguments of `kestrel record`, workload included.
fn record_arguments(trace: &str, workload: &str) -> Vec<String> {
    let mut arguments = vec!["record".to_owned(), "-o".to_owned(), trace.to_owned()];
    for event in EVENTS {
        arguments.extend(["-e".to_owned(), (*event).to_owned()]);
    }
    arguments.extend(["--duration".to_owned(), SECONDS.to_string(), "--".to_owned()]);
    arguments.extend(["sh", "-c", workload].map(str::to_owned));
    arguments
}

/// Records on this machine; the inner error is the reason why that does not go.
fn record_here(kestrel: &Path, trace: &Path) -> Result<Result<(), String>> {
    if let Err(reason) = able() {
        return Ok(Err(reason));
    }
    let output = Command::new(kestrel)
        .arg0("kestrel") // The trace says how it was made: not where cargo put the binary.
        .args(record_arguments(&trace.display().to_string(), HOST_WORKLOAD))
        .stdin(Stdio::null())
        .stdout(Stdio::inherit())
        .output()
        .context("run kestrel record")?;
    let messages = String::from_utf8_lossy(&output.stderr);
    eprint!("{messages}");
    match output.status.code() {
        Some(0) => Ok(Ok(())),
        // Missing privilege, missing kernel feature: a guest has both.
        Some(3 | 4) => Ok(Err(format!(
            "kestrel said here: {}",
            messages.lines().last().unwrap_or_default()
        ))),
        _ => anyhow::bail!("kestrel record: {}", output.status),
    }
}

/// Checks the requirements that can be known without trying.
fn able() -> Result<(), String> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1));
    if uid != Some("0") {
        return Err("recording here needs root".to_owned());
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err("this kernel has no BTF".to_owned());
    }
    let tracefs = Path::new("/sys/kernel/tracing");
    if !tracefs.join("events").exists() {
        eprintln!("mounting tracefs on {}", tracefs.display());
        let mounted = Command::new("mount")
            .args(["-t", "tracefs", "nodev"])
            .arg(tracefs)
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            return Err("tracefs cannot be mounted here".to_owned());
        }
    }
    Ok(())
}

/// Records in a guest, brings the trace here, returns the guest kernel's release.
fn record_in_guest(base: &Base, series: &str, trace: &Path) -> Result<String> {
    install::ensure(install::GUESTS)?;
    let stable = GuestTemplate::prepare(&GuestSpec::plain(series), &base.init)?;
    let mut guest = stable.guest()?;
    for program in &base.programs {
        guest.copy(&program.path, &format!("/usr/bin/{}", program.name))?;
    }
    let run = |guest: &mut crate::guest::Guest, argv: Vec<String>| -> Result<()> {
        let program = Program {
            argv,
            env: Vec::new(),
            limit: Duration::from_secs(60),
        };
        let ending = guest.run(&program, |stream, bytes| {
            let text = String::from_utf8_lossy(bytes);
            match stream {
                Stream::Out => print!("{text}"),
                Stream::Err => eprint!("{text}"),
            }
        })?;
        ensure!(
            ending == ExitStatus::Exited(0),
            "{} in guest {series}: {ending:?}",
            program.argv.join(" ")
        );
        Ok(())
    };
    let record = record_arguments("/tmp/demo", GUEST_WORKLOAD);
    run(&mut guest, [vec!["kestrel".to_owned()], record].concat())?;
    run(
        &mut guest,
        ["tar", "-C", "/tmp", "-cf", "/tmp/demo.tar", "demo"]
            .map(str::to_owned)
            .to_vec(),
    )?;
    unpack(&guest.get("/tmp/demo.tar")?, trace)?;
    Ok(stable.release().to_owned())
}

/// Unpacks an archive whose only folder is `demo` to where the trace belongs.
fn unpack(archive: &[u8], trace: &Path) -> Result<()> {
    let parent: PathBuf = trace.parent().unwrap_or(Path::new(".")).to_owned();
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), archive)?;
    let status = Command::new("tar")
        .arg("-C")
        .arg(&parent)
        .arg("-xf")
        .arg(file.path())
        .status()
        .context("run tar")?;
    ensure!(status.success(), "tar: {status}");
    Ok(())
}
