//! What differs between processors: registers, calling convention, system-call numbers; one folder per architecture.

mod x86_64;

/// One architecture's conventions.
#[derive(Debug)]
pub struct Arch {
    /// As `uname -m` says it.
    pub name: &'static str,
    /// Registers by name and byte offset in `struct pt_regs`.
    pub registers: &'static [(&'static str, u32)],
    /// Byte offsets in `struct pt_regs` of a kernel function's integer arguments at its entry.
    pub arguments: &'static [u32],
    /// Byte offset in `struct pt_regs` of a function's return value at its return.
    pub return_value: u32,
    /// Members of `struct pt_regs` that hold a system call's arguments at its entry.
    pub syscall_arguments: [&'static str; 6],
    /// Member of `struct pt_regs` that holds the system call's number.
    pub syscall_number: &'static str,
    /// The number of a system call by the name that its tracepoints bear (`openat`, `newfstat`).
    pub syscall: fn(&str) -> Option<u32>,
}

/// The conventions of the machine this runs on; there is no build for others yet.
pub fn current() -> &'static Arch {
    &x86_64::ARCH
}
