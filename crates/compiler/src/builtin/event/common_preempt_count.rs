//! The built-in `common_preempt_count`: how often preemption was switched off at the event.

use super::common_flags::preempt_count;
use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::tree::{BinaryOp, Type};
use crate::check::value::{constant, narrowed, operation};

/// The bits of the preemption count that count how often it was switched off (include/linux/preempt.h, `PREEMPT_MASK`).
const DEPTH: u64 = 0xff;

pub(crate) static COMMON_PREEMPT_COUNT: Builtin = Builtin {
    name: "common_preempt_count",
    numbered: false,
    usage: "common_preempt_count",
    about: "how often preemption was switched off at the event, without what tracing itself does",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let (count, _) = preempt_count(checker, usage)?;
        let depth = constant(DEPTH, Type::U64, usage.span);
        let depth = operation(BinaryOp::And, Type::U64, count, depth, usage.span);
        Ok(narrowed(depth, Type::integer(1, false), usage.span))
    }),
};
