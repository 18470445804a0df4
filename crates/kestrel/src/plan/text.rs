//! Additions to a probe as it was written: stacks to the default record, a condition to the predicate.

use super::source::Options;
use kestrel_compiler::lang::ast::{BinaryOp, Expr, ExprKind, Probe};
use kestrel_compiler::lang::parse_events;

/// Fields of which the column of flags in lines of tracefs is made.
const FLAGS: &str = "common_flags, common_preempt_count";

/// Adds what options ask for to what was written: flags and stacks to the default record.
pub(super) fn complete(probe: &mut Probe, options: &Options, source: &str) {
    let kernel = options.kernel_stack.then(|| "kstack".to_owned());
    let flags = options.flags.then(|| FLAGS.to_owned());
    let added: Vec<String> = flags
        .into_iter()
        .chain(kernel)
        .chain(options.user_stack.text())
        .collect();
    if probe.block.is_none() && !added.is_empty() {
        let text = format!("a:b {{ record(args, {}) }}", added.join(", "));
        probe.block = beside(source, &text).block;
    }
}

/// Parses generated text that is added to a probe of `source`. Its spans lie beyond the end of `source`, so that no diagnostic points to a wrong
/// place there.
fn beside(source: &str, text: &str) -> Probe {
    let before = " ".repeat(source.len() + 1);
    parse_events(&(before + text)).0
}

/// Puts a condition before the predicate of a probe that stands in `source`.
pub(crate) fn guard(probe: &mut Probe, condition: &str, source: &str) {
    let Some(first) = beside(source, &format!("a:b /{condition}/")).predicate else {
        return;
    };
    probe.predicate = Some(match probe.predicate.take() {
        None => first,
        Some(second) => Expr {
            span: second.span,
            kind: ExprKind::Binary {
                op: BinaryOp::And,
                left: Box::new(first),
                right: Box::new(second),
            },
        },
    });
}
