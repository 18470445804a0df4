//! Answers as tables: rows, and what each is about.

use super::graph::{COLUMNS, Column as GraphColumn, Graph, Row as GraphRow};
use super::scope::Condition;
use crate::terminal::{Cell, Column, Row, Table};
use kestrel_query::{Grouped, Keys, Latency, Unpaired};
use kestrel_trace::analyze::Count;
use kestrel_trace::calls::Row as CallRow;
use kestrel_trace::print::{counted, duration, thousands};
use kestrel_trace::report::Report;
use kestrel_trace::stacks::Direction;
use std::collections::BTreeMap;

/// A tab of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tab {
    /// Counts of events.
    Events,
    /// Which process did how much.
    Processes,
    /// Which thread did how much.
    Threads,
    /// Which CPU had how much.
    Cpus,
    /// The call graph.
    Graph,
    /// Times from one event to another.
    Latencies,
    /// System calls, as `strace -c` counts them.
    Calls,
    /// Records by what an expression is.
    Groups,
    /// Records as lines.
    Records,
}

/// All tables in their order, with their names.
pub(crate) const TABS: [(Tab, &str); 9] = [
    (Tab::Events, "Events"),
    (Tab::Processes, "Processes"),
    (Tab::Threads, "Threads"),
    (Tab::Cpus, "CPUs"),
    (Tab::Graph, "Stacks"),
    (Tab::Latencies, "Latencies"),
    (Tab::Calls, "Syscalls"),
    (Tab::Groups, "Groups"),
    (Tab::Records, "Records"),
];

/// Subject of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// An event.
    Event(String),
    /// A process: its name as shown, and its number.
    Process(String, u32),
    /// A thread: its name as shown, its process and its number.
    Thread(String, u32, u32),
    /// A CPU.
    Cpu(u32),
    /// A pair of events.
    Pair(String, String),
    /// A system call.
    Call(String),
    /// The values of the expressions that tell groups apart.
    Group(Vec<String>),
    /// A row of the call graph.
    Graph(GraphRow),
}

/// A table that is shown, with what its rows are about.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The table. The key of each row is its place among the targets.
    pub(crate) table: Table,
    targets: Vec<Subject>,
    /// Of latencies: how they are spread.
    histograms: Vec<String>,
    /// A note, where there is one.
    pub(crate) remark: Option<String>,
}

impl Subject {
    /// The condition of the records behind it; `keys` are those of groups.
    pub(crate) fn condition(&self, keys: Option<&Keys>, graph: Option<&Graph>) -> Option<Condition> {
        Some(match self {
            Self::Event(name) => Condition::event(name),
            Self::Process(name, pid) => Condition::process(name, *pid),
            Self::Thread(name, pid, tid) => Condition::thread(name, *pid, *tid),
            Self::Cpu(cpu) => Condition::cpu(*cpu),
            Self::Pair(begin, end) => Condition::pair(begin, end),
            Self::Call(name) => Condition::call(name),
            Self::Group(values) => Condition::keys(keys?.clone(), values.clone()),
            Self::Graph(row) => Condition::chain(graph?.chain(row)?),
        })
    }

    /// Tab to show first behind this one.
    pub(crate) fn leads_to(&self) -> Tab {
        match self {
            Self::Process(..) | Self::Thread(..) | Self::Cpu(_) | Self::Group(_) => Tab::Events,
            Self::Event(_) | Self::Pair(..) | Self::Call(_) | Self::Graph(_) => Tab::Records,
        }
    }
}

impl Shown {
    fn new(table: Table, rows: Vec<(Subject, Vec<Cell>)>) -> Self {
        let mut shown = Self {
            table,
            targets: Vec::new(),
            histograms: Vec::new(),
            remark: None,
        };
        shown.set(rows);
        shown
    }

    fn set(&mut self, rows: Vec<(Subject, Vec<Cell>)>) {
        let (targets, cells): (Vec<Subject>, Vec<Vec<Cell>>) = rows.into_iter().unzip();
        let rows = cells.into_iter().enumerate();
        self.table.set_rows(
            rows.map(|(place, cells)| Row::new(place.to_string(), cells))
                .collect(),
        );
        self.targets = targets;
    }

    /// Subject of the chosen row.
    pub(crate) fn chosen(&self) -> Option<&Subject> {
        self.targets.get(self.place()?)
    }

    /// Histogram of the latencies of the chosen row.
    pub(crate) fn histogram(&self) -> Option<&str> {
        self.histograms.get(self.place()?).map(String::as_str)
    }

    fn place(&self) -> Option<usize> {
        self.table.chosen()?.key.parse().ok()
    }
}

