//! `cargo xtask recovery`: guests panic after a marked burst of events; what `kestrel recover` takes out of their memory must hold every one of it.

use std::{
    num::NonZero,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use serde_json::Value;

use crate::{
    artifact::{self, Base, Profile},
    guest::{ExitStatus, Guest, GuestSpec, GuestTemplate, Program, kernel},
    install,
    tally::Tally,
};

/// Panic guests while they record, and recover the events from their memory.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Kernel series, several with commas, or `all` for the matrix.
    #[arg(long, default_value = "all")]
    kernel: String,
    /// Memory of the guests in MiB.
    #[arg(long, default_value_t = 512)]
    memory: u32,
    /// Recover with kestrel as shipped, and say how long it takes.
    #[arg(long)]
    release: bool,
}

/// Events of the burst.
const BURST: u32 = 2000;

/// A file that only this test opens; its number follows.
const MARK: &str = "/tmp/burst-";

/// Sessions of recorders, one started by the other: each lets events in before it starts its command.
const RECORDERS: [&[&str]; 2] = [
    &[
        "syscalls:sys_enter_openat { record(str(args.filename)) }",
        "sched:*",
    ],
    &["syscalls:sys_enter_openat { record(str(args.filename)) }"],
];

/// Persistent sessions, by their names: started by `kestrel start`, without a process when the guest panics.
const STAYING: [(&str, &str); 2] = [
    (
        "first",
        r#"buffer main { size = 2M } buffer other { size = 256k }
        table t {
            syscalls:sys_enter_openat { record(str(args.filename)) }
            sched:* { record(args, to("other")) }
            interval:ms:50 { record(kstack) }
        }"#,
    ),
    (
        "second",
        "buffer main { size = 2M } table t { syscalls:sys_enter_openat { record(str(args.filename), kstack) } }",
    ),
];

/// How the memory is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Image {
    Elf,
    Kdump,
    Raw,
}

impl Image {
    const ALL: [Self; 3] = [Self::Elf, Self::Kdump, Self::Raw];

    fn file(self) -> &'static str {
        match self {
            Self::Elf => "memory.elf",
            Self::Kdump => "memory.kdump",
            Self::Raw => "memory.raw",
        }
    }
}

/// Runs the kernels asked for.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    install::ensure(&[install::GUESTS, install::PEERS].concat())?;
    let series: Vec<&str> = match options.kernel.as_str() {
        "all" => kernel::MATRIX.to_vec(),
        list => list.split(',').collect(),
    };
    let cases: Vec<(&str, bool)> = series
        .iter()
        .flat_map(|series| [(*series, false), (*series, true)])
        .collect();
    let tally = all(&cases, options)?;
    println!("{tally}");
    Ok(if tally.holds() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// For `cargo xtask test`: every kernel of the matrix, those at its ends with KASLR, too.
pub(crate) fn check() -> Result<Tally> {
    let ends = [kernel::MATRIX.first(), kernel::MATRIX.last()];
    let plain = kernel::MATRIX.iter().map(|series| (*series, false));
    let random = ends.into_iter().flatten().map(|series| (*series, true));
    let cases: Vec<(&str, bool)> = plain.chain(random).collect();
    let options = Options {
        kernel: String::new(),
        memory: 512,
        release: false,
    };
    all(&cases, &options)
}

fn all(cases: &[(&str, bool)], options: &Options) -> Result<Tally> {
    let base = artifact::base(if options.release {
        Profile::Release
    } else {
        Profile::Quick
    })?;
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut tally = Tally::default();
        while let Some((series, random)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            tally = tally + case(&base, series, *random, options);
        }
        tally
    };
    // A guest keeps one processor busy, and so do the programs that read its memory.
    let guests = thread::available_parallelism().map_or(1, NonZero::get);
    let tallies: Vec<Result<Tally>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..guests.min(MAX_GUESTS)).map(|_| scope.spawn(worker)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Tally>| {
            let tally = worker.join();
            tally.map_err(|_| anyhow!("a thread that ran guests panicked"))
        };
        workers.into_iter().map(join).collect()
    });
    tallies.into_iter().sum()
}

