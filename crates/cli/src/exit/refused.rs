//! The failure for a program of an object that the verifier rejected: source line, instruction, registers, advice.

use super::{Exit, Failure};
use kestrel::bpf::Refusal;
use std::fmt::Write as _;

/// Number of lines of the log that are shown; `--log FILE` has all of them.
const LINES: usize = 20;

/// The failure for a refused program.
pub(super) fn from_refusal(refusal: &Refusal) -> Failure {
    let mut text = refusal.to_string();
    let parsed = &refusal.parsed;
    let message = parsed.message.lines().last().unwrap_or("");
    let why = parsed.explanation().unwrap_or(message);
    if !why.is_empty() {
        let _ = write!(text, "\n  why: {why}");
    }
    if let Some(line) = &refusal.line {
        let column = if line.column == 0 {
            String::new()
        } else {
            format!(":{}", line.column)
        };
        let _ = write!(
            text,
            "\n  at:  {}:{}{column} in {}",
            line.file, line.line, refusal.function
        );
        let source = line.text.trim();
        if !source.is_empty() {
            let _ = write!(text, "\n       {source}");
        }
    } else if !parsed.text.is_empty() {
        let _ = write!(
            text,
            "\n  at:  function {} (compile with -g to see the line)",
            refusal.function
        );
    }
    if let Some(insn) = parsed.insn.filter(|_| !parsed.text.is_empty()) {
        let _ = write!(text, "\n  instruction {insn}: {}", parsed.text);
    }
    for (name, value) in refusal.registers() {
        let _ = write!(text, "\n    {name} = {value}");
    }
    if !parsed.message.is_empty() {
        let _ = write!(
            text,
            "\n  the verifier: {}",
            parsed.message.replace('\n', "\n                ")
        );
    }
    // A log in which no message was recognised is shown itself.
    if parsed.message.is_empty() && !refusal.log.is_empty() {
        let lines: Vec<&str> = refusal.log.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(LINES)) {
            let _ = write!(text, "\n  | {line}");
        }
    }
    let failure = Failure::new(Exit::Failed, text);
    let advice = refusal.advice().map(str::to_owned);
    match advice {
        Some(advice) => failure.hint(advice),
        None if refusal.log.is_empty() => failure.hint(
            "the kernel wrote no log: it does not know this kind of program, or the privilege is missing",
        ),
        None => failure.hint("`--log FILE` writes all that the verifier said"),
    }
}
