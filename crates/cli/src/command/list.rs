//! `kestrel list`: the events of this kernel and their fields.

use crate::exit::{Exit, Failure};
use crate::output::columns::Column::{Left, LeftOf, RightOf};
use crate::output::columns::Columns;
use crate::output::json;
use clap::{Args, ValueEnum};
use kestrel::catalog::class::{self, CLASSES};
use kestrel::catalog::{Catalog, EventKind, Glob, find_kind, kinds};
use kestrel::kernel::Host;
use kestrel::kernel::tracefs::Tracefs;
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;

/// Options of `list`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Patterns: 'tracepoint:sched:*', 'sched:*', 'k:vfs_*', '*read*'; nothing lists everything
    #[arg(value_name = "GLOB")]
    patterns: Vec<String>,
    /// List event classes with the number of their events on this kernel; with -v, the events (patterns select classes by name)
    #[arg(long)]
    classes: bool,
    /// Show the typed fields of events and the parameters of functions
    #[arg(short, long)]
    verbose: bool,
    /// Print the format of a tracepoint as the kernel does (tracefs's events/GROUP/NAME/format)
    #[arg(long, value_name = "EVENT", conflicts_with_all = ["patterns", "classes", "verbose", "format"])]
    format_of: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: ListFormat,
}

/// Output format of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ListFormat {
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
    /// Tracepoints alone, in the layout of tracefs's available_events, which set_event takes
    Tracefs,
}

const EXAMPLES: &str = "\
Examples:
  kestrel list                                            everything
  kestrel list 'sched:*' 'tracepoint:syscalls:sys_enter_*'
  kestrel list -v sched:sched_switch                      its fields and their types
  kestrel list -v kprobe:vfs_read                         its parameters and their types
  kestrel list interval profile software                  clocks and counters: COUNT is yours to fill in
  kestrel list 'sched:*' --format tracefs                 as available_events has them
  kestrel list --format-of sched:sched_switch             as the kernel prints its format
  kestrel list --classes                                  process, memory, …: what class:NAME stands for
  kestrel list '*openat*' --format json | jq -r .event";

/// A pattern of `list`: the kinds it is about, and a glob per part of the name.
struct Pattern {
    kind: Option<&'static dyn EventKind>,
    parts: Vec<Glob>,
}

/// Runs `kestrel list`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    if let Some(event) = &options.format_of {
        return format_of(event, &Host::default());
    }
    let catalog = Catalog::new(Host::default());
    if options.classes {
        if options.format == ListFormat::Tracefs {
            let message = "--classes with --format tracefs: available_events has no classes";
            return Err(Failure::new(Exit::Usage, message).hint("leave out one of the two"));
        }
        return classes(options, &catalog);
    }
    let wanted: Vec<Pattern> = match options.patterns.as_slice() {
        [] => vec![Pattern {
            kind: None,
            parts: Vec::new(),
        }],
        patterns => patterns.iter().map(|p| parse_pattern(p)).collect(),
    };
    let mut lister = Lister {
        catalog: &catalog,
        options,
        out: Vec::with_capacity(1 << 17),
        lines: 0,
        problems: Vec::new(),
    };
    let mut missed = Vec::new();
    for (index, pattern) in wanted.iter().enumerate() {
        let before = lister.lines;
        lister.pattern(pattern)?;
        if lister.lines == before {
            missed.extend(options.patterns.get(index));
        }
    }
    lister.flush()?;
    let found = lister.lines > 0;
    // What this kernel lacks is `doctor`'s to tell; what we may not see, or could not, is said beside an incomplete list.
    lister
        .problems
        .retain(|(_, problem)| !matches!(problem, kestrel::Error::Unsupported { .. }));
    if found {
        for (kind, problem) in &lister.problems {
            eprintln!("kestrel: no {kind} events are listed: {problem}");
        }
        for pattern in missed {
            eprintln!("kestrel: this kernel has no event that matches {pattern}");
        }
        return Ok(Exit::Done);
    }
    if let Some((_, problem)) = lister.problems.into_iter().next() {
        return Err(problem.into());
    }
    Err(Failure::new(
        Exit::Failed,
        format!(
            "this kernel has no event that matches {}",
            options.patterns.join(" ")
        ),
    )
    .hint("put patterns into quotes; `kestrel list '*word*'` finds events with a word in their name"))
}

