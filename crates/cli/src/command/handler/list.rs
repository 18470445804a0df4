//! `kestrel handler list`: the handlers of a session with their counts, maps and parameters.

use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::output::json;
use crate::output::object_maps;
use crate::style::ago;
use clap::Args;
use kestrel::kernel::Host;
use kestrel::kernel::procfs;
use kestrel::session::handlers::{EventCounts, Handler};
use kestrel::session::maps;
use kestrel::session::pinned::PinnedSession;
use kestrel_trace::aggregate::read::Snapshot;
use kestrel_trace::aggregate::{json as map_as_json, text as map_as_text};
use kestrel_trace::print::{counted, thousands};
use kestrel_trace::symbol::Symbols;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::io::Write;

/// Options of `handler list`.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The session, where there are several
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Show whole handlers, the counts of each event, and whole maps
    #[arg(short, long)]
    verbose: bool,
}

/// Characters of a handler's text where it is not shown whole.
const SHORT: usize = 100;

/// Runs `kestrel handler list`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let host = Host::default();
    let session = crate::sessions::store(&host)?.session(options.session.as_deref())?;
    let handlers = session.handlers()?;
    let snapshots: Vec<Snapshot> = handlers.iter().flat_map(|h| h.maps.iter().cloned()).collect();
    let (symbols, notes) = maps::symbols(&snapshots, &host, None);
    for note in notes {
        eprintln!("{}", kestrel_trace::print::shown(&note));
    }
    let now = procfs::realtime();
    let mut out = crate::screen::out();
    for handler in &handlers {
        match options.format {
            Format::Json => {
                let row = HandlerRow::of(handler, &session, &symbols)?;
                writeln!(out, "{}", json::line(&row)?)?;
            }
            Format::Text => {
                out.write_all(text(handler, &symbols, options.verbose, now).as_bytes())?;
                out.write_all(programs(handler, &session, options.verbose)?.as_bytes())?;
            }
        }
    }
    if handlers.is_empty() {
        eprintln!("no table has a handler");
    }
    Ok(Exit::Done)
}

/// A handler with its counts, maps and parameters, as JSON has it.
#[derive(Debug, Serialize)]
struct HandlerRow<'a> {
    handler: &'a str,
    tables: &'a [String],
    active: bool,
    source: &'a str,
    events: &'a [EventCounts],
    records: u16,
    messages: bool,
    kept: u64,
    lost: u64,
    uncounted: bool,
    missed: u64,
    reset: Option<u64>,
    maps: Vec<Value>,
    parameters: Map<String, Value>,
    programs: Vec<ProgramRow<'a>>,
}

/// A program of a compiled object behind a handler, with the object's maps.
#[derive(Debug, Serialize)]
struct ProgramRow<'a> {
    object: &'a str,
    program: &'a str,
    maps: Vec<ObjectMap>,
}

/// A map of a compiled object.
#[derive(Debug, Serialize)]
struct ObjectMap {
    map: String,
    id: u32,
    entries: Vec<object_maps::Entry>,
}

impl<'a> HandlerRow<'a> {
    fn of(handler: &'a Handler, session: &PinnedSession, symbols: &Symbols) -> Result<Self, Failure> {
        let parameters = handler.parameters.iter();
        let parameters = parameters.map(|p| (p.name.clone(), p.value.parse().unwrap_or(Value::Null)));
        Ok(Self {
            handler: &handler.name,
            tables: &handler.tables,
            active: handler.active,
            source: &handler.source,
            events: &handler.events,
            records: handler.records,
            messages: handler.messages,
            kept: handler.kept(),
            lost: handler.lost(),
            uncounted: handler.uncounted,
            missed: handler.missed,
            reset: handler.reset,
            maps: handler.maps.iter().map(|map| map_as_json(map, symbols)).collect(),
            parameters: parameters.collect(),
            programs: ProgramRow::all(handler, session)?,
        })
    }
}

impl<'a> ProgramRow<'a> {
    fn all(handler: &'a Handler, session: &PinnedSession) -> Result<Vec<Self>, Failure> {
        let mut programs = Vec::new();
        for program in &handler.programs {
            let mut maps = Vec::new();
            for map in session
                .object_maps(program.object)?
                .iter()
                .filter(|map| object_maps::is_readable(map))
            {
                maps.push(ObjectMap {
                    map: map.name().to_owned(),
                    id: map.info().id,
                    entries: object_maps::entries(map)?,
                });
            }
            programs.push(ProgramRow {
                object: &program.path,
                program: &program.program,
                maps,
            });
        }
        Ok(programs)
    }
}

/// Entries of an object's map shown where it is not shown in full.
const FEW: usize = 10;

fn programs(handler: &Handler, session: &PinnedSession, verbose: bool) -> Result<String, Failure> {
    let mut out = String::new();
    for program in &handler.programs {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "    runs {} of {}", program.program, program.path);
        for map in session
            .object_maps(program.object)?
            .iter()
            .filter(|map| object_maps::is_readable(map))
        {
            let text = object_maps::text(map)?;
            let lines = text.lines().count();
            let most = if verbose || lines <= FEW + 1 { lines } else { FEW };
            for line in text.lines().take(most) {
                let _ = writeln!(out, "    {line}");
            }
            if most < lines {
                let _ = writeln!(out, "      and {} more (-v)", thousands((lines - most) as u64));
            }
        }
    }
    Ok(out)
}

