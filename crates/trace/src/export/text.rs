//! One record as one line, like trace_pipe and `perf script`, stacks beneath it.

use super::clock::Clock;
use super::format::{Export, Format, Style};
use super::line::Lines;
use super::registers;
use crate::layout::Space;
use crate::print::escape::escape;
use crate::print::{TRUNCATED, decimal, pad_left, padded, shown, symbol, user_frame};
use crate::process::{Learner, Processes};
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::Value;

pub(super) const FORMAT: Format = Format {
    name: "text",
    about: "lines for people",
    new: |style, symbols, processes| Box::new(Text::new(style, symbols, processes)),
};

/// Prints records as text; learns names of threads from the records that pass.
///
/// ```text
///             bash-1977    [000] 17284.993652: sched:sched_waking: comm=cat pid=1978 prio=120
///                 ffffffff81000010 try_to_wake_up+0x10
/// ```
#[derive(Clone, Debug)]
pub struct Text {
    nanoseconds: bool,
    clock: Clock,
    symbols: Symbols,
    processes: Processes,
    learner: Learner,
    lines: Lines,
}

impl Export for Text {
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
        self.learner.learn(record, &mut self.processes);
        self.head(record, out);
        let Some(line) = self.lines.of(record) else { return };
        line.write(record, &self.symbols, out);
        if !line.registers.is_empty() {
            registers::block(record, line.registers.clone(), &self.symbols, out);
        }
        if line.stacks {
            self.stacks(record, out);
        }
    }
}

impl Text {
    /// A printer that knows these symbols of the kernel and these names of threads.
    pub fn new(style: Style, symbols: Symbols, processes: Processes) -> Self {
        Self {
            nanoseconds: style.nanoseconds,
            clock: Clock::new(style.times),
            symbols,
            processes,
            learner: Learner::default(),
            lines: Lines::default(),
        }
    }

    /// `comm-tid [cpu] time: event:`, in columns.
    fn head(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        let name = shown(self.processes.name(record.tid, record.pid).unwrap_or("<...>"));
        let columns = if name.is_ascii() {
            name.len()
        } else {
            name.chars().count()
        };
        pad_left(16usize.saturating_sub(columns), out);
        out.extend_from_slice(name.as_bytes());
        out.push(b'-');
        decimal(record.tid, out);
        pad_left((start + 24 + name.len() - columns).saturating_sub(out.len()), out);
        out.extend_from_slice(b" [");
        padded(u64::from(record.cpu), 3, b'0', out);
        out.extend_from_slice(b"] ");
        self.clock.text(record.time_ns, self.nanoseconds, out);
        out.extend_from_slice(b": ");
    }

    fn stacks(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        for (field, it) in record.fields() {
            let Value::Stack(frames) = it else { continue };
            if frames.is_empty() {
                pad_left(16, out);
                escape(field.name.as_bytes(), out);
                out.extend_from_slice(b" is empty\n");
            }
            for (index, address) in frames.iter().enumerate() {
                pad_left(16, out);
                out.extend_from_slice(format!("{address:016x} ").as_bytes());
                match frames.space {
                    Space::Kernel => symbol(address, &self.symbols, out),
                    Space::User if user_frame(&frames, index, address, &self.symbols, out) => {}
                    Space::User => out.extend_from_slice(b"[unknown]"),
                }
                out.push(b'\n');
            }
            if frames.truncated {
                pad_left(16, out);
                out.extend_from_slice(TRUNCATED.as_bytes());
                out.push(b'\n');
            }
        }
    }
}
