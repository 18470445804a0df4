//! Views that fill the terminal: taken and given back whatever happens, the loop over keys and ticks, tables that are sorted, filtered and walked through.
//!
//! A command implements [`View`] and calls [`fill`]: what it shows is plain data that its tests look at, drawn by [`draw`]. Text of others is escaped where it
//! becomes a [`Cell`] or passes [`line()`]. Colours stand in [`theme`] alone, and none is needed to read a view.

mod draw;
mod full_screen;
mod help_window;
pub(crate) mod keys;
mod prompt;
mod table;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod theme;
mod view;

pub(crate) use draw::{Help, draw_table, folded, key_line, line, prompt_line, wrapped};
pub(crate) use full_screen::is_possible;
pub(crate) use help_window::HelpWindow;
pub(crate) use prompt::{Edited, Prompt};
pub(crate) use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
pub(crate) use table::{Cell, Column, Row, Table};
pub(crate) use view::{AfterKey, View, fill};
