//! A process stopped where its next program begins: when its exec is over and the dynamic linker has mapped all libraries, before the program's first instruction.
//!
//! By ptrace(2), with a breakpoint of the processor's: the program's memory stays as it is.

use crate::error::Errno;
use crate::host::Host;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;

/// `AT_ENTRY` of the auxiliary vector.
const ENTRY: u64 = 9;
/// Debug register 7: breakpoint 0 is on, at an instruction.
const ON: usize = 1;

/// A process that we trace, from before its exec on.
#[derive(Debug)]
pub(super) struct Traced {
    pid: libc::pid_t,
}

/// What a traced process waits for.
enum Stop {
    /// Its exec is over.
    Exec,
    /// A signal is on its way to it.
    Signal(c_int),
    /// It is gone, or going.
    Ended,
}

impl Traced {
    /// Begins to trace a process; by the thread that will wait for it.
    pub(super) fn seize(pid: u32) -> Result<Self, Errno> {
        let pid = pid.cast_signed();
        let options = libc::PTRACE_O_TRACEEXEC as usize;
        request(libc::PTRACE_SEIZE, pid, 0, options)?;
        Ok(Self { pid })
    }

    /// Waits until its program is about to begin, and lets it run, traced no longer. `there` is called when its exec is over, and again before its program's first instruction; not
    /// where it ends before.
    pub(super) fn at_entry(self, host: &Host, there: &mut dyn FnMut()) {
        let mut entry = None;
        loop {
            let signal = match self.wait() {
                Stop::Ended => return,
                Stop::Exec => {
                    there();
                    entry = entry_of(host, self.pid);
                    if entry.is_none_or(|entry| self.break_at(entry).is_err()) {
                        return self.detach(0);
                    }
                    0
                }
                Stop::Signal(libc::SIGTRAP) if entry.is_some_and(|entry| self.is_at(entry)) => {
                    there();
                    _ = self.set_debug_register(7, 0);
                    return self.detach(0);
                }
                Stop::Signal(signal) => signal,
            };
            if request(libc::PTRACE_CONT, self.pid, 0, signal as usize).is_err() {
                return;
            }
        }
    }

    fn wait(&self) -> Stop {
        // SAFETY: a plain structure that the kernel fills; all zeros are one.
        let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
        loop {
            // A process that has ended is left to who has started it.
            let options = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
            // SAFETY: `about` is room for what the kernel writes.
            match unsafe { libc::waitid(libc::P_PID, self.pid.cast_unsigned(), &mut about, options) } {
                0 => break,
                _ if Errno::last() == Errno::EINTR => {}
                _ => return Stop::Ended,
            }
        }
        if about.si_code != libc::CLD_TRAPPED && about.si_code != libc::CLD_STOPPED {
            return Stop::Ended;
        }
        // SAFETY: of a child the kernel has filled in the status.
        let status = unsafe { about.si_status() };
        // SAFETY: as above.
        let taken = unsafe {
            let options = libc::WSTOPPED | libc::WNOHANG | libc::__WALL;
            libc::waitid(libc::P_PID, self.pid.cast_unsigned(), &mut about, options)
        };
        let (signal, event) = (status & 0xff, status >> 8);
        match event {
            _ if taken != 0 => Stop::Ended,
            libc::PTRACE_EVENT_EXEC => Stop::Exec,
            0 => Stop::Signal(signal),
            // It was stopped, or continued, by others.
            _ => Stop::Signal(0),
        }
    }

    fn break_at(&self, address: u64) -> Result<(), Errno> {
        self.set_debug_register(0, address as usize)?;
        self.set_debug_register(7, ON)
    }

    fn set_debug_register(&self, number: usize, value: usize) -> Result<(), Errno> {
        let at = offset_of!(libc::user, u_debugreg) + number * size_of::<u64>();
        request(libc::PTRACE_POKEUSER, self.pid, at, value)
    }

    /// Whether its next instruction is at an address.
    fn is_at(&self, address: u64) -> bool {
        let at = offset_of!(libc::user, regs) + offset_of!(libc::user_regs_struct, rip);
        let mut ip: u64 = 0;
        // The system call itself, unlike the function of libc, writes the word to an address.
        // SAFETY: the kernel writes eight bytes to `ip`.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_ptrace,
                libc::c_long::from(libc::PTRACE_PEEKUSER),
                libc::c_long::from(self.pid),
                at,
                &raw mut ip,
            )
        };
        answer == 0 && ip == address
    }

    fn detach(&self, signal: c_int) {
        // One that is gone is not traced either.
        _ = request(libc::PTRACE_DETACH, self.pid, 0, signal as usize);
    }
}

/// A request that takes numbers, or leaves what it is given alone.
fn request(what: libc::c_uint, pid: libc::pid_t, address: usize, data: usize) -> Result<(), Errno> {
    // SAFETY: the requests of this file take numbers: no memory of ours is read or written.
    match unsafe { libc::ptrace(what, pid, address as *mut c_void, data as *mut c_void) } {
        -1 => Err(Errno::last()),
        _ => Ok(()),
    }
}

/// The address at which a process's program begins: for 64-bit programs.
fn entry_of(host: &Host, pid: libc::pid_t) -> Option<u64> {
    let vector = std::fs::read(host.path(format!("/proc/{pid}/auxv"))).ok()?;
    let mut pairs = vector.as_chunks::<16>().0.iter().map(|pair| {
        let (key, value) = pair.split_at(8);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        (word(key), word(value))
    });
    pairs
        .find(|(key, _)| *key == ENTRY)
        .map(|(_, entry)| entry)
        .filter(|entry| *entry != 0)
}
