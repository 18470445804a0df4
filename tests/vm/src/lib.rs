//! Tests that run inside guests of the kernel matrix: the words that guest tests share, and the messages between guest
//! and host; `cargo xtask test` builds and sends them.
//!
//! A guest test is an ordinary `#[test]` in `tests/vm/tests/*.rs`. It runs as root in a clone that may have seen other
//! tests before, of its file and of others: it cleans up what it makes (files in /tmp go with their file of tests). `kestrel` and the programs in `src/bin` are on the PATH.
//! A test that has nothing to say on a kernel says so with [`skip`].
#![forbid(unsafe_code)]

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

pub mod bare;
pub mod comparison;
pub mod lines;
pub mod named;
pub mod pages;
pub mod protocol;
pub mod recording;

/// Where tracefs is mounted in a guest.
pub const TRACEFS: &str = "/sys/kernel/tracing";

/// Where bpffs is mounted in a guest.
pub const BPFFS: &str = "/sys/fs/bpf";

/// Output and status of a program that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Exit status; `None` when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Run {
    /// The standard output of a program that must have succeeded.
    ///
    /// # Panics
    /// With everything the program said, when it did not exit with 0.
    #[allow(
        clippy::must_use_candidate,
        reason = "that it succeeded may be all that matters"
    )]
    #[track_caller]
    pub fn success(self) -> String {
        assert!(
            self.code == Some(0),
            "exit status {:?}, signal {:?}\nstdout:\n{}\nstderr:\n{}",
            self.code,
            self.signal,
            self.out,
            self.err
        );
        self.out
    }
}

/// Runs a program to its end.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn run(program: &str, arguments: &[&str]) -> Run {
    match Command::new(program).args(arguments).output() {
        Ok(Output {
            status,
            stdout,
            stderr,
        }) => Run {
            code: status.code(),
            signal: status.signal(),
            out: String::from_utf8_lossy(&stdout).into_owned(),
            err: String::from_utf8_lossy(&stderr).into_owned(),
        },
        Err(error) => panic!("run {program}: {error}"),
    }
}

/// Runs the product.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn kestrel(arguments: &[&str]) -> Run {
    run("kestrel", arguments)
}

/// Runs a line in the guest's shell.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn shell(line: &str) -> Run {
    run("sh", &["-c", line])
}

/// The kernel's release, as `uname -r` prints it.
///
/// # Panics
/// Without /proc.
#[must_use]
pub fn release() -> String {
    match fs::read_to_string("/proc/sys/kernel/osrelease") {
        Ok(text) => text.trim().to_owned(),
        Err(error) => panic!("read the kernel's release: {error}"),
    }
}

/// The first two numbers of the release, as in `(6, 12)`.
///
/// # Panics
/// When the release does not start with two numbers.
#[must_use]
pub fn version() -> (u32, u32) {
    let release = release();
    let mut numbers = release.split(['.', '-']).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => panic!("a kernel release that starts with two numbers: {release}"),
    }
}

/// Two names of the function behind getppid: the one by which ftrace lists it, and another.
///
/// # Panics
/// When it has no two names.
#[must_use]
pub fn two_names() -> (String, String) {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let symbols = read("/proc/kallsyms");
    let listed = read(&format!("{TRACEFS}/available_filter_functions"));
    let address = symbols
        .lines()
        .find(|line| line.ends_with(" __x64_sys_getppid"))
        .and_then(|line| line.split(' ').next());
    let here = symbols.lines().filter(|line| line.split(' ').next() == address);
    let (known, others): (Vec<&str>, Vec<&str>) = here
        .filter_map(|line| line.split_whitespace().nth(2))
        .partition(|name| listed.lines().any(|line| line == *name));
    match (known.first(), others.first()) {
        (Some(known), Some(other)) => ((*known).to_owned(), (*other).to_owned()),
        _ => panic!("getppid has one name: {known:?} {others:?}"),
    }
}

/// Writes a table file into /tmp and gives its path.
///
/// # Panics
/// When it cannot be written.
#[must_use]
pub fn table_file(name: &str, text: &str) -> String {
    let path = format!("/tmp/{name}.kst");
    match fs::write(&path, text) {
        Ok(()) => path,
        Err(error) => panic!("write {path}: {error}"),
    }
}

