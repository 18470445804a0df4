//! Whose rights this process has.

/// The effective user number.
pub fn user() -> u32 {
    // SAFETY: a system call without arguments that cannot fail.
    unsafe { libc::geteuid() }
}
