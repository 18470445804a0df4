//! The list of records as lines, of which a window around the screen is in memory; others are read when they are scrolled to.

use super::answer::{Line, Lines};
use super::index::Index;
use crate::terminal::{KeyCode, KeyEvent};
use kestrel_trace::export::Style;

/// The list of records: the view's place in it, and the lines at that place.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Number of the chosen record; the first is 0.
    pub(crate) at: u64,
    /// Number of the first record on the screen.
    pub(crate) top: u64,
    /// Number of characters scrolled to the right.
    pub(crate) left: usize,
    /// Number of lines of the screen.
    height: u64,
    /// The number of the first line in memory.
    first: u64,
    lines: Vec<Line>,
    /// Style of times.
    style: Style,
}

/// Lines that are read at once.
const WINDOW: u64 = 1024;
/// Characters that one key scrolls to the side.
const SIDE: usize = 8;

impl Records {
    /// The list at its first record, with times in this style.
    pub(crate) fn new(style: Style) -> Self {
        Self {
            style,
            ..Self::default()
        }
    }

    /// Answers a key that moves; false if it means something else.
    pub(crate) fn key(&mut self, key: KeyEvent, total: u64) -> bool {
        let page = self.height.max(2) - 1;
        let last = total.saturating_sub(1);
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.at = self.at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.at += 1,
            KeyCode::PageUp => {
                self.at = self.at.saturating_sub(page);
                self.top = self.top.saturating_sub(page);
            }
            KeyCode::PageDown | KeyCode::Char(' ') => {
                self.at += page;
                self.top += page;
            }
            KeyCode::Home | KeyCode::Char('g') => self.at = 0,
            KeyCode::End | KeyCode::Char('G') => self.at = last,
            KeyCode::Left | KeyCode::Char('h') => self.left = self.left.saturating_sub(SIDE),
            KeyCode::Right | KeyCode::Char('l') => self.left += SIDE,
            _ => return false,
        }
        self.at = self.at.min(last);
        self.settle(total);
        true
    }

    /// Sets the number of lines of the screen.
    pub(crate) fn fit(&mut self, height: u64, total: u64) {
        self.height = height;
        self.settle(total);
    }

    /// Brings the chosen record onto the screen.
    fn settle(&mut self, total: u64) {
        let height = self.height.max(1);
        self.top = self
            .top
            .min(self.at)
            .max((self.at + 1).saturating_sub(height))
            .min(total.saturating_sub(height));
    }

    /// Goes to a record.
    pub(crate) fn go(&mut self, number: u64, total: u64) {
        self.at = number.min(total.saturating_sub(1));
        self.settle(total);
    }

    /// Records to read so that the screen can be drawn; none where all of its lines are in memory.
    pub(crate) fn wanted(&self, index: &Index) -> Option<Lines> {
        let end = (self.top + self.height.max(1)).min(index.records());
        let there = self.first..self.first + self.lines.len() as u64;
        if self.top >= end || there.contains(&self.top) && there.contains(&(end - 1)) {
            return None;
        }
        let first = self.top.saturating_sub(WINDOW / 2);
        Some(Lines {
            checkpoint: index.checkpoint_before(first)?,
            first,
            count: WINDOW.max(2 * self.height),
            style: self.style,
        })
    }

    /// Records to read for all of the chosen record.
    pub(crate) fn detail(&self, index: &Index) -> Option<Lines> {
        Some(Lines {
            checkpoint: index.checkpoint_before(self.at)?,
            first: self.at,
            count: 1,
            style: self.style,
        })
    }

    /// Takes the lines of a window that was read.
    pub(crate) fn take(&mut self, first: u64, lines: Vec<Line>) {
        (self.first, self.lines) = (first, lines);
    }

    /// Changes the style of times: lines are to be read anew.
    pub(crate) fn restyle(&mut self, style: Style) {
        self.style = style;
        self.lines.clear();
    }

    /// A record's line, if it is in memory.
    pub(crate) fn line(&self, number: u64) -> Option<&Line> {
        let place = number.checked_sub(self.first)?;
        self.lines.get(usize::try_from(place).ok()?)
    }

    /// Number of lines in memory.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.lines.len()
    }
}
