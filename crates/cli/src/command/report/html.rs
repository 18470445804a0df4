//! `report --html`: a recording as one page for browsers.

use crate::calls::followed;
use crate::exit::{Exit, Failure};
use crate::filter::{self, Choice};
use crate::output::losses::missing;
use crate::output::write_file;
use crate::stacks::with_lines;
use kestrel_trace::browser::{About, Limits, PageBuilder};
use kestrel_trace::calls::Reader as CallReader;
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::export::{Layout, Style};
use kestrel_trace::print::counted;
use std::path::Path;

/// Options of the HTML report.
pub(super) struct HtmlOptions<'a> {
    /// The file to write.
    pub(super) file: &'a Path,
    /// Where the trace lies.
    pub(super) trace: &'a Path,
    /// Whether inlined functions are frames of their own.
    pub(super) lines: bool,
    /// Whether some records are not wanted.
    pub(super) filtered: bool,
}

/// Writes the page.
pub(super) fn write(
    wanted: &HtmlOptions<'_>,
    mut trace: Trace,
    choice: &mut Choice,
) -> Result<Exit, Failure> {
    let is_of_calls = trace.reader.info().events.iter().any(CallReader::is_of_calls);
    let calls = match is_of_calls {
        true => Some(followed(
            &trace,
            wanted.trace,
            None,
            (Layout::Lines, Style::default()),
        )?),
        false => None,
    };
    let symbols = match wanted.lines {
        true => with_lines(trace.symbols.clone()),
        false => trace.symbols.clone(),
    };
    let names = (trace.processes.clone(), trace.tasks.clone());
    let mut page = PageBuilder::new(trace.reader.info(), symbols, names, calls, Limits::USUAL);
    let mut lost = 0;
    loop {
        let before = page.last_ns();
        let Some(record) = trace.reader.next()? else { break };
        page.record(&record, choice.wants(&record));
        let now = trace.reader.lost();
        if now > lost {
            page.lose(now - lost, before);
            lost = now;
        }
    }
    // The bar goes before the words come.
    trace.reader.watch(Box::new(|_| {}));
    let (lines, exit) = missing(&trace.reader, trace.summary.as_ref());
    let records = page.records();
    if records == 0 {
        return Ok(filter::none_found(wanted.trace, wanted.filtered));
    }
    let notes = trace
        .summary
        .iter()
        .flat_map(|summary| summary.notes.iter().chain(&summary.limits));
    let notes = notes.chain(&trace.remarks).cloned().collect();
    let page = page.finish(About {
        info: trace.reader.info().clone(),
        path: wanted.trace.display().to_string(),
        missing: lines.clone(),
        notes,
    });
    write_file(wanted.file, page.bytes())?;
    lines.iter().for_each(|line| eprintln!("{line}"));
    if records > Limits::USUAL.events as u64 {
        eprintln!(
            "the page has a sample of the {}, and says so; its totals are of all of them",
            counted(records, "event")
        );
    }
    eprintln!(
        "{} in {} ({:.1} MB): open it in a browser",
        counted(records, "event"),
        wanted.file.display(),
        page.bytes().len() as f64 / 1e6
    );
    Ok(exit)
}
