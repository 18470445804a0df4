//! The pages of an image by trace: of packets the headers and places, of metadata the pages themselves.

use crate::ctf::packet::{Packet, Page, State, is_metadata, long, uuid_of};
use crate::image::PagePlace;
use crate::info::Uuid;
use crate::packet::{offset, ring_of};
use std::collections::{BTreeMap, HashMap};

/// A packet with events, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundPacket {
    pub(super) place: PagePlace,
    pub(super) buffer: u32,
    pub(super) cpu: u32,
    pub(super) sequence: u64,
    pub(super) begin_ns: u64,
    pub(super) events: u32,
    pub(super) whole: bool,
}

/// Pages of metadata by generation, number of all and own number; of each the different contents.
pub(super) type Metadata = BTreeMap<(u64, u64, u64), Vec<Box<Page>>>;

/// Different contents of one page of metadata that are kept.
const VARIANTS: usize = 16;

/// Remains of one trace in the image.
#[derive(Debug, Default)]
pub(super) struct Remains {
    pub(super) packets: Vec<FoundPacket>,
    pub(super) metadata: Metadata,
}

/// Index of the pages found so far.
#[derive(Debug, Default)]
pub(super) struct Index {
    traces: HashMap<Uuid, Remains>,
}

impl Index {
    /// Takes a page that begins with the magic number; pages of others, and unused ones, are passed over.
    pub(super) fn take(&mut self, place: PagePlace, page: &Page) {
        if is_metadata(page) {
            self.take_metadata(page);
        } else if let Ok(packet) = Packet::parse(page)
            && packet.state != State::Empty
        {
            self.traces
                .entry(packet.uuid)
                .or_default()
                .packets
                .push(FoundPacket {
                    place,
                    buffer: packet.buffer,
                    cpu: packet.cpu,
                    sequence: packet.sequence,
                    begin_ns: packet.begin_ns,
                    events: packet.events,
                    whole: packet.state == State::Whole,
                });
        }
    }

    fn take_metadata(&mut self, page: &Page) {
        let (Some(uuid), Some(generation), Some(pages), Some(number)) = (
            uuid_of(page),
            long(page, offset::GENERATION),
            long(page, offset::METADATA_PAGES),
            long(page, offset::SEQUENCE),
        ) else {
            return;
        };
        let metadata = &mut self.traces.entry(uuid).or_default().metadata;
        let contents = metadata.entry((generation, pages, number)).or_default();
        if contents.len() < VARIANTS && !contents.iter().any(|known| **known == *page) {
            contents.push(Box::new(*page));
        }
    }

    pub(super) fn traces(self) -> impl Iterator<Item = (Uuid, Remains)> {
        self.traces.into_iter()
    }
}

/// Packets by ring.
pub(super) fn by_ring(packets: Vec<FoundPacket>) -> BTreeMap<(u32, u32), Vec<FoundPacket>> {
    let mut rings: BTreeMap<_, Vec<FoundPacket>> = BTreeMap::new();
    for found in packets {
        let ring = ring_of(found.buffer, found.cpu);
        rings.entry(ring).or_default().push(found);
    }
    rings
}
