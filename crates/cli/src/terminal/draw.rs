//! Drawing of the parts of a view: tables, the line of keys.

use super::keys::HELP;
use super::prompt::Prompt;
use super::table::{Column, NARROWEST, Row, Table};
use super::theme;
use kestrel_trace::print::shown;
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// Spaces between columns.
const GAP: usize = 2;

/// A line of text from elsewhere, with control characters escaped so that the terminal does not obey them.
pub(crate) fn line(text: &str, style: Style) -> Line<'static> {
    Line::styled(shown(text).into_owned(), style)
}

/// A text from elsewhere as lines of a width, broken between words; what `max_lines` lines have no room for is cut, with a mark.
pub(crate) fn wrapped(text: &str, (width, max_lines): (usize, usize), style: Style) -> Vec<Line<'static>> {
    let text = shown(text);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.len() == max_lines;
        match lines.last_mut() {
            Some(line) if !line.is_empty() && (last || length(line) + 1 + length(word) <= width) => {
                line.push(' ');
                line.push_str(word);
            }
            Some(line) if line.is_empty() => line.push_str(word),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
        .iter()
        .map(|line| Line::styled(cut(line, width), style))
        .collect()
}

/// The lines that a text takes where so many columns are free: folded at blanks, and within words that are longer than a line.
pub(crate) fn folded(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    // Where the line can be folded: behind its last blank.
    let mut blank = 0;
    for letter in shown(text).chars() {
        line.push(letter);
        if length(&line) > width.max(1) && line.chars().nth(1).is_some() {
            let at = match blank {
                0 => line.len() - letter.len_utf8(),
                blank => blank,
            };
            let rest = line.split_off(at);
            lines.push(std::mem::replace(&mut line, rest));
            blank = 0;
        }
        if letter == ' ' && !line.trim().is_empty() {
            blank = line.len();
        }
    }
    lines.push(line);
    lines
}

