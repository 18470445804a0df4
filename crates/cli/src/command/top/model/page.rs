//! The pages of `top`: which there are, what each shows, and its columns.

use crate::command::top::reading::{By, Slice};
use crate::terminal::{Column, Table};

/// Kind of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::command::top) enum Page {
    /// Hits of a slice.
    Hits(Slice, By),
    /// All maps.
    Maps,
    /// Entries of one map: its session and title.
    Map(String, String),
    /// An entry of a map, a histogram: session, title and key.
    Entry(String, String, String),
    /// All buffers.
    Buffers,
}

/// The pages that are always there, by their keys.
pub(in crate::command::top) const TABS: [(char, &str); 4] = [
    ('1', "events"),
    ('2', "processes"),
    ('3', "maps"),
    ('4', "buffers"),
];

/// A page that is open, with what was chosen on it.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) page: Page,
    pub(super) table: Table,
}

impl Opened {
    /// A page with the columns that it has; `sessions` are a column where there are several.
    pub(super) fn new(page: Page, sessions: bool) -> Self {
        let (text, number) = (Column::text, Column::number);
        let (mut columns, mut sorted) = match &page {
            Page::Hits(_, By::Event) => (
                vec![
                    Column::event("event"),
                    number("per second"),
                    number("total"),
                    number("lost"),
                    number("missed"),
                ],
                1,
            ),
            Page::Hits(_, By::Process) => (
                vec![
                    text("process"),
                    number("pid"),
                    number("per second"),
                    number("total"),
                ],
                2,
            ),
            Page::Hits(_, By::Cpu) => (
                vec![
                    number("CPU"),
                    number("per second"),
                    number("total"),
                    number("lost"),
                ],
                1,
            ),
            Page::Maps => (
                vec![
                    text("map"),
                    text("filled by"),
                    number("keys"),
                    number("room"),
                    number("no room for"),
                ],
                2,
            ),
            Page::Map(..) => (vec![text("key"), number("value"), number("per second")], 1),
            Page::Entry(..) => (vec![number("value")], 0),
            Page::Buffers => (
                vec![
                    text("buffer"),
                    text("mode"),
                    number("per CPU"),
                    number("fill"),
                    number("seconds"),
                    number("recorded"),
                    number("overwritten"),
                    number("lost"),
                ],
                3,
            ),
        };
        // The numbers of columns above do not count this one.
        if sessions {
            columns.insert(0, Column::text("session"));
            sorted += 1;
        }
        Self {
            page,
            table: Table::new(columns).sorted_by(sorted),
        }
    }

    pub(super) fn has_sessions(&self) -> bool {
        self.table.columns().first() == Some(&Column::text("session"))
    }
}

impl Slice {
    /// Name of the subject.
    pub(super) fn named(&self) -> String {
        let of = [
            self.event.as_ref().map(|(_, event)| event.clone()),
            self.pid.map(|pid| format!("process {pid}")),
            self.cpu.map(|cpu| format!("CPU {cpu}")),
        ];
        let of: Vec<String> = of.into_iter().flatten().collect();
        match of.is_empty() {
            true => "all".to_owned(),
            false => of.join(", "),
        }
    }

    /// The grouping that a step into a row goes on with: the first of process, event and CPU that the slice does not name yet.
    pub(super) fn next_grouping(&self) -> Option<By> {
        match self {
            Self { pid: None, .. } => Some(By::Process),
            Self { event: None, .. } => Some(By::Event),
            Self { cpu: None, .. } => Some(By::Cpu),
            _ => None,
        }
    }
}
