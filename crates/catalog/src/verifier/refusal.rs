//! A verifier's refusal of an object's program: the source line, the instruction, the registers it is about, what to change; the log as a whole.

use kestrel_bpf::object::SourceLine;
use kestrel_bpf::verifier_log::VerifierLog;
use kestrel_kernel::Errno;

/// Why the kernel refused a program.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the kernel's verifier refused the program {program} (section {section}): {errno}")]
pub struct Refusal {
    /// The program's name.
    pub program: String,
    /// The name of the program's section.
    pub section: String,
    /// The kernel's answer.
    pub errno: Errno,
    /// The verifier's log, taken apart.
    pub parsed: VerifierLog,
    /// The function that the instruction is in.
    pub function: String,
    /// The line of the source that the instruction was made from, if the object was compiled with `-g`.
    pub line: Option<SourceLine>,
    /// All that the verifier wrote.
    pub log: String,
}

impl Refusal {
    /// The registers and stack slots that the refused instruction or the message names, with what the verifier knew of them.
    pub fn registers(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = |text: &str, letter: &str, number: &str| {
            let word = format!("{letter}{number}");
            text.split(|c: char| !c.is_ascii_alphanumeric())
                .any(|part| part == word)
        };
        self.parsed.state.iter().filter_map(move |(name, value)| {
            let number = name.strip_prefix('R');
            let matters = match number {
                // Halves are written w1.
                Some(number) => {
                    names(&self.parsed.text, "r", number)
                        || names(&self.parsed.text, "w", number)
                        || names(&self.parsed.message, "R", number)
                }
                None => self.parsed.message.contains(name.as_str()),
            };
            matters.then_some((name.as_str(), value.as_str()))
        })
    }

    /// Advice on the frequent refusals.
    pub fn advice(&self) -> Option<&'static str> {
        self.parsed.advice()
    }
}
