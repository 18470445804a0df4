//! Traces whose writer was stopped: their streams cut back to whole packets, and all of one given to the disk.

use super::METADATA;
use super::contents::{ours, stream_names};
use crate::ctf::packet::Packet;
use crate::error::{Error, Result};
use crate::files::Folder;
use crate::packet::PAGE;
use std::io;
use std::path::Path;

/// End of a stream: its last packet's number, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The number of its buffer.
    pub buffer: u32,
    /// CPU of the stream.
    pub cpu: u32,
    /// The sequence number of its last packet.
    pub sequence: u64,
    /// Packets of the stream.
    pub packets: u64,
}

/// Cuts the streams of a trace whose writer was stopped back to whole packets, and returns where each ends; streams without packets are left out.
pub fn mend(path: &Path) -> Result<Vec<Tail>> {
    let folder = ours(path)?;
    let mut tails = Vec::new();
    for name in stream_names(&folder).map_err(Error::io("read directory", path))? {
        tails.extend(mend_stream(&folder, &name).map_err(Error::io("mend", path.join(&name)))?);
    }
    Ok(tails)
}

fn mend_stream(folder: &Folder, name: &str) -> io::Result<Option<Tail>> {
    use std::os::unix::fs::FileExt;
    let file = folder.write(name)?;
    let bytes = file.metadata()?.len();
    let page = u64::from(PAGE);
    let packets = bytes / page;
    if bytes > packets * page {
        file.set_len(packets * page)?;
    }
    let Some(last) = packets.checked_sub(1) else {
        return Ok(None);
    };
    let mut bytes = [0; PAGE as usize];
    file.read_exact_at(&mut bytes, last * page)?;
    let packet = Packet::parse(&bytes).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
    Ok(Some(Tail {
        buffer: packet.buffer,
        cpu: packet.cpu,
        sequence: packet.sequence,
        packets,
    }))
}

/// Lets the disk have all of a trace.
pub fn sync(path: &Path) -> Result<()> {
    let folder = ours(path)?;
    let mut names = stream_names(&folder).map_err(Error::io("read directory", path))?;
    names.push(METADATA.to_owned());
    for name in names {
        let synced = folder.read(&name).and_then(|file| file.sync_all());
        synced.map_err(Error::io("write to the disk", path.join(name)))?;
    }
    Ok(())
}