/// Guests at one time at most: each writes its memory to a file.
const MAX_GUESTS: usize = 4;

/// One kernel, and once more where it fails: as with guest tests, kernels of 7.x skip hits where a program was preempted, and a dead one does not say so.
fn case(base: &Base, series: &str, random: bool, options: &Options) -> Tally {
    let place = if random { ", KASLR" } else { "" };
    let attempt = || {
        let begun = Instant::now();
        let result = one(base, series, random, options);
        let took = begun.elapsed().as_secs_f64();
        match &result {
            Ok(printed) => println!("{series:>5} recovery{place} ok {took:.2} s: {printed}"),
            Err(error) => println!("{series:>5} recovery{place} FAILED {took:.2} s: {error:#}"),
        }
        result
    };
    match attempt() {
        Ok(_) => Tally::one(true),
        Err(error) => match attempt() {
            Ok(_) => {
                println!(
                    "FLAKY {series:>5} recovery{place}: passed when it was tried again; the first time: {error:#}"
                );
                Tally::flaky()
            }
            Err(_) => Tally::one(false),
        },
    }
}

/// One guest's panic, and its memory in each form.
fn one(base: &Base, series: &str, random: bool, options: &Options) -> Result<String> {
    let spec = GuestSpec {
        compressed: random,
        memory_mb: options.memory,
        ..GuestSpec::plain(series)
    };
    let mut guest = GuestTemplate::prepare(&spec, &base.init)?.guest()?;
    for program in &base.programs {
        guest.copy(&program.path, &format!("/usr/bin/{}", program.name))?;
    }
    panic_while_recording(&mut guest)?;
    let folder = tempfile::tempdir()?;
    let kestrel = base.programs.iter().find(|program| program.name == "kestrel");
    let kestrel = &kestrel.context("cargo built no kestrel")?.path;
    let mut printed = Vec::new();
    for form in Image::ALL {
        let image = folder.path().join(form.file());
        match form {
            Image::Elf | Image::Kdump => guest.dump(&image)?,
            Image::Raw => guest.save_memory(&image, options.memory)?,
        }
        let begun = Instant::now();
        let recovered =
            recover(kestrel, &image, &folder.path().join("out")).with_context(|| format!("{form:?}"))?;
        let took = begun.elapsed().as_secs_f64();
        if options.release {
            printed.push(format!("{form:?} in {took:.2} s"));
        } else if form == Image::Elf {
            printed.push(recovered);
        }
        std::fs::remove_file(&image)?;
    }
    Ok(printed.join(", "))
}

/// Records the burst in all sessions; half a second later the guest is gone.
fn panic_while_recording(guest: &mut Guest) -> Result<()> {
    let mut start = String::new();
    for (name, table) in STAYING {
        let file = format!("/tmp/{name}.kst");
        guest.put(&file, table.as_bytes())?;
        start += &format!("kestrel start {name} {file} || exit 1; ");
    }
    let burst = format!(
        "{start}i=0; while [ $i -lt {BURST} ]; do true < {MARK}$i; i=$((i+1)); done 2>/dev/null; sleep 0.5; echo c > /proc/sysrq-trigger"
    );
    let mut argv = ["sh", "-c", &burst].map(str::to_owned).to_vec();
    for (number, events) in RECORDERS.iter().enumerate() {
        let mut words = vec!["kestrel".to_owned(), "record".to_owned()];
        words.extend(["-a", "--overwrite", "-o"].map(str::to_owned));
        words.push(format!("/tmp/session-{number}"));
        for event in *events {
            words.extend(["-e".to_owned(), (*event).to_owned()]);
        }
        words.push("--".to_owned());
        argv = [words, argv].concat();
    }
    let program = Program {
        argv,
        env: Vec::new(),
        limit: Duration::from_secs(100),
    };
    let mut printed = Vec::new();
    let ending = guest.run(&program, |_, bytes| printed.extend_from_slice(bytes))?;
    ensure!(
        ending == ExitStatus::Died,
        "the guest did not panic but {ending:?}: {}",
        String::from_utf8_lossy(&printed)
    );
    Ok(())
}

