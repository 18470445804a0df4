//! Parallel register moves as a sequence of single ones.

use kestrel_bpf::isa::Reg;

/// Orders `(to, from)` pairs so that no source is overwritten before it is read; cycles go through `spare`, which must be neither a
/// destination nor needed afterwards.
pub(crate) fn sequence(mut moves: Vec<(Reg, Reg)>, spare: Reg) -> Vec<(Reg, Reg)> {
    let mut out = Vec::new();
    moves.retain(|(to, from)| to != from);
    while !moves.is_empty() {
        let ready = moves
            .iter()
            .position(|(to, _)| moves.iter().all(|(_, from)| from != to));
        if let Some(at) = ready {
            out.push(moves.swap_remove(at));
            continue;
        }
        // Only cycles are left, and `spare` is in none of them: it is no destination.
        let (_, first) = moves[0];
        out.push((spare, first));
        for (_, from) in &mut moves {
            if *from == first {
                *from = spare;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reg::*;

    /// Runs the sequence on registers that hold their own numbers.
    fn run(moves: &[(Reg, Reg)]) -> [u8; 11] {
        let mut regs: [u8; 11] = std::array::from_fn(|i| i as u8);
        for (to, from) in sequence(moves.to_vec(), R0) {
            regs[to as usize] = regs[from as usize];
        }
        regs
    }

    #[test]
    fn chains_cycles_and_fans() {
        let cases: &[&[(Reg, Reg)]] = &[
            &[(R1, R2), (R2, R3)],
            &[(R1, R2), (R2, R1)],
            &[(R1, R2), (R2, R3), (R3, R1), (R4, R0)],
            &[(R1, R2), (R2, R1), (R3, R4), (R4, R3), (R5, R1)],
            &[(R1, R0), (R2, R1), (R3, R1), (R4, R4)],
        ];
        for case in cases {
            let regs = run(case);
            for (to, from) in *case {
                assert_eq!(regs[*to as usize], from.number(), "{case:?}");
            }
        }
    }
}
