//! `kestrel report` on a terminal, interactively: tables, a call graph, times and records of a recording, narrowed down step by step.
//!
//! ```text
//!   Explorer ──keys──► levels, each a Scope (conditions) ──Question──► a pass over the recording in a thread of its own
//!      │                   ▲                                                  │ `trace::report`, `stacks`, `query::Latencies`, …
//!      └──► draw           └── tables, graph, lines ◄──────Answer─────────────┘
//! ```
//!
//! Nothing is added up here: the code behind `report` and `print` does that. Tables, a tree of stacks, and checkpoints by which records are found again are held in
//! memory; the records themselves are read from the disk.

mod answer;
mod draw;
mod explorer;
mod graph;
mod help;
mod index;
mod jobs;
mod level;
mod losses;
mod pass;
mod records;
mod scope;
mod tables;
#[cfg(test)]
mod tests;
mod timeline;

use crate::calls;
use crate::exit::{Exit, Failure};
use crate::filter::Choice;
use crate::stacks::with_lines;
use crate::terminal;
use answer::Source;
use explorer::Explorer;
use jobs::Jobs;
use kestrel_trace::calls::Signatures;
use kestrel_trace::ctf::directory::Trace;
use scope::{Condition, Scope};
use std::path::Path;

/// Shows a recording on the whole terminal until the user quits. `choice` selects the records that are shown at all; `lines` says whether inlined functions
/// are frames of their own.
pub(crate) fn explore(trace: Trace, path: &Path, choice: Choice, lines: bool) -> Result<Exit, Failure> {
    let mut explorer = explorer(trace, path, choice, lines);
    let shown = terminal::fill(&mut explorer);
    explorer.cancel();
    shown.map(|()| Exit::Done)
}

fn explorer(trace: Trace, path: &Path, choice: Choice, lines: bool) -> Explorer {
    let symbols = match lines {
        true => with_lines(trace.symbols.clone()),
        false => trace.symbols.clone(),
    };
    let source = Source {
        path: path.to_owned(),
        begin_ns: choice.background.begin_ns,
        symbols,
    };
    let signatures = match scope::has_calls(&trace.reader.info().events) {
        true => calls::of_recording(&trace, path, None)
            .map(|(signatures, _)| signatures)
            .unwrap_or_default(),
        false => Signatures::default(),
    };
    let whole = Scope::new(signatures);
    let scope = match choice.into_filter() {
        Some(filter) => whole.and(Condition::asked(filter)),
        None => whole,
    };
    let clock = trace.reader.info().clock;
    Explorer::new(Jobs::new(source), trace, scope, clock)
}
