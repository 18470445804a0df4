//! A command that fills a terminal: what is on its screen, keys, and its end.

#![allow(clippy::expect_used, reason = "a test's helpers may panic as the test may")]

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// After so long a command hangs: the slowest machine has drawn by then.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command on a terminal of its own: standard input, output and error.
pub struct Screen {
    child: Child,
    keys: File,
    /// What the command writes, read beside: where nobody reads, it would stop.
    written: Receiver<Vec<u8>>,
    shown: vt100::Parser,
}

impl Screen {
    /// Starts a command on a terminal of so many columns and lines.
    ///
    /// # Panics
    /// When there are no pseudo terminals, or the command cannot be run.
    pub fn start(mut command: Command, columns: u16, lines: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("pseudo terminals");
        grantpt(&ours).expect("grantpt");
        unlockpt(&ours).expect("unlockpt");
        let name = ptsname(&ours, Vec::new()).expect("ptsname");
        let theirs = open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("the other end");
        let size = Winsize {
            ws_row: lines,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&theirs, size).expect("a size");
        let another = || theirs.try_clone().expect("another descriptor");
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        command.stdin(another()).stdout(another()).stderr(another());
        let child = command.spawn().expect("the command");
        // It holds the other end, too: as long as that is open, ours has no end.
        drop((command, theirs));
        let keys = File::from(ours);
        let mut output = keys.try_clone().expect("another descriptor");
        let (sender, written) = channel();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut part) {
                if sender.send(part[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            keys,
            written,
            shown: vt100::Parser::new(lines, columns, 0),
        }
    }

    /// Presses keys, as the bytes that a terminal sends for them.
    ///
    /// # Panics
    /// When nobody takes them.
    pub fn press(&mut self, keys: &str) -> &mut Self {
        self.keys.write_all(keys.as_bytes()).expect("keys are taken");
        self
    }

    /// Waits until that holds of what is on the screen, and gives that.
    ///
    /// # Panics
    /// When it never holds.
    pub fn until(&mut self, holds: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let text = self.shown.screen().contents();
            if holds(&text) {
                return text;
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.written.recv_timeout(left) {
                Ok(bytes) => self.shown.process(&bytes),
                Err(why) => panic!("{why}; on the screen is\n{text}"),
            }
        }
    }

    /// The same for a text.
    ///
    /// # Panics
    /// When it never comes.
    pub fn until_there_is(&mut self, text: &str) -> String {
        self.until(|shown| shown.contains(text))
    }

    /// Waits for the end of the command; gives how it ended, what is on the screen then, and whether that is the screen from before the view.
    ///
    /// # Panics
    /// When it does not end.
    pub fn end(mut self) -> (ExitStatus, String, bool) {
        // The terminal has an end when nobody holds it any more.
        while let Ok(bytes) = self.written.recv_timeout(PATIENCE) {
            self.shown.process(&bytes);
        }
        let status = self.child.wait().expect("its end");
        let screen = self.shown.screen();
        (status, screen.contents(), !screen.alternate_screen())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
