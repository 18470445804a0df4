//! The instruction set: what an instruction can mean, and the lookups over the one table; its rows are in `table`.
//!
//! Assembler, disassembler, text parser and interpreter are clients of [`TABLE`]: a [`Row`] says how an instruction is
//! encoded, how it is written, and what it means. Source: the kernel's `Documentation/bpf/standardization/instruction-set.rst`;
//! the spelling is that of the verifier's log (`kernel/bpf/disasm.c`).

pub mod arithmetic;
mod table;

pub use table::TABLE;
pub(crate) use table::{CALL, LOAD64, PSEUDO_CALL, PSEUDO_FUNC};

use crate::insn::Insn;

/// A register, `r0` to `r10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are the kernel's")]
#[repr(u8)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

impl Reg {
    /// All registers in order.
    pub const ALL: [Self; 11] = [
        Self::R0,
        Self::R1,
        Self::R2,
        Self::R3,
        Self::R4,
        Self::R5,
        Self::R6,
        Self::R7,
        Self::R8,
        Self::R9,
        Self::R10,
    ];

    /// The number, 0 to 10.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl std::fmt::Display for Reg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "r{}", self.number())
    }
}

/// Width of arithmetic and comparisons. 32-bit results are zero-extended into the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names speak")]
pub enum Width {
    W32,
    W64,
}

/// Size of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Size {
    /// One byte.
    B,
    /// Two bytes.
    H,
    /// Four bytes.
    W,
    /// Eight bytes.
    DW,
}

impl Size {
    /// All sizes, smallest first.
    pub const ALL: [Self; 4] = [Self::B, Self::H, Self::W, Self::DW];

    /// The number of bytes: 1, 2, 4 or 8.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::B => 1,
            Self::H => 2,
            Self::W => 4,
            Self::DW => 8,
        }
    }

    /// The size of that many bytes, if there is one.
    pub fn from_bytes(bytes: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.bytes() == bytes)
    }
}

/// Source of the second operand: a register or an immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Second {
    /// The source register.
    Reg,
    /// The immediate, sign-extended to the width.
    Imm,
}

/// Arithmetic of two operands: `dst = dst OP src`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Alu {
    /// Wrapping sum.
    Add,
    /// Wrapping difference.
    Sub,
    /// Wrapping product.
    Mul,
    /// Unsigned quotient; by zero gives zero.
    Div,
    /// Signed quotient (cpu v4, Linux 6.6).
    Sdiv,
    /// Bitwise or.
    Or,
    /// Bitwise and.
    And,
    /// Left shift by the low 5 or 6 bits.
    Lsh,
    /// Logical right shift.
    Rsh,
    /// Unsigned remainder; by zero leaves the destination.
    Mod,
    /// Signed remainder (cpu v4, Linux 6.6).
    Smod,
    /// Bitwise exclusive or.
    Xor,
    /// A copy of the operand.
    Mov,
    /// Arithmetic right shift.
    Arsh,
}

/// Condition of a jump: `if dst COND src`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cond {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Unsigned greater.
    Gt,
    /// Unsigned greater or equal.
    Ge,
    /// Unsigned less.
    Lt,
    /// Unsigned less or equal.
    Le,
    /// At least one bit in common.
    Set,
    /// Signed greater.
    Sgt,
    /// Signed greater or equal.
    Sge,
    /// Signed less.
    Slt,
    /// Signed less or equal.
    Sle,
}

/// Byte orders of the conversion instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// To little endian, truncating: on our machines only truncation.
    Little,
    /// To big endian, truncating.
    Big,
    /// Always reversed (cpu v4, Linux 6.6).
    Swap,
}

/// Atomic read-modify-write operations; all but plain `Add` (the older `BPF_XADD`) need Linux 5.12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Atomic {
    /// `*p += src`.
    Add,
    /// `*p |= src`.
    Or,
    /// `*p &= src`.
    And,
    /// `*p ^= src`.
    Xor,
    /// Atomic `+=`, and `src` = the old value.
    FetchAdd,
    /// Atomic `|=`, and `src` = the old value.
    FetchOr,
    /// Atomic `&=`, and `src` = the old value.
    FetchAnd,
    /// Atomic `^=`, and `src` = the old value.
    FetchXor,
    /// `src` and `*p` change places.
    Xchg,
    /// If `*p == r0` then `*p = src`; `r0` = the old value.
    Cmpxchg,
}

