//! Stacks as folded lines, which flame graph tools take, and as a flame graph.

use super::tree::CallTree;
use super::weight::Unit;
use crate::error::{Error, Result};
use inferno::flamegraph::{self, Options};
use std::fmt::Write as _;
use std::io;

/// A line for each stack, frames from the command to the innermost with `;` between them, and the weight: records, or µs.
pub fn folded(tree: &CallTree) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, node) in (0..).zip(tree.nodes()) {
        let weight = match tree.unit() {
            Unit::Samples => node.own,
            Unit::Nanoseconds => node.own / 1000,
        };
        if weight == 0 {
            continue;
        }
        let mut line = String::new();
        for (index, above) in tree.path(number).into_iter().enumerate() {
            if index > 0 {
                line.push(';');
            }
            line.push_str(&tree.frame_of(&tree.nodes()[above as usize]).folded());
        }
        // Writing to a string cannot fail.
        _ = write!(line, " {weight}");
        lines.push(line);
    }
    lines.sort_unstable();
    lines
}

/// Writes a flame graph (SVG, which a browser zooms and searches) of stacks; `name` stands for `out` in errors.
///
/// # Errors
/// When there are none, or it cannot be written.
pub fn flame_graph(tree: &CallTree, title: &str, out: impl io::Write, name: &str) -> Result<()> {
    let mut options = Options::default();
    title.clone_into(&mut options.title);
    match tree.unit() {
        Unit::Samples => "samples",
        Unit::Nanoseconds => "µs",
    }
    .clone_into(&mut options.count_name);
    let lines = folded(tree);
    let drawn = flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), out);
    drawn.map_err(|error| Error::io("draw", name)(io::Error::other(error)))
}
