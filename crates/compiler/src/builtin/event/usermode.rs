//! The built-in `usermode`: whether the event happened in a process's own code.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{BinaryOp, CompareOp, Type};
use crate::check::value::{comparison, constant, narrowed, operation};
use crate::context::ProgramKind;

/// Events of the program itself: it runs in a process.
const OWN: &[&str] = &["begin", "end", "BEGIN", "END"];

/// Kinds of programs that run at places in the kernel's own code.
const IN_KERNEL: &[ProgramKind] = &[
    ProgramKind::Tracepoint,
    ProgramKind::RawTracepoint,
    ProgramKind::TracingTracepoint,
    ProgramKind::Fentry,
    ProgramKind::Fexit,
    ProgramKind::Iterator,
];

pub(crate) static USERMODE: Builtin = Builtin {
    name: "usermode",
    numbered: false,
    usage: "usermode",
    about: "1 where the event happened in a process's own code, 0 where it was in the kernel; of events with registers, on x86_64",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let (ty, span) = (Type::integer(1, false), usage.span);
        let context = checker.context;
        if OWN.contains(&context.name.as_str()) {
            return Ok(constant(1, ty, span));
        }
        if IN_KERNEL.contains(&context.program) {
            return Ok(constant(0, ty, span));
        }
        let Some(segment) = context.registers.iter().find(|register| register.name == "cs") else {
            return Err(checker.no_registers(span));
        };
        // The lowest bits of the code segment are the ring that code runs in.
        let segment = checker.register(segment, span)?;
        let ring = constant(3, Type::U64, span);
        let ring = operation(BinaryOp::And, Type::U64, segment, ring, span);
        let zero = constant(0, Type::U64, span);
        let user = comparison(CompareOp::NotEqual, false, ring, zero, span);
        Ok(narrowed(user, ty, span))
    }),
};
