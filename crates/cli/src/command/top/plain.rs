//! Batches of text or lines of JSON, for pipes and files.

use super::model::Model;
use super::model::page::Page;
use super::reading::{By, MapReading, Reading, Slice};
use crate::exit::Failure;
use crate::output::columns::{Column, Columns};
use crate::output::json;
use crate::terminal::Row;
use kestrel_trace::aggregate::Entry;
use kestrel_trace::print::{counted, shown, thousands};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;

/// A batch of text; of each table at most so many rows, or all where that is 0.
pub(super) fn batch(model: &mut Model, title: &str, time: &str, rows: usize) -> String {
    let now = model.now().clone();
    let mut out = format!("kestrel top: {}, {time}, {}\n", shown(title), summary(model));
    for (page, heads) in [
        (Page::Hits(Slice::default(), By::Event), "event"),
        (Page::Hits(Slice::default(), By::Process), "process"),
        (Page::Buffers, "buffer"),
    ] {
        let table = model.table_of(&page);
        let all: Vec<&Row> = table.shown().collect();
        if all.is_empty() {
            if heads == "event" {
                out.push_str("  no event has come\n");
            }
            continue;
        }
        let columns: Vec<Column> = table
            .columns()
            .iter()
            .map(|column| match column.is_right() {
                true => Column::Right,
                false => Column::Left,
            })
            .collect();
        let mut text = Columns::new(columns);
        let names = table.columns().iter().map(|column| column.name().to_owned());
        text.row("  ", names.collect::<Vec<_>>());
        let most = if rows == 0 { all.len() } else { rows };
        for row in all.iter().take(most) {
            let cells = row.cells.iter().map(|cell| cell.shown().to_owned());
            text.row("  ", cells.collect::<Vec<_>>());
        }
        out.push_str(&text.text());
        if all.len() > most {
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "  and {} more: --rows 0 shows them",
                thousands((all.len() - most) as u64)
            );
        }
    }
    for map in now
        .maps
        .iter()
        .filter(|map| !map.entries.is_empty() || map.lost > 0)
    {
        out.push_str(&map_text(map, rows));
    }
    for note in losses(&now).into_iter().chain(now.notes.iter().cloned()) {
        let _ = writeln!(out, "  {}", shown(&note));
    }
    out.push('\n');
    out
}

/// A map as the other commands print it, the keys with the largest values where there are too many.
fn map_text(map: &MapReading, rows: usize) -> String {
    let more = map.entries.len().saturating_sub(rows);
    let is_short = |entry: &Entry| !entry.whole.contains('\n');
    if rows == 0 || more == 0 || !map.entries.iter().all(is_short) {
        return map.text.trim_end().to_owned() + "\n";
    }
    let mut out = format!("and {} more: --rows 0 shows them\n", counted(more as u64, "key"));
    for entry in &map.entries[more..] {
        out.push_str(&format!("{}[{}]: {}\n", map.title, entry.key, entry.value));
    }
    out
}

/// Sums over all events as one line.
pub(super) fn summary(model: &Model) -> String {
    let (total, _) = model.now().total();
    let hits = counted(total, "event");
    match model.total_rate() {
        Some(rate) => format!("{hits}, {} per second", thousands(rate.round() as u64)),
        None => hits,
    }
}

/// Losses in the counts, in words; nothing where all is there.
pub(super) fn losses(reading: &Reading) -> Vec<String> {
    let lost = reading.total().1;
    let missed = reading.all_missed();
    let mut all = Vec::new();
    if lost > 0 {
        all.push(format!("lost {}", counted(lost, "event")));
    }
    if missed > 0 {
        all.push(format!(
            "missed {}: a program was running already on that CPU",
            counted(missed, "event")
        ));
    }
    if reading.uncounted_hits > 0 {
        all.push(format!(
            "{} in no row: there is no room for so many",
            counted(reading.uncounted_hits, "event")
        ));
    }
    all
}

