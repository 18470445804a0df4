//! Signals: the wish to stop as a flag to look at, and sending signals on; no handler runs code of ours.

use crate::error::{Errno, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The wish to stop: `SIGINT` (Ctrl-C), `SIGTERM` or `SIGHUP` arrived. A second one ends the process at once.
#[derive(Clone, Debug)]
pub struct Interrupt {
    flag: Arc<AtomicBool>,
}

impl Interrupt {
    /// Lets those signals set the flag, from now on, instead of ending the process.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn install() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        let failed = |error| Error::system("watch for", "signals", error);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // The order matters: the first signal finds the flag unset and sets it; the second finds it set.
            let code = 128 + signal;
            signal_hook::flag::register_conditional_shutdown(signal, code, flag.clone()).map_err(failed)?;
            signal_hook::flag::register(signal, flag.clone()).map_err(failed)?;
        }
        Ok(Self { flag })
    }

    /// Whether one has arrived. Sleeps and reads are not cut short (`SA_RESTART`): look at it from a loop.
    pub fn requested(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// The flag that the signal sets, for code below that does not know signals.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// Asks to stop, as a signal would.
    pub fn request(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }
}

/// `SIGUSR1`s or `SIGUSR2`s that came and were not yet answered; they end the process no more.
#[derive(Clone, Debug)]
pub struct UserSignal {
    came: Arc<AtomicBool>,
}

impl UserSignal {
    /// Notes `SIGUSR1` from now on.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn first() -> Result<Self> {
        Self::install(libc::SIGUSR1, "SIGUSR1")
    }

    /// Notes `SIGUSR2` from now on.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn second() -> Result<Self> {
        Self::install(libc::SIGUSR2, "SIGUSR2")
    }

    fn install(signal: i32, name: &str) -> Result<Self> {
        let came = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal, came.clone())
            .map_err(|error| Error::system("watch for", name, error))?;
        Ok(Self { came })
    }

    /// Whether one has come and was not taken.
    pub fn has_come(&self) -> bool {
        self.came.load(Ordering::Relaxed)
    }

    /// Whether one has come since this was asked last.
    pub fn take(&self) -> bool {
        self.came.swap(false, Ordering::Relaxed)
    }
}

/// A signal to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "signal(7)'s own names")]
pub enum Signal {
    Interrupt = libc::SIGINT as isize,
    Terminate = libc::SIGTERM as isize,
    Kill = libc::SIGKILL as isize,
}

/// Sends a signal to one process.
///
/// # Errors
/// [`Error::System`]: `ESRCH` if it has gone; [`Error::Argument`] for 0, which would mean the whole group.
pub fn send(pid: u32, signal: Signal) -> Result<()> {
    let Some(target) = i32::try_from(pid).ok().filter(|pid| *pid > 0) else {
        return Err(Error::Argument {
            subject: format!("process {pid}"),
            why: "there is no such number".into(),
        });
    };
    // SAFETY: a system call without memory of ours.
    if unsafe { libc::kill(target, signal as i32) } == 0 {
        return Ok(());
    }
    Err(Error::system(
        "send a signal to process",
        pid.to_string(),
        Errno::last(),
    ))
}

/// Sends a signal to a process group, by the number of its leader; gone members do not matter.
///
/// # Errors
/// [`Error::System`]: `ESRCH` if no process is left in it; [`Error::Argument`] for 0 and 1, which would mean others.
pub fn send_to_group(leader: u32, signal: Signal) -> Result<()> {
    let Some(target) = i32::try_from(leader).ok().filter(|pid| *pid > 1) else {
        return Err(Error::Argument {
            subject: format!("process group {leader}"),
            why: "there is no such group".into(),
        });
    };
    // SAFETY: a system call without memory of ours.
    if unsafe { libc::kill(-target, signal as i32) } == 0 {
        return Ok(());
    }
    Err(Error::system(
        "send a signal to process group",
        leader.to_string(),
        Errno::last(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn the_first_signal_sets_the_flag() {
        let interrupt = Interrupt::install().unwrap();
        assert!(!interrupt.requested());
        send(std::process::id(), Signal::Terminate).unwrap();
        // Delivered to any thread of this process, at the latest when one next leaves the kernel.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !interrupt.requested() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(interrupt.requested());
    }

    #[test]
    fn signals_reach_a_child_and_never_the_group() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        send(child.id(), Signal::Terminate).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
        assert!(send(0, Signal::Kill).is_err());
        assert!(send(u32::MAX, Signal::Kill).is_err());
    }
}
