//! Differential test of replay: random programs run live and over a recording of the same events; the same seed makes the same program.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Events recorded for the programs.
pub const RECORDED: [&str; 4] = [
    "syscalls:sys_enter_read,syscalls:sys_exit_read,syscalls:sys_enter_close,sched:sched_switch",
    "uprobe:libc:read { record(args, arg0, arg2) }",
    "uretprobe:libc:read { record(args, retval) }",
    "syscalls:sys_enter_openat { record(args, filename = str(args.filename)) }",
];

/// Opens, reads and closes files in one process, in several shapes, when a line comes.
const WORKLOAD: &str = r#"
    echo ready; read go; i=0
    while [ $i -lt 30 ]; do
        read x < /proc/version; read x < /etc/passwd; read x < /nowhere; exec 3< /dev/null; exec 3<&-; exec 5> /dev/null; exec 5>&-; i=$((i+1))
    done 2> /dev/null"#;

/// An event, and its fields: name, and whether it has a sign.
struct Event {
    name: &'static str,
    fields: &'static [(&'static str, bool)],
}

const EVENTS: [Event; 7] = [
    Event {
        name: "syscalls:sys_enter_read",
        fields: &[("fd", false), ("count", false)],
    },
    Event {
        name: "syscalls:sys_exit_read",
        fields: &[("ret", true)],
    },
    Event {
        name: "syscalls:sys_enter_openat",
        fields: &[("dfd", true), ("flags", true), ("mode", false)],
    },
    Event {
        name: "syscalls:sys_enter_close",
        fields: &[("fd", false)],
    },
    // Not the state: where a thread ends it changes while the event's programs run.
    Event {
        name: "sched:sched_switch",
        fields: &[("prev_pid", true), ("prev_prio", true), ("next_prio", true)],
    },
    Event {
        name: "uprobe:libc:read",
        fields: &[("arg0", false), ("arg2", false)],
    },
    Event {
        name: "uretprobe:libc:read",
        fields: &[("retval", false)],
    },
];

/// Indexes into [`EVENTS`].
const READ: usize = 0;
const OPEN: usize = 2;
const CLOSE: usize = 3;

/// The handlers of a seed. Its maps and lines begin with `s` and the seed.
pub fn program(seed: u64) -> String {
    let mut maker = Maker {
        state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d,
        seed,
        maps: 0,
        numbers: Vec::new(),
    };
    maker.program()
}

struct Maker {
    state: u64,
    seed: u64,
    maps: u32,
    /// Variables of the handler that is being made.
    numbers: Vec<String>,
}

