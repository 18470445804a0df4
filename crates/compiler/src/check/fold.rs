//! Arithmetic on constants, with the meaning that generated code gives it.

use super::tree::{BinaryOp, CompareOp, Expr, ExprKind, UnaryOp};

impl Expr {
    /// The value, if that is known now.
    pub(crate) fn constant(&self) -> Option<u64> {
        match self.kind {
            ExprKind::Constant(value) => Some(value),
            _ => None,
        }
    }
}

/// The low `size` bytes, extended to 64 bits.
pub(super) fn convert(value: u64, size: u8, signed: bool) -> u64 {
    let unused = 64 - u32::from(size.clamp(1, 8)) * 8;
    let high = value << unused;
    if signed {
        ((high as i64) >> unused) as u64
    } else {
        high >> unused
    }
}

pub(super) fn unary(op: UnaryOp, value: u64) -> u64 {
    match op {
        UnaryOp::Negate => value.wrapping_neg(),
        UnaryOp::BitNot => !value,
        UnaryOp::Not => u64::from(value == 0),
    }
}

pub(super) fn binary(op: BinaryOp, signed: bool, left: u64, right: u64) -> u64 {
    let (l, r) = (left as i64, right as i64);
    match op {
        BinaryOp::Add => left.wrapping_add(right),
        BinaryOp::Subtract => left.wrapping_sub(right),
        BinaryOp::Multiply => left.wrapping_mul(right),
        BinaryOp::Divide | BinaryOp::Modulo if right == 0 => 0,
        BinaryOp::Divide if signed => l.wrapping_div(r) as u64,
        BinaryOp::Divide => left / right,
        BinaryOp::Modulo if signed => l.wrapping_rem(r) as u64,
        BinaryOp::Modulo => left % right,
        BinaryOp::ShiftLeft => left << (right & 63),
        BinaryOp::ShiftRight if signed => (l >> (right & 63)) as u64,
        BinaryOp::ShiftRight => left >> (right & 63),
        BinaryOp::And => left & right,
        BinaryOp::Or => left | right,
        BinaryOp::Xor => left ^ right,
    }
}

pub(super) fn compare(op: CompareOp, signed: bool, left: u64, right: u64) -> bool {
    let ordering = match signed {
        true => (left as i64).cmp(&(right as i64)),
        false => left.cmp(&right),
    };
    match op {
        CompareOp::Equal => ordering.is_eq(),
        CompareOp::NotEqual => ordering.is_ne(),
        CompareOp::Less => ordering.is_lt(),
        CompareOp::LessEqual => ordering.is_le(),
        CompareOp::Greater => ordering.is_gt(),
        CompareOp::GreaterEqual => ordering.is_ge(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion_extends_from_the_size() {
        assert_eq!(convert(0x1ff, 1, false), 0xff);
        assert_eq!(convert(0x1ff, 1, true), u64::MAX);
        assert_eq!(convert(u64::MAX, 8, true), u64::MAX);
    }

    #[test]
    fn division_by_zero_gives_zero_and_never_traps() {
        assert_eq!(binary(BinaryOp::Divide, true, 7, 0), 0);
        assert_eq!(
            binary(BinaryOp::Divide, true, i64::MIN as u64, u64::MAX),
            i64::MIN as u64
        );
        assert_eq!(
            binary(BinaryOp::ShiftRight, true, (-8_i64) as u64, 1),
            (-4_i64) as u64
        );
        assert!(compare(CompareOp::Less, true, u64::MAX, 0));
    }
}
