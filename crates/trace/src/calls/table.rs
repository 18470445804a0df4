//! Tables of counted system calls: in the form of `strace -c`, or for each thread in that of `perf trace -s`.

use super::summary::{Group, Row};
use crate::print::{counted, shown};
use std::collections::BTreeMap;

/// The tables of groups, one after the other.
pub fn table(groups: &[Group]) -> String {
    let all: u64 = groups.iter().map(Group::calls).sum();
    let mut out = String::new();
    for (index, group) in groups.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        match group.id {
            None => together(group, &mut out),
            Some(id) => one(id, group, all, &mut out),
        }
        unfinished(&group.unfinished, &mut out);
    }
    out
}

const RULE: &str = "------ ----------- ----------- --------- --------- ----------------\n";

/// The table of all threads together, as `strace -c` has it.
fn together(group: &Group, out: &mut String) {
    out.push_str("% time     seconds  usecs/call     calls    errors syscall\n");
    out.push_str(RULE);
    let total: u64 = group.rows.iter().map(|row| row.total_ns).sum();
    for row in &group.rows {
        summed(row, total, out);
    }
    out.push_str(RULE);
    let sum = |of: fn(&Row) -> u64| group.rows.iter().map(of).sum();
    let sum = Row {
        call: "total".to_owned(),
        calls: sum(|row| row.calls),
        errors: sum(|row| row.errors),
        timed: sum(|row| row.timed),
        total_ns: total,
        ..Row::default()
    };
    summed(&sum, total, out);
}

fn summed(row: &Row, total: u64, out: &mut String) {
    let share = if total == 0 {
        0.0
    } else {
        row.total_ns as f64 * 100.0 / total as f64
    };
    let errors = if row.errors == 0 {
        String::new()
    } else {
        row.errors.to_string()
    };
    let (seconds, each) = match row.timed {
        0 => ("-".to_owned(), "-".to_owned()),
        timed => (
            format!("{:.6}", row.total_ns as f64 / 1e9),
            (row.total_ns / timed / 1000).to_string(),
        ),
    };
    out.push_str(&format!(
        "{share:6.2} {seconds:>11} {each:>11} {:>9} {errors:>9} {}\n",
        row.calls, row.call
    ));
}

/// The table of one thread, as `perf trace -s` has it.
fn one(id: u32, group: &Group, all: u64, out: &mut String) {
    let name = group.comm.as_deref().unwrap_or("<...>");
    let share = group.calls() as f64 * 100.0 / all.max(1) as f64;
    let calls = counted(group.calls(), "call");
    out.push_str(&format!("{} ({id}), {calls}, {share:.1}%\n\n", shown(name)));
    out.push_str(
        "  syscall              calls   errors       total         min         avg         max      stddev\n",
    );
    out.push_str(
        "                                           (msec)      (msec)      (msec)      (msec)      (msec)\n",
    );
    out.push_str(
        "  ---------------- --------- -------- ----------- ----------- ----------- ----------- -----------\n",
    );
    for row in &group.rows {
        let ms = |ns: f64| match row.timed {
            0 => "-".to_owned(),
            _ => format!("{:.3}", ns / 1e6),
        };
        out.push_str(&format!(
            "  {:<16} {:>9} {:>8} {:>11} {:>11} {:>11} {:>11} {:>11}\n",
            row.call,
            row.calls,
            row.errors,
            ms(row.total_ns as f64),
            ms(row.min_ns as f64),
            ms(row.mean_ns),
            ms(row.max_ns as f64),
            ms(row.stddev_ns),
        ));
        for (error, count) in &row.by_error {
            out.push_str(&format!("                             {error}: {count}\n"));
        }
    }
}

fn unfinished(calls: &BTreeMap<String, u64>, out: &mut String) {
    if calls.is_empty() {
        return;
    }
    let all = calls.values().sum();
    let names: Vec<String> = calls
        .iter()
        .map(|(call, count)| match count {
            1 => call.clone(),
            count => format!("{call} ({count})"),
        })
        .collect();
    out.push_str(&format!(
        "{} did not return: {}\n",
        counted(all, "call"),
        names.join(", ")
    ));
}
