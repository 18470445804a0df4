//! The built-in `common_flags`: the flags that tracefs's entries have.

use crate::builtin::row::{Builtin, BuiltinKind, Use};
use crate::check::checker::{Checked, Checker};
use crate::check::tree::{BinaryOp, CompareOp, Expr, Intrinsic, Type};
use crate::check::value::{comparison, constant, narrowed, operation};
use crate::lang::diag::Diagnostic;
use kestrel_trace::layout::trace_flag;

/// x86's flag of interrupts in the register of flags.
const INTERRUPTS_ON: u64 = 1 << 9;

/// Where a preemption count has what (include/linux/preempt.h), and the flag that a tracefs entry has for it.
struct Bits {
    parts: [(u64, u64); 4],
    /// x86 keeps in the count that rescheduling is *not* needed (arch/x86/include/asm/preempt.h).
    no_resched: u64,
}

static NARROW: Bits = Bits {
    parts: [
        (0x00f0_0000, trace_flag::NMI),
        (0x000f_0000, trace_flag::HARDIRQ),
        (0x0000_0100, trace_flag::SOFTIRQ),
        (0x0000_fe00, trace_flag::BH_OFF),
    ],
    no_resched: 1 << 31,
};
/// Of a count of 64 bits (Linux 7.3): between soft and hard interrupts it counts how often interrupts were switched off.
static WIDE: Bits = Bits {
    parts: [
        (0xf000_0000, trace_flag::NMI),
        (0x0f00_0000, trace_flag::HARDIRQ),
        (0x0000_0100, trace_flag::SOFTIRQ),
        (0x0000_fe00, trace_flag::BH_OFF),
    ],
    no_resched: 1 << 63,
};

pub(crate) static COMMON_FLAGS: Builtin = Builtin {
    name: "common_flags",
    numbered: false,
    usage: "common_flags",
    about: "the flags of tracefs's entries: 1 interrupts off, 4 rescheduling needed, 8 hard and 16 soft interrupt, 64 NMI, 128 bottom halves off; 256 where the first is not known: before Linux 6.14 only kprobes have it",
    kind: BuiltinKind::Value(|checker, usage| {
        usage.alone(checker)?;
        let (count, is_wide) = preempt_count(checker, usage)?;
        let span = usage.span;
        let bit = |holds: Expr, flag: u64| {
            let up = constant(u64::from(flag.trailing_zeros()), Type::U64, span);
            operation(
                BinaryOp::ShiftLeft,
                Type::U64,
                narrowed(holds, Type::U64, span),
                up,
                span,
            )
        };
        let test = |value: &Expr, mask: u64, op: CompareOp| {
            let mask = constant(mask, Type::U64, span);
            let part = operation(BinaryOp::And, Type::U64, value.clone(), mask, span);
            comparison(op, false, part, constant(0, Type::U64, span), span)
        };
        let flags = checker
            .context
            .registers
            .iter()
            .find(|register| register.name == "flags");
        let flags = match flags {
            Some(flags) => Some(checker.register(flags, span)?),
            None if checker.context.features.irq_save => {
                Some(usage.intrinsic(Intrinsic::ProcessorFlags, Type::U64))
            }
            None => None,
        };
        let first = match &flags {
            Some(flags) => bit(test(flags, INTERRUPTS_ON, CompareOp::Equal), trace_flag::IRQS_OFF),
            None => constant(trace_flag::IRQS_UNKNOWN, Type::U64, span),
        };
        let bits = match is_wide {
            true => &WIDE,
            false => &NARROW,
        };
        let parts = bits
            .parts
            .into_iter()
            .map(|(mask, flag)| bit(test(&count, mask, CompareOp::NotEqual), flag));
        // The kernel's own column has 0x20 for this bit, and 4 for a flag of the thread that is set and cleared with it most of the time.
        let needed = bit(
            test(&count, bits.no_resched, CompareOp::Equal),
            trace_flag::NEED_RESCHED,
        );
        let all = parts.chain([needed]).fold(first, |all, part| {
            operation(BinaryOp::Or, Type::U64, all, part, span)
        });
        Ok(narrowed(all, Type::integer(2, false), span))
    }),
};

/// The CPU's preemption count at the event, and whether it has 64 bits.
pub(super) fn preempt_count(checker: &mut Checker<'_>, usage: &Use<'_>) -> Checked<(Expr, bool)> {
    let Some(count) = checker.context.features.preempt_count else {
        let message = format!(
            "{} is not known: this kernel does not let programs read its preemption count (its symbols lack __preempt_count, CONFIG_KALLSYMS_ALL, and its types the queues of its CPUs)",
            usage.name
        );
        return Err(checker.report(Diagnostic::error(usage.span, message)));
    };
    let which = Intrinsic::PreemptCount(count);
    let value = narrowed(usage.intrinsic(which, Type::U64), Type::U64, usage.span);
    Ok((value, count.place.is_wide))
}
