//! `trace.dat` of trace-cmd, versions 6 and 7 (trace-cmd's Documentation/trace-cmd/trace-cmd.dat.v6.5.txt and v7): what describes events, then pages of the kernel's
//! ring buffer for each CPU, compressed or not. `convert::trace_dat` has the opposite direction.

mod head;
mod pages;
mod ring;
#[cfg(test)]
mod tests;

use super::draft::Draft;
use super::foreign::{Foreign, Format, Stream};
use super::kernel_event::KernelEvent;
use crate::event::EventId;
use crate::info::{ClockOffset, TraceInfo};
use crate::layout::{Base, FieldType, Space};
use crate::symbol::Symbols;
use head::{Clock, Head, Part};
use kestrel_layout::entry::Format as LayoutFormat;
use pages::Pages;
use ring::{Cpu, Shape};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

pub(super) const FORMAT: Format = Format {
    name: "trace.dat",
    magic: super::tracing_data::MAGIC,
    open,
};

/// The events of a file, by the number that entries begin with.
#[derive(Debug, Default)]
struct Table {
    by_type: HashMap<u16, Entry, foldhash::fast::RandomState>,
    /// Where an entry has its number and its thread.
    type_at: usize,
    pid_at: usize,
    clock: Clock,
    /// The event that is the stack of the record before it, where records have such.
    stack: Option<StackEvent>,
}

#[derive(Debug)]
struct Entry {
    event: KernelEvent,
    /// Which field is the stack.
    stack: Option<usize>,
    /// Run time of a function, where the entry is its return.
    ran: Option<Ran>,
}

impl Entry {
    fn new(system: &str, format: &LayoutFormat, id: u16, has_stack: bool, remarks: &mut Vec<String>) -> Self {
        let ran = Ran::of(system, format);
        let duration = FieldType::Integer {
            size: 8,
            signed: false,
            base: Base::Decimal,
        };
        let frames = FieldType::Stack {
            space: Space::Kernel,
            max: 1024,
        };
        let duration = ran.is_some().then(|| ("duration_ns".to_owned(), duration));
        let frames = has_stack.then(|| ("kstack".to_owned(), frames));
        let more: Vec<_> = duration.into_iter().chain(frames).collect();
        let event = KernelEvent::new(system, format, EventId(id), more, remarks);
        let own = event.own;
        Self {
            stack: has_stack.then_some(own + usize::from(ran.is_some())),
            event,
            ran,
        }
    }

    /// Sets the fields of a record that do not lie in the entry but its stack.
    fn derive(&self, entry: &[u8], draft: &mut Draft) {
        let field = self.event.class.layout.fields().get(self.event.own);
        if let (Some(ran), Some(field)) = (&self.ran, field) {
            draft.set(field, &ran.ns(entry).to_le_bytes());
        }
    }
}

/// Where the return of a function (`ftrace:funcgraph_exit`) has its times. Their difference is what is asked: trace-cmd shows it in place of them.
#[derive(Clone, Copy, Debug)]
struct Ran {
    called_at: usize,
    returned_at: usize,
}

impl Ran {
    fn of(system: &str, format: &LayoutFormat) -> Option<Self> {
        let is_return = system == "ftrace" && format.name == "funcgraph_exit";
        let at = |name: &str| {
            let field = format.field(name).filter(|field| is_return && field.size == 8)?;
            Some(field.offset as usize)
        };
        Some(Self {
            called_at: at("calltime")?,
            returned_at: at("rettime")?,
        })
    }

    fn ns(self, entry: &[u8]) -> u64 {
        let word = |at: usize| {
            let bytes = entry.get(at..).and_then(|bytes| bytes.first_chunk());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        word(self.returned_at).saturating_sub(word(self.called_at))
    }
}

/// `ftrace:kernel_stack`: the kernel writes it behind each record where stacks are asked for (`options/stacktrace`).
#[derive(Clone, Debug)]
struct StackEvent {
    number: u16,
    /// Where an entry has the count of its frames, and the frames.
    count_at: usize,
    frames_at: usize,
    /// Code of the tracer itself, in the order of addresses.
    tracer: Vec<Range<u64>>,
}

/// Whether a function is the kernel's tracer, between an event and the place that writes its record: stacks begin with some of these, by kernel and by event.
fn is_tracer(name: &str) -> bool {
    let begins = ["trace_event_raw_event_", "trace_event_buffer_", "__traceiter_"];
    let whole = ["ftrace_syscall_enter", "ftrace_syscall_exit"];
    begins.iter().any(|begin| name.starts_with(begin)) || whole.contains(&name)
}

/// The number with which old kernels end a stack (`ULONG_MAX`, before 5.2).
const END_OF_STACK: [u8; 8] = [0xff; 8];

impl StackEvent {
    fn of(events: &[(String, LayoutFormat)], symbols: &Symbols) -> Option<Self> {
        let own =
            |(system, format): &&(String, LayoutFormat)| system == "ftrace" && format.name == "kernel_stack";
        let (_, format) = events.iter().find(own)?;
        Some(Self {
            number: u16::try_from(format.id).ok()?,
            count_at: format.field("size")?.offset as usize,
            frames_at: format.field("caller")?.offset as usize,
            tracer: symbols.code(is_tracer).collect(),
        })
    }

