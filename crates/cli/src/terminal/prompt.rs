//! A line that is typed: a filter, an expression.

use super::{KeyCode, KeyEvent, KeyModifiers};

/// A line under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prompt {
    text: String,
    /// The byte before which the next character comes.
    at: usize,
}

/// Effect of a key on the edited line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edited {
    /// The text is still being typed.
    More,
    /// The text is complete (Enter).
    Done,
    /// The prompt is cancelled (Esc).
    Dropped,
}

impl Prompt {
    /// A line that has some text already.
    pub(crate) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            at: text.len(),
        }
    }

    /// The text so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Number of characters before the cursor.
    pub(crate) fn column(&self) -> usize {
        self.text[..self.at].chars().count()
    }

    /// Takes a key, as shells do.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Edited {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return Edited::Done,
            KeyCode::Esc => return Edited::Dropped,
            KeyCode::Char('a') if is_control => self.at = 0,
            KeyCode::Char('e') if is_control => self.at = self.text.len(),
            KeyCode::Char('u') if is_control => {
                self.text.drain(..self.at);
                self.at = 0;
            }
            KeyCode::Char('w') if is_control => {
                let before = self.text[..self.at].trim_end();
                let begin = before.rfind(' ').map_or(0, |space| space + 1);
                self.text.drain(begin..self.at);
                self.at = begin;
            }
            KeyCode::Char(c) if !is_control => {
                self.text.insert(self.at, c);
                self.at += c.len_utf8();
            }
            KeyCode::Home => self.at = 0,
            KeyCode::End => self.at = self.text.len(),
            KeyCode::Left => self.at -= self.before(),
            KeyCode::Right => self.at += self.after(),
            KeyCode::Backspace => {
                let begin = self.at - self.before();
                self.text.drain(begin..self.at);
                self.at = begin;
            }
            KeyCode::Delete => {
                let length = self.after();
                self.text.drain(self.at..self.at + length);
            }
            _ => {}
        }
        Edited::More
    }

    /// The length of the character before the cursor.
    fn before(&self) -> usize {
        self.text[..self.at].chars().next_back().map_or(0, char::len_utf8)
    }

    /// The length of the character behind the cursor.
    fn after(&self) -> usize {
        self.text[self.at..].chars().next().map_or(0, char::len_utf8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::testing::{control, press};

    #[test]
    fn a_line_is_typed_as_in_a_shell() {
        let mut prompt = Prompt::new("ä b");
        for (key, text, column) in [
            (press(KeyCode::Char('c')), "ä bc", 4),
            (press(KeyCode::Backspace), "ä b", 3),
            (press(KeyCode::Home), "ä b", 0),
            (press(KeyCode::Left), "ä b", 0),
            (press(KeyCode::Backspace), "ä b", 0),
            (press(KeyCode::Right), "ä b", 1),
            (press(KeyCode::Delete), "äb", 1),
            (control('e'), "äb", 2),
            (press(KeyCode::Delete), "äb", 2),
            (press(KeyCode::Char(' ')), "äb ", 3),
            (press(KeyCode::Char('x')), "äb x", 4),
            (control('w'), "äb ", 3),
            (control('w'), "", 0),
            (press(KeyCode::Char('y')), "y", 1),
            (control('u'), "", 0),
        ] {
            assert_eq!(prompt.key(key), Edited::More);
            assert_eq!((prompt.text(), prompt.column()), (text, column), "{key:?}");
        }
        assert_eq!(prompt.key(press(KeyCode::Enter)), Edited::Done);
        assert_eq!(prompt.key(press(KeyCode::Esc)), Edited::Dropped);
    }
}
