//! Verdicts of a program's tests and benchmarks, as bpftrace prints them: lines of text with marks in front, or lines of JSON.

use crate::print::bpftrace_string;
use std::fmt::Write;

/// Result of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The name behind `test:`.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// Run time of its handlers, by the kernel's count.
    pub nanoseconds: u64,
    /// The output, as text.
    pub printed: Vec<u8>,
}

/// Result of one benchmark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Benchmark {
    /// The name behind `bench:`.
    pub name: String,
    /// Nanoseconds of one run, on average.
    pub nanoseconds: u64,
    /// Number of runs.
    pub runs: u64,
}

/// Form of verdicts as they are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerdictForm {
    /// Whether verdicts are lines of JSON.
    pub json: bool,
    /// Whether marks have colours.
    pub colour: bool,
}

/// Frame in front of a line, ten wide between its brackets.
const FRAME: &str = "==========";
const RUN: &str = " RUN      ";
const OK: &str = "       OK ";
const PASSED: &str = "  PASSED  ";
const FAILED: &str = "  FAILED  ";

impl VerdictForm {
    /// Line before all tests.
    pub fn before(self, tests: usize) -> String {
        self.line(FRAME, &format!("Running {tests} tests."))
    }

    /// Line before one test.
    pub fn running(self, name: &str) -> String {
        self.line(RUN, name)
    }

    /// Lines behind one test, with what it printed where that is to be shown.
    pub fn verdict(self, verdict: &Verdict) -> Vec<u8> {
        let name = &verdict.name;
        if self.json {
            let mut out = b"{\"type\": \"test_result\", \"data\": {".to_vec();
            bpftrace_string(name.as_bytes(), &mut out);
            let (passed, took) = (verdict.passed, verdict.nanoseconds);
            let rest = format!(": {{\"duration\": {took}, \"passed\": {passed}, \"output\": ");
            out.extend_from_slice(rest.as_bytes());
            bpftrace_string(&verdict.printed, &mut out);
            out.extend_from_slice(b"}}}\n");
            return out;
        }
        let (mut out, mark) = match verdict.passed {
            true => (Vec::new(), OK),
            false => (verdict.printed.clone(), FAILED),
        };
        if out.last().is_some_and(|last| *last != b'\n') {
            out.push(b'\n');
        }
        let line = self.line(mark, &format!("{name} ({})", took(verdict.nanoseconds)));
        out.extend_from_slice(line.as_bytes());
        out
    }

    /// Lines behind all tests.
    pub fn after(self, verdicts: &[Verdict]) -> String {
        let counted = |count: usize| match count {
            1 => "1 test".to_owned(),
            count => format!("{count} tests"),
        };
        let failed: Vec<_> = verdicts.iter().filter(|verdict| !verdict.passed).collect();
        let mut out = self.line(FRAME, &format!("{} ran.", counted(verdicts.len())));
        let passed = counted(verdicts.len() - failed.len());
        out.push_str(&self.line(PASSED, &format!("{passed}.")));
        if !failed.is_empty() {
            let listed = format!("{}, listed below:", counted(failed.len()));
            out.push_str(&self.line(FAILED, &listed));
        }
        for verdict in failed {
            out.push_str(&self.line(FAILED, &verdict.name));
        }
        out
    }