/// Meaning of the 64-bit immediate of a two-slot load (`BPF_PSEUDO_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Imm64 {
    /// A number.
    Plain,
    /// A map: its file descriptor, filled in by the loader.
    Map,
    /// An address in a map's first value: descriptor in the first slot, offset in the second.
    MapValue,
    /// A kernel variable by its BTF id.
    BtfId,
    /// A function of this program, relative to the load's second slot.
    Function,
    /// A map by its place in the `fd_array`.
    MapIndex,
    /// An address in the first value of a map of the `fd_array`.
    MapIndexValue,
}

/// Target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Callee {
    /// A helper; the immediate is its number.
    Helper,
    /// A function of this program; the immediate is relative to the next instruction.
    Local,
    /// A kernel function; the immediate is its BTF id.
    Kfunc,
}

/// Meaning of an instruction, independent of its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the fields' types explain them")]
pub enum Meaning {
    /// `dst = dst op operand`.
    Alu { op: Alu, width: Width, second: Second },
    /// `dst = -dst`.
    Neg { width: Width },
    /// `dst = src` sign-extended from `bits` (cpu v4, Linux 6.6).
    MovSigned { width: Width, bits: u8 },
    /// The low `bits` of `dst` brought into an order, the rest cleared.
    Endian { order: Order, bits: u8 },
    /// `if dst cond operand goto off`.
    Jump {
        cond: Cond,
        width: Width,
        second: Second,
    },
    /// `goto off`.
    Goto,
    /// `goto imm`: a 32-bit distance (cpu v4, Linux 6.6).
    GotoLong,
    /// `dst = *(size *)(src + off)`; signed loads are cpu v4 (Linux 6.6).
    Load { size: Size, signed: bool },
    /// `*(size *)(dst + off) = operand`.
    Store { size: Size, second: Second },
    /// An atomic operation on `*(size *)(dst + off)`.
    Atomic { op: Atomic, size: Size },
    /// `dst` = a 64-bit immediate; the only instruction of two slots.
    Load64(Imm64),
    /// Call; arguments in r1–r5, result in r0.
    Call(Callee),
    /// Return r0.
    Exit,
}

/// Use of a field of the encoding: an operand, or part of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// An operand.
    Free,
    /// Always this value.
    Fixed(i32),
}

impl Field {
    fn admits(self, value: i32) -> bool {
        match self {
            Self::Free => true,
            Self::Fixed(fixed) => fixed == value,
        }
    }

    fn or(self, value: i32) -> i32 {
        match self {
            Self::Free => value,
            Self::Fixed(fixed) => fixed,
        }
    }
}

/// A row of the instruction table: encoding, spelling, meaning.
///
/// In `text`, operands stand in braces: `d` `s` the 64-bit and `D` `S` the 32-bit names of destination and source
/// register, `o` the signed offset, `i` the immediate, `j` a jump by the offset, `J` by the immediate, `l` the 64-bit
/// immediate, `m` a map, `v` a map value's offset, `h` a helper, `k` a kernel function.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Operation code.
    pub code: u8,
    /// The destination register field.
    pub dst: Field,
    /// The source register field.
    pub src: Field,
    /// The field with the jump distance or memory offset.
    pub off: Field,
    /// The field with the immediate operand.
    pub imm: Field,
    /// The spelling in listings.
    pub text: &'static str,
    /// The operation that the instruction performs.
    pub meaning: Meaning,
}

impl Row {
    /// Whether `insn` is an instance of this row.
    pub fn matches(&self, insn: &Insn) -> bool {
        self.code == insn.code
            && self.dst.admits(i32::from(insn.dst))
            && self.src.admits(i32::from(insn.src))
            && self.off.admits(i32::from(insn.off))
            && self.imm.admits(insn.imm)
    }

    /// The instruction of this row with these operands; operands the row fixes are ignored.
    pub fn encode(&self, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
        Insn {
            code: self.code,
            dst: self.dst.or(i32::from(dst)) as u8,
            src: self.src.or(i32::from(src)) as u8,
            off: self.off.or(i32::from(off)) as i16,
            imm: self.imm.or(imm),
        }
    }

    /// Number of slots of the instruction: 2 for a 64-bit load, else 1.
    pub fn slots(&self) -> usize {
        match self.meaning {
            Meaning::Load64(_) => 2,
            _ => 1,
        }
    }
}