/// Prints what the kernel says about a tracepoint's fields.
fn format_of(event: &str, host: &Host) -> Result<Exit, Failure> {
    let name = event.strip_prefix("tracepoint:").unwrap_or(event);
    let is_name =
        |part: &str| !part.is_empty() && !part.contains(['/', '*', '?', '[', ':']) && !part.starts_with('.');
    let parts = name
        .split_once(':')
        .filter(|(group, name)| is_name(group) && is_name(name));
    let Some((group, name)) = parts else {
        let message = format!("`{event}` names no tracepoint: it should read GROUP:NAME");
        return Err(
            Failure::new(Exit::Usage, message).hint("`kestrel list 'sched:*'` lists those of a group")
        );
    };
    let tracefs = Tracefs::open(host).map_err(kestrel::Error::from)?;
    if !tracefs.has(group, name).map_err(kestrel::Error::from)? {
        let message = format!("this kernel has no tracepoint {group}:{name}");
        return Err(Failure::new(Exit::Failed, message).hint(format!(
            "`kestrel list '*{name}*'` finds events with that in their name"
        )));
    }
    let format = tracefs.read(&format!("events/{group}/{name}/format"));
    let format = format.map_err(kestrel::Error::from)?;
    crate::screen::out().write_all(format.as_bytes())?;
    Ok(Exit::Done)
}

/// The classes, with the number of their events on this kernel.
fn classes(options: &Options, catalog: &Catalog) -> Result<Exit, Failure> {
    // Patterns may be written as after `-e` (`class:net`).
    let globs: Vec<Glob> = options
        .patterns
        .iter()
        .map(|p| Glob::new(p.trim_start_matches("class:")))
        .collect();
    let wanted = |name: &str| globs.is_empty() || globs.iter().any(|g| g.matches(name));
    let events = class::events(catalog)?;
    let mut out = Vec::new();
    let mut any = false;
    let mut columns = Columns::new([LeftOf(16), RightOf(5), Left]);
    for (class, events) in CLASSES
        .iter()
        .zip(&events)
        .filter(|(class, _)| wanted(class.name))
    {
        any = true;
        if options.format == ListFormat::Json {
            let row = ClassRow {
                class: class.name,
                about: class.about,
                events: events.len(),
                names: options.verbose.then_some(events.as_slice()),
            };
            writeln!(out, "{}", json::line(&row)?)?;
            continue;
        }
        let name = format!("class:{}", class.name);
        columns.row("", [name, events.len().to_string(), class.about.to_owned()]);
        if options.verbose {
            events
                .iter()
                .for_each(|event| columns.line(&format!("    {event}")));
        }
    }
    out.extend_from_slice(columns.text().as_bytes());
    crate::screen::out().write_all(&out)?;
    if any {
        return Ok(Exit::Done);
    }
    let names: Vec<&str> = CLASSES.iter().map(|class| class.name).collect();
    Err(Failure::new(
        Exit::Failed,
        format!("there is no class {}", options.patterns.join(" ")),
    )
    .hint(format!("the classes are {}", names.join(", "))))
}

fn parse_pattern(text: &str) -> Pattern {
    let mut parts: Vec<&str> = text.split(':').collect();
    let kind = parts.first().and_then(|first| find_kind(first));
    if kind.is_some() {
        parts.remove(0);
    }
    Pattern {
        kind,
        parts: parts.into_iter().map(Glob::new).collect(),
    }
}

/// Names of tracepoints in the order of `available_events`.
fn in_kernels_order(mut names: Vec<String>, host: &Host) -> Result<Vec<String>, Failure> {
    let tracefs = Tracefs::mount(host).map_err(kestrel::Error::from)?;
    let events = tracefs.events().map_err(kestrel::Error::from)?;
    let places: HashMap<String, usize> = events
        .iter()
        .enumerate()
        .map(|(place, event)| (format!("{}:{}", event.group, event.name), place))
        .collect();
    names.sort_by_key(|name| places.get(name).copied().unwrap_or(usize::MAX));
    Ok(names)
}

struct Lister<'a> {
    catalog: &'a Catalog,
    options: &'a Options,
    out: Vec<u8>,
    lines: u64,
    problems: Vec<(&'static str, kestrel::Error)>,
}

