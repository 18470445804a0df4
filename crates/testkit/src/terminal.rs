//! A terminal for a command under test: what it writes there, as the bytes that a terminal would get.

#![allow(clippy::expect_used, reason = "a test's helpers may panic as the test may")]

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::process::{Command, ExitStatus};

/// Runs a command whose standard error is a terminal of so many columns, until it ends; as soon as `enough` holds of what it wrote there, it is interrupted as by Ctrl-C.
///
/// # Panics
/// When there are no pseudo terminals, or the command cannot be run.
pub fn run(mut command: Command, columns: u16, enough: impl Fn(&str) -> bool) -> (ExitStatus, String) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("pseudo terminals");
    grantpt(&ours).expect("grantpt");
    unlockpt(&ours).expect("unlockpt");
    let name = ptsname(&ours, Vec::new()).expect("ptsname");
    let theirs = open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("the other end");
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&theirs, size).expect("a size");
    let mut child = command.stderr(theirs).spawn().expect("the command");
    // It holds the other end, too: as long as that is open, ours has no end.
    drop(command);
    let (mut ours, mut said, mut interrupted) = (File::from(ours), Vec::new(), false);
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = ours.read(&mut part) {
        said.extend_from_slice(&part[..length]);
        if !interrupted && enough(&String::from_utf8_lossy(&said)) {
            interrupted = true;
            let pid = Pid::from_child(&child);
            kill_process(pid, Signal::INT).expect("Ctrl-C");
        }
    }
    let status = child.wait().expect("its end");
    (status, String::from_utf8_lossy(&said).into_owned())
}
