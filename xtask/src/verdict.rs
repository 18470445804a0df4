//! The verdict of a guest test, read from how its program ended and what it printed. It runs nothing.

use crate::{guest::ExitStatus, pace::Took, tally::Tally};

/// Result of one test on one kernel.
pub(crate) enum Verdict {
    Passed,
    Failed(ExitStatus),
    Skipped(String),
}

impl Verdict {
    pub(crate) fn of(ending: ExitStatus, printed: &str) -> Self {
        if ending != ExitStatus::Exited(0) {
            return Self::Failed(ending);
        }
        // The harness writes "test NAME ... " without a newline before what the test prints.
        let reason = printed
            .lines()
            .find_map(|line| line.split_once("skipped: ").map(|(_, reason)| reason.to_owned()));
        let ignored = printed
            .lines()
            .any(|line| line.starts_with("test ") && line.contains(" ... ignored"));
        match reason {
            Some(reason) => Self::Skipped(reason),
            None if ignored => Self::Skipped("ignored".to_owned()),
            None => Self::Passed,
        }
    }

    /// The line that reports it.
    pub(crate) fn line(&self, took: &Took) -> String {
        let (mark, note) = match self {
            Self::Passed => ("ok", String::new()),
            Self::Failed(ending) => ("FAILED", format!(" ({ending:?})")),
            Self::Skipped(reason) => ("skipped", format!(": {reason}")),
        };
        format!(
            "{:>5} {} {mark} {:.2} s{note}",
            took.series,
            took.test,
            took.wall.as_secs_f64()
        )
    }

    pub(crate) fn tally(&self) -> Tally {
        match self {
            Self::Passed => Tally::one(true),
            Self::Failed(_) => Tally::one(false),
            Self::Skipped(_) => Tally {
                skipped: 1,
                ..Tally::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_says_skipped_is_skipped_even_on_the_harness_line() {
        let skipped =
            |printed: &str| matches!(Verdict::of(ExitStatus::Exited(0), printed), Verdict::Skipped(_));
        assert!(skipped(
            "running 1 test\ntest a ... skipped: no fentry on 6.1\nok\n"
        ));
        assert!(skipped("test a ... ignored, needs a PMU\n"));
        assert!(!skipped("test a ... ok\n"));
        assert!(matches!(
            Verdict::of(ExitStatus::Exited(101), "skipped: x"),
            Verdict::Failed(_)
        ));
        assert!(matches!(
            Verdict::of(ExitStatus::Died, ""),
            Verdict::Failed(ExitStatus::Died)
        ));
    }
}
