//! The instruction table: one row per instruction. A macro makes the rows of regular families, such as arithmetic, from one line each.

use super::{Alu, Atomic, Callee, Cond, Field, Imm64, Meaning, Order, Row, Second, Size, Width};
use Field::{Fixed, Free};

const LDX: u8 = 0x01;
const ST: u8 = 0x02;
const STX: u8 = 0x03;
const ALU32: u8 = 0x04;
const JMP: u8 = 0x05;
const JMP32: u8 = 0x06;
const ALU64: u8 = 0x07;
/// The second operand is the source register.
const X: u8 = 0x08;
const MEM: u8 = 0x60;
const MEMSX: u8 = 0x80;
const ATOMIC: u8 = 0xc0;
const ZERO: Field = Fixed(0);

/// Operation code of the 64-bit loads, `BPF_LD | BPF_IMM | BPF_DW`.
pub(crate) const LOAD64: u8 = 0x18;
/// Operation code of the calls, `BPF_JMP | BPF_CALL`.
pub(crate) const CALL: u8 = 0x80 | JMP;
/// `BPF_PSEUDO_CALL`: source register of a call of a function of the same program.
pub(crate) const PSEUDO_CALL: u8 = 1;
/// `BPF_PSEUDO_FUNC`: source register of a 64-bit load of the address of a function of the same program.
pub(crate) const PSEUDO_FUNC: u8 = 4;

const fn alu(code: u8, off: i32, op: Alu, width: Width, second: Second, text: &'static str) -> Row {
    let (src, imm) = second_operand(second);
    Row {
        code,
        dst: Free,
        src,
        off: Fixed(off),
        imm,
        text,
        meaning: Meaning::Alu { op, width, second },
    }
}

const fn jump(code: u8, cond: Cond, width: Width, second: Second, text: &'static str) -> Row {
    let (src, imm) = second_operand(second);
    Row {
        code,
        dst: Free,
        src,
        off: Free,
        imm,
        text,
        meaning: Meaning::Jump { cond, width, second },
    }
}

const fn second_operand(second: Second) -> (Field, Field) {
    match second {
        Second::Reg => (Free, ZERO),
        Second::Imm => (ZERO, Free),
    }
}

const fn neg(code: u8, width: Width, text: &'static str) -> Row {
    Row {
        code,
        dst: Free,
        src: ZERO,
        off: ZERO,
        imm: ZERO,
        text,
        meaning: Meaning::Neg { width },
    }
}

const fn mov_signed(code: u8, bits: u8, width: Width, text: &'static str) -> Row {
    let meaning = Meaning::MovSigned { width, bits };
    Row {
        code,
        dst: Free,
        src: Free,
        off: Fixed(bits as i32),
        imm: ZERO,
        text,
        meaning,
    }
}

const fn endian(code: u8, bits: u8, order: Order, text: &'static str) -> Row {
    let meaning = Meaning::Endian { order, bits };
    Row {
        code,
        dst: Free,
        src: ZERO,
        off: ZERO,
        imm: Fixed(bits as i32),
        text,
        meaning,
    }
}

const fn load(code: u8, size: Size, signed: bool, text: &'static str) -> Row {
    Row {
        code,
        dst: Free,
        src: Free,
        off: Free,
        imm: ZERO,
        text,
        meaning: Meaning::Load { size, signed },
    }
}

const fn store(code: u8, size: Size, second: Second, text: &'static str) -> Row {
    let (src, imm) = second_operand(second);
    Row {
        code,
        dst: Free,
        src,
        off: Free,
        imm,
        text,
        meaning: Meaning::Store { size, second },
    }
}

const fn atomic(code: u8, imm: i32, op: Atomic, size: Size, text: &'static str) -> Row {
    let meaning = Meaning::Atomic { op, size };
    Row {
        code,
        dst: Free,
        src: Free,
        off: Free,
        imm: Fixed(imm),
        text,
        meaning,
    }
}

const fn load64(pseudo: u8, kind: Imm64, text: &'static str) -> Row {
    let meaning = Meaning::Load64(kind);
    Row {
        code: LOAD64,
        dst: Free,
        src: Fixed(pseudo as i32),
        off: ZERO,
        imm: Free,
        text,
        meaning,
    }
}