/// The tables of a report.
pub(crate) fn of_report(report: &Report) -> Vec<(Tab, Shown)> {
    let total = report.records;
    let table = |tab, title, name, target: fn(&str) -> Option<Subject>| {
        (tab, counts(title, report.table(name), total, target))
    };
    vec![
        table(Tab::Events, "event", "events", |name| {
            Some(Subject::Event(name.to_owned()))
        }),
        table(Tab::Processes, "process", "processes", process),
        table(Tab::Threads, "thread (process)", "threads", thread),
        table(Tab::Cpus, "CPU", "cpus", |name| {
            Some(Subject::Cpu(name.strip_prefix("CPU ")?.parse().ok()?))
        }),
    ]
}

/// `comm-pid`, as the analysis writes it.
fn process(name: &str) -> Option<Subject> {
    let (_, pid) = name.rsplit_once('-')?;
    Some(Subject::Process(name.to_owned(), pid.parse().ok()?))
}

/// `comm-tid (pid)`, as the analysis writes it.
fn thread(name: &str) -> Option<Subject> {
    let (thread, pid) = name.strip_suffix(')')?.rsplit_once(" (")?;
    let (_, tid) = thread.rsplit_once('-')?;
    Some(Subject::Thread(
        name.to_owned(),
        pid.parse().ok()?,
        tid.parse().ok()?,
    ))
}

/// Columns of the longest bar.
const BAR: u64 = 20;

fn counts(title: &str, rows: &[Count], total: u64, target: fn(&str) -> Option<Subject>) -> Shown {
    let columns = [
        match title {
            "event" => Column::event(title),
            _ => Column::text(title),
        },
        Column::number("events"),
        Column::number("share"),
        Column::text("").spare(),
    ];
    // Events of one name may be several classes.
    let mut by_name: Vec<(&str, u64)> = Vec::new();
    let mut places = BTreeMap::new();
    for row in rows {
        let place = *places.entry(row.name.as_str()).or_insert(by_name.len());
        match by_name.get_mut(place) {
            Some((_, count)) => *count += row.count,
            None => by_name.push((&row.name, row.count)),
        }
    }
    let most = by_name.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let cells = by_name.into_iter().filter_map(|(name, count)| {
        let share = count as f64 * 100.0 / total.max(1) as f64;
        let cells = vec![
            Cell::text(name),
            Cell::count(count),
            Cell::number(share, &format!("{share:.1} %")),
            Cell::text(&bar(count, most)),
        ];
        Some((target(name)?, cells))
    });
    Shown::new(Table::new(columns).sorted_by(1), cells.collect())
}

