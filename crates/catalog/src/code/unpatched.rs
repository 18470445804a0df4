//! The bytes under what the kernel has put over its own text: kprobes' breakpoints and jumps, ftrace's calls.
//!
//! Where a kprobe sits, its first byte is an `int3`, or all of it a jump; the bytes that were there are kept in the kernel's `struct kprobe`.
//! They are read from its table of them (`registered`), by the kernel's own types, so that one probe can be put behind another.

use super::function::Patch;
use super::kprobe_table;
use crate::error::Result;
use crate::facts::Facts;
use kestrel_bpf::btf::{Btf, BtfKind};
use kestrel_kernel::kcore::Kcore;

/// First instructions of a function where indirect branches are tracked: `endbr64`, or the no-op that the kernel puts over it where it is never called indirectly
/// through a pointer (`nopw (%rax)`; from 6.15 on `nopl -0x2a(%rax)`). A probe at the very beginning goes behind it.
const ENDBR: [[u8; 4]; 3] = [
    [0xf3, 0x0f, 0x1e, 0xfa],
    [0x66, 0x0f, 0x1f, 0x00],
    [0x0f, 0x1f, 0x40, 0xd6],
];
/// Bytes of that instruction.
pub(super) const ENDBR_SIZE: u64 = 4;

/// Whether code begins with such an instruction.
pub(super) fn begins_with_endbr(code: &[u8]) -> bool {
    ENDBR.iter().any(|endbr| code.starts_with(endbr))
}
/// The instruction that a call of ftrace replaces: `nopl 0x0(%rax,%rax,1)`.
pub(super) const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 0];
/// `int3`.
const INT3: u8 = 0xcc;
const JUMP: u8 = 0xe9;
const CALL: u8 = 0xe8;

/// `KPROBE_FLAG_OPTIMIZED`.
const OPTIMIZED: u32 = 4;

/// The probed places and what was there before, as they were when read.
#[derive(Debug)]
pub(super) struct Originals {
    probes: Vec<Probe>,
    /// Why the kernel's table could not be read.
    failed: Option<String>,
}

#[derive(Debug)]
struct Probe {
    address: u64,
    first: u8,
    /// The four bytes behind the first, where a jump covers them.
    behind: Option<[u8; 4]>,
}

/// Offsets of the members that are needed.
struct Shape {
    address: u64,
    opcode: u64,
    flags: u64,
    copied: u64,
}

impl Originals {
    pub(super) fn read(facts: &Facts, memory: &Kcore) -> Self {
        match probes(facts, memory) {
            Ok(probes) => Self { probes, failed: None },
            Err(error) => Self {
                probes: Vec::new(),
                failed: Some(error.to_string()),
            },
        }
    }

    /// Whether one of them lies in this range.
    pub(super) fn any_in(&self, address: u64, size: u64) -> bool {
        let inside = |probe: &Probe| probe.address.wrapping_sub(address) < size;
        self.probes.iter().any(inside)
    }

    /// Puts the original bytes in the place of kprobes' in the text from `address` on; says where.
    pub(super) fn restore(&self, address: u64, bytes: &mut [u8]) -> Vec<(u64, Patch)> {
        let mut patches = Vec::new();
        for probe in &self.probes {
            let Some(at) = probe
                .address
                .checked_sub(address)
                .filter(|at| *at < bytes.len() as u64)
            else {
                continue;
            };
            let text = &mut bytes[at as usize..];
            match (text[0], probe.behind) {
                (INT3, behind) => {
                    text[0] = probe.first;
                    // A breakpoint that is becoming a jump may have the jump's distance behind it already; the kernel copies what was there before it
                    // writes that, and not when it decides to (`arch_optimize_kprobes` in arch/x86/kernel/kprobes/opt.c).
                    let behind = behind.filter(|bytes| *bytes != [0; 4]);
                    if let (Some(behind), Some(after)) = (behind, text.get_mut(1..5)) {
                        after.copy_from_slice(&behind);
                    }
                    patches.push((at, Patch::Breakpoint));
                }
                (JUMP, Some(behind)) if text.len() >= 5 => {
                    text[0] = probe.first;
                    text[1..5].copy_from_slice(&behind);
                    patches.push((at, Patch::Jump));
                }
                // ftrace-based, disarmed, or gone: its own bytes are there.
                _ => {}
            }
        }
        patches
    }

    /// Why breakpoints are shown as they stand in memory.
    pub(super) fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }
}

