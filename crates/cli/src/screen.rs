//! Writers for standard output and standard error that escape control characters: recorded text cannot steer the terminal.
//!
//! Where lines are made of parts, each part of others is escaped there (`kestrel_trace::print::shown`), so that it cannot end the line either. What is
//! forgotten there is caught here: every control character but the end of a line and a tab, and what turns the direction of text, is spelled out. The
//! colours of Kestrel's own pass where colours are shown. In JSON such characters stand in strings only, and their spelling here is JSON's.

use crate::style::{colour, colour_of_messages};
use kestrel_trace::print::escape::{colour_length, is_unsafe};
use std::fmt::Arguments;
use std::io::{self, IsTerminal as _, StderrLock, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Whether remarks are left out, and what is drawn while work goes on.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Restricts standard error to errors and losses from now on, where `quiet`.
pub(crate) fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Whether remarks are left out.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// The standard output.
pub(crate) fn out() -> Screen<StdoutLock<'static>> {
    let out = io::stdout();
    let colours = colour(out.is_terminal());
    Screen::new(out.lock(), colours)
}

/// The standard output of a program in the language, as its author wrote it: `printf("\033[H\033[2J")` clears the screen. What the program read elsewhere is
/// escaped where it is printed, if the output is a terminal ([`shows_programs`]).
pub(crate) fn of_program() -> StdoutLock<'static> {
    io::stdout().lock()
}

/// Whether texts that a program read elsewhere may come to a terminal.
pub(crate) fn shows_programs() -> bool {
    io::stdout().is_terminal()
}

/// The standard error; what is written while it is held is shown later.
pub(crate) fn err() -> Screen<Remarks> {
    let err = io::stderr();
    let colours = colour_of_messages();
    Screen::new(Remarks(err.lock()), colours)
}

/// Text for standard error that is held back while a view fills the terminal.
static HELD: Mutex<Option<Vec<u8>>> = Mutex::new(None);

/// Holds back what is written to standard error from now on, or lets it go.
pub(crate) fn hold_remarks(hold: bool) {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::replace(&mut *held, hold.then(Vec::new));
    match (before, &mut *held) {
        (Some(before), Some(held)) => *held = before,
        (Some(before), None) => {
            let _ = io::stderr().write_all(&before);
        }
        (None, _) => {}
    }
}

/// The standard error, or what holds back what is written there.
pub(crate) struct Remarks(StderrLock<'static>);

impl Write for Remarks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *HELD.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(held) => held.write(bytes),
            None => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A writer that escapes control characters and invalid UTF-8.
pub(crate) struct Screen<W: Write> {
    to: W,
    /// Whether sequences that set a colour are written as they are.
    colours: bool,
    /// The first bytes of a UTF-8 character whose rest is in the next write.
    partial: Vec<u8>,
}

impl<W: Write> Screen<W> {
    fn new(to: W, colours: bool) -> Self {
        Self {
            to,
            colours,
            partial: Vec::new(),
        }
    }

    fn escape(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut out = Vec::with_capacity(bytes.len() + 16);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (valid, bad) = match std::str::from_utf8(rest) {
                Ok(text) => (text, &[][..]),
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    let Some(length) = error.error_len() else {
                        self.partial = after.to_vec();
                        rest = valid;
                        continue;
                    };
                    (std::str::from_utf8(valid).unwrap_or_default(), &after[..length])
                }
            };
            self.text(valid, &mut out);
            for byte in bad {
                out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
            }
            rest = &rest[valid.len() + bad.len()..];
        }
        self.to.write_all(&out)
    }

    fn text(&self, text: &str, out: &mut Vec<u8>) {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let sets_colour = match c {
                '\x1b' if self.colours => colour_length(rest.as_bytes()),
                _ => None,
            };
            let (this, after) = rest.split_at(sets_colour.unwrap_or(c.len_utf8()));
            rest = after;
            match c {
                '\n' | '\t' => out.push(c as u8),
                c if sets_colour.is_some() || !is_unsafe(c) => out.extend_from_slice(this.as_bytes()),
                c if (c as u32) < 0x20 => out.extend_from_slice(format!("\\x{:02x}", c as u32).as_bytes()),
                c => out.extend_from_slice(format!("\\u{:04x}", c as u32).as_bytes()),
            }
        }
    }
}

/// Bytes that are looked at as one, without a branch for each.
const BLOCK: usize = 256;

/// Whether there is nothing in the bytes that may have to be escaped.
fn is_plain(bytes: &[u8]) -> bool {
    let strange = |byte: u8| !((0x20..0x7f).contains(&byte) || byte == b'\n' || byte == b'\t');
    !bytes.iter().fold(false, |found, byte| found | strange(*byte))
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.partial.is_empty() && bytes.chunks(BLOCK).all(is_plain) {
            return self.to.write(bytes);
        }
        let mut whole = std::mem::take(&mut self.partial);
        whole.extend_from_slice(bytes);
        self.escape(&whole)?;
        Ok(bytes.len())
    }

    /// Formats into one text first: a sequence that sets a colour may be made of several arguments.
    fn write_fmt(&mut self, text: Arguments<'_>) -> io::Result<()> {
        match text.as_str() {
            Some(text) => self.write_all(text.as_bytes()),
            None => self.write_all(text.to_string().as_bytes()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(parts: &[&[u8]], colours: bool) -> String {
        let mut screen = Screen::new(Vec::new(), colours);
        for part in parts {
            screen.write_all(part).unwrap();
        }
        String::from_utf8(screen.to).unwrap()
    }

    #[test]
    fn nothing_but_lines_tabs_and_our_colours_is_obeyed() {
        assert_eq!(seen(&[b"a\tb\n"], false), "a\tb\n");
        assert_eq!(
            seen(&["ä\u{202e}\u{9b}\r\x07".as_bytes()], true),
            "ä\\u202e\\u009b\\x0d\\x07"
        );
        assert_eq!(seen(&[b"\x1b[1;31mred\x1b[0m"], false), "\\x1b[1;31mred\\x1b[0m");
        assert_eq!(seen(&[b"\x1b[1;31mred\x1b[0m"], true), "\x1b[1;31mred\x1b[0m");
        assert_eq!(
            seen(&[b"\x1b]0;x\x07\x1b[2J\x1b"], true),
            "\\x1b]0;x\\x07\\x1b[2J\\x1b"
        );
        assert_eq!(seen(&[b"a\xff\xe2b"], false), "a\\xff\\xe2b");
        assert_eq!(
            seen(&["\"\u{7f}\"".as_bytes()], false),
            "\"\\u007f\"",
            "JSON stays JSON"
        );
        // A character in two writes.
        assert_eq!(
            seen(&[b"a\xe2\x82", b"\xacb", "\u{2028}".as_bytes()], false),
            "a€b\\u2028"
        );
    }
}
