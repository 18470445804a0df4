//! Sets of calls' numbers as expressions of the language.

use std::collections::BTreeSet;

/// Whether `args.id` is one of these numbers.
pub(super) fn is_one_of(calls: &BTreeSet<u64>) -> String {
    /// So many comparisons cost no more than a look at bits.
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
    let words = calls.iter().max().map_or(0, |number| number / 64 + 1);
    let word = |at: u64| {
        let bits = calls.iter().filter(|number| **number / 64 == at);
        bits.fold(0_u64, |bits, number| bits | 1 << (number % 64))
    };
    let cases: Vec<String> = (0..words)
        .map(|at| format!("args.id < {} ? {:#x} : ", (at + 1) * 64, word(at)))
        .collect();
    format!("((({}0) >> (args.id & 63)) & 1)", cases.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_numbers_are_tested_by_bits() {
        assert_eq!(is_one_of(&[257].into()), "(args.id == 257)");
        assert_eq!(
            is_one_of(&[0, 1, 63, 64, 130].into()),
            "(((args.id < 64 ? 0x8000000000000003 : args.id < 128 ? 0x1 : args.id < 192 ? 0x4 : 0) >> (args.id & 63)) & 1)"
        );
    }
}
