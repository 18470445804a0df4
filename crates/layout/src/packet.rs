//! The byte shape of one ring page, which is one CTF packet: the only place where its offsets stand.
//!
//! ```text
//! 0    magic u32, uuid [u8;16], stream id u32                      packet.header   written once, by user space
//! 24   timestamp begin u64, timestamp end u64                      packet.context  ns of CLOCK_MONOTONIC
//! 40   content size u64 (bits), packet size u64 (bits)
//! 56   packet sequence number u64, events discarded u64
//! 72   cpu u32, buffer u32
//! 80   committed u64: low half bytes, high half events
//! 88   events: header u64 = id (16 bits, low) | time << 16 (48 bits), pid u32, tid u32, payload; each starts 8-aligned
//! ```
//!
//! The committed word only ever grows within one use of a page: each record adds its length to the low half and one to the
//! high half; the writer that leaves the page adds the unused rest plus [`SEALED`]. So a page is whole when the low half is
//! [`CAPACITY`]` + `[`SEALED`], and its content size and end time are valid from then on.

/// Bytes in a page, and so in a packet.
pub const PAGE: u32 = 4096;
/// Bytes of packet header and packet context; the first event starts here.
pub const HEADER: u32 = 88;
/// Bytes of a page that events can use.
pub const CAPACITY: u32 = PAGE - HEADER;
/// Added to the committed bytes, with the unused rest, by the writer that leaves the page.
pub const SEALED: u32 = 8;
/// First word of each packet (CTF 1.8).
pub const MAGIC: u32 = 0xc1fc_1fc1;

/// The stream id of pages that hold metadata text instead of events, so that a memory image explains itself. Such a page
/// has magic, uuid, stream id, its generation in place of the begin, content size (bits, header included), packet size, its number (from 0) as sequence number and
/// the trace's cpu and buffer fields 0; [`offset::METADATA_PAGES`] stands in place of the discarded count. Text begins at [`HEADER`].
/// The committed word is that of a whole page without events.
pub const METADATA_STREAM: u32 = u32::MAX;

/// A bit of a buffer's number: its rings are those of threads, one each, whose numbers stand in the high half. A packet of such a ring is of the CPU on which the
/// thread ran, which may be another than that of the packet before it.
pub const OF_THREADS: u32 = 1 << 15;

/// Ring of a packet: its buffer and CPU; of a ring that is a thread's the number alone, for the thread goes from one CPU to another.
pub fn ring_of(buffer: u32, cpu: u32) -> (u32, u32) {
    match buffer & OF_THREADS {
        0 => (buffer, cpu),
        _ => (buffer, 0),
    }
}

/// CPUs that a recording can have, each with a number below: more than any kernel is built for (8,192). What readers keep by CPU stays small for damaged
/// numbers, too.
pub const CPUS: u32 = 1 << 16;

/// The committed word of a page that was left by its writers, with so many events.
pub const fn whole(events: u32) -> u64 {
    (CAPACITY + SEALED) as u64 | (events as u64) << 32
}

/// One page of metadata: part `number` of so many of the text of a trace's generation; `text` is [`CAPACITY`] bytes long at most, what is more is left out.
pub fn metadata_page(
    uuid: &[u8; 16],
    generation: u64,
    (number, pages): (u64, u64),
    text: &[u8],
) -> [u8; PAGE as usize] {
    let text = &text[..text.len().min(CAPACITY as usize)];
    let mut page = [0; PAGE as usize];
    let mut put = |at: u32, bytes: &[u8]| page[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    put(offset::MAGIC, &MAGIC.to_le_bytes());
    put(offset::UUID, uuid);
    put(offset::STREAM, &METADATA_STREAM.to_le_bytes());
    let content = (u64::from(HEADER) + text.len() as u64) * 8;
    put(offset::CONTENT_SIZE, &content.to_le_bytes());
    put(offset::PACKET_SIZE, &(u64::from(PAGE) * 8).to_le_bytes());
    put(offset::GENERATION, &generation.to_le_bytes());
    put(offset::SEQUENCE, &number.to_le_bytes());
    put(offset::METADATA_PAGES, &pages.to_le_bytes());
    put(offset::COMMITTED, &whole(0).to_le_bytes());
    put(HEADER, text);
    page
}

/// Byte offsets within a page.
pub mod offset {
    /// `u32`, [`super::MAGIC`].
    pub const MAGIC: u32 = 0;
    /// 16 bytes, the trace's uuid.
    pub const UUID: u32 = 4;
    /// `u32`: 0, the one stream class, or [`super::METADATA_STREAM`] in pages of metadata.
    pub const STREAM: u32 = 20;
    /// `u64`, ns.
    pub const TIMESTAMP_BEGIN: u32 = 24;
    /// `u64`, in pages of metadata: the newest description of a trace has the highest.
    pub const GENERATION: u32 = 24;
    /// `u64`, ns.
    pub const TIMESTAMP_END: u32 = 32;
    /// `u64`, bits of the packet in use, header included.
    pub const CONTENT_SIZE: u32 = 40;
    /// `u64`, bits: always [`super::PAGE`]` * 8`.
    pub const PACKET_SIZE: u32 = 48;
    /// `u64`, counts the packets of one ring.
    pub const SEQUENCE: u32 = 56;
    /// `u64`, events discarded in this ring up to the end of this packet.
    pub const DISCARDED: u32 = 64;
    /// `u64`, in pages of metadata: how many there are of them.
    pub const METADATA_PAGES: u32 = 64;
    /// `u32`.
    pub const CPU: u32 = 72;
    /// `u32`, the buffer's number within its session.
    pub const BUFFER: u32 = 76;
    /// `u64`, see the module's page.
    pub const COMMITTED: u32 = 80;
}
