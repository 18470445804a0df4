//! Random programs of the tracing language: values of all types, with what they print as, computed here without a compiler. The same seed makes the same program.

use std::fmt::Write as _;

/// A piece of a program, and what the value that it computes is printed as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Statements before the value.
    pub statements: String,
    /// The value, an expression.
    pub value: String,
    /// The expected output.
    pub expected: String,
}

/// The enumeration that values may be of, as a program defines it.
pub const ENUMERATION: &str = "enum colour { RED = 1, GREEN = 5, BLUE = 9 };";
const COLOURS: [(&str, i64); 3] = [("RED", 1), ("GREEN", 5), ("BLUE", 9)];

/// The piece of a seed; `defined` says whether the program around it has [`ENUMERATION`].
pub fn piece(seed: u64, defined: bool) -> Piece {
    let mut maker = Maker {
        state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d,
        defined,
        numbers: Vec::new(),
        truths: Vec::new(),
        texts: Vec::new(),
        statements: String::new(),
    };
    maker.variables();
    let (value, expected) = maker.value(3);
    Piece {
        statements: maker.statements,
        value,
        expected,
    }
}

/// An integer type by its width and sign.
#[derive(Clone, Copy, Debug)]
struct Integer {
    bits: u32,
    signed: bool,
}

impl Integer {
    fn name(self) -> String {
        format!("{}int{}", if self.signed { "" } else { "u" }, self.bits)
    }

    /// The value of a number that is converted to the type.
    fn of(self, number: i64) -> i128 {
        let cut = (number as u64) << (64 - self.bits);
        match self.signed {
            true => i128::from((cut as i64) >> (64 - self.bits)),
            false => i128::from(cut >> (64 - self.bits)),
        }
    }
}

struct Maker {
    state: u64,
    defined: bool,
    /// Variables and what they hold. An integer is read as `int64`.
    numbers: Vec<(String, Integer, i128)>,
    truths: Vec<(String, bool)>,
    texts: Vec<(String, String)>,
    statements: String,
}

