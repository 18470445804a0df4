//! The model of `top`: pages with tables, one above the other as the user goes into rows, made of the last two readings.
//!
//! | room | what it holds |
//! |---|---|
//! | `page` | pages and their columns |
//! | `rows` | the rows of each page |

pub(super) mod page;
mod rows;
#[cfg(test)]
mod tests;

use super::reading::{By, Reading, ReadingParts, Slice};
use crate::terminal::{KeyCode, KeyEvent, Table};
use kestrel_trace::aggregate::Entry;
use page::{Opened, Page, TABS};

/// The model: the last two readings, and the pages that are open over them.
#[derive(Clone, Debug)]
pub(super) struct Model {
    before: Option<Reading>,
    now: Reading,
    /// The first pages.
    tabs: [Opened; 4],
    tab: usize,
    /// Pages that were gone into, the last one on top.
    into: Vec<Opened>,
    pub(super) paused: bool,
}

impl Default for Model {
    fn default() -> Self {
        let tab = |page| Opened::new(page, false);
        Self {
            before: None,
            now: Reading::default(),
            tabs: [
                tab(Page::Hits(Slice::default(), By::Event)),
                tab(Page::Hits(Slice::default(), By::Process)),
                tab(Page::Maps),
                tab(Page::Buffers),
            ],
            tab: 0,
            into: Vec::new(),
            paused: false,
        }
    }
}

impl Model {
    /// Takes another reading; while it is paused, the old one is still shown.
    pub(super) fn take(&mut self, reading: Reading) {
        if self.paused {
            return;
        }
        self.before = Some(std::mem::replace(&mut self.now, reading)).filter(|before| !before.at.is_zero());
        self.fill();
    }

    /// The selected event, and the selected process, if one is.
    pub(super) fn event(&self) -> Option<(String, Option<u32>)> {
        let Page::Hits(slice, by) = self.page() else {
            return None;
        };
        let chosen = self.opened().table.chosen().filter(|_| *by == By::Event);
        let chosen = chosen.and_then(|row| row.key.split_once('\n'));
        let event = chosen.map(|(_, event)| event.to_owned());
        let event = event.or_else(|| slice.event.as_ref().map(|(_, event)| event.clone()));
        event.map(|event| (event, slice.pid))
    }

    /// Goes into a map without keys that will be in the next reading.
    pub(super) fn go_into_map(&mut self, title: &str) {
        let page = Page::Entry(String::new(), title.to_owned(), String::new());
        self.into.push(Opened::new(page, false));
    }

    /// The newest reading.
    pub(super) fn now(&self) -> &Reading {
        &self.now
    }

    /// The page on top.
    pub(super) fn page(&self) -> &Page {
        &self.opened().page
    }

    /// The table that is shown.
    pub(super) fn table(&mut self) -> &mut Table {
        &mut self.opened_mut().table
    }

    /// The reading before that one.
    pub(super) fn before(&self) -> Option<&Reading> {
        self.before.as_ref()
    }

    /// The table of a page that need not be open.
    pub(super) fn table_of(&self, page: &Page) -> Table {
        let sessions = self.has_several_sessions() && !matches!(page, Page::Hits(_, By::Process));
        let mut opened = Opened::new(page.clone(), sessions);
        opened.table.set_rows(self.rows(page, sessions));
        opened.table
    }

    /// Which of [`TABS`] it belongs to.
    pub(super) fn tab(&self) -> usize {
        self.tab
    }

    /// Parts that a reading must contain for the pages that are open.
    pub(super) fn wanted(&self) -> ReadingParts {
        let pages = self.into.iter().map(|opened| &opened.page);
        let all = std::iter::once(self.page()).chain(pages);
        let of = |page: &Page| match page {
            Page::Hits(slice, by) => ReadingParts::by(slice, *by),
            _ => ReadingParts::default(),
        };
        all.map(of).fold(ReadingParts::default(), ReadingParts::with)
    }

    /// Breadcrumb of the page on top, behind the first page that leads to it.
    pub(super) fn path(&self) -> String {
        let first = TABS[self.tab].1;
        let Some(opened) = self.into.last() else {
            return first.to_owned();
        };
        let shown = match &opened.page {
            Page::Hits(slice, by) => {
                let what = match by {
                    By::Event => "events",
                    By::Process => "processes",
                    By::Cpu => "CPUs",
                };
                format!("{} by {what}", slice.named())
            }
            Page::Map(_, title) => title.clone(),
            Page::Entry(_, title, key) if key.is_empty() => title.clone(),
            Page::Entry(_, title, key) => format!("{title}[{key}]"),
            Page::Maps | Page::Buffers => String::new(),
        };
        format!("{first} › {shown}")
    }

    /// Contents of the entry on top, in as many lines as it needs.
    pub(super) fn entry(&self) -> Option<&Entry> {
        match &self.opened().page {
            Page::Entry(session, title, key) => self.now.map(session, title)?.entry(key),
            _ => None,
        }
    }