impl Lister<'_> {
    fn pattern(&mut self, wanted: &Pattern) -> Result<(), Failure> {
        for kind in kinds() {
            let chosen = match wanted.kind {
                Some(only) => only.name() == kind.name(),
                None => kind.row().listed,
            };
            // Of the events that Kestrel knows, tracefs lists these.
            let chosen =
                chosen && (self.options.format != ListFormat::Tracefs || kind.name() == "tracepoint");
            let Some(parts) = globs_for(kind, wanted).filter(|_| chosen) else {
                continue;
            };
            let mut names = match kind.listed(self.catalog, &parts) {
                Ok(names) => names,
                Err(error) if wanted.kind.is_some() => return Err(error.into()),
                Err(error) => {
                    self.problems.push((kind.name(), error));
                    Vec::new()
                }
            };
            if self.options.format == ListFormat::Tracefs {
                names = in_kernels_order(names, self.catalog.host())?;
            }
            for name in names {
                self.line(kind, &name)?;
            }
        }
        Ok(())
    }

    fn line(&mut self, kind: &dyn EventKind, name: &str) -> Result<(), Failure> {
        self.lines += 1;
        match self.options.format {
            ListFormat::Json => self.json(kind, name)?,
            ListFormat::Tracefs => writeln!(self.out, "{name}")?,
            ListFormat::Text => {
                writeln!(self.out, "{}", full_name(kind, name))?;
                if self.options.verbose {
                    self.fields(kind, name)?;
                }
            }
        }
        if self.out.len() > 1 << 16 {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn fields(&mut self, kind: &dyn EventKind, name: &str) -> Result<(), Failure> {
        let Ok(description) = kind.describe(self.catalog, name) else {
            return Ok(());
        };
        for field in &description.fields {
            writeln!(self.out, "    {} {}", field.ty, field.name)?;
        }
        if let Some(returns) = &description.returns {
            writeln!(self.out, "    returns {returns}")?;
        }
        Ok(())
    }

    fn json(&mut self, kind: &dyn EventKind, name: &str) -> Result<(), Failure> {
        let description = || kind.describe(self.catalog, name).ok();
        let description = self.options.verbose.then(description).flatten();
        let fields = description.as_ref().map(|it| {
            let fields = it.fields.iter().map(|field| FieldRow {
                name: field.name.clone(),
                r#type: field.ty.clone(),
            });
            fields.collect()
        });
        let row = EventRow {
            event: full_name(kind, name),
            kind: kind.name(),
            name,
            fields,
            returns: description.and_then(|it| it.returns),
        };
        writeln!(self.out, "{}", json::line(&row)?)?;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        crate::screen::out().write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }
}

/// A class of events, as JSON has it; the names where they are asked for.
#[derive(Debug, Serialize)]
struct ClassRow<'a> {
    class: &'a str,
    about: &'a str,
    events: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<&'a [String]>,
}

/// An event, as JSON has it; its fields where they are asked for and known.
#[derive(Debug, Serialize)]
struct EventRow<'a> {
    event: String,
    kind: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Vec<FieldRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    returns: Option<String>,
}

/// A field of an event.
#[derive(Debug, Serialize)]
struct FieldRow {
    name: String,
    r#type: String,
}

/// A name with its kind; some kinds are one event.
fn full_name(kind: &dyn EventKind, name: &str) -> String {
    match name {
        "" => kind.name().to_owned(),
        name => format!("{}:{name}", kind.name()),
    }
}

/// The globs for a kind's parts; `None` where the pattern cannot mean this kind. A lone glob is sought in the last part.
fn globs_for(kind: &dyn EventKind, wanted: &Pattern) -> Option<Vec<Glob>> {
    let given = wanted.parts.len();
    match (kind.row().parts, given) {
        (_, 0) => Some(Vec::new()),
        // The kind's name is all there is for a glob to match.
        (0, 1) if wanted.kind.is_none() && wanted.parts[0].matches(kind.name()) => Some(Vec::new()),
        (3, 2) => Some(wanted.parts.clone()),
        (2, 1) => Some(vec![Glob::new("*"), wanted.parts[0].clone()]),
        (parts, given) if parts == given => Some(wanted.parts.clone()),
        _ => None,
    }
}
