//! Recordings made by the product in a guest, beside what else counts there, and their records as JSON gives them.

use crate::{PATIENCE, Run, kestrel, until};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    ops::RangeInclusive,
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
    /// Its process.
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
    let run = kestrel(&["print", "--format", "json", directory]);
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

/// What a recorder said at its end.
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
    /// How many records one recording may lack that another one has, of so many in both. What is hidden is told, by kernels that count it all. Elsewhere
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

    /// Whether `kept` records of `true_count` events are all, or what is missing was told: kernels of 7.x run the programs of
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
pub fn counts(said: &str) -> Counts {
    let mut counts = Counts::default();
    let mut found = false;
    for line in said.lines() {
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
    counts.missed = missed(said);
    // Not that perf hides formatted tracepoints from each other at the ends of interrupts, which is said of every kernel and rare.
    counts.uncounted = said.contains("not all missed hits are counted: this kernel");
    assert!(found, "a recorder tells its counts:\n{said}");
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
pub fn missed(said: &str) -> u64 {
    let about = |line: &&str| MISSED.iter().any(|said| line.contains(said));
    let lines = said.lines().filter(about);
    lines
        .filter_map(|line| number(line.split_whitespace().next()?))
        .sum()
}

fn number(word: &str) -> Option<u64> {
    let digits: String = word.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Records the events while a command runs, and nobody else's.
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
    said: PathBuf,
    /// Its trace.
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
        let said = PathBuf::from(format!("/tmp/{name}.said"));
        let Ok(file) = fs::File::create(&said) else {
            panic!("cannot create {}", said.display())
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
            said,
            directory,
        }
    }

    /// Waits until it says that it records: everything is attached, and let in.
    ///
    /// # Panics
    /// When it does not come so far.
    pub fn wait_until_attached(&mut self) {
        let end = Instant::now() + PATIENCE;
        while !self.said().contains("\nrecording into ") {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("kestrel ended with {status}: {}", self.said());
            }
            assert!(Instant::now() < end, "kestrel does not record: {}", self.said());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What it has said so far, without its plan.
    #[must_use]
    pub fn said(&self) -> String {
        let said = fs::read_to_string(&self.said).unwrap_or_default();
        match said.find("\nattached ") {
            Some(after) => said[after + 1..].to_owned(),
            None => said,
        }
    }

    /// Its plan, as it says it before it attaches anything.
    ///
    /// # Panics
    /// When it has not said that it attached anything yet.
    #[must_use]
    pub fn plan(&self) -> String {
        let said = fs::read_to_string(&self.said).unwrap_or_default();
        match said.split_once("\nattached ") {
            Some((plan, _)) => plan.to_owned(),
            None => panic!("nothing is attached: {said}"),
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
            panic!("kestrel is gone: {error}: {}", self.said());
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
            panic!("kestrel is gone: {error}: {}", self.said());
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
                out: String::new(),
                err: self.said(),
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
        let directory = self.directory.clone();
        let run = self.wait();
        assert_eq!(run.code, Some(0), "{}", run.err);
        let all = records(&directory);
        let counts = counts(&run.err);
        assert_eq!(all.len() as u64, counts.recorded, "{}", run.err);
        let _ = fs::remove_dir_all(&directory);
        (all, counts, run.err)
    }
}

/// How two recordings of the same thing compare.
#[derive(Debug, Default, Clone)]
pub struct Comparison {
    /// Records in both, equal in all fields.
    pub equal: usize,
    /// Records in the left one only, between equal ones.
    pub left: usize,
    /// Records in the right one only, between equal ones.
    pub right: usize,
    /// The first pair that differs.
    pub different: Option<String>,
}

/// Compares two recordings made at the same time, event by event and thread by thread: what one began with or ended with earlier or later
/// than the other does not count.
#[must_use]
pub fn compare(left: &[Record], right: &[Record]) -> BTreeMap<String, Comparison> {
    let mut result: BTreeMap<String, Comparison> = BTreeMap::new();
    let edge =
        |pick: fn(&[Record]) -> Option<&Record>| (pick(left).map(|r| r.time), pick(right).map(|r| r.time));
    let (first, last) = (edge(<[Record]>::first), edge(<[Record]>::last));
    let window = first.0.max(first.1).unwrap_or_default()..=last.0.min(last.1).unwrap_or(u64::MAX);
    let (left, right) = (by_thread(left, &window), by_thread(right, &window));
    for (key, left) in &left {
        let comparison = result.entry(key.0.clone()).or_default();
        if let Some(right) = right.get(key) {
            compare_runs(left, right, comparison);
        }
    }
    result
}

type Runs<'a> = BTreeMap<(String, u64, u64), Vec<&'a Record>>;

fn by_thread<'a>(records: &'a [Record], window: &RangeInclusive<u64>) -> Runs<'a> {
    let mut runs = Runs::new();
    for record in records.iter().filter(|r| window.contains(&r.time)) {
        // Idle threads share the number 0; others may move between CPUs.
        let cpu = if record.tid == 0 { record.cpu } else { 0 };
        let key = (record.event.clone(), record.tid, cpu);
        runs.entry(key).or_default().push(record);
    }
    runs
}

/// How far ahead the other side is searched for an equal record.
const AHEAD: usize = 40;

/// The same for one that is older than what comes next there: of the two programs that see an event one may be interrupted, and the other not.
const NESTED: usize = 4;

fn compare_runs(left: &[&Record], right: &[&Record], into: &mut Comparison) {
    let (mut l, mut r) = (0, 0);
    let mut begun = false;
    let same = |l: &Record, r: &Record| l.fields == r.fields && l.time.abs_diff(r.time) < FAR;
    while l < left.len() && r < right.len() {
        if same(left[l], right[r]) {
            into.equal += 1;
            (l, r, begun) = (l + 1, r + 1, true);
            continue;
        }
        // What is older lacks in the other one: an equal one farther on is another event of a thread that does the same again and again.
        let older = left[l].time < right[r].time;
        let (few, many) = (1..NESTED, 1..AHEAD);
        let (ahead_in_left, ahead_in_right) = if older { (many, few) } else { (few, many) };
        let in_right = { ahead_in_right }.find(|d| right.get(r + d).is_some_and(|x| same(left[l], x)));
        let in_left = { ahead_in_left }.find(|d| left.get(l + d).is_some_and(|x| same(x, right[r])));
        let (skip_left, skip_right) = match (in_left, in_right) {
            (Some(a), Some(b)) if a <= b => (a, 0),
            (Some(a), None) => (a, 0),
            (_, Some(b)) => (0, b),
            (None, None) => {
                // At an end, one side may have what the other was too late for.
                let near = left[l].time.abs_diff(right[r].time) < NEAR;
                if near {
                    into.different
                        .get_or_insert_with(|| format!("{:?}\n   {:?}", left[l], right[r]));
                }
                if left[l].time < right[r].time {
                    (1, 0)
                } else {
                    (0, 1)
                }
            }
        };
        if begun {
            into.left += skip_left;
            into.right += skip_right;
        }
        (l, r) = (l + skip_left, r + skip_right);
    }
}

/// Two records farther apart than this, ns, are not of one event; between the two programs that see it a machine may stand still for a while.
const FAR: u64 = 2_000_000_000;

/// Two records of one thread nearer than this, ns, with nothing between them in either recording, are of one event.
const NEAR: u64 = 30_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of one thread with this number.
    fn record(time: u64, number: u64) -> Record {
        Record {
            time,
            cpu: 0,
            tid: 7,
            pid: 7,
            event: "e".to_owned(),
            fields: Map::from_iter([("number".to_owned(), number.into())]),
        }
    }

    fn compared(left: &[Record], right: &[Record]) -> Comparison {
        compare(left, right).remove("e").unwrap_or_default()
    }

    /// Two batches of the same numbers, the second the other way round, each between others.
    fn batches(size: u64) -> Vec<Record> {
        let others = |from: u64| (from..from + 100).collect::<Vec<u64>>();
        let first: Vec<u64> = (0..size).collect();
        let second: Vec<u64> = (0..size).rev().collect();
        let numbers = [others(1000), first, second, others(2000)].concat();
        let timed = numbers.iter().zip(1..);
        timed.map(|(number, at)| record(at * 100_000, *number)).collect()
    }

    #[test]
    fn what_one_lacks_is_counted_as_lacking_there_and_nowhere_else() {
        for size in [1, 10, 39, 41, 60, 200] {
            let all = batches(size);
            let mut some = all.clone();
            some.drain(100..100 + size as usize);
            for record in &mut some {
                record.time += 700;
            }
            // The very first and the very last are before the other began, and after it ended.
            let both = some.len() - 2;
            let found = compared(&all, &some);
            assert_eq!((found.right, &found.different), (0, &None), "{size}: {found:?}");
            assert_eq!((found.equal, found.left), (both, size as usize), "{size}");
            let found = compared(&some, &all);
            assert_eq!((found.left, &found.different), (0, &None), "{size}: {found:?}");
            assert_eq!((found.equal, found.right), (both, size as usize), "{size}");
        }
    }

    #[test]
    fn what_differs_is_found() {
        let all = batches(20);
        let mut other = all.clone();
        other[90].fields.insert("number".to_owned(), 5555.into());
        assert!(compared(&all, &other).different.is_some());
    }

    #[test]
    fn an_interrupt_between_the_two_changes_the_order() {
        let all = batches(20);
        let mut other = all.clone();
        for record in &mut other {
            record.time += 700;
        }
        // The second program of the 50th event ran after an interrupt with three more.
        let late = other.remove(50);
        other.insert(
            53,
            Record {
                time: other[52].time + 1000,
                ..late
            },
        );
        let found = compared(&all, &other);
        assert_eq!(found.different, None);
        assert!(
            found.left <= 3 && found.right <= 3 && found.equal >= all.len() - 5,
            "{found:?}"
        );
    }
}
