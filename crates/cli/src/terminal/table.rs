//! Tables of views as data: rows with keys that do not change with their values, an order, a filter, the chosen row.

use super::prompt::{Edited, Prompt};
use super::{KeyCode, KeyEvent, KeyModifiers};
use kestrel_trace::print::{shown, thousands};
use std::cmp::Ordering;

/// A column: its name and alignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(super) name: String,
    pub(super) right: bool,
    /// The width below which its texts are not cut.
    pub(super) least: usize,
    /// Whether the column is left out before the columns behind it.
    pub(super) is_spare: bool,
}

/// The width below which a column of text is not cut.
pub(super) const NARROWEST: usize = 12;

/// Such a width for a column of events: their names begin alike (`syscalls:sys_enter_`), and most fit this width.
const EVENT: usize = 24;

impl Column {
    /// A column of names of events.
    pub(crate) fn event(name: &str) -> Self {
        Self::text(name).at_least(EVENT)
    }

    /// A column of text.
    pub(crate) fn text(name: &str) -> Self {
        Self {
            name: shown(name).into_owned(),
            right: false,
            least: NARROWEST,
            is_spare: false,
        }
    }

    /// The column as one that is left out first where the line is too short for all.
    pub(crate) fn spare(self) -> Self {
        Self {
            is_spare: true,
            ..self
        }
    }

    /// The column with at least this width for its texts, before columns of numbers get theirs.
    pub(crate) fn at_least(self, least: usize) -> Self {
        Self { least, ..self }
    }

    /// A column of numbers; rows sorted by it begin with the largest.
    pub(crate) fn number(name: &str) -> Self {
        Self {
            right: true,
            ..Self::text(name)
        }
    }
}

impl Column {
    /// The column's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether its cells are numbers.
    pub(crate) fn is_right(&self) -> bool {
        self.right
    }
}

/// A cell: the text that is shown, free of control characters, and the number that it stands for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(super) text: String,
    number: Option<f64>,
}

impl Cell {
    /// A cell with a text.
    pub(crate) fn text(text: &str) -> Self {
        Self {
            text: shown(text).into_owned(),
            number: None,
        }
    }

    /// A number as a text that shows it.
    pub(crate) fn number(number: f64, text: &str) -> Self {
        Self {
            number: Some(number),
            ..Self::text(text)
        }
    }

    /// A whole number with separators.
    pub(crate) fn count(count: u64) -> Self {
        Self::number(count as f64, &thousands(count))
    }

    /// The cell's text as it is shown.
    pub(crate) fn shown(&self) -> &str {
        &self.text
    }

    /// Numbers by their values and before texts, texts by their letters.
    fn order(&self, other: &Self) -> Ordering {
        match (self.number, other.number) {
            (Some(this), Some(that)) => this.total_cmp(&that),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => self.text.cmp(&other.text),
        }
    }
}

/// A row. Its key identifies it while its values change, and is not shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) key: String,
    pub(crate) cells: Vec<Cell>,
    /// Whether the row is marked as a problem.
    pub(crate) alarm: bool,
}

impl Row {
    /// A row with these cells.
    pub(crate) fn new(key: impl Into<String>, cells: impl Into<Vec<Cell>>) -> Self {
        Self {
            key: key.into(),
            cells: cells.into(),
            alarm: false,
        }
    }
}

/// A table: its rows in order, those that pass the filter, and the chosen one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
    /// The rows that pass the filter, by their places in `rows`, in the order in which they are shown.
    order: Vec<usize>,
    sort: Option<(usize, bool)>,
    filter: String,
    prompt: Option<Prompt>,
    /// The key of the chosen row, and its place among those that are shown.
    chosen: Option<String>,
    at: usize,
    /// The part of it that is drawn.
    pub(super) window: Window,
}

/// The part of a table that is on the screen.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// The first row that is shown.
    pub(super) first: usize,
    /// Number of rows that fit; known once it has been drawn.
    pub(super) rows: usize,
    /// Widest width of each column so far: columns do not jump while values change.
    pub(super) widths: Vec<usize>,
}

