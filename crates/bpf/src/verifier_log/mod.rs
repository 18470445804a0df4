//! The verifier's log as a value: which instruction, why, with what in the registers; it asks the kernel nothing.
//!
//! The log is text without a grammar, and differs between kernels: what is not recognised is left out, never an error.
//! Its sources are `kernel/bpf/verifier.c` and `kernel/bpf/log.c`.

mod objections;

pub use objections::{advice, explain};

/// A verifier log, parsed.
///
/// ```
/// let log = "\
/// 0: R1=ctx() R10=fp0
/// 0: (79) r1 = *(u64 *)(r1 +0)          ; R1=scalar()
/// 1: (79) r0 = *(u64 *)(r1 +16)
/// R1 invalid mem access 'scalar'
/// processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
/// ";
/// let log = kestrel_bpf::verifier_log::parse(log);
/// assert_eq!(log.insn, Some(1));
/// assert_eq!(log.message, "R1 invalid mem access 'scalar'");
/// assert_eq!(log.register(1), Some("scalar()"));
/// assert!(log.explanation().is_some());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifierLog {
    /// Index of the instruction that was verified last: the offending one, if the program was refused.
    pub insn: Option<usize>,
    /// The text; empty when it was refused before any instruction was walked.
    pub text: String,
    /// The text right before the statistics, lines joined by newlines; empty when there are none.
    pub message: String,
    /// Registers and stack slots (`R1`, `fp-8`) before the instruction, as far as the log says.
    pub state: Vec<(String, String)>,
    /// The statistics at the end, if the log was not cut before them.
    pub stats: Option<Stats>,
}

/// The last line of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Instructions walked, each as often as it was.
    pub processed: u64,
    /// The kernel's limit of them.
    pub limit: u64,
    /// States kept at the instruction that has most.
    pub max_states_per_insn: u64,
    /// States kept altogether.
    pub total_states: u64,
    /// States kept at the same time.
    pub peak_states: u64,
}

impl VerifierLog {
    /// State of a register before the instruction.
    pub fn register(&self, number: u8) -> Option<&str> {
        let name = format!("R{number}");
        self.state
            .iter()
            .find(|(register, _)| *register == name)
            .map(|(_, value)| value.as_str())
    }

    /// Advice for an author of C, where the refusal is one of the frequent ones.
    pub fn advice(&self) -> Option<&'static str> {
        if self.is_after_release() {
            return Some(
                "memory that was submitted, discarded or released cannot be read any more: read what is needed before",
            );
        }
        advice(&self.message).or_else(|| advice(&self.text))
    }

    /// A plain sentence for the message, where it is one of the frequent ones.
    pub fn explanation(&self) -> Option<&'static str> {
        if self.is_after_release() {
            return Some("memory is used after it was given back");
        }
        explain(&self.message)
    }

    /// Whether the number that is followed was a pointer to something acquired: releasing it turns all pointers to it into numbers, of which the log
    /// says nothing.
    fn is_after_release(&self) -> bool {
        let line = self.message.lines().find(|line| {
            line.contains("invalid mem access 'scalar'") || line.contains("invalid mem access 'inv'")
        });
        let register = line.and_then(|line| line.split_whitespace().next());
        let mut states = self.state.iter();
        let known = register.and_then(|name| states.find(|(register, _)| register == name));
        known.is_some_and(|(_, value)| value.contains("ref_obj_id="))
    }
}

/// Reads a log of level 1 or 2 (`BPF_LOG_LEVEL1`), of a refused program or an accepted one.
pub fn parse(log: &str) -> VerifierLog {
    let mut found = VerifierLog::default();
    // Changes by the last instruction: not part of the state *before* it.
    let mut after: Option<State> = None;
    let mut message: Vec<&str> = Vec::new();
    for line in log.lines().map(str::trim_end) {
        if let Some(stats) = stats(line) {
            found.stats = Some(stats);
            break;
        }
        if let Some((insn, text)) = instruction(line) {
            after.take().into_iter().for_each(|state| found.apply(state));
            message.clear();
            if found.text.starts_with("call ") {
                found
                    .state
                    .retain(|(name, _)| !ARGUMENTS.contains(&name.as_str()));
            }
            let (text, rest) = split_message(text);
            let (text, state) = split_state(text);
            (found.insn, found.text) = (Some(insn), text.to_owned());
            after = state;
            message.extend(rest);
        } else if let Some(state) = whole_state(line) {
            found.apply(state);
        } else if !noise(line) {
            message.push(line.trim_start());
        }
    }
    found.message = message.join("\n");
    if found.insn.is_none() || found.message.contains("insn ") {
        found.insn = insn_in_message(&found.message).or(found.insn);
    }
    found
}

/// The registers that a call clobbers.
const ARGUMENTS: [&str; 5] = ["R1", "R2", "R3", "R4", "R5"];

/// Register state of a line of the log: all of it, which replaces what was known, or what changed.
struct State {
    whole: bool,
    values: Vec<(String, String)>,
}

