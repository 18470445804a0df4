//! What `top` shows, as data: pages with tables, one above the other as the user goes into rows, made of the last two readings.

use super::reading::{BufferReading, By, Key, MapReading, Reading, Slice, Sum, Wanted};
use crate::style::bytes;
use crate::terminal::{Cell, Column, KeyCode, KeyEvent, Row, Table};
use kestrel_trace::aggregate::Entry;
use kestrel_trace::print::thousands;

/// What a page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Page {
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

/// A page that is open, with what was chosen on it.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) page: Page,
    pub(super) table: Table,
}

/// The pages that are always there, by their keys.
pub(super) const TABS: [(char, &str); 4] = [
    ('1', "events"),
    ('2', "processes"),
    ('3', "maps"),
    ('4', "buffers"),
];

/// What is shown.
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

impl Opened {
    /// A page with the columns that it has; `sessions` are a column where there are several.
    fn new(page: Page, sessions: bool) -> Self {
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

    fn has_sessions(&self) -> bool {
        self.table.columns().first() == Some(&Column::text("session"))
    }
}

impl Model {
    /// Takes another reading; while it is paused what is shown stays.
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

    /// The last reading.
    pub(super) fn now(&self) -> &Reading {
        &self.now
    }

    /// The page on top.
    pub(super) fn page(&self) -> &Page {
        &self.opened().page
    }

    /// Its table.
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

    /// What a reading has to say for the pages that are open.
    pub(super) fn wanted(&self) -> Wanted {
        let pages = self.into.iter().map(|opened| &opened.page);
        let all = std::iter::once(self.page()).chain(pages);
        let of = |page: &Page| match page {
            Page::Hits(slice, by) => Wanted::by(slice, *by),
            _ => Wanted::default(),
        };
        all.map(of).fold(Wanted::default(), Wanted::with)
    }

    /// What the page on top shows, behind the first page that leads to it.
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

