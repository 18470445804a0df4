//! The rows of each page, made of the last reading and, for rates, of the one before.

use super::Model;
use super::page::Page;
use crate::command::top::reading::{BufferReading, Key, MapReading, ReadingParts, Subtotal};
use crate::style::bytes;
use crate::terminal::{Cell, Row};
use kestrel_trace::aggregate::Entry;
use kestrel_trace::print::thousands;

impl Model {
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
                let wanted = ReadingParts::by(slice, *by);
                // A reading that did not ask for these parts has no counts of them, and a rate over it would be the whole total.
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
                    let rate = match (map.only_grows, earlier) {
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

    /// Whether a column has to say whose a row is.
    pub(super) fn has_several_sessions(&self) -> bool {
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

    fn hits_row(&self, key: Key, sum: &Subtotal, earlier: Option<u64>, sessions: bool) -> Row {
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
                // A line break is in no name: the two make a key by which the row is found again.
                let mut row = Row::new(format!("{session}\n{event}"), cells);
                row.alarm = sum.lost + missed > 0;
                row
            }
            // Hits that were lost or missed are counted by event and CPU: whose they were is not known.
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

    /// Cell with hits a second in the interval.
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
}
