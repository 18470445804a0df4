//! The keys of the view, for its last line and its help.

use crate::terminal::Help;
use crate::terminal::keys::{self, help};

/// Keys of the call graph, the first ones while it is shown.
pub(super) const GRAPH: &[Help] = &[
    help(
        "Enter",
        "open",
        "call graph: opens or closes a row (also + and -)",
    ),
    help("e", "all", "call graph: opens all below a row"),
    help(
        "z",
        "zoom",
        "call graph: makes the function the root; Esc goes back",
    ),
    help(
        "c",
        "callers",
        "call graph: below functions what they called, or what called them",
    ),
    help(
        "o",
        "off CPU",
        "call graph: weighs stacks by the time off the CPU, or by records",
    ),
];

/// Keys of records, the first ones while they are shown.
pub(super) const RECORDS: &[Help] = &[
    help(
        "Enter",
        "all of it",
        "records: all of a record, with its fields and stacks",
    ),
    help("/", "text", "records: only those with a text"),
    help("#", "number", "records: goes to a record by its number"),
    help(
        "T",
        "times",
        "records: times of the machine, since the start, of the day",
    ),
];

/// Keys of latencies, the first ones while they are shown.
pub(super) const LATENCIES: &[Help] = &[
    help("Enter", "records", "latencies: the records of both events"),
    help("h", "histogram", "latencies: how long how many of them took"),
    keys::FIND,
    keys::SORT,
    keys::REVERSE,
];

/// Keys of tables, the first ones while one is shown.
pub(super) const TABLES: &[Help] = &[
    help("Enter", "into", "looks at what is behind the row alone"),
    help("r", "records", "the records behind the row"),
    keys::FIND,
    keys::SORT,
    keys::REVERSE,
];

/// Keys that always do the same.
pub(super) const ALWAYS: &[Help] = &[
    help("Tab", "next", "goes to the next tab; a digit to its tab"),
    help(
        "f",
        "filter",
        "only records of which an expression holds: pid == 42 && bytes_req > 4096",
    ),
    help(
        "t",
        "time",
        "chooses times in the histogram: arrows, Space where it begins, Enter",
    ),
    help(
        "Esc",
        "back",
        "goes back by one step (also Backspace); stops what is being read",
    ),
    help(
        "b",
        "group",
        "counts records by expressions: comm, args.target_cpu",
    ),
    help(
        "p",
        "pair",
        "how long it took from one event to another: BEGIN,END[,KEY]",
    ),
    help(
        "i",
        "info",
        "where the recording is from, what is missing, maps of handlers",
    ),
    keys::HELP,
    keys::QUIT,
    keys::STOP,
];

/// All keys, as the help shows them.
pub(super) fn all() -> Vec<Help> {
    let of_latencies = LATENCIES
        .iter()
        .filter(|help| TABLES.iter().all(|of_tables| of_tables.about != help.about));
    let lists = [ALWAYS, TABLES, GRAPH].into_iter().flatten();
    lists.chain(of_latencies).chain(RECORDS).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_about_it_has_every_key() {
        keys::assert_page(include_str!("../../../../docs/on-a-terminal.md"), &all());
    }
}
