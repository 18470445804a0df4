//! Closing descriptors in a process of its own, where the kernel makes each close wait (perf events wait for RCU).

use crate::error::{Errno, Error, Result};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Name of the process where processes are listed.
pub const CLOSER: &CStr = c"kestrel-detach";

/// Pause between two closes, µs: time for a waiter to take the lock.
const PAUSE_US: u32 = 500;

/// Closes descriptors without waiting: a child process of its own session ([`CLOSER`]), with nothing else open, closes them and ends; neither a pipe's
/// reader nor a terminal waits for it, and if it is killed, the kernel closes what is left. With `lock`, each descriptor is closed under an exclusive
/// flock(2) of that file: holders of a shared lock go first.
///
/// # Errors
/// [`Error::System`] when there can be no such process; the descriptors were closed nevertheless, and that took its time.
pub fn close_in_background(files: Vec<OwnedFd>, lock: Option<OwnedFd>) -> Result<()> {
    let failed = |what: &'static str| Error::system(what, "descriptors", Errno::last());
    let mut ends = [0; 2];
    // SAFETY: the array has room for the two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(failed("make a pipe for closing"));
    }
    // SAFETY: the call above has just made both, and nobody else has them.
    let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    let mut inherited: Vec<RawFd> = files.iter().map(AsRawFd::as_raw_fd).collect();
    inherited.push(read.as_raw_fd());
    inherited.extend(lock.iter().map(AsRawFd::as_raw_fd));
    inherited.sort_unstable();
    let lock_fd = lock.as_ref().map(AsRawFd::as_raw_fd);
    // SAFETY: the child calls nothing but what may be called between fork and exec of a process with threads: no allocation, no lock.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: this is the child, right after its fork.
        unsafe { close_when_alone(&inherited, read.as_raw_fd(), lock_fd) }
    }
    if child < 0 {
        return Err(failed("start a process for closing"));
    }
    let mut status = 0;
    // SAFETY: the status is ours to be written.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            break;
        }
    }
    // The child still holds these files, so these closes do not wait for RCU; the end of file on `write`, which is closed last, is the signal to start.
    drop(read);
    drop(files);
    drop(write);
    if status == 0 {
        Ok(())
    } else {
        Err(Error::system(
            "start a process for closing",
            "descriptors",
            Errno::EAGAIN,
        ))
    }
}

/// Main function of the closing process: it closes all it does not need, waits until its parent has closed the descriptors, closes them, and ends.
///
/// # Safety
/// Only in a child right after its fork; it calls only functions that are safe there.
unsafe fn close_when_alone(inherited: &[RawFd], parent_done: RawFd, lock: Option<RawFd>) -> ! {
    // SAFETY: plain system calls, on descriptors of this process and on memory that lives as long as it does.
    unsafe {
        // The grandchild has no parent that would have to wait for it.
        libc::setsid();
        match libc::fork() {
            0 => {}
            -1 => libc::_exit(1),
            _ => libc::_exit(0),
        }
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM] {
            libc::signal(signal, libc::SIG_DFL);
        }
        libc::prctl(libc::PR_SET_NAME, CLOSER.as_ptr(), 0, 0, 0);
        libc::chdir(c"/".as_ptr());
        let mut next = 0;
        for &fd in inherited {
            close_from_to(next, fd);
            next = fd + 1;
        }
        close_from_to(next, RawFd::MAX);
        let mut byte = 0_u8;
        while libc::read(parent_done, (&raw mut byte).cast(), 1) < 0
            && *libc::__errno_location() == libc::EINTR
        {}
        if let Some(lock) = lock {
            for &fd in inherited.iter().filter(|fd| **fd != lock && **fd != parent_done) {
                while libc::flock(lock, libc::LOCK_EX) < 0 && *libc::__errno_location() == libc::EINTR {}
                libc::close(fd);
                libc::flock(lock, libc::LOCK_UN);
                // The next in line has only been woken: without this pause this thread would take the lock again.
                libc::usleep(PAUSE_US);
            }
        }
        libc::_exit(0)
    }
}

/// Closes descriptors from `first` to the one before `end`.
///
/// # Safety
/// Descriptors that are no longer used.
unsafe fn close_from_to(first: RawFd, end: RawFd) {
    if first < end {
        // SAFETY: the caller guarantees that they are no longer used; the call takes no addresses.
        unsafe { libc::syscall(libc::SYS_close_range, first, end - 1, 0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn holders_of_the_shared_turn_come_first() {
        let place = tempfile::tempdir().unwrap();
        let open = || std::fs::File::open(place.path()).unwrap();
        let first = open();
        first.lock_shared().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        close_in_background(vec![writer.into()], Some(open().into())).unwrap();
        // Nothing is closed while the other has the lock, however long that is.
        let polled = std::time::Duration::from_millis(100);
        assert!(!is_readable(&reader, polled));
        drop(first);
        let mut rest = Vec::new();
        assert_eq!(reader.read_to_end(&mut rest).unwrap(), 0);
    }

    /// Whether a pipe has something to read, its end included, within a time.
    fn is_readable(reader: &std::io::PipeReader, within: std::time::Duration) -> bool {
        let mut polled = libc::pollfd {
            fd: reader.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the one structure is ours.
        unsafe { libc::poll(&raw mut polled, 1, within.as_millis() as i32) > 0 }
    }

    #[test]
    fn closed_by_another_process() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        close_in_background(vec![writer.into()], None).unwrap();
        // The end comes only when the other process has closed its copy, too.
        let mut rest = Vec::new();
        assert_eq!(reader.read_to_end(&mut rest).unwrap(), 0);
    }
}
