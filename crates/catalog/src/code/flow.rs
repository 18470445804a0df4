//! Control flow after an instruction, and its effect on the stack pointer: from its bytes alone.

use super::function::CodePlace;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

/// An instruction that can run right after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    /// The instruction's address.
    pub address: u64,
    /// The function and offset of that address.
    pub place: CodePlace,
    /// The stack pointer there is the value that [`Follow::base`] had before, plus this.
    pub stack: i64,
    /// The register that the new stack pointer is counted from, as `struct pt_regs` calls it: `sp` but for `leave` and the like.
    pub base: &'static str,
}

/// An instruction that can run right after another, by address alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Successor {
    pub(super) address: u64,
    pub(super) stack: Stack,
}

/// The stack pointer after an instruction: what a register held before, plus a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stack {
    pub(super) base: &'static str,
    pub(super) plus: i64,
}

type Answer<T> = Result<T, String>;

/// Successors of the instruction at an address.
///
/// # Errors
/// Why it cannot be known, as a sentence.
pub(super) fn successors(address: u64, bytes: &[u8]) -> Answer<Vec<Successor>> {
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    let stack = || stack(&instruction);
    let to = |address: u64, stack: Stack| Successor { address, stack };
    let next = instruction.next_ip();
    match instruction.flow_control() {
        FlowControl::Next => Ok(vec![to(next, stack()?)]),
        FlowControl::UnconditionalBranch if is_near(&instruction) => {
            Ok(vec![to(instruction.near_branch_target(), stack()?)])
        }
        FlowControl::ConditionalBranch if is_near(&instruction) => {
            let stack = stack()?;
            let target = instruction.near_branch_target();
            let mut both = vec![to(next, stack)];
            if target != next {
                both.push(to(target, stack));
            }
            Ok(both)
        }
        FlowControl::Call if is_near(&instruction) => {
            Ok(vec![to(instruction.near_branch_target(), stack()?)])
        }
        FlowControl::Return => Err(
            "where it returns to is on the stack; a kretprobe or fexit on the function sees its returns"
                .to_owned(),
        ),
        FlowControl::IndirectBranch => {
            Err("it jumps to an address that only a register or memory holds".to_owned())
        }
        FlowControl::IndirectCall => {
            Err("it calls a function whose address only a register or memory holds".to_owned())
        }
        FlowControl::Interrupt | FlowControl::Exception => {
            Err("it traps: what runs next is the trap's handler".to_owned())
        }
        _ => Err("it leaves the flow of the code (a system call, a transaction, a far branch)".to_owned()),
    }
}

fn is_near(instruction: &Instruction) -> bool {
    matches!(instruction.op0_kind(), OpKind::NearBranch64)
}

fn from_sp(plus: i64) -> Stack {
    Stack { base: "sp", plus }
}

/// The stack pointer after an instruction has run.
fn stack(instruction: &Instruction) -> Answer<Stack> {
    if instruction.mnemonic() == Mnemonic::Leave {
        return Ok(Stack { base: "bp", plus: 8 });
    }
    let pops_itself = instruction.mnemonic() == Mnemonic::Pop && instruction.op0_register() == Register::RSP;
    if !writes_stack_pointer(instruction) {
        return Ok(from_sp(0));
    }
    let by = i64::from(instruction.stack_pointer_increment());
    if by != 0 && !pops_itself && !is_nested_enter(instruction) {
        return Ok(from_sp(by));
    }
    let to_itself = instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::RSP;
    let immediate = || instruction.try_immediate(1).ok().map(u64::cast_signed);
    let known = match instruction.mnemonic() {
        Mnemonic::Add if to_itself => immediate().map(from_sp),
        Mnemonic::Sub if to_itself => immediate().map(|by| from_sp(-by)),
        Mnemonic::Inc if to_itself => Some(from_sp(1)),
        Mnemonic::Dec if to_itself => Some(from_sp(-1)),
        Mnemonic::Mov if to_itself && instruction.op1_kind() == OpKind::Register => {
            name(instruction.op1_register()).map(|base| Stack { base, plus: 0 })
        }
        Mnemonic::Lea if to_itself && instruction.memory_index() == Register::None => {
            let plus = instruction.memory_displacement64().cast_signed();
            name(instruction.memory_base()).map(|base| Stack { base, plus })
        }
        _ => None,
    };
    known.ok_or_else(|| {
        "it changes the stack pointer by what is known only when it runs, so a hit could not be paired"
            .to_owned()
    })
}

/// `enter` with a nesting level other than 0 copies frame pointers that are not known here.
fn is_nested_enter(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Enter && instruction.immediate8_2nd() != 0
}

fn writes_stack_pointer(instruction: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(instruction);
    info.used_registers().iter().any(|used| {
        used.register().full_register() == Register::RSP
            && matches!(
                used.access(),
                OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite
            )
    })
}

