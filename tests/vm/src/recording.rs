//! Recordings made by the product in a guest, beside what else counts there, and their records as JSON gives them.

use crate::{PATIENCE, Run, kestrel, until};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// One line of `kestrel print --format json`.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// ns of the monotonic clock.
    pub time: u64,
    /// The CPU it was recorded on.
    pub cpu: u64,
    /// The thread that ran there.
    pub tid: u64,
    /// Process of the event.
    pub pid: u64,
    /// The event's name.
    pub event: String,
    /// The fields.
    pub fields: Map<String, Value>,
}

impl Record {
    /// A field that is a number; one beyond the signed ones as its bits.
    ///
    /// # Panics
    /// When it is missing or something else.
    #[must_use]
    pub fn number(&self, name: &str) -> i64 {
        let bits = |value: &Value| value.as_i64().or_else(|| value.as_u64().map(u64::cast_signed));
        match self.fields.get(name).and_then(bits) {
            Some(number) => number,
            None => panic!("no number {name} in {self:?}"),
        }
    }

    /// A field that is text.
    ///
    /// # Panics
    /// When it is missing or something else.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        match self.fields.get(name).and_then(Value::as_str) {
            Some(text) => text,
            None => panic!("no text {name} in {self:?}"),
        }
    }
}

/// All records of a trace, in the order of their times.
///
/// # Panics
/// When it cannot be read, or has damaged packets, or its times run backwards.
#[must_use]
pub fn records(directory: &str) -> Vec<Record> {
    printed(directory, &[])
}

/// The records that `kestrel print` shows with these options.
fn printed(directory: &str, options: &[&str]) -> Vec<Record> {
    let run = kestrel(&[&["print", "--format", "json", directory], options].concat());
    if run.code == Some(1) && run.err.contains("holds no events") {
        return Vec::new();
    }
    let quiet = |line: &str| line.starts_with("lost ") && line.contains(" while recording: ");
    let complaint = run.err.lines().find(|line| !quiet(line));
    assert_eq!(complaint, None, "a whole trace is read in silence");
    assert_eq!(run.code, Some(0), "{directory}");
    let records: Vec<Record> = run.out.lines().map(record).collect();
    assert!(
        records.is_sorted_by_key(|r| r.time),
        "the records of a trace are in the order of their times"
    );
    records
}

/// A line of `kestrel print` or `kestrel trace` with `--format json`.
///
/// # Panics
/// When it is something else.
#[must_use]
pub fn record(line: &str) -> Record {
    let value: Value = match serde_json::from_str(line) {
        Ok(value) => value,
        Err(error) => panic!("{error} in {line}"),
    };
    let number = |name: &str| value[name].as_u64().unwrap_or_default();
    Record {
        time: number("time"),
        cpu: number("cpu"),
        tid: number("tid"),
        pid: number("pid"),
        event: value["event"].as_str().unwrap_or_default().to_owned(),
        fields: value["fields"].as_object().cloned().unwrap_or_default(),
    }
}

/// Counts that a recorder reported at its end.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Events written.
    pub recorded: u64,
    /// Events lost because a ring was full.
    pub lost: u64,
    /// Events overwritten.
    pub overwritten: u64,
    /// Hits that the kernel did not bring to a program.
    pub missed: u64,
    /// The kernel does not count all of those.
    pub uncounted: bool,
    /// Lost and overwritten, per event and CPU.
    pub each: BTreeMap<(String, u64), (u64, u64)>,
}

impl Counts {
    /// Number of records that one recording may lack and another one has, of so many in both. Hidden ones are reported by kernels that count them all. Elsewhere
    /// one interrupt that comes while a program runs hides all that it brings about, and what it brings about may be a batch of RCU's callbacks.
    #[must_use]
    pub fn may_lack(&self, equal: usize) -> usize {
        let share = if self.uncounted {
            200 + 2 * equal
        } else {
            equal / 20
        };
        2 + share + self.missed as usize
    }

    /// Whether `kept` records of `true_count` events are all, or the missing ones were reported: kernels of 7.x run the programs of
    /// tracepoints with preemption on, and skip (and count) a program's hits on a CPU on which it was preempted. Those of other
    /// processes are in that count, too, so it is only a bound.
    #[must_use]
    pub fn explain(&self, kept: usize, true_count: usize) -> bool {
        kept <= true_count && kept as u64 + self.missed >= true_count as u64
    }
}

