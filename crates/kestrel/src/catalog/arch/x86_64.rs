//! x86-64: the System V calling convention and `struct pt_regs` of the kernel's `arch/x86/include/asm/ptrace.h`.

use super::Arch;
use std::str::FromStr;

pub(super) const ARCH: Arch = Arch {
    name: "x86_64",
    registers: REGISTERS,
    arguments: &[112, 104, 96, 88, 72, 64],
    return_value: 80,
    syscall_arguments: ["di", "si", "dx", "r10", "r8", "r9"],
    syscall_number: "orig_ax",
    syscall,
};

const REGISTERS: &[(&str, u32)] = &[
    ("r15", 0),
    ("r14", 8),
    ("r13", 16),
    ("r12", 24),
    ("bp", 32),
    ("bx", 40),
    ("r11", 48),
    ("r10", 56),
    ("r9", 64),
    ("r8", 72),
    ("ax", 80),
    ("cx", 88),
    ("dx", 96),
    ("si", 104),
    ("di", 112),
    ("orig_ax", 120),
    ("ip", 128),
    ("cs", 136),
    ("flags", 144),
    ("sp", 152),
    ("ss", 160),
];

/// Tracepoints bear the name of the kernel's function (`sys_newfstat`), the table that of the ABI (`fstat`).
const RENAMED: &[(&str, &str)] = &[
    ("newstat", "stat"),
    ("newfstat", "fstat"),
    ("newlstat", "lstat"),
    ("newfstatat", "newfstatat"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_abi() {
        assert_eq!(syscall("read"), Some(0));
        assert_eq!(syscall("openat"), Some(257));
        assert_eq!(syscall("newfstat"), Some(5));
        assert_eq!(syscall("no_such_call"), None);
    }
}
