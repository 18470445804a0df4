//! A recording of another tool, opened, and its row in the table of formats.

use super::draft::Events;
use super::pages::Pages;
use crate::ctf::directory::Trace;
use crate::ctf::packed::StreamIn;
use crate::ctf::read::Reader;
use crate::info::{BufferInfo, BufferMode, TraceInfo, Uuid};
use crate::process::Processes;
use crate::summary::Summary;
use crate::symbol::Symbols;
use crate::tasks::Tasks;
use std::fs::File;

/// A row of the table of formats.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The format's name: `perf.data`.
    pub name: &'static str,
    /// First bytes of its files.
    pub(super) magic: &'static [u8],
    /// Reads what stands before the records; gives a message where something is wrong.
    pub(super) open: fn(File, u64) -> Result<Foreign, String>,
}

/// A recording of another tool, opened.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    pub(super) info: TraceInfo,
    pub(super) streams: Vec<Stream>,
    pub(super) symbols: Symbols,
    /// A symbol of the kernel by which it is known, where the file has no others.
    pub(super) kernel_symbol: Option<(String, u64)>,
    pub(super) processes: Processes,
    pub(super) tasks: Tasks,
    /// The tool that wrote it.
    pub(super) tool: String,
    /// Most pages of its records.
    pub(super) packets: u64,
    /// Parts that are not understood, or not as one might think.
    pub(super) remarks: Vec<String>,
}

/// The records of a stream.
#[derive(Debug)]
pub(super) struct Stream {
    /// Name of its buffer there; empty for the one that has no name.
    pub(super) buffer: String,
    pub(super) cpu: u32,
    pub(super) events: Box<dyn Events>,
}

impl Foreign {
    pub(super) fn trace(self, format: &str) -> Trace {
        // Any identity does: pages and reader have to agree on it, and neither leaves this process.
        let uuid = Uuid(*b"foreign recordin");
        let mut buffers: Vec<String> = Vec::new();
        let mut streams = Vec::new();
        for Stream { buffer, cpu, events } in self.streams {
            let name = named(&buffer);
            let known = buffers.iter().position(|known| *known == name);
            let number = known.unwrap_or_else(|| {
                buffers.push(name.clone());
                buffers.len() - 1
            });
            let pages = Pages::new(events, uuid, number as u32);
            streams.push((format!("{name}_{cpu}"), StreamIn::Other(Box::new(pages))));
        }
        let buffer = |(name, number): (&String, u32)| BufferInfo {
            number,
            name: name.clone(),
            mode: BufferMode::Discard,
            bytes_per_cpu: 0,
        };
        let info = TraceInfo {
            uuid,
            buffers: buffers.iter().zip(0..).map(buffer).collect(),
            tracer_version: self.tool.clone(),
            ..self.info
        };
        let summary = Summary {
            version: self.tool,
            command: info.command.clone(),
            ..Summary::default()
        };
        Trace {
            reader: Reader::new(info, streams),
            packets: self.packets,
            summary: Some(summary),
            symbols: self.symbols,
            kernel_symbol: self.kernel_symbol,
            processes: self.processes,
            tasks: self.tasks,
            maps: Default::default(),
            calls: None,
            remarks: self
                .remarks
                .into_iter()
                .map(|remark| format!("{format}: {remark}"))
                .collect(),
        }
    }
}

/// Name of a buffer without one.
const BUFFER: &str = "records";

/// A buffer's name with the characters that names of buffers have.
fn named(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    match name {
        "" => BUFFER.to_owned(),
        name => name.chars().map(plain).collect(),
    }
}
