//! Keys and screens for tests of views.

use super::{KeyCode, KeyEvent, KeyModifiers, View};
use ratatui::backend::TestBackend;
use ratatui::{Frame, Terminal};

/// A key without Ctrl or Alt.
pub(crate) fn press(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

/// A letter with Ctrl.
pub(crate) fn control(letter: char) -> KeyEvent {
    KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)
}

/// Text of a view on a screen of so many columns and lines: its lines, without spaces at their ends.
pub(crate) fn picture(view: &mut impl View, columns: u16, lines: u16) -> String {
    drawn(columns, lines, |frame| view.draw(frame))
}

/// Output of a drawing closure, as lines of text.
pub(crate) fn drawn(columns: u16, lines: u16, draw: impl FnOnce(&mut Frame<'_>)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    terminal.draw(draw).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| {
        let cells = (0..columns).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    (0..lines).map(line).collect()
}
