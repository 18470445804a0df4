//! The call graph as rows that open and close: functions of each command, below them what they called or what called them.

use super::scope::Chain;
use kestrel_trace::print::{duration, thousands};
use kestrel_trace::stacks::{Branch, CallGraph, CallTree, Direction, Frame, Function, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// The call graph of a scope.
#[derive(Debug)]
pub(crate) struct Graph {
    tree: CallTree,
    direction: Direction,
    sort: Column,
    reversed: bool,
    functions: Vec<Function>,
    /// Paths that are open: a function, then frames below it.
    open: BTreeSet<Path>,
    /// Branches that were opened below functions.
    branches: BTreeMap<usize, Branch>,
    /// Paths to the frames that were made the root, one after the other.
    roots: Vec<Path>,
}

/// A function's place in the list, and the frames from it to a row.
type Path = (usize, Vec<u32>);

/// A column of the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Column {
    /// Weight of a function with the functions that it called.
    #[default]
    Children,
    /// Weight of the function itself.
    Own,
    /// The command.
    Command,
    /// The binary.
    Binary,
    /// The name.
    Symbol,
}

/// The columns, in their order.
pub(crate) const COLUMNS: [(Column, &str, bool); 5] = [
    (Column::Children, "children", true),
    (Column::Own, "self", true),
    (Column::Command, "command", false),
    (Column::Binary, "shared object", false),
    (Column::Symbol, "symbol", false),
];

/// A row of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    path: Path,
    /// The content of each column.
    pub(crate) cells: [String; 5],
}

impl Graph {
    /// A page of stacks, with nothing open.
    pub(crate) fn new(tree: CallTree) -> Self {
        let mut graph = Self {
            tree,
            direction: Direction::Caller,
            sort: Column::default(),
            reversed: false,
            functions: Vec::new(),
            open: BTreeSet::new(),
            branches: BTreeMap::new(),
            roots: Vec::new(),
        };
        graph.functions = graph.layout().functions(&graph.tree);
        graph
    }

    fn layout(&self) -> CallGraph {
        CallGraph {
            direction: self.direction,
            children: true,
            limit: 0.0,
            branches: true,
        }
    }

    /// Whether there is no stack.
    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Total of the graph in words.
    pub(crate) fn total(&self) -> String {
        match self.tree.unit() {
            Unit::Samples => format!("{} stacks", thousands(self.tree.total())),
            Unit::Nanoseconds => format!("{} off the CPU", duration(self.tree.total())),
        }
    }

    /// Which way branches go.
    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// The column that functions are sorted by, and whether the other way round.
    pub(crate) fn sort(&self) -> (Column, bool) {
        (self.sort, self.reversed)
    }

    /// Branches go the other way: what opened is closed.
    pub(crate) fn turn(&mut self) {
        self.direction = match self.direction {
            Direction::Caller => Direction::Callee,
            Direction::Callee => Direction::Caller,
        };
        self.close_all();
    }

    fn close_all(&mut self) {
        self.open.clear();
        self.branches.clear();
        self.roots.clear();
    }

    /// Sorts functions by the column so many further right.
    pub(crate) fn sort_beside(&mut self, steps: usize) {
        let at = COLUMNS.iter().position(|(column, ..)| *column == self.sort);
        self.sort = COLUMNS[(at.unwrap_or(0) + steps) % COLUMNS.len()].0;
        self.reversed = false;
        self.arrange();
    }

    /// Turns the order round.
    pub(crate) fn reverse(&mut self) {
        self.reversed = !self.reversed;
        self.arrange();
    }

    fn arrange(&mut self) {
        // Ways name functions by their places.
        self.close_all();
        let (tree, sort) = (&self.tree, self.sort);
        let frame = |frame: u32| tree.frame_at(frame);
        let text = |function: &Function| match sort {
            Column::Command => frame(function.command).name.clone(),
            Column::Binary => frame(function.frame).binary.clone(),
            _ => frame(function.frame).name.clone(),
        };
        let number = |function: &Function| match sort {
            Column::Children => std::cmp::Reverse((function.total, function.own)),
            Column::Own => std::cmp::Reverse((function.own, function.total)),
            _ => std::cmp::Reverse((0, 0)),
        };
        self.functions
            .sort_by_cached_key(|function| (number(function), text(function)));
        if self.reversed {
            self.functions.reverse();
        }
    }

    /// Adds a branch below a function, with its weight.
    fn branch(&mut self, function: usize) {
        if !self.branches.contains_key(&function)
            && let Some(row) = self.functions.get(function)
        {
            let branch = self.layout().branch(row, &self.tree);
            self.branches.insert(function, branch);
        }
    }

    fn at(&self, (function, frames): &Path) -> Option<&Branch> {
        let mut at = self.branches.get(function)?;
        for frame in frames {
            at = at.below.get(frame)?;
        }
        Some(at)
    }

    /// Opens or closes the row of a path.
    pub(crate) fn toggle(&mut self, row: &Row) {
        if !self.open.remove(&row.path) {
            self.expand(row);
        }
    }

