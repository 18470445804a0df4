//! Reader of one stream of a trace: reads its pages in chunks, finds the records in each, notes cuts and gaps.

use super::Losses;
use crate::ctf::packet::{Continuity, NotAPacket, Packet, State};
use crate::decode::{EventTable, Extent};
use crate::error::{Error, Result};
use crate::info::TraceInfo;
use crate::packet::{HEADER, PAGE};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::RangeInclusive;

/// Source of a stream's pages: a plain file or a compressed one, which unpacks only the times and the depth that its reader asked for.
pub trait Source {
    /// Reads as [`Read::read`] does.
    ///
    /// # Errors
    /// As there.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize>;

    /// Gives all pages that it has at hand as one buffer, in exchange for the reader's, which it may write over; how many bytes there are, 0 at the end. None
    /// where it has no buffer to give, or a part of it was read: [`Source::read`] reads on.
    ///
    /// # Errors
    /// As of [`Source::read`].
    fn exchange(&mut self, _chunk: &mut Vec<u8>) -> io::Result<Option<usize>> {
        Ok(None)
    }

    /// Hint: only records of these times are wanted. Of whole packets without such records only the headers are used.
    fn within(&mut self, _times: RangeInclusive<u64>) {}

    /// Hint: from now on only time, event, thread and length of records are wanted; the rest of each record may be zeros.
    fn heads_alone(&mut self) {}

    /// Hint, given before anything is read: records before this time are neither wanted nor counted. A source that can do so goes straight to later ones.
    ///
    /// # Errors
    /// When it cannot be read.
    fn skip_to(&mut self, _time_ns: u64) -> io::Result<()> {
        Ok(())
    }

    /// Damage found since the last call that cannot be seen in the bytes.
    fn damage(&mut self) -> Option<String> {
        None
    }
}

impl<R: Read> Source for R {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Read::read(self, bytes)
    }
}

/// State of reading a stream: the current page, and the current record in it.
#[derive(Debug)]
pub(super) struct Stream<R> {
    pub(super) name: String,
    pub(super) input: R,
    /// Bytes read at once: `there` of them are valid, the current page begins at `page` and the next one at `next_page`.
    pub(super) chunk: Vec<u8>,
    pub(super) there: usize,
    pub(super) page: usize,
    pub(super) next_page: usize,
    pub(super) cpu: u32,
    pub(super) buffer: u32,
    /// Range of the chunk with the records of the current page that were not handed out yet.
    pub(super) at: usize,
    pub(super) end: usize,
    /// Extent of the record at `at`, valid while `found`.
    pub(super) next: Extent,
    pub(super) found: bool,
    pub(super) previous_ns: u64,
    pub(super) continuity: Continuity,
    pub(super) packets: u64,
    /// Records handed out.
    pub(super) records: u64,
    pub(super) losses: Losses,
    /// Events lost by CPU: packets of a stream may be of several CPUs.
    pub(super) lost_on: BTreeMap<u32, u64>,
    pub(super) gaps: Gaps,
}

/// Up to when records of a stream may be missing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gaps {
    /// The begin of the first packet behind the last gap; [`OPEN`] before that is met. Where there is none it is the end of the last packet: what it reports was lost
    /// before that. It stays open where the last packet is damaged.
    pub(super) until_ns: u64,
    /// The end of the packet that reports the open gap.
    open_until_ns: Option<u64>,
    /// Whether that has changed since the reader looked.
    pub(super) changed: bool,
}

/// The end of a gap that is not met yet.
const OPEN: u64 = u64::MAX;

impl Gaps {
    fn open(&mut self) {
        (self.until_ns, self.changed) = (OPEN, true);
        self.open_until_ns = None;
    }

    /// Opens a gap that a packet reports, which ends at `end_ns`.
    fn open_until(&mut self, end_ns: u64) {
        self.open();
        self.open_until_ns = Some(end_ns);
    }

    fn close(&mut self, whole_from_ns: u64) {
        if self.until_ns == OPEN {
            (self.until_ns, self.changed) = (whole_from_ns, true);
        }
    }

    /// No packet follows.
    fn end(&mut self) {
        if let Some(end_ns) = self.open_until_ns.take() {
            self.close(end_ns);
        }
    }
}

/// Bytes read at once from each stream: 16 packets; 512 CPUs take 32 MiB.
const CHUNK: usize = 16 * PAGE as usize;

impl<R: Source> Stream<R> {
    pub(super) fn new(name: String, input: R) -> Self {
        Self {
            name,
            input,
            chunk: Vec::new(),
            there: 0,
            page: 0,
            next_page: 0,
            cpu: 0,
            buffer: 0,
            at: 0,
            end: 0,
            next: Extent::default(),
            found: false,
            previous_ns: 0,
            continuity: Continuity::default(),
            packets: 0,
            records: 0,
            losses: Losses::default(),
            lost_on: BTreeMap::new(),
            gaps: Gaps::default(),
        }
    }

    /// Steps over the current record to the next one of the same page; false where there is none, or it is damaged.
    #[inline(always)]
    pub(super) fn step(&mut self, events: &EventTable) -> bool {
        if self.found {
            self.at += self.next.size;
            self.previous_ns = self.next.time_ns;
        }
        let bytes = self.chunk.get(self.at..self.end).unwrap_or_default();
        // At the end of the page there are no bytes, which is an error here, too.
        match events.extent(bytes, self.previous_ns) {
            Ok(extent) => {
                self.next = extent;
                self.found = true;
            }
            Err(_) => self.found = false,
        }
        self.found
    }