impl Table {
    /// A table without rows, which shows rows in the order in which they are given.
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self {
            columns: columns.into(),
            ..Self::default()
        }
    }

    /// The table with its rows sorted by a column: by its largest numbers, or its first texts.
    pub(crate) fn sorted_by(mut self, column: usize) -> Self {
        self.sort_by(column);
        self
    }

    /// The table's columns.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Sorts by a column: by its largest numbers, or its first texts.
    pub(crate) fn sort_by(&mut self, column: usize) {
        let largest_first = self.columns.get(column).is_some_and(|column| column.right);
        self.sort = Some((column, largest_first));
        self.arrange();
    }

    /// The column that rows are sorted by, and whether from its largest down.
    pub(crate) fn sort(&self) -> Option<(usize, bool)> {
        self.sort
    }

    /// Replaces the rows; the chosen row is found again by its key.
    pub(crate) fn set_rows(&mut self, rows: Vec<Row>) {
        self.rows = rows;
        self.arrange();
    }

    /// Shows only rows of which each word of the text is in some cell, in whatever case; of words with `!` before them none is.
    pub(crate) fn set_filter(&mut self, text: &str) {
        self.filter = text.to_owned();
        self.arrange();
    }

    /// The filter that rows have to match.
    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    /// The filter while it is typed.
    pub(crate) fn prompt(&self) -> Option<&Prompt> {
        self.prompt.as_ref()
    }

    /// The rows that pass the filter, in their order.
    pub(crate) fn shown(&self) -> impl ExactSizeIterator<Item = &Row> {
        self.order.iter().map(|at| &self.rows[*at])
    }

    /// Number of rows, with those that do not pass the filter.
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// The row that is chosen.
    pub(crate) fn chosen(&self) -> Option<&Row> {
        self.order.get(self.at).map(|at| &self.rows[*at])
    }

    /// The place of the chosen row among those that are shown.
    pub(crate) fn place(&self) -> usize {
        self.at
    }

    /// Chooses the row at a place among those that are shown, or the last.
    pub(crate) fn choose(&mut self, place: usize) {
        self.at = place.min(self.order.len().saturating_sub(1));
        self.chosen = self.chosen().map(|row| row.key.clone());
    }

    /// Answers a key that moves, sorts or filters; `false` if it means nothing to a table.
    pub(crate) fn key(&mut self, key: KeyEvent) -> bool {
        if self.prompt.is_some() {
            self.typed(key);
            return true;
        }
        if key
            .modifiers
            .intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
        {
            return false;
        }
        let page = self.window.rows.max(2) - 1;
        match key.code {
            KeyCode::Up | KeyCode::Char('k') => self.choose(self.at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose(self.at + 1),
            KeyCode::PageUp => self.choose(self.at.saturating_sub(page)),
            KeyCode::PageDown => self.choose(self.at + page),
            KeyCode::Home | KeyCode::Char('g') => self.choose(0),
            KeyCode::End | KeyCode::Char('G') => self.choose(usize::MAX),
            KeyCode::Char('>') => self.sort_beside(1),
            KeyCode::Char('<') => self.sort_beside(self.columns.len().saturating_sub(1)),
            KeyCode::Char('R') => {
                if let Some((_, largest_first)) = &mut self.sort {
                    *largest_first = !*largest_first;
                    self.arrange();
                }
            }
            KeyCode::Char('/') => self.prompt = Some(Prompt::new(&self.filter)),
            _ => return false,
        }
        true
    }

    /// Takes a key of the filter that is being typed; the part typed so far applies already.
    fn typed(&mut self, key: KeyEvent) {
        let Some(prompt) = &mut self.prompt else { return };
        let (edited, text) = (prompt.key(key), prompt.text().to_owned());
        match edited {
            Edited::More => self.set_filter(&text),
            Edited::Done => self.prompt = None,
            Edited::Dropped => {
                self.prompt = None;
                self.set_filter("");
            }
        }
    }

    /// Sorts by the column so many further right, beginning anew behind the last.
    fn sort_beside(&mut self, steps: usize) {
        if !self.columns.is_empty() {
            let column = self
                .sort
                .map_or(0, |(column, _)| (column + steps) % self.columns.len());
            self.sort_by(column);
        }
    }

    /// Puts the rows in order, and finds the chosen one again.
    fn arrange(&mut self) {
        let words = Words::new(&self.filter);
        let mut order: Vec<usize> = (0..self.rows.len())
            .filter(|at| words.hold(&self.rows[*at]))
            .collect();
        if let Some((column, largest_first)) = self.sort {
            let compare = |this: &usize, that: &usize| {
                let (this, that) = (
                    self.rows[*this].cells.get(column),
                    self.rows[*that].cells.get(column),
                );
                let (Some(this), Some(that)) = (this, that) else {
                    return this.is_none().cmp(&that.is_none());
                };
                let order = this.order(that);
                // Cells without a number stand last either way.
                if largest_first && this.number.is_some() == that.number.is_some() {
                    order.reverse()
                } else {
                    order
                }
            };
            // Equal rows keep the order in which they were given.
            order.sort_by(compare);
        }
        self.order = order;
        // The first row is chosen by its place until another one is chosen.
        let kept = self.chosen.as_ref().filter(|_| self.at > 0);
        let found = kept.and_then(|key| self.shown().position(|row| row.key == *key));
        self.choose(found.unwrap_or(self.at));
    }
}

/// A filter's words.
struct Words {
    wanted: Vec<String>,
    unwanted: Vec<String>,
}

impl Words {
    fn new(filter: &str) -> Self {
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for word in filter.to_lowercase().split_whitespace() {
            match word.strip_prefix('!') {
                // Not yet typed whole.
                Some("") => {}
                Some(word) => unwanted.push(word.to_owned()),
                None => wanted.push(word.to_owned()),
            }
        }
        Self { wanted, unwanted }
    }