/// Puts the no-op back in the place of ftrace's call, at the beginning of a function that ftrace can hook.
pub(super) fn restore_ftrace(bytes: &mut [u8]) -> Option<u64> {
    let at = if begins_with_endbr(bytes) {
        ENDBR_SIZE as usize
    } else {
        0
    };
    let site = bytes.get_mut(at..at + NOP.len())?;
    (site[0] == CALL).then(|| {
        site.copy_from_slice(&NOP);
        at as u64
    })
}

fn probes(facts: &Facts, memory: &Kcore) -> Result<Vec<Probe>> {
    let table = kprobe_table::Table::find(facts)?;
    let types = facts.types()?;
    let shape = shape(&types).ok_or_else(kprobe_table::no_types)?;
    let mut probes = Vec::new();
    table.each(memory, |at| {
        probe(memory, &shape, at).map(|probe| probes.push(probe))
    })?;
    Ok(probes)
}

fn probe(memory: &Kcore, shape: &Shape, at: u64) -> Result<Probe> {
    let mut flags = [0; 4];
    memory.read(at + shape.flags, &mut flags)?;
    let mut first = [0];
    memory.read(at + shape.opcode, &mut first)?;
    let optimized = u32::from_le_bytes(flags) & OPTIMIZED != 0;
    let behind = if optimized {
        let mut bytes = [0; 4];
        memory.read(at + shape.copied, &mut bytes)?;
        Some(bytes)
    } else {
        None
    };
    Ok(Probe {
        address: kprobe_table::word(memory, at + shape.address)?,
        first: first[0],
        behind,
    })
}

/// Where the members lie, by the kernel's own types.
fn shape(types: &Btf) -> Option<Shape> {
    let probe = types.find(BtfKind::Struct, "kprobe")?;
    let optimized = types.find(BtfKind::Struct, "optimized_kprobe")?;
    let inner = types.find_member(optimized, "optinsn")?;
    let copied = types.find_member(inner.ty, "copied_insn")?;
    let member = |name: &str| {
        types
            .find_member(probe, name)
            .map(|place| u64::from(place.offset()))
    };
    Some(Shape {
        address: member("addr")?,
        opcode: member("opcode")?,
        flags: member("flags")?,
        // `struct kprobe` is the first member of `struct optimized_kprobe`.
        copied: u64::from(inner.offset() + copied.offset()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probed_code_is_read_as_unpatched() {
        let probes = vec![
            Probe {
                address: 0x1000,
                first: 0x55,
                behind: None,
            },
            Probe {
                address: 0x1004,
                first: 0x48,
                behind: Some([0x89, 0xe5, 0x41, 0x57]),
            },
            Probe {
                address: 0x2000,
                first: 0x90,
                behind: None,
            },
        ];
        let originals = Originals { probes, failed: None };
        let mut text = [0xcc, 1, 2, 3, 0xe9, 9, 9, 9, 9, 4];
        let patches = originals.restore(0x1000, &mut text);
        assert_eq!(text, [0x55, 1, 2, 3, 0x48, 0x89, 0xe5, 0x41, 0x57, 4]);
        assert_eq!(patches, [(0, Patch::Breakpoint), (4, Patch::Jump)]);
        // On its way from a breakpoint to a jump, whose distance is written first.
        let mut text = [1, 1, 1, 1, 0xcc, 9, 9, 9, 9, 4];
        assert_eq!(originals.restore(0x1000, &mut text), [(4, Patch::Breakpoint)]);
        assert_eq!(text, [1, 1, 1, 1, 0x48, 0x89, 0xe5, 0x41, 0x57, 4]);
        // It was only decided so far.
        let decided = Originals {
            probes: vec![Probe {
                address: 0x1000,
                first: 0x48,
                behind: Some([0; 4]),
            }],
            failed: None,
        };
        let mut text = [0xcc, 1, 2, 3, 4];
        assert_eq!(decided.restore(0x1000, &mut text), [(0, Patch::Breakpoint)]);
        assert_eq!(text, [0x48, 1, 2, 3, 4]);
        // Not armed: what is there is its own.
        let mut text = [0x55, 1, 2, 3, 0x48, 0x89];
        assert!(originals.restore(0x1000, &mut text).is_empty());
        assert_eq!(text, [0x55, 1, 2, 3, 0x48, 0x89]);
    }

    #[test]
    fn a_call_of_ftrace_is_a_no_op() {
        let mut text = [0xf3, 0x0f, 0x1e, 0xfa, 0xe8, 1, 2, 3, 4, 0x55];
        assert_eq!(restore_ftrace(&mut text), Some(4));
        assert_eq!(text[4..9], NOP);
        assert_eq!(restore_ftrace(&mut text), None);
        assert_eq!(restore_ftrace(&mut [0xe8, 0, 0]), None);
    }
}
