//! Conditions of `#if` and `#elif`, read as C reads them.

use super::{Token, TokenKind};

/// The value of a condition; `None` for tokens that are none.
pub(super) fn value(tokens: &[Token<'_>]) -> Option<i64> {
    let mut reader = ConditionReader { tokens, at: 0 };
    let value = reader.value(0, 0)?;
    (reader.at == tokens.len()).then_some(value)
}

/// A condition, read as C reads it.
struct ConditionReader<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
}

/// Operators between numbers and how tight they bind.
const BINARY: &[(&str, u8)] = &[
    ("||", 1),
    ("&&", 2),
    ("|", 3),
    ("^", 4),
    ("&", 5),
    ("==", 6),
    ("!=", 6),
    ("<", 7),
    ("<=", 7),
    (">", 7),
    (">=", 7),
    ("<<", 8),
    (">>", 8),
    ("+", 9),
    ("-", 9),
    ("*", 10),
    ("/", 10),
    ("%", 10),
];

impl ConditionReader<'_, '_> {
    fn value(&mut self, floor: u8, depth: u32) -> Option<i64> {
        let mut left = self.operand(depth)?;
        while let Some(TokenKind::Sign(sign)) = self.tokens.get(self.at).map(|t| &t.kind) {
            if *sign == "?" && floor == 0 {
                self.at += 1;
                let then = self.value(0, depth + 1)?;
                self.expect(":")?;
                let otherwise = self.value(0, depth + 1)?;
                return Some(if left != 0 { then } else { otherwise });
            }
            let Some((_, precedence)) = BINARY.iter().find(|row| row.0 == *sign) else {
                break;
            };
            if *precedence <= floor {
                break;
            }
            self.at += 1;
            let right = self.value(*precedence, depth + 1)?;
            left = combined(sign, left, right)?;
        }
        Some(left)
    }

    fn operand(&mut self, depth: u32) -> Option<i64> {
        if depth > 64 {
            return None;
        }
        let kind = &self.tokens.get(self.at)?.kind;
        self.at += 1;
        match kind {
            TokenKind::Integer { value, .. } => Some(value.cast_signed()),
            TokenKind::Word("true") => Some(1),
            TokenKind::Word(_) => Some(0),
            TokenKind::Sign("(") => {
                let value = self.value(0, depth + 1)?;
                self.expect(")")?;
                Some(value)
            }
            TokenKind::Sign("!") => Some(i64::from(self.operand(depth + 1)? == 0)),
            TokenKind::Sign("-") => Some(self.operand(depth + 1)?.wrapping_neg()),
            TokenKind::Sign("+") => self.operand(depth + 1),
            TokenKind::Sign("~") => Some(!self.operand(depth + 1)?),
            _ => None,
        }
    }

    fn expect(&mut self, sign: &str) -> Option<()> {
        let there = matches!(self.tokens.get(self.at)?.kind, TokenKind::Sign(s) if s == sign);
        self.at += 1;
        there.then_some(())
    }
}

fn combined(sign: &str, left: i64, right: i64) -> Option<i64> {
    Some(match sign {
        "||" => i64::from(left != 0 || right != 0),
        "&&" => i64::from(left != 0 && right != 0),
        "|" => left | right,
        "^" => left ^ right,
        "&" => left & right,
        "==" => i64::from(left == right),
        "!=" => i64::from(left != right),
        "<" => i64::from(left < right),
        "<=" => i64::from(left <= right),
        ">" => i64::from(left > right),
        ">=" => i64::from(left >= right),
        "<<" => left.wrapping_shl(u32::try_from(right & 63).unwrap_or(0)),
        ">>" => left.wrapping_shr(u32::try_from(right & 63).unwrap_or(0)),
        "+" => left.wrapping_add(right),
        "-" => left.wrapping_sub(right),
        "*" => left.wrapping_mul(right),
        "/" => left.checked_div(right)?,
        "%" => left.checked_rem(right)?,
        _ => return None,
    })
}
