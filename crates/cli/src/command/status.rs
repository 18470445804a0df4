//! `kestrel status`: tables, buffers, event rates and cost of persistent sessions.

use crate::arguments::duration;
use crate::exit::{Exit, Failure};
use crate::output::columns::Column::{Left, LeftOf, RightOf};
use crate::output::columns::Columns;
use crate::output::{Format, json, tables};
use crate::style::{ago, bytes};
use clap::Args;
use kestrel::Error;
use kestrel::kernel::Host;
use kestrel::kernel::process::allow_open_files;
use kestrel::kernel::procfs;
use kestrel::session::hotplug::Unattended;
use kestrel::session::status::{MapStatus, Status, age};
use kestrel_trace::print::{counted, thousands};
use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

/// Options of `status`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The session, instead of all
    #[arg(value_name = "NAME", conflicts_with = "session")]
    name: Option<String>,
    /// Same as the argument NAME
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// How long to measure rates and costs: seconds, or with ms, s, m; 0 shows counts only
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "200ms")]
    interval: Duration,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Show each program and how it is attached
    #[arg(short, long)]
    verbose: bool,
}

const EXAMPLES: &str = "\
Examples:
  kestrel status                          tables, buffers, the busiest events, what they cost
  kestrel status web --interval 2s -v     one session, program by program
  kestrel status --format json            one object per session";

/// Events and programs shown where not all are asked for.
const BUSIEST: usize = 12;

/// Runs `kestrel status`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let store = crate::sessions::store(&Host::default())?;
    store.sweep()?;
    let names = match options.name.as_deref().or(options.session.as_deref()) {
        Some(name) => vec![name.to_owned()],
        None => store.names()?,
    };
    if names.is_empty() {
        eprintln!("no session runs");
        return Ok(Exit::Failed);
    }
    let interval = Some(options.interval).filter(|interval| !interval.is_zero());
    let mut out = crate::screen::out();
    let all = names.len() > 1;
    let mut exit = Exit::Done;
    let looked = measure(&store, &names, interval);
    for (name, status) in names.iter().zip(looked) {
        let status = match status {
            Ok(status) => status,
            // Stopped since the names were read.
            Err(Error::NoSession { .. }) if all => continue,
            // That one cannot be read is no reason to say nothing of the others.
            Err(error) if all => {
                if options.format == Format::Json {
                    let why = error.to_string();
                    writeln!(out, "{}", serde_json::json!({ "session": name, "error": why }))?;
                }
                eprintln!("error: {error}");
                exit = Exit::Failed;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match options.format {
            Format::Json => writeln!(out, "{}", json::line(&status)?)?,
            Format::Text => out.write_all(text(&status, options.verbose).as_bytes())?,
        }
    }
    if exit == Exit::Failed {
        eprintln!("hint: `kestrel stop NAME` ends a session whatever it holds");
    }
    Ok(exit)
}

/// Measures sessions, all of them over the same interval.
fn measure(
    store: &kestrel::session::store::Store,
    names: &[String],
    interval: Option<Duration>,
) -> Vec<Result<Status, Error>> {
    let one = |name: &String| store.session(Some(name))?.status(interval);
    if let [name] = names {
        return vec![one(name)];
    }
    let mut all = Vec::new();
    // Each has its maps and programs open meanwhile.
    allow_open_files(MAX_FILES);
    for some in names.chunks(MAX_THREADS) {
        all.extend(std::thread::scope(|scope| {
            let looking: Vec<_> = some.iter().map(|name| scope.spawn(move || one(name))).collect();
            let done = looking.into_iter().zip(some).map(|(thread, name)| {
                thread.join().unwrap_or_else(|_| {
                    Err(Error::Unsupported {
                        what: format!("looking at the session {name}"),
                        why: "the thread that did it failed".to_owned(),
                    })
                })
            });
            done.collect::<Vec<_>>()
        }));
    }
    all
}

/// The number of sessions measured at the same time.
const MAX_THREADS: usize = 32;
/// The limit of open files raised for measuring: each session's maps and programs are open meanwhile.
const MAX_FILES: u64 = 1 << 16;

fn text(status: &Status, verbose: bool) -> String {
    let now = procfs::realtime();
    let mut out = format!("session {}, started {}\n", status.name, ago(status.started, now));
    let _ = match status.tables.iter().find(|table| table.active) {
        None => writeln!(out, "no table is active: all events are masked"),
        Some(active) => match active.since {
            Some(since) => writeln!(out, "table {} active, since {}", active.name, ago(since, now)),
            None => writeln!(out, "table {} active, switched to by a handler", active.name),
        },
    };
    out += &tables::text(&status.tables);
    buffers(status, &mut out);
    events(status, verbose, &mut out);
    maps(status, &mut out);
    programs(status, verbose, &mut out);
    // To which CPUs they came is not known here: taken for one, so that the remark is rather there than missing.
    let came = status.events.iter().map(|row| (&row.event, 0));
    let missed = status.programs.iter().map(|program| program.missed).sum();
    if let Some(uncounted) = &status.uncounted
        && (verbose || uncounted.matters(missed, came))
    {
        let _ = writeln!(out, "  {uncounted}");
    }
    for module in &status.modules {
        let _ = writeln!(out, "  {module}");
    }
    for event in &status.half_loaded {
        let _ = writeln!(
            out,
            "  {event}: a `table load` was cut short; the next `kestrel table use` (any change) finishes it, until then a hit that the kernel skips may be handled by two tables"
        );
    }
    for Unattended { event, cpus } in &status.unattended {
        let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
        let _ = writeln!(
            out,
            "  {event} does not come from CPU {}, online since later: the next `kestrel table use` (any change) or an agent attaches it",
            cpus.join(", ")
        );
    }
    out.push('\n');
    out
}

fn buffers(status: &Status, out: &mut String) {
    let mut columns = Columns::new([
        Left,
        RightOf(10),
        LeftOf(9),
        RightOf(5),
        RightOf(9),
        RightOf(9),
        RightOf(13),
        RightOf(13),
    ]);
    columns.head(
        "  ",
        [
            "buffer",
            "per CPU",
            "mode",
            "fill",
            "oldest",
            "newest",
            "overwritten",
            "lost",
        ],
    );
    for b in &status.buffers {
        // A frozen buffer takes nothing in either mode.
        let mode = match b.frozen {
            true => "frozen",
            false => b.geometry.mode.name(),
        };
        columns.row(
            "  ",
            [
                b.name.clone(),
                bytes(u64::from(b.geometry.data())),
                mode.to_owned(),
                format!("{:.0}%", b.fill() * 100.0),
                span(b.oldest()),
                span(b.newest()),
                thousands(b.sum(|ring| ring.overwritten)),
                thousands(b.sum(|ring| ring.lost)),
            ],
        );
    }
    *out += &columns.text();
}

/// Age of a time in short form.
fn span(time: Option<u64>) -> String {
    let Some(time) = time else { return "-".to_owned() };
    let seconds = age(time).as_secs_f64();
    match seconds {
        s if s < 120.0 => format!("-{s:.2} s"),
        s if s < 7200.0 => format!("-{:.1} min", s / 60.0),
        s => format!("-{:.1} h", s / 3600.0),
    }
}

fn events(status: &Status, verbose: bool, out: &mut String) {
    let mut events: Vec<_> = status.events.iter().collect();
    if events.is_empty() {
        out.push_str("  no event has been recorded\n");
        return;
    }
    events.sort_by_key(|e| std::cmp::Reverse((e.rate.unwrap_or(0.0) as u64, e.recorded + e.lost)));
    let shown = if verbose { events.len() } else { BUSIEST };
    let mut columns = Columns::new([Left, RightOf(15), RightOf(13), RightOf(12)]);
    columns.head("  ", ["event", "recorded", "lost", "per second"]);
    for e in events.iter().take(shown) {
        let rate = rate(e.rate);
        columns.row(
            "  ",
            [e.event.clone(), thousands(e.recorded), thousands(e.lost), rate],
        );
    }
    *out += &columns.text();
    if events.len() > shown {
        let _ = writeln!(out, "  and {} more: --verbose shows them", events.len() - shown);
    }
}

fn maps(status: &Status, out: &mut String) {
    if status.maps.is_empty() {
        return;
    }
    let map = |m: &MapStatus| {
        let lost = match m.lost {
            0 => String::new(),
            lost => format!(", no room for {}", counted(lost, "update")),
        };
        format!("{} {}{lost}", m.title, counted(m.keys as u64, "key"))
    };
    let all: Vec<String> = status.maps.iter().map(map).collect();
    let _ = writeln!(
        out,
        "  maps: {} (`kestrel handler list` shows them)",
        all.join(" · ")
    );
}

/// A rate in whole numbers a second; `-` where none was measured.
fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| thousands(rate.round() as u64))
}

