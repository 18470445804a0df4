//! The signals of a program that fills the terminal: the wish to stop, to pause, a new size. They are a descriptor to sleep on, and the terminal is given back
//! as it was even by the signal that ends the process at once.

use crate::error::{Errno, Error, Result};
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals that arrive while a program fills the terminal.
#[derive(Debug)]
pub struct TerminalSignals {
    ended: Arc<AtomicBool>,
    paused: Arc<AtomicBool>,
    full_screen: Arc<AtomicBool>,
    woken: UnixStream,
}

impl TerminalSignals {
    /// From now on `SIGINT`, `SIGTERM` and `SIGHUP` ask for the end, `SIGTSTP` for a pause, instead of having their way with the process.
    ///
    /// A second signal that asks for the end, and `SIGQUIT`, end the process at once: while a view fills the terminal ([`TerminalSignals::set_full_screen`]),
    /// the terminal first gets `closing_sequence` and the settings that it has now.
    ///
    /// # Errors
    /// [`Error::System`]: `ENOTTY` where it is no terminal.
    pub fn install(terminal: BorrowedFd<'_>, closing_sequence: &'static [u8]) -> Result<Self> {
        let failed = |error| Error::system("watch for", "signals", error);
        let ended = Arc::new(AtomicBool::new(false));
        let paused = Arc::new(AtomicBool::new(false));
        let full_screen = Arc::new(AtomicBool::new(false));
        let (woken, wake) = UnixStream::pair().map_err(failed)?;
        woken.set_nonblocking(true).map_err(failed)?;
        let settings = settings(terminal)?;
        // Kept open for good: a handler may come at any time.
        let terminal = terminal.try_clone_to_owned().map_err(failed)?;
        let terminal = Arc::new(terminal);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            let (ended, full_screen, terminal) = (ended.clone(), full_screen.clone(), terminal.clone());
            let handler = move || {
                if !ended.swap(true, Ordering::Relaxed) {
                    return;
                }
                if full_screen.load(Ordering::Relaxed) {
                    give_back(terminal.as_fd(), closing_sequence, &settings);
                }
                // SAFETY: it ends the process, and signal-safety(7) allows it.
                unsafe { libc::_exit(128 + signal) }
            };
            // SAFETY: the handler neither allocates nor locks, and leaves errno as it was unless it ends the process.
            unsafe { signal_hook::low_level::register(signal, handler) }.map_err(failed)?;
        }
        let quit = {
            let full_screen = full_screen.clone();
            move || {
                if full_screen.load(Ordering::Relaxed) {
                    give_back(terminal.as_fd(), closing_sequence, &settings);
                }
                let _ = signal_hook::low_level::emulate_default_handler(libc::SIGQUIT);
            }
        };
        // SAFETY: the handler neither allocates nor locks, and ends the process.
        unsafe { signal_hook::low_level::register(libc::SIGQUIT, quit) }.map_err(failed)?;
        signal_hook::flag::register(libc::SIGTSTP, paused.clone()).map_err(failed)?;
        for signal in [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGTSTP,
            libc::SIGWINCH,
        ] {
            let wake = wake.try_clone().map_err(failed)?;
            signal_hook::low_level::pipe::register(signal, wake).map_err(failed)?;
        }
        Ok(Self {
            ended,
            paused,
            full_screen,
            woken,
        })
    }

    /// Says whether a view fills the terminal now, and it has to be given back.
    pub fn set_full_screen(&self, full_screen: bool) {
        self.full_screen.store(full_screen, Ordering::Relaxed);
    }

    /// Whether a signal has asked for the end.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Whether a signal has asked for a pause since this was asked last.
    pub fn take_pause(&self) -> bool {
        self.paused.swap(false, Ordering::Relaxed)
    }

    /// Readable when a signal has come that was not yet looked at.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// From now on only further signals make the descriptor readable.
    pub fn clear(&self) {
        let mut some = [0; 64];
        while matches!((&self.woken).read(&mut some), Ok(1..)) {}
    }

    /// Stops this process and those of its group, as Ctrl-Z does; returns when it is continued, or at once where no shell could continue it.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn pause(&self) -> Result<()> {
        let failed = || Err(Error::system("stop", "this process", Errno::last()));
        let mut noting = MaybeUninit::uninit();
        // SAFETY: all-zero bytes are a valid `sigaction`: the default, which has no handler.
        let default: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the kernel reads one structure and writes the other, which has room for it.
        if unsafe { libc::sigaction(libc::SIGTSTP, &raw const default, noting.as_mut_ptr()) } != 0 {
            return failed();
        }
        // SAFETY: a system call without memory of ours. The signal is not blocked, so it is delivered before the call returns.
        let stopped = unsafe { libc::kill(0, libc::SIGTSTP) } == 0;
        // SAFETY: what the first call wrote is put back.
        let noted = unsafe { libc::sigaction(libc::SIGTSTP, noting.as_ptr(), std::ptr::null_mut()) } == 0;
        if stopped && noted { Ok(()) } else { failed() }
    }
}

/// Gives a terminal its settings back, by system calls that signal-safety(7) allows.
fn give_back(terminal: BorrowedFd<'_>, closing_sequence: &[u8], settings: &libc::termios) {
    let fd = terminal.as_raw_fd();
    // SAFETY: the kernel reads memory that lives as long as the call.
    unsafe {
        libc::write(fd, closing_sequence.as_ptr().cast(), closing_sequence.len());
        libc::tcsetattr(fd, libc::TCSANOW, settings);
    }
}

/// The settings of a terminal.
fn settings(terminal: BorrowedFd<'_>) -> Result<libc::termios> {
    let mut settings = MaybeUninit::uninit();
    // SAFETY: the kernel writes one structure, which has room for it.
    if unsafe { libc::tcgetattr(terminal.as_raw_fd(), settings.as_mut_ptr()) } != 0 {
        return Err(Error::system(
            "ask for the settings of",
            "the terminal",
            Errno::last(),
        ));
    }
    // SAFETY: written by the call that succeeded.
    Ok(unsafe { settings.assume_init() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_is_no_terminal_is_refused() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(TerminalSignals::install(reader.as_fd(), b"").is_err());
    }
}
