//! The option `--live`: maps and figures shown while they change, redrawn in place on a terminal, one below the other elsewhere.

use crate::exit::{Exit, Failure};
use crate::style::is_dumb;
use clap::Args;
use kestrel::kernel::Host;
use kestrel::session::Session;
use kestrel_trace::aggregate::{Show, shown};
use kestrel_trace::print::{Style, counted};
use ratatui::crossterm::{cursor, queue, terminal};
use std::io::{IsTerminal as _, Write, stdout};
use std::time::{Duration, Instant};

/// Refresh interval of live views.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct LiveOption {
    /// Show what is counted while it changes, every TIME [default: 1s]: redrawn in place on a terminal, below other output
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = interval)]
    live: Option<Duration>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let every = crate::arguments::duration(text)?;
    match every < SHORTEST {
        true => Err("at least 50ms lie between two updates".to_owned()),
        false => Ok(every),
    }
}

/// The shortest time between two updates.
const SHORTEST: Duration = Duration::from_millis(50);

impl LiveOption {
    /// Whether it was given.
    pub(crate) fn is_wanted(&self) -> bool {
        self.live.is_some()
    }

    /// The live view; it shows nothing where the option was not given. Refused beside a command, which would write into it.
    pub(crate) fn view(&self, runs_command: bool) -> Result<Live, Failure> {
        if self.live.is_some() && runs_command && stdout().is_terminal() {
            let message = "--live would draw where the command writes";
            return Err(Failure::new(Exit::Usage, message)
                .hint("run the command in another terminal and name it by -p, or send one of the two elsewhere: `> FILE`"));
        }
        Ok(Live::new(self.live, stdout().is_terminal() && !is_dumb()))
    }
}

/// A live view: text that is shown again whenever it is due.
#[derive(Debug)]
pub(crate) struct Live {
    every: Option<Duration>,
    next: Instant,
    is_terminal: bool,
    /// Lines of it that are on the terminal.
    drawn: u16,
}

impl Live {
    fn new(every: Option<Duration>, is_terminal: bool) -> Self {
        Self {
            every,
            next: Instant::now() + every.unwrap_or_default(),
            is_terminal,
            drawn: 0,
        }
    }

    /// Whether it is time to show it.
    pub(crate) fn is_due(&self) -> bool {
        self.every.is_some() && Instant::now() >= self.next
    }

    /// Shows the text if it is time to.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> Result<String, Failure>) -> Result<(), Failure> {
        let Some(every) = self.every.filter(|_| Instant::now() >= self.next) else {
            return Ok(());
        };
        let text = text()?;
        self.next = Instant::now() + every;
        self.draw(&text)
    }

    /// Takes the text off the terminal: something else is written there now. It comes back below that.
    pub(crate) fn erase(&mut self) -> Result<(), Failure> {
        if self.drawn > 0 {
            let mut out = stdout();
            let up = cursor::MoveUp(std::mem::take(&mut self.drawn));
            queue!(
                out,
                up,
                cursor::MoveToColumn(0),
                terminal::Clear(terminal::ClearType::FromCursorDown)
            )?;
            out.flush()?;
            // At once below what is written.
            self.next = Instant::now();
        }
        Ok(())
    }

    /// A pause, cut where the next update is due before its end.
    pub(crate) fn pause(&self, pause: Duration) -> Duration {
        match self.every {
            Some(_) => pause.min(self.next.saturating_duration_since(Instant::now())),
            None => pause,
        }
    }

    fn draw(&mut self, text: &str) -> Result<(), Failure> {
        let next = self.next;
        self.erase()?;
        self.next = next;
        let mut out = crate::screen::out();
        if !self.is_terminal {
            out.write_all(text.as_bytes())?;
            return Ok(out.flush()?);
        }
        let (columns, lines) = size();
        let fitting = fitting(text, usize::from(columns), usize::from(lines).saturating_sub(1));
        out.write_all(fitting.as_bytes())?;
        out.flush()?;
        self.drawn = u16::try_from(fitting.lines().count()).unwrap_or(u16::MAX);
        Ok(())
    }
}

/// The size of the terminal; the usual one where the terminal does not say.
fn size() -> (u16, u16) {
    let known = terminal::size().ok();
    let known = known.filter(|(columns, lines)| *columns > 0 && *lines > 0);
    known.unwrap_or((80, 24))
}

/// The end of a text, cut to so many columns and lines; no empty line at its end.
fn fitting(text: &str, columns: usize, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    let left_out = all.len().saturating_sub(lines);
    let mut out = String::new();
    for (number, line) in all.iter().skip(left_out).enumerate() {
        let cut: String = match (left_out > 0 && number == 0, line) {
            (true, _) => format!("… {} above", counted(left_out as u64 + 1, "line")),
            (false, line) => line.chars().take(columns.saturating_sub(1)).collect(),
        };
        out.push_str(&cut);
        out.push('\n');
    }
    out
}

/// Contents of a session's maps, those keys of each that have the largest values.
pub(crate) fn maps(session: &Session, host: &Host) -> Result<String, Failure> {
    let snapshots = session.map_snapshots()?;
    let (symbols, _) = kestrel::session::maps::symbols(&snapshots, host, None);
    let show = Show {
        top: MAX_KEYS,
        ..Show::all(Style::MAP)
    };
    let maps = snapshots.iter().filter(|map| !map.is_empty());
    Ok(maps.map(|map| shown(map, show, &symbols)).collect())
}

/// Keys of each map that are shown while it changes; all are at the end.
const MAX_KEYS: u64 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_its_room() {
        assert_eq!(fitting("ab\nc\n\n", 10, 5), "ab\nc\n");
        assert_eq!(fitting("abcdef\nc\n", 4, 5), "abc\nc\n");
        assert_eq!(fitting("a\nb\nc\nd", 20, 2), "… 3 lines above\nd\n");
        assert_eq!(fitting("", 20, 2), "");
    }

    #[test]
    fn it_comes_when_it_is_time_to() {
        let mut live = Live::new(None, false);
        live.show(|| unreachable!("nothing is asked where it is not wanted"))
            .unwrap_or_default();
        assert_eq!(live.pause(Duration::from_secs(5)), Duration::from_secs(5));
        let live = Live::new(Some(Duration::from_secs(1)), false);
        assert!(live.pause(Duration::from_secs(5)) <= Duration::from_secs(1));
    }
}