/// How a line says that hits did not come to a program: of one, and of several.
pub const MISSED: [&str; 2] = [" were missed", " was missed"];

/// Reads the last lines of `kestrel record`.
///
/// # Panics
/// When they are not there.
#[must_use]
pub fn counts(messages: &str) -> Counts {
    let mut counts = Counts::default();
    let mut found = false;
    for line in messages.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let after = |word: &str| {
            let at = words.iter().position(|w| *w == word)?;
            number(words.get(at + 1)?)
        };
        if matches!(words.get(1..3), Some(["event" | "events", "in"])) {
            found = true;
            counts.recorded = number(words[0]).unwrap_or_default();
            counts.lost = after("lost").unwrap_or_default();
            counts.overwritten = after("overwritten").unwrap_or_default();
        } else if let (Some(cpu), Some(lost), Some(over)) =
            (after("CPU"), after("lost"), after("overwritten"))
        {
            counts.each.insert((words[0].to_owned(), cpu), (lost, over));
        }
    }
    counts.missed = missed(messages);
    // Not that perf hides formatted tracepoints from each other at the ends of interrupts, which is said of every kernel and rare.
    counts.uncounted = messages.contains("not all missed hits are counted: this kernel");
    assert!(found, "a recorder prints its counts:\n{messages}");
    counts
}

/// The number that a line begins with, whatever is in front of it that is none.
#[must_use]
pub fn count(line: &str) -> Option<u64> {
    let first = line
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    number(first)
}

/// Hits that the kernel did not bring to a program, by what a command said at its end.
#[must_use]
pub fn missed(messages: &str) -> u64 {
    let about = |line: &&str| MISSED.iter().any(|messages| line.contains(messages));
    let lines = messages.lines().filter(about);
    lines
        .filter_map(|line| number(line.split_whitespace().next()?))
        .sum()
}

fn number(word: &str) -> Option<u64> {
    let digits: String = word.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Records the events of a command while it runs, and no other process's.
///
/// # Panics
/// When the recorder fails.
#[must_use]
pub fn record_command(options: &[&str], command: &[&str]) -> (Vec<Record>, Counts) {
    let directory = place(options, command);
    let mut arguments = vec!["record", "-o", &directory];
    arguments.extend_from_slice(options);
    arguments.push("--");
    arguments.extend_from_slice(command);
    let run = kestrel(&arguments);
    assert_eq!(run.code, Some(0), "{arguments:?}: {}", run.err);
    let records = records(&directory);
    let counts = counts(&run.err);
    assert_eq!(records.len() as u64, counts.recorded, "{}", run.err);
    let _ = fs::remove_dir_all(&directory);
    (records, counts)
}

/// A trace directory of its own.
fn place(options: &[&str], command: &[&str]) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (options, command).hash(&mut hasher);
    format!("/tmp/trace-{:x}", hasher.finish())
}

/// A recorder in the background.
#[derive(Debug)]
pub struct Recorder {
    child: Child,
    messages: PathBuf,
    /// Directory of the trace.
    pub directory: String,
}

impl Recorder {
    /// Starts `kestrel record -v` with these options and waits until it says that it records.
    ///
    /// # Panics
    /// When it does not come so far.
    #[must_use]
    pub fn start<S: AsRef<OsStr>>(name: &str, options: &[S]) -> Self {
        let mut recorder = Self::spawn(name, options);
        recorder.wait_until_attached();
        recorder
    }

