//! Bytes to instructions, one after the other, as the GNU tools write them.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Mnemonic, OpKind, Register};

/// A decoded instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    pub(super) offset: usize,
    pub(super) length: usize,
    pub(super) text: String,
    /// Whether the instruction traps.
    pub(super) trap: bool,
    /// Name of the instruction, where kprobes cannot run a copy of it elsewhere.
    pub(super) unmovable: Option<&'static str>,
    /// Whether it is a direct call with a prefix, which is longer than others.
    pub(super) long_call: bool,
}

/// Bytes of a direct call.
const CALL: usize = 5;

/// Decodes up to what is no instruction, or the end. Breakpoints at the end are padding and left out. `name` gives names to branch targets.
pub(super) fn decode(address: u64, bytes: &[u8], name: &dyn Fn(u64) -> Option<String>) -> Vec<Decoded> {
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_space_after_operand_separator(false);
    options.set_gas_show_mnemonic_size_suffix(false);
    options.set_rip_relative_addresses(false);
    options.set_show_zero_displacements(true);
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let mut all: Vec<Decoded> = Vec::new();
    let mut kept = 0;
    while decoder.can_decode() {
        let offset = decoder.position();
        let mut instruction = decoder.decode();
        if instruction.is_invalid() {
            break;
        }
        // Whatever its scale says, there is nothing to be scaled: `(%rsp)`, and no comma behind it.
        if instruction.memory_base() != Register::None && instruction.memory_index() == Register::None {
            instruction.set_memory_index_scale(1);
        }
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        let near = matches!(instruction.op0_kind(), OpKind::NearBranch64);
        let target = near.then(|| instruction.near_branch_target());
        if let Some(named) = target.and_then(name) {
            text.push_str(&format!(" <{named}>"));
        }
        let flow = instruction.flow_control();
        all.push(Decoded {
            offset,
            length: instruction.len(),
            text,
            trap: matches!(flow, FlowControl::Interrupt | FlowControl::Exception),
            unmovable: unmovable(&instruction),
            long_call: flow == FlowControl::Call && near && instruction.len() != CALL,
        });
        if instruction.mnemonic() != Mnemonic::Int3 {
            kept = all.len();
        }
    }
    all.truncate(kept);
    all
}

/// Where the instructions of some bytes begin, up to what is none.
pub fn starts(bytes: &[u8]) -> Vec<usize> {
    decode(0, bytes, &|_| None).iter().map(|one| one.offset).collect()
}

/// The reason for which the kernel cannot move an instruction, and answers EOPNOTSUPP (`prepare_emulation` of its `arch/x86/kernel/kprobes/core.c`).
fn unmovable(instruction: &iced_x86::Instruction) -> Option<&'static str> {
    let memory = instruction.op0_kind() == OpKind::Memory;
    match instruction.flow_control() {
        FlowControl::IndirectCall if memory => Some("a call through memory"),
        FlowControl::IndirectBranch if memory => Some("a jump through memory"),
        _ => match instruction.mnemonic() {
            Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => Some("a return from an interrupt"),
            Mnemonic::Vmcall | Mnemonic::Vmlaunch | Mnemonic::Vmresume | Mnemonic::Vmxoff => {
                Some("an instruction of virtual machines")
            }
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operand_without_an_index_has_no_comma() {
        // mov (%rsp),%rax, its (absent) index scaled by 1, 2, 4 and 8; mov 0x8(%rsp),%rax; mov (%rax,%rcx,4),%rax
        let bytes = [
            0x48, 0x8b, 0x04, 0x24, 0x48, 0x8b, 0x04, 0x64, 0x48, 0x8b, 0x04, 0xa4, 0x48, 0x8b, 0x04, 0xe4,
            0x48, 0x8b, 0x44, 0xe4, 0x08, 0x48, 0x8b, 0x04, 0x88,
        ];
        let text: Vec<String> = decode(0x1000, &bytes, &|_| None)
            .into_iter()
            .map(|one| one.text)
            .collect();
        let plain = "mov (%rsp),%rax";
        assert_eq!(
            text,
            [
                plain,
                plain,
                plain,
                plain,
                "mov 0x8(%rsp),%rax",
                "mov (%rax,%rcx,4),%rax"
            ]
        );
    }

    #[test]
    fn calls_with_a_prefix_are_known() {
        // call +0; cs call +0; call *%rax
        let bytes = [0xe8, 0, 0, 0, 0, 0x2e, 0xe8, 0, 0, 0, 0, 0xff, 0xd0];
        let long: Vec<(usize, bool)> = decode(0x1000, &bytes, &|_| None)
            .iter()
            .map(|one| (one.offset, one.long_call))
            .collect();
        assert_eq!(long, [(0, false), (5, true), (11, false)]);
    }
}
