//! The verifier's refusal of a handler, traced back to the text: which expression was refused, why, and the verifier's last message. Nothing is retried here.

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
    /// The diagnostic: the refused expression, and the reason.
    pub diagnostic: Diagnostic,
    /// The kernel's answer.
    pub errno: Errno,
    /// The verifier's whole log.
    pub log: String,
}

impl Rejection {
    /// Traces a refusal back to the text, by the verifier's log.
    pub fn new(event: &str, source: &str, code: &Code, errno: Errno, log: String) -> Self {
        let parsed = verifier_log::parse(&log);
        Self {
            event: event.to_owned(),
            source_text: source.to_owned(),
            diagnostic: diagnose(&parsed, source, code),
            errno,
            log,
        }
    }

    /// Whether the kernel was built without what the handler asks for, or keeps it to itself.
    pub fn is_unsupported(&self) -> bool {
        withheld(&verifier_log::parse(&self.log)).is_some()
    }

    /// The verifier's last message.
    pub fn last_words(&self) -> String {
        last_words(&verifier_log::parse(&self.log)).trim().to_owned()
    }
}

fn diagnose(parsed: &VerifierLog, source: &str, code: &Code) -> Diagnostic {
    let place = parsed.insn.and_then(|insn| place(code, insn, source));
    let words = last_words(parsed);
    let why = parsed.explanation().unwrap_or(words);
    let diagnostic = match place {
        Some(span) => Diagnostic::error(span, format!("the verifier refuses this: {why}")),
        None => Diagnostic::error(
            whole(source),
            format!("the verifier refuses code that no part of this text asks for: {why}"),
        ),
    };
    let last = match parsed.insn {
        Some(insn) if !parsed.text.is_empty() => {
            format!("it said `{words}` at instruction {insn}, `{}`", parsed.text)
        }
        _ => format!("it said `{words}`"),
    };
    diagnostic.hint(last).hint(advice(parsed))
}

/// Advice about a refusal: another function where the kernel has a list of those that may call a helper.
fn advice(parsed: &VerifierLog) -> &'static str {
    // "helper call is not allowed in probe"; since 7.3 "Use the helper only from an allowed attach point".
    if last_words(parsed).contains("allowed") && parsed.text.contains("bpf_d_path") {
        return "the kernel lets path() run in a few of its functions: security_file_open, security_file_permission, security_inode_getattr, \
            vfs_truncate, vfs_fallocate, vfs_getattr, dentry_open and filp_close, as far as it has them, and in iterators";
    }
    withheld(parsed).unwrap_or(
        "the text passed Kestrel's own checks: please report it with the output of the same command and --dry-run -v",
    )
}

/// A table: calls that not every kernel offers, and what decides about them.
const WITHHELD: &[(&str, &str)] = &[
    (
        "bpf_override_return",
        "override() wants a kernel that was built with CONFIG_BPF_KPROBE_OVERRIDE: this one was not",
    ),
    (
        "bpf_probe_write_user",
        "write_user() is not for kernels under a lockdown: /sys/kernel/security/lockdown says whether this one is (integrity, confidentiality)",
    ),
];

/// The reason why a call is refused, where it is one that only some kernels offer.
fn withheld(parsed: &VerifierLog) -> Option<&'static str> {
    let mut rows = WITHHELD.iter();
    let (_, why) = rows.find(|(helper, _)| parsed.text.contains(helper))?;
    Some(why)
}

/// The last line of the verifier's message; empty where an older kernel gives none.
fn last_words(parsed: &VerifierLog) -> &str {
    parsed.message.lines().last().unwrap_or("nothing")
}

/// The part of the text that an instruction was compiled from: that of the last entry at or before it. Entries outside of the text (code that options
/// added) are ignored.
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

    #[test]
    fn path_is_answered_with_the_functions_that_the_kernel_allows_it() {
        let log = "156: (85) call bpf_d_path#147\nhelper call is not allowed in probe\nprocessed 100 insns (limit 1000000)\n";
        let code = Code::default();
        let why = |log: &str| Rejection::new("fentry:f", "", &code, Errno::EINVAL, log.to_owned()).diagnostic;
        let newer = log.replace(
            "helper call is not allowed in probe",
            "Use the helper only from an allowed attach point or program configuration.",
        );
        for log in [log, &newer] {
            let hints = why(log).hints.join(" ");
            let is_listed = hints.contains("security_file_open") && !hints.contains("report");
            assert!(is_listed, "{hints}");
        }
        let log = "5: (85) call bpf_override_return#58\nprogram of this type cannot use helper bpf_override_return#58\n";
        let hints = why(log).hints.join(" ");
        assert!(
            hints.contains("CONFIG_BPF_KPROBE_OVERRIDE") && !hints.contains("report"),
            "{hints}"
        );
        let log = "20: (85) call bpf_probe_write_user#36\nprogram of this type cannot use helper bpf_probe_write_user#36\n";
        let hints = why(log).hints.join(" ");
        assert!(
            hints.contains("/sys/kernel/security/lockdown") && !hints.contains("report"),
            "{hints}"
        );
        let log = "156: (85) call bpf_d_path#147\nhelper call is not allowed in probe\n";
        let other = why(&log.replace("d_path", "get_stack")).hints.join(" ");
        assert!(other.contains("please report it"), "{other}");
    }
}
