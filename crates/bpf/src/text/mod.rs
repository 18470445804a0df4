//! Programs as text, in the spelling of the verifier's log: [`listing`] writes it, [`parse`] reads it back.
//!
//! ```text
//! @12..20                          from here on: made from bytes 12..20 of the source
//! again:                           a label
//!   r1 = *(u64 *)(r6 +112)
//!   if r1 == 0 goto again          or pc-2
//!   r2 = map[counts]               a map by name or number
//!   r3 = map_value[0] +16          byte 16 of its first value
//!   call bpf_ktime_get_ns          a helper by name, or #5
//!   call kfunc bpf_preempt_disable
//!   call func again
//!   .insn 0x06 0 0 0 0             anything else: code dst src off imm
//!   exit                           ; a comment
//! ```
//!
//! Both directions take the spelling from the templates of the instruction table alone ([`crate::isa::Row::text`]).

mod parse;
mod write;

pub use parse::parse;
pub use write::{instruction, listing};

/// A piece of a template such as `{d} = {s}`: text as it is, or an operand's letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Literal(&'a str),
    Operand(char),
}

/// Splits a template into its pieces.
fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    template.split_inclusive('}').flat_map(|part| {
        let (literal, operand) = match part.strip_suffix('}').and_then(|p| p.split_once('{')) {
            Some((literal, letter)) => (literal, letter.chars().next()),
            None => (part, None),
        };
        let literal = (!literal.is_empty()).then_some(Piece::Literal(literal));
        literal.into_iter().chain(operand.map(Piece::Operand))
    })
}

#[cfg(test)]
mod tests;
