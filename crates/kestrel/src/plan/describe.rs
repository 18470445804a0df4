//! A plan's tables for people: event by event, its handler and its class.

use super::hook::PlannedHandler;
use super::planned::Plan;
use kestrel_catalog::catalog::class;
use kestrel_compiler::lang::{parse_events, without_comments};
use std::collections::HashMap;

/// An event of a table, as `table check` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEvent {
    /// The event kind's canonical name.
    pub kind: &'static str,
    /// Name of the event.
    pub event: String,
    /// The class, where it has one.
    pub class: Option<&'static str>,
    /// Predicate and handler on one line; absent where this table masks what another one does not.
    pub handler: Option<String>,
    /// The line of the file where the handler stands, from 1.
    pub line: Option<usize>,
    /// The strategy, in words.
    pub strategy: String,
}

/// The table of this number: its events by kind and name.
pub fn describe(plan: &Plan, number: u32) -> Vec<TableEvent> {
    let mut all = Vec::new();
    // One row of the file is a row of each event that it names.
    let mut handlers: HashMap<&str, String> = HashMap::new();
    // A hook that only serves another one is no event of the table.
    for hook in plan.hooks.iter().filter(|hook| !hook.companion) {
        let row = hook.handlers.iter().find(|row| row.tables.contains(&number));
        let handler = row.map(|row| handlers.entry(row.text()).or_insert_with(|| handler(row)).clone());
        let strategy = hook
            .strategies
            .first()
            .map_or_else(String::new, ToString::to_string);
        for instance in &hook.instances {
            all.push(TableEvent {
                kind: hook.kind,
                event: instance.name.clone(),
                class: class::of(&instance.name).map(|class| class.name),
                handler: handler.clone(),
                line: row.map(line),
                strategy: strategy.clone(),
            });
        }
    }
    all.sort_by(|a, b| (a.kind, &a.event).cmp(&(b.kind, &b.event)));
    all
}

/// Handler of a row, on one line.
pub fn handler(row: &PlannedHandler) -> String {
    let text = without_comments(row.text());
    let (probe, _) = parse_events(&text);
    let end = probe.events.last().map_or(0, |event| event.span.end as usize);
    let behind = text.get(end..).unwrap_or_default();
    let behind = behind.trim_matches(|c: char| c == ',' || c == ';' || c.is_whitespace());
    let words: Vec<&str> = behind.split_whitespace().collect();
    match words.is_empty() {
        true => "{ record() }".to_owned(),
        false => words.join(" "),
    }
}

fn line(row: &PlannedHandler) -> usize {
    let before = row.source.get(..row.span.start as usize).unwrap_or_default();
    before.matches('\n').count() + 1
}
