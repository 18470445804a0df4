//! Records in the layout of `perf script`, which flame graph tools, speedscope and the Firefox Profiler read.

use super::format::{Export, Format, Style};
use crate::event::EventClass;
use crate::layout::Space;
use crate::print::escape::escape;
use crate::print::{pad_left, shown, symbol, user_frame, value};
use crate::process::{Learner, Processes};
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::{Frames, Value};

pub(super) const FORMAT: Format = Format {
    name: "perf-script",
    about: "the layout of perf script, for tools that read that",
    new: |style, symbols, processes| {
        Box::new(PerfScript {
            style,
            symbols,
            processes,
            learner: Learner::default(),
        })
    },
};

/// A head line for each record, then a line for each frame from the innermost on, then an empty line.
///
/// ```text
/// spin 10781 [000]  1377.842512:          1 sched:sched_switch: prev_comm=spin prev_pid=10781
/// <TAB>ffffffff8141788c __traceiter_sys_enter+0x31 ([kernel.kallsyms])
/// <TAB>    55e3f1a02198 middle+0x18 (/tmp/spin)
/// ```
#[derive(Debug)]
struct PerfScript {
    style: Style,
    symbols: Symbols,
    processes: Processes,
    learner: Learner,
}

impl Export for PerfScript {
    fn processes_mut(&mut self) -> &mut Processes {
        &mut self.processes
    }

    fn symbols_mut(&mut self) -> &mut Symbols {
        &mut self.symbols
    }

    fn learn(&mut self, record: &Record<'_>) {
        self.learner.learn(record, &mut self.processes);
    }

    fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        self.learn(record);
        let name = shown(self.processes.name(record.tid, record.pid).unwrap_or(":-1"));
        pad_left(16usize.saturating_sub(name.chars().count()), out);
        out.extend_from_slice(name.as_bytes());
        let (seconds, ns) = (record.time_ns / 1_000_000_000, record.time_ns % 1_000_000_000);
        let fraction = match self.style.nanoseconds {
            true => format!("{ns:09}"),
            false => format!("{:06}", ns / 1000),
        };
        let head = format!(" {:>7} [{:03}] {seconds:>5}.{fraction}: ", record.tid, record.cpu);
        out.extend_from_slice(head.as_bytes());
        let (event, period) = sampled(record.event);
        if let Some(period) = period {
            out.extend_from_slice(format!("{period:>10} ").as_bytes());
        }
        escape(event.as_bytes(), out);
        out.extend_from_slice(b": ");
        let mut stacks: Vec<Frames<'_>> = Vec::new();
        for (field, it) in record.fields() {
            if let Value::Stack(frames) = it {
                stacks.push(frames);
                continue;
            }
            escape(field.name.as_bytes(), out);
            out.push(b'=');
            value(it, &self.symbols, out);
            out.push(b' ');
        }
        out.pop();
        out.push(b'\n');
        // Innermost first: the kernel was called by the process.
        stacks.sort_by_key(|frames| frames.space == Space::User);
        for frames in &stacks {
            self.frames(frames, out);
        }
        if !stacks.is_empty() {
            out.push(b'\n');
        }
    }
}

impl PerfScript {
    fn frames(&self, frames: &Frames<'_>, out: &mut Vec<u8>) {
        for (index, address) in frames.iter().enumerate() {
            out.extend_from_slice(format!("\t{address:16x} ").as_bytes());
            match frames.space {
                Space::Kernel => {
                    let module = self.symbols.resolve(address).map(|it| it.module);
                    match module {
                        None => out.extend_from_slice(b"[unknown] ([kernel.kallsyms])"),
                        // The module stands behind the name already, in brackets: perf puts parentheses around.
                        Some(module) => {
                            let start = out.len();
                            symbol(address, &self.symbols, out);
                            let end = out[start..].iter().position(|byte| *byte == b' ');
                            out.truncate(end.map_or(out.len(), |end| start + end));
                            out.extend_from_slice(b" ([");
                            escape(module.unwrap_or("kernel.kallsyms").as_bytes(), out);
                            out.extend_from_slice(b"])");
                        }
                    }
                }
                Space::User if user_frame(frames, index, address, &self.symbols, out) => {}
                Space::User => out.extend_from_slice(b"[unknown] ([unknown])"),
            }
            out.push(b'\n');
        }
    }
}

/// perf's name of an event, and for clocks and counters their period: `profile:hz:99` is `cpu-clock` once in so many ns.
fn sampled(event: &EventClass) -> (&str, Option<u64>) {
    let mut parts = event.name.splitn(3, ':');
    let (kind, name, count) = (parts.next(), parts.next(), parts.next());
    let count = count.and_then(|count| count.parse::<u64>().ok());
    match (kind, name, count) {
        (Some("profile"), Some("hz"), Some(hertz)) => ("cpu-clock", 1_000_000_000u64.checked_div(hertz)),
        (Some("profile"), Some("s"), Some(count)) => ("cpu-clock", count.checked_mul(1_000_000_000)),
        (Some("profile"), Some("ms"), Some(count)) => ("cpu-clock", count.checked_mul(1_000_000)),
        (Some("profile"), Some("us"), Some(count)) => ("cpu-clock", count.checked_mul(1000)),
        (Some("software" | "hardware"), Some(name), Some(count)) => (name, Some(count)),
        _ => (&event.name, None),
    }
}