/// A register as `struct pt_regs` calls it.
fn name(register: Register) -> Option<&'static str> {
    Some(match register {
        Register::RAX => "ax",
        Register::RBX => "bx",
        Register::RCX => "cx",
        Register::RDX => "dx",
        Register::RSI => "si",
        Register::RDI => "di",
        Register::RBP => "bp",
        Register::RSP => "sp",
        Register::R8 => "r8",
        Register::R9 => "r9",
        Register::R10 => "r10",
        Register::R11 => "r11",
        Register::R12 => "r12",
        Register::R13 => "r13",
        Register::R14 => "r14",
        Register::R15 => "r15",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0xffff_ffff_8100_0000;

    fn one(bytes: &[u8]) -> (i64, &'static str, i64) {
        let after = successors(AT, bytes).unwrap();
        assert_eq!(after.len(), 1, "{bytes:02x?}");
        let Stack { base, plus } = after[0].stack;
        (after[0].address.wrapping_sub(AT).cast_signed(), base, plus)
    }

    #[test]
    fn straight_code_and_the_stack() {
        // Each sequence with its length, and what `sp` becomes.
        let rows: &[(&[u8], &str, i64)] = &[
            (&[0x55], "sp", -8),                                       // push %rbp
            (&[0x41, 0x57], "sp", -8),                                 // push %r15
            (&[0x6a, 0x10], "sp", -8),                                 // push $0x10
            (&[0x5d], "sp", 8),                                        // pop %rbp
            (&[0x9c], "sp", -8),                                       // pushf
            (&[0x9d], "sp", 8),                                        // popf
            (&[0x48, 0x89, 0xe5], "sp", 0),                            // mov %rsp,%rbp
            (&[0x48, 0x83, 0xec, 0x18], "sp", -24),                    // sub $0x18,%rsp
            (&[0x48, 0x83, 0xec, 0x80], "sp", 128),                    // sub $-0x80,%rsp
            (&[0x48, 0x83, 0xc4, 0x18], "sp", 24),                     // add $0x18,%rsp
            (&[0x48, 0x81, 0xec, 0x00, 0x01, 0, 0], "sp", -256),       // sub $0x100,%rsp
            (&[0x48, 0x8d, 0x65, 0xf0], "bp", -16),                    // lea -0x10(%rbp),%rsp
            (&[0x48, 0x8d, 0x64, 0x24, 0x08], "sp", 8),                // lea 0x8(%rsp),%rsp
            (&[0x48, 0x89, 0xec], "bp", 0),                            // mov %rbp,%rsp
            (&[0xc9], "bp", 8),                                        // leave
            (&[0xc8, 0x20, 0x00, 0x00], "sp", -40),                    // enter $0x20,$0
            (&[0x0f, 0x1f, 0x44, 0x00, 0x00], "sp", 0),                // nopl
            (&[0xf3, 0x48, 0xa5], "sp", 0),                            // rep movsq
            (&[0x65, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], "sp", 0), // mov %gs:0x28,%rax
            (&[0xf3, 0x0f, 0x1e, 0xfa], "sp", 0),                      // endbr64
        ];
        for (bytes, base, plus) in rows {
            assert_eq!(one(bytes), (bytes.len() as i64, *base, *plus), "{bytes:02x?}");
        }
    }

    #[test]
    fn both_ways_of_a_jump_and_the_target_of_a_call() {
        let targets = |bytes: &[u8]| -> Vec<i64> {
            let after = successors(AT, bytes).unwrap();
            after
                .iter()
                .map(|a| a.address.wrapping_sub(AT).cast_signed())
                .collect()
        };
        assert_eq!(targets(&[0x74, 0x10]), [2, 0x12], "je");
        assert_eq!(targets(&[0x74, 0x00]), [2], "je to the next");
        assert_eq!(targets(&[0x0f, 0x85, 0xfa, 0xff, 0xff, 0xff]), [6, 0], "jne");
        assert_eq!(targets(&[0xe3, 0x05]), [2, 7], "jrcxz");
        assert_eq!(targets(&[0xe2, 0xfe]), [2, 0], "loop");
        assert_eq!(targets(&[0xeb, 0xfe]), [0], "jmp");
        assert_eq!(targets(&[0xe9, 0x00, 0x01, 0, 0]), [0x105], "jmp");
        assert_eq!(one(&[0xe8, 0x00, 0x01, 0, 0]), (0x105, "sp", -8), "call");
    }

    #[test]
    fn instructions_that_leave_the_function_are_refused() {
        let why = |bytes: &[u8]| successors(AT, bytes).unwrap_err();
        assert!(why(&[0xc3]).contains("returns"), "ret");
        assert!(why(&[0xc2, 8, 0]).contains("returns"), "ret $8");
        assert!(why(&[0xff, 0xe0]).contains("jumps"), "jmp *%rax");
        assert!(why(&[0xff, 0xd0]).contains("calls"), "call *%rax");
        assert!(why(&[0xff, 0x50, 0x08]).contains("calls"), "call *8(%rax)");
        assert!(why(&[0x0f, 0x0b]).contains("traps"), "ud2");
        assert!(why(&[0xcc]).contains("traps"), "int3");
        assert!(why(&[0x48, 0xcf]).contains("returns"), "iretq");
        assert!(
            why(&[0x48, 0x83, 0xe4, 0xf0]).contains("stack pointer"),
            "and $-16,%rsp"
        );
        assert!(why(&[0x5c]).contains("stack pointer"), "pop %rsp");
        assert!(
            why(&[0x48, 0x8b, 0x65, 0x08]).contains("stack pointer"),
            "mov 8(%rbp),%rsp"
        );
        assert!(why(&[0x0f, 0x05]).contains("flow"), "syscall");
    }
}
