//! The built-in `tseries`: keeps a value for each of the newest intervals of time.
//!
//! The first value of an interval takes the place of an older one: the CPU that exchanges the interval's number also clears what was there. An interrupt in between adds to what
//! the other takes exactly itself away from; only a least or greatest value of it may go, in the few instructions in which an interval begins.

use crate::builtin::row::{Builtin, BuiltinKind};
use crate::check::aggregation::PendingAggregation;
use crate::check::tree::{Expr, ExprKind as ExprNode, MapPlace, Type};
use crate::codegen::lower::Lower;
use crate::error::Error;
use crate::ir::{AluOp, Bits, BlockId, Condition, Vreg, Width};
use crate::lang::ast::{self, ExprKind};
use crate::lang::diag::Diagnostic;
use kestrel_bpf::helper;
use kestrel_trace::aggregate::Aggregation;
use kestrel_trace::aggregate::function::tseries::{self, COMBINES, Combine, MAX, MAX_PER_CPU, WORDS};

pub(crate) static TSERIES: Builtin = Builtin {
    name: "tseries",
    numbered: false,
    usage: "tseries(value, interval, count[, \"avg\"|\"max\"|\"min\"|\"sum\"])",
    about: "keep the newest intervals of time (100ms, 1s), each with its last value, or with what the values make together",
    kind: BuiltinKind::Aggregation {
        check: |checker, usage| {
            let args = usage.positional(checker, 3, 4)?;
            let [value, interval, count, how @ ..] = args.as_slice() else {
                return Err(checker.error(usage.span, "an argument is missing"));
            };
            let value = usage.only(
                checker,
                value,
                |checker| checker.number(value),
                |refused| format!("int arguments ({} provided)", refused.word),
            );
            let mut positive = |value: &ast::Expr, what: &str, word: &str| {
                let invalid = format!("{word} value (must be non-negative literal)");
                let number = usage.known(checker, value, &invalid, what)?;
                if number >= 1 {
                    return Ok(number);
                }
                let message = format!("tseries() {word} must be >= 1 ({number} provided)");
                Err(checker.error(usage.span, message))
            };
            let interval = positive(interval, "the interval of a time series", "interval_ns");
            let place = count.span;
            let count = positive(count, "the number of intervals", "num_intervals");
            // The zeroes of a session's state map have one size, whatever tables come later.
            let most = if checker.globals.infers_types {
                MAX
            } else {
                MAX_PER_CPU
            };
            let how = match how.first().map(|how| (&how.kind, how.span)) {
                None => 0,
                Some((ExprKind::String(word), _)) => match COMBINES.iter().position(|(how, _)| how == word) {
                    Some(how) => how as i64,
                    None => {
                        let words: Vec<&str> = COMBINES.iter().map(|(how, _)| *how).collect();
                        let words = words.join(", ");
                        let message = format!(
                            "tseries() expects one of the following aggregation functions: {words} (\"{word}\" provided)"
                        );
                        return Err(checker.error(usage.span, message));
                    }
                },
                Some((_, span)) => {
                    return Err(
                        checker.error(span, "how values are put together is a word in quotes: \"max\"")
                    );
                }
            };
            let (value, interval, count) = (value?, interval?, count?);
            if count > most {
                let message = format!("the number of intervals is 1 to {most}");
                let bytes = u64::from(WORDS) * 8;
                let why = match most {
                    MAX => format!(
                        "the kernel makes no value of more than 4 MiB, and an interval has {bytes} bytes: longer intervals need fewer"
                    ),
                    _ => format!(
                        "here each CPU has its own value of 16 KiB, and an interval has {bytes} bytes; in programs (kestrel run) there are up to {MAX}"
                    ),
                };
                return Err(checker.report(Diagnostic::error(place, message).hint(why)));
            }
            let signed = value.ty.is_signed();
            let mut parameters = vec![interval, count, how];
            let value = match checker.globals.series_clock.clone() {
                None => {
                    let clock = checker.globals.wall_clock;
                    parameters.extend(
                        clock
                            .map(|clock| [0, clock.rem_euclid(interval)])
                            .into_iter()
                            .flatten(),
                    );
                    value
                }
                Some(map) => {
                    parameters.push(1);
                    let time = checker.map_value(&map, &[], usage.span)?;
                    let both = ExprNode::FrameWords(vec![value, time]);
                    Expr::new(both, Type::U64, usage.span)
                }
            };
            Ok(PendingAggregation {
                aggregation: Aggregation::with(tseries::TSERIES, signed, parameters),
                value: Some(value),
            })
        },
        lower,
    },
};

