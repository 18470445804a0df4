//! Damaged recordings of every kind, taken through all that reads some: no panic, no end of memory at 1 GiB, no hang, and a word each.
//! `KESTREL_DAMAGE=50000` for as many mutations (`--profile fuzz` for ten times the speed), `KESTREL_DAMAGE_FIRST` for the number of the first one, and
//! `KESTREL_RECORDINGS` for further recordings, with `:` between them.

mod mutate;
mod own;
mod questions;
mod through;

use crate::command::{WorkFolder, needs_tracing, why_no_tracing};
use mutate::{Random, Recording};
use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use through::{READINGS, Scene};

/// Mutations every day.
const FEW: u64 = 100;
/// Longest time for one reading of one recording, and how often one that takes longer is tried again: other processes take time, too. Half a million ticks of
/// an interval, the most that is run where a damaged time lies far ahead, take 3 s without optimisation, and 0.3 s with it.
const LONG: Duration = Duration::from_secs(10);
const TRIES: usize = 3;
/// A reading without an end.
const HANG: Duration = Duration::from_secs(30);
/// Address space of the process that reads, KiB.
const MEMORY: &str = "1048576";

/// The folder with the recordings, for the process that reads them; `KESTREL_DAMAGE` and `KESTREL_DAMAGE_FIRST` are its share.
const FOLDER: &str = "KESTREL_DAMAGE_FOLDER";
const COUNT: &str = "KESTREL_DAMAGE";
const FIRST: &str = "KESTREL_DAMAGE_FIRST";
/// File of the folder with the number of the mutation that is being read, for when the process ends early.
const AT: &str = "at";
/// File of the folder with a line for each fault.
const FAULTS: &str = "faults";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn damaged_recordings_are_read_or_refused() {
    if let Ok(folder) = std::env::var(FOLDER) {
        let (first, count) = (number(FIRST).unwrap(), number(COUNT).unwrap());
        return read_all(Path::new(&folder), first, count);
    }
    needs_tracing!();
    let folder = folder();
    make_recordings(&folder.path().join("recordings"));
    let (first, count) = (number(FIRST).unwrap_or(0), number(COUNT).unwrap_or(FEW));
    let (mut next, end) = (first, first + count);
    let mut died = Vec::new();
    while next < end {
        // A process that may have only so much memory; what kills it is noted, and the next one goes on behind.
        let status = Command::new("sh")
            .args(["-c", &format!("ulimit -v {MEMORY}; exec \"$0\" \"$@\"")])
            .arg(std::env::current_exe().unwrap())
            .args(["damaged_recordings_are_read_or_refused", "--nocapture"])
            .env(FOLDER, folder.path())
            .env(FIRST, next.to_string())
            .env(COUNT, (end - next).to_string())
            .env("MALLOC_ARENA_MAX", "2")
            .status()
            .unwrap();
        if status.success() {
            break;
        }
        let at = fs::read_to_string(folder.path().join(AT)).expect("undamaged recordings are read");
        died.push(format!("{at}: {status}"));
        next = at.split(' ').next().unwrap().parse::<u64>().unwrap() + 1;
        assert!(died.len() < 100, "{died:#?}");
    }
    let faults = fs::read_to_string(folder.path().join(FAULTS)).unwrap_or_default();
    assert!(died.is_empty() && faults.is_empty(), "{died:#?}\n{faults}");
}

/// A folder in memory, where there is one.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// Records a short command in each way, and converts what can be imported again.
fn make_recordings(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    assert_eq!(why_no_tracing(), None);
    let place = WorkFolder::new();
    let at = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let calls = [
        "-e",
        "syscalls:sys_*_openat",
        "-e",
        "syscalls:sys_*_read",
        "-e",
        "sched:*",
    ];
    let ways: &[(&str, &[&str])] = &[
        ("plain", &calls),
        ("small", &[&calls[..], &["--compress"]].concat()),
        ("stacks", &[&calls[..], &["-g"]].concat()),
        (
            "pieces",
            &["-e", "syscalls:sys_enter_read", "--call-graph", "dwarf,1024"],
        ),
        ("calls", &["--syscalls"]),
        ("small-calls", &["--syscalls", "-g", "--compress"]),
    ];
    for (name, options) in ways {
        let output = at(name);
        let command = ["--", "sh", "-c", "read x < /proc/version; exec true"];
        let record = [&["record", "-q", "-o", &output], *options, &command].concat();
        place.run(&record).succeeds();
    }
    for from in ["stacks", "calls"] {
        for format in ["perf-data", "trace-dat"] {
            let output = at(&format!("{from}-{format}"));
            let export = ["export", "--to", format, "-o", &output, &at(from)];
            place.run(&export).succeeds();
            // Names of the kernel's addresses, for perf: no recording.
            _ = fs::remove_file(output + ".kallsyms");
        }
    }
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trace/tests/recorded/lttng-kernel");
    let lttng = folder.join("lttng");
    fs::create_dir(&lttng).unwrap();
    for name in ["metadata", "channel0_0", "channel0_1"] {
        let packed = fs::File::open(tree.join(name).with_extension("zst")).unwrap();
        let mut file = fs::File::create(lttng.join(name)).unwrap();
        zstd::stream::copy_decode(packed, &mut file).unwrap();
    }
    own::record(&folder.join("own"));
    own::record_from_outside(&place, &folder.join("own-seen"));
    let others = std::env::var("KESTREL_RECORDINGS").unwrap_or_default();
    let others = others
        .split(':')
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    for (number, from) in others.enumerate() {
        let name = from.file_name().unwrap().to_string_lossy().into_owned();
        Recording::copied(&from, folder.join(format!("{number}-{name}")));
    }
}