    /// Goes to the next record where [`Stream::step`] found none, in the next page if need be; false at the end.
    pub(super) fn advance(
        &mut self,
        events: &EventTable,
        info: &TraceInfo,
        within: &RangeInclusive<u64>,
    ) -> Result<bool> {
        loop {
            if self.at < self.end {
                match events.extent(&self.chunk[self.at..self.end], self.previous_ns) {
                    Ok(extent) => {
                        self.next = extent;
                        self.found = true;
                        return Ok(true);
                    }
                    Err(damage) => {
                        let at = self.at - self.page;
                        self.damaged(&format!("{damage} at byte {at}"));
                        self.at = self.end;
                    }
                }
            } else if !self.load(info, within)? {
                return Ok(false);
            }
        }
    }

    /// Reads the next page; false at the end of the file. Of a whole packet outside the wanted times only the header is used.
    pub(super) fn load(&mut self, info: &TraceInfo, within: &RangeInclusive<u64>) -> Result<bool> {
        let read = self.read_page().map_err(Error::io("read stream", &self.name))?;
        (self.at, self.end) = (0, 0);
        if let Some(why) = self.input.damage() {
            self.note(&why);
        }
        if read == 0 {
            self.gaps.end();
            return Ok(false);
        }
        self.packets += 1;
        let page = &self.chunk[self.page..self.page + read];
        if read < PAGE as usize {
            self.damaged(&format!("only {read} bytes of it are there, the file was cut"));
            return Ok(false);
        }
        match Packet::parse(page) {
            Ok(packet) if packet.uuid != info.uuid => {
                let why = format!("it belongs to trace {}", packet.uuid);
                self.damaged(&why);
            }
            Ok(packet) => {
                let is_later = self.continuity.is_new() && packet.sequence > 0;
                let gap = self.continuity.follow(&packet);
                if is_later || gap.packets > 0 {
                    self.gaps.open();
                }
                self.gaps.close(packet.begin_ns);
                (self.cpu, self.buffer, self.previous_ns) = (packet.cpu, packet.buffer, packet.begin_ns);
                self.at = self.page + HEADER as usize;
                self.end = self.at + packet.content().len();
                let unsealed = packet.state != State::Whole;
                if !unsealed && (packet.end_ns < *within.start() || packet.begin_ns > *within.end()) {
                    // These records were found, though they are not asked for, so they count as read and not as missing.
                    self.records += u64::from(packet.events);
                    self.at = self.end;
                }
                // Numbers of damaged headers may be anything.
                self.losses.packets_absent = self.losses.packets_absent.saturating_add(gap.packets);
                // Somewhere between the packet before and the one behind. Of a first packet that is not its ring's first it is not known how much of what its
                // header counts as lost before it.
                if gap.lost > 0 || is_later && packet.events_discarded > 0 {
                    self.gaps.open_until(packet.end_ns);
                }
                if gap.lost > 0 {
                    self.losses.lost = self.losses.lost.saturating_add(gap.lost);
                    let on_cpu = self.lost_on.entry(packet.cpu).or_default();
                    *on_cpu = on_cpu.saturating_add(gap.lost);
                }
                if unsealed {
                    self.damaged("its writers never left it; what they committed is read");
                }
            }
            Err(why @ NotAPacket::Magic) if page.iter().all(|byte| *byte == 0) => {
                self.damaged(&format!("{why}: it is all zeros"));
            }
            Err(why) => self.damaged(&why.to_string()),
        }
        Ok(true)
    }

    /// Makes the next page the current one; gives how many of its bytes there are: fewer than a page only at the end of the file.
    fn read_page(&mut self) -> io::Result<usize> {
        self.page = self.next_page;
        if self.there == self.page
            && let Some(there) = self.input.exchange(&mut self.chunk)?
        {
            (self.page, self.there) = (0, there);
        } else if self.there < self.page + PAGE as usize {
            self.chunk.resize(CHUNK.max(self.there), 0);
            self.chunk.copy_within(self.page..self.there, 0);
            self.there -= self.page;
            self.page = 0;
            self.there += fill(
                &mut self.input,
                &mut self.chunk[self.there..],
                PAGE as usize - self.there,
            )?;
        }
        let read = (self.there - self.page).min(PAGE as usize);
        self.next_page = self.page + read;
        Ok(read)
    }

    /// Notes damage of the current packet.
    fn damaged(&mut self, why: &str) {
        self.note(&format!("packet {}: {why}", self.packets - 1));
    }

    /// Counts damage; the first of a stream is described.
    pub(super) fn note(&mut self, what: &str) {
        self.gaps.open();
        self.losses.packets_damaged += 1;
        if self.losses.notes.is_empty() {
            self.losses.notes.push(format!("{}: {what}", self.name));
        }
    }
}

/// Reads into `bytes` until at least `least` are there or the input ends; gives how many were read.
fn fill(input: &mut impl Source, bytes: &mut [u8], least: usize) -> io::Result<usize> {
    let mut done = 0;
    while done < least {
        match input.read(&mut bytes[done..]) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