    /// What the entry on top holds, in as many lines as it needs.
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
                match slice.next() {
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

    /// Tells the hits on top apart by something else.
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

    /// Whether a column has to say whose a row is.
    fn has_several_sessions(&self) -> bool {
        let of = |session: &String| *session != self.first_session();
        self.now.hits.iter().map(|hits| &hits.session).any(of)
            || self.now.maps.iter().map(|map| &map.session).any(of)
            || self.now.buffers.iter().map(|buffer| &buffer.session).any(of)
    }

    fn first_session(&self) -> String {
        let now = &self.now;
        let first = now.buffers.first().map(|buffer| &buffer.session);
        let first = first.or(now.hits.first().map(|hits| &hits.session));
        first
            .or(now.maps.first().map(|map| &map.session))
            .cloned()
            .unwrap_or_default()
    }

    /// The rows of a page.
    pub(super) fn rows(&self, page: &Page, sessions: bool) -> Vec<Row> {
        let with_session = |session: &str, key: String, cells: Vec<Cell>| {
            let mut all = Vec::new();
            if sessions {
                all.push(Cell::text(session));
            }
            all.extend(cells);
            Row::new(key, all)
        };
        match page {
            Page::Hits(slice, by) => {
                let wanted = Wanted::by(slice, *by);
                let before = self.before.as_ref().filter(|before| before.knows.covers(wanted));
                let before = before.map(|before| before.sums(slice, *by));
                let now = self.now.sums(slice, *by);
                let rows = now.into_iter().map(|(key, sum)| {
                    let earlier = before.as_ref().map(|before| {
                        let sum = before.get(&key);
                        sum.map_or(0, |sum| sum.count)
                    });
                    self.hits_row(key, &sum, earlier, sessions)
                });
                rows.collect()
            }
            Page::Maps => {
                let row = |map: &MapReading| {
                    let cells = vec![
                        Cell::text(&map.title),
                        Cell::text(&map.function),
                        Cell::count(map.entries.len() as u64),
                        Cell::count(map.most.into()),
                        Cell::count(map.lost),
                    ];
                    let mut row =
                        with_session(&map.session, format!("{}\n{}", map.session, map.title), cells);
                    row.alarm = map.lost > 0;
                    row
                };
                self.now.maps.iter().map(row).collect()
            }
            Page::Map(session, title) => {
                let Some(map) = self.now.map(session, title) else {
                    return Vec::new();
                };
                let before = self.before.as_ref().map(|before| before.map(session, title));
                let row = |entry: &Entry| {
                    let earlier = before.map(|map| {
                        map.and_then(|map| map.entry(&entry.key))
                            .map_or(0, |it| it.weight)
                    });
                    let rate = match (map.adds_up, earlier) {
                        (true, Some(earlier)) => self.rate((entry.weight - earlier) as f64),
                        _ => Cell::text("-"),
                    };
                    let value = Cell::number(entry.weight as f64, &entry.value);
                    Row::new(entry.key.clone(), [Cell::text(&entry.key), value, rate])
                };
                map.entries.iter().map(row).collect()
            }
            Page::Entry(..) => Vec::new(),
            Page::Buffers => {
                let row = |buffer: &BufferReading| {
                    let span = match buffer.span {
                        Some(span) => Cell::number(span, &format!("{span:.1}")),
                        None => Cell::text("-"),
                    };
                    let cells = vec![
                        Cell::text(&buffer.name),
                        Cell::text(&buffer.mode),
                        Cell::number(buffer.bytes_per_cpu as f64, &bytes(buffer.bytes_per_cpu)),
                        Cell::number(buffer.fill, &format!("{:.0}%", buffer.fill * 100.0)),
                        span,
                        Cell::count(buffer.recorded),
                        Cell::count(buffer.overwritten),
                        Cell::count(buffer.lost),
                    ];
                    let key = format!("{}\n{}", buffer.session, buffer.name);
                    let mut row = with_session(&buffer.session, key, cells);
                    row.alarm = buffer.lost > 0;
                    row
                };
                self.now.buffers.iter().map(row).collect()
            }
        }
    }

    fn hits_row(&self, key: Key, sum: &Sum, earlier: Option<u64>, sessions: bool) -> Row {
        let rate = match earlier {
            Some(earlier) => self.rate(sum.count.saturating_sub(earlier) as f64),
            None => Cell::text("-"),
        };
        let total = Cell::count(sum.count);
        match key {
            Key::Event(session, event) => {
                let missed = self.now.missed_of(&session, &event);
                let mut cells = vec![
                    Cell::text(&event),
                    rate,
                    total,
                    Cell::count(sum.lost),
                    Cell::count(missed),
                ];
                if sessions {
                    cells.insert(0, Cell::text(&session));
                }
                let mut row = Row::new(format!("{session}\n{event}"), cells);
                row.alarm = sum.lost + missed > 0;
                row
            }
            Key::Process(pid) => {
                let name = match (pid, sum.comm.as_str()) {
                    (0, _) => "idle",
                    (_, name) => name,
                };
                let cells = [
                    Cell::text(name),
                    Cell::number(pid.into(), &pid.to_string()),
                    rate,
                    total,
                ];
                Row::new(pid.to_string(), cells)
            }
            Key::Cpu(cpu) => {
                let cells = [
                    Cell::number(cpu.into(), &cpu.to_string()),
                    rate,
                    total,
                    Cell::count(sum.lost),
                ];
                Row::new(cpu.to_string(), cells)
            }
        }
    }

    /// What came in the interval, a second.
    fn rate(&self, came: f64) -> Cell {
        let seconds = self.interval();
        let rate = if seconds > 0.0 { came / seconds } else { 0.0 };
        let shown = match rate {
            rate if rate < 0.0 => format!("{rate:.1}"),
            rate if rate > 0.0 && rate < 10.0 => format!("{rate:.1}"),
            rate => thousands(rate.round() as u64),
        };
        Cell::number(rate, &shown)
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

impl Slice {
    /// What it is of.
    fn named(&self) -> String {
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

    /// By what the hits of the event are grouped first.
    fn next(&self) -> Option<By> {
        match self {
            Self { pid: None, .. } => Some(By::Process),
            Self { event: None, .. } => Some(By::Event),
            Self { cpu: None, .. } => Some(By::Cpu),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::top::reading::Hits;
    use crate::terminal::testing::press;
    use std::time::Duration;

    fn reading(seconds: u64, of: &[(&str, u32, &str, u64)]) -> Reading {
        Reading {
            at: Duration::from_secs(seconds),
            hits: of
                .iter()
                .map(|(event, pid, comm, count)| Hits::of(event, *pid, comm, pid % 2, *count))
                .collect(),
            knows: Wanted {
                cpus: true,
                processes: true,
            },
            ..Reading::default()
        }
    }

    fn two() -> Model {
        let mut model = Model::default();
        model.take(reading(1, &[("a", 1, "init", 10), ("b", 2, "sh", 50)]));
        model.take(reading(
            3,
            &[("a", 1, "init", 30), ("a", 3, "sh", 5), ("b", 2, "sh", 51)],
        ));
        model
    }

    fn shown(model: &mut Model) -> Vec<Vec<String>> {
        let rows = model.table().shown();
        rows.map(|row| row.cells.iter().map(|cell| cell.shown().to_owned()).collect())
            .collect()
    }

    fn go(model: &mut Model, codes: &[KeyCode]) {
        for code in codes {
            assert!(model.key(press(*code)), "{code:?}");
        }
    }

    #[test]
    fn rates_are_of_the_last_interval_and_totals_of_all_time() {
        let mut model = two();
        assert_eq!(
            shown(&mut model),
            [["a", "13", "35", "0", "0"], ["b", "0.5", "51", "0", "0"]]
        );
        assert_eq!(model.total_rate(), Some(13.0));
        let mut first = Model::default();
        first.take(reading(1, &[("a", 1, "init", 10)]));
        assert_eq!(shown(&mut first), [["a", "-", "10", "0", "0"]]);
        assert_eq!(first.total_rate(), None);
    }

    #[test]
    fn one_goes_from_an_event_to_who_caused_it_and_where_and_back() {
        let mut model = two();
        go(&mut model, &[KeyCode::Enter]);
        assert_eq!(model.path(), "events › a by processes");
        assert_eq!(
            shown(&mut model),
            [["init", "1", "10", "30"], ["sh", "3", "2.5", "5"]]
        );
        assert_eq!((model.wanted().processes, model.wanted().cpus), (true, false));
        go(&mut model, &[KeyCode::Down, KeyCode::Enter]);
        assert_eq!(model.path(), "events › a, process 3 by CPUs");
        assert!(model.wanted().cpus);
        assert_eq!(shown(&mut model), [["1", "2.5", "5", "0"]]);
        go(&mut model, &[KeyCode::Enter]);
        assert_eq!(model.path(), "events › a, process 3 by CPUs", "no deeper");
        go(&mut model, &[KeyCode::Esc]);
        assert_eq!(model.table().chosen().unwrap().key, "3", "where one came from");
        go(&mut model, &[KeyCode::Char('c')]);
        assert_eq!(model.path(), "events › a by CPUs");
        go(&mut model, &[KeyCode::Esc, KeyCode::Esc]);
        assert_eq!(model.path(), "events");
    }

    #[test]
    fn what_was_not_asked_for_before_has_no_rate_yet() {
        let mut model = two();
        go(&mut model, &[KeyCode::Char('c')]);
        assert_eq!(shown(&mut model)[0][1], "13");
        let mut now = reading(5, &[("a", 1, "init", 40)]);
        now.knows.cpus = false;
        model.take(now.clone());
        now.at = Duration::from_secs(7);
        now.knows.cpus = true;
        model.take(now);
        assert_eq!(shown(&mut model), [["1", "-", "40", "0"]]);
    }

    #[test]
    fn an_event_is_meant_where_one_is_chosen_or_gone_into() {
        let mut model = two();
        let event = |event: &str, pid| Some((event.to_owned(), pid));
        assert_eq!(model.event(), event("a", None));
        go(&mut model, &[KeyCode::Down]);
        assert_eq!(model.event(), event("b", None));
        go(&mut model, &[KeyCode::Enter, KeyCode::Enter]);
        assert_eq!(model.event(), event("b", Some(2)));
        go(&mut model, &[KeyCode::Char('2')]);
        assert_eq!(model.event(), None);
        model.go_into_map("b x");
        assert_eq!((model.path().as_str(), model.entry()), ("processes › b x", None));
    }

    #[test]
    fn processes_lead_to_their_events() {
        let mut model = two();
        go(&mut model, &[KeyCode::Tab, KeyCode::Enter]);
        assert_eq!(model.path(), "processes › process 1 by events");
        assert_eq!(shown(&mut model), [["a", "10", "30", "0", "0"]]);
        go(&mut model, &[KeyCode::Char('1')]);
        assert_eq!(model.path(), "events");
        go(&mut model, &[KeyCode::Char('c')]);
        assert_eq!(model.path(), "events › all by CPUs");
    }

    #[test]
    fn what_is_paused_stays() {
        let mut model = two();
        let before = shown(&mut model);
        model.paused = true;
        model.take(reading(9, &[("a", 1, "init", 1000)]));
        assert_eq!(shown(&mut model), before);
        model.paused = false;
        model.take(reading(9, &[("a", 1, "init", 1000)]));
        assert_ne!(shown(&mut model), before);
    }

    fn map(title: &str, entries: &[(&str, i128)]) -> MapReading {
        let entry = |(key, weight): &(&str, i128)| Entry {
            key: (*key).to_owned(),
            value: weight.to_string(),
            whole: format!("{weight}\nlines"),
            weight: *weight,
        };
        MapReading {
            title: title.to_owned(),
            function: "count".to_owned(),
            adds_up: true,
            entries: entries.iter().map(entry).collect(),
            most: 4096,
            ..MapReading::default()
        }
    }

    #[test]
    fn maps_lead_to_their_keys_and_these_to_histograms() {
        let with_maps = |seconds, maps: Vec<MapReading>| Reading {
            maps,
            ..reading(seconds, &[])
        };
        let mut model = Model::default();
        model.take(with_maps(1, vec![map("@", &[("sh", 10)])]));
        model.take(with_maps(
            2,
            vec![map("@", &[("sh", 15), ("cat", 3)]), map("@all", &[("", 18)])],
        ));
        go(&mut model, &[KeyCode::Char('3')]);
        assert_eq!(
            shown(&mut model),
            [
                ["@", "count", "2", "4,096", "0"],
                ["@all", "count", "1", "4,096", "0"]
            ]
        );
        go(&mut model, &[KeyCode::Enter]);
        assert_eq!(shown(&mut model), [["sh", "15", "5.0"], ["cat", "3", "3.0"]]);
        go(&mut model, &[KeyCode::Enter]);
        assert_eq!(model.path(), "maps › @[sh]");
        assert_eq!(model.entry().unwrap().whole, "15\nlines");
        go(
            &mut model,
            &[KeyCode::Esc, KeyCode::Esc, KeyCode::Down, KeyCode::Enter],
        );
        assert_eq!(model.path(), "maps › @all");
        assert_eq!(model.entry().unwrap().weight, 18, "one without keys has no list");
    }

    #[test]
    fn sessions_are_a_column_where_there_are_several() {
        let mut model = two();
        let of = |session: &str, event: &str| Hits {
            session: session.to_owned(),
            ..Hits::of(event, 1, "x", 0, 7)
        };
        model.take(Reading {
            at: Duration::from_secs(5),
            hits: vec![of("web", "a"), of("web", "b")],
            ..Reading::default()
        });
        assert_eq!(model.table().columns().len(), 5);
        model.take(Reading {
            at: Duration::from_secs(6),
            hits: vec![of("web", "a"), of("flight", "a")],
            ..Reading::default()
        });
        assert_eq!(model.table().columns().len(), 6);
        assert_eq!(shown(&mut model).len(), 2, "the same event of two sessions");
    }
}
