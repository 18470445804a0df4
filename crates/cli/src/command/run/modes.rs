//! Programs that are measured or tested rather than run: their `bench:` and `test:` events.

use super::options::{Options, OutputFormat, RunMode};
use crate::exit::{Exit, Failure};
use crate::style::colour;
use kestrel::plan::ProgramText;
use kestrel_trace::output::VerdictForm;
use std::io::IsTerminal;

/// Removes `bench:` and `test:` events but those of the chosen mode.
///
/// # Errors
/// When there are no others: how they are run.
pub(super) fn keep_events_of_mode(program: &mut ProgramText, mode: Option<RunMode>) -> Result<(), Failure> {
    let mut other = None;
    for probe in &mut program.probes {
        probe.events.retain(|event| {
            let how = match event.parts.first().map(|part| part.text.as_str()) {
                Some("bench") => (RunMode::Bench, "--bench to run benchmark probes"),
                Some("test") => (RunMode::Test, "--test to run test probes"),
                _ => return true,
            };
            let kept = mode == Some(how.0);
            if !kept {
                other = Some(how.1);
            }
            kept
        });
    }
    program.probes.retain(|probe| !probe.events.is_empty());
    match other.filter(|_| program.probes.is_empty()) {
        Some(how) => Err(Failure::new(
            Exit::Failed,
            format!("No probes attached; use {how}."),
        )),
        None => Ok(()),
    }
}

/// Whether nothing of a program runs again once its `begin` has run and its iterators have walked: it attaches nothing else, `end` aside.
pub(super) fn runs_once(kinds: &[&str]) -> bool {
    kinds.iter().all(|kind| matches!(*kind, "iter" | "begin" | "end"))
}

/// Form in which tests and benchmarks are shown.
pub(super) fn form(options: &Options) -> VerdictForm {
    VerdictForm {
        json: options.format == OutputFormat::Json,
        colour: options.output.is_none() && colour(std::io::stdout().is_terminal()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_runs_once_whose_events_do_not_come_again() {
        for once in [&["begin"][..], &["end"], &["begin", "iter", "end"]] {
            assert!(runs_once(once), "{once:?}");
        }
        for again in [&["begin", "interval"][..], &["self"], &["iter", "uprobe"]] {
            assert!(!runs_once(again), "{again:?}");
        }
    }
}
