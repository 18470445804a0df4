//! One page as a CTF packet: its header checked, its records walked, a page left half full sealed; where the bytes stand says `crate::packet`.

use crate::decode::{Damage, EventTable};
use crate::info::Uuid;
use crate::packet::{CAPACITY, CPUS, HEADER, MAGIC, METADATA_STREAM, PAGE, SEALED, offset};
use crate::record::Record;

/// A page of bytes.
pub type Page = [u8; PAGE as usize];

/// State of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The packet has no records.
    Empty,
    /// Something was; its content size and end time are not valid yet.
    Partial,
    /// The packet was left by its writers, and each of them finished.
    Whole,
}

/// Why a page is not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what each field is")]
pub enum NotAPacket {
    #[error("it is {0} bytes long, not a page")]
    Length(usize),
    #[error("it does not begin with the magic number of CTF")]
    Magic,
    #[error("it belongs to stream class {0}")]
    Stream(u32),
    #[error("its packet size is {0} bits, not a page's")]
    PacketSize(u64),
    #[error("its content size is {0} bits")]
    ContentSize(u64),
    #[error("{0} bytes are said to be committed to it")]
    Committed(u32),
    #[error("its CPU has the number {0}")]
    Cpu(u32),
}

/// A checked page of events.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The trace that it belongs to.
    pub uuid: Uuid,
    /// ns of `CLOCK_MONOTONIC`: not after its first event.
    pub begin_ns: u64,
    /// ns of its last event; valid in a whole page.
    pub end_ns: u64,
    /// The number in its ring.
    pub sequence: u64,
    /// Events discarded in this ring up to its end.
    pub events_discarded: u64,
    /// Where its events happened.
    pub cpu: u32,
    /// The number of its buffer.
    pub buffer: u32,
    /// The state in which its writers left it.
    pub state: State,
    /// Events committed to it.
    pub events: u32,
    /// The records, as far as they were committed.
    content: &'a [u8],
}

pub(crate) fn word(page: &[u8], at: u32) -> Option<u32> {
    Some(u32::from_le_bytes(*page.get(at as usize..)?.first_chunk()?))
}

pub(crate) fn long(page: &[u8], at: u32) -> Option<u64> {
    Some(u64::from_le_bytes(*page.get(at as usize..)?.first_chunk()?))
}

impl<'a> Packet<'a> {
    /// Checks a page of events: magic, stream, sizes, committed bytes.
    pub fn parse(page: &'a [u8]) -> Result<Self, NotAPacket> {
        let short = NotAPacket::Length(page.len());
        if page.len() != PAGE as usize {
            return Err(short);
        }
        let u32_at = |at| word(page, at).ok_or(short);
        let u64_at = |at| long(page, at).ok_or(short);
        if u32_at(offset::MAGIC)? != MAGIC {
            return Err(NotAPacket::Magic);
        }
        let stream = u32_at(offset::STREAM)?;
        if stream != 0 {
            return Err(NotAPacket::Stream(stream));
        }
        let packet_size = u64_at(offset::PACKET_SIZE)?;
        if packet_size != u64::from(PAGE) * 8 {
            return Err(NotAPacket::PacketSize(packet_size));
        }
        let committed = u32_at(offset::COMMITTED)?;
        let state = state(committed).ok_or(NotAPacket::Committed(committed))?;
        let end = match state {
            State::Whole => {
                let bits = u64_at(offset::CONTENT_SIZE)?;
                content_end(bits).ok_or(NotAPacket::ContentSize(bits))?
            }
            // No writer has sealed it: how much was committed is all that is known.
            State::Empty | State::Partial => HEADER + committed,
        };
        let cpu = u32_at(offset::CPU)?;
        if cpu >= CPUS {
            return Err(NotAPacket::Cpu(cpu));
        }
        Ok(Self {
            uuid: uuid_of(page).ok_or(short)?,
            begin_ns: u64_at(offset::TIMESTAMP_BEGIN)?,
            end_ns: u64_at(offset::TIMESTAMP_END)?,
            sequence: u64_at(offset::SEQUENCE)?,
            events_discarded: u64_at(offset::DISCARDED)?,
            cpu,
            buffer: u32_at(offset::BUFFER)?,
            state,
            events: u32_at(offset::COMMITTED + 4)?,
            content: page.get(HEADER as usize..end as usize).ok_or(short)?,
        })
    }

