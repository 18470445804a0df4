//! Colour, diagnostics with their source, and sizes and times in readable units.

use kestrel::language::{Diagnostic, Style, render, render_as_bpftrace};
use std::io::IsTerminal;

/// Whether colour is wanted on a stream: a terminal that understands it, and no `NO_COLOR`.
pub(crate) fn colour(terminal: bool) -> bool {
    terminal && !is_dumb() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Whether messages on standard error have colour: `BPFTRACE_COLOR` says `always` or `never`, or else the terminal decides.
pub(crate) fn colour_of_messages() -> bool {
    let said = std::env::var("BPFTRACE_COLOR");
    match said.as_deref() {
        Ok("always") => true,
        Ok("never") => false,
        _ => colour(std::io::stderr().is_terminal()),
    }
}

/// Whether terminals show escape sequences as they are: `TERM` is `dumb`, or not set.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|kind| kind.is_empty() || kind == "dumb")
}

/// Formats diagnostics about a text of the command line.
pub(crate) fn diagnostics(all: &[Diagnostic], source: &str) -> String {
    diagnostics_in("<event>", all, source)
}

/// Formats diagnostics about a text of a file.
pub(crate) fn diagnostics_in(file: &str, all: &[Diagnostic], source: &str) -> String {
    let style = Style {
        colour: colour_of_messages(),
    };
    render(all, file, source, style).trim_end().to_owned()
}

/// Formats diagnostics about a text as bpftrace does.
pub(crate) fn diagnostics_as_bpftrace(file: &str, all: &[Diagnostic], source: &str) -> String {
    let style = Style {
        colour: colour_of_messages(),
    };
    render_as_bpftrace(all, file, source, style).trim_end().to_owned()
}

/// The system's words for an error, without its number: `No such file or directory`.
pub(crate) fn system_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// Formats a size: `4.0 MiB`.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{n} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// Formats the time between two moments in ns since 1970: `3 h 5 min ago`.
pub(crate) fn ago(then: u64, now: u64) -> String {
    let seconds = now.saturating_sub(then) / 1_000_000_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s ago"),
        (0, 0, _) => format!("{minutes} min {} s ago", seconds % 60),
        (0, _, _) => format!("{hours} h {} min ago", minutes % 60),
        _ => format!("{days} d {} h ago", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(4 << 20), "4.0 MiB");
        assert_eq!(ago(0, 59_000_000_000), "59 s ago");
        assert_eq!(ago(0, 7_500_000_000_000), "2 h 5 min ago");
    }
}
