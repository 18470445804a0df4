//! The terminal while a full-screen view has it: raw mode and the alternate screen, undone on return, error, panic and signal.

use super::view::View;
use crate::exit::{Exit, Failure};
use crate::style::is_dumb;
use kestrel::kernel::process::TerminalSignals;
use kestrel::kernel::readable;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::{cursor, execute, terminal};
use ratatui::layout::{Position, Rect};
use std::fs::File;
use std::io::{IsTerminal as _, Stdout, Write as _, stdin, stdout};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

/// Escape sequences that restore the terminal: default attributes, a visible cursor, the screen from before.
const RESTORE: &[u8] = b"\x1b[0m\x1b[?25h\x1b[?1049l";

/// Longest sleep where no deadline is given: keys, signals and bells end it earlier.
const LONG: Duration = Duration::from_secs(3600);

/// A terminal that a view has taken over; dropping it gives the terminal back.
pub(super) struct FullScreen {
    /// Never dropped: its destructor writes to the terminal, and panics where both that and standard error are gone.
    screen: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    signals: TerminalSignals,
    /// The terminal opened for reading keys, where standard input is something else.
    keys: Option<File>,
}

/// Why a sleep ended; several causes can hold at once.
#[derive(Debug, Default)]
pub(super) struct WakeCause {
    /// Keys that were pressed, and changes of the terminal's size.
    pub(super) events: Vec<Event>,
    /// Whether a signal asks the program to end.
    pub(super) ended: bool,
    /// Whether a signal asks the program to pause, as Ctrl-Z does.
    pub(super) paused: bool,
}

/// Whether a view can fill the terminal: standard output is a terminal with a known size, and keys can be read.
pub(crate) fn is_possible() -> bool {
    let has_size = || terminal::size().is_ok_and(|(columns, lines)| columns > 0 && lines > 0);
    stdout().is_terminal()
        && !is_dumb()
        && has_size()
        && (stdin().is_terminal() || File::open("/dev/tty").is_ok())
}

impl FullScreen {
    /// Takes the terminal over.
    pub(super) fn enter() -> Result<Self, Failure> {
        let keys = match stdin().is_terminal() {
            true => None,
            false => Some(File::open("/dev/tty").map_err(|error| failure("read keys from", &error))?),
        };
        let signals = TerminalSignals::install(stdout().as_fd(), RESTORE)?;
        let screen = Terminal::new(CrosstermBackend::new(stdout()));
        let mut full = Self {
            screen: ManuallyDrop::new(screen.map_err(|error| failure("use", &error))?),
            signals,
            keys,
        };
        // A panic's message would be on the alternate screen and vanish with it.
        let say = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            say(panic);
        }));
        full.take()?;
        Ok(full)
    }

    /// Draws the view; only what has changed is written to the terminal.
    pub(super) fn draw(&mut self, view: &mut dyn View) -> Result<(), Failure> {
        let drawn = self.screen.draw(|frame| view.draw(frame));
        drawn.map_err(|error| failure("draw on", &error))?;
        Ok(())
    }

    /// Lets the next drawing write everything, for when something else has written to the terminal.
    pub(super) fn clear(&mut self) -> Result<(), Failure> {
        // Not by `Terminal::clear`, which asks the terminal where its cursor is: not every terminal answers.
        let cleared = self
            .screen
            .size()
            .and_then(|size| self.screen.resize(Rect::from((Position::ORIGIN, size))));
        cleared.map_err(|error| failure("clear", &error))
    }

    /// Sleeps until a key is pressed, a signal comes, one of the `bells` becomes readable or the time `until` has come.
    pub(super) fn sleep(
        &self,
        until: Option<Instant>,
        bells: &[BorrowedFd<'_>],
    ) -> Result<WakeCause, Failure> {
        let left = until.map_or(LONG, |until| until.saturating_duration_since(Instant::now()));
        let (input, signals) = (stdin(), self.signals.fd());
        let keys = self.keys.as_ref().map_or(input.as_fd(), File::as_fd);
        let mut awaited = vec![keys, signals];
        awaited.extend(bells);
        readable::wait(&awaited, left);
        self.signals.clear();
        let mut woken = WakeCause {
            // A closed terminal signals the processes of its session alone.
            ended: self.signals.ended() || readable::has_hung_up(keys),
            paused: self.signals.take_pause(),
            ..WakeCause::default()
        };
        let more = || event::poll(Duration::ZERO).map_err(|error| failure("read keys from", &error));
        while !woken.ended && more()? {
            woken
                .events
                .push(event::read().map_err(|error| failure("read keys from", &error))?);
        }
        Ok(woken)
    }

    /// Gives the terminal back, stops the process as Ctrl-Z does, and takes the terminal again when the process is continued.
    pub(super) fn pause(&mut self) -> Result<(), Failure> {
        self.leave();
        self.signals.pause()?;
        self.take()?;
        self.clear()
    }

    /// Enters raw mode and the alternate screen, and holds back remarks on standard error, which would write across the view.
    fn take(&mut self) -> Result<(), Failure> {
        self.signals.set_full_screen(true);
        terminal::enable_raw_mode().map_err(|error| failure("take", &error))?;
        let taken = execute!(stdout(), terminal::EnterAlternateScreen, cursor::Hide);
        taken.map_err(|error| failure("take", &error))?;
        crate::screen::hold_remarks(true);
        Ok(())
    }

    /// Undoes [`Self::take`].
    fn leave(&mut self) {
        give_back();
        self.signals.set_full_screen(false);
        crate::screen::hold_remarks(false);
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Restores the terminal. Errors are ignored: this runs in destructors and panics, where nothing can be done about them.
fn give_back() {
    let _ = stdout().write_all(RESTORE);
    let _ = stdout().flush();
    let _ = terminal::disable_raw_mode();
}

fn failure(action: &str, error: &std::io::Error) -> Failure {
    let message = format!("cannot {action} the terminal: {error}");
    Failure::new(Exit::Failed, message)
}
