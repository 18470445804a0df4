//! A verifier's refusal in the user's words: which expression of the text, why, and what the verifier said last; nothing is retried here.

use crate::error::Error;
use kestrel_bpf::code::{Code, SourceRange};
use kestrel_bpf::verifier_log::{self, VerifierLog};
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_kernel::Errno;

/// A refused program, traced back to its text.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the kernel's verifier refused the program for {event}: {errno}")]
pub struct Rejection {
    /// The event that it was for.
    pub event: String,
    /// The text that it was made from; the diagnostic's places are in it.
    pub source_text: String,
    /// "This expression, this reason".
    pub diagnostic: Diagnostic,
    /// The kernel's answer.
    pub errno: Errno,
    /// All that the verifier wrote.
    pub log: String,
}

impl Rejection {
    /// What the verifier said at the end.
    pub fn last_words(&self) -> String {
        last_words(&verifier_log::parse(&self.log)).trim().to_owned()
    }
}

/// Turns a refusal by the verifier into [`Error::Rejected`]; every other error stays as it is.
pub(super) fn explain(error: Error, event: &str, source: &str, code: &Code) -> Error {
    match error {
        Error::Kernel(kestrel_kernel::Error::Load { errno, log, .. }) if !log.is_empty() => {
            let said = verifier_log::parse(&log);
            Error::Rejected(Box::new(Rejection {
                event: event.to_owned(),
                source_text: source.to_owned(),
                diagnostic: diagnose(&said, source, code),
                errno,
                log,
            }))
        }
        other => other,
    }
}

fn diagnose(said: &VerifierLog, source: &str, code: &Code) -> Diagnostic {
    let place = said.insn.and_then(|insn| place(code, insn, source));
    let words = last_words(said);
    let why = said.explanation().unwrap_or(words);
    let diagnostic = match place {
        Some(span) => Diagnostic::error(span, format!("the verifier refuses this: {why}")),
        None => Diagnostic::error(
            whole(source),
            format!("the verifier refuses code that no part of this text asks for: {why}"),
        ),
    };
    let said = match said.insn {
        Some(insn) if !said.text.is_empty() => {
            format!("it said `{words}` at instruction {insn}, `{}`", said.text)
        }
        _ => format!("it said `{words}`"),
    };
    diagnostic
        .hint(said)
        .hint("the text passed Kestrel's own checks: please report it with the output of the same command and --dry-run -v")
}

/// The last line of the verifier's message; older kernels stop without one.
fn last_words(said: &VerifierLog) -> &str {
    said.message.lines().last().unwrap_or("nothing")
}

/// Where in the text an instruction comes from: the last entry at or before it. Entries that do not lie in the text (code that options
/// added) count as none.
fn place(code: &Code, insn: usize, source: &str) -> Option<SourceRange> {
    let line = code.lines.iter().rev().find(|line| line.insn <= insn)?;
    let SourceRange { start, end } = line.source;
    let inside = start < end && source.get(start as usize..end as usize).is_some();
    inside.then_some(line.source)
}

fn whole(source: &str) -> SourceRange {
    SourceRange {
        start: 0,
        end: source.len() as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_bpf::code::Line;
    use kestrel_bpf::insn::Insn;
    use kestrel_compiler::lang::diag::{Style, render};

    const SOURCE: &str = "sched:sched_switch /args.prev_pid > 1/ { record(args.prev_comm) }";
    const LOG: &str = "\
0: R1=ctx() R10=fp0
0: (79) r6 = *(u64 *)(r1 +0)          ; R1=ctx() R6_w=scalar()
1: (b7) r0 = 0                        ; R0_w=0
2: (79) r2 = *(u64 *)(r6 +16)
R6 invalid mem access 'scalar'
processed 3 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0
";

    /// Four instructions: two for the predicate, two for the record.
    fn code() -> Code {
        let line = |insn, part: &str| Line {
            insn,
            source: SourceRange {
                start: SOURCE.find(part).unwrap() as u32,
                end: (SOURCE.find(part).unwrap() + part.len()) as u32,
            },
        };
        Code {
            insns: vec![Insn::default(); 4],
            relocations: Vec::new(),
            lines: vec![line(0, "args.prev_pid > 1"), line(2, "args.prev_comm")],
        }
    }

    fn refused(log: &str) -> Error {
        Error::Kernel(kestrel_kernel::Error::Load {
            program: "k_sched_switch".to_owned(),
            errno: Errno(13),
            log: log.to_owned(),
        })
    }

    fn rejection(log: &str, code: &Code) -> Rejection {
        match explain(refused(log), "sched:sched_switch", SOURCE, code) {
            Error::Rejected(rejection) => *rejection,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_expression_is_underlined_with_the_verifiers_reason() {
        let rejection = rejection(LOG, &code());
        let shown = render(
            std::slice::from_ref(&rejection.diagnostic),
            "<event>",
            SOURCE,
            Style::default(),
        );
        let lines: Vec<&str> = shown.lines().collect();
        assert!(
            lines[0].starts_with("<event>:1:49: error: the verifier refuses this: "),
            "{shown}"
        );
        let at = lines[1].find("args.prev_comm").unwrap();
        assert_eq!(lines[2].find('^'), Some(at), "{shown}");
        assert_eq!(lines[2].matches('^').count(), "args.prev_comm".len());
        assert!(
            lines[3].contains("R6 invalid mem access 'scalar'") && lines[3].contains("instruction 2"),
            "{shown}"
        );
        assert!(rejection.to_string().contains("EACCES"), "{rejection}");
    }

    #[test]
    fn code_from_no_part_of_the_text_blames_none() {
        let mut code = code();
        code.lines[1].source = SourceRange { start: 500, end: 600 };
        let rejection = rejection(LOG, &code);
        assert!(rejection.diagnostic.message.contains("no part of this text"));
        assert_eq!(rejection.diagnostic.span, whole(SOURCE));
    }

    #[test]
    fn a_log_of_nonsense_is_still_quoted() {
        let rejection = rejection(
            "BPF program is too large. Processed 1000001 insn\n",
            &Code::default(),
        );
        assert!(
            rejection.diagnostic.hints[0].contains("too large"),
            "{:?}",
            rejection.diagnostic
        );
    }

    #[test]
    fn a_refusal_without_a_log_is_not_the_verifiers() {
        let same = explain(refused(""), "e", SOURCE, &code());
        assert!(matches!(same, Error::Kernel(_)));
    }
}