impl Maker {
    fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % bound.max(1)
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }

    fn map(&mut self) -> String {
        self.maps += 1;
        format!("@s{}_{}", self.seed, self.maps)
    }

    fn program(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..=self.below(2) {
            match self.below(4) {
                0 => text.push_str(&self.pair()),
                _ => text.push_str(&self.handler()),
            }
        }
        text
    }

    /// A handler of one event, or of two that have a field in common.
    fn handler(&mut self) -> String {
        self.numbers.clear();
        let at = self.below(EVENTS.len() as u64) as usize;
        // `fd` is a field of both, and close has no other.
        let both = at == CLOSE && self.below(3) == 0;
        let event = match both {
            true => format!("{}, {}", EVENTS[READ].name, EVENTS[CLOSE].name),
            false => EVENTS[at].name.to_owned(),
        };
        let predicate = match self.below(3) {
            0 => String::new(),
            _ => format!(" && ({})", self.truth(at, 2)),
        };
        let mut body = String::new();
        for _ in 0..=self.below(3) {
            body.push_str("    ");
            body.push_str(&self.statement(at, 2));
            body.push('\n');
        }
        format!("{event} /pid == $1{predicate}/ {{\n{body}}}\n")
    }

    /// Two handlers that tell each other something by a map.
    fn pair(&mut self) -> String {
        self.numbers.clear();
        let map = self.map();
        let kept = self.number(READ, 1);
        let keys = self.one_of(&["tid", "pid, tid", "(tid, 7)"]).to_owned();
        let mut text = format!("syscalls:sys_enter_read /pid == $1/ {{ {map}[{keys}] = {kept}; }}\n");
        let (sums, other) = (self.map(), self.key(1));
        let function = self.one_of(&["sum", "max", "hist", "stats"]);
        let _ = writeln!(
            text,
            "syscalls:sys_exit_read /pid == $1 && {map}[{keys}]/ {{ {sums}[{other}] = {function}({map}[{keys}] + args.ret); delete({map}, {}); }}",
            if keys.contains(", ") && !keys.starts_with('(') {
                format!("({keys})")
            } else {
                keys.clone()
            }
        );
        text
    }

    fn field(&mut self, event: usize) -> String {
        let fields = EVENTS[event].fields;
        let (name, _) = fields[self.below(fields.len() as u64) as usize];
        match EVENTS[event].name.contains("probe:") {
            true => name.to_owned(),
            false => format!("args.{name}"),
        }
    }

    /// An expression of a number.
    fn number(&mut self, event: usize, depth: u32) -> String {
        if depth == 0 || self.below(4) == 0 {
            return match self.below(6) {
                0 => self.below(300).to_string(),
                1 if !self.numbers.is_empty() => {
                    let at = self.below(self.numbers.len() as u64) as usize;
                    self.numbers[at].clone()
                }
                2 => self.one_of(&["tid", "pid", "1", "7"]).to_owned(),
                _ => self.field(event),
            };
        }
        let depth = depth - 1;
        match self.below(9) {
            0 => format!("({} + {})", self.number(event, depth), self.number(event, depth)),
            1 => format!("({} - {})", self.number(event, depth), self.number(event, depth)),
            2 => format!("({} * {})", self.number(event, depth), self.below(9)),
            // The checker warns of a division by a 0 that it can see, or refuses it.
            3 => format!("({} / {})", self.number(event, depth), self.below(9) + 1),
            4 => format!("({} % {})", self.number(event, depth), self.below(30) + 1),
            5 => format!(
                "({} {} {})",
                self.number(event, depth),
                self.one_of(&["&", "|", "^"]),
                self.below(64)
            ),
            6 => format!(
                "({} {} {})",
                self.number(event, depth),
                self.one_of(&["<<", ">>"]),
                self.below(8)
            ),
            7 => {
                let ty = self.one_of(&[
                    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
                ]);
                format!("({ty})({})", self.number(event, depth))
            }
            _ => format!(
                "({} ? {} : {})",
                self.truth(event, depth),
                self.number(event, depth),
                self.number(event, depth)
            ),
        }
    }

    /// A condition.
    fn truth(&mut self, event: usize, depth: u32) -> String {
        if depth == 0 || self.below(3) == 0 {
            return match self.below(5) {
                0 => self
                    .one_of(&[
                        "comm == \"sh\"",
                        "comm != \"sh\"",
                        "strncmp(comm, \"shell\", 2) == 0",
                        "tid == pid",
                    ])
                    .to_owned(),
                1 if event == OPEN => format!(
                    "str(args.filename) == \"{}\"",
                    self.one_of(&["/etc/passwd", "/dev/null", "/none"])
                ),
                2 if event == OPEN => "strncmp(str(args.filename), \"/proc\", 5) == 0".to_owned(),
                _ => format!(
                    "{} {} {}",
                    self.field(event),
                    self.one_of(&["==", "!=", "<", ">", "<=", ">="]),
                    self.below(12)
                ),
            };
        }
        let depth = depth - 1;
        match self.below(3) {
            0 => format!("({} && {})", self.truth(event, depth), self.truth(event, depth)),
            1 => format!("({} || {})", self.truth(event, depth), self.truth(event, depth)),
            _ => format!("!({})", self.truth(event, depth)),
        }
    }

    /// A key of a map.
    fn key(&mut self, event: usize) -> String {
        match self.below(8) {
            0 => "comm".to_owned(),
            1 => "probe".to_owned(),
            2 => format!("comm, {}", self.field(event)),
            3 => format!("({}, comm)", self.number(event, 1)),
            4 if event == OPEN => "str(args.filename)".to_owned(),
            4 => "tid, probe".to_owned(),
            5 => format!("{}, {}", self.number(event, 1), self.number(event, 0)),
            _ => self.number(event, 1),
        }
    }

    fn statement(&mut self, event: usize, depth: u32) -> String {
        match self.below(12) {
            0 => format!("{}[{}] = count();", self.map(), self.key(event)),
            1..=3 => {
                let function = self.one_of(&["sum", "min", "max", "avg", "stats", "hist"]);
                let (map, key, number) = (self.map(), self.key(event), self.number(event, 2));
                match self.below(4) {
                    0 => format!("{map} = {function}({number});"),
                    1 => format!("{map}[{key}] = lhist({number}, 0, 1000, 100);"),
                    _ => format!("{map}[{key}] = {function}({number});"),
                }
            }
            4 => format!("{}[{}] = {};", self.map(), self.key(event), self.number(event, 2)),
            5 => format!(
                "{}[tid] = ({}, comm, {});",
                self.map(),
                self.number(event, 1),
                self.field(event)
            ),
            6 => {
                let map = self.map();
                let more = self.one_of(&["++", "--"]).to_owned();
                match self.below(2) {
                    0 => format!("{map}{more};"),
                    _ => format!("{map} += {};", self.number(event, 1)),
                }
            }
            7 => {
                let format =
                    self.one_of(&["%d %x %s", "%5d|%-8x|%6s", "%u %o %s", "%lld %#x %s", "%c %d %s"]);
                let text = match event == OPEN && self.below(2) == 0 {
                    true => "str(args.filename)",
                    false => self.one_of(&["comm", "probe", "\"text\""]),
                };
                let first = match format.starts_with("%c") {
                    true => "65".to_owned(),
                    false => self.number(event, 1),
                };
                let (seed, second) = (self.seed, self.number(event, 1));
                format!("printf(\"s{seed} {format}\\n\", {first}, {second}, {text});")
            }
            8 => {
                let (seed, number) = (self.seed, self.number(event, 1));
                format!("print((\"s{seed}\", {number}, comm));")
            }
            9 => {
                let name = format!("$v{}", self.numbers.len());
                let text = format!("{name} = (int64)({});", self.number(event, 2));
                self.numbers.push(name);
                text
            }
            10 if depth > 0 => {
                // A variable of a block is not known behind it.
                let known = self.numbers.len();
                let then = self.statement(event, depth - 1);
                self.numbers.truncate(known);
                let otherwise = self.statement(event, depth - 1);
                self.numbers.truncate(known);
                format!(
                    "if ({}) {{ {then} }} else {{ {otherwise} }}",
                    self.truth(event, 1)
                )
            }
            _ => {
                let map = self.map();
                let turns = self.below(4) + 1;
                let number = self.number(event, 1);
                format!("$i = 0; while ($i < {turns}) {{ {map}[$i] = sum({number}); $i++; }}")
            }
        }
    }
}