/// A bar in eighths of a column; something is never nothing.
fn bar(count: u64, most: u64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = u128::from(count) * u128::from(BAR) * 8 / u128::from(most.max(1));
    let eighths = (eighths as usize).max(usize::from(count > 0));
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

fn time(ns: u64) -> Cell {
    Cell::number(ns as f64, &duration(ns))
}

/// The least room for the names of a pair of events.
const PAIR: usize = 34;

/// A pair of events; what both names begin with stands once.
fn pair(begin: &str, end: &str) -> String {
    let group = |name: &str| name.split_once(':').map(|(group, _)| group.to_owned());
    let end = match group(begin).is_some() && group(begin) == group(end) {
        true => end.split_once(':').map_or(end, |(_, event)| event),
        false => end,
    };
    format!("{begin} to {end}")
}

/// The table of latencies.
pub(crate) fn of_latencies(rows: &[Latency], unpaired: &[Unpaired]) -> Shown {
    let mut columns = vec![Column::text("from, to").at_least(PAIR)];
    // Where there is little room the columns in front are kept.
    let figures = ["count", "total", "avg", "p50", "p99", "max", "min", "p90"];
    columns.extend(figures.map(Column::number));
    let cells = rows.iter().map(|row| {
        let ns = &row.ns;
        let sum = u64::try_from(ns.sum()).unwrap_or(u64::MAX);
        let mut cells = vec![
            Cell::text(&pair(&row.begin, &row.end)),
            Cell::count(ns.count()),
            time(sum),
        ];
        let figures = [
            ns.avg(),
            ns.percentile(500),
            ns.percentile(990),
            ns.max(),
            ns.min(),
            ns.percentile(900),
        ];
        cells.extend(figures.map(|ns| time(ns.cast_unsigned())));
        (Subject::Pair(row.begin.clone(), row.end.clone()), cells)
    });
    let mut shown = Shown::new(Table::new(columns).sorted_by(2), cells.collect());
    let (begins, ends) = unpaired
        .iter()
        .fold((0, 0), |(begins, ends), it| (begins + it.begins, ends + it.ends));
    let histograms = rows.iter().map(|row| {
        let mut text = String::new();
        row.ns.histogram(&mut text);
        text
    });
    shown.histograms = histograms.collect();
    let alone: Vec<String> = [(begins, "begin"), (ends, "end")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| counted(count, what))
        .collect();
    shown.remark = match (alone.is_empty(), rows.is_empty()) {
        (false, _) => Some(format!("unpaired: {}", alone.join(", "))),
        (true, true) => Some("no two of these records are the begin and the end of something".to_owned()),
        (true, false) => None,
    };
    shown
}

/// The table of system calls.
pub(crate) fn of_calls(rows: &[CallRow], unfinished: &BTreeMap<String, u64>) -> Shown {
    let mut columns = vec![Column::text("call")];
    let figures = ["calls", "errors", "total", "avg", "min", "max", "stddev"];
    columns.extend(figures.map(Column::number));
    let cells = rows.iter().map(|row| {
        let times = [
            row.total_ns,
            row.mean_ns as u64,
            row.min_ns,
            row.max_ns,
            row.stddev_ns as u64,
        ];
        let times = times.map(|ns| match row.timed {
            0 => Cell::text("-"),
            _ => time(ns),
        });
        let mut cells = vec![
            Cell::text(&row.call),
            Cell::count(row.calls),
            Cell::count(row.errors),
        ];
        cells.extend(times);
        (Subject::Call(row.call.clone()), cells)
    });
    let mut shown = Shown::new(Table::new(columns).sorted_by(3), cells.collect());
    let left: u64 = unfinished.values().sum();
    shown.remark = (left > 0).then(|| format!("{} had not returned", counted(left, "call")));
    shown
}

/// The table of groups.
pub(crate) fn of_groups(grouped: &Grouped, total: u64) -> Shown {
    let mut columns: Vec<Column> = grouped.names.iter().map(|name| Column::text(name)).collect();
    columns.extend(["events", "share"].map(Column::number));
    let sorted = grouped.names.len();
    let cells = grouped.groups.iter().map(|group| {
        let values = group.shown.iter().zip(&group.keys);
        let mut cells: Vec<Cell> = values
            .map(|(shown, key)| match key.as_f64() {
                Some(number) => Cell::number(number, shown),
                None => Cell::text(shown),
            })
            .collect();
        let share = group.count as f64 * 100.0 / total.max(1) as f64;
        cells.extend([
            Cell::count(group.count),
            Cell::number(share, &format!("{share:.1} %")),
        ]);
        (Subject::Group(group.shown.clone()), cells)
    });
    let mut shown = Shown::new(Table::new(columns).sorted_by(sorted), cells.collect());
    shown.remark = (grouped.without > 0).then(|| {
        format!(
            "{} lack a field of {}",
            counted(grouped.without, "event"),
            grouped.names.join(", ")
        )
    });
    shown
}

/// The rows of a call graph; those of `before` keep the filter and the chosen row.
pub(crate) fn of_graph(graph: &Graph, before: Option<Shown>) -> Shown {
    let (sort, reversed) = graph.sort();
    let columns: Vec<Column> = COLUMNS
        .iter()
        .map(|(column, name, right)| {
            let mark = match (*column == sort, reversed) {
                (false, _) => "",
                (true, false) => " v",
                (true, true) => " ^",
            };
            match right {
                true => Column::number(&format!("{name}{mark}")),
                false => match column {
                    GraphColumn::Command | GraphColumn::Binary => {
                        Column::text(&format!("{name}{mark}")).spare()
                    }
                    _ => Column::text(&format!("{name}{mark}")),
                },
            }
        })
        .collect();
    let rows = graph.rows();
    let cells = rows.into_iter().map(|row| {
        let cells = row.cells.iter().map(|cell| Cell::text(cell)).collect();
        (Subject::Graph(row), cells)
    });
    let mut shown = Shown::new(Table::new(columns), cells.collect());
    // A row that is unfolded makes all rows anew, among which the user goes on where they were.
    if let Some(before) = before {
        shown.table.set_filter(before.table.filter());
        shown.table.choose(before.table.place());
    }
    let way = match graph.direction() {
        Direction::Caller => "what functions called",
        Direction::Callee => "what called functions",
    };
    let root = graph
        .root()
        .map(|root| format!("; within {root}"))
        .unwrap_or_default();
    shown.remark = Some(match graph.is_empty() {
        true => "none of these records has a call stack".to_owned(),
        false => format!("{}, below: {way}{root}", graph.total()),
    });
    shown
}

/// Number of rows, as text.
pub(crate) fn rows(table: &Table) -> String {
    let (shown, all) = (table.shown().len() as u64, table.count() as u64);
    match shown == all {
        true => counted(all, "row"),
        false => format!("{} of {}", thousands(shown), counted(all, "row")),
    }
}
