//! Maps as text, the way bpftrace prints them.

use super::read::{Held, Snapshot, is_signed, mean};
use super::{Label, MapType, ValueKind};
use crate::print::value as print_value;
use crate::print::{counted, were};
use crate::symbol::Symbols;
use crate::value::Value;
use std::fmt::Write;

/// Characters of the longest bar.
const BAR: u64 = 52;

/// A map as lines, smallest value first.
///
/// ```text
/// @reads[cat, 3]: 12
/// @sizes:
/// [2, 4)                 3 |@@@@@@@@@@@@@                                       |
/// [4, 8)                12 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
/// ```
pub fn text(snapshot: &Snapshot, symbols: &Symbols) -> String {
    let ty = &snapshot.ty;
    let title = ty.title();
    let mut out = String::new();
    for row in &snapshot.rows {
        out += &title;
        let keys: Vec<String> = row.keys(ty).map(|key| shown(key, symbols)).collect();
        if !keys.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(out, "[{}]", keys.join(", "));
        }
        out += ":";
        held(&mut out, ty, &row.value, symbols);
    }
    if snapshot.lost > 0 {
        let _ = writeln!(
            out,
            "{title}: {} {} not counted: there is room for {} (config = {{ max_map_keys = N }})",
            counted(snapshot.lost, "update"),
            were(snapshot.lost),
            counted(u64::from(ty.entries), "key")
        );
    }
    out
}

/// A value as text.
pub(super) fn shown(value: Value<'_>, symbols: &Symbols) -> String {
    let mut bytes = Vec::new();
    print_value(value, symbols, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn held(out: &mut String, ty: &MapType, value: &Held, symbols: &Symbols) {
    let _ = match (value, &ty.value) {
        (Held::Number(n), ValueKind::Scalar(field)) => {
            writeln!(out, " {}", shown(Value::read(field, &n.to_le_bytes()), symbols))
        }
        (Held::Number(n), kind) if is_signed(kind) => writeln!(out, " {}", *n as i64),
        (Held::Number(n), _) => writeln!(out, " {n}"),
        (Held::Text(text), _) => writeln!(out, " {}", shown(Value::Text(text), symbols)),
        (Held::Fault, _) => writeln!(out, " {}", shown(Value::Fault, symbols)),
        (Held::Mean { count, sum }, kind) => {
            let average = mean(*count, *sum, is_signed(kind));
            let total = mean(1, *sum, is_signed(kind));
            match kind {
                ValueKind::Stats { .. } => {
                    writeln!(out, " count {count}, average {average}, total {total}")
                }
                _ => writeln!(out, " {average}"),
            }
        }
        (Held::Histogram(counts), ValueKind::Histogram(buckets)) => {
            out.push('\n');
            histogram(out, counts, |index| {
                interval(
                    buckets.label(index),
                    !matches!(buckets, super::Buckets::Linear { .. }),
                )
            });
            writeln!(out)
        }
        (Held::Histogram(_), _) => writeln!(out),
    };
}

/// The rows from the first bucket that holds something to the last.
fn histogram(out: &mut String, counts: &[u64], label: impl Fn(u32) -> String) {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let first = counts.iter().position(|c| *c > 0).unwrap_or(0);
    let last = counts.iter().rposition(|c| *c > 0).unwrap_or(0);
    for (index, count) in counts.iter().enumerate().take(last + 1).skip(first) {
        let length = (u128::from(*count) * u128::from(BAR) / u128::from(most)) as usize;
        let bar = "@".repeat(length);
        let _ = writeln!(out, "{:<16}{count:>8} |{bar:<52}|", label(index as u32));
    }
}

/// `[4, 8)`, `[1]`, `(..., 0)`, `[100, ...)`.
fn interval(label: Label, units: bool) -> String {
    let number = |n: i128| if units { short(n) } else { n.to_string() };
    match (label.from, label.to) {
        (None, None) => "(..., ...)".to_owned(),
        (None, Some(to)) => format!("(..., {})", number(to + 1)),
        (Some(from), None) => format!("[{}, ...)", number(from)),
        (Some(from), Some(to)) if from == to && units => format!("[{}]", number(from)),
        (Some(from), Some(to)) => format!("[{}, {})", number(from), number(to + 1)),
    }
}

/// `1K`, `4M`: powers of 1024 where they divide the number.
fn short(n: i128) -> String {
    let units = ["", "K", "M", "G", "T", "P", "E"];
    let (mut n, mut unit) = (n, 0);
    while n != 0 && n % 1024 == 0 && unit + 1 < units.len() {
        n /= 1024;
        unit += 1;
    }
    format!("{n}{}", units[unit])
}