    /// The bytes of its records.
    pub fn content(&self) -> &'a [u8] {
        self.content
    }

    /// The records in order, pieces of stacks among them. After damage, which is the last item, nothing more can be found in the page.
    pub fn records(&self, events: &'a EventTable) -> Records<'a> {
        Records {
            events,
            rest: self.content,
            cpu: self.cpu,
            previous_ns: self.begin_ns,
        }
    }
}

/// The state that a page's committed bytes tell, if they can be right.
fn state(committed: u32) -> Option<State> {
    match committed {
        0 => Some(State::Empty),
        bytes if bytes == CAPACITY + SEALED => Some(State::Whole),
        bytes if bytes <= CAPACITY && bytes.is_multiple_of(8) => Some(State::Partial),
        _ => None,
    }
}

/// The end of the content in bytes, from its size in bits.
fn content_end(bits: u64) -> Option<u32> {
    let bytes = u32::try_from(bits / 8).ok()?;
    (bits.is_multiple_of(64) && (HEADER..=PAGE).contains(&bytes)).then_some(bytes)
}

/// The trace that a page says it belongs to, whatever it holds: valid only where the magic number is right.
pub(crate) fn uuid_of(page: &[u8]) -> Option<Uuid> {
    Some(Uuid(*page.get(offset::UUID as usize..)?.first_chunk()?))
}

/// Iterator over the records of a packet.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    events: &'a EventTable,
    rest: &'a [u8],
    cpu: u32,
    previous_ns: u64,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.events.record(self.rest, self.cpu, self.previous_ns);
        self.rest = match &record {
            Ok(record) => {
                self.previous_ns = record.time_ns;
                self.rest.get(record.bytes.len()..).unwrap_or_default()
            }
            Err(_) => &[],
        };
        Some(record)
    }
}

/// Follows the packets of one ring and finds gaps between them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Continuity {
    /// Sequence number and count of discarded events of the last packet.
    last: Option<(u64, u64)>,
}

/// A gap before a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// Packets overwritten before they were read.
    pub packets: u64,
    /// Events that a full buffer lost, between the last packet and the end of this one.
    pub lost: u64,
}

impl Continuity {
    /// Whether no packet came yet.
    pub fn is_new(&self) -> bool {
        self.last.is_none()
    }

    /// Goes on to `packet`. What was lost before the first packet seen counts only if that is the ring's first: of
    /// others what came before was not read.
    pub fn follow(&mut self, packet: &Packet<'_>) -> Gap {
        let (sequence, discarded) = (packet.sequence, packet.events_discarded);
        let (expected, before) = match self.last {
            Some((last, discarded)) => (last.wrapping_add(1), discarded),
            None => (sequence, if sequence == 0 { 0 } else { discarded }),
        };
        self.last = Some((sequence, discarded));
        Gap {
            packets: sequence.saturating_sub(expected),
            lost: discarded.saturating_sub(before),
        }
    }
}

/// Result of sealing a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Records that the packet keeps.
    pub events: u32,
    /// Committed records that could not be kept, since one before them was never finished.
    pub torn: u32,
}