    /// The frames of an entry, the innermost first, without those of the tracer.
    fn frames<'e>(&self, entry: &'e [u8]) -> impl Iterator<Item = &'e [u8]> {
        let count = entry.get(self.count_at..).and_then(|bytes| bytes.first_chunk());
        let count = count.map_or(0, |count| u32::from_le_bytes(*count) as usize);
        let frames = entry.get(self.frames_at..).unwrap_or_default().chunks_exact(8);
        let frames = frames.take(count).take_while(|frame| *frame != END_OF_STACK);
        frames.skip_while(|frame| self.is_in_tracer(frame))
    }

    fn is_in_tracer(&self, frame: &[u8]) -> bool {
        let Some(address) = frame.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else {
            return false;
        };
        let behind = self.tracer.partition_point(|code| code.start <= address);
        let nearest = behind.checked_sub(1).and_then(|index| self.tracer.get(index));
        nearest.is_some_and(|code| code.contains(&address))
    }
}

fn open(file: File, length: u64) -> Result<Foreign, String> {
    let file = Arc::new(file);
    let mut head = Head::read(&file, length)?;
    let mut remarks = std::mem::take(&mut head.remarks);
    let mut data = std::mem::take(&mut head.data);
    remarks.append(&mut data.remarks);
    let shape = Shape::of(&data.header_page, head.page)?;
    let mut table = Table {
        clock: head.clock,
        type_at: 0,
        pid_at: 4,
        ..Table::default()
    };
    // The head of entries is the same for all events, so the places that any of them gives hold for reading the type of the next entry.
    for (_, format) in &data.events {
        if let (Some(kind), Some(pid)) = (format.field("common_type"), format.field("common_pid")) {
            (table.type_at, table.pid_at) = (kind.offset as usize, pid.offset as usize);
        }
    }
    table.stack = stacks(StackEvent::of(&data.events, &data.symbols), &head.parts, |part| {
        let places = Table {
            type_at: table.type_at,
            pid_at: table.pid_at,
            ..Table::default()
        };
        let pages = Pages::new(file.clone(), part, head.packed, shape.page);
        Cpu::new(part.cpu, pages, shape, Arc::new(places), 0)
    });
    let mut classes = Vec::new();
    for ((system, format), number) in data.events.iter().zip(1..EVENTS) {
        let Ok(of_entries) = u16::try_from(format.id) else {
            remarks.push(format!(
                "event {system}:{} has the number {}, which no entry can have",
                format.name, format.id
            ));
            continue;
        };
        let has_stacks = table
            .stack
            .as_ref()
            .is_some_and(|stack| stack.number != of_entries);
        let entry = Entry::new(system, format, number, has_stacks, &mut remarks);
        classes.push(entry.event.class.clone());
        table.by_type.insert(of_entries, entry);
    }
    if data.events.len() >= usize::from(EVENTS) {
        remarks.push(format!(
            "it describes {} events; {EVENTS} are read",
            data.events.len()
        ));
    }
    let table = Arc::new(table);
    let mut packets = 0;
    let mut streams = Vec::new();
    for part in head.parts {
        packets += part.size / shape.page as u64;
        let pages = Pages::new(file.clone(), &part, head.packed, shape.page);
        // The file counts losses of the top buffer by CPU; those of other instances stand in their pages alone.
        let lost = head.lost.remove(&part.cpu).filter(|_| part.buffer.is_empty());
        streams.push(Stream {
            buffer: part.buffer,
            cpu: part.cpu,
            events: Box::new(Cpu::new(part.cpu, pages, shape, table.clone(), lost.unwrap_or(0))),
        });
    }
    Ok(Foreign {
        info: TraceInfo {
            events: classes,
            hostname: head.hostname,
            kernel_release: head.release,
            machine: head.machine,
            clock: ClockOffset {
                seconds: head.clock.wall_ns / 1_000_000_000,
                nanoseconds: (head.clock.wall_ns % 1_000_000_000) as u32,
            },
            ..TraceInfo::default()
        },
        streams,
        symbols: data.symbols,
        processes: data.processes,
        tool: head.tool,
        packets,
        remarks,
        ..Foreign::default()
    })
}

/// The event `kernel_stack`, if one is among the first records of any CPU. Errors are left to the reading of the records itself, which meets them again.
fn stacks(stack: Option<StackEvent>, parts: &[Part], cpu: impl Fn(&Part) -> Cpu) -> Option<StackEvent> {
    stack.filter(|stack| {
        parts
            .iter()
            .any(|part| cpu(part).begins_with_stacks(stack).unwrap_or(false))
    })
}

/// Most events of a file: numbers above are not given.
const EVENTS: u16 = u16::MAX - 1;
