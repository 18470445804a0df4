//! Records in the layout of tracefs's `trace_pipe` (`trace_print_context` in kernel/trace/trace_output.c), for eyes and scripts that are used to it.

use super::clock::Clock;
use super::format::{Export, Format, KnownNames, Style};
use super::line::Lines;
use crate::layout::{Space, trace_flag};
use crate::print::escape::escape;
use crate::print::{Scratch, TRUNCATED, decimal, pad_left, padded, symbol, user_frame, value};
use crate::process::Processes;
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::{Frames, Value};

pub(super) const FORMAT: Format = Format {
    name: "tracefs",
    about: "the layout of tracefs's trace_pipe",
    new: |style, symbols, processes| Box::new(Tracefs::new(style, symbols, processes)),
};

/// Fields that are no fields in these lines: the column of flags is made of them (`record(args, common_flags, common_preempt_count)`).
const OF_COLUMN: [&str; 2] = ["common_flags", "common_preempt_count"];
/// The column where records do not have them.
const NO_FLAGS: [u8; 5] = *b".....";
/// The deepest that one digit shows.
const DEEPEST: u64 = 0xf;
/// Text before a field in the kernel's own lines, beside a space.
const BEFORE: &[(&str, &str, &str)] = &[("sched:sched_switch", "next_comm", "==> ")];

/// A line for each record, its call stacks beneath it.
///
/// ```text
///             bash-1977    [000] ..... 17284.993652: sched_waking: comm=cat pid=1978 prio=120
///             bash-1977    [000] ..... 17284.993701: sys_openat(dfd: 0xffffff9c, filename: 0x7ffd0c1e)
/// ```
#[derive(Debug)]
pub struct Tracefs {
    nanoseconds: bool,
    clock: Clock,
    known: KnownNames,
    lines: Lines,
}

impl Export for Tracefs {
    fn names_mut(&mut self) -> &mut KnownNames {
        &mut self.known
    }

    fn record(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        self.known.learn(record);
        self.head(record, out);
        let (_, name) = record
            .event
            .name
            .rsplit_once(':')
            .unwrap_or(("", &record.event.name));
        let entered = name.strip_prefix("sys_enter_");
        let left = name.strip_prefix("sys_exit_");
        match (entered.or(left), returned(record)) {
            (Some(call), _) if entered.is_some() => self.entry(call, record, out),
            (Some(call), Some(returned)) => {
                out.extend_from_slice(b"sys_");
                escape(call.as_bytes(), out);
                out.extend_from_slice(format!(" -> {returned:#x}\n").as_bytes());
            }
            _ => self.fields(name, record, out),
        }
        for (_, it) in record.fields() {
            if let Value::Stack(frames) = it {
                self.stack(&frames, out);
            }
        }
    }
}

impl Tracefs {
    /// A printer that knows these symbols of the kernel and these names of threads.
    pub fn new(style: Style, symbols: Symbols, processes: Processes) -> Self {
        Self {
            nanoseconds: style.nanoseconds,
            clock: Clock::new(style.times),
            known: KnownNames::new(symbols, processes),
            lines: Lines::default(),
        }
    }

    /// `comm-tid [cpu] flags time: `.
    fn head(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let name = self.known.processes.shown_name(record.tid, record.pid);
        let name = name.as_deref().unwrap_or("<...>");
        pad_left(16usize.saturating_sub(name.chars().count()), out);
        out.extend_from_slice(name.as_bytes());
        out.push(b'-');
        let number = out.len();
        decimal(record.tid, out);
        pad_left((number + 7).saturating_sub(out.len()), out);
        out.extend_from_slice(b" [");
        padded(u64::from(record.cpu), 3, b'0', out);
        out.extend_from_slice(b"] ");
        out.extend_from_slice(&flags(record));
        let mut time = Vec::new();
        self.clock.text(record.time_ns, self.nanoseconds, &mut time);
        // The kernel gives seconds a column less than lines of ours have.
        out.extend_from_slice(b" ");
        out.extend_from_slice(time.strip_prefix(b" ").unwrap_or(&time));
        out.extend_from_slice(b": ");
    }

    /// `event: field=value field=value`.
    fn fields(&mut self, name: &str, record: &Record<'_>, out: &mut Vec<u8>) {
        escape(name.as_bytes(), out);
        out.push(b':');
        if record.event.print.is_some() {
            if let Some(line) = self.lines.of(record) {
                let mut written = Scratch::default();
                line.values(record, &self.known.symbols, &mut written);
                out.extend_from_slice(written.bytes());
            }
            out.push(b'\n');
            return;
        }
        for (field, it) in record.fields() {
            if matches!(it, Value::Stack(_)) || is_of_column(field.name.as_ref()) {
                continue;
            }
            out.push(b' ');
            let before = BEFORE
                .iter()
                .find(|(event, behind, _)| *event == record.event.name && *behind == field.name);
            out.extend_from_slice(before.map_or("", |(_, _, words)| words).as_bytes());
            escape(field.name.as_bytes(), out);
            out.push(b'=');
            value(it, &self.known.symbols, out);
        }
        out.push(b'\n');
    }

