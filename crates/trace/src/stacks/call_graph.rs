//! The call graph of a tree of stacks, as perf report shows it: a row for each function of a command with what it took itself and with what it called.

use super::frame::Frame;
use super::tree::{CallTree, ROOT};
use super::weight::Unit;
use crate::print::{columns, fill, shown, thousands};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// Direction of the branches below a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the function to what it called (perf's `caller`).
    #[default]
    Caller,
    /// From the function to what called it (perf's `callee`, its `--inverted`).
    Callee,
}

/// Options of a call graph.
#[derive(Clone, Copy, Debug)]
pub struct CallGraph {
    /// Direction of the branches.
    pub direction: Direction,
    /// Whether what a function called counts for it, in a column of its own, and sorts the rows.
    pub children: bool,
    /// Rows and branches below this share of all, in percent, are left out.
    pub limit: f64,
    /// Whether there are branches at all.
    pub branches: bool,
}

impl Default for CallGraph {
    fn default() -> Self {
        Self {
            direction: Direction::Caller,
            children: true,
            limit: 0.5,
            branches: true,
        }
    }
}

/// A function of a command.
#[derive(Clone, Debug)]
pub struct Function {
    /// The command: a frame.
    pub command: u32,
    /// The function: a frame.
    pub frame: u32,
    /// Weight of the stacks that end in it.
    pub own: u64,
    /// Weight of the stacks that contain it.
    pub total: u64,
    /// Outermost nodes of the function: those that are below no other node of it.
    nodes: Vec<u32>,
    /// The nodes with weight of their own.
    leaf_nodes: Vec<u32>,
}

/// A branch of a call graph: frames with weights, merged over the nodes with the same path to it.
#[derive(Clone, Debug, Default)]
pub struct Branch {
    /// Weight of the stacks that pass through it.
    pub weight: u64,
    /// The branches below, by their frames.
    pub below: BTreeMap<u32, Branch>,
}

impl CallGraph {
    /// The functions of each command, the heaviest first.
    pub fn functions(&self, tree: &CallTree) -> Vec<Function> {
        let mut rows: Vec<Function> = Vec::new();
        let mut places: HashMap<(u32, u32), usize> = HashMap::new();
        for (number, node) in (0..).zip(tree.nodes()).skip(1) {
            let path = tree.path(number);
            let (Some(command), true) = (path.first(), path.len() > 1) else {
                continue;
            };
            let command = tree.nodes()[*command as usize].frame;
            let place = *places.entry((command, node.frame)).or_insert_with(|| {
                rows.push(Function {
                    command,
                    frame: node.frame,
                    own: 0,
                    total: 0,
                    nodes: Vec::new(),
                    leaf_nodes: Vec::new(),
                });
                rows.len() - 1
            });
            let row = &mut rows[place];
            row.own += node.own;
            if node.own > 0 {
                row.leaf_nodes.push(number);
            }
            // A function that calls itself counts once.
            let above = &path[..path.len() - 1];
            if above
                .iter()
                .all(|at| tree.nodes()[*at as usize].frame != node.frame)
            {
                row.total += node.total;
                row.nodes.push(number);
            }
        }
        let least = |weight: u64| share(weight, tree) >= self.limit;
        rows.retain(|row| least(self.weight(row)));
        rows.sort_by_key(|row| {
            let name = &tree.frame_at(row.frame).name;
            (std::cmp::Reverse((self.weight(row), row.own)), name.clone())
        });
        rows
    }

    fn weight(&self, row: &Function) -> u64 {
        match self.children {
            true => row.total,
            false => row.own,
        }
    }

    /// Branch of a function: what it called, or what called it, with all that is below.
    pub fn branch(&self, row: &Function, tree: &CallTree) -> Branch {
        let mut branch = Branch::default();
        match (self.direction, self.children) {
            (Direction::Caller, _) => row.nodes.iter().for_each(|node| branch.descend(*node, tree)),
            (Direction::Callee, true) => {
                for node in &row.nodes {
                    branch.ascend(*node, tree.nodes()[*node as usize].total, tree);
                }
            }
            (Direction::Callee, false) => {
                for node in &row.leaf_nodes {
                    branch.ascend(*node, tree.nodes()[*node as usize].own, tree);
                }
            }
        }
        branch
    }

