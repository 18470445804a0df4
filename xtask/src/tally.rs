//! Numbers of tests that passed, failed and were skipped; the line that ends a run. It runs nothing.

use std::{fmt, iter::Sum, ops::Add};

/// Counts of tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    /// Failed, and passed when they were tried again; in none of the other counts.
    pub(crate) flaky: u64,
}

/// With more flaky tests than these a run has failed: one may be the machine's fault, many are not.
const MAX_FLAKY: u64 = 3;

impl Tally {
    /// Whether the run may be called good.
    pub(crate) fn holds(&self) -> bool {
        self.failed == 0 && self.flaky <= MAX_FLAKY
    }

    /// One test, or one part of a run that either holds or does not.
    pub(crate) fn one(passed: bool) -> Self {
        Self {
            passed: u64::from(passed),
            failed: u64::from(!passed),
            ..Self::default()
        }
    }

    /// A test that failed, and passed when it was tried again.
    pub(crate) fn flaky() -> Self {
        Self {
            flaky: 1,
            ..Self::default()
        }
    }

    /// Reads the counts out of what `cargo test -- --show-output` printed. A test that prints a line
    /// `skipped: reason` counts as skipped, though the test harness calls it passed.
    pub(crate) fn of_cargo_test(output: &str) -> Self {
        let results: Self = output.lines().filter_map(result_line).sum();
        let skipped = skipped_sections(output).len() as u64;
        Self {
            passed: results.passed.saturating_sub(skipped),
            skipped: results.skipped + skipped,
            ..results
        }
    }
}

/// The reasons that passing tests gave for skipping, each with the test's name.
pub(crate) fn skipped_sections(output: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut section: Option<&str> = None;
    for line in output.lines() {
        if let Some(name) = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            section = Some(name);
        } else if let (Some(name), Some(reason)) = (section, line.strip_prefix("skipped: ")) {
            reasons.push(format!("{name}: {reason}"));
            section = None;
        } else if line.starts_with("test result: ") {
            section = None;
        }
    }
    reasons
}

/// Whether every program of tests that began came to its end.
pub(crate) fn all_ended(output: &str) -> bool {
    let began = output
        .lines()
        .filter_map(|line| line.strip_prefix("running ")?.split_once(' '))
        .filter(|(_, rest)| rest.starts_with("test"))
        .count();
    began == output.lines().filter_map(result_line).count()
}

/// The names of the tests that failed.
pub(crate) fn failed_tests(output: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut in_list = false;
    for line in output.lines() {
        match line.strip_prefix("    ") {
            // The list stands below the accounts of the tests, under the same word.
            Some(name) if in_list => names.push(name.to_owned()),
            _ => in_list = line == "failures:",
        }
    }
    names
}

/// Output of a failed test, cut to so many lines.
pub(crate) fn account<'a>(output: &'a str, name: &str, most: usize) -> Vec<&'a str> {
    let head = format!("---- {name} stdout ----");
    let lines = output.lines().skip_while(|line| *line != head).skip(1);
    lines
        .take_while(|line| !line.starts_with("---- ") && *line != "failures:")
        .filter(|line| !line.is_empty())
        .take(most)
        .collect()
}

/// `test result: ok. 5 passed; 0 failed; 1 ignored; …`
fn result_line(line: &str) -> Option<Tally> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |what: &str| {
        let mut parts = counts.split("; ");
        parts
            .find_map(|part| part.strip_suffix(what)?.trim().parse().ok())
            .unwrap_or_default()
    };
    Some(Tally {
        passed: count("passed"),
        failed: count("failed"),
        skipped: count("ignored"),
        flaky: 0,
    })
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )?;
        match self.flaky {
            0 => Ok(()),
            flaky if flaky <= MAX_FLAKY => write!(f, ", {flaky} flaky"),
            flaky => write!(f, ", {flaky} flaky, which is too many"),
        }
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
            flaky: self.flaky + other.flaky,
        }
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_say_skipped_are_not_called_passed() {
        let output = "running 3 tests\n\nsuccesses:\n\n---- a stdout ----\nskipped: no root\nskipped: said twice\n\n\
                      ---- b stdout ----\nhello\n\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n\
                      skipped: not a test's\ntest result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured\n";
        let tally = Tally::of_cargo_test(output);
        assert_eq!(
            tally,
            Tally {
                passed: 3,
                failed: 2,
                skipped: 2,
                flaky: 0,
            }
        );
        assert_eq!(tally.to_string(), "3 passed, 2 failed, 2 skipped");
        assert_eq!(skipped_sections(output), ["a: no root"]);
    }

    #[test]
    fn failed_tests_are_named_with_their_output() {
        let output = "running 3 tests\n\nsuccesses:\n\n---- a stdout ----\nhello\n\n\nsuccesses:\n    a\n\nfailures:\n\n\
                      ---- b::c stdout ----\n\nthread 'b::c' panicked\nleft: 1\nright: 2\n\n---- d stdout ----\nno\n\n\n\
                      failures:\n    b::c\n    d\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured\n    e\n";
        assert_eq!(failed_tests(output), ["b::c", "d"]);
        assert_eq!(account(output, "b::c", 2), ["thread 'b::c' panicked", "left: 1"]);
        assert_eq!(account(output, "d", 5), ["no"]);
        assert!(account(output, "e", 5).is_empty());
        assert!(all_ended(output) && !all_ended(&format!("{output}running 1 test\n")));
    }

    #[test]
    fn few_flaky_tests_are_reported_and_many_fail_the_run() {
        let flaky = |flaky| Tally {
            passed: 5,
            flaky,
            ..Tally::default()
        };
        assert!(flaky(0).holds() && flaky(3).holds() && !flaky(4).holds() && !Tally::one(false).holds());
        assert_eq!(flaky(1).to_string(), "5 passed, 0 failed, 0 skipped, 1 flaky");
        assert!(flaky(4).to_string().ends_with(", 4 flaky, which is too many"));
    }
}