impl Maker {
    /// The next of a sequence (xorshift*), below a bound.
    fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let at = self.below(all.len().max(1) as u64) as usize;
        all.get(at).cloned()
    }

    fn integer(&mut self) -> Integer {
        Integer {
            bits: 8 << self.below(4),
            signed: self.below(2) == 0,
        }
    }

    fn letters(&mut self) -> String {
        let length = self.below(12);
        (0..length)
            .map(|_| char::from(b'a' + self.below(26) as u8))
            .collect()
    }

    /// A few variables of all kinds, some of which are set again on a condition or in a loop.
    fn variables(&mut self) {
        for number in 0..2 + self.below(3) {
            let ty = self.integer();
            let (wide, small) = (
                self.below(1 << 31) as i64 * 0x1_0001,
                self.below(600) as i64 - 300,
            );
            let start = if self.below(3) == 0 { wide } else { small };
            let name = format!("$n{number}");
            let _ = write!(self.statements, "{name} = ({})({start}); ", ty.name());
            self.numbers.push((name, ty, ty.of(start)));
        }
        let text = self.letters();
        let _ = write!(self.statements, "$t = \"{text}\"; ");
        self.texts.push(("$t".to_owned(), text));
        let (truth, holds) = self.truth(1);
        let _ = write!(self.statements, "$b = {truth}; ");
        self.truths.push(("$b".to_owned(), holds));
        for _ in 0..self.below(3) {
            self.change();
        }
    }

    fn change(&mut self) {
        let at = self.below(self.numbers.len() as u64) as usize;
        let (name, ty, _) = self.numbers[at].clone();
        let (value, result) = self.number(2);
        let changed = match self.below(2) {
            0 => {
                let (truth, holds) = self.truth(2);
                let _ = write!(
                    self.statements,
                    "if ({truth}) {{ {name} = ({})({value}); }} ",
                    ty.name()
                );
                holds.then(|| ty.of(result))
            }
            _ => {
                // Each turn computes from what the one before has left.
                let turns = 1 + self.below(4);
                let step = self.below(50) as i64;
                let _ = write!(
                    self.statements,
                    "for ($i : 0..{turns}) {{ {name} = ({})((int64){name} * 3 + (int64)$i + {step}); }} ",
                    ty.name()
                );
                let mut held = self.numbers[at].2;
                for turn in 0..turns as i64 {
                    let next = (held as i64)
                        .wrapping_mul(3)
                        .wrapping_add(turn)
                        .wrapping_add(step);
                    held = ty.of(next);
                }
                Some(held)
            }
        };
        if let Some(changed) = changed {
            self.numbers[at].2 = changed;
        }
    }

    /// An expression of type `int64`, and its value.
    fn number(&mut self, depth: u32) -> (String, i64) {
        // Small expressions at every depth, too: else all programs had trees of one shape.
        if depth == 0 || self.below(4) == 0 {
            return match self.one_of(&self.numbers.clone()) {
                Some((name, _, held)) if self.below(4) != 0 => (format!("(int64){name}"), held as i64),
                _ => {
                    let literal = self.below(1000) as i64;
                    (format!("(int64){literal}"), literal)
                }
            };
        }
        let (left, a) = self.number(depth - 1);
        match self.below(12) {
            0 => (format!("(int64)(-({left}))"), a.wrapping_neg()),
            1 => (format!("(int64)(~({left}))"), !a),
            2 => {
                let by = self.below(20);
                (format!("(int64)(({left}) << {by})"), a.wrapping_shl(by as u32))
            }
            3 => {
                let by = self.below(20);
                let kept = a & 0xff_ffff;
                (format!("(int64)((({left}) & 0xffffff) >> {by})"), kept >> by)
            }
            4 => {
                let by = 1 + self.below(100) as i64;
                (
                    format!("(int64)((({left}) & 0xffffff) / {by})"),
                    (a & 0xff_ffff) / by,
                )
            }
            5 => {
                let by = 1 + self.below(100) as i64;
                (
                    format!("(int64)((({left}) & 0xffffff) % {by})"),
                    (a & 0xff_ffff) % by,
                )
            }
            6 => {
                let (truth, holds) = self.truth(depth - 1);
                let (right, b) = self.number(depth - 1);
                let taken = if holds { a } else { b };
                (format!("({truth} ? ({left}) : ({right}))"), taken)
            }
            7 => {
                let ty = self.integer();
                (format!("(int64)(({})({left}))", ty.name()), ty.of(a) as i64)
            }
            other => {
                let (right, b) = self.number(depth - 1);
                let (sign, result) = match other {
                    8 => ("*", a.wrapping_mul(b)),
                    9 => ("-", a.wrapping_sub(b)),
                    10 => ("^", a ^ b),
                    _ => ("+", a.wrapping_add(b)),
                };
                (format!("(int64)(({left}) {sign} ({right}))"), result)
            }
        }
    }

    /// An expression that is true or false, and which of both.
    fn truth(&mut self, depth: u32) -> (String, bool) {
        // A piece without a name to use yet falls through to the comparison of numbers, which always can be made.
        match self.below(if depth == 0 { 3 } else { 6 }) {
            0 if !self.truths.is_empty() => {
                let (name, holds) = self.truths[0].clone();
                (name, holds)
            }
            1 if !self.texts.is_empty() => {
                let (name, held) = self.texts[0].clone();
                let other = if self.below(2) == 0 {
                    held.clone()
                } else {
                    self.letters()
                };
                match self.below(2) {
                    0 => (format!("({name} == \"{other}\")"), held == other),
                    _ => (format!("({name} != \"{other}\")"), held != other),
                }
            }
            3 => {
                let (truth, holds) = self.truth(depth - 1);
                (format!("(!{truth})"), !holds)
            }
            4 => {
                let ((left, a), (right, b)) = (self.truth(depth - 1), self.truth(depth - 1));
                match self.below(2) {
                    0 => (format!("({left} && {right})"), a && b),
                    _ => (format!("({left} || {right})"), a || b),
                }
            }
            _ => {
                let depth = depth.saturating_sub(1);
                let ((left, a), (right, b)) = (self.number(depth), self.number(depth));
                let (sign, holds) = match self.below(6) {
                    0 => ("<", a < b),
                    1 => ("<=", a <= b),
                    2 => (">", a > b),
                    3 => (">=", a >= b),
                    4 => ("==", a == b),
                    _ => ("!=", a != b),
                };
                (format!("(({left}) {sign} ({right}))"), holds)
            }
        }
    }

    /// A value of any type, and what it prints as.
    fn value(&mut self, depth: u32) -> (String, String) {
        match self.below(if depth == 0 { 5 } else { 9 }) {
            0 => {
                let (truth, holds) = self.truth(2);
                // A comparison is a value of its own.
                (format!("(bool)({truth})"), holds.to_string())
            }
            1 => {
                let text = self.letters();
                (format!("\"{text}\""), text)
            }
            2 if self.defined => {
                let chosen = self.one_of(&COLOURS);
                chosen.map_or_else(
                    || ("1".to_owned(), "1".to_owned()),
                    |(name, number)| (format!("(enum colour){number}"), name.to_owned()),
                )
            }
            2 => ("$t".to_owned(), self.texts[0].1.clone()),
            5 | 6 => {
                let members: Vec<(String, String)> =
                    (0..2 + self.below(3)).map(|_| self.value(depth - 1)).collect();
                let (values, printed): (Vec<_>, Vec<_>) = members.into_iter().unzip();
                (
                    format!("({})", values.join(", ")),
                    format!("({})", printed.join(", ")),
                )
            }
            7 => {
                let members: Vec<(String, String)> =
                    (0..2 + self.below(2)).map(|_| self.value(depth - 1)).collect();
                let named = |sign: &str, dot: &str, take: fn(&(String, String)) -> &String| {
                    let parts = members.iter().zip(["a", "b", "c", "d"]);
                    let parts = parts.map(|(member, name)| format!("{dot}{name}{sign}{}", take(member)));
                    parts.collect::<Vec<_>>().join(", ")
                };
                let value = format!("({})", named("=", "", |member| &member.0));
                (value, format!("{{ {} }}", named(" = ", ".", |member| &member.1)))
            }
            8 => {
                let (value, number) = self.number(1);
                let bytes = number.to_le_bytes().map(|byte| (byte as i8).to_string());
                (format!("(int8[8])({value})"), format!("[{}]", bytes.join(",")))
            }
            _ => {
                let ty = self.integer();
                let (value, number) = self.number(3);
                (format!("({})({value})", ty.name()), ty.of(number).to_string())
            }
        }
    }
}