/// Bytes of an interval.
const SIZE: u32 = WORDS * 8;
const VALUE: i16 = 8;
const BESIDE: i16 = 16;

fn lower(
    lower: &mut Lower<'_>,
    place: &MapPlace,
    aggregation: &Aggregation,
    value: Vreg,
) -> Result<(), Error> {
    let [interval, count] = [0, 1].map(|index| aggregation.parameter(index));
    let how = Combine::of(aggregation);
    let (value, now) = match tseries::has_own_clock(aggregation) {
        false => (value, lower.b.helper(helper::KTIME_GET_NS, &[])),
        // The value is an address: the number lies there, and its time behind it.
        true => (
            lower.b.load(Width::B8, value, 0),
            lower.b.load(Width::B8, value, 8),
        ),
    };
    let dated = match tseries::ahead(aggregation) {
        0 => now,
        ahead => lower.b.add(now, ahead),
    };
    let number = lower.b.alu(AluOp::Div, Bits::B64, dated, interval);
    let index = lower.b.alu(AluOp::Mod, Bits::B64, number, count);
    let number = lower.b.add(number, 1);
    let ranked = match how {
        Combine::Max => lower.rank(value, aggregation.signed),
        Combine::Min => {
            let rank = lower.rank(value, aggregation.signed);
            lower.b.alu(AluOp::Xor, Bits::B64, rank, -1)
        }
        Combine::Last | Combine::Mean | Combine::Sum => value,
    };
    lower.with_element_or_new(place, &mut |lower, element, lost| {
        let at = lower.part(element, index, (count as u32, SIZE), lost);
        begin(lower, at, number, how, lost);
        match how {
            Combine::Mean => {
                lower.b.atomic_add(Width::B8, at, VALUE, ranked);
                lower.b.atomic_add(Width::B8, at, BESIDE, 1);
            }
            Combine::Sum => lower.b.atomic_add(Width::B8, at, VALUE, ranked),
            Combine::Max | Combine::Min => lower.raise_word(at, VALUE, ranked, lost),
            Combine::Last => {
                lower.b.store(Width::B8, at, VALUE, ranked);
                lower.b.store(Width::B8, at, BESIDE, now);
            }
        }
    })
}

/// Gives the place to this interval, where an older one has it; a newer one keeps it, and the value is lost. Interrupts may come between, and where the value is
/// [shared](kestrel_trace::aggregate::ValueKind::is_shared) other CPUs, too: the one that exchanges the number subtracts what the older interval had, and no more.
fn begin(lower: &mut Lower<'_>, at: Vreg, number: Vreg, how: Combine, lost: BlockId) {
    let (old, there) = (lower.b.cold_block(), lower.b.block());
    let was = lower.b.load(Width::B8, at, 0);
    lower.b.branch(Condition::Equal, was, number, there, old);
    lower.b.switch_to(old);
    lower.b.branch_if(Condition::Greater, was, number, lost);
    let before = [VALUE, BESIDE].map(|word| lower.b.load(Width::B8, at, word));
    let seen = lower.b.compare_exchange(Width::B8, at, 0, was, number);
    lower.b.branch_if(Condition::NotEqual, seen, was, there);
    for (word, before) in [VALUE, BESIDE].into_iter().zip(before) {
        match how {
            Combine::Mean | Combine::Sum => {
                let zero = lower.b.constant(0);
                let less = lower.b.sub(zero, before);
                lower.b.atomic_add(Width::B8, at, word, less);
            }
            Combine::Max | Combine::Min => {
                let zero = lower.b.constant(0);
                lower.b.compare_exchange(Width::B8, at, word, before, zero);
            }
            Combine::Last => {}
        }
    }
    lower.b.jump(there);
    lower.b.switch_to(there);
}