    fn hold(&self, row: &Row) -> bool {
        if self.wanted.is_empty() && self.unwanted.is_empty() {
            return true;
        }
        let cells: Vec<String> = row.cells.iter().map(|cell| cell.text.to_lowercase()).collect();
        let is_in = |word: &String| cells.iter().any(|cell| cell.contains(word));
        self.wanted.iter().all(is_in) && !self.unwanted.iter().any(is_in)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::testing::press;

    fn table() -> Table {
        let columns = [Column::text("event"), Column::number("hits")];
        let mut table = Table::new(columns).sorted_by(1);
        table.set_rows(rows(&[("a", 1), ("B", 30), ("c", 200)]));
        table
    }

    fn rows(of: &[(&str, u64)]) -> Vec<Row> {
        of.iter()
            .map(|(name, hits)| Row::new(*name, [Cell::text(name), Cell::count(*hits)]))
            .collect()
    }

    fn names(table: &Table) -> Vec<&str> {
        table.shown().map(|row| row.key.as_str()).collect()
    }

    #[test]
    fn rows_are_in_the_order_of_the_column_that_is_chosen() {
        let mut table = table();
        assert_eq!(names(&table), ["c", "B", "a"], "by numbers, not by their texts");
        assert!(table.key(press(KeyCode::Char('R'))));
        assert_eq!(names(&table), ["a", "B", "c"]);
        table.key(press(KeyCode::Char('>')));
        assert_eq!(
            (table.sort(), names(&table)),
            (Some((0, false)), vec!["B", "a", "c"])
        );
        table.key(press(KeyCode::Char('<')));
        assert_eq!(
            (table.sort(), names(&table)),
            (Some((1, true)), vec!["c", "B", "a"])
        );
    }

    #[test]
    fn equal_rows_keep_their_order_and_cells_without_a_number_are_last() {
        let mut table = table();
        let mut given = rows(&[("x", 5), ("y", 5), ("z", 7)]);
        given.insert(0, Row::new("none", [Cell::text("none"), Cell::text("-")]));
        table.set_rows(given);
        assert_eq!(names(&table), ["z", "x", "y", "none"]);
        table.key(press(KeyCode::Char('R')));
        assert_eq!(names(&table), ["x", "y", "z", "none"]);
    }

    #[test]
    fn the_chosen_row_stays_chosen_while_values_change() {
        let mut table = table();
        table.key(press(KeyCode::Down));
        assert_eq!(table.chosen().unwrap().key, "B");
        table.set_rows(rows(&[("a", 100), ("B", 30), ("c", 200)]));
        assert_eq!((table.chosen().unwrap().key.as_str(), table.place()), ("B", 2));
        // The chosen row is gone: the row in its place is chosen.
        table.set_rows(rows(&[("a", 100), ("c", 200)]));
        assert_eq!(table.chosen().unwrap().key, "a");
        table.set_rows(Vec::new());
        assert!(table.chosen().is_none());
        table.key(press(KeyCode::End));
        table.set_rows(rows(&[("a", 1), ("c", 2)]));
        assert_eq!(
            table.chosen().unwrap().key,
            "c",
            "the first, as nothing was chosen"
        );
    }

    #[test]
    fn pages_are_as_long_as_the_drawn_rows() {
        let mut table = table();
        let many: Vec<Row> = (0..100)
            .map(|n| Row::new(n.to_string(), [Cell::text("x"), Cell::count(n)]))
            .collect();
        table.set_rows(many);
        table.window.rows = 11;
        for (code, place) in [
            (KeyCode::PageDown, 10),
            (KeyCode::PageDown, 20),
            (KeyCode::PageUp, 10),
            (KeyCode::End, 99),
            (KeyCode::Down, 99),
            (KeyCode::Home, 0),
            (KeyCode::Up, 0),
        ] {
            table.key(press(code));
            assert_eq!(table.place(), place, "{code:?}");
        }
    }

    #[test]
    fn a_filter_holds_while_it_is_typed() {
        let mut table = table();
        let keys = |table: &mut Table, text: &str| {
            for c in text.chars() {
                assert!(table.key(press(KeyCode::Char(c))));
            }
        };
        keys(&mut table, "/b");
        assert_eq!((names(&table), table.prompt().is_some()), (vec!["B"], true));
        table.key(press(KeyCode::Enter));
        assert_eq!((table.filter(), table.prompt().is_some()), ("b", false));
        keys(&mut table, "/ !30");
        assert_eq!((names(&table).len(), table.count()), (0, 3));
        table.key(press(KeyCode::Esc));
        assert_eq!(names(&table), ["c", "B", "a"]);
        keys(&mut table, "/!b !q !");
        assert_eq!(names(&table), ["c", "a"]);
        assert!(table.key(press(KeyCode::Enter)));
        assert!(!table.key(press(KeyCode::Enter)), "Enter is the view's");
    }

    #[test]
    fn texts_of_others_cannot_steer_the_terminal() {
        assert_eq!(Cell::text("a\x1b[2Jb").shown(), "a\\x1b[2Jb");
        assert_eq!(Column::text("a\nb").name, "a\\x0ab");
    }
}
