//! A trace opened for reading: its streams, and what lies beside them.

use super::contents::{LONGEST, stream_names};
use super::{METADATA, SIDE};
use crate::aggregate::KeptMaps;
use crate::calls::Kept;
use crate::ctf::ahead::Unpackers;
use crate::ctf::metadata;
use crate::ctf::packed::{SUFFIX, StreamIn, count_packets};
use crate::ctf::read::Reader;
use crate::error::{Error, Result};
use crate::files::Folder;
use crate::names::KeptNames;
use crate::packet::PAGE;
use crate::process::{Changes, Processes};
use crate::summary::Summary;
use crate::symbol::Symbols;
use crate::tasks::Tasks;
use crate::unwound::Unwound;
use crate::user_symbol::UserSymbols;
use std::io::{self, Read as _};
use std::path::Path;

/// A trace opened for reading.
#[derive(Debug)]
pub struct Trace {
    /// The records.
    pub reader: Reader<StreamIn>,
    /// Packets in its streams, a started one counted as one.
    pub packets: u64,
    /// Counts of its recorder, if they were written.
    pub summary: Option<Summary>,
    /// Names of addresses of the kernel and of processes; empty if none were written.
    pub symbols: Symbols,
    /// A symbol of the recorded kernel and its address, where the recording has no others: the kernel that runs is the recorded one if it has it there.
    pub kernel_symbol: Option<(String, u64)>,
    /// Names of threads; empty if none were written.
    pub processes: Processes,
    /// Processes of threads, and those that the recording is about; empty if that was not written, or cannot be read.
    pub tasks: Tasks,
    /// Contents of the handlers' maps at the end; none if none were written, or they cannot be read.
    pub maps: KeptMaps,
    /// Notes of a recording of system calls beside its records; none where it is of something else, or they cannot be read.
    pub calls: Option<Kept>,
    /// Why something beside the streams is left out.
    pub remarks: Vec<String>,
}

/// Opens a trace directory.
pub fn open(path: &Path) -> Result<Trace> {
    let none = || Error::NoMetadata { path: path.into() };
    let failed = |source| Error::Open {
        path: path.into(),
        source,
    };
    let folder = match Folder::followed(path) {
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Err(none()),
        folder => folder.map_err(failed)?,
    };
    let text = match read(&folder, METADATA).map(text_of) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(none()),
        read => read.map_err(failed)?,
    };
    let info = metadata::parse(&text)?;
    let (mut streams, unpackers) = (Vec::new(), Unpackers::default());
    let mut packets = 0;
    for name in stream_names(&folder).map_err(Error::io("read directory", path))? {
        let mut file = folder.read(&name).map_err(Error::io("open", path.join(&name)))?;
        if let Some(stream) = name.strip_suffix(SUFFIX) {
            packets += count_packets(&mut file).map_err(Error::io("read", path.join(&name)))?;
            streams.push((stream.to_owned(), StreamIn::packed(file, &unpackers)));
            continue;
        }
        let bytes = file
            .metadata()
            .map_err(Error::io("read the size of", path.join(&name)))?;
        packets += bytes.len().div_ceil(u64::from(PAGE));
        streams.push((name, StreamIn::Plain(file)));
    }
    let inner = match folder.folder(SIDE) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        inner => Some(inner.map_err(Error::io("read", path.join(SIDE)))?),
    };
    let side_bytes = |name: &str| match inner.as_ref().map(|inner| read(inner, name)) {
        None => Ok(None),
        Some(Err(e)) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Some(read) => read
            .map(Some)
            .map_err(Error::io("read", path.join(SIDE).join(name))),
    };
    let side = |name: &str| side_bytes(name).map(|bytes| bytes.map(text_of));
    let mut remarks = Vec::new();
    let maps = side(KeptMaps::FILE).and_then(|text| text.map(|text| KeptMaps::parse(&text)).transpose());
    // The records are worth reading without the maps.
    let maps = maps.unwrap_or_else(|error| {
        remarks.push(error.to_string());
        None
    });
    let user =
        side(UserSymbols::FILE).and_then(|text| text.map(|text| UserSymbols::parse(&text)).transpose());
    let user = user.unwrap_or_else(|error| {
        remarks.push(error.to_string());
        None
    });
    let unwound = side(Unwound::FILE).and_then(|text| text.map(|text| Unwound::parse(&text)).transpose());
    let unwound = unwound.unwrap_or_else(|error| {
        remarks.push(error.to_string());
        None
    });
    let tasks = side(Tasks::FILE).and_then(|text| text.map(|text| Tasks::parse(&text)).transpose());
    let tasks = tasks.unwrap_or_else(|error| {
        remarks.push(error.to_string());
        None
    });
    let changes =
        side_bytes(Changes::FILE).and_then(|lines| lines.map(|lines| Changes::parse(&lines)).transpose());
    let changes = changes.unwrap_or_else(|error| {
        remarks.push(error.to_string());
        None
    });
    let calls = side(Kept::FILE).and_then(|text| text.map(|text| Kept::parse(&text)).transpose());
    let calls = calls.unwrap_or_else(|error| {
        remarks.push(error.to_string());
        None
    });
    let names = side(KeptNames::FILE).and_then(|text| text.map(|text| KeptNames::parse(&text)).transpose());
    let names = names.unwrap_or_else(|error| {
        remarks.push(error.to_string());
        None
    });
    let reader = Reader::new(info, streams);
    Ok(Trace {
        calls,
        kernel_symbol: None,
        maps: maps.unwrap_or_default(),
        tasks: tasks.unwrap_or_default(),
        remarks,
        reader: match unwound {
            Some(unwound) => reader.with_unwound(unwound),
            None => reader,
        },
        packets,
        summary: side(Summary::FILE)?
            .map(|text| Summary::parse(&text))
            .transpose()?,
        symbols: side(Symbols::FILE)?
            .map(|text| Symbols::parse(&text))
            .transpose()?
            .unwrap_or_default()
            .with_user(user.unwrap_or_default())
            .with_kept_names(names.unwrap_or_default()),
        processes: side_bytes(Processes::FILE)?
            .map(|lines| Processes::parse(&lines))
            .transpose()?
            .unwrap_or_default()
            .with_changes(changes.unwrap_or_default()),
    })
}

/// Reads an ordinary file of a trace. What else has its name, as a device or a pipe, may have no end.
fn read(folder: &Folder, name: &str) -> io::Result<Vec<u8>> {
    let file = folder.read(name)?;
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other(format!(
            "it is longer than {} MiB",
            LONGEST >> 20
        )));
    }
    Ok(bytes)
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
