//! One BPF instruction as a value; the instruction table (`isa`) has the meaning of its numbers.

/// A BPF instruction of 8 bytes (`struct bpf_insn` of the kernel's `uapi/linux/bpf.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Insn {
    /// Operation code: class, size or source, operation.
    pub code: u8,
    /// Destination register, 0 to 10.
    pub dst: u8,
    /// Source register, 0 to 10, or a pseudo source of a 64-bit load or call.
    pub src: u8,
    /// Signed offset: of a memory access in bytes, of a jump in instructions.
    pub off: i16,
    /// Signed immediate.
    pub imm: i32,
}

impl Insn {
    /// Size of an instruction in bytes.
    pub const BYTES: usize = 8;

    /// The instruction as the kernel of a little-endian machine reads it.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let [o0, o1] = self.off.to_le_bytes();
        let [i0, i1, i2, i3] = self.imm.to_le_bytes();
        [self.code, self.dst & 0xf | self.src << 4, o0, o1, i0, i1, i2, i3]
    }

    /// Reads an instruction written by [`Insn::to_bytes`].
    pub fn from_bytes(b: [u8; Self::BYTES]) -> Self {
        Self {
            code: b[0],
            dst: b[1] & 0xf,
            src: b[1] >> 4,
            off: i16::from_le_bytes([b[2], b[3]]),
            imm: i32::from_le_bytes([b[4], b[5], b[6], b[7]]),
        }
    }
}