/// Recovers from an image and looks at all sessions.
fn recover(kestrel: &Path, image: &Path, out: &Path) -> Result<String> {
    let paths = [image, Path::new("-o"), out].map(|path| path.display().to_string());
    let words = ["recover", "--format", "json"].map(str::to_owned);
    let reply = output(kestrel, &[words.as_slice(), &paths].concat())?;
    let reply: Value = serde_json::from_str(&reply).with_context(|| format!("read {reply:?}"))?;
    let sessions = reply["sessions"]
        .as_array()
        .context("no sessions in the answer")?;
    let expected = RECORDERS.len() + STAYING.len();
    ensure!(sessions.len() == expected, "not {expected} sessions: {reply}");
    for (name, _) in STAYING {
        let found = sessions.iter().find(|session| session["session"] == name);
        let path = found.and_then(|session| session["path"].as_str());
        ensure!(
            path.is_some_and(|path| Path::new(path).ends_with(name)),
            "no trace bears the name {name}: {reply}"
        );
    }
    let mut printed = Vec::new();
    for session in sessions {
        let trace = PathBuf::from(session["path"].as_str().context("no path")?);
        let number = |name: &str| session[name].as_u64().unwrap_or_default();
        let numbers = (number("missing"), number("damaged"), number("torn"));
        ensure!(numbers == (0, 0, 0), "something is missing: {session}");
        ensure!(number("cut") > 0, "no packet was being written: {session}");
        burst(kestrel, &trace).with_context(|| session.to_string())?;
        same_for_babeltrace(&trace, number("events"))?;
        printed.push(format!(
            "{} events, {} packets whole, {} cut",
            number("events"),
            number("whole"),
            number("cut")
        ));
    }
    Ok(printed.join(" + "))
}

/// Every event of the burst, each once, in order.
fn burst(kestrel: &Path, trace: &Path) -> Result<()> {
    let path = trace.display().to_string();
    let lines = output(kestrel, &["print".into(), "--format".into(), "json".into(), path])?;
    let marks = lines.lines().filter_map(|line| {
        let (_, rest) = line.split_once(MARK)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        rest[..digits].parse::<u32>().ok()
    });
    let marks: Vec<u32> = marks.collect();
    ensure!(
        marks == (0..BURST).collect::<Vec<u32>>(),
        "of the burst's {BURST} events {} are there: {:?} …",
        marks.len(),
        marks.get(..10.min(marks.len()))
    );
    Ok(())
}

/// babeltrace2 reads the same number of events and has nothing to complain of.
fn same_for_babeltrace(trace: &Path, events: u64) -> Result<()> {
    let reply = Command::new("babeltrace2").arg(trace).output();
    let reply = reply.context("run babeltrace2")?;
    let complaint = String::from_utf8_lossy(&reply.stderr);
    ensure!(
        reply.status.success() && complaint.is_empty(),
        "babeltrace2 says: {complaint}"
    );
    let lines = reply.stdout.iter().filter(|byte| **byte == b'\n').count() as u64;
    ensure!(lines == events, "babeltrace2 reads {lines} events of {events}");
    Ok(())
}

/// Output of a program, which must not have anything to complain of.
fn output(program: &Path, arguments: &[String]) -> Result<String> {
    let reply = Command::new(program).args(arguments).output();
    let reply = reply.with_context(|| format!("run {}", program.display()))?;
    let complaint = String::from_utf8_lossy(&reply.stderr);
    ensure!(
        reply.status.success() && complaint.is_empty(),
        "kestrel {}: {}: {complaint}",
        arguments.join(" "),
        reply.status
    );
    Ok(String::from_utf8(reply.stdout)?)
}
