//! A command that exists, with its process id, but waits before its exec: so that tracing can begin with the exec itself.
//!
//! `Command::spawn` returns only after the child's exec, so it runs on a thread of its own, which lives until the command has ended: a command that
//! wants a signal when its parent dies (`PR_SET_PDEATHSIG`) is sent it when the thread does that forked it. In the child, between fork and exec, a hook tells its
//! process id through one pipe and waits for the release on another; if the parent goes away meanwhile, the wait ends with "broken" and the
//! command never runs.

use crate::error::{Errno, Error, Result};
use crate::host::Host;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};

/// A command that is paused before its exec. Dropped, it goes without having run.
#[derive(Debug)]
pub struct PausedCommand {
    pid: u32,
    program: String,
    release: Option<OwnedFd>,
    started: Option<Receiver<io::Result<Child>>>,
}

impl PausedCommand {
    /// Forks for `command` and waits until its process is there.
    ///
    /// # Errors
    /// [`Error::System`] if there can be no process. That a program does not exist shows only at [`PausedCommand::release`].
    pub fn start(mut command: Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |errno: Errno| Error::system("start", program.clone(), errno);
        let (pid_reader, pid_writer) = pipe().map_err(failed)?;
        let (wait, release) = pipe().map_err(failed)?;
        // Descriptors are borrowed as numbers: the child works on its own copies, and the hook runs while all four are open there.
        let numbers = [
            pid_reader.as_raw_fd(),
            pid_writer.as_raw_fd(),
            wait.as_raw_fd(),
            release.as_raw_fd(),
        ];
        // SAFETY: `hold` only makes system calls that are safe after a fork of a threaded process (getpid, write, close, read).
        unsafe { command.pre_exec(move || hold(numbers)) };
        let (send, started) = channel();
        // Without a name of its own, which the child would have until its exec: tracers see it by the one of the program.
        std::thread::Builder::new()
            .spawn(move || {
                let child = command.spawn();
                // The parent's copies of the child's ends: `tell` so that a fork that failed ends the wait for the process id.
                drop((pid_writer, wait));
                let pid = child.as_ref().ok().map(Child::id);
                // Where the caller has gone the child has no owner any more.
                _ = send.send(child);
                if let Some(pid) = pid {
                    outlive(pid);
                }
            })
            .map_err(|error| failed(error.into()))?;
        let mut held = Self {
            pid: 0,
            program,
            release: Some(release),
            started: Some(started),
        };
        let mut pid = [0; 4];
        match read(pid_reader.as_raw_fd(), &mut pid) {
            Ok(4) => {
                held.pid = u32::from_ne_bytes(pid);
                Ok(held)
            }
            _ => match held.join() {
                Ok(_) => Err(Error::system("start", held.program.clone(), Errno::EIO)),
                Err(error) => Err(error),
            },
        }
    }

    /// The process, which is also its first thread: the same before and after the exec.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The program that it will be, as the command names it.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Lets it go on to its exec.
    ///
    /// # Errors
    /// [`Error::System`] if the exec fails: `ENOENT`, `EACCES`.
    pub fn release(mut self) -> Result<Child> {
        self.let_go()?;
        self.join()
    }

    fn let_go(&mut self) -> Result<()> {
        if let Some(release) = self.release.take() {
            match write(release.as_raw_fd(), &[1]) {
                // It was ended by a signal while it waited (Ctrl-C goes to it, too): a child that has ended, as any other.
                Ok(_) | Err(Errno::EPIPE) => {}
                Err(errno) => return Err(Error::system("release", self.program.clone(), errno)),
            }
        }
        Ok(())
    }

    /// Lets it go on, and calls `there` while it is stopped: when its exec is over, and before the first instruction of its program, when all is mapped that the program begins with. Where
    /// it cannot be stopped, `there` is called behind the exec, while the program runs.
    ///
    /// # Errors
    /// As [`PausedCommand::release`].
    #[cfg(target_arch = "x86_64")]
    pub fn release_to_entry(mut self, host: &Host, there: &mut dyn FnMut()) -> Result<Child> {
        use super::program_entry::Traced;
        match Traced::seize(self.pid) {
            Ok(traced) => {
                self.let_go()?;
                traced.at_entry(host, there);
                self.join()
            }
            Err(_) => {
                let child = self.release()?;
                there();
                Ok(child)
            }
        }
    }

    /// As on other processors: `there` is called behind the exec.
    ///
    /// # Errors
    /// As [`PausedCommand::release`].
    #[cfg(not(target_arch = "x86_64"))]
    pub fn release_to_entry(self, _host: &Host, there: &mut dyn FnMut()) -> Result<Child> {
        let child = self.release()?;
        there();
        Ok(child)
    }

    fn join(&mut self) -> Result<Child> {
        let failed = |errno: Errno| Error::system("run", self.program.clone(), errno);
        match self.started.take().map(|started| started.recv()) {
            Some(Ok(child)) => child.map_err(|error| failed(error.into())),
            _ => Err(failed(Errno::ECHILD)),
        }
    }
}

impl Drop for PausedCommand {
    fn drop(&mut self) {
        // Not released: the child reads the end of the pipe and gives up; `spawn` reaps it.
        drop(self.release.take());
        if let Some(started) = self.started.take() {
            let _never_ran = started.recv();
        }
    }
}

/// Waits until a child of ours has ended, and leaves it to be reaped by the caller.
fn outlive(pid: u32) {
    // It was reaped already (`ECHILD`), or has ended.
    while waited(pid, 0) == Err(Errno::EINTR) {}
}