    /// Answers a key that changes pages; `false` if it means nothing to them.
    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        if self.opened().table.prompt().is_some() {
            return self.table().key(key);
        }
        match key.code {
            KeyCode::Enter | KeyCode::Right => self.go_in(),
            KeyCode::Esc if !self.opened().table.filter().is_empty() => self.table().set_filter(""),
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => _ = self.into.pop(),
            KeyCode::Tab => self.switch((self.tab + 1) % TABS.len()),
            KeyCode::BackTab => self.switch((self.tab + TABS.len() - 1) % TABS.len()),
            KeyCode::Char('c') => self.turn(By::Cpu),
            KeyCode::Char('p') => self.turn(By::Process),
            KeyCode::Char('e') => self.turn(By::Event),
            KeyCode::Char(c) => match TABS.iter().position(|(key, _)| *key == c) {
                Some(tab) => self.switch(tab),
                None => return self.table().key(key),
            },
            _ => return self.table().key(key),
        }
        self.fill();
        true
    }

    fn opened(&self) -> &Opened {
        self.into.last().unwrap_or(&self.tabs[self.tab])
    }

    fn opened_mut(&mut self) -> &mut Opened {
        match self.into.last_mut() {
            Some(opened) => opened,
            None => &mut self.tabs[self.tab],
        }
    }

    fn switch(&mut self, tab: usize) {
        self.tab = tab;
        self.into.clear();
    }

    /// Goes into the row that is chosen.
    fn go_in(&mut self) {
        let Some(chosen) = self.opened().table.chosen().map(|row| row.key.clone()) else {
            return;
        };
        let (session, name) = chosen.split_once('\n').unwrap_or(("", &chosen));
        let page = match &self.opened().page {
            Page::Hits(slice, by) => {
                let mut slice = slice.clone();
                match by {
                    By::Event => slice.event = Some((session.to_owned(), name.to_owned())),
                    By::Process => slice.pid = name.parse().ok(),
                    By::Cpu => slice.cpu = name.parse().ok(),
                }
                match slice.next_grouping() {
                    Some(by) => Page::Hits(slice, by),
                    None => return,
                }
            }
            Page::Maps => match self.now.map(session, name) {
                // One without keys has nothing to choose from.
                Some(map) if map.entries.iter().all(|entry| entry.key.is_empty()) => {
                    Page::Entry(session.to_owned(), name.to_owned(), String::new())
                }
                Some(_) => Page::Map(session.to_owned(), name.to_owned()),
                None => return,
            },
            Page::Map(session, title) => Page::Entry(session.clone(), title.clone(), chosen.clone()),
            Page::Entry(..) | Page::Buffers => return,
        };
        self.into.push(Opened::new(page, false));
    }

    /// Groups the hits on top by another key.
    fn turn(&mut self, by: By) {
        let Page::Hits(slice, _) = &self.opened().page else {
            return;
        };
        let is_known = match by {
            By::Event => slice.event.is_some(),
            By::Process => slice.pid.is_some(),
            By::Cpu => slice.cpu.is_some(),
        };
        if is_known {
            return;
        }
        let slice = slice.clone();
        match (slice == Slice::default(), by) {
            (true, By::Event) => self.switch(0),
            (true, By::Process) => self.switch(1),
            // All hits by CPU: a page behind the first one.
            (true, By::Cpu) => {
                self.into.clear();
                self.into.push(Opened::new(Page::Hits(slice, by), false));
            }
            (false, _) => {
                self.into.pop();
                self.into.push(Opened::new(Page::Hits(slice, by), false));
            }
        }
    }

    /// Makes the rows of the page on top.
    fn fill(&mut self) {
        let sessions = self.has_several_sessions();
        let opened = self.opened();
        let has_column = matches!(
            &opened.page,
            Page::Hits(_, By::Event) | Page::Maps | Page::Buffers
        );
        if has_column && opened.has_sessions() != sessions {
            let page = opened.page.clone();
            *self.opened_mut() = Opened::new(page, sessions);
        }
        let rows = self.rows(self.page(), sessions && has_column);
        self.table().set_rows(rows);
    }

    /// The time between the last two readings, in seconds.
    pub(super) fn interval(&self) -> f64 {
        let before = self.before.as_ref().map(|before| before.at);
        self.now
            .at
            .saturating_sub(before.unwrap_or(self.now.at))
            .as_secs_f64()
    }

    /// Whether what is shown could be compared with an earlier reading.
    pub(super) fn has_rates(&self) -> bool {
        let before = self.before.as_ref();
        before.is_some_and(|before| before.knows.covers(self.wanted()))
    }

    /// All hits a second, in the last interval; none where there is but one reading.
    pub(super) fn total_rate(&self) -> Option<f64> {
        let before = self.before.as_ref()?.total().0;
        let came = self.now.total().0.saturating_sub(before);
        (self.interval() > 0.0).then(|| came as f64 / self.interval())
    }
}