/// Output of programs: by seed, maps by name and lines in order.
type Printed = BTreeMap<u64, (BTreeMap<String, String>, Vec<String>)>;

/// A difference between a program's output over the recording and live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The seed.
    pub seed: u64,
    /// The part that differs: a map's name, or `lines`.
    pub what: String,
    /// Output live, and over the recording.
    pub output: (String, String),
}

/// Result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Programs that were run both ways.
    pub programs: u64,
    /// Maps that were printed live.
    pub maps: u64,
    /// Lines that were compared.
    pub lines: u64,
    /// The differences.
    pub differences: Vec<Difference>,
}

/// Runs the programs of these seeds live, `together` as one, all at the same time as a recording of their events, then over the recording. `folder` is empty.
///
/// # Errors
/// When a program is refused or events were lost, in words.
pub fn compare(
    kestrel: &Path,
    folder: &Path,
    seeds: std::ops::Range<u64>,
    together: u64,
) -> io::Result<Compared> {
    let mut work = KilledOnDrop(
        Command::new("sh")
            .args(["-c", WORKLOAD])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?,
    );
    let pid = work.0.id().to_string();
    let mut ready = String::new();
    let mut out = BufReader::new(work.0.stdout.take().ok_or_else(|| failed("no output"))?);
    out.read_line(&mut ready)?;
    let mut record = Command::new(kestrel);
    // The recorder says when it lets events in, and ends with the process that it follows.
    record.args(["record", "-v", "-p", &pid, "-o", "recorded"]);
    record.args(RECORDED.iter().flat_map(|event| ["-e", *event]));
    record
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut recorder = KilledOnDrop(record.spawn()?);
    let mut messages = BufReader::new(recorder.0.stderr.take().ok_or_else(|| failed("no output"))?);
    let mut live = Vec::new();
    let mut first = seeds.start;
    while first < seeds.end {
        let last = seeds.end.min(first + together.max(1));
        let file = format!("{first}.bt");
        let handlers: String = (first..last).map(program).collect();
        let text = format!("begin {{ printf(\"begin\\n\"); }}\n{handlers}");
        std::fs::write(folder.join(&file), text)?;
        let mut run = Command::new(kestrel);
        run.args(["run", "-q", "-f", "json", &file, "-p", &pid, &pid])
            .current_dir(folder);
        let mut run = KilledOnDrop(run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
        let mut out = BufReader::new(run.0.stdout.take().ok_or_else(|| failed("no output"))?);
        let mut line = String::new();
        while !line.contains("begin") {
            line.clear();
            if out.read_line(&mut line)? == 0 {
                return Err(failed(&format!("{file} does not run: {}", run.errors()?)));
            }
        }
        live.push((file, run, out));
        first = last;
    }
    // The work begins when all programs and the recording are attached: all see the same events.
    let mut recorder_output = String::new();
    while !recorder_output.contains("recording into") {
        if messages.read_line(&mut recorder_output)? == 0 {
            return Err(failed(&format!("no recording begins: {recorder_output}")));
        }
    }
    work.0
        .stdin
        .take()
        .ok_or_else(|| failed("no input"))?
        .write_all(b"go\n")?;
    work.0.wait()?;
    let mut compared = Compared::default();
    let mut printed = Vec::new();
    // Maps are printed when a program ends, which it does with the process that it follows.
    for (file, mut run, mut out) in live {
        let mut text = String::new();
        out.read_to_string(&mut text)?;
        let errors = run.errors()?;
        if !run.0.wait()?.success() || errors.contains("lost") || errors.contains("missed") {
            return Err(failed(&format!("{file} did not see all: {errors}")));
        }
        printed.push((file, taken(&text)?));
    }
    // Events that either side did not see would be a difference that says nothing about replay.
    messages.read_to_string(&mut recorder_output)?;
    let sees_all = [
        "; lost 0, missed 0\n",
        "; lost 0, missed 0 (not all are counted)\n",
    ];
    if !recorder.0.wait()?.success() || !sees_all.iter().any(|line| recorder_output.contains(line)) {
        return Err(failed(&format!("the recording is not whole: {recorder_output}")));
    }
    for (file, live) in printed {
        let mut run = Command::new(kestrel);
        run.args(["run", "-q", "-f", "json", &file, "--trace", "recorded", &pid])
            .current_dir(folder);
        let output = run.output()?;
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(failed(&format!(
                "{file} does not run over the recording: {messages}"
            )));
        }
        let later = taken(&String::from_utf8_lossy(&output.stdout))?;
        compared.add(&live, &later);
    }
    compared.programs = seeds.end - seeds.start;
    Ok(compared)
}

