//! Patching of the program's own code, a byte at a time.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// Replaces one byte of code, which threads may be executing.
///
/// # Errors
/// When the kernel allows neither a write through `/proc/self/mem` nor to make the page writable.
pub(super) fn write(code: usize, byte: u8) -> io::Result<()> {
    through_file(code, byte).or_else(|_| through_page(code, byte))
}

/// Writes through `/proc/self/mem`, which reaches pages that are not writable: so no page is ever both writable and executable.
fn through_file(code: usize, byte: u8) -> io::Result<()> {
    static MEMORY: OnceLock<Option<(u32, File)>> = OnceLock::new();
    let open = || OpenOptions::new().read(true).write(true).open("/proc/self/mem");
    let pid = std::process::id();
    let kept = MEMORY.get_or_init(|| Some((pid, open().ok()?)));
    match kept {
        Some((of, memory)) if *of == pid => memory.write_all_at(&[byte], code as u64)?,
        // After a fork the open file still is the parent's memory.
        _ => open()?.write_all_at(&[byte], code as u64)?,
    }
    Ok(())
}

#[allow(unsafe_code, reason = "a page's protection, and a write to it")]
fn through_page(code: usize, byte: u8) -> io::Result<()> {
    // SAFETY: asks for a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let page = (code & !(size - 1)) as *mut libc::c_void;
    let protect = |protection| {
        // SAFETY: the page is code of this program and stays executable; nothing that Rust knows of lies there.
        match unsafe { libc::mprotect(page, size, protection) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC)?;
    // SAFETY: the byte is the first of an instruction of ours and was made writable; processors fetch it whole.
    unsafe { std::sync::atomic::AtomicU8::from_ptr(code as *mut u8) }
        .store(byte, std::sync::atomic::Ordering::SeqCst);
    protect(libc::PROT_READ | libc::PROT_EXEC)
}

/// Makes every running thread of the process fetch its instructions anew, where the kernel can do that: a written byte is then in force when this returns.
#[allow(unsafe_code, reason = "system calls")]
pub(super) fn sync_cores() {
    static ASKED: OnceLock<()> = OnceLock::new();
    // SAFETY: the calls take numbers and touch no memory of ours.
    let barrier = |command: libc::c_int| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    ASKED.get_or_init(|| {
        barrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE);
    });
    barrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
}