fn text(handler: &Handler, symbols: &Symbols, verbose: bool, now: u64) -> String {
    let mut out = format!("{} {}", if handler.active { "*" } else { " " }, handler.name);
    // Writing to a string cannot fail.
    let _ = match handler.events.len() {
        0 | 1 => Ok(()),
        many => write!(out, " and {}", counted(many as u64 - 1, "more event")),
    };
    let _ = match handler.tables.as_slice() {
        [_, others @ ..] if !others.is_empty() => write!(out, ", also in {}", others.join(", ")),
        _ => Ok(()),
    };
    let _ = writeln!(out, "\n    {}", one_line(&handler.source, verbose));
    counts(handler, verbose, now, &mut out);
    for parameter in &handler.parameters {
        let _ = writeln!(out, "    {} = {}", parameter.name, parameter.value);
    }
    for map in &handler.maps {
        let whole = match verbose && !map.is_empty() {
            true => map_as_text(map, symbols),
            false => short(map, symbols),
        };
        for line in whole.lines().filter(|line| !line.is_empty()) {
            let _ = writeln!(out, "    {line}");
        }
    }
    out
}

fn counts(handler: &Handler, verbose: bool, now: u64, out: &mut String) {
    let since = handler
        .reset
        .map_or(String::new(), |at| format!(", since {}", ago(at, now)));
    let missed = match handler.missed {
        0 => String::new(),
        missed => format!(", {} missed", counted(missed, "event")),
    };
    let what = match (handler.records, handler.uncounted) {
        (0, _) => "writes no records".to_owned(),
        _ if handler.messages => format!(
            "{} sent to the agent, {} lost",
            counted(handler.kept(), "message"),
            thousands(handler.lost())
        ),
        (_, streams) => format!(
            "{} kept{}, {} lost",
            counted(handler.kept(), "record"),
            if streams {
                " (what streams keep is not counted)"
            } else {
                ""
            },
            thousands(handler.lost())
        ),
    };
    let _ = writeln!(out, "    {what}{missed}{since}");
    if verbose && handler.events.len() > 1 {
        let came = handler.events.iter().filter(|event| event.kept + event.lost > 0);
        for event in came {
            let (kept, lost) = (thousands(event.kept), thousands(event.lost));
            let _ = writeln!(out, "      {}: {kept} kept, {lost} lost", event.event);
        }
    }
}

/// A handler's text without its line breaks.
fn one_line(source: &str, whole: bool) -> String {
    let words: Vec<&str> = source.split_whitespace().collect();
    let line = words.join(" ");
    if whole || line.chars().count() <= SHORT {
        return line;
    }
    line.chars().take(SHORT - 1).chain(['…']).collect()
}

/// A map in a line: its value if there is only one, else how much there is.
fn short(map: &Snapshot, symbols: &Symbols) -> String {
    let title = map.ty.title();
    let lost = match map.lost {
        0 => String::new(),
        lost => format!(", no room for {}", counted(lost, "update")),
    };
    let held = match map.rows.as_slice() {
        [] => format!("{title}: nothing"),
        [row] => match map.brief(row) {
            Some(brief) => format!("{title}: {brief}"),
            None => map_as_text(map, symbols)
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
        },
        rows => format!("{title}: {}", counted(rows.len() as u64, "key")),
    };
    held + &lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel::session::handlers::EventCounts;

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(one_line("a:b  {\n  count();\n}", false), "a:b { count(); }");
        let long = format!("a:b {{ {} }}", "ä".repeat(200));
        let cut = one_line(&long, false);
        assert!(cut.ends_with('…') && cut.chars().count() == SHORT, "{cut}");
        assert_eq!(one_line(&long, true), long);
    }

    #[test]
    fn later_tables_are_named() {
        let handler = Handler {
            name: "a/x:y".to_owned(),
            source: "x:y { record() }".to_owned(),
            tables: vec!["a".to_owned(), "b".to_owned()],
            active: true,
            events: vec![EventCounts {
                event: "x:y".to_owned(),
                kept: 1200,
                lost: 3,
            }],
            records: 1,
            messages: false,
            uncounted: false,
            missed: 0,
            reset: None,
            maps: Vec::new(),
            parameters: Vec::new(),
            programs: Vec::new(),
        };
        assert_eq!(
            text(&handler, &Symbols::default(), false, 0),
            "* a/x:y, also in b\n    x:y { record() }\n    1,200 records kept, 3 lost\n"
        );
        let asks = Handler {
            messages: true,
            ..handler
        };
        let shown = text(&asks, &Symbols::default(), false, 0);
        assert!(
            shown.contains("1,200 messages sent to the agent, 3 lost"),
            "{shown}"
        );
    }
}
