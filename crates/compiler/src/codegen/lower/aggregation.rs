//! Totals of per-CPU maps: the values of all CPUs put together by a loop over them.

use super::Lower;
use super::value::signed_division;
use crate::check::tree::MapPlace;
use crate::error::Error;
use crate::ir::{AluOp, Bits, Builder, Condition, Vreg, Width, helper};
use crate::map::external_name;
use kestrel_trace::aggregate::aggregation::AsNumber;

/// Processors that are asked at most; the first that is not there ends the loop.
const CPUS: i64 = 1024;
/// Bytes of a key that a function is given: five words.
const GIVEN: u32 = 40;

impl Lower<'_> {
    /// A number that an aggregation has come to so far, over all CPUs.
    pub(super) fn aggregation_value(&mut self, place: &MapPlace, number: AsNumber) -> Result<Vreg, Error> {
        let Some(aggregation) = place.map.value.aggregation() else {
            return Err(Error::Malformed {
                what: "the value of an aggregation of a map that holds none",
                span: self.b.span(),
            });
        };
        let signed = aggregation.signed;
        let key = self.map_key(place)?;
        let total = Total {
            map: external_name(&place.map),
            key_size: place.map.key_size(),
            // Where arguments are pointers to the verifier, functions that take numbers are not given what may be one.
            is_of_numbers: place.map.keys.is_empty() || !self.context.program.is_tracing(),
            number,
            signed,
        };
        let sum = total.of_key(&mut self.b, key);
        let AsNumber::Extreme { least } = number else {
            return Ok(sum);
        };
        let value = match least {
            true => self.b.alu(AluOp::Xor, Bits::B64, sum, -1),
            false => sum,
        };
        let value = self.rank(value, signed);
        Ok(match least || signed {
            true => self.unless_zero(sum, value),
            false => value,
        })
    }

    /// `number`, or 0 where `rank` is 0: the rank of nothing. Without a branch: one whose way is known has the verifier tell apart each rank that the loop before it may end with.
    fn unless_zero(&mut self, rank: Vreg, number: Vreg) -> Vreg {
        let negative = self.b.mul(rank, -1);
        let either = self.b.alu(AluOp::Or, Bits::B64, rank, negative);
        let all = self.b.alu(AluOp::ShiftRightSigned, Bits::B64, either, 63);
        self.b.alu(AluOp::And, Bits::B64, number, all)
    }
}

/// A part of an aggregation's total: of an extreme its rank.
struct Total {
    /// The map's name among the program's.
    map: String,
    key_size: u32,
    /// Whether the key's words are numbers to the verifier, whatever the program has stored there.
    is_of_numbers: bool,
    number: AsNumber,
    signed: bool,
}

impl Total {
    /// The total at a key. A function makes it where the key fits into what one is given: the verifier goes through the loop, CPU by CPU, once for all reads of
    /// the map.
    fn of_key(&self, b: &mut Builder, key: Vreg) -> Vreg {
        if self.key_size > GIVEN || !self.is_of_numbers {
            return self.sum_up(b, key);
        }
        let words = self.words().map(|(width, at)| b.load(width, key, at));
        match *words.collect::<Vec<_>>() {
            [one] => self.by_function(b, [one]),
            [one, two] => self.by_function(b, [one, two]),
            [one, two, three] => self.by_function(b, [one, two, three]),
            [one, two, three, four] => self.by_function(b, [one, two, three, four]),
            [one, two, three, four, five] => self.by_function(b, [one, two, three, four, five]),
            _ => self.sum_up(b, key),
        }
    }

    /// The key's words, by width and offset: the index of a map without keys, or 8 bytes each.
    fn words(&self) -> impl Iterator<Item = (Width, i16)> + use<> {
        let (width, size) = match self.key_size {
            4 => (Width::B4, 4),
            size => (Width::B8, size),
        };
        (0..size.div_ceil(width.bytes()) as i16).map(move |word| (width, word * width.bytes() as i16))
    }

    fn by_function<const N: usize>(&self, b: &mut Builder, words: [Vreg; N]) -> Vreg {
        let name = format!("total {:?} {} {}", self.number, self.signed, self.map);
        b.own(&name, |b, words: [Vreg; N]| {
            let slot = b.slot(self.key_size, 8);
            let key = b.slot_address(slot, 0);
            for (word, (width, at)) in words.into_iter().zip(self.words()) {
                b.store(width, key, at, word);
            }
            let sum = self.sum_up(b, key);
            b.exit(sum);
        });
        b.call(&name, &words.map(Into::into))
    }

    /// Each CPU has its own value and a program sees no sum of them: the loop asks for one CPU after the other until there is none.
    fn sum_up(&self, b: &mut Builder, key: Vreg) -> Vreg {
        let (sum, count, cpu) = (b.vreg(), b.vreg(), b.vreg());
        for register in [sum, count, cpu] {
            b.assign(register, 0);
        }
        let (head, there, next, end) = (b.block(), b.block(), b.block(), b.block());
        b.jump(head);
        b.switch_to(head);
        let map = b.external(&self.map);
        let map = b.map_pointer(map);
        let found = b.helper(
            helper::MAP_LOOKUP_PERCPU_ELEM,
            &[map.into(), key.into(), cpu.into()],
        );
        b.branch(Condition::Equal, found, 0, end, there);
        b.switch_to(there);
        let first = b.load(Width::B8, found, 0);
        match self.number {
            AsNumber::Extreme { .. } => {
                let larger = b.block();
                b.branch(Condition::Greater, first, sum, larger, next);
                b.switch_to(larger);
                b.assign(sum, first);
            }
            AsNumber::Mean => {
                let second = b.load(Width::B8, found, 8);
                let (counts, sums) = (b.add(count, first), b.add(sum, second));
                b.assign(count, counts);
                b.assign(sum, sums);
            }
            AsNumber::Sum { .. } => {
                let sums = b.add(sum, first);
                b.assign(sum, sums);
            }
            AsNumber::SecondSum => {
                let second = b.load(Width::B8, found, 8);
                let sums = b.add(sum, second);
                b.assign(sum, sums);
            }
        }
        b.jump(next);
        b.switch_to(next);
        let following = b.add(cpu, 1);
        b.assign(cpu, following);
        // The helper finds nothing behind the last CPU; the bound is for verifiers that must see an end.
        b.branch(Condition::Less, cpu, CPUS, head, end);
        b.switch_to(end);
        match self.number {
            AsNumber::Mean if self.signed => signed_division(b, AluOp::Div, sum, count.into()),
            AsNumber::Mean => b.alu(AluOp::Div, Bits::B64, sum, count),
            AsNumber::Extreme { .. } | AsNumber::Sum { .. } | AsNumber::SecondSum => sum,
        }
    }
}
