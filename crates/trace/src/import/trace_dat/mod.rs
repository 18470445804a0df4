//! `trace.dat` of trace-cmd, versions 6 and 7 (trace-cmd's Documentation/trace-cmd/trace-cmd.dat.v6.5.txt and v7): what describes events, then pages of the kernel's
//! ring buffer for each CPU, compressed or not. `convert::trace_dat` has the opposite direction.

mod head;
mod pages;
mod ring;

use super::foreign::{Foreign, Format, Stream};
use super::kernel_event::KernelEvent;
use crate::event::EventId;
use crate::info::{ClockOffset, TraceInfo};
use head::{Clock, Head};
use pages::Pages;
use ring::{Cpu, Shape};
use std::collections::HashMap;
use std::fs::File;
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
}

#[derive(Debug)]
struct Entry {
    event: KernelEvent,
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
    let mut classes = Vec::new();
    for ((system, format), number) in data.events.iter().zip(1..EVENTS) {
        let Ok(of_entries) = u16::try_from(format.id) else {
            remarks.push(format!(
                "event {system}:{} has the number {}, which no entry can have",
                format.name, format.id
            ));
            continue;
        };
        // The head of entries is the same for all events, so the places that any of them gives hold for reading the type of the next entry.
        if let (Some(kind), Some(pid)) = (format.field("common_type"), format.field("common_pid")) {
            (table.type_at, table.pid_at) = (kind.offset as usize, pid.offset as usize);
        }
        let event = KernelEvent::new(system, format, EventId(number), Vec::new(), &mut remarks);
        classes.push(event.class.clone());
        table.by_type.insert(of_entries, Entry { event });
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
            clock: ClockOffset::default(),
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

/// Most events of a file: numbers above are not given.
const EVENTS: u16 = u16::MAX - 1;
