//! Intermediate code as text, for `-v` and golden files; there is no reader for it.

use super::{
    AluOp, AtomicOp, Bits, BlockId, Condition, End, Function, MapUse, Op, Operand, Slot, Vreg, Width,
};
use std::fmt::{Display, Formatter, Result};

impl Display for Vreg {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "v{}", self.0)
    }
}

impl Display for BlockId {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "b{}", self.0)
    }
}

impl Display for Slot {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "slot{}", self.0)
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Reg(v) => v.fmt(f),
            Self::Imm(n) if n.unsigned_abs() > 0xffff => write!(f, "{n:#x}"),
            Self::Imm(n) => n.fmt(f),
        }
    }
}

impl Display for AluOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Mod => "%",
            Self::And => "&",
            Self::Or => "|",
            Self::Xor => "^",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::ShiftRightSigned => "s>>",
        })
    }
}

impl Display for Condition {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::SignedLess => "s<",
            Self::SignedLessEqual => "s<=",
            Self::SignedGreater => "s>",
            Self::SignedGreaterEqual => "s>=",
            Self::AnyBit => "&",
        })
    }
}

impl Display for AtomicOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Add => "add",
            Self::And => "and",
            Self::Or => "or",
            Self::Xor => "xor",
            Self::Exchange => "exchange",
        })
    }
}

/// Name of a cell's type: `u32`, `s8`.
fn cell(width: Width, signed: bool) -> String {
    format!("{}{}", if signed { "s" } else { "u" }, width.bytes() * 8)
}

/// Suffix of operations on 32 bits: ` (32)`.
fn narrow(bits: Bits) -> &'static str {
    match bits {
        Bits::B32 => " (32)",
        Bits::B64 => "",
    }
}

fn list(args: &[Operand]) -> String {
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    args.join(", ")
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(dst) = self.def() {
            write!(f, "{dst} = ")?;
        }
        match self {
            Self::Const { value, .. } => Operand::Imm(*value).fmt(f),
            Self::Copy { src, .. } => src.fmt(f),
            Self::Alu {
                op,
                bits,
                left,
                right,
                ..
            } => write!(f, "{left} {op} {right}{}", narrow(*bits)),
            Self::Compare {
                condition,
                bits,
                left,
                right,
                ..
            } => write!(f, "({left} {condition} {right}){}", narrow(*bits)),
            Self::Extend {
                src, width, signed, ..
            } => write!(f, "{} {src}", cell(*width, *signed)),
            Self::SwapBytes { src, width, .. } => write!(f, "swap {} {src}", cell(*width, false)),
            Self::Load {
                width,
                signed,
                base,
                offset,
                ..
            } => write!(f, "{} [{base}{offset:+}]", cell(*width, *signed)),
            Self::Touch { base, offset, .. } => write!(f, "touch [{base}{offset:+}]"),
            Self::Store {
                width,
                base,
                offset,
                value,
            } => write!(f, "{} [{base}{offset:+}] = {value}", cell(*width, false)),
            Self::Atomic {
                op,
                width,
                base,
                offset,
                value,
                ..
            } => write!(
                f,
                "atomic {op} {} [{base}{offset:+}], {value}",
                cell(*width, false)
            ),
            Self::CompareExchange {
                width,
                base,
                offset,
                expected,
                new,
                ..
            } => write!(
                f,
                "compare_exchange {} [{base}{offset:+}], {expected}, {new}",
                cell(*width, false)
            ),
            Self::SlotAddress { slot, offset, .. } => write!(f, "&{slot}+{offset}"),
            Self::KernelVariable { id, .. } => write!(f, "variable {id}"),
            Self::Map { map, .. } => write!(f, "map{}", map.0),
            Self::MapValue { map, offset, .. } => write!(f, "&map{}[0]+{offset}", map.0),
            Self::Callback { number, .. } => write!(f, "callback{number}"),
            Self::Helper { helper, args, .. } => match helper.name() {
                Some(name) => write!(f, "{name}({})", list(args)),
                None => write!(f, "helper#{}({})", helper.0, list(args)),
            },
            // The program's own functions may have the names of the kernel's.
            Self::Kfunc { name, args, .. } => write!(f, "kernel {name}({})", list(args)),
            Self::Call { name, args, .. } => write!(f, "own {name}({})", list(args)),
        }
    }
}

impl Display for End {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Jump(to) => write!(f, "goto {to}"),
            Self::Branch {
                condition,
                bits,
                left,
                right,
                then,
                otherwise,
            } => write!(
                f,
                "if {left} {condition} {right}{} goto {then} else {otherwise}",
                narrow(*bits)
            ),
            Self::Exit(value) => write!(f, "exit {value}"),
        }
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for (i, map) in self.maps.iter().enumerate() {
            match map {
                MapUse::Private(m) => writeln!(
                    f,
                    "map{i}: {} {:?} {} -> {} x {}",
                    m.name, m.kind, m.key, m.value, m.entries
                )?,
                MapUse::External(name) => writeln!(f, "map{i}: external {name}")?,
            }
        }
        for (i, object) in self.objects.iter().enumerate() {
            writeln!(f, "slot{i}: {} bytes, aligned {}", object.size, object.align)?;
        }
        if let Some(context) = self.context {
            writeln!(f, "context: {context}")?;
        }
        for id in self.order() {
            let block = self.block(id);
            writeln!(f, "{id}:{}", if block.cold { " (cold)" } else { "" })?;
            for inst in &block.insts {
                writeln!(f, "    {}", inst.op)?;
            }
            if let Some(end) = &block.end {
                writeln!(f, "    {end}")?;
            }
        }
        Ok(())
    }
}
