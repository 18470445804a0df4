//! Call stacks of a recording: perf report's call graph, folded lines, flame graphs; the options for them.

use crate::exit::{Exit, Failure};
use crate::output::{Format, losses, write_file};
use crate::progress;
use clap::{Args, ValueEnum};
use kestrel::kernel::Host;
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::print::{counted, shown};
use kestrel_trace::record::Record;
use kestrel_trace::stacks::{CallGraph, CallTree, Direction, Stacks, Weight, flame_graph, folded};
use kestrel_trace::symbol::Symbols;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `report` about call stacks.
#[derive(Args, Debug)]
#[command(next_help_heading = "Call stacks")]
pub(crate) struct StackOptions {
    /// Show the call graph of recorded stacks: each function with its callees, or with its callers
    #[arg(short = 'g', long, value_name = "ORDER", num_args = 0..=1, require_equals = true)]
    call_graph: Option<Option<Order>>,
    /// Same as --call-graph=callee: the callers of each function
    #[arg(short = 'G', long)]
    inverted: bool,
    /// Sort functions by their own time or count, without that of the functions they called; their callers stand below them unless --call-graph says otherwise
    #[arg(long)]
    no_children: bool,
    /// Leave out functions and branches below this share of all
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5, value_parser = percent)]
    percent_limit: f64,
    /// Draw a flame graph of recorded stacks: an SVG file that browsers zoom and search
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,
    /// Write recorded stacks as folded lines, which flame graph tools read; to standard output without FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    folded: Option<PathBuf>,
    /// Show inlined functions as frames of their own, from binaries that are the same as when they were recorded
    #[arg(long)]
    lines: bool,
    /// Weigh stacks of sched:sched_switch by the time until the thread ran again
    #[arg(long)]
    off_cpu: bool,
}

/// Direction of a call graph's branches.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    /// From a function to what it called
    Caller,
    /// From a function to what called it
    Callee,
    /// Functions only
    None,
}

impl StackOptions {
    /// The direction of branches. A function's callees have no part of its own time: where that is what is shown, its callers share it.
    fn direction(&self) -> Direction {
        match (self.call_graph, self.inverted) {
            (Some(Some(Order::Callee)), _) | (_, true) => Direction::Callee,
            (Some(Some(Order::Caller)), _) => Direction::Caller,
            _ if self.no_children => Direction::Callee,
            _ => Direction::Caller,
        }
    }

    /// Whether any of them asks for stacks.
    pub(crate) fn are_wanted(&self) -> bool {
        self.call_graph.is_some()
            || self.inverted
            || self.off_cpu
            || self.flame.is_some()
            || self.folded.is_some()
    }

    /// Whether stacks weigh the time until their thread runs again.
    pub(crate) fn weigh_time(&self) -> bool {
        self.off_cpu
    }

    /// Whether inlined functions are frames of their own.
    pub(crate) fn wants_lines(&self) -> bool {
        self.lines
    }

