//! A program that could not be loaded: where the verifier refused it, with the line of the source; every other error is passed on.

use super::opened::Object;
use kestrel_bpf::code::Code;
use kestrel_bpf::object::{Linked, Program};
use kestrel_bpf::verifier_log;
use kestrel_catalog::Error;
use kestrel_catalog::verifier::Refusal;

/// Turns a refusal by the verifier into [`Error::Refused`]; every other error is passed on.
pub(super) fn explain(
    error: kestrel_kernel::Error,
    object: &Object,
    program: &Program,
    linked: &Linked,
    code: &Code,
) -> Error {
    let kestrel_kernel::Error::Load { errno, log, .. } = &error else {
        return error.into();
    };
    let parsed = verifier_log::parse(log);
    let insn = parsed.insn.filter(|insn| *insn < code.insns.len());
    let function = insn.and_then(|insn| linked.parts.iter().rev().find(|(begin, _)| *begin <= insn));
    Error::Refused(Box::new(Refusal {
        program: program.name.clone(),
        section: program.section.text.clone(),
        errno: *errno,
        function: function.map_or_else(|| program.name.clone(), |(_, name)| name.clone()),
        line: insn.and_then(|insn| object.parsed.source_line(linked, insn)),
        log: log.clone(),
        parsed,
    }))
}
