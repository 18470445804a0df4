//! Processor architectures: registers, calling convention, system-call numbers; one folder per architecture.

mod x86_64;

use kestrel_compiler::context::{Register, Source, UserRegisters, ValueType};
use kestrel_trace::layout::Base;

/// Highest number of a system call on any architecture.
pub const HIGHEST_SYSCALL: u32 = 1023;

/// Conventions of one architecture.
#[derive(Debug)]
pub struct Arch {
    /// Machine name, as `uname -m` has it.
    pub name: &'static str,
    /// The registers of `struct pt_regs`, in the order in which people read them.
    pub registers: &'static [Saved],
    /// Bytes that the instruction pointer is ahead of a probed instruction when its kprobe's handler runs: those of the breakpoint, however the
    /// probe is made.
    pub breakpoint: u64,
    /// Members of `struct pt_regs` that hold the instruction, stack and frame pointer.
    pub(crate) frame_registers: [&'static str; 3],
    /// The exceptions of instructions by number.
    pub traps: &'static [(i64, &'static str)],
    /// Lowest address at which there is code of the kernel, of modules or of BPF programs.
    pub(crate) lowest_code: u64,
    /// Bytes of a return address: what the stack pointer is ahead of its place when a function has returned.
    pub return_slot: u64,
    /// Byte offsets in `struct pt_regs` of a kernel function's integer arguments at its entry.
    pub arguments: &'static [u32],
    /// Registers of integers by their numbers in DWARF.
    pub(crate) dwarf_registers: &'static [&'static str],
    /// Byte offset in `struct pt_regs` of a function's return value at its return.
    pub return_value: u32,
    /// Members of `struct pt_regs` that hold a system call's arguments at its entry.
    pub syscall_arguments: [&'static str; 6],
    /// The registers with the arguments of a 32-bit program's call, of which the low half counts.
    pub compat_arguments: [&'static str; 6],
    /// The name of a call of 32-bit programs by its number.
    pub compat_name: fn(u32) -> Option<&'static str>,
    /// Member of `struct pt_regs` that holds the system call's number.
    pub syscall_number: &'static str,
    /// Prefix of the functions of system calls (`__x64_sys_openat`), whose only argument is `struct pt_regs`.
    pub syscall_function: &'static str,
    /// The number of a system call by the name that its tracepoints bear (`openat`, `newfstat`).
    pub syscall: fn(&str) -> Option<u32>,
    /// The name of a system call by its number, as the ABI has it (`fstat`).
    pub syscall_name: fn(u32) -> Option<&'static str>,
    /// The name that its tracepoints bear (`newfstat`), by its number.
    pub traced_name: fn(u32) -> Option<&'static str>,
    /// Byte offset in `struct pt_regs` of a register by its assembler name without `%`; parts of a register have its offset.
    pub operand: fn(&str) -> Option<u32>,
}

impl Arch {
    /// Places in `struct pt_regs` of the registers with which unwinding begins.
    pub(crate) fn user_registers(&self) -> Option<UserRegisters> {
        let at = |name| Some(self.registers.iter().find(|saved| saved.name == name)?.offset);
        Some(UserRegisters {
            ip: at(self.frame_registers[0])?,
            sp: at(self.frame_registers[1])?,
            bp: at(self.frame_registers[2])?,
        })
    }
}

/// A register in `struct pt_regs`.
#[derive(Debug)]
pub struct Saved {
    /// The member's name, which is the kernel's for the register.
    pub name: &'static str,
    /// Other names of the register.
    pub aliases: &'static [&'static str],
    /// Byte offset in the saved registers.
    pub offset: u32,
    /// Content of the register.
    pub holds: RegisterContent,
}

/// Content of a register at a function's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterContent {
    /// Anything of 8 bytes.
    Word,
    /// The address of an instruction.
    Code,
    /// A number of 2 bytes.
    Segment,
    /// Bits with names; some of no meaning are always set.
    Flags {
        /// Names of the bits by mask.
        names: &'static [(i64, &'static str)],
        /// Bits without a meaning.
        always: u64,
    },
}

/// Registers where a program's context is `struct pt_regs`; `added` is what the instruction pointer is ahead.
pub(super) fn registers(added: u64) -> Vec<Register> {
    let of = |saved: &Saved| {
        let source = Source::Register { offset: saved.offset };
        saved.register(
            source,
            if saved.holds == RegisterContent::Code {
                added
            } else {
                0
            },
        )
    };
    current().registers.iter().map(of).collect()
}

/// The registers of a `struct pt_regs` at the address that an expression gives.
pub(super) fn registers_at(address: &str) -> Vec<Register> {
    let of = |saved: &Saved| {
        let rule = format!("((struct pt_regs *){address})->{}", saved.name);
        saved.register(Source::Expression(rule), 0)
    };
    current().registers.iter().map(of).collect()
}

impl Saved {
    fn register(&self, source: Source, added: u64) -> Register {
        let integer = |size| ValueType::Integer {
            size,
            signed: false,
            base: Base::Hexadecimal,
        };
        let ty = match self.holds {
            RegisterContent::Word => integer(8),
            RegisterContent::Segment => integer(2),
            RegisterContent::Code => ValueType::Pointer { user: false },
            RegisterContent::Flags { names, .. } => ValueType::Flags {
                size: 8,
                names: names
                    .iter()
                    .map(|(bit, name)| (*bit, (*name).to_owned()))
                    .collect(),
            },
        };
        Register {
            name: self.name,
            aliases: self.aliases,
            ty,
            source,
            added,
            meaningless: match self.holds {
                RegisterContent::Flags { always, .. } => always,
                _ => 0,
            },
        }
    }
}

/// The conventions of the machine this runs on; there is no build for others yet.
pub fn current() -> &'static Arch {
    &x86_64::ARCH
}