/// The number in a variable of the environment, by which longer runs are asked for.
#[must_use]
pub fn number_in(variable: &str, otherwise: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Whether all shapes are asked for: `KESTREL_SHAPES=all`.
#[must_use]
pub fn wants_all_shapes() -> bool {
    std::env::var("KESTREL_SHAPES").is_ok_and(|wanted| wanted == "all")
}

/// Says visibly that a test has nothing to say here; use as `return skip("…")`.
pub fn skip(reason: &str) {
    println!("skipped: {reason}");
}

/// Waits until something is so, however slow the machine is.
///
/// # Panics
/// When it does not come to be so in a time in which a machine that does anything at all does it.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Makes `file`, for which a program waits, as soon as a Kestrel has `path` open: the program's binary, or the root directory of its container. Names can be found through it from then on, whatever becomes of the process.
///
/// # Panics
/// When an older `file` cannot be removed; the thread as [`until`], or when it cannot make the file.
#[must_use = "the thread says whether the path was opened"]
pub fn release_when_open(path: &str, file: &str) -> thread::JoinHandle<()> {
    if let Err(error) = fs::remove_file(file) {
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{file}: {error}");
    }
    let (path, file) = (path.to_owned(), file.to_owned());
    thread::spawn(move || {
        until(&format!("a kestrel that has {path} open"), || {
            is_open_in("kestrel", &path)
        });
        assert!(fs::write(&file, "").is_ok(), "cannot make {file}");
    })
}

/// Whether a process of this name has a file open, which may be deleted by now.
fn is_open_in(comm: &str, path: &str) -> bool {
    let deleted = format!("{path} (deleted)");
    let links = |folder: std::path::PathBuf| fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
    let is_it = |link: fs::DirEntry| {
        fs::read_link(link.path())
            .is_ok_and(|target| target.as_os_str() == path || target.as_os_str() == deleted.as_str())
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut named = processes
        .map(|process| process.path())
        .filter(|folder| fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.trim_end() == comm));
    named.any(|folder| links(folder).any(is_it))
}

/// Time for which tests wait: less than a test may take, so that a missing event is reported.
const PATIENCE: Duration = Duration::from_secs(90);

/// Makes exactly `count` getppid system calls.
pub fn getppid_calls(count: u64) {
    for _ in 0..count {
        // rustix goes to the kernel each time; nothing is cached on the way.
        std::hint::black_box(rustix::process::getppid());
    }
}

/// Makes exactly `count` getpriority system calls.
///
/// # Errors
/// When the kernel refuses one.
pub fn getpriority_calls(count: u64) -> std::io::Result<()> {
    for _ in 0..count {
        std::hint::black_box(rustix::process::getpriority_process(None)?);
    }
    Ok(())
}

/// Opens and closes /dev/null so many times; what that takes is given back by interrupts.
///
/// # Errors
/// When it cannot be opened.
pub fn open_calls(count: u64) -> std::io::Result<()> {
    for _ in 0..count {
        std::hint::black_box(fs::File::open("/dev/null")?);
    }
    Ok(())
}

/// Makes exactly `count` read system calls of one byte each, from /dev/zero.
///
/// # Errors
/// When /dev/zero cannot be opened or read.
pub fn read_calls(count: u64) -> std::io::Result<()> {
    let zero = fs::File::open("/dev/zero")?;
    let mut byte = [0; 1];
    for _ in 0..count {
        rustix::io::read(&zero, &mut byte)?;
    }
    Ok(())
}

/// Makes exactly `count` lseek system calls, whose offsets count them: 0, 1, 2, …
///
/// # Errors
/// When /dev/zero cannot be opened or its position not be set.
pub fn seek_calls(count: u64) -> std::io::Result<()> {
    let zero = fs::File::open("/dev/zero")?;
    for number in 0..count {
        rustix::fs::seek(&zero, rustix::fs::SeekFrom::Start(number))?;
    }
    Ok(())
}

/// Where user space writes its marks.
pub const MARKS: &str = "/dev/kestrel-mark";

/// Makes exactly `count` marks that say which of them they are, each by one write system call.
///
/// # Errors
/// When the device is not there or cannot be written.
pub fn mark_calls(count: u64) -> std::io::Result<()> {
    let device = fs::OpenOptions::new().write(true).open(MARKS)?;
    for number in 0..count {
        rustix::io::write(&device, format!("number {number}\n").as_bytes())?;
    }
    Ok(())
}
