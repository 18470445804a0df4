//! A terminal for a command under test: what it writes there, as the bytes that a terminal would get.

#![allow(clippy::expect_used, reason = "a test's helpers may panic as the test may")]

use rustix::fs::{Mode, OFlags, open};
pub use rustix::process::Signal;
use rustix::process::{Pid, WaitOptions, kill_process, waitpid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Both ends of a pseudo terminal of so many columns and lines: ours, and that of the command.
fn pair(columns: u16, lines: u16) -> (OwnedFd, OwnedFd) {
    let ours =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("pseudo terminals");
    grantpt(&ours).expect("grantpt");
    unlockpt(&ours).expect("unlockpt");
    let name = ptsname(&ours, Vec::new()).expect("ptsname");
    let theirs = open(
        &name,
        OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .expect("the other end");
    let size = Winsize {
        ws_row: lines,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&theirs, size).expect("a size");
    (ours, theirs)
}

/// Longest wait for a screen: a view that is drawn at all is drawn much sooner, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// A command that has a terminal for itself: keys are pressed, its screen is looked at.
pub struct Console {
    ours: File,
    child: Child,
    screen: vt100::Parser,
    written: Receiver<Vec<u8>>,
    /// The settings of the terminal before the command had it.
    before: String,
}

impl Console {
    /// Starts a command on a terminal of so many columns and lines, in a process group of its own.
    ///
    /// # Panics
    /// When there are no pseudo terminals, or the command cannot be run.
    pub fn start(mut command: Command, columns: u16, lines: u16) -> Self {
        let (ours, theirs) = pair(columns, lines);
        let before = settings(&ours);
        let another = || theirs.try_clone().expect("another descriptor");
        command
            .stdin(another())
            .stdout(another())
            .stderr(another())
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .process_group(0);
        let child = command.spawn().expect("the command");
        drop((command, theirs));
        let ours = File::from(ours);
        let mut reader = ours.try_clone().expect("another descriptor");
        let (send, written) = channel();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut part) {
                if send.send(part[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            ours,
            child,
            screen: vt100::Parser::new(lines, columns, 0),
            written,
            before,
        }
    }

    /// The text of the screen as soon as that is enough.
    ///
    /// # Panics
    /// When it is not enough in two minutes, or when the command has ended.
    #[track_caller]
    pub fn until(&mut self, enough: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let shown = self.screen.screen().contents();
            if enough(&shown) {
                return shown;
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.written.recv_timeout(left) {
                Ok(bytes) => self.screen.process(&bytes),
                Err(_) => panic!("not what was waited for:\n{shown}"),
            }
        }
    }

    /// Presses keys: `q`, `\r` for Enter, `\x1b` for Esc.
    ///
    /// # Panics
    /// When the command has ended.
    pub fn press(&mut self, keys: &str) -> &mut Self {
        self.ours.write_all(keys.as_bytes()).expect("keys");
        self
    }

    /// The text of the screen as soon as a text is on it.
    ///
    /// # Panics
    /// As [`Console::until`].
    #[track_caller]
    pub fn until_there_is(&mut self, text: &str) -> String {
        self.until(|shown| shown.contains(text))
    }

    /// Waits for the end of the command; gives how it ended, what is on the screen then, and whether that is the screen from before the view.
    ///
    /// # Panics
    /// When it does not end.
    pub fn end(mut self) -> (ExitStatus, String, bool) {
        // The terminal ends when its last descriptor is closed.
        while let Ok(bytes) = self.written.recv_timeout(PATIENCE) {
            self.screen.process(&bytes);
        }
        let status = self.wait();
        let screen = self.screen.screen();
        (status, screen.contents(), !screen.alternate_screen())
    }

    /// Sends a signal to the command.
    ///
    /// # Panics
    /// When it has ended.
    pub fn signal(&self, signal: Signal) {
        self::signal(&self.child, signal);
    }

    /// Waits until the command is stopped.
    ///
    /// # Panics
    /// When it ends instead.
    pub fn until_stopped(&mut self) {
        let pid = Pid::from_child(&self.child);
        let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED)
            .expect("its state")
            .expect("a child");
        assert!(status.stopped(), "{status:?}");
    }

    /// Whether the terminal has the settings that it had before the command, and the screen from before is shown.
    pub fn is_given_back(&mut self) -> bool {
        while let Ok(bytes) = self.written.recv_timeout(Duration::from_millis(100)) {
            self.screen.process(&bytes);
        }
        let screen = self.screen.screen();
        settings(&self.ours) == self.before && !screen.alternate_screen() && !screen.hide_cursor()
    }

    /// Waits for the end of the command.
    ///
    /// # Panics
    /// When the kernel does not answer.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("its end")
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // Nothing that a failed test has started is left running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The settings of a terminal that raw mode changes.
fn settings(terminal: impl AsFd) -> String {
    let settings = tcgetattr(terminal).expect("its settings");
    format!(
        "{:?} {:?} {:?}",
        settings.input_modes, settings.output_modes, settings.local_modes
    )
}

/// Sends a signal to a process.
///
/// # Panics
/// When it has ended.
pub fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("a signal");
}

/// A command on a terminal of this kind, and our end of it.
fn on(mut command: Command, kind: &str) -> (Child, File) {
    let (ours, theirs) = pair(100, 24);
    let another = || theirs.try_clone().expect("another descriptor");
    command
        .stdin(another())
        .stdout(another())
        .stderr(another())
        .env("TERM", kind)
        .process_group(0);
    let child = command.spawn().expect("the command");
    // With the command its descriptors of the other end are closed.
    (child, File::from(ours))
}

/// Runs a command on a terminal that is closed as soon as `enough` holds of what it wrote there; gives how it ended.
///
/// # Panics
/// When there are no pseudo terminals, or the command cannot be run.
pub fn closed(command: Command, enough: impl Fn(&str) -> bool) -> ExitStatus {
    let (mut child, mut ours) = on(command, "xterm-256color");
    let (mut printed, mut part) = (Vec::new(), [0; 4096]);
    while !enough(&String::from_utf8_lossy(&printed)) {
        let length = ours.read(&mut part).expect("what it writes");
        printed.extend_from_slice(&part[..length]);
    }
    drop(ours);
    child.wait().expect("its end")
}

/// Runs a command on a terminal of this kind, as `TERM` has it; gives how it ended and all that it wrote there.
///
/// # Panics
/// As [`closed`].
pub fn plain(command: Command, kind: &str) -> (ExitStatus, String) {
    let (mut child, mut ours) = on(command, kind);
    let (mut printed, mut part) = (Vec::new(), [0; 4096]);
    // Reading fails as soon as the last process has closed the other end.
    while let Ok(length @ 1..) = ours.read(&mut part) {
        printed.extend_from_slice(&part[..length]);
    }
    let status = child.wait().expect("its end");
    (status, String::from_utf8_lossy(&printed).into_owned())
}

/// Runs a command whose standard error is a terminal of so many columns, until it ends; as soon as `enough` holds of what it wrote there, it is interrupted as by Ctrl-C.
///
/// # Panics
/// When there are no pseudo terminals, or the command cannot be run.
pub fn run(mut command: Command, columns: u16, enough: impl Fn(&str) -> bool) -> (ExitStatus, String) {
    let (ours, theirs) = pair(columns, 24);
    let mut child = command
        .env("TERM", "xterm-256color")
        .stderr(theirs)
        .spawn()
        .expect("the command");
    // It holds the other end, too: as long as that is open, ours has no end.
    drop(command);
    let (mut ours, mut printed, mut interrupted) = (File::from(ours), Vec::new(), false);
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = ours.read(&mut part) {
        printed.extend_from_slice(&part[..length]);
        if !interrupted && enough(&String::from_utf8_lossy(&printed)) {
            interrupted = true;
            let pid = Pid::from_child(&child);
            kill_process(pid, Signal::INT).expect("Ctrl-C");
        }
    }
    let status = child.wait().expect("its end");
    (status, String::from_utf8_lossy(&printed).into_owned())
}
