//! `kestrel table check` and `show`: tables in files and shipped ones; those of sessions are not here.

use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::output::columns::Column::{Left, LeftOf};
use crate::output::columns::Columns;
use crate::output::json;
use crate::output::warnings::warn;
use crate::style::bytes;
use clap::Args;
use kestrel::buffer::layout::Mode;
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::plan::Plan;
use kestrel::plan::{Options as PlanOptions, Source, TableEvent, describe, plan};
use kestrel::table::TableFile;
use kestrel::table::shipped::open;
use kestrel_trace::print::counted;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;

/// Options of `table check`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kestrel table check my.kst\n  kestrel table check flight      one that comes with Kestrel"
)]
pub(crate) struct CheckOptions {
    /// Table files, or names of shipped ones
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// Check the syntax only, without looking for the events in this kernel
    #[arg(long)]
    syntax: bool,
    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
}

/// Options of `table show`.
#[derive(Args, Debug)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct ShowOptions {
    /// A table file, or the name of a shipped one
    #[arg(value_name = "FILE")]
    file: String,
    /// Only this table
    #[arg(short, long, value_name = "TABLE")]
    table: Option<String>,
    /// Show how each event is attached
    #[arg(short, long)]
    verbose: bool,
    /// Print the text of the file, to start your own from
    #[arg(long, conflicts_with_all = ["table", "verbose", "format"])]
    source: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

const SHOW_EXAMPLES: &str = "\
Examples:
  kestrel table show flight                       events, classes and handlers of its tables on this kernel
  kestrel table show my.kst --table detail
  kestrel table show flight --source > my.kst     a text to start from";

/// Runs `kestrel table check`.
pub(super) fn check(options: &CheckOptions) -> Result<Exit, Failure> {
    let catalog = Catalog::new(Host::default());
    let mut worst: Option<Failure> = None;
    for name in &options.files {
        let Err(failure) = check_one(options, name, &catalog) else {
            continue;
        };
        if let Some(earlier) = worst.replace(failure) {
            earlier.report();
        }
    }
    worst.map_or(Ok(Exit::Done), Err)
}

/// Opens a table file for reading only: it needs no trust, as nothing in it is run.
fn read_only(name: &str) -> Result<TableFile, Failure> {
    let mut file = open(name)?;
    file.objection = None;
    Ok(file)
}

fn check_one(options: &CheckOptions, name: &str, catalog: &Catalog) -> Result<(), Failure> {
    let file = read_only(name)?;
    let mut out = crate::screen::out();
    if options.syntax {
        warn(&file, file.warnings.iter());
        if !options.quiet {
            writeln!(
                out,
                "{name}: {} read; its events were not looked for",
                tables(&file)
            )?;
        }
        return Ok(());
    }
    let plan = plan(Source::File(&file), &persistent_options(), catalog)?;
    warn(&file, plan.warnings.iter().map(|(_, warning)| warning));
    // Errors that only code generation finds count, too.
    for hook in &plan.hooks {
        for strategy in hook.strategies.iter().take(1) {
            hook.compile(strategy, &plan, None)?;
        }
    }
    if !options.quiet {
        let events = plan.hooks.iter().filter(|hook| !hook.companion);
        let events: usize = events.map(|hook| hook.instances.len()).sum();
        let (programs, buffers) = (plan.hooks.len(), plan.globals.buffers.len());
        writeln!(
            out,
            "{name}: {}, {}, {}, {}: right on this kernel",
            tables(&file),
            counted(events as u64, "event"),
            counted(programs as u64, "program"),
            counted(buffers as u64, "buffer")
        )?;
    }
    Ok(())
}

fn tables(file: &TableFile) -> String {
    counted(file.tables.len() as u64, "table")
}

/// The planner's options for a persistent session.
fn persistent_options() -> PlanOptions {
    PlanOptions {
        persistent: true,
        ..PlanOptions::default()
    }
}

