//! Builds ring pages as the kernel side does: reserve, write, commit; when a record does not fit, seal and go to the next page.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a test's helpers may panic as the test may"
)]

use kestrel_trace::event::EventClass;
use kestrel_trace::info::Uuid;
use kestrel_trace::layout::{FieldType, Layout};
use kestrel_trace::packet::{CAPACITY, HEADER, MAGIC, PAGE, SEALED, offset};
use kestrel_trace::stack_pieces::PIECE;

/// The value of one field, in reading order.
#[derive(Clone, Debug)]
pub enum Cell {
    /// An integer's bits.
    U(u64),
    /// Text or a string.
    T(Vec<u8>),
    /// Elements of an array, or frames.
    A(Vec<u64>),
}

pub fn text(text: &str) -> Cell {
    Cell::T(text.as_bytes().to_vec())
}

/// One record's bytes, from the layout's offsets.
pub fn record(event: &EventClass, time_ns: u64, pid: u32, tid: u32, cells: &[Cell]) -> Vec<u8> {
    let layout = &event.layout;
    assert_eq!(layout.fields().len(), cells.len());
    // Padding must not matter.
    let mut bytes = vec![0xee; layout.fixed_end() as usize];
    bytes[..8].copy_from_slice(&(time_ns << 16 | u64::from(event.id.0)).to_le_bytes());
    bytes[8..12].copy_from_slice(&pid.to_le_bytes());
    bytes[12..16].copy_from_slice(&tid.to_le_bytes());
    for (field, cell) in layout.fields().iter().zip(cells) {
        let at = field.offset() as usize;
        let fixed: Vec<u8> = match cell {
            Cell::U(value) => value.to_le_bytes()[..field.ty.fixed_size() as usize].to_vec(),
            Cell::T(text) if field.ty.is_variable() => (text.len() as u16).to_le_bytes().to_vec(),
            Cell::A(frames) if field.ty.is_variable() => (frames.len() as u16).to_le_bytes().to_vec(),
            Cell::T(text) => {
                let mut text = text.clone();
                text.resize(field.ty.fixed_size() as usize, 0);
                text
            }
            Cell::A(elements) => {
                let size = field.ty.fixed_size() as usize / elements.len().max(1);
                elements
                    .iter()
                    .flat_map(|value| value.to_le_bytes()[..size].to_vec())
                    .collect()
            }
        };
        bytes[at..at + fixed.len()].copy_from_slice(&fixed);
    }
    append_tail(layout, cells, &mut bytes);
    bytes.resize(bytes.len().next_multiple_of(8), 0xdd);
    bytes
}

fn append_tail(layout: &Layout, cells: &[Cell], bytes: &mut Vec<u8>) {
    for stacks in [true, false] {
        for (field, cell) in layout.fields().iter().zip(cells) {
            match (&field.ty, cell) {
                (FieldType::Stack { .. } | FieldType::StackCopy { .. }, Cell::A(frames)) if stacks => {
                    bytes.extend(frames.iter().flat_map(|frame| frame.to_le_bytes()));
                }
                (FieldType::String { .. } | FieldType::Bytes { .. }, Cell::T(text)) if !stacks => {
                    bytes.extend_from_slice(text)
                }
                _ => {}
            }
        }
    }
}

/// The pages of one CPU.
pub struct Ring {
    pub pages: Vec<[u8; PAGE as usize]>,
    uuid: Uuid,
    cpu: u32,
    buffer: u32,
    sequence: u64,
    pub lost: u64,
    open: bool,
    at: usize,
    last_ns: u64,
}

impl Ring {
    pub fn new(uuid: Uuid, buffer: u32, cpu: u32) -> Self {
        Self {
            pages: Vec::new(),
            uuid,
            cpu,
            buffer,
            sequence: 0,
            lost: 0,
            open: false,
            at: PAGE as usize,
            last_ns: 0,
        }
    }

    fn put(&mut self, at: u32, bytes: &[u8]) {
        let page = self.pages.last_mut().unwrap();
        page[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    pub fn push(&mut self, time_ns: u64, record: &[u8]) {
        if self.at + record.len() > PAGE as usize {
            self.leave();
            self.enter(time_ns);
        }
        self.put(self.at as u32, record);
        self.at += record.len();
        self.last_ns = time_ns;
        let is_event = record[..2] != PIECE.0.to_le_bytes();
        self.commit(record.len() as u64 | u64::from(is_event) << 32);
    }

    fn enter(&mut self, time_ns: u64) {
        // Remains of the page's last use.
        self.pages.push([0xa5; PAGE as usize]);
        self.put(offset::MAGIC, &MAGIC.to_le_bytes());
        self.put(offset::UUID, &self.uuid.0.clone());
        self.put(offset::STREAM, &0_u32.to_le_bytes());
        self.put(offset::TIMESTAMP_BEGIN, &time_ns.to_le_bytes());
        self.put(offset::PACKET_SIZE, &(u64::from(PAGE) * 8).to_le_bytes());
        self.put(offset::SEQUENCE, &self.sequence.to_le_bytes());
        self.put(offset::DISCARDED, &self.lost.to_le_bytes());
        self.put(offset::CPU, &self.cpu.to_le_bytes());
        self.put(offset::BUFFER, &self.buffer.to_le_bytes());
        self.put(offset::COMMITTED, &0_u64.to_le_bytes());
        self.at = HEADER as usize;
        self.open = true;
        self.sequence += 1;
    }

    /// Finalises the page at hand, as a writer does that goes to the next.
    pub fn leave(&mut self) {
        if self.open {
            self.put(offset::TIMESTAMP_END, &self.last_ns.to_le_bytes());
            self.put(offset::CONTENT_SIZE, &(self.at as u64 * 8).to_le_bytes());
            self.put(offset::DISCARDED, &self.lost.to_le_bytes());
            self.commit(u64::from(CAPACITY + SEALED) - (self.at as u64 - u64::from(HEADER)));
        }
        self.open = false;
        self.at = PAGE as usize;
    }

    fn commit(&mut self, add: u64) {
        let page = self.pages.last_mut().unwrap();
        let at = offset::COMMITTED as usize;
        let word = u64::from_le_bytes(page[at..at + 8].try_into().unwrap());
        page[at..at + 8].copy_from_slice(&(word + add).to_le_bytes());
    }

    pub fn skip_packets(&mut self, packets: u64) {
        self.leave();
        self.sequence += packets;
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.pages.concat()
    }
}