/// Makes a partial page a packet that any reader of CTF accepts: sets content size, end time and the committed word.
///
/// Keeps the records up to the first that does not hold together. With all writers stopped this is all of them; a page cut
/// short by a crash may hold a reservation that was never filled, behind which nothing can be found. A whole page is left as it is.
pub fn seal(page: &mut Page, events: &EventTable) -> Result<Sealed, NotAPacket> {
    let packet = Packet::parse(page)?;
    if packet.state == State::Whole {
        return Ok(Sealed {
            events: packet.events,
            torn: 0,
        });
    }
    let mut end = HEADER;
    let mut last_ns = packet.begin_ns;
    let mut kept = 0;
    for record in packet.records(events).map_while(Result::ok) {
        // A stale record of the page's last use seems to lie almost 2^48 ns ahead, since time never runs backwards.
        if record.time_ns - packet.begin_ns >= 1 << 47 {
            break;
        }
        end += record.bytes.len() as u32;
        last_ns = record.time_ns;
        kept += u32::from(!record.is_stack_piece());
    }
    let torn = packet.events.saturating_sub(kept);
    close(page, end, last_ns, kept);
    Ok(Sealed { events: kept, torn })
}

/// Ends a packet at byte `end`, after `kept` records of which the last is of `last_ns`.
pub(crate) fn close(page: &mut Page, end: u32, last_ns: u64, kept: u32) {
    let committed = u64::from(CAPACITY + SEALED) | u64::from(kept) << 32;
    for (at, value) in [
        (offset::TIMESTAMP_END, last_ns),
        (offset::CONTENT_SIZE, u64::from(end) * 8),
        (offset::COMMITTED, committed),
    ] {
        page[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
    }
}

/// Cuts a whole page's records from before `since_ns` off, so that what is left is a packet that begins then. Gives the number of records left.
///
/// # Errors
/// When it is no whole packet.
pub fn cut_before(page: &mut Page, since_ns: u64, events: &EventTable) -> Result<u32, NotAPacket> {
    let packet = Packet::parse(page)?;
    if packet.begin_ns >= since_ns {
        return Ok(packet.events);
    }
    let old = packet
        .records(events)
        .map_while(Result::ok)
        .take_while(|record| record.time_ns < since_ns);
    let (count, bytes) = old.fold((0, 0), |(n, bytes), record| {
        (
            n + u32::from(!record.is_stack_piece()),
            bytes + record.bytes.len(),
        )
    });
    Ok(cut(page, count, bytes, since_ns))
}

/// Cuts a whole page's records that lie before the offset `from` off, so that what is left is a packet that begins with the first one left. Gives the
/// number of records left.
///
/// # Errors
/// When it is no whole packet.
pub fn cut_front(page: &mut Page, from: u32, events: &EventTable) -> Result<u32, NotAPacket> {
    let packet = Packet::parse(page)?;
    let (mut count, mut bytes, mut begin_ns) = (0, 0, packet.end_ns);
    for record in packet.records(events).map_while(Result::ok) {
        let end = bytes + record.bytes.len();
        if HEADER as usize + end > from as usize {
            begin_ns = record.time_ns;
            break;
        }
        (count, bytes) = (count + u32::from(!record.is_stack_piece()), end);
    }
    if bytes == 0 {
        return Ok(packet.events);
    }
    Ok(cut(page, count, bytes, begin_ns))
}

/// Takes the first records, `count` events and `bytes` long, out of a whole page that is one.
fn cut(page: &mut Page, count: u32, bytes: usize, begin_ns: u64) -> u32 {
    let Ok(packet) = Packet::parse(page) else { return 0 };
    let left = packet.events.saturating_sub(count);
    let end = HEADER as usize + packet.content().len();
    page.copy_within(HEADER as usize + bytes..end, HEADER as usize);
    page[end - bytes..].fill(0);
    let committed = u64::from(CAPACITY + SEALED) | u64::from(left) << 32;
    for (at, value) in [
        (offset::TIMESTAMP_BEGIN, begin_ns),
        (offset::CONTENT_SIZE, (end - bytes) as u64 * 8),
        (offset::COMMITTED, committed),
    ] {
        page[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
    }
    left
}

/// Whether a page is one of metadata.
pub(crate) fn is_metadata(page: &[u8]) -> bool {
    word(page, offset::MAGIC) == Some(MAGIC) && word(page, offset::STREAM) == Some(METADATA_STREAM)
}
