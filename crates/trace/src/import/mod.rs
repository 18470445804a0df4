//! Recordings of other tools, read as if they were Kestrel's: one file and one row of [`FORMATS`] each.
//!
//! A format says which events there are, as event classes, and gives the records of each of its streams one by one. What is behind this door sees pages as
//! Kestrel's own recorder writes them ([`pages`]), so every command reads every format, in order of time and in bounded memory. A file is known by its
//! content, not by its name. What is in it and not understood is named among the trace's remarks, or where it is met among the losses; the rest is read.

mod ctf;
mod draft;
mod input;
mod kernel_event;
mod pages;
mod perf_data;
mod trace_dat;
mod tracing_data;

use crate::ctf::directory::{self, Trace};
use crate::ctf::packed::StreamIn;
use crate::ctf::read::Reader;
use crate::error::{Error, Result};
use crate::info::{BufferInfo, BufferMode, TraceInfo, Uuid};
use crate::process::Processes;
use crate::summary::Summary;
use crate::symbol::Symbols;
use crate::tasks::Tasks;
use draft::Events;
use pages::Pages;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// A row of the table of formats.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// What it is called: `perf.data`.
    pub name: &'static str,
    /// What its files begin with.
    magic: &'static [u8],
    /// Reads what stands before the records; what is wrong is said in words.
    open: fn(File, u64) -> Result<Foreign, String>,
}

/// The formats of files.
pub static FORMATS: &[Format] = &[perf_data::FORMAT, trace_dat::FORMAT];

/// A recording of another tool, opened.
#[derive(Debug, Default)]
struct Foreign {
    info: TraceInfo,
    streams: Vec<Stream>,
    symbols: Symbols,
    processes: Processes,
    tasks: Tasks,
    /// The tool that wrote it.
    tool: String,
    /// How many pages its records may take.
    packets: u64,
    /// What is not understood, or not as one might think.
    remarks: Vec<String>,
}

/// The records of a stream.
#[derive(Debug)]
struct Stream {
    /// What its buffer is called there; empty for the one that has no name.
    buffer: String,
    cpu: u32,
    events: Box<dyn Events>,
}

/// Bytes at the begin of a file by which formats are told apart.
const HEAD: u64 = 16;

/// Opens a recording: a trace directory, or a file of one of [`FORMATS`].
///
/// # Errors
/// As [`directory::open`]; [`Error::Unknown`] of a file of no format, [`Error::Foreign`] of one that cannot be read.
pub fn open(path: &Path) -> Result<Trace> {
    let failed = |source| Error::Open {
        path: path.into(),
        source,
    };
    let meta = std::fs::metadata(path).map_err(failed)?;
    if !meta.is_file() {
        return folder(path);
    }
    let mut file = File::open(path).map_err(failed)?;
    let mut head = Vec::new();
    (&mut file)
        .take(HEAD)
        .read_to_end(&mut head)
        .map_err(failed)?;
    let Some(format) = FORMATS.iter().find(|format| head.starts_with(format.magic)) else {
        return Err(Error::Unknown {
            path: path.into(),
            formats: FORMATS.iter().map(|format| format.name).collect(),
        });
    };
    let foreign = (format.open)(file, meta.len()).map_err(|why| Error::Foreign {
        path: path.into(),
        format: format.name,
        why,
    })?;
    Ok(foreign.trace(format.name))
}

/// Opens what lies in a folder: a trace of Kestrel's, or of another tracer, perhaps in a folder in it.
fn folder(path: &Path) -> Result<Trace> {
    let found = ctf::traces_under(path);
    let trace = match found.as_slice() {
        [] => return directory::open(path),
        [trace] if ctf::is_own(trace) => return directory::open(trace),
        [trace] => trace,
        several => {
            return Err(Error::Several {
                path: path.into(),
                traces: several.to_vec(),
            });
        }
    };
    let foreign = ctf::open(trace).map_err(|why| Error::Foreign {
        path: trace.clone(),
        format: ctf::NAME,
        why,
    })?;
    Ok(foreign.trace(ctf::NAME))
}

impl Foreign {
    fn trace(self, format: &str) -> Trace {
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
            processes: self.processes,
            tasks: self.tasks,
            maps: Default::default(),
            calls: None,
            remarks: self.remarks.into_iter().map(|remark| format!("{format}: {remark}")).collect(),
        }
    }
}

/// What a buffer without a name is called.
const BUFFER: &str = "records";

/// A buffer's name with the characters that names of buffers have.
fn named(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    match name {
        "" => BUFFER.to_owned(),
        name => name.chars().map(plain).collect(),
    }
}