    /// The call graph as text in perf report's layout.
    pub fn text(&self, tree: &CallTree) -> String {
        let rows = self.functions(tree);
        let names = rows
            .iter()
            .map(|row| (tree.frame_at(row.command), tree.frame_at(row.frame)));
        let width = |least: usize, of: &dyn Fn(&(&Frame, &Frame)) -> usize| {
            names
                .clone()
                .map(|names| of(&names))
                .max()
                .unwrap_or(0)
                .max(least)
        };
        let command = width(7, &|(command, _)| columns(&shown(&command.name)));
        let binary = width(13, &|(_, frame)| columns(&shown(&frame.binary)));
        let mut text = String::new();
        // Writing to a string cannot fail, here and below.
        _ = match tree.unit() {
            Unit::Samples => writeln!(text, "# Samples: {}\n#", thousands(tree.total())),
            Unit::Nanoseconds => {
                let milliseconds = tree.total() as f64 / 1e6;
                let stacks = thousands(tree.stacks());
                writeln!(text, "# Off the CPU: {milliseconds:.3} ms, {stacks} times\n#")
            }
        };
        let children = if self.children {
            "# Children      Self"
        } else {
            "#     Self"
        };
        _ = writeln!(
            text,
            "{children}  {:<command$}  {:<binary$}  Symbol\n#",
            "Command", "Shared Object"
        );
        for row in &rows {
            let (of, frame) = (tree.frame_at(row.command), tree.frame_at(row.frame));
            if self.children {
                _ = write!(text, "{:>9.2}%", share(row.total, tree));
            }
            let level = if frame.kernel { 'k' } else { '.' };
            let (name, file) = (shown(&of.name), shown(&frame.binary));
            _ = writeln!(
                text,
                "{:>8.2}%  {name}{}  {file}{}  [{level}] {}",
                share(row.own, tree),
                fill(&name, command),
                fill(&file, binary),
                shown(&frame.name),
            );
            if self.branches {
                let branch = self.branch(row, tree);
                let before = text.len();
                _ = writeln!(text, "            |\n            ---{}", shown(&frame.folded()));
                branch.print(tree, self.limit, "               ", &mut text);
                // A function without a branch has its row alone.
                if branch.below.is_empty() {
                    text.truncate(before);
                } else {
                    text.push('\n');
                }
            }
        }
        text
    }

    /// JSON of the graph: `rows` with `children`, `self` (records, or ns), `command`, `binary`, `symbol` and the branches below as nested `calls`.
    pub fn json(&self, tree: &CallTree) -> Json {
        let rows = self.functions(tree);
        let row = |row: &Function| {
            let frame = tree.frame_at(row.frame);
            let mut object = json!({
                "children": row.total,
                "self": row.own,
                "command": tree.frame_at(row.command).name,
                "binary": frame.binary,
                "symbol": frame.name,
                "kernel": frame.kernel,
            });
            if self.branches {
                object["calls"] = self.branch(row, tree).json(tree, self.limit);
            }
            object
        };
        json!({
            "unit": match tree.unit() {
                Unit::Samples => "samples",
                Unit::Nanoseconds => "ns",
            },
            "total": tree.total(),
            "stacks": tree.stacks(),
            "rows": rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

/// A weight's share of all, in percent.
fn share(weight: u64, tree: &CallTree) -> f64 {
    match tree.total() {
        0 => 0.0,
        total => weight as f64 * 100.0 / total as f64,
    }
}

impl Branch {
    /// Adds what a node called.
    fn descend(&mut self, node: u32, tree: &CallTree) {
        let node = &tree.nodes()[node as usize];
        self.weight += node.total;
        for child in &node.children {
            let frame = tree.nodes()[*child as usize].frame;
            self.below.entry(frame).or_default().descend(*child, tree);
        }
    }

    /// Adds what called a node, up to the command.
    fn ascend(&mut self, node: u32, weight: u64, tree: &CallTree) {
        self.weight += weight;
        let above = tree.nodes()[node as usize].parent;
        let it = &tree.nodes()[above as usize];
        if above != ROOT && it.parent != ROOT {
            self.below
                .entry(it.frame)
                .or_default()
                .ascend(above, weight, tree);
        }
    }

    /// Branches below, the heaviest first; those below the limit are left out.
    fn print(&self, tree: &CallTree, limit: f64, indent: &str, text: &mut String) {
        let mut below: Vec<(&u32, &Branch)> = self.below.iter().collect();
        below.retain(|(_, branch)| share(branch.weight, tree) >= limit);
        below.sort_by_key(|(_, branch)| std::cmp::Reverse(branch.weight));
        // A single path on goes straight down, without a figure.
        if let [(frame, only)] = below.as_slice()
            && only.weight == self.weight
        {
            _ = writeln!(text, "{indent}{}", shown(&tree.frame_at(**frame).folded()));
            return only.print(tree, limit, indent, text);
        }
        let last = below.len().saturating_sub(1);
        for (index, (frame, branch)) in below.into_iter().enumerate() {
            let figure = format!("--{:.2}%--", share(branch.weight, tree));
            let (mark, bar) = if index == last { (' ', ' ') } else { ('|', '|') };
            _ = writeln!(
                text,
                "{indent}{mark}{figure}{}",
                shown(&tree.frame_at(*frame).folded())
            );
            let deeper = format!("{indent}{bar}{}", " ".repeat(figure.len()));
            branch.print(tree, limit, &deeper, text);
        }
    }

    fn json(&self, tree: &CallTree, limit: f64) -> Json {
        let mut below: Vec<(&u32, &Branch)> = self.below.iter().collect();
        below.retain(|(_, branch)| share(branch.weight, tree) >= limit);
        below.sort_by_key(|(_, branch)| std::cmp::Reverse(branch.weight));
        let each = below.into_iter().map(|(frame, branch)| {
            let it = tree.frame_at(*frame);
            json!({"symbol": it.name, "binary": it.binary, "weight": branch.weight, "calls": branch.json(tree, limit)})
        });
        each.collect()
    }
}
