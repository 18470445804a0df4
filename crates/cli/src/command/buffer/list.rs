//! `kestrel buffer list`: a line per buffer.

use super::session_option::SessionOption;
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::output::columns::Column::Left;
use crate::output::columns::Columns;
use crate::style::bytes;
use clap::Args;
use kestrel::buffer::layout::Mode;
use kestrel::buffer::status::{Before, Status};
use kestrel::kernel::Host;
use kestrel::kernel::procfs::monotonic;
use kestrel::session::owner::Owner;
use kestrel::session::pinned::PinnedSession;
use kestrel_trace::print::thousands;
use serde_json::json;
use std::io::Write;

/// Options of `buffer list`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// How it looks
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    session: SessionOption,
}

/// A buffer with the CPUs whose records go there.
struct BufferRow {
    status: Status,
    current: Vec<u32>,
    process: Option<Process>,
}

/// The process that a buffer is for.
struct Process {
    /// Its number; -1 or another that no process has: none.
    number: i64,
    /// The parameter that holds it.
    parameter: Option<String>,
}

impl Process {
    fn of(session: &PinnedSession, buffer: u32) -> Option<Self> {
        let state = session.state();
        match state.buffers.get(buffer as usize)?.process.as_ref()? {
            Owner::Process(pid) => Some(Self {
                number: i64::from(*pid),
                parameter: None,
            }),
            Owner::Parameter(name) => Some(Self {
                number: state
                    .parameters
                    .iter()
                    .position(|known| known.name == *name)
                    .map_or(-1, |place| session.control().parameter(place) as i64),
                parameter: Some(name.clone()),
            }),
        }
    }
}

/// Lists.
pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let session = crate::sessions::store(&Host::default())?.session(options.session.session.as_deref())?;
    let control = session.control();
    let row = |(number, buffer): (u32, &kestrel::buffer::Buffer)| {
        let cpus = buffer.ring().cpus();
        BufferRow {
            status: buffer.status(control.since(number), control.is_frozen(number)),
            current: cpus.filter(|cpu| control.current(*cpu) == number).collect(),
            process: Process::of(&session, number),
        }
    };
    let buffers = session.buffers()?;
    let there = (0..).zip(&buffers).filter(|(_, buffer)| !buffer.is_removed());
    let rows: Vec<BufferRow> = there.map(row).collect();
    let text = match options.format {
        Format::Json => rows.iter().map(|row| format!("{}\n", as_json(row))).collect(),
        Format::Text => text(&rows, monotonic()),
    };
    // A reader that went away is no failure.
    let _ = crate::screen::out().write_all(text.as_bytes());
    Ok(Exit::Done)
}

fn mode(status: &Status) -> &'static str {
    match status.geometry.mode {
        Mode::Overwrite => "overwrite",
        Mode::Stream => "stream",
    }
}

fn as_json(row: &BufferRow) -> serde_json::Value {
    let status = &row.status;
    let ring = |ring: &kestrel::buffer::status::RingStatus| {
        json!({
            "cpu": ring.cpu,
            "held_bytes": ring.held,
            "oldest": ring.oldest,
            "newest": ring.newest,
            "recorded": ring.recorded,
            "overwritten": ring.overwritten,
            "lost": ring.lost,
        })
    };
    let before = |before: &Before| {
        json!({
            "bytes_per_cpu": before.geometry.data(),
            "held_bytes": before.held,
            "oldest": before.oldest,
            "newest": before.newest,
        })
    };
    json!({
        "name": status.name,
        "mode": mode(status),
        "bytes_per_cpu": status.geometry.data(),
        "fill": status.fill(),
        "oldest": status.oldest(),
        "newest": status.newest(),
        "overwritten": status.sum(|ring| ring.overwritten),
        "lost": status.sum(|ring| ring.lost),
        "frozen": status.frozen,
        "before_resize": status.before.as_ref().map(before),
        "current_on": row.current,
        "process": row.process.as_ref().map(|process| process.number),
        "process_parameter": row.process.as_ref().and_then(|process| process.parameter.clone()),
        "cpus": status.rings.iter().map(ring).collect::<Vec<_>>(),
    })
}

fn text(rows: &[BufferRow], now: u64) -> String {
    let mut columns = Columns::new([Left; 10]);
    columns.head(
        "",
        [
            "BUFFER",
            "MODE",
            "PER CPU",
            "FILL",
            "OLDEST",
            "NEWEST",
            "OVERWRITTEN",
            "LOST",
            "STATE",
            "CURRENT ON",
        ],
    );
    for row in rows {
        let status = &row.status;
        columns.row(
            "",
            [
                status.name.clone(),
                mode(status).to_owned(),
                bytes(u64::from(status.geometry.data())),
                format!("{:.0}%", status.fill() * 100.0),
                ago(status.oldest(), now),
                ago(status.newest(), now),
                thousands(status.sum(|ring| ring.overwritten)),
                thousands(status.sum(|ring| ring.lost)),
                if status.frozen { "frozen" } else { "open" }.to_owned(),
                current_records(row),
            ],
        );
        if let Some(before) = &status.before {
            let fill = before.held as f64 / f64::from(before.geometry.data());
            columns.row(
                "",
                [
                    "  before resize".to_owned(),
                    String::new(),
                    bytes(u64::from(before.geometry.data())),
                    format!("{:.0}%", fill * 100.0),
                    ago(before.oldest, now),
                    ago(before.newest, now),
                    String::new(),
                    String::new(),
                    "kept".to_owned(),
                    String::new(),
                ],
            );
        }
    }
    columns.text()
}

/// Formats the time since a record.
fn ago(time: Option<u64>, now: u64) -> String {
    time.map_or_else(
        || "-".to_owned(),
        |time| format!("{:.1} s ago", now.saturating_sub(time) as f64 / 1e9),
    )
}

/// The records without a buffer name that go to this buffer: those of a process, or of CPUs.
fn current_records(row: &BufferRow) -> String {
    let cpus = cpu_ranges(&row.current, row.status.rings.len());
    let Some(Process { number, parameter }) = &row.process else {
        return cpus;
    };
    let name = parameter
        .as_ref()
        .map_or_else(String::new, |name| format!("{name} = "));
    let process = format!("process {name}{number}");
    match row.current.is_empty() {
        true => process,
        false => format!("{process}; {cpus}"),
    }
}

/// Formats CPUs as ranges.
fn cpu_ranges(cpus: &[u32], all: usize) -> String {
    if cpus.is_empty() {
        return "-".to_owned();
    }
    if cpus.len() == all {
        return "all CPUs".to_owned();
    }
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text = |(first, last): &(u32, u32)| match first == last {
        true => format!("{first}"),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::cpu_ranges;

    #[test]
    fn cpus_are_ranges() {
        assert_eq!(cpu_ranges(&[], 4), "-");
        assert_eq!(cpu_ranges(&[0, 1, 2, 3], 4), "all CPUs");
        assert_eq!(cpu_ranges(&[0, 2, 3, 7], 8), "0,2-3,7");
    }
}
