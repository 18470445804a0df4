//! Programs that make system calls as they like, bad addresses included; nothing but calls, and no library.

use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A program without a library: system calls one after the other, each with up to three arguments. It lies in /tmp.
///
/// # Panics
/// When it cannot be written.
#[must_use]
pub fn program(name: &str, calls: &[(u32, [u64; 3])]) -> String {
    const BASE: u64 = 0x40_0000;
    let mut code = Vec::new();
    for (number, arguments) in calls.iter().chain([&(60, [0; 3])]) {
        code.push(0xb8); // mov $number,%eax
        code.extend(number.to_le_bytes());
        for (opcode, argument) in [[0x48, 0xbf], [0x48, 0xbe], [0x48, 0xba]].iter().zip(arguments) {
            code.extend(opcode); // movabs $argument,%rdi, %rsi, %rdx
            code.extend(argument.to_le_bytes());
        }
        code.extend([0x0f, 0x05]); // syscall
    }
    let mut elf = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    elf.extend((BASE + 120).to_le_bytes());
    elf.extend(64_u64.to_le_bytes());
    elf.extend([0; 8]);
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    elf.extend([1, 0, 0, 0, 7, 0, 0, 0]);
    elf.extend(0_u64.to_le_bytes());
    elf.extend(BASE.to_le_bytes());
    elf.extend(BASE.to_le_bytes());
    let size = 120 + code.len() as u64;
    elf.extend(size.to_le_bytes());
    elf.extend((size + 0x10_000).to_le_bytes());
    elf.extend(0x1000_u64.to_le_bytes());
    elf.extend(code);
    let path = format!("/tmp/{name}");
    let written = fs::write(&path, elf);
    let written = written.and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)));
    assert!(written.is_ok(), "write {path}: {written:?}");
    path
}
