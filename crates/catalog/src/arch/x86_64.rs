//! x86-64: the System V calling convention and `struct pt_regs` of the kernel's `arch/x86/include/asm/ptrace.h`.

use super::{Arch, RegisterContent, Saved};
use std::str::FromStr;

pub(super) const ARCH: Arch = Arch {
    name: "x86_64",
    registers: REGISTERS,
    breakpoint: 1,
    frame_registers: ["ip", "sp", "bp"],
    traps: TRAPS,
    // __START_KERNEL_map (Documentation/arch/x86/x86_64/mm.rst).
    lowest_code: 0xffff_ffff_8000_0000,
    return_slot: 8,
    arguments: &[112, 104, 96, 88, 72, 64],
    // Figure 3.36 of the System V ABI's supplement.
    dwarf_registers: &[
        "ax", "dx", "cx", "bx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
    ],
    return_value: 80,
    syscall_arguments: ["di", "si", "dx", "r10", "r8", "r9"],
    compat_arguments: ["bx", "cx", "dx", "si", "di", "bp"],
    compat_name,
    syscall_number: "orig_ax",
    syscall_function: "__x64_sys_",
    syscall,
    syscall_name,
    traced_name,
    operand,
};

/// Offsets as in the kernel's `struct pt_regs`, order as in its oops messages, more or less.
const REGISTERS: &[Saved] = &[
    word("ax", &["rax"], 80),
    word("bx", &["rbx"], 40),
    word("cx", &["rcx"], 88),
    word("dx", &["rdx"], 96),
    word("si", &["rsi"], 104),
    word("di", &["rdi"], 112),
    word("bp", &["rbp"], 32),
    word("sp", &["rsp"], 152),
    word("r8", &[], 72),
    word("r9", &[], 64),
    word("r10", &[], 56),
    word("r11", &[], 48),
    word("r12", &[], 24),
    word("r13", &[], 16),
    word("r14", &[], 8),
    word("r15", &[], 0),
    Saved {
        name: "ip",
        aliases: &["rip", "pc"],
        offset: 128,
        holds: RegisterContent::Code,
    },
    Saved {
        name: "flags",
        aliases: &["eflags", "rflags"],
        offset: 144,
        holds: RegisterContent::Flags {
            names: FLAGS,
            always: 1 << 1,
        },
    },
    Saved {
        name: "cs",
        aliases: &[],
        offset: 136,
        holds: RegisterContent::Segment,
    },
    Saved {
        name: "ss",
        aliases: &[],
        offset: 160,
        holds: RegisterContent::Segment,
    },
    word("orig_ax", &["orig_rax"], 120),
];

/// The bits of the flags register as the processor's manual calls them; the second is always set and has no name.
const FLAGS: &[(i64, &str)] = &[
    (1 << 0, "CF"),
    (1 << 2, "PF"),
    (1 << 4, "AF"),
    (1 << 6, "ZF"),
    (1 << 7, "SF"),
    (1 << 8, "TF"),
    (1 << 9, "IF"),
    (1 << 10, "DF"),
    (1 << 11, "OF"),
    (3 << 12, "IOPL3"),
    (1 << 14, "NT"),
    (1 << 16, "RF"),
    (1 << 17, "VM"),
    (1 << 18, "AC"),
    (1 << 19, "VIF"),
    (1 << 20, "VIP"),
    (1 << 21, "ID"),
];

/// Exceptions as the processor's manual and the kernel's `asm/trapnr.h` call them.
const TRAPS: &[(i64, &str)] = &[
    (0, "DE"),
    (1, "DB"),
    (3, "BP"),
    (4, "OF"),
    (5, "BR"),
    (6, "UD"),
    (7, "NM"),
    (8, "DF"),
    (10, "TS"),
    (11, "NP"),
    (12, "SS"),
    (13, "GP"),
    (14, "PF"),
    (16, "MF"),
    (17, "AC"),
    (18, "MC"),
    (19, "XF"),
];

const fn word(name: &'static str, aliases: &'static [&'static str], offset: u32) -> Saved {
    Saved {
        name,
        aliases,
        offset,
        holds: RegisterContent::Word,
    }
}

/// `eax`, `ax` and `al` are the register `ax`, `r8d`, `r8w` and `r8b` are `r8`.
fn operand(name: &str) -> Option<u32> {
    let full = match name
        .strip_prefix('r')
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    {
        Some(number) => format!("r{}", number.trim_end_matches(['d', 'w', 'b'])),
        None => match name {
            "al" | "bl" | "cl" | "dl" => format!("{}x", name.get(..1)?),
            "sil" | "dil" | "bpl" | "spl" => name.get(..2)?.to_owned(),
            _ if name.len() == 3 => name.strip_prefix(['r', 'e'])?.to_owned(),
            _ => name.to_owned(),
        },
    };
    let known = REGISTERS
        .iter()
        .filter(|saved| matches!(saved.holds, RegisterContent::Word));
    known
        .filter(|saved| saved.name == full && full != "orig_ax")
        .map(|saved| saved.offset)
        .next()
}

/// Tracepoints bear the name of the kernel's function (`sys_newfstat`), the table that of the ABI (`fstat`).
const RENAMED: &[(&str, &str)] = &[
    ("newstat", "stat"),
    ("newfstat", "fstat"),
    ("newlstat", "lstat"),
    ("newuname", "uname"),
    ("sendfile64", "sendfile"),
    ("umount", "umount2"),
    ("sysctl", "_sysctl"),
];

fn syscall(name: &str) -> Option<u32> {
    let name = RENAMED
        .iter()
        .find(|(traced, _)| *traced == name)
        .map_or(name, |(_, abi)| abi);
    let call = syscalls::x86_64::Sysno::from_str(name).ok()?;
    u32::try_from(call.id()).ok()
}

fn syscall_name(number: u32) -> Option<&'static str> {
    let call = syscalls::x86_64::Sysno::new(usize::try_from(number).ok()?)?;
    Some(call.name())
}

fn traced_name(number: u32) -> Option<&'static str> {
    let name = syscall_name(number)?;
    let renamed = RENAMED.iter().find(|(_, abi)| *abi == name);
    Some(renamed.map_or(name, |(traced, _)| traced))
}

fn compat_name(number: u32) -> Option<&'static str> {
    let call = syscalls::x86::Sysno::new(usize::try_from(number).ok()?)?;
    Some(call.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_abi() {
        assert_eq!(syscall("read"), Some(0));
        assert_eq!(syscall("openat"), Some(257));
        assert_eq!(syscall("newfstat"), Some(5));
        assert_eq!(syscall("no_such_call"), None);
        assert_eq!(syscall_name(5), Some("fstat"));
        assert_eq!(syscall_name(5000), None);
        for number in 0..=crate::arch::HIGHEST_SYSCALL {
            if let Some(name) = traced_name(number) {
                assert_eq!(syscall(name), Some(number), "{name}");
            }
        }
        assert_eq!(
            (traced_name(4), traced_name(63)),
            (Some("newstat"), Some("newuname"))
        );
        assert_eq!((compat_name(5), compat_name(295)), (Some("open"), Some("openat")));
    }
}
