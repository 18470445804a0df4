//! The loop over keys, ticks and signals of a view that fills the terminal.

use super::full_screen::FullScreen;
use crate::exit::Failure;
use ratatui::Frame;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// A view that fills the terminal.
pub(crate) trait View {
    /// Draws what there is; nothing is computed that a test of the view's data would not see.
    fn draw(&mut self, frame: &mut Frame<'_>);

    /// Answers a key. Ctrl-C, Ctrl-Z and Ctrl-L are answered by the loop.
    fn key(&mut self, key: KeyEvent) -> Result<AfterKey, Failure>;

    /// Goes on with the work; returns the time until the next tick, `None` if there is nothing to do until a key is pressed. The first comes at once.
    fn tick(&mut self) -> Result<Option<Duration>, Failure>;

    /// Descriptors whose readability brings a tick at once.
    fn bells(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }
}

/// Next step after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterKey {
    /// The view goes on, and is drawn anew.
    Stay,
    /// The view goes on, and gets a tick at once.
    Tick,
    /// The view ends.
    Quit,
}

/// Fills the terminal with a view until a key or a signal ends it. Whatever happens, the terminal is given back as it was before this returns.
pub(crate) fn fill(view: &mut dyn View) -> Result<(), Failure> {
    let mut screen = FullScreen::enter()?;
    let mut next = Some(Instant::now());
    loop {
        if next.is_some_and(|next| next <= Instant::now()) {
            next = view.tick()?.map(|after| Instant::now() + after);
        }
        screen.draw(view)?;
        let (woken, rung) = {
            let bells = view.bells();
            // Sleeping ends with keys and time as well, so the bells are asked once more.
            let woken = screen.sleep(next, &bells)?;
            let rung = !bells.is_empty() && kestrel::kernel::readable::wait(&bells, Duration::ZERO);
            (woken, rung)
        };
        if woken.ended {
            return Ok(());
        }
        if woken.paused {
            screen.pause()?;
        }
        if rung {
            next = Some(Instant::now());
        }
        for event in woken.events {
            let Event::Key(key) = event else { continue };
            // Some terminals report the release of a key as an event of its own.
            if key.kind == KeyEventKind::Release {
                continue;
            }
            let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('c') if is_control => return Ok(()),
                KeyCode::Char('z') if is_control => screen.pause()?,
                KeyCode::Char('l') if is_control => screen.clear()?,
                _ => match view.key(key)? {
                    AfterKey::Stay => {}
                    AfterKey::Tick => next = Some(Instant::now()),
                    AfterKey::Quit => return Ok(()),
                },
            }
        }
    }
}
