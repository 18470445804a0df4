//! Sets of calls' numbers as expressions of the language, and the kinds of calls: small numbers that are looked up once.

use std::collections::{BTreeMap, BTreeSet};

/// Whether `args.id` is one of these numbers.
pub(super) fn is_one_of(calls: &BTreeSet<u64>) -> String {
    /// The number of comparisons up to which they cost no more than a test of bits.
    const FEW: usize = 3;
    if calls.len() <= FEW {
        let each: Vec<String> = calls
            .iter()
            .map(|number| format!("args.id == {number}"))
            .collect();
        return format!(
            "({})",
            if each.is_empty() {
                "0".to_owned()
            } else {
                each.join(" || ")
            }
        );
    }
    bit(calls, "args.id")
}

/// 1 where the number that an expression gives is one of these.
fn bit(calls: &BTreeSet<u64>, number: &str) -> String {
    let words = calls.iter().max().map_or(0, |number| number / 64 + 1);
    let word = |at: u64| {
        let bits = calls.iter().filter(|number| **number / 64 == at);
        bits.fold(0_u64, |bits, number| bits | 1 << (number % 64))
    };
    let cases: Vec<String> = (0..words)
        .map(|at| format!("{number} < {} ? {:#x} : ", (at + 1) * 64, word(at)))
        .collect();
    format!("((({}0) >> ({number} & 63)) & 1)", cases.concat())
}

/// Statements after which `$kind` has the kind of a call by its number, and 0 for others: one look at bits for each bit of the kind, so that the many
/// questions that follow are comparisons of small numbers.
pub(super) fn look_up(kinds: &BTreeMap<u64, u64>) -> String {
    let most = kinds.values().max().copied().unwrap_or_default();
    let bits = (0..u64::BITS - most.leading_zeros()).map(|at| {
        let having = kinds.iter().filter(|(_, kind)| **kind >> at & 1 == 1);
        let having: BTreeSet<u64> = having.map(|(number, _)| *number).collect();
        format!("({} << {at})", bit(&having, "$id"))
    });
    let bits: Vec<String> = bits.collect();
    format!("$id = args.id; $kind = {};", bits.join(" | "))
}

/// Whether `$kind` is one of these.
pub(super) fn is_kind(kinds: &BTreeSet<u64>) -> String {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for kind in kinds {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *kind => *last = *kind,
            _ => ranges.push((*kind, *kind)),
        }
    }
    let range = |(first, last): &(u64, u64)| match first == last {
        true => format!("$kind == {first}"),
        false => format!("$kind >= {first} && $kind <= {last}"),
    };
    let ranges: Vec<String> = ranges.iter().map(range).collect();
    format!("({})", ranges.join(" || "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_looked_up_by_their_bits() {
        assert_eq!(
            look_up(&[(0, 1), (65, 2), (66, 3)].into()),
            "$id = args.id; $kind = (((($id < 64 ? 0x1 : $id < 128 ? 0x4 : 0) >> ($id & 63)) & 1) << 0) | \
             (((($id < 64 ? 0x0 : $id < 128 ? 0x6 : 0) >> ($id & 63)) & 1) << 1);"
        );
        assert_eq!(
            is_kind(&[1, 2, 3, 5].into()),
            "($kind >= 1 && $kind <= 3 || $kind == 5)"
        );
    }

    #[test]
    fn sets_of_numbers_are_tested_by_bits() {
        assert_eq!(is_one_of(&[257].into()), "(args.id == 257)");
        assert_eq!(
            is_one_of(&[0, 1, 63, 64, 130].into()),
            "(((args.id < 64 ? 0x8000000000000003 : args.id < 128 ? 0x1 : args.id < 192 ? 0x4 : 0) >> (args.id & 63)) & 1)"
        );
    }
}
