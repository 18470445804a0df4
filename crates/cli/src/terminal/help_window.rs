//! The window with all keys of a view: as many lines as have room, broken where they are too long, scrolled by the keys that scroll elsewhere.

use super::draw::{Help, wrapped};
use super::{KeyCode, KeyEvent, theme};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

/// The keys of a view and what each does, over the view.
#[derive(Debug, Default)]
pub(crate) struct HelpWindow {
    /// The first line that is shown.
    first: usize,
    /// Number of lines that fit, and of all; known once it has been drawn.
    room: usize,
    count: usize,
}

impl HelpWindow {
    /// Scrolls where there is more than has room; any other key closes the window. Returns whether it stays open.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        let last = self.count.saturating_sub(self.room);
        self.first = match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.first.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.first + 1,
            KeyCode::PageUp => self.first.saturating_sub(self.room),
            KeyCode::PageDown | KeyCode::Char(' ') => self.first + self.room,
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => return false,
        }
        .min(last);
        true
    }

    /// Draws the window.
    pub(crate) fn draw(&mut self, frame: &mut Frame<'_>, title: &str, keys: &[Help]) {
        let screen = frame.area();
        let names = keys.iter().map(|help| help.key.chars().count());
        let key_width = names.max().unwrap_or(0);
        // A frame, a space on each side, two between the key and what it does.
        let room = usize::from(screen.width).saturating_sub(key_width + 6).max(1);
        let lines: Vec<Line<'_>> = keys
            .iter()
            .flat_map(|help| help_lines(help, key_width, room))
            .collect();
        let width = lines.iter().map(Line::width).max().unwrap_or(0) + 2;
        let width = u16::try_from(width).unwrap_or(u16::MAX).min(screen.width);
        let height = u16::try_from(lines.len() + 2)
            .unwrap_or(u16::MAX)
            .min(screen.height);
        self.count = lines.len();
        self.room = usize::from(height.saturating_sub(2));
        self.first = self.first.min(self.count.saturating_sub(self.room));
        let area = Rect::new(
            screen.x + (screen.width - width) / 2,
            screen.y + (screen.height - height) / 2,
            width,
            height,
        );
        let mut block = Block::bordered().title(format!(" {title} "));
        let end = self.first + self.room;
        if self.count > self.room {
            block = block.title_bottom(format!(
                " lines {} to {end} of {}: ↓ ↑ ",
                self.first + 1,
                self.count
            ));
        }
        let shown: Vec<Line<'_>> = lines.into_iter().skip(self.first).take(self.room).collect();
        frame.render_widget(Clear, area);
        frame.render_widget(Paragraph::new(shown).block(block), area);
    }
}

/// A key, and beside it what it does, in lines of at most `room` columns.
fn help_lines(help: &Help, key_width: usize, room: usize) -> impl Iterator<Item = Line<'static>> {
    let lines = wrapped(help.about, (room, usize::MAX), Style::new());
    lines.into_iter().enumerate().map(move |(number, about)| {
        let key = if number == 0 { help.key } else { "" };
        let free = key_width - key.chars().count();
        let mut parts = vec![
            Span::styled(format!(" {key}{}", " ".repeat(free)), theme::key()),
            Span::raw("  "),
        ];
        parts.extend(about.spans);
        parts.push(Span::raw(" "));
        Line::from(parts)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::keys::help;
    use crate::terminal::testing::{drawn, press};

    const KEYS: &[Help] = &[
        help("q", "quit", "quits"),
        help("Enter", "into", "goes into the event, or back"),
        help("Esc", "back", "the last one"),
    ];

    #[test]
    fn long_lines_are_broken_and_the_last_one_is_reached() {
        let mut window = HelpWindow::default();
        let mut picture = |key: Option<KeyCode>| {
            let is_open = key.is_none_or(|key| window.key(press(key)));
            let shown = drawn(24, 5, |frame| window.draw(frame, "keys", KEYS));
            (shown, is_open)
        };
        let (first, _) = picture(None);
        assert!(
            first.contains("q      quits") && first.contains("lines 1 to 3 of 5"),
            "{first}"
        );
        assert!(!first.contains('…') && !first.contains("the last one"), "{first}");
        let (end, is_open) = picture(Some(KeyCode::PageDown));
        assert!(
            is_open && end.contains("the last one") && !end.contains("quits"),
            "{end}"
        );
        let (up, is_open) = picture(Some(KeyCode::Up));
        assert!(is_open && up.contains("lines 2 to 4 of 5"), "{up}");
        assert!(!picture(Some(KeyCode::Char('q'))).1);
    }

    #[test]
    fn a_window_with_room_for_all_says_nothing_of_lines() {
        let shown = drawn(60, 10, |frame| HelpWindow::default().draw(frame, "keys", KEYS));
        assert!(
            shown.contains("goes into the event, or back") && !shown.contains("lines"),
            "{shown}"
        );
        drawn(3, 2, |frame| HelpWindow::default().draw(frame, "keys", KEYS));
    }
}