    /// Adds up the stacks of the records that `wanted` takes, and shows them.
    pub(crate) fn report(
        &self,
        trace: &mut Trace,
        path: &Path,
        format: Format,
        wanted: &mut dyn FnMut(&Record<'_>) -> bool,
    ) -> Result<Exit, Failure> {
        self.check(trace, path)?;
        let total = trace.packets;
        if let Some(mut bar) = progress::bar("adding up stacks") {
            trace.reader.watch(Box::new(move |done| bar(done, total)));
        }
        let weight = if self.off_cpu {
            Weight::OffCpu
        } else {
            Weight::Records
        };
        let symbols = match self.lines {
            true => with_lines(trace.symbols.clone()),
            false => trace.symbols.clone(),
        };
        let mut stacks = Stacks::new(symbols, trace.processes.clone(), weight);
        while let Some(record) = trace.reader.next()? {
            // Of other threads than the recording is about, only those switches were recorded that are about these.
            let is_fragment = self.off_cpu && !trace.tasks.is_target(record.tid);
            if wanted(&record) && !is_fragment {
                stacks.add(&record);
            } else {
                stacks.pass(&record);
            }
        }
        let tree = stacks.finish();
        self.show(&tree, path, format)?;
        for remark in trace.symbols.user().remarks() {
            eprintln!("{}", shown(&remark));
        }
        // Lost events and damaged packets are in none of the figures, so they are reported beside them.
        let whole = losses::report_read(&trace.reader, trace.summary.as_ref());
        if tree.total() == 0 {
            eprintln!(
                "kestrel: no record of {} that is asked for has a stack",
                path.display()
            );
            return Ok(Exit::Failed);
        }
        Ok(whole)
    }

    /// Whether the trace's events have what is asked for.
    fn check(&self, trace: &Trace, path: &Path) -> Result<(), Failure> {
        let events = &trace.reader.info().events;
        let mut with_stacks = events
            .iter()
            .filter(|event| event.layout.fields().iter().any(|field| field.ty.is_stack()));
        let failure = |what: &str| Failure::new(Exit::Failed, format!("{} has no {what}", path.display()));
        match self.off_cpu {
            true if !with_stacks.any(|event| event.name == "sched:sched_switch") => {
                Err(failure("stacks of sched:sched_switch")
                    .hint("`kestrel record -g -e sched:sched_switch -a --duration 5` records them, or -- COMMAND, -p PID"))
            }
            false if with_stacks.next().is_none() => Err(failure("call stacks")
                .hint("`kestrel record -g …` records them; `kestrel record -F 99 -g -a` takes a profile")),
            _ => Ok(()),
        }
    }

    fn show(&self, tree: &CallTree, path: &Path, format: Format) -> Result<(), Failure> {
        let mut stdout = crate::screen::out();
        if let Some(file) = &self.flame {
            let mut svg = Vec::new();
            let title = if self.off_cpu {
                "Off-CPU flame graph"
            } else {
                "Flame graph"
            };
            // Before the file is written: an empty picture would pass for a result.
            if tree.total() == 0 {
                let failure = Failure::new(
                    Exit::Failed,
                    format!("cannot draw {}: no record has a stack", file.display()),
                );
                return Err(failure);
            }
            flame_graph(tree, title, &mut svg, &file.display().to_string())?;
            write_file(file, &svg)?;
            eprintln!(
                "{} in {}: open it in a browser",
                counted(tree.stacks(), "stack"),
                file.display()
            );
        }
        if let Some(file) = &self.folded {
            let lines: String = folded(tree).iter().map(|line| format!("{line}\n")).collect();
            match file.as_os_str() == "-" {
                true => stdout.write_all(shown_lines(&lines).as_bytes())?,
                false => write_file(file, lines.as_bytes())?,
            }
        }
        let only_files =
            (self.flame.is_some() || self.folded.is_some()) && self.call_graph.is_none() && !self.inverted;
        if only_files {
            return Ok(());
        }
        let graph = CallGraph {
            direction: self.direction(),
            children: !self.no_children,
            limit: self.percent_limit,
            branches: !matches!(self.call_graph, Some(Some(Order::None))),
        };
        match format {
            Format::Json => writeln!(stdout, "{}", graph.json(tree))?,
            Format::Text => {
                write!(stdout, "{}", graph.text(tree))?;
                writeln!(stdout, "\nThe trace lies in {}", path.display())?;
            }
        }
        Ok(())
    }
}

/// Symbols with inlined functions and source lines of processes.
pub(crate) fn with_lines(symbols: Symbols) -> Symbols {
    let user = kestrel::record::with_lines(symbols.user(), &Host::default());
    symbols.with_user(user)
}

/// Control characters in names of processes are shown, not obeyed, line by line.
fn shown_lines(lines: &str) -> String {
    lines.lines().map(|line| format!("{}\n", shown(line))).collect()
}

/// Parses a share, in percent.
fn percent(text: &str) -> Result<f64, String> {
    let percent = text.trim_end_matches('%').parse::<f64>();
    let percent = percent.ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "a number from 0 to 100 is expected".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        stacks: StackOptions,
    }

    #[test]
    fn own_time_is_shared_by_callers_unless_an_order_is_given() {
        let is_callee = |line: &[&str]| {
            let line = Line::parse_from([&["report"], line].concat());
            matches!(line.stacks.direction(), Direction::Callee)
        };
        assert!(!is_callee(&["-g"]));
        assert!(is_callee(&["-g", "--no-children"]));
        assert!(is_callee(&["--no-children", "-g=callee"]));
        assert!(!is_callee(&["-g=caller", "--no-children"]));
        assert!(is_callee(&["-G"]));
    }
}
