//! Styles of views, without colours where `NO_COLOR` is set.

use crate::style::colour;
use ratatui::style::{Color, Modifier, Style};

/// A style with a colour, where colours are wanted.
fn coloured(style: Style, tint: Color) -> Style {
    match colour(true) {
        true => style.fg(tint),
        false => style,
    }
}

/// Style of a title.
pub(crate) fn title() -> Style {
    coloured(Style::new().add_modifier(Modifier::BOLD), Color::Cyan)
}

/// Style of column names.
pub(crate) fn head() -> Style {
    Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
}

/// Style of the name of the column that rows are sorted by: seen without colours, too.
pub(crate) fn sorted() -> Style {
    coloured(head().add_modifier(Modifier::REVERSED), Color::Yellow)
}

/// Style of the chosen row.
pub(crate) fn chosen() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

/// Style of a key in the line of keys.
pub(crate) fn key() -> Style {
    coloured(Style::new().add_modifier(Modifier::BOLD), Color::Cyan)
}

/// Style of secondary text.
pub(crate) fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// Style of losses and errors.
pub(crate) fn alarm() -> Style {
    coloured(Style::new().add_modifier(Modifier::BOLD), Color::Red)
}

/// Style of bars.
pub(crate) fn bar() -> Style {
    coloured(Style::new(), Color::Green)
}