/// A reading as a line of JSON (docs/live.md).
#[derive(Debug, Serialize)]
struct ReadingJson<'a> {
    time: u64,
    of: &'a str,
    /// Since the reading before.
    seconds: f64,
    events: Vec<EventJson<'a>>,
    processes: Vec<ProcessJson>,
    maps: Vec<MapJson<'a>>,
    buffers: Vec<BufferJson<'a>>,
    missed: u64,
    in_no_row: u64,
    notes: &'a [String],
}

/// An event's hits; no rate where nothing was read before.
#[derive(Debug, Serialize)]
struct EventJson<'a> {
    session: &'a str,
    event: &'a str,
    total: u64,
    lost: u64,
    missed: u64,
    per_second: Option<f64>,
}

/// A process's hits.
#[derive(Debug, Serialize)]
struct ProcessJson {
    pid: u32,
    comm: String,
    total: u64,
    per_second: Option<f64>,
}

/// A map as the other commands have it.
#[derive(Debug, Serialize)]
struct MapJson<'a> {
    session: &'a str,
    map: &'a Value,
    lost: u64,
}

/// A buffer, all CPUs together.
#[derive(Debug, Serialize)]
struct BufferJson<'a> {
    session: &'a str,
    buffer: &'a str,
    mode: &'a str,
    bytes_per_cpu: u64,
    fill: f64,
    seconds: Option<f64>,
    recorded: u64,
    overwritten: u64,
    lost: u64,
}

/// A reading as a line of JSON.
pub(super) fn line(model: &Model, title: &str, time_ns: u64) -> Result<String, Failure> {
    let now = model.now();
    let seconds = model.interval();
    let before = model.before();
    let rate = |count: u64, earlier: Option<u64>| {
        let earlier = earlier.filter(|_| seconds > 0.0)?;
        Some(count.saturating_sub(earlier) as f64 / seconds)
    };
    let earlier_sums = |by| before.map(|before| before.sums(&Slice::default(), by));
    // An event that an earlier reading did not have has counted from 0; without an earlier reading there is no rate.
    let by_event = earlier_sums(By::Event);
    let by_process = earlier_sums(By::Process);
    let events = now.sums(&Slice::default(), By::Event);
    let events = events.iter().map(|(key, sum)| {
        let earlier = by_event
            .as_ref()
            .map(|all| all.get(key).map_or(0, |sum| sum.count));
        let (session, event) = key.event().unwrap_or_default();
        EventJson {
            session,
            event,
            total: sum.count,
            lost: sum.lost,
            missed: now.missed_of(session, event),
            per_second: rate(sum.count, earlier),
        }
    });
    let processes = now.sums(&Slice::default(), By::Process);
    let processes = processes.into_iter().filter_map(|(key, sum)| {
        let earlier = by_process
            .as_ref()
            .map(|all| all.get(&key).map_or(0, |sum| sum.count));
        Some(ProcessJson {
            pid: key.pid()?,
            comm: sum.comm,
            total: sum.count,
            per_second: rate(sum.count, earlier),
        })
    });
    let maps = now.maps.iter().map(|map| MapJson {
        session: &map.session,
        map: &map.json,
        lost: map.lost,
    });
    let buffers = now.buffers.iter().map(|buffer| BufferJson {
        session: &buffer.session,
        buffer: &buffer.name,
        mode: &buffer.mode,
        bytes_per_cpu: buffer.bytes_per_cpu,
        fill: buffer.fill,
        seconds: buffer.span,
        recorded: buffer.recorded,
        overwritten: buffer.overwritten,
        lost: buffer.lost,
    });
    json::line(&ReadingJson {
        time: time_ns,
        of: title,
        seconds,
        events: events.collect(),
        processes: processes.collect(),
        maps: maps.collect(),
        buffers: buffers.collect(),
        missed: now.all_missed(),
        in_no_row: now.uncounted_hits,
        notes: &now.notes,
    })
}
