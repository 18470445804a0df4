//! Writes the packets that a program hands over (`skboutput`) to pcap files, in the order in which they come; those of each CPU are in order.

use crate::session::Session;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::packets::{HEAD, Packets};
use kestrel_kernel::bpf::{PerfOutput, PerfRecord};
use kestrel_kernel::procfs::ClockPair;
use std::fs::File;
use std::io::{BufWriter, Write};

/// `LINKTYPE_RAW`: packets begin with the header of IP.
const RAW_IP: u32 = 101;
/// Magic number of pcap files whose times are in nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
/// Most bytes of a packet in a file, as tcpdump has it.
const LONGEST: u32 = 262_144;
const SECOND: u64 = 1_000_000_000;

/// The pcap files of a program, and the rings that packets come from.
#[derive(Debug)]
pub struct PacketFiles {
    output: PerfOutput,
    /// The files, at the index by which programs name them.
    files: Vec<(Packets, BufWriter<File>)>,
    /// Offset from the kernel's clock to dates.
    offset: i64,
    /// Packets that the rings reported as lost.
    lost: u64,
}

impl PacketFiles {
    /// Opens the files that a session's programs write packets to, with rings of `pages` pages; `None` if they write none.
    ///
    /// # Errors
    /// When a file cannot be written, or a ring cannot be opened.
    pub fn open(session: &Session, wanted: &[Packets], pages: usize) -> Result<Option<Self>> {
        let Some(map) = session.packets() else {
            return Ok(None);
        };
        let open = |packets: &Packets| {
            let file = File::create(&packets.path).map_err(|error| failed(&packets.path, error))?;
            let mut file = BufWriter::new(file);
            file.write_all(&head())
                .map_err(|error| failed(&packets.path, error))?;
            Ok((packets.clone(), file))
        };
        Ok(Some(Self {
            files: wanted.iter().map(open).collect::<Result<_>>()?,
            output: PerfOutput::with_pages(session.host(), map, pages)?,
            offset: ClockPair::now().offset(),
            lost: 0,
        }))
    }

    /// Writes the packets that have come since the last call.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn poll(&mut self) -> Result<()> {
        let (files, lost, offset) = (&mut self.files, &mut self.lost, self.offset);
        let mut outcome = Ok(());
        self.output.read(|_, record| match record {
            PerfRecord::Lost(count) => *lost += count,
            PerfRecord::Data(bytes) => {
                if let Some((place, time, bytes)) = parts(bytes)
                    && let Some((packets, file)) = files.get_mut(place)
                {
                    let bytes = bytes.get(packets.offset as usize..).unwrap_or_default();
                    let written = file.write_all(&entry(time.saturating_add_signed(offset), bytes.len()));
                    let written = written.and_then(|()| file.write_all(bytes));
                    if let (Err(error), Ok(())) = (written, &outcome) {
                        outcome = Err(failed(&packets.path, error));
                    }
                }
            }
        })?;
        outcome
    }

    /// Writes the remaining packets; gives how many packets found no room in the rings.
    ///
    /// # Errors
    /// As [`PacketFiles::poll`].
    pub fn finish(&mut self) -> Result<u64> {
        self.poll()?;
        for (packets, file) in &mut self.files {
            file.flush().map_err(|error| failed(&packets.path, error))?;
        }
        Ok(self.output.lost()?.unwrap_or(self.lost))
    }
}

fn failed(path: &str, error: std::io::Error) -> Error {
    Error::Io {
        action: "write packets to",
        subject: path.to_owned(),
        error,
    }
}

/// The header of a pcap file.
fn head() -> Vec<u8> {
    let mut head = MAGIC.to_le_bytes().to_vec();
    for half in [2u16, 4] {
        head.extend(half.to_le_bytes());
    }
    for word in [0, 0, LONGEST, RAW_IP] {
        head.extend(word.to_le_bytes());
    }
    head
}

/// The header before each packet of a pcap file.
fn entry(time_ns: u64, length: usize) -> Vec<u8> {
    let words = [
        (time_ns / SECOND) as u32,
        (time_ns % SECOND) as u32,
        length as u32,
        length as u32,
    ];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Splits what a program has written into the number of a file, the time and the packet's bytes.
fn parts(bytes: &[u8]) -> Option<(usize, u64, &[u8])> {
    let (head, packet) = bytes.split_at_checked(HEAD)?;
    let (words, _) = head.as_chunks::<8>();
    let [place, time, length] = words else {
        return None;
    };
    let [place, time, length] = [place, time, length].map(|word| u64::from_le_bytes(*word));
    let length = usize::try_from(length).ok()?.min(packet.len());
    Some((usize::try_from(place).ok()?, time, &packet[..length]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_pcap_of_raw_ip() {
        let head = head();
        assert_eq!(head.len(), 24);
        assert_eq!((head[0], head[3], head[4], head[20]), (0x4d, 0xa1, 2, 101));
        let entry = entry(1_500_000_000_000_000_007, 60);
        assert_eq!(entry.len(), 16);
        assert_eq!(
            u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]),
            1_500_000_000
        );
        assert_eq!((entry[4], entry[8], entry[12]), (7, 60, 60));
    }

    #[test]
    fn short_pages_are_no_packets() {
        assert_eq!(parts(&[0; 23]), None);
        let mut bytes: Vec<u8> = [1u64, 9, 2].into_iter().flat_map(u64::to_le_bytes).collect();
        assert_eq!(parts(&bytes), Some((1, 9, &[][..])));
        bytes.extend([69, 7, 0, 0]);
        assert_eq!(
            parts(&bytes),
            Some((1, 9, &[69, 7][..])),
            "what the kernel adds is left out"
        );
    }
}