/// The row that `insn` is an instance of; `None` for what is not an instruction (or the second slot of one).
///
/// ```
/// use kestrel_bpf::{insn::Insn, isa::{self, Meaning}};
/// let exit = Insn { code: 0x95, ..Insn::default() };
/// assert_eq!(isa::row(&exit).map(|row| row.meaning), Some(Meaning::Exit));
/// ```
pub fn row(insn: &Insn) -> Option<&'static Row> {
    let mut at = INDEX.first[usize::from(insn.code)];
    while let Some(row) = TABLE.get(usize::from(at)) {
        if row.matches(insn) {
            return Some(row);
        }
        at = INDEX.next[usize::from(at)];
    }
    None
}

/// The row with that meaning, if the set has it.
pub fn row_of(meaning: Meaning) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.meaning == meaning)
}

/// Index of the rows by operation code: `first` has the first row of each code, `next` the one after each row. The table's length stands for none.
struct Index {
    first: [u16; 256],
    next: [u16; TABLE.len()],
}

static INDEX: Index = index();

const fn index() -> Index {
    let none = TABLE.len() as u16;
    let mut index = Index {
        first: [none; 256],
        next: [none; TABLE.len()],
    };
    let mut at = TABLE.len();
    while at > 0 {
        at -= 1;
        let code = TABLE[at].code as usize;
        index.next[at] = index.first[code];
        index.first[code] = at as u16;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_encoding_and_by_its_meaning() {
        for r in TABLE {
            let insn = r.encode(3, 4, -7, 9);
            let found = row(&insn).unwrap();
            assert_eq!(found.meaning, r.meaning, "{}", r.text);
            assert_eq!(row_of(r.meaning).unwrap().text, r.text);
        }
    }

    #[test]
    fn no_two_rows_share_an_encoding_or_a_spelling() {
        for (i, a) in TABLE.iter().enumerate() {
            for b in &TABLE[i + 1..] {
                let clash = a.matches(&b.encode(1, 2, 3, 5)) || b.matches(&a.encode(1, 2, 3, 5));
                assert!(!clash, "{} and {}", a.text, b.text);
                assert_ne!(a.text, b.text);
            }
        }
    }

    #[test]
    fn spelling_names_exactly_the_free_fields() {
        for r in TABLE {
            let free = |field, letters: &[&str]| {
                let named = letters.iter().any(|l| r.text.contains(l));
                assert_eq!(named, field == Field::Free, "{}: {letters:?}", r.text);
            };
            free(r.dst, &["{d}", "{D}"]);
            free(r.src, &["{s}", "{S}"]);
            free(r.off, &["{o}", "{j}"]);
            free(r.imm, &["{i}", "{J}", "{l}", "{m}", "{v}", "{h}", "{k}"]);
        }
    }

    /// Encodings from the standard's text and `include/uapi/linux/bpf.h`, not from our table.
    #[test]
    fn known_encodings() {
        let known = [
            (0x0f, 0, 0, 0, "{d} += {s}"),
            (0xb7, 0, 0, 0, "{d} = {i}"),
            (0x3f, 0, 1, 0, "{d} s/= {s}"),
            (0xbf, 0, 8, 0, "{d} = (s8){s}"),
            (0xdc, 0, 0, 16, "{d} = be16 {d}"),
            (0x79, 0, 0, 0, "{d} = *(u64 *)({s} {o})"),
            (0x81, 0, 0, 0, "{d} = *(s32 *)({s} {o})"),
            (0x63, 0, 0, 0, "*(u32 *)({d} {o}) = {s}"),
            (
                0xdb,
                0,
                0,
                0xf1,
                "r0 = atomic64_cmpxchg((u64 *)({d} {o}), r0, {s})",
            ),
            (0xc3, 0, 0, 1, "{s} = atomic_fetch_add((u32 *)({d} {o}), {s})"),
            (0x2d, 0, 0, 0, "if {d} > {s} goto {j}"),
            (0xc6, 0, 0, 0, "if {D} s< {i} goto {j}"),
            (0x95, 0, 0, 0, "exit"),
            (0x85, 2, 0, 0, "call kfunc {k}"),
            (0x18, 0, 0, 0, "{d} = {l} ll"),
        ];
        for (code, src, off, imm, text) in known {
            let insn = Insn {
                code,
                dst: 0,
                src,
                off,
                imm,
            };
            assert_eq!(row(&insn).map(|r| r.text), Some(text));
        }
    }
}
