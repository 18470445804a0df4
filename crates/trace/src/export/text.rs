//! One record as one line, like trace_pipe and `perf script`, stacks beneath it.

use super::clock::Clock;
use super::format::{Export, Format, KnownNames, Style};
use super::line::Lines;
use super::registers;
use crate::layout::Space;
use crate::output::{Effect, Form, Sites};
use crate::print::escape::escape;
use crate::print::{Piece, Scratch, TRUNCATED, decimal, pad_left, shown_bytes, symbol, user_frame};
use crate::process::{PerThread, Processes};
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::{Frames, KeptStack, Value};

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
    known: KnownNames,
    lines: Lines,
    /// `            bash-1977    [`
    threads: PerThread<Piece>,
    line: Scratch,
    sites: Sites,
}

impl Export for Text {
    fn names_mut(&mut self) -> &mut KnownNames {
        &mut self.known
    }

    fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        self.known.learn(record);
        self.line.clear();
        self.head(record);
        if let Some(printed) = self.printed(record) {
            out.extend_from_slice(self.line.bytes());
            escape(record.event.name.as_bytes(), out);
            out.extend_from_slice(b": ");
            out.extend_from_slice(&printed);
            out.push(b'\n');
            return;
        }
        let Some(line) = self.lines.of(record) else { return };
        line.write(record, &self.known.symbols, &mut self.line);
        out.extend_from_slice(self.line.bytes());
        if !line.registers.is_empty() {
            registers::block(record, line.registers.clone(), &self.known.symbols, out);
        }
        if line.stacks {
            for (field, value) in record.fields() {
                if let Value::Stack(frames) = value {
                    self.stack(&field.name, frames, out);
                }
            }
        }
    }

    fn stacks(&self, stacks: &[KeptStack], out: &mut Vec<u8>) {
        for stack in stacks {
            if let Some(frames) = stack.frames() {
                self.stack(&stack.field, frames, out);
            }
        }
    }
}

impl Text {
    /// Appends a stack, a frame a line.
    fn stack(&self, field: &str, frames: Frames<'_>, out: &mut Vec<u8>) {
        if frames.is_empty() {
            pad_left(16, out);
            escape(field.as_bytes(), out);
            out.extend_from_slice(b" is empty\n");
        }
        for (index, address) in frames.iter().enumerate() {
            pad_left(16, out);
            out.extend_from_slice(format!("{address:016x} ").as_bytes());
            match frames.space {
                Space::Kernel => symbol(address, &self.known.symbols, out),
                Space::User if user_frame(&frames, index, address, &self.known.symbols, out) => {}
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

    /// A printer that knows these symbols of the kernel and these names of threads.
    pub fn new(style: Style, symbols: Symbols, processes: Processes) -> Self {
        Self {
            nanoseconds: style.nanoseconds,
            clock: Clock::new(style.times),
            known: KnownNames::new(symbols, processes),
            lines: Lines::default(),
            threads: PerThread::default(),
            line: Scratch::default(),
            sites: Sites::default(),
        }
    }

    /// `comm-tid [cpu] time: `, in columns.
    fn head(&mut self, record: &Record<'_>) {
        let line = &mut self.line;
        let thread = self.threads.of(record, &self.known.processes, |piece, name| {
            piece.set(&columns(name.unwrap_or(b"<...>"), record.tid));
        });
        line.piece(thread);
        match record.cpu {
            0..1000 => line.digits3(record.cpu.into()),
            cpu => line.decimal(cpu.into()),
        }
        line.two(*b"] ");
        self.clock.write(record.time_ns, self.nanoseconds, line);
        line.two(*b": ");
    }

    /// Output of a statement of output, where the record is one's: further lines stand beneath the first.
    fn printed(&mut self, record: &Record<'_>) -> Option<Vec<u8>> {
        record.event.action.as_ref()?;
        let form = Form {
            escaped: true,
            ..Form::TEXT
        };
        let text = match self.sites.effect(record, form, &self.known.symbols)? {
            Effect::Print(text) | Effect::Complain(text) | Effect::Warn(text) => text,
            // The contents of the map at that time are not in the recording.
            Effect::PrintMap(map) => format!("print(@{})", map.name).into_bytes(),
            _ => return None,
        };
        let mut printed = Vec::new();
        for (number, line) in text.trim_ascii_end().split(|byte| *byte == b'\n').enumerate() {
            if number > 0 {
                printed.push(b'\n');
                pad_left(16, &mut printed);
            }
            printed.extend_from_slice(line);
        }
        Some(printed)
    }
}

/// `            bash-1977    [`
fn columns(name: &[u8], tid: u32) -> Vec<u8> {
    let name = shown_bytes(name);
    let columns = if name.is_ascii() {
        name.len()
    } else {
        name.chars().count()
    };
    let mut out = Vec::new();
    pad_left(16usize.saturating_sub(columns), &mut out);
    out.extend_from_slice(name.as_bytes());
    out.push(b'-');
    decimal(tid, &mut out);
    pad_left((24 + name.len() - columns).saturating_sub(out.len()), &mut out);
    out.extend_from_slice(b" [");
    out
}