static NOW: AtomicU64 = AtomicU64::new(0);

/// Reads its share of the mutations.
fn read_all(folder: &Path, first: u64, count: u64) {
    let work = tempfile::tempdir_in(folder).unwrap();
    fs::create_dir(work.path().join("root")).unwrap();
    let mut originals: Vec<PathBuf> = fs::read_dir(folder.join("recordings"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    originals.sort();
    let recordings: Vec<Recording> = originals
        .iter()
        .map(|path| Recording::copied(path, work.path().join(path.file_name().unwrap())))
        .collect();
    for recording in &recordings {
        let scene = Scene {
            path: &recording.path,
            work: work.path(),
        };
        let begin = Instant::now();
        for (name, reading) in READINGS {
            let result = reading(&scene, 0);
            let imported = !recording.path.join(".kestrel").exists();
            assert!(
                result.is_ok() || *name == "merge" && imported || *name == "program",
                "{name}: {result:?}"
            );
        }
        println!(
            "{}: {} bytes, {:?}",
            recording.path.display(),
            recording.bytes(),
            begin.elapsed()
        );
    }
    abort_hangs();
    let mut tally = Tally::default();
    let begin = Instant::now();
    for seed in first..first + count {
        let mut random = Random::new(seed);
        let recording = &recordings[usize::try_from(seed).unwrap() % recordings.len()];
        let name = recording.path.file_name().unwrap().to_string_lossy();
        fs::write(folder.join(AT), format!("{seed} {name}")).unwrap();
        let _back = recording.mutate(&mut random);
        let scene = Scene {
            path: &recording.path,
            work: work.path(),
        };
        for (reading, read) in READINGS {
            NOW.fetch_add(1, Ordering::Relaxed);
            let choice = random.next();
            let fault = |what: &str| {
                println!("{seed} {name} {reading} {choice:#x}: {what}");
                let old = fs::read_to_string(folder.join(FAULTS)).unwrap_or_default();
                fs::write(
                    folder.join(FAULTS),
                    format!("{old}{seed} {name} {reading}: {what}\n"),
                )
                .unwrap();
            };
            let mut times = Vec::new();
            for _ in 0..TRIES {
                let begin = Instant::now();
                match catch_unwind(AssertUnwindSafe(|| read(&scene, choice))) {
                    Ok(result) => tally.add(reading, result),
                    Err(panic) => {
                        let message = panic.downcast_ref::<String>().cloned();
                        fault(&message.unwrap_or_else(|| "panicked".into()));
                    }
                }
                times.push(begin.elapsed());
                if begin.elapsed() < LONG {
                    break;
                }
            }
            if times.iter().all(|time| *time >= LONG) {
                fault(&format!("takes {times:?}"));
            }
        }
        if (seed + 1 - first).is_multiple_of(1000) {
            println!("{} in {:?}, {}", seed + 1 - first, begin.elapsed(), peak());
        }
    }
    println!("{count} mutations in {:?}, {}", begin.elapsed(), peak());
    tally.show();
}

/// Most memory that this process had.
fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let lines = status
        .lines()
        .filter(|line| line.starts_with("VmHWM") || line.starts_with("VmPeak"));
    lines.collect::<Vec<_>>().join(" ")
}

/// Ends this process when a reading has no end.
fn abort_hangs() {
    std::thread::spawn(|| {
        let mut last = NOW.load(Ordering::Relaxed);
        loop {
            std::thread::sleep(HANG);
            let now = NOW.load(Ordering::Relaxed);
            if now == last && now != 0 {
                println!("reading {now} does not end");
                std::process::abort();
            }
            last = now;
        }
    });
}

/// The words of refusals, with numbers left out, and how often each was said.
#[derive(Default)]
struct Tally {
    read: u64,
    words: BTreeMap<String, u64>,
}

impl Tally {
    fn add(&mut self, reading: &str, result: Result<(), String>) {
        let Err(word) = result else {
            self.read += 1;
            return;
        };
        assert!(
            word.len() > 10 && !word.contains("Error {"),
            "{reading}: {word:?}"
        );
        let word = word.chars().map(|c| if c.is_ascii_digit() { '#' } else { c });
        *self.words.entry(word.take(90).collect()).or_default() += 1;
    }

    fn show(&self) {
        println!("{:7} read", self.read);
        let mut words: Vec<_> = self.words.iter().collect();
        words.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (word, count) in words.iter().take(80) {
            println!("{count:7} {word}");
        }
    }
}
