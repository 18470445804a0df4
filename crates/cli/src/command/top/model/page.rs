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
    /// The entries of one, by session and title.
    Map(String, String),
    /// One entry of it, by its key: a histogram.
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
        let (names, sorted): (&[&str], usize) = match &page {
            Page::Hits(_, By::Event) => (&["event", "per second", "total", "lost", "missed"], 1),
            Page::Hits(_, By::Process) => (&["process", "pid", "per second", "total"], 2),
            Page::Hits(_, By::Cpu) => (&["CPU", "per second", "total", "lost"], 1),
            Page::Maps => (&["map", "filled by", "keys", "most", "no room for"], 2),
            Page::Map(..) => (&["key", "value", "per second"], 1),
            Page::Entry(..) => (&["value"], 0),
            Page::Buffers => (
                &[
                    "buffer",
                    "mode",
                    "per CPU",
                    "fill",
                    "seconds",
                    "recorded",
                    "overwritten",
                    "lost",
                ],
                3,
            ),
        };
        let texts = ["event", "process", "map", "filled by", "key", "buffer", "mode"];
        let mut columns: Vec<Column> = names
            .iter()
            .map(|name| match texts.contains(name) {
                true => Column::text(name),
                false => Column::number(name),
            })
            .collect();
        let mut sorted = sorted;
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

    /// First grouping of the event's hits.
    pub(super) fn next(&self) -> Option<By> {
        match self {
            Self { pid: None, .. } => Some(By::Process),
            Self { event: None, .. } => Some(By::Event),
            Self { cpu: None, .. } => Some(By::Cpu),
            _ => None,
        }
    }
}
