//! On which CPU the thread runs: one instruction where the processor has it.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the processor says it by an instruction (`rdpid`), and says what the kernel does.
static IS_QUICK: AtomicBool = AtomicBool::new(false);

/// Finds out how CPUs are asked for.
pub(crate) fn start() {
    IS_QUICK.store(is_quick(), Ordering::Relaxed);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code, reason = "an instruction")]
fn is_quick() -> bool {
    // Leaf 7, ECX, bit 22: RDPID (Intel's manual, volume 2A).
    #[allow(unused_unsafe, reason = "safe in later compilers")]
    // SAFETY: every processor of the architecture has the instruction.
    let has = unsafe {
        core::arch::x86_64::__cpuid(0).eax >= 7
            && core::arch::x86_64::__cpuid_count(7, 0).ecx & (1 << 22) != 0
    };
    // The thread may move between the two questions.
    has && (0..100).any(|_| getcpu() == rdpid())
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn is_quick() -> bool {
    false
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[allow(unsafe_code, reason = "an instruction")]
#[inline(always)]
fn rdpid() -> u32 {
    let word: u64;
    // SAFETY: called where the processor has it; it reads a register that the kernel keeps the CPU in: 12 bits, the node above.
    unsafe { core::arch::asm!("rdpid {}", out(reg) word, options(nomem, nostack, preserves_flags)) };
    word as u32 & 0xfff
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn rdpid() -> u32 {
    0
}

#[allow(unsafe_code, reason = "a system call")]
fn getcpu() -> u32 {
    // SAFETY: asks for a number.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).unwrap_or(0)
}

/// The CPU, where asking costs next to nothing; else `page`, the one on which the page was begun.
#[inline(always)]
pub(crate) fn current_or(page: u32) -> u32 {
    match IS_QUICK.load(Ordering::Relaxed) {
        true => rdpid(),
        false => page,
    }
}

/// The CPU on which the thread runs, whatever asking costs.
pub(crate) fn current() -> u32 {
    match IS_QUICK.load(Ordering::Relaxed) {
        true => rdpid(),
        false => getcpu(),
    }
}
