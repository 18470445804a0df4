//! Programs that are measured or tested rather than run: their `bench:` and `test:` events.

use super::options::RunMode;
use crate::exit::Failure;
use kestrel::plan::{Plan, ProgramText};
use std::io::Write;

/// Leaves out the events of a program that are not for this way to run it.
pub(super) fn keep(program: &mut ProgramText, mode: Option<RunMode>) {
    for probe in &mut program.probes {
        probe
            .events
            .retain(|event| match event.parts.first().map(|part| part.text.as_str()) {
                Some("bench") => mode == Some(RunMode::Bench),
                Some("test") => mode == Some(RunMode::Test),
                _ => true,
            });
    }
    program.probes.retain(|probe| !probe.events.is_empty());
}

/// Whether a program has nothing but iterators beside its `begin` and `end`.
pub(super) fn walks_only(plan: &Plan) -> bool {
    let mut kinds = plan.hooks.iter().map(|hook| hook.kind);
    let walks = kinds.clone().any(|kind| kind == "iter");
    walks && kinds.all(|kind| matches!(kind, "iter" | "begin" | "end"))
}

/// Prints how long each benchmark took.
pub(super) fn print_benchmarks(results: &[(String, u64, u64)]) -> Result<(), Failure> {
    let mut out = Vec::new();
    writeln!(out, "{:<40} {:<14} {:>10}", "Benchmark", "Time(ns)", "Iterations")?;
    writeln!(out, "{}", "-".repeat(66))?;
    for (name, runs, time) in results {
        writeln!(out, "{name:<40} {time:<14} {runs:>10}")?;
    }
    crate::screen::out().write_all(&out)?;
    Ok(())
}
