//! The line that work in the foreground keeps on a terminal while it runs: what it has so far, and how it ends.
//!
//! It stands on stderr, is drawn anew at most four times a second, and is erased before anything else is printed: what prints while it may be shown
//! does so by [`StatusLine::aside`]. There is none where stderr is no terminal, and none where others write there: a traced command has the terminal for
//! itself, and so has what reads our output through a pipe. In the background of a shell it is not drawn.

use crate::screen::is_quiet;
use crate::style::{bytes, is_dumb};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kestrel::kernel::{Host, procfs};
use kestrel::session::Session;
use kestrel_trace::print::{counted, thousands};
use std::cell::RefCell;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The time between two drawings.
const PERIOD: Duration = Duration::from_millis(250);
/// The shortest time between two questions to the kernel about missed hits.
const MISSED_PERIOD: Duration = Duration::from_secs(1);
/// They are at least this many times as far apart as an answer takes, so that asking costs 2 % of a CPU at most.
const MISSED_COST_FACTOR: u32 = 50;

/// The line, shared by who draws it and who prints beside it.
#[derive(Clone, Default)]
pub(crate) struct StatusLine {
    shown: Option<Rc<RefCell<Shown>>>,
}

struct Shown {
    /// `recording` or the like.
    doing: &'static str,
    begun: Instant,
    /// Time that it will take, where that is known.
    duration: Option<Duration>,
    drawn: Instant,
    /// On the screen now.
    bar: Option<ProgressBar>,
}

/// Progress figures of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    pub(crate) lost: u64,
    pub(crate) overwritten: u64,
    pub(crate) missed: u64,
}

impl Figures {
    /// `1,234 events, 25.0 KiB, lost 0, missed 0`.
    pub(crate) fn text(&self) -> String {
        let overwritten = match self.overwritten {
            0 => String::new(),
            some => format!(", overwritten {}", thousands(some)),
        };
        format!(
            "{}, {}, lost {}, missed {}{overwritten}",
            counted(self.events, "event"),
            bytes(self.bytes),
            thousands(self.lost),
            thousands(self.missed)
        )
    }
}

impl StatusLine {
    /// A line that says what is done, if stderr is a terminal of which nothing else makes use.
    pub(crate) fn new(doing: &'static str, duration: Option<Duration>, is_shared: bool) -> Self {
        if is_shared || is_quiet() || is_dumb() || !std::io::stderr().is_terminal() {
            return Self::default();
        }
        let now = Instant::now();
        let shown = Shown {
            doing,
            begun: now,
            duration,
            drawn: now,
            bar: None,
        };
        Self {
            shown: Some(Rc::new(RefCell::new(shown))),
        }
    }

    /// Draws the line anew if it is time to; `what` gives what it says of the work.
    pub(crate) fn draw(&self, what: impl FnOnce() -> String) {
        let Some(shown) = &self.shown else { return };
        let mut shown = shown.borrow_mut();
        if shown.drawn.elapsed() < PERIOD {
            return;
        }
        shown.drawn = Instant::now();
        if is_in_background() {
            // A bar that is dropped erases its line, which is the shell's by now.
            if let Some(bar) = shown.bar.take() {
                bar.set_draw_target(ProgressDrawTarget::hidden());
            }
            return;
        }
        let text = shown.text(&what());
        shown.bar.get_or_insert_with(blank).set_message(text);
    }

    /// Prints something with the status line out of its way.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.erase();
        print()
    }

    /// Takes the line off the screen, until it is drawn again.
    pub(crate) fn erase(&self) {
        let shown = self.shown.as_ref();
        if let Some(bar) = shown.and_then(|shown| shown.borrow_mut().bar.take()) {
            bar.finish_and_clear();
        }
    }
}

impl Shown {
    /// `recording 3 of 10 s: 1,234 events, 25.0 KiB, lost 0, missed 0; Ctrl-C ends`.
    fn text(&self, what: &str) -> String {
        let elapsed = self.begun.elapsed().as_secs();
        let of = self
            .duration
            .map(|duration| format!(" of {}", duration.as_secs()));
        let what = if what.is_empty() {
            String::new()
        } else {
            format!(": {what}")
        };
        format!(
            "{} {elapsed}{} s{what}; Ctrl-C ends",
            self.doing,
            of.unwrap_or_default()
        )
    }
}

/// A line with nothing in it yet; what does not fit into the terminal's width is cut.
fn blank() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
        bar.set_style(style);
    }
    bar
}

/// Whether a shell has put us into its background: the terminal is another program's.
fn is_in_background() -> bool {
    procfs::is_in_background(&Host::default(), std::process::id()).unwrap_or(false)
}

/// Whether standard output is a terminal, or a pipe to a program that may write to ours.
pub(crate) fn is_output_shared() -> bool {
    use std::os::unix::fs::FileTypeExt;
    let out = std::io::stdout();
    let file = out.as_fd().try_clone_to_owned().map(std::fs::File::from);
    let kind = file.and_then(|file| file.metadata()).map(|it| it.file_type());
    out.is_terminal() || kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
}

/// The missed hits of a session, asked for so seldom that asking costs next to nothing.
#[derive(Debug, Default)]
pub(crate) struct MissedSoFar {
    hits: u64,
    next: Option<Instant>,
}

impl MissedSoFar {
    /// Count at the last time that the kernel was asked.
    pub(crate) fn of(&mut self, session: &Session) -> u64 {
        let begun = Instant::now();
        if self.next.is_some_and(|next| begun < next) {
            return self.hits;
        }
        if let Ok(all) = session.missed() {
            self.hits = all.iter().filter_map(|missed| missed.count.as_ref().ok()).sum();
        }
        let cost = begun.elapsed();
        self.next = Some(begun + MISSED_PERIOD.max(cost * MISSED_COST_FACTOR));
        self.hits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_counts_and_the_key_that_ends_it() {
        let shown = |duration| Shown {
            doing: "recording",
            begun: Instant::now(),
            duration,
            drawn: Instant::now(),
            bar: None,
        };
        let mut figures = Figures {
            events: 1234,
            bytes: 25 << 10,
            ..Figures::default()
        };
        assert_eq!(
            shown(None).text(&figures.text()),
            "recording 0 s: 1,234 events, 25.0 KiB, lost 0, missed 0; Ctrl-C ends"
        );
        figures.overwritten = 5;
        assert_eq!(
            shown(Some(Duration::from_secs(10))).text(&figures.text()),
            "recording 0 of 10 s: 1,234 events, 25.0 KiB, lost 0, missed 0, overwritten 5; Ctrl-C ends"
        );
        assert_eq!(shown(None).text(""), "recording 0 s; Ctrl-C ends");
    }

    #[test]
    fn a_terminal_that_is_shared_has_none() {
        let line = StatusLine::new("recording", None, true);
        line.draw(|| unreachable!("nothing is asked for a line that is not shown"));
        assert_eq!(line.aside(|| 5), 5);
    }
}
