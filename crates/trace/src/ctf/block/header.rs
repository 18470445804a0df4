//! The header of a block: what is in it, and how many bytes each of its parts takes, written and read.

use super::layout::{BYTES, ByteReader, FRONT, PACKETS};
use zstd::zstd_safe::compress_bound;

/// Bytes of a block's own header.
pub const BLOCK_HEADER: usize = 48;

/// The first word of a block.
pub const MAGIC: u32 = 0x6b32_6c62;

/// The first word of blocks of the first form, whose index and fields were one frame.
const FIRST_MAGIC: u32 = 0x6b31_6c62;

/// The bit of a block's packets that says that its index has the fields of all records that name threads.
const NAMES: u32 = 1 << 31;
/// The most bytes of index and fields: no column is longer than what it was in its packets, but for shapes and counts.
const MAX_BODY: usize = PACKETS * BYTES * 2 + (1 << 16);

/// Header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// Packets in it.
    pub packets: usize,
    /// Time of the first record, ns.
    pub begin_ns: u64,
    /// Time of the last record, ns.
    pub end_ns: u64,
    /// Bytes of its packets' headers on file.
    pub packet_headers: usize,
    /// Bytes of its index on file: time, event and thread of each record.
    pub index: usize,
    /// Bytes of its fields on file.
    pub fields: usize,
    /// Bytes of index and fields when unpacked.
    pub(super) unpacked: [usize; 2],
    /// Whether its index has the fields of all records that name threads.
    pub(super) index_names_threads: bool,
}

/// Depth to which a block is unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The headers of its packets.
    PacketHeaders,
    /// Also time, event and thread of each record, and all of records that name threads.
    Index,
    /// All of each record.
    All,
}

/// Why bytes are no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each is")]
pub enum BlockError {
    #[error("no block of compressed packets begins there")]
    Header,
    #[error(
        "it is of the first form of compressed recordings, which this Kestrel does not read: `kestrel export --to ctf` of the one that wrote it unpacks it"
    )]
    FirstForm,
    #[error("its headers do not unpack")]
    Headers,
    #[error("its records do not unpack")]
    Body,
    #[error("its unpacked contents are inconsistent")]
    Contents,
}

impl BlockHeader {
    /// Reads a block's header.
    ///
    /// # Errors
    /// When these bytes are none, or were damaged.
    pub fn parse(bytes: &[u8; BLOCK_HEADER]) -> Result<Self, BlockError> {
        let mut words = ByteReader(bytes);
        let mut word = || words.u32().unwrap_or_default();
        let (magic, packets) = (word(), word());
        let (names, packets) = (packets & NAMES != 0, (packets & !NAMES) as usize);
        if magic == FIRST_MAGIC {
            return Err(BlockError::FirstForm);
        }
        let mut long = || u64::from(word()) | u64::from(word()) << 32;
        let (begin_ns, end_ns) = (long(), long());
        let mut bytes_of = || word() as usize;
        let (packet_headers, index, unpacked_index, fields, unpacked_fields) =
            (bytes_of(), bytes_of(), bytes_of(), bytes_of(), bytes_of());
        let sum = word();
        let sound = magic == MAGIC
            && sum == check(&bytes[..BLOCK_HEADER - 4])
            && (1..=PACKETS).contains(&packets)
            && packet_headers <= compress_bound(packets * (FRONT + 1))
            && unpacked_index.saturating_add(unpacked_fields) <= MAX_BODY
            && (1..=compress_bound(unpacked_index)).contains(&index)
            && fields <= compress_bound(unpacked_fields);
        sound
            .then_some(Self {
                packets,
                begin_ns,
                end_ns,
                packet_headers,
                index,
                fields,
                unpacked: [unpacked_index, unpacked_fields],
                index_names_threads: names,
            })
            .ok_or(BlockError::Header)
    }

    /// The header as it stands on file.
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BLOCK_HEADER);
        bytes.extend(MAGIC.to_le_bytes());
        let names = if self.index_names_threads { NAMES } else { 0 };
        bytes.extend((self.packets as u32 | names).to_le_bytes());
        bytes.extend(self.begin_ns.to_le_bytes());
        bytes.extend(self.end_ns.to_le_bytes());
        let [index, fields] = self.unpacked;
        for length in [self.packet_headers, self.index, index, self.fields, fields] {
            bytes.extend((length as u32).to_le_bytes());
        }
        bytes.extend(check(&bytes).to_le_bytes());
        bytes
    }

    /// Bytes on file behind the header down to there.
    pub fn bytes(&self, depth: Depth) -> usize {
        match depth {
            Depth::PacketHeaders => self.packet_headers,
            Depth::Index if self.index_names_threads => self.packet_headers + self.index,
            Depth::Index | Depth::All => self.packet_headers + self.index + self.fields,
        }
    }
}

/// FNV-1a, the checksum of a header.
fn check(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}
