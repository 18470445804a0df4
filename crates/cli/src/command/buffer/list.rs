//! `kestrel buffer list`: a line per buffer.

use super::session_option::SessionOption;
use crate::exit::{Exit, Failure};
use crate::output::columns::Column::Left;
use crate::output::columns::Columns;
use crate::output::{Format, json};
use crate::style::bytes;
use clap::Args;
use kestrel::buffer::status::Status;
use kestrel::kernel::Host;
use kestrel::kernel::procfs::monotonic;
use kestrel::session::owner::Owner;
use kestrel::session::pinned::PinnedSession;
use kestrel_trace::print::thousands;
use serde::Serialize;
use std::io::Write;

/// Options of `buffer list`.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    session: SessionOption,
}

/// A buffer with the CPUs whose records go there.
#[derive(Serialize)]
struct BufferRow {
    #[serde(flatten)]
    status: Status,
    #[serde(rename = "current_on")]
    current: Vec<u32>,
    #[serde(flatten)]
    process: Process,
}

/// The process that a buffer is for, if it is for one.
#[derive(Default, Serialize)]
struct Process {
    /// The number; -1 or another that no process has: none.
    #[serde(rename = "process")]
    number: Option<i64>,
    /// The parameter that holds it.
    #[serde(rename = "process_parameter")]
    parameter: Option<String>,
}

impl Process {
    fn of(session: &PinnedSession, buffer: u32) -> Self {
        let state = session.state();
        let buffer = state.buffers.get(buffer as usize);
        match buffer.and_then(|buffer| buffer.process.as_ref()) {
            None => Self::default(),
            Some(Owner::Process(pid)) => Self {
                number: Some((*pid).into()),
                parameter: None,
            },
            Some(Owner::Parameter(name)) => {
                let place = state.parameters.iter().position(|known| known.name == *name);
                Self {
                    number: Some(place.map_or(-1, |place| session.control().parameter(place) as i64)),
                    parameter: Some(name.clone()),
                }
            }
        }
    }
}

/// Runs `kestrel buffer list`.
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
        Format::Json => {
            let lines: Vec<String> = rows.iter().map(json::line).collect::<Result<_, _>>()?;
            lines.iter().map(|line| format!("{line}\n")).collect()
        }
        Format::Text => text(&rows, monotonic()),
    };
    // A reader that went away is no failure.
    let _ = crate::screen::out().write_all(text.as_bytes());
    Ok(Exit::Done)
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
                status.geometry.mode.name().to_owned(),
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
        // Counts of the row above are those from the beginning: the ring before has none of its own.
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
    let Process {
        number: Some(number),
        parameter,
    } = &row.process
    else {
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
