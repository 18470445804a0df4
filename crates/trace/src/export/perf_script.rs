//! Records in the layout of `perf script`, which flame graph tools, speedscope and the Firefox Profiler read.

use super::format::{Export, Format, KnownNames, Style};
use crate::event::EventClass;
use crate::event_kind::{self, Optional};
use crate::layout::{FieldType, Space, StackMode};
use crate::print::escape::escape;
use crate::print::socket::{address, is_address};
use crate::print::{hexadecimal, pad_left, source_line, symbol, value};
use crate::record::Record;
use crate::user_symbol::{Location, code_address};
use crate::value::{Frames, Value};

pub(super) const FORMAT: Format = Format {
    name: "perf-script",
    about: "the layout of perf script, for tools that read that",
    new: |style, symbols, processes| {
        Box::new(PerfScript {
            style,
            known: KnownNames::new(symbols, processes),
            stacks: false,
        })
    },
};

/// A head line for each record, then a line for each frame from the innermost on, then an empty line. Without any stacks: head lines, in columns.
///
/// Readers of the layout take a line for the head of a sample where a name begins it, all up to the next empty line for its frames, and a frame's last word
/// in parentheses, without a blank, for its binary.
///
/// ```text
/// spin 10781 [000]  1377.842512:          1 sched:sched_switch: prev_comm=spin prev_pid=10781
/// <TAB>ffffffff8141788c __traceiter_sys_enter+0x31 ([kernel.kallsyms])
/// <TAB>    55e3f1a02198 middle+0x18 (/tmp/spin)
/// ```
#[derive(Debug)]
struct PerfScript {
    style: Style,
    known: KnownNames,
    /// Whether any event of the trace has stacks.
    stacks: bool,
}

impl Export for PerfScript {
    fn begin(&mut self, events: &[&EventClass], _out: &mut Vec<u8>) {
        let mut fields = events.iter().flat_map(|event| event.layout.shown());
        self.stacks = fields.any(|field| match &field.ty {
            FieldType::HeldStack(stack) => stack.mode != StackMode::BuildId,
            ty => ty.is_stack(),
        });
    }

    fn names_mut(&mut self) -> &mut KnownNames {
        &mut self.known
    }

    fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        self.known.learn(record);
        let name = self.known.processes.shown_name(record.tid, record.pid);
        let name = name.as_deref().unwrap_or(":-1");
        if !self.stacks {
            pad_left(16usize.saturating_sub(name.chars().count()), out);
        }
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
            // Frames by build id have no addresses.
            if let Value::Stack(frames) = it
                && frames.mode != Some(StackMode::BuildId)
            {
                stacks.push(frames);
                continue;
            }
            escape(field.name.as_bytes(), out);
            out.push(b'=');
            match it {
                Value::Array(elements)
                    if is_address(&field.name, &field.ty)
                        && let Some(text) = address(elements.bytes()) =>
                {
                    out.extend_from_slice(text.as_bytes());
                }
                it => value(it, &self.known.symbols, out),
            }
            out.push(b' ');
        }
        out.pop();
        out.push(b'\n');
        // Innermost first: the kernel was called by the process.
        stacks.sort_by_key(|frames| frames.space == Space::User);
        for frames in &stacks {
            self.frames(frames, out);
        }
        if self.stacks {
            out.push(b'\n');
        }
    }
}

impl PerfScript {
    fn frames(&self, frames: &Frames<'_>, out: &mut Vec<u8>) {
        for (index, address) in frames.iter().enumerate() {
            let location = match frames.space {
                Space::Kernel => None,
                Space::User => {
                    let called = code_address(address, index == 0);
                    let user = self.known.symbols.user();
                    user.locate(frames.pid, frames.time_ns, called)
                        .map(|location| (location, address - called))
                }
            };
            // Inlined functions have lines of their own, innermost first.
            let code = location.as_ref().and_then(|(location, _)| location.code());
            for inlined in code.iter().flat_map(|code| code.inlined.iter().rev()) {
                out.extend_from_slice(format!("\t{address:16x} ").as_bytes());
                escape(inlined.function.as_bytes(), out);
                out.extend_from_slice(b" (inlined)");
                source_line(inlined.line.as_ref(), out);
                out.push(b'\n');
            }
            out.extend_from_slice(format!("\t{address:16x} ").as_bytes());
            match frames.space {
                Space::Kernel => {
                    let module = self.known.symbols.resolve(address).map(|it| it.module);
                    match module {
                        None => out.extend_from_slice(b"[unknown] ([kernel.kallsyms])"),
                        // The module stands behind the name already, in brackets: perf puts parentheses around.
                        Some(module) => {
                            let start = out.len();
                            symbol(address, &self.known.symbols, out);
                            let end = out[start..].iter().position(|byte| *byte == b' ');
                            out.truncate(end.map_or(out.len(), |end| start + end));
                            out.extend_from_slice(b" ([");
                            escape(module.unwrap_or("kernel.kallsyms").as_bytes(), out);
                            out.extend_from_slice(b"])");
                        }
                    }
                }
                Space::User => match &location {
                    Some((location, behind)) => user(location, *behind, out),
                    None => out.extend_from_slice(b"[unknown] ([unknown])"),
                },
            }
            out.push(b'\n');
        }
    }
}

/// `function+0x10 (/its/binary)`, or `[unknown] (/its/binary+0x1234)`; the address of a call is `behind` bytes before that of the frame.
fn user(location: &Location<'_>, behind: u64, out: &mut Vec<u8>) {
    let code = location.code();
    match code {
        Some(code) => {
            escape(code.function.as_bytes(), out);
            out.push(b'+');
            hexadecimal(code.offset.saturating_add(behind), out);
        }
        None => out.extend_from_slice(b"[unknown]"),
    }
    out.extend_from_slice(b" (");
    let start = out.len();
    escape(location.binary.path.as_bytes(), out);
    if out[start..].contains(&b' ') {
        let path = out.split_off(start);
        for byte in path {
            match byte {
                b' ' => out.extend_from_slice(b"\\x20"),
                byte => out.push(byte),
            }
        }
    }
    if code.is_none() {
        out.push(b'+');
        hexadecimal(location.at.saturating_add(behind), out);
    }
    out.push(b')');
    source_line(code.and_then(|code| code.line.as_ref()), out);
}

/// Whether the events of a kind have a counter's name and a count.
fn is_counter(kind: &str) -> bool {
    event_kind::find(kind).is_some_and(|kind| kind.optional == Optional::Count)
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
        (Some(kind), Some(name), Some(count)) if is_counter(kind) => (name, Some(count)),
        _ => (&event.name, None),
    }
}