    /// A system call with its arguments as the kernel writes them: in hexadecimal, without the event's name.
    fn entry(&self, call: &str, record: &Record<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"sys_");
        escape(call.as_bytes(), out);
        out.push(b'(');
        let mut first = true;
        for (field, it) in record.fields() {
            let is_shown = field.name != "__syscall_nr" && !is_of_column(field.name.as_ref());
            if !is_shown || matches!(it, Value::Stack(_)) {
                continue;
            }
            if !std::mem::take(&mut first) {
                out.extend_from_slice(b", ");
            }
            escape(field.name.as_bytes(), out);
            out.extend_from_slice(b": ");
            match word(it) {
                // C's `%#lx` gives 0 no prefix.
                Some(0) => out.push(b'0'),
                Some(word) => out.extend_from_slice(format!("{word:#x}").as_bytes()),
                None => value(it, &self.known.symbols, out),
            }
        }
        out.extend_from_slice(b")\n");
    }

    /// Frames as the kernel lists them: the innermost first, an arrow before each.
    fn stack(&self, frames: &Frames<'_>, out: &mut Vec<u8>) {
        let title = match frames.space {
            Space::Kernel => " <stack trace>\n",
            Space::User => " <user stack trace>\n",
        };
        out.extend_from_slice(title.as_bytes());
        for (index, address) in frames.iter().enumerate() {
            out.extend_from_slice(b" => ");
            match frames.space {
                Space::Kernel => symbol(address, &self.known.symbols, out),
                Space::User if user_frame(frames, index, address, &self.known.symbols, out) => {}
                Space::User => out.extend_from_slice(format!("<{address:x}>").as_bytes()),
            }
            out.push(b'\n');
        }
        if frames.truncated {
            out.extend_from_slice(b" => ");
            out.extend_from_slice(TRUNCATED.as_bytes());
            out.push(b'\n');
        }
    }
}

fn is_of_column(field: &str) -> bool {
    OF_COLUMN.contains(&field)
}

/// Interrupts off, rescheduling needed, in an interrupt, how often preemption is off, how often migration (`trace_print_lat_fmt` in
/// kernel/trace/trace_output.c). `X` is the kernel's letter for an interrupt flag that cannot be read.
fn flags(record: &Record<'_>) -> [u8; 5] {
    let [flags, depth] = OF_COLUMN.map(|name| {
        let (_, value) = record.fields().find(|(field, _)| field.name == name)?;
        word(value)
    });
    match (flags, depth) {
        (Some(flags), Some(depth)) => letters(flags, depth),
        _ => NO_FLAGS,
    }
}

fn letters(flags: u64, depth: u64) -> [u8; 5] {
    let has = |flag| flags & flag != 0;
    let interrupts = match (
        has(trace_flag::IRQS_UNKNOWN),
        has(trace_flag::IRQS_OFF),
        has(trace_flag::BH_OFF),
    ) {
        (true, ..) => b'X',
        (false, true, true) => b'D',
        (false, true, false) => b'd',
        (false, false, true) => b'b',
        (false, false, false) => b'.',
    };
    let inside = match (
        has(trace_flag::NMI),
        has(trace_flag::HARDIRQ),
        has(trace_flag::SOFTIRQ),
    ) {
        (true, true, _) => b'Z',
        (true, false, _) => b'z',
        (false, true, true) => b'H',
        (false, true, false) => b'h',
        (false, false, true) => b's',
        (false, false, false) => b'.',
    };
    let needed = if has(trace_flag::NEED_RESCHED) { b'N' } else { b'.' };
    let depth = match depth.min(DEEPEST) {
        0 => b'.',
        digit @ 1..=9 => b'0' + digit as u8,
        letter => b'a' + letter as u8 - 10,
    };
    [interrupts, needed, inside, depth, b'.']
}

/// Return value of a system call.
fn returned(record: &Record<'_>) -> Option<u64> {
    let (_, value) = record.fields().find(|(field, _)| field.name == "ret")?;
    word(value)
}

/// A number as the bits that it has.
fn word(value: Value<'_>) -> Option<u64> {
    match value {
        Value::Signed { value, size: 4, .. } => Some(u64::from(value as u32)),
        Value::Enumeration { value, .. } => Some(value.cast_unsigned()),
        Value::Flags { bits, .. } => Some(bits),
        Value::Pointer { address, .. } => Some(address),
        value => value.as_u64().or_else(|| value.as_i64().map(i64::cast_unsigned)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_the_kernels() {
        use trace_flag::{BH_OFF, HARDIRQ, IRQS_OFF, IRQS_UNKNOWN, NEED_RESCHED, NMI, SOFTIRQ};
        for (flags, depth, column) in [
            (0, 0, "....."),
            (IRQS_OFF | NEED_RESCHED | HARDIRQ, 3, "dNh3."),
            (IRQS_OFF | BH_OFF | HARDIRQ | SOFTIRQ, 10, "D.Ha."),
            (BH_OFF | SOFTIRQ, 1, "b.s1."),
            (IRQS_UNKNOWN | NMI | HARDIRQ, 15, "X.Zf."),
            (IRQS_UNKNOWN | NMI, 200, "X.zf."),
        ] {
            assert_eq!(letters(flags, depth), *column.as_bytes(), "{column}");
        }
    }
}