    /// Starts `kestrel record -v` with these options.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn spawn<S: AsRef<OsStr>>(name: &str, options: &[S]) -> Self {
        let _ = fs::remove_dir_all(format!("/tmp/{name}.trace"));
        let directory = format!("/tmp/{name}.trace");
        let messages = PathBuf::from(format!("/tmp/{name}.said"));
        let Ok(file) = fs::File::create(&messages) else {
            panic!("cannot create {}", messages.display())
        };
        let child = Command::new("kestrel")
            .args(["record", "-v", "-o", &directory])
            .args(options)
            .stdout(Stdio::null())
            .stderr(file)
            .spawn();
        let Ok(child) = child else {
            panic!("cannot start kestrel")
        };
        Self {
            child,
            messages,
            directory,
        }
    }

    /// Waits until it says that it records: everything is attached, and let in.
    ///
    /// # Panics
    /// When it does not come so far.
    pub fn wait_until_attached(&mut self) {
        let end = Instant::now() + PATIENCE;
        while !self.messages().contains("\nrecording into ") {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("kestrel ended with {status}: {}", self.messages());
            }
            assert!(
                Instant::now() < end,
                "kestrel does not record: {}",
                self.messages()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Messages of the recorder so far, without its plan.
    #[must_use]
    pub fn messages(&self) -> String {
        let messages = fs::read_to_string(&self.messages).unwrap_or_default();
        match messages.find("\nattached ") {
            Some(after) => messages[after + 1..].to_owned(),
            None => messages,
        }
    }

    /// Plan of the recorder, as it prints it before it attaches anything.
    ///
    /// # Panics
    /// When it has not said that it attached anything yet.
    #[must_use]
    pub fn plan(&self) -> String {
        let messages = fs::read_to_string(&self.messages).unwrap_or_default();
        match messages.split_once("\nattached ") {
            Some((plan, _)) => plan.to_owned(),
            None => panic!("nothing is attached: {messages}"),
        }
    }

    /// Asks it to end, as Ctrl-C does; does not wait.
    ///
    /// # Panics
    /// When it is gone already.
    pub fn interrupt(&self) {
        self.signal(rustix::process::Signal::INT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        if let Err(error) = rustix::process::kill_process(pid, signal) {
            panic!("kestrel is gone: {error}: {}", self.messages());
        }
    }

    /// Lets it stand still: it reads nothing any more.
    ///
    /// # Panics
    /// When it is gone already.
    pub fn hold(&self) {
        self.signal(rustix::process::Signal::STOP);
        let stat = format!("/proc/{}/stat", self.child.id());
        until("kestrel to stand still", || {
            fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T "))
        });
    }

    /// Lets it go on.
    ///
    /// # Panics
    /// When it is gone already.
    pub fn go_on(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    /// Asks it to go on in a new directory; does not wait.
    ///
    /// # Panics
    /// When it is gone already.
    pub fn switch(&self) {
        self.signal(rustix::process::Signal::USR2);
    }

    /// Kills it: it can clean up nothing.
    ///
    /// # Panics
    /// When it is gone already.
    pub fn kill(&mut self) {
        if let Err(error) = self.child.kill() {
            panic!("kestrel is gone: {error}: {}", self.messages());
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When the status cannot be had.
    #[must_use]
    pub fn wait(mut self) -> Run {
        match self.child.wait() {
            Ok(status) => Run {
                code: status.code(),
                signal: status.signal(),
                out: String::new(),
                err: self.messages(),
            },
            Err(error) => panic!("wait for kestrel: {error}"),
        }
    }

    /// Ends it and reads what it recorded.
    ///
    /// # Panics
    /// When it did not end well.
    #[must_use]
    pub fn stop(self) -> (Vec<Record>, Counts, String) {
        self.interrupt();
        self.stop_interrupted()
    }

    /// Waits for the end that was asked for and reads what it recorded.
    ///
    /// # Panics
    /// When it did not end well.
    #[must_use]
    pub fn stop_interrupted(self) -> (Vec<Record>, Counts, String) {
        let (all, counts, messages) = self.end(&[]);
        assert_eq!(all.len() as u64, counts.recorded, "{messages}");
        (all, counts, messages)
    }

    /// The same, of what was recorded since a time of the monotonic clock: where another recorder begins later, what came before is compared with
    /// nothing, and may be a hundred times as much.
    ///
    /// # Panics
    /// When it did not end well.
    #[must_use]
    pub fn stop_interrupted_since(self, time: Duration) -> (Vec<Record>, Counts, String) {
        let since = format!("@{}.{:09}", time.as_secs(), time.subsec_nanos());
        let (all, counts, messages) = self.end(&["--from", &since]);
        assert!(all.len() as u64 <= counts.recorded, "{messages}");
        (all, counts, messages)
    }

    fn end(self, options: &[&str]) -> (Vec<Record>, Counts, String) {
        let directory = self.directory.clone();
        let run = self.wait();
        assert_eq!(run.code, Some(0), "{}", run.err);
        let all = printed(&directory, options);
        if !options.is_empty() {
            let report = kestrel(&["report", "--format", "json", &directory]).success();
            let report: Value = serde_json::from_str(&report).unwrap_or_default();
            let recorded = counts(&run.err).recorded;
            assert_eq!(report["records"].as_u64(), Some(recorded), "{}", run.err);
        }
        let counts = counts(&run.err);
        let _ = fs::remove_dir_all(&directory);
        (all, counts, run.err)
    }
}

/// The time of the monotonic clock.
#[must_use]
pub fn now() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}