/// Draws a table: the names of its columns, and as many rows as have room, the chosen one among them. Columns that have no room are left out on the right.
pub(crate) fn draw_table(frame: &mut Frame<'_>, area: Rect, table: &mut Table) {
    if area.height == 0 || area.width == 0 {
        return;
    }
    let room = usize::from(area.height) - 1;
    table.window.rows = room;
    let last_first = table.shown().len().saturating_sub(room);
    let place = table.place();
    let window = &mut table.window;
    // The window moves no further than the chosen row needs, and never beyond the last full page.
    window.first = window
        .first
        .min(place)
        .max((place + 1).saturating_sub(room))
        .min(last_first);
    let first = window.first;
    let widths = widths(table, room, usize::from(area.width));
    let sorted = table.sort().map(|(column, _)| column);
    let head: Vec<Span<'_>> = (table.columns().iter().zip(&widths).enumerate())
        .filter(|(_, (_, width))| **width > 0)
        .flat_map(|(at, (column, width))| {
            let style = match sorted == Some(at) {
                true => theme::sorted(),
                false => theme::head(),
            };
            let (before, text, after) = aligned(&column.name, *width, column.right);
            [
                Span::raw(before),
                Span::styled(text, style),
                Span::raw(after + &" ".repeat(GAP)),
            ]
        })
        .collect();
    let mut lines = vec![Line::from(head)];
    for (at, row) in table.shown().enumerate().skip(first).take(room) {
        let style = match (at == place, row.alarm) {
            (true, _) => theme::chosen(),
            (false, true) => theme::alarm(),
            (false, false) => Style::new(),
        };
        lines.push(Line::styled(
            row_text(table, row, &widths, usize::from(area.width)),
            style,
        ));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// A row as one text as wide as the line, so that the colour of the chosen row reaches across.
fn row_text(table: &Table, row: &Row, widths: &[usize], width: usize) -> String {
    let mut text = String::new();
    let cells = table.columns().iter().zip(&row.cells).zip(widths);
    for ((column, cell), width) in cells.filter(|(_, width)| **width > 0) {
        let (before, cell, after) = aligned(&cell.text, *width, column.right);
        text.extend([before, cell, after, " ".repeat(GAP)]);
    }
    let free = width.saturating_sub(length(&text));
    text + &" ".repeat(free)
}

/// A text with the spaces before and behind it that make it `width` columns wide; a longer text is cut, with a mark.
fn aligned(text: &str, width: usize, right: bool) -> (String, String, String) {
    let free = width.saturating_sub(length(text));
    let text = cut(text, width);
    match right {
        true => (" ".repeat(free), text, String::new()),
        false => (String::new(), text, " ".repeat(free)),
    }
}

/// Number of the terminal's columns that a text takes.
fn length(text: &str) -> usize {
    match text.is_ascii() {
        true => text.len(),
        false => Span::raw(text).width(),
    }
}

/// Cuts a text to a width, with a mark where it is cut.
fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut free = width.saturating_sub(1);
    for c in text.chars() {
        let wide = length(c.encode_utf8(&mut [0; 4]));
        if wide > free {
            break;
        }
        free -= wide;
        kept.push(c);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// Widths of the columns that are shown. A column is as wide as it has ever been, so that columns do not jump; where the line is too short, columns of text
/// are narrowed, and then the last columns left out.
fn widths(table: &mut Table, room: usize, width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = table.columns().iter().map(|it| length(&it.name)).collect();
    for (kept, before) in widths.iter_mut().zip(&table.window.widths) {
        *kept = (*kept).max(*before);
    }
    for row in table.shown().skip(table.window.first).take(room) {
        for (width, cell) in widths.iter_mut().zip(&row.cells) {
            *width = (*width).max(length(&cell.text));
        }
    }
    table.window.widths.clone_from(&widths);
    let columns = table.columns();
    let natural = widths.clone();
    narrow(columns, &mut widths, width);
    // Spare columns go first, the last of them before the others.
    let spare = columns.iter().enumerate().filter(|(_, column)| column.is_spare);
    let mut left_out = Vec::new();
    for (at, _) in spare.rev() {
        if total(&widths) <= width {
            break;
        }
        left_out.push(at);
        widths.clone_from(&natural);
        for at in &left_out {
            widths[*at] = 0;
        }
        narrow(columns, &mut widths, width);
    }
    while widths.len() > 1 && total(&widths) > width {
        // The first number is worth more than the end of a long name.
        let is_name = columns.first().is_some_and(|column| !column.right);
        if widths.len() == 2 && is_name && widths[0] > NARROWEST {
            widths[0] -= 1;
        } else {
            widths.pop();
        }
    }
    if let [only] = widths.as_mut_slice() {
        *only = (*only).min(width);
    }
    widths
}

/// How wide columns are together; those that are left out have no width.
fn total(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0);
    shown.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Narrows columns of text, the widest first, until all fit or none can be narrower.
fn narrow(columns: &[Column], widths: &mut [usize], width: usize) {
    while total(widths) > width {
        let texts = columns.iter().zip(widths.iter_mut());
        let texts = texts.filter(|(column, width)| !column.right && **width > column.least);
        let Some((_, widest)) = texts.max_by_key(|(_, width)| **width) else {
            break;
        };
        *widest -= 1;
    }
}

/// A key and its description, for the line of keys and for the help.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Help {
    /// The key's name: `Enter`, `/`.
    pub(crate) key: &'static str,
    /// The effect, in one or two words.
    pub(crate) brief: &'static str,
    /// The effect, in a sentence.
    pub(crate) about: &'static str,
}

/// Draws the line of keys, as many as have room and always the one that shows all; or the filter that is being typed, with the cursor in it.
pub(crate) fn key_line(frame: &mut Frame<'_>, area: Rect, keys: &[Help], table: Option<&Table>) {
    if let Some(prompt) = table.and_then(Table::prompt) {
        return prompt_line(frame, area, "filter: ", prompt);
    }
    let mut spans = Vec::new();
    let wide = |help: &Help| help.key.chars().count() + help.brief.chars().count() + 3;
    let all = keys.iter().find(|help| help.key == HELP.key);
    let mut free = usize::from(area.width).saturating_sub(all.map_or(0, wide));
    let others = keys.iter().filter(|help| help.key != HELP.key);
    let others = others.take_while(|help| {
        let has_room = wide(help) <= free + 2;
        free = free.saturating_sub(wide(help));
        has_room
    });
    for help in others.chain(all) {
        spans.push(Span::styled(help.key, theme::key()));
        spans.push(Span::raw(format!(" {}  ", help.brief)));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

/// Draws a line that is being typed, behind the words `what`, with the cursor in it; the end of a long one.
pub(crate) fn prompt_line(frame: &mut Frame<'_>, area: Rect, what: &str, prompt: &Prompt) {
    let text = format!("{}{}", shown(what), shown(prompt.text()));
    let before = length(&shown(what)) + prompt.column();
    let hidden = (before + 1).saturating_sub(usize::from(area.width));
    let visible: String = text.chars().skip(hidden).collect();
    frame.render_widget(Paragraph::new(visible), area);
    let column = u16::try_from(before - hidden).unwrap_or(u16::MAX);
    frame.set_cursor_position(Position::new(area.x.saturating_add(column), area.y));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::testing::{drawn, press};
    use crate::terminal::{Cell, Column, KeyCode};

    #[test]
    fn long_lines_are_folded_at_blanks_or_within_a_word() {
        assert_eq!(folded("", 10), [""]);
        assert_eq!(folded("as long as", 10), ["as long as"]);
        assert_eq!(folded("one two three", 10), ["one two ", "three"]);
        assert_eq!(folded("abcdefghijklm", 5), ["abcde", "fghij", "klm"]);
        assert_eq!(folded("x abcdefghijklm", 5), ["x ", "abcde", "fghij", "klm"]);
        assert_eq!(folded("ääää", 2), ["ää", "ää"]);
        assert_eq!(folded("ab", 0), ["a", "b"]);
    }

    fn table() -> Table {
        let columns = [
            Column::text("event"),
            Column::number("per second"),
            Column::number("total"),
        ];
        let mut table = Table::new(columns).sorted_by(2);
        let row = |name: &str, rate, total| {
            Row::new(name, [Cell::text(name), Cell::count(rate), Cell::count(total)])
        };
        table.set_rows(vec![
            row("sched:sched_switch", 12, 34567),
            row("a", 1, 2),
            row("\x1b[2Jä", 1, 1),
        ]);
        table
    }

    fn picture(table: &mut Table, columns: u16, lines: u16) -> String {
        drawn(columns, lines, |frame| draw_table(frame, frame.area(), table))
    }

    #[test]
    fn columns_are_aligned_and_texts_are_harmless() {
        assert_eq!(
            picture(&mut table(), 50, 5),
            "event               per second   total\n\
             sched:sched_switch          12  34,567\n\
             a                            1       2\n\
             \\x1b[2Jä                     1       1\n\n"
        );
    }

    #[test]
    fn where_there_is_no_room_texts_are_cut_and_columns_left_out() {
        assert_eq!(
            picture(&mut table(), 34, 2),
            "event           per second   total\nsched:sched_s…          12  34,567\n"
        );
        assert_eq!(
            picture(&mut table(), 26, 2),
            "event         per second\nsched:sched…          12\n"
        );
        assert_eq!(picture(&mut table(), 5, 2), "event\nsche…\n");
        assert_eq!(picture(&mut table(), 1, 1), "…\n");
    }

    #[test]
    fn names_of_events_keep_most_of_theirs() {
        let columns = [
            Column::event("event"),
            Column::number("events"),
            Column::number("share"),
            Column::text("").spare(),
        ];
        let row = ["syscalls:sys_enter_readlinkat", "781", "44.5 %", "██████████"];
        let mut events = Table::new(columns);
        events.set_rows(vec![Row::new("", row.map(Cell::text))]);
        assert_eq!(
            picture(&mut events, 40, 2),
            "event                     events   share\nsyscalls:sys_enter_read…     781  44.5 %\n"
        );
    }

    #[test]
    fn columns_with_a_least_width_are_not_cut() {
        let row = [
            Cell::text("sched:sched_waking to sched_switch"),
            Cell::count(3),
            Cell::count(77),
        ];
        let columns = [
            Column::text("from, to").at_least(34),
            Column::number("count"),
            Column::number("ns"),
        ];
        let mut pairs = Table::new(columns);
        pairs.set_rows(vec![Row::new("", row)]);
        assert_eq!(
            picture(&mut pairs, 44, 2),
            "from, to                            count\nsched:sched_waking to sched_switch      3\n"
        );
        assert_eq!(
            picture(&mut pairs, 30, 2),
            "from, to                 count\nsched:sched_waking to …      3\n"
        );
        let columns = [
            Column::number("self"),
            Column::text("command").spare(),
            Column::text("binary").spare(),
            Column::text("symbol"),
        ];
        let mut graph = Table::new(columns);
        let cells = ["9 %", "cat", "/usr/bin/cat", "do_syscall_64"].map(Cell::text);
        graph.set_rows(vec![Row::new("", cells)]);
        assert_eq!(
            picture(&mut graph, 46, 2),
            "self  command  binary        symbol\n 9 %  cat      /usr/bin/cat  do_syscall_64\n"
        );
        assert_eq!(
            picture(&mut graph, 30, 2),
            "self  command  symbol\n 9 %  cat      do_syscall_64\n"
        );
        assert_eq!(picture(&mut graph, 20, 2), "self  symbol\n 9 %  do_syscall_64\n");
    }

    #[test]
    fn the_chosen_row_is_on_the_screen() {
        let mut table = table();
        table.key(press(KeyCode::End));
        let shown = picture(&mut table, 40, 3);
        assert!(shown.contains('ä') && !shown.contains("sched"), "{shown}");
        // With more room there are no empty lines at the end while rows above are hidden.
        assert!(picture(&mut table, 40, 4).contains("sched"));
    }

    #[test]
    fn wide_characters_take_their_room() {
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(length("日本語"), 6);
    }

    #[test]
    fn keys_that_have_no_room_are_left_out() {
        const KEYS: &[Help] = &[
            Help {
                key: "q",
                brief: "quit",
                about: "quits",
            },
            Help {
                key: "Enter",
                brief: "into",
                about: "goes into the event",
            },
        ];
        let keys = |width| drawn(width, 1, |frame| key_line(frame, frame.area(), KEYS, None));
        assert_eq!(keys(30), "q quit  Enter into\n");
        assert_eq!(keys(15), "q quit\n");
        let with_help = [KEYS, &[HELP]].concat();
        let keys = |width| drawn(width, 1, |frame| key_line(frame, frame.area(), &with_help, None));
        assert_eq!(keys(40), "q quit  Enter into  ? help\n");
        assert_eq!(keys(18), "q quit  ? help\n");
        assert_eq!(keys(8), "? help\n");
        let mut table = table();
        table.key(press(KeyCode::Char('/')));
        table.key(press(KeyCode::Char('a')));
        let typed = drawn(15, 1, |frame| key_line(frame, frame.area(), KEYS, Some(&table)));
        assert_eq!(typed, "filter: a\n");
    }

    #[test]
    fn a_long_text_is_broken_between_words_and_cut_at_the_last_line() {
        let lines = |width, most| {
            let lines = wrapped("not all hits are \x1b[2J counted", (width, most), Style::new());
            lines.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(lines(80, 3), ["not all hits are \\x1b[2J counted"]);
        assert_eq!(lines(16, 3), ["not all hits are", "\\x1b[2J counted"]);
        assert_eq!(lines(9, 3), ["not all", "hits are", "\\x1b[2J …"]);
        assert_eq!(lines(9, 1), ["not all …"]);
    }
}