const fn call(pseudo: u8, callee: Callee, text: &'static str) -> Row {
    let meaning = Meaning::Call(callee);
    Row {
        code: CALL,
        dst: ZERO,
        src: Fixed(pseudo as i32),
        off: ZERO,
        imm: Free,
        text,
        meaning,
    }
}

macro_rules! table {
    (
        alu { $($op:ident $op_code:literal $op_off:literal $op_text:literal)* }
        jump { $($cond:ident $cond_code:literal $cond_text:literal)* }
        memory { $($size:ident $size_code:literal $size_text:literal)* }
        signed { $($signed:ident $signed_code:literal $signed_text:literal)* }
        atomic { $($plain:ident $plain_imm:literal $plain_text:literal)* }
        fetch { $($fetch:ident $fetch_imm:literal $fetch_text:literal)* }
        rows { $($row:expr;)* }
    ) => {
        /// Every instruction that Kestrel reads or writes.
        pub const TABLE: &[Row] = &[
            $(
                alu($op_code | ALU64, $op_off, Alu::$op, Width::W64, Second::Imm, concat!("{d} ", $op_text, " {i}")),
                alu($op_code | ALU64 | X, $op_off, Alu::$op, Width::W64, Second::Reg, concat!("{d} ", $op_text, " {s}")),
                alu($op_code | ALU32, $op_off, Alu::$op, Width::W32, Second::Imm, concat!("{D} ", $op_text, " {i}")),
                alu($op_code | ALU32 | X, $op_off, Alu::$op, Width::W32, Second::Reg, concat!("{D} ", $op_text, " {S}")),
            )*
            $(
                jump($cond_code | JMP, Cond::$cond, Width::W64, Second::Imm, concat!("if {d} ", $cond_text, " {i} goto {j}")),
                jump($cond_code | JMP | X, Cond::$cond, Width::W64, Second::Reg, concat!("if {d} ", $cond_text, " {s} goto {j}")),
                jump($cond_code | JMP32, Cond::$cond, Width::W32, Second::Imm, concat!("if {D} ", $cond_text, " {i} goto {j}")),
                jump($cond_code | JMP32 | X, Cond::$cond, Width::W32, Second::Reg, concat!("if {D} ", $cond_text, " {S} goto {j}")),
            )*
            $(
                load($size_code | LDX | MEM, Size::$size, false, concat!("{d} = *(", $size_text, " *)({s} {o})")),
                store($size_code | ST | MEM, Size::$size, Second::Imm, concat!("*(", $size_text, " *)({d} {o}) = {i}")),
                store($size_code | STX | MEM, Size::$size, Second::Reg, concat!("*(", $size_text, " *)({d} {o}) = {s}")),
            )*
            $(
                load($signed_code | LDX | MEMSX, Size::$signed, true, concat!("{d} = *(", $signed_text, " *)({s} {o})")),
            )*
            $(
                atomic(STX | ATOMIC, $plain_imm, Atomic::$plain, Size::W, concat!("lock *(u32 *)({d} {o}) ", $plain_text, " {s}")),
                atomic(0x18 | STX | ATOMIC, $plain_imm, Atomic::$plain, Size::DW, concat!("lock *(u64 *)({d} {o}) ", $plain_text, " {s}")),
            )*
            $(
                atomic(STX | ATOMIC, $fetch_imm, Atomic::$fetch, Size::W, concat!("{s} = atomic_", $fetch_text, "((u32 *)({d} {o}), {s})")),
                atomic(0x18 | STX | ATOMIC, $fetch_imm, Atomic::$fetch, Size::DW, concat!("{s} = atomic64_", $fetch_text, "((u64 *)({d} {o}), {s})")),
            )*
            $($row,)*
        ];
    };
}

