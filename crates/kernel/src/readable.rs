//! Sleeping until one of several descriptors is readable: the bell of a session's rings, the end of a process.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Sleeps until one of these is readable, the time is over or a signal arrives, whichever comes first; whether one is readable.
///
/// The time is rounded up to milliseconds. Where there is nothing to wait for it is a sleep that signals end.
pub fn wait(descriptors: &[BorrowedFd<'_>], within: Duration) -> bool {
    let asked = |fd: &BorrowedFd<'_>| libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut asked: Vec<libc::pollfd> = descriptors.iter().map(asked).collect();
    let within = within.as_micros().div_ceil(1000);
    let within = libc::c_int::try_from(within).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads and writes as many structures as the vector has, which lives until it returns.
    unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, within) > 0 }
}

/// Whether the other end of a descriptor is gone: a terminal was closed, a pipe has no writer any more.
pub fn has_hung_up(descriptor: BorrowedFd<'_>) -> bool {
    let mut asked = libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events: 0,
        revents: 0,
    };
    // SAFETY: the kernel reads and writes one structure, which lives until it returns.
    let answered = unsafe { libc::poll(&raw mut asked, 1, 0) } > 0;
    answered && asked.revents & (libc::POLLHUP | libc::POLLERR) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::time::Instant;

    #[test]
    fn whichever_comes_first() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        assert!(!wait(&[reader.as_fd()], Duration::ZERO));
        assert!(!wait(&[], Duration::from_micros(1)));
        let begun = Instant::now();
        let later = std::thread::spawn(move || writer.write_all(b"x").map(|()| writer));
        assert!(wait(&[reader.as_fd()], Duration::from_secs(600)));
        assert!(begun.elapsed() < Duration::from_secs(300));
        let writer = later.join().unwrap().unwrap();
        assert!(!has_hung_up(reader.as_fd()));
        drop(writer);
        assert!(has_hung_up(reader.as_fd()));
    }
}