    /// Opens a row, if there is something below it.
    pub(crate) fn expand(&mut self, row: &Row) {
        self.branch(row.path.0);
        if self.at(&row.path).is_some_and(|branch| !branch.below.is_empty()) {
            self.open.insert(row.path.clone());
        }
    }

    /// Closes a row.
    pub(crate) fn collapse(&mut self, row: &Row) {
        self.open.remove(&row.path);
    }

    /// Opens all that is below a row.
    pub(crate) fn expand_all(&mut self, row: &Row) {
        self.branch(row.path.0);
        let mut paths = vec![row.path.clone()];
        while let Some(path) = paths.pop() {
            let below: Vec<u32> = self
                .at(&path)
                .into_iter()
                .flat_map(|it| it.below.keys().copied())
                .collect();
            paths.extend(below.iter().map(|frame| {
                let mut frames = path.1.clone();
                frames.push(*frame);
                (path.0, frames)
            }));
            if !below.is_empty() {
                self.open.insert(path);
            }
            if self.open.len() > OPEN {
                break;
            }
        }
    }

    /// Makes the frame of a row the root: what is shown is what lies below it, in shares of it.
    pub(crate) fn zoom(&mut self, row: &Row) {
        self.branch(row.path.0);
        self.roots.push(row.path.clone());
    }

    /// Goes back to the root before; false if there was none.
    pub(crate) fn zoom_out(&mut self) -> bool {
        self.roots.pop().is_some()
    }

    /// The function that is the root, if one is.
    pub(crate) fn root(&self) -> Option<String> {
        let path = self.roots.last()?;
        Some(self.frame(path).folded())
    }

    fn frame(&self, (function, frames): &Path) -> &Frame {
        let own = self.functions.get(*function).map_or(0, |function| function.frame);
        self.tree.frame_at(frames.last().copied().unwrap_or(own))
    }

    /// The condition of records whose stacks a row counts.
    pub(crate) fn chain(&self, row: &Row) -> Option<Chain> {
        let function = self.functions.get(row.path.0)?;
        let frames = std::iter::once(function.frame).chain(row.path.1.iter().copied());
        Some(Chain {
            command: self.tree.frame_at(function.command).clone(),
            frames: frames.map(|frame| self.tree.frame_at(frame).clone()).collect(),
            direction: self.direction,
        })
    }

    /// The rows: the functions, or what lies below the root, with what is open below each.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        if let Some(root) = self.roots.last() {
            let whole = self.at(root).map_or(0, |branch| branch.weight);
            rows.push(self.row(root, 0, whole, whole));
            self.below(root, 1, whole, true, &mut rows);
            return rows;
        }
        let whole = self.tree.total();
        for (place, function) in self.functions.iter().enumerate() {
            let path = (place, Vec::new());
            rows.push(self.row(&path, 0, function.total, whole));
            self.below(&path, 1, whole, false, &mut rows);
        }
        rows
    }

    /// The branches below a row that is open, the heaviest first.
    fn below(&self, path: &Path, depth: usize, whole: u64, always: bool, rows: &mut Vec<Row>) {
        if !always && !self.open.contains(path) || rows.len() > OPEN {
            return;
        }
        let Some(branch) = self.at(path) else { return };
        let mut below: Vec<(&u32, &Branch)> = branch.below.iter().collect();
        below.sort_by_key(|(_, branch)| std::cmp::Reverse(branch.weight));
        for (frame, branch) in below {
            let mut frames = path.1.clone();
            frames.push(*frame);
            let path = (path.0, frames);
            rows.push(self.row(&path, depth, branch.weight, whole));
            self.below(&path, depth + 1, whole, false, rows);
        }
    }

    fn row(&self, path: &Path, depth: usize, weight: u64, whole: u64) -> Row {
        let frame = self.frame(path);
        let function = self.functions.get(path.0);
        let is_function = path.1.is_empty();
        // A closed function was perhaps never looked at.
        let is_leaf = match (is_function, self.at(path)) {
            (_, Some(branch)) => branch.below.is_empty(),
            (true, None) => false,
            (false, None) => true,
        };
        let mark = match (is_leaf, self.open.contains(path)) {
            (true, _) => ' ',
            (false, true) => '-',
            (false, false) => '+',
        };
        let level = if frame.kernel { 'k' } else { '.' };
        let (command, own) = match (is_function, function) {
            (true, Some(function)) => (
                self.tree.frame_at(function.command).name.clone(),
                share(function.own, whole),
            ),
            _ => (String::new(), String::new()),
        };
        let binary = match is_function {
            true => frame.binary.clone(),
            false => String::new(),
        };
        Row {
            path: path.clone(),
            cells: [
                share(weight, whole),
                own,
                command,
                binary,
                format!("{}{mark} [{level}] {}", "  ".repeat(depth), frame.name),
            ],
        }
    }
}

/// Rows that may be open at most.
const OPEN: usize = 20_000;

fn share(weight: u64, whole: u64) -> String {
    format!("{:.2} %", weight as f64 * 100.0 / whole.max(1) as f64)
}