fn programs(status: &Status, verbose: bool, out: &mut String) {
    if status.programs.is_empty() {
        return;
    }
    let missed: u64 = status.programs.iter().map(|p| p.missed).sum();
    let timed = !status.interval.is_zero();
    let runs: f64 = status.programs.iter().filter_map(|p| p.rate).sum();
    let time: f64 = status
        .programs
        .iter()
        .map(|p| p.rate.unwrap_or(0.0) * p.cost.unwrap_or(0.0))
        .sum();
    // Each program weighs as often as it runs.
    let cost = if runs > 0.0 { time / runs } else { 0.0 };
    let many = counted(status.programs.len() as u64, "program");
    let rates = match timed {
        true => format!(
            ", {} per second, {cost:.0} ns each, {:.2} % of one CPU",
            counted(runs.round() as u64, "run"),
            time / 1e7,
        ),
        false => String::new(),
    };
    let _ = writeln!(out, "  {many}{rates}, {} missed", counted(missed, "event"));
    if !verbose {
        return;
    }
    let mut all: Vec<_> = status.programs.iter().collect();
    all.sort_by(|a, b| {
        (b.rate, b.missed as f64)
            .partial_cmp(&(a.rate, a.missed as f64))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    let mut columns = Columns::new([RightOf(13), RightOf(8), RightOf(15), Left]);
    for p in all {
        let name = match p.events {
            1 => p.event.clone(),
            many => format!("{} and {} more", p.event, many - 1),
        };
        let cost = p.cost.map_or("-".to_owned(), |ns| format!("{ns:.0} ns"));
        let rate = rate(p.rate);
        let missed = format!("{} missed", thousands(p.missed));
        columns.row(
            "  ",
            [format!("{rate} /s"), cost, missed, format!("{name} by {}", p.way)],
        );
    }
    *out += &columns.text();
}