/// Shows a table file.
pub(super) fn show(options: &ShowOptions) -> Result<Exit, Failure> {
    let file = read_only(&options.file)?;
    if options.source {
        crate::screen::out().write_all(file.text.as_bytes())?;
        return Ok(Exit::Done);
    }
    let catalog = Catalog::new(Host::default());
    let plan = plan(Source::File(&file), &persistent_options(), &catalog)?;
    warn(&file, plan.warnings.iter().map(|(_, warning)| warning));
    let mut out = Vec::new();
    if options.format == Format::Text && options.table.is_none() {
        buffers(&mut out, &file)?;
    }
    let mut any = false;
    for (place, name) in plan.tables.iter().enumerate() {
        if options.table.as_ref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        any = true;
        let rows = describe(&plan, place as u32 + 1);
        match options.format {
            Format::Text => text(&mut out, &file, name, &rows, options.verbose)?,
            Format::Json => rows_json(&mut out, &plan, name, &rows)?,
        }
    }
    if let Some(wanted) = options.table.as_ref().filter(|_| !any) {
        return Err(kestrel::Error::NoSuchTable {
            wanted: wanted.clone(),
            place: file.name.clone(),
            known: plan.tables.clone(),
        }
        .into());
    }
    crate::screen::out().write_all(&out)?;
    Ok(Exit::Done)
}

fn buffers(out: &mut Vec<u8>, file: &TableFile) -> std::io::Result<()> {
    for buffer in &file.buffers {
        let mode = match buffer.mode {
            Mode::Overwrite => "overwrite",
            Mode::Stream => "stream",
        };
        writeln!(
            out,
            "buffer {}: {} per CPU, {mode}",
            buffer.name,
            bytes(buffer.bytes)
        )?;
    }
    for parameter in &file.parameters {
        writeln!(
            out,
            "param {} = {}",
            parameter.name,
            parameter.value.cast_signed()
        )?;
    }
    Ok(())
}

/// Columns of an event's name and class.
const NAME: usize = 44;
const CLASS: usize = 10;

fn text(
    out: &mut Vec<u8>,
    file: &TableFile,
    name: &str,
    rows: &[TableEvent],
    verbose: bool,
) -> std::io::Result<()> {
    let parent = file.table(name).and_then(|table| table.parent.as_deref());
    let parent = parent.map_or_else(String::new, |parent| format!(", from {parent}"));
    let handled = rows.iter().filter(|row| row.handler.is_some()).count();
    let masked = rows.len() - handled;
    let masked = match masked {
        0 => String::new(),
        n => format!(", {n} masked that other tables have"),
    };
    writeln!(
        out,
        "\ntable {name}{parent}: {}{masked}",
        counted(handled as u64, "event")
    )?;
    let mut columns = Columns::new([LeftOf(NAME), LeftOf(CLASS), Left, Left]);
    for row in rows {
        let event = match row.kind {
            "tracepoint" => row.event.clone(),
            // `begin` and the like are kind and event in one.
            kind if row.event.starts_with(kind) => row.event.clone(),
            kind => format!("{kind}:{}", row.event),
        };
        let class = row.class.unwrap_or("-");
        let handler = row.handler.as_deref().unwrap_or("masked");
        let strategy = if verbose {
            format!("[{}]", row.strategy)
        } else {
            String::new()
        };
        columns.row("  ", [event, class.to_owned(), handler.to_owned(), strategy]);
    }
    out.write_all(columns.text().as_bytes())?;
    let mut classes: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.handler.is_some()) {
        *classes.entry(row.class.unwrap_or("without a class")).or_default() += 1;
    }
    let classes: Vec<String> = classes.iter().map(|(class, n)| format!("{class} {n}")).collect();
    match classes.as_slice() {
        [] => Ok(()),
        classes => writeln!(out, "  by class: {}", classes.join(", ")),
    }
}

/// An event of a table, as JSON has it.
#[derive(Debug, Serialize)]
struct EventRow<'a> {
    table: &'a str,
    /// Whether the table is the file's first.
    first: bool,
    kind: &'a str,
    event: &'a str,
    class: Option<&'a str>,
    /// None where this table masks the event.
    handler: Option<&'a str>,
    line: Option<usize>,
    way: &'a str,
}

fn rows_json(out: &mut Vec<u8>, plan: &Plan, name: &str, rows: &[TableEvent]) -> Result<(), Failure> {
    let first = plan.tables.first().is_some_and(|first| first == name);
    for row in rows {
        let row = EventRow {
            table: name,
            first,
            kind: row.kind,
            event: &row.event,
            class: row.class,
            handler: row.handler.as_deref(),
            line: row.line,
            way: &row.strategy,
        };
        writeln!(out, "{}", json::line(&row)?)?;
    }
    Ok(())
}