impl VerifierLog {
    fn apply(&mut self, state: State) {
        if state.whole {
            self.state.clear();
        }
        for (name, value) in state.values {
            match self.state.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = value,
                None => self.state.push((name, value)),
            }
        }
    }
}

/// `12: (79) r1 = …`: number and text.
fn instruction(line: &str) -> Option<(usize, &str)> {
    let (number, rest) = line.split_once(": (")?;
    let (code, text) = rest.split_once(") ")?;
    let hex = code.len() == 2 && code.bytes().all(|b| b.is_ascii_hexdigit());
    Some((number.parse().ok().filter(|_| hex)?, text))
}

/// An instruction's text apart from what some kernels write behind it without a new line: a loop is found before its first instruction is looked at
/// again.
fn split_message(text: &str) -> (&str, Option<&str>) {
    match text.find("infinite loop detected") {
        Some(at) => {
            let (text, printed) = text.split_at(at);
            (text.trim_end(), Some(printed))
        }
        None => (text, None),
    }
}

/// An instruction's text apart from the state that newer kernels write behind it: `; R1=…` (what it changed) or
/// `4: R1=…` (all there is where the walk goes on).
fn split_state(text: &str) -> (&str, Option<State>) {
    if let Some((text, state)) = text.split_once("; ") {
        return (
            text.trim_end(),
            Some(State {
                whole: false,
                values: values(state),
            }),
        );
    }
    for (at, _) in text.match_indices(": R") {
        let Some((before, number)) = text.get(..at).and_then(|t| t.rsplit_once(' ')) else {
            continue;
        };
        if number.parse::<usize>().is_ok() {
            let state = text.get(at + 2..).unwrap_or("");
            return (
                before.trim_end(),
                Some(State {
                    whole: true,
                    values: values(state),
                }),
            );
        }
    }
    (text.trim_end(), None)
}

/// `0: R1=ctx() R10=fp0`, `from 3 to 5: R0=…`, or (before 5.16) ` R0=inv(id=0) R10=fp0`.
fn whole_state(line: &str) -> Option<State> {
    let state = match line.split_once(": ") {
        Some((place, state)) if place.parse::<usize>().is_ok() || place.starts_with("from ") => state,
        None if line.starts_with(" R") => line,
        _ => return None,
    };
    let values = values(state.trim_start());
    (!values.is_empty()).then_some(State { whole: true, values })
}

/// `R1=ctx() R6_w=scalar(umax=5,var_off=(0x0; 0x7)) fp-8=????0000` as pairs, liveness marks dropped.
fn values(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut rest = text.trim();
    while let Some((name, value)) = rest.split_once('=') {
        let name = name.trim();
        let bare = name.split('_').next().unwrap_or(name);
        if !(bare.starts_with('R') || bare.starts_with("fp-")) || bare.contains(' ') {
            break;
        }
        let mut depth = 0_i32;
        let end = value.find(|c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            c == ' ' && depth <= 0
        });
        let (value, after) = value.split_at(end.unwrap_or(value.len()));
        pairs.push((bare.to_owned(), value.to_owned()));
        rest = after.trim_start();
    }
    pairs
}

/// Lines that explain the walk but not the refusal.
fn noise(line: &str) -> bool {
    const STARTS: [&str; 16] = [
        ";",
        "func#",
        "Live regs before",
        "mark_precise",
        "last_idx",
        "regs=",
        "parent ",
        "propagating ",
        "from ",
        "returning from callee",
        "to caller at",
        "caller:",
        "callee:",
        "verification time",
        // Of a loop, when it was here the last time and now.
        "cur state:",
        "old state:",
    ];
    let line = line.trim_start();
    // `5: safe`, and the lines of the table of live registers.
    let walk = line
        .split_once(": ")
        .is_some_and(|(number, _)| number.parse::<usize>().is_ok());
    line.is_empty() || walk || STARTS.iter().any(|start| line.starts_with(start))
}

fn stats(line: &str) -> Option<Stats> {
    let mut words = line.split([' ', '(', ')']).filter(|word| !word.is_empty());
    let (first, processed, insns) = (words.next()?, words.next()?, words.next()?);
    if first != "processed" || !insns.starts_with("insn") {
        return None;
    }
    let mut stats = Stats {
        processed: processed.parse().ok()?,
        ..Stats::default()
    };
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        let value = value.parse().unwrap_or(0);
        match name {
            "limit" => stats.limit = value,
            "max_states_per_insn" => stats.max_states_per_insn = value,
            "total_states" => stats.total_states = value,
            "peak_states" => stats.peak_states = value,
            _ => {}
        }
    }
    Some(stats)
}

/// `unreachable insn 7`, `jump out of range from insn 0 to 21`, `back-edge from insn 4 to 1`.
fn insn_in_message(message: &str) -> Option<usize> {
    let (_, rest) = message.split_once("insn ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests;