table! {
    alu {
        Add 0x00 0 "+="
        Sub 0x10 0 "-="
        Mul 0x20 0 "*="
        Div 0x30 0 "/="
        Sdiv 0x30 1 "s/="
        Or 0x40 0 "|="
        And 0x50 0 "&="
        Lsh 0x60 0 "<<="
        Rsh 0x70 0 ">>="
        Mod 0x90 0 "%="
        Smod 0x90 1 "s%="
        Xor 0xa0 0 "^="
        Mov 0xb0 0 "="
        Arsh 0xc0 0 "s>>="
    }
    jump {
        Eq 0x10 "=="
        Gt 0x20 ">"
        Ge 0x30 ">="
        Set 0x40 "&"
        Ne 0x50 "!="
        Sgt 0x60 "s>"
        Sge 0x70 "s>="
        Lt 0xa0 "<"
        Le 0xb0 "<="
        Slt 0xc0 "s<"
        Sle 0xd0 "s<="
    }
    memory {
        W 0x00 "u32"
        H 0x08 "u16"
        B 0x10 "u8"
        DW 0x18 "u64"
    }
    signed {
        W 0x00 "s32"
        H 0x08 "s16"
        B 0x10 "s8"
    }
    atomic {
        Add 0x00 "+="
        Or 0x40 "|="
        And 0x50 "&="
        Xor 0xa0 "^="
    }
    fetch {
        FetchAdd 0x01 "fetch_add"
        FetchOr 0x41 "fetch_or"
        FetchAnd 0x51 "fetch_and"
        FetchXor 0xa1 "fetch_xor"
        Xchg 0xe1 "xchg"
    }
    rows {
        atomic(0xc3, 0xf1, Atomic::Cmpxchg, Size::W, "r0 = atomic_cmpxchg((u32 *)({d} {o}), r0, {s})");
        atomic(0xdb, 0xf1, Atomic::Cmpxchg, Size::DW, "r0 = atomic64_cmpxchg((u64 *)({d} {o}), r0, {s})");
        neg(0x80 | ALU64, Width::W64, "{d} = -{d}");
        neg(0x80 | ALU32, Width::W32, "{D} = -{D}");
        mov_signed(0xb0 | ALU64 | X, 8, Width::W64, "{d} = (s8){s}");
        mov_signed(0xb0 | ALU64 | X, 16, Width::W64, "{d} = (s16){s}");
        mov_signed(0xb0 | ALU64 | X, 32, Width::W64, "{d} = (s32){s}");
        mov_signed(0xb0 | ALU32 | X, 8, Width::W32, "{D} = (s8){S}");
        mov_signed(0xb0 | ALU32 | X, 16, Width::W32, "{D} = (s16){S}");
        endian(0xd0 | ALU32, 16, Order::Little, "{d} = le16 {d}");
        endian(0xd0 | ALU32, 32, Order::Little, "{d} = le32 {d}");
        endian(0xd0 | ALU32, 64, Order::Little, "{d} = le64 {d}");
        endian(0xd0 | ALU32 | X, 16, Order::Big, "{d} = be16 {d}");
        endian(0xd0 | ALU32 | X, 32, Order::Big, "{d} = be32 {d}");
        endian(0xd0 | ALU32 | X, 64, Order::Big, "{d} = be64 {d}");
        endian(0xd0 | ALU64, 16, Order::Swap, "{d} = bswap16 {d}");
        endian(0xd0 | ALU64, 32, Order::Swap, "{d} = bswap32 {d}");
        endian(0xd0 | ALU64, 64, Order::Swap, "{d} = bswap64 {d}");
        load64(0, Imm64::Plain, "{d} = {l} ll");
        load64(1, Imm64::Map, "{d} = map[{m}]");
        load64(2, Imm64::MapValue, "{d} = map_value[{m}] {v}");
        load64(3, Imm64::BtfId, "{d} = ksym {l}");
        load64(PSEUDO_FUNC, Imm64::Function, "{d} = func {J}");
        load64(5, Imm64::MapIndex, "{d} = map_index[{i}]");
        load64(6, Imm64::MapIndexValue, "{d} = map_index_value[{i}] {v}");
        Row { code: JMP, dst: ZERO, src: ZERO, off: Free, imm: ZERO, text: "goto {j}", meaning: Meaning::Goto };
        Row { code: JMP32, dst: ZERO, src: ZERO, off: ZERO, imm: Free, text: "gotol {J}", meaning: Meaning::GotoLong };
        call(0, Callee::Helper, "call {h}");
        call(PSEUDO_CALL, Callee::Local, "call func {J}");
        call(2, Callee::Kfunc, "call kfunc {k}");
        Row { code: 0x90 | JMP, dst: ZERO, src: ZERO, off: ZERO, imm: ZERO, text: "exit", meaning: Meaning::Exit };
    }
}