/// Whether a child of ours has ended; it is left to be reaped by the caller, and its folder in /proc stays until then.
pub fn has_ended(child: &Child) -> bool {
    // One that cannot be waited for was reaped.
    waited(child.id(), libc::WNOHANG).unwrap_or(true)
}

/// Waits for the end of a child without reaping it; gives whether it has come.
fn waited(pid: u32, options: c_int) -> std::result::Result<bool, Errno> {
    // SAFETY: a plain structure that the kernel fills; all zeros are one.
    let mut about: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = options | libc::WEXITED | libc::WNOWAIT;
    // SAFETY: `about` is room for what the kernel writes.
    match unsafe { libc::waitid(libc::P_PID, pid, &mut about, options) } {
        // SAFETY: the kernel has filled in the number of the process, or left 0 there.
        0 => Ok(unsafe { about.si_pid() } != 0),
        _ => Err(Errno::last()),
    }
}

/// Main function of the child between fork and exec.
fn hold([pid_reader, pid_writer, wait, release]: [RawFd; 4]) -> io::Result<()> {
    // SAFETY: system calls without memory of ours; `pid_reader` and `release` are the child's copies of what only the parent uses. Its copy of
    // `release` must go, or the end of the parent would not end the wait.
    let pid = unsafe {
        libc::close(pid_reader);
        libc::close(release);
        libc::getpid()
    };
    let raw = |errno: Errno| io::Error::from_raw_os_error(errno.0);
    write(pid_writer, &pid.to_ne_bytes()).map_err(raw)?;
    match read(wait, &mut [0]) {
        Ok(1) => Ok(()),
        Ok(_) => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
        Err(errno) => Err(raw(errno)),
    }
}

fn pipe() -> std::result::Result<(OwnedFd, OwnedFd), Errno> {
    let mut ends = [0; 2];
    // SAFETY: room for the two descriptors that the kernel writes.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(Errno::last());
    }
    // SAFETY: the kernel has just opened both for us.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// read(2), again after a signal; no allocation.
fn read(fd: RawFd, to: &mut [u8]) -> std::result::Result<usize, Errno> {
    loop {
        // SAFETY: the buffer has the length that is given.
        let got = unsafe { libc::read(fd, to.as_mut_ptr().cast(), to.len()) };
        match (got, Errno::last()) {
            (0.., _) => return Ok(got as usize),
            (_, Errno::EINTR) => {}
            (_, errno) => return Err(errno),
        }
    }
}

/// write(2) of a few bytes, again after a signal; no allocation.
fn write(fd: RawFd, from: &[u8]) -> std::result::Result<(), Errno> {
    loop {
        // SAFETY: the buffer has the length that is given.
        let put = unsafe { libc::write(fd, from.as_ptr().cast(), from.len()) };
        match (put, Errno::last()) {
            (0.., _) => return Ok(()),
            (_, Errno::EINTR) => {}
            (_, errno) => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::procfs;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        command
    }

    #[test]
    fn the_command_runs_only_after_its_release_under_the_same_pid() {
        let held = PausedCommand::start(shell("echo $$")).unwrap();
        let (host, pid) = (Host::default(), held.pid());
        let before = procfs::executable(&host, pid).unwrap();
        assert_eq!(before, std::env::current_exe().unwrap(), "still before its exec");
        let output = held.release().unwrap().wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), pid.to_string());
    }

    #[test]
    fn before_its_exec_it_has_the_name_of_its_caller() {
        let held = PausedCommand::start(shell("true")).unwrap();
        let host = Host::default();
        let own = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        assert_eq!(procfs::comm(&host, held.pid()).unwrap(), own.trim_end());
    }

    #[test]
    fn a_command_never_released_never_runs() {
        let directory = tempfile::tempdir().unwrap();
        let witness = directory.path().join("ran");
        let held = PausedCommand::start(shell(&format!("touch {}", witness.display()))).unwrap();
        let pid = held.pid();
        drop(held);
        assert!(!witness.exists());
        assert!(
            procfs::comm(&Host::default(), pid).is_err(),
            "the process is gone and reaped"
        );
    }

    #[test]
    fn a_command_that_wants_to_die_with_its_parent_lives() {
        let mut command = shell("sleep 0.3; echo lived");
        // SAFETY: one system call that is safe after a fork of a threaded process; the wish outlasts the exec.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        let child = PausedCommand::start(command).unwrap().release().unwrap();
        let pid = child.id();
        // The thread that forked it is what the kernel takes for its parent.
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{pid}: {}", output.status);
        assert_eq!(output.stdout, b"lived\n");
    }

    #[test]
    fn a_command_that_was_ended_before_its_release_has_ended() {
        let held = PausedCommand::start(shell("echo ran")).unwrap();
        let pid = held.pid();
        // One that no handler catches that another test of this process may have installed, which the child would have, too.
        // SAFETY: a signal to a child that is not reaped yet.
        assert_eq!(unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) }, 0);
        // Its end of the pipe goes with it.
        let stat = format!("/proc/{pid}/stat");
        while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let output = held.release().unwrap().wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGKILL));
        assert!(output.stdout.is_empty());
    }

    #[test]
    fn a_missing_program_shows_at_its_release() {
        let held = PausedCommand::start(Command::new("/no/such/program")).unwrap();
        let error = held.release().unwrap_err();
        assert_eq!(error.errno(), Some(Errno::ENOENT));
        assert!(error.to_string().contains("/no/such/program"));
    }
}
