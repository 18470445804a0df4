//! Results of BPF's arithmetic, conditions and atomic operations, as pure functions of numbers.

use super::{Alu, Atomic, Cond, Order, Width};

/// The result of `a op b`; a 32-bit result is zero-extended.
pub fn alu(op: Alu, width: Width, a: u64, b: u64) -> u64 {
    match width {
        Width::W64 => alu64(op, a, b),
        Width::W32 => u64::from(alu32(op, a as u32, b as u32)),
    }
}

fn alu64(op: Alu, a: u64, b: u64) -> u64 {
    let shift = b as u32 & 63;
    match op {
        Alu::Add => a.wrapping_add(b),
        Alu::Sub => a.wrapping_sub(b),
        Alu::Mul => a.wrapping_mul(b),
        Alu::Div => a.checked_div(b).unwrap_or(0),
        Alu::Mod => a.checked_rem(b).unwrap_or(a),
        Alu::Sdiv if b == 0 => 0,
        Alu::Sdiv => (a as i64).wrapping_div(b as i64) as u64,
        Alu::Smod if b == 0 => a,
        Alu::Smod => (a as i64).wrapping_rem(b as i64) as u64,
        Alu::Or => a | b,
        Alu::And => a & b,
        Alu::Xor => a ^ b,
        Alu::Mov => b,
        Alu::Lsh => a << shift,
        Alu::Rsh => a >> shift,
        Alu::Arsh => ((a as i64) >> shift) as u64,
    }
}

fn alu32(op: Alu, a: u32, b: u32) -> u32 {
    let shift = b & 31;
    match op {
        Alu::Sdiv if b == 0 => 0,
        Alu::Sdiv => (a as i32).wrapping_div(b as i32) as u32,
        Alu::Smod if b == 0 => a,
        Alu::Smod => (a as i32).wrapping_rem(b as i32) as u32,
        Alu::Lsh => a << shift,
        Alu::Rsh => a >> shift,
        Alu::Arsh => ((a as i32) >> shift) as u32,
        // For the other operations the low half of the 64-bit result is the same.
        _ => alu64(op, a.into(), b.into()) as u32,
    }
}

/// Whether `a cond b`.
pub fn holds(cond: Cond, width: Width, a: u64, b: u64) -> bool {
    let (a, b, sa, sb) = match width {
        Width::W64 => (a, b, a as i64, b as i64),
        Width::W32 => (
            a & 0xffff_ffff,
            b & 0xffff_ffff,
            i64::from(a as i32),
            i64::from(b as i32),
        ),
    };
    match cond {
        Cond::Eq => a == b,
        Cond::Ne => a != b,
        Cond::Gt => a > b,
        Cond::Ge => a >= b,
        Cond::Lt => a < b,
        Cond::Le => a <= b,
        Cond::Set => a & b != 0,
        Cond::Sgt => sa > sb,
        Cond::Sge => sa >= sb,
        Cond::Slt => sa < sb,
        Cond::Sle => sa <= sb,
    }
}

/// The low `bits` of `value`, sign-extended to the width.
pub fn sign_extend(width: Width, bits: u32, value: u64) -> u64 {
    let shift = 64_u32.saturating_sub(bits).min(63);
    let wide = (((value << shift) as i64) >> shift) as u64;
    match width {
        Width::W64 => wide,
        Width::W32 => wide & 0xffff_ffff,
    }
}

/// Byte-order conversion as a little-endian machine does it.
pub fn endian(order: Order, bits: u8, value: u64) -> u64 {
    match (order, bits) {
        (Order::Little, 16) => value & 0xffff,
        (Order::Little, 32) => value & 0xffff_ffff,
        (Order::Little, _) => value,
        (_, 16) => u64::from((value as u16).swap_bytes()),
        (_, 32) => u64::from((value as u32).swap_bytes()),
        _ => value.swap_bytes(),
    }
}

/// Value that an atomic operation leaves in memory, given the old value, the source register and r0.
pub fn atomic(op: Atomic, old: u64, src: u64, r0: u64) -> u64 {
    match op {
        Atomic::Add | Atomic::FetchAdd => old.wrapping_add(src),
        Atomic::Or | Atomic::FetchOr => old | src,
        Atomic::And | Atomic::FetchAnd => old & src,
        Atomic::Xor | Atomic::FetchXor => old ^ src,
        Atomic::Xchg => src,
        Atomic::Cmpxchg if old == r0 => src,
        Atomic::Cmpxchg => old,
    }
}
