//! The error for a program that the verifier refused: with the place in the handler's text.

use kestrel_bpf::code::Code;
use kestrel_catalog::Error;
pub use kestrel_catalog::verifier::Rejection;

/// Turns a refusal by the verifier into [`Error::Rejected`]; every other error is passed on, also of a program that it let pass and for which no file was free.
pub(in crate::session) fn explain(error: Error, event: &str, source: &str, code: &Code) -> Error {
    match error {
        error if error.is_shortage() => error,
        Error::Kernel(kestrel_kernel::Error::Load { errno, log, .. }) if !log.is_empty() => {
            Error::Rejected(Box::new(Rejection::new(event, source, code, errno, log)))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_bpf::code::{Line, SourceRange};
    use kestrel_bpf::insn::Insn;
    use kestrel_compiler::lang::diag::{Style, render};
    use kestrel_kernel::Errno;

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
            callbacks: Vec::new(),
            functions: Vec::new(),
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
        assert_eq!(
            rejection.diagnostic.span,
            SourceRange {
                start: 0,
                end: SOURCE.len() as u32
            }
        );
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
    fn a_want_of_files_is_not_the_verifiers() {
        let short = Error::Kernel(kestrel_kernel::Error::Load {
            program: "k_sched_switch".to_owned(),
            errno: Errno::EMFILE,
            log: "processed 3 insns (limit 1000000)".to_owned(),
        });
        assert!(short.is_shortage());
        let same = explain(short, "e", SOURCE, &code());
        assert!(matches!(same, Error::Kernel(_)), "{same:?}");
        assert!(!refused(LOG).is_shortage());
    }

    #[test]
    fn a_refusal_without_a_log_is_not_the_verifiers() {
        let same = explain(refused(""), "e", SOURCE, &code());
        assert!(matches!(same, Error::Kernel(_)));
    }
}