    /// A table of benchmarks; nothing where there are none.
    pub fn benchmarks(self, all: &[Benchmark]) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.json && !all.is_empty() {
            let title = format!("{:<40} {:<14} {:>10}\n", "Benchmark", "Time(ns)", "Iterations");
            out.extend_from_slice(title.as_bytes());
            out.extend_from_slice("-".repeat(title.len() - 1).as_bytes());
            out.push(b'\n');
        }
        for one in all {
            let (name, took, runs) = (&one.name, one.nanoseconds, one.runs);
            if self.json {
                out.extend_from_slice(b"{\"type\": \"benchmark_result\", \"data\": {");
                bpftrace_string(name.as_bytes(), &mut out);
                let rest = format!(": {{\"average\": {took}, \"iters\": {runs}}}}}}}\n");
                out.extend_from_slice(rest.as_bytes());
            } else {
                out.extend_from_slice(format!("{name:<40} {took:<14} {runs}\n").as_bytes());
            }
        }
        out
    }

    /// A line with a mark in front; nothing in JSON.
    fn line(self, mark: &str, text: &str) -> String {
        let mut out = String::new();
        if !self.json {
            let (on, off) = match (self.colour, mark) {
                (false, _) => ("", ""),
                (true, FAILED) => ("\x1b[31m", "\x1b[0m"),
                (true, _) => ("\x1b[32m", "\x1b[0m"),
            };
            let _ = writeln!(out, "{on}[{mark}]{off} {text}");
        }
        out
    }
}

/// A time in the largest unit that leaves a whole number of it.
fn took(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{} μs", nanoseconds / 1_000),
        _ => format!("{} ms", nanoseconds / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: VerdictForm = VerdictForm {
        json: false,
        colour: false,
    };
    const JSON: VerdictForm = VerdictForm { json: true, ..TEXT };

    fn verdict(name: &str, passed: bool, nanoseconds: u64, printed: &str) -> Verdict {
        Verdict {
            name: name.to_owned(),
            passed,
            nanoseconds,
            printed: printed.as_bytes().to_vec(),
        }
    }

    #[test]
    fn tests_are_shown_as_they_run_and_those_that_failed_again() {
        let all = [
            verdict("fine", true, 999, "quiet\n"),
            verdict("wrong", false, 12_345, "lo\"ud"),
        ];
        let mut shown = TEXT.before(2).into_bytes();
        for one in &all {
            shown.extend_from_slice(TEXT.running(&one.name).as_bytes());
            shown.extend_from_slice(&TEXT.verdict(one));
        }
        shown.extend_from_slice(TEXT.after(&all).as_bytes());
        let wanted = "[==========] Running 2 tests.\n\
            [ RUN      ] fine\n[       OK ] fine (999 ns)\n\
            [ RUN      ] wrong\nlo\"ud\n[  FAILED  ] wrong (12 μs)\n\
            [==========] 2 tests ran.\n[  PASSED  ] 1 test.\n\
            [  FAILED  ] 1 test, listed below:\n[  FAILED  ] wrong\n";
        assert_eq!(String::from_utf8(shown).unwrap(), wanted);
        let passing = TEXT.after(&all[..1]);
        assert_eq!(passing, "[==========] 1 test ran.\n[  PASSED  ] 1 test.\n");
        let coloured = VerdictForm { colour: true, ..TEXT };
        assert_eq!(coloured.running("a"), "\x1b[32m[ RUN      ]\x1b[0m a\n");
    }

    #[test]
    fn tests_are_objects_of_json() {
        let line = JSON.verdict(&verdict("wrong", false, 12_345, "lo\"ud\n"));
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        let wanted = serde_json::json!({"type": "test_result",
            "data": {"wrong": {"duration": 12345, "passed": false, "output": "lo\"ud\n"}}});
        assert_eq!(value, wanted);
        assert_eq!(JSON.before(1) + &JSON.running("a") + &JSON.after(&[]), "");
    }

    #[test]
    fn benchmarks_are_a_table_or_objects() {
        let one = Benchmark {
            name: "count".to_owned(),
            nanoseconds: 44,
            runs: 40_000,
        };
        let table = String::from_utf8(TEXT.benchmarks(std::slice::from_ref(&one))).unwrap();
        let line = format!("{}\n", "-".repeat(66));
        let head = "Benchmark                                Time(ns)       Iterations\n";
        let row = "count                                    44             40000\n";
        assert_eq!(table, [head, &line, row].concat());
        let json = String::from_utf8(JSON.benchmarks(&[one])).unwrap();
        let wanted = r#"{"type": "benchmark_result", "data": {"count": {"average": 44, "iters": 40000}}}"#;
        assert_eq!(json.trim_end(), wanted);
    }
}