impl Compared {
    fn add(&mut self, live: &Printed, later: &Printed) {
        let seeds: std::collections::BTreeSet<u64> = live.keys().chain(later.keys()).copied().collect();
        let nothing = Default::default();
        for seed in seeds {
            let (here, there) = (
                live.get(&seed).unwrap_or(&nothing),
                later.get(&seed).unwrap_or(&nothing),
            );
            self.maps += here.0.len() as u64;
            self.lines += here.1.len() as u64;
            let names: std::collections::BTreeSet<&String> = here.0.keys().chain(there.0.keys()).collect();
            for name in names {
                let of = |maps: &BTreeMap<String, String>| maps.get(name).cloned().unwrap_or_default();
                self.differ(seed, name, (of(&here.0), of(&there.0)));
            }
            let lines = here.1.iter().zip(&there.1).find(|(here, there)| here != there);
            match lines {
                Some((here, there)) => self.differ(seed, "lines", (here.clone(), there.clone())),
                None => self.differ(
                    seed,
                    "lines",
                    (here.1.len().to_string(), there.1.len().to_string()),
                ),
            }
        }
    }

    fn differ(&mut self, seed: u64, what: &str, output: (String, String)) {
        if output.0 != output.1 {
            let what = what.to_owned();
            self.differences.push(Difference { seed, what, output });
        }
    }
}

/// Takes what programs printed apart, by their seeds.
fn taken(text: &str) -> io::Result<Printed> {
    let mut printed = Printed::new();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).map_err(|error| failed(&format!("{error}: {line}")))?;
        let data = &value["data"];
        match value["type"].as_str() {
            Some("lost_events") => return Err(failed(&format!("a program lost events: {line}"))),
            Some("printf" | "value" | "tuple") => {
                let line = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
                if let Some(seed) = seed_of(&line) {
                    printed.entry(seed).or_default().1.push(line);
                }
            }
            _ => {
                for (name, content) in data.as_object().into_iter().flatten() {
                    if let Some(seed) = seed_of(name) {
                        printed
                            .entry(seed)
                            .or_default()
                            .0
                            .insert(name.clone(), content.to_string());
                    }
                }
            }
        }
    }
    Ok(printed)
}

/// The seed behind the first `s` and before what is no digit.
fn seed_of(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once('s')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

fn failed(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}

/// A process that is killed when this is dropped.
struct KilledOnDrop(Child);

impl KilledOnDrop {
    /// The text that it writes to standard error until it closes it.
    fn errors(&mut self) -> io::Result<String> {
        let mut errors = String::new();
        if let Some(mut err) = self.0.stderr.take() {
            err.read_to_string(&mut errors)?;
        }
        Ok(errors)
    }
}

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
