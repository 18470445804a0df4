//! A session found in an image as a trace directory: packets repaired one by one, then the summary that a recorder would have written.

use super::repair::repair;
use super::{Ring, Session};
use crate::ctf::directory::{self, Directory};
use crate::ctf::packet::{Packet, Page};
use crate::ctf::write::Writer;
use crate::decode::EventTable;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::image::bytes::ReadAt;
use crate::info::{ClockOffset, Uuid};
use crate::packet::{OF_THREADS, PAGE, ring_of};
use crate::print::counted;
use crate::process::{Learner, Processes};
use crate::summary::{EventCount, Summary};
use crate::symbol::Symbols;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Result of recovering one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Recovered {
    /// The directory of the trace that was written.
    pub path: PathBuf,
    /// The trace's identity.
    pub uuid: String,
    /// The session's name; empty where it was a recorder's.
    pub session: String,
    /// The command that made the session.
    pub command: String,
    /// Name of the machine that recorded.
    pub hostname: String,
    /// Release of the kernel that recorded.
    pub kernel_release: String,
    /// Packets with nothing missing.
    pub whole: u64,
    /// Packets that the crash cut: what was committed to them is there.
    pub cut: u64,
    /// Packets between others that are not in the image.
    pub missing: u64,
    /// Packets that could not be read a second time, or not at all.
    pub damaged: u64,
    /// Packets that contradict newer ones of their ring, left out.
    pub stale: u64,
    /// Further copies of packets in the image.
    pub copies: u64,
    /// Number of records recovered.
    pub events: u64,
    /// Committed records that cannot be found behind one that was not finished.
    pub torn: u64,
    /// Time of the first record, ns since 1970; 0 without records.
    pub first_ns: u64,
    /// Time of the last.
    pub last_ns: u64,
    /// The trace whose metadata it was read with, where its own was not in the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explained_by: Option<String>,
    /// The counts per ring.
    pub rings: Vec<RingCounts>,
}

/// Counts of one recovered ring.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RingCounts {
    /// Name of its buffer; of a thread's ring also its number: `process+3`.
    pub buffer: String,
    /// The CPU; 0 where it is a thread's.
    pub cpu: u32,
    /// Packets with nothing missing.
    pub whole: u64,
    /// Packets that the crash cut.
    pub cut: u64,
    /// Packets between others that are not in the image.
    pub missing: u64,
    /// Number of records.
    pub events: u64,
}

impl Session {
    /// Writes the session as a trace to `path`, where nothing, an empty directory or an old trace may be. It is written beside and renamed when it is
    /// whole. `progress` is called with the number of packets written.
    ///
    /// # Errors
    /// When the image cannot be read, or the trace not be written.
    pub fn save<R: ReadAt>(
        &self,
        image: &Image<R>,
        path: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Recovered> {
        if !directory::is_free(path)? {
            return Err(Error::Occupied {
                path: path.to_owned(),
            });
        }
        let beside = directory::staging_path(path);
        let saved = match self.write(image, path, &beside, progress) {
            // Another process writes a trace to the same place.
            Err(Error::Busy { .. }) => {
                return Err(Error::Busy {
                    path: path.to_owned(),
                });
            }
            saved => saved,
        };
        let saved = saved.and_then(|recovered| directory::publish(&beside, path).map(|()| recovered));
        if saved.is_err() {
            // The disk may be full: leave nothing half written behind. That this can fail too changes nothing.
            _ = directory::discard(&beside);
        }
        saved
    }

    fn write<R: ReadAt>(
        &self,
        image: &Image<R>,
        path: &Path,
        beside: &Path,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Recovered> {
        let mut saving = Saving {
            image,
            progress,
            packets: 0,
            table: EventTable::new(self.info.events.iter().cloned()),
            writer: directory::create(beside, self.info.clone(), true)?,
            seen: Seen::default(),
            recovered: Recovered {
                path: path.to_owned(),
                uuid: self.info.uuid.to_string(),
                explained_by: self.explained_by.map(|uuid| uuid.to_string()),
                session: self.info.session.clone(),
                command: self.info.command.clone(),
                hostname: self.info.hostname.clone(),
                kernel_release: self.info.kernel_release.clone(),
                ..Recovered::default()
            },
        };
        for ring in &self.rings {
            saving.ring(ring)?;
        }
        saving.finish()
    }
}

/// Counts, names and times, collected from the records as they are written.
#[derive(Default)]
struct Seen {
    counts: BTreeMap<(u16, u32), u64>,
    learner: Learner,
    processes: Processes,
    /// First and last time, ns of the trace's clock.
    times: Option<(u64, u64)>,
}

struct Saving<'a, R> {
    image: &'a Image<R>,
    progress: &'a mut dyn FnMut(u64),
    packets: u64,
    table: EventTable,
    writer: Writer<Directory>,
    seen: Seen,
    recovered: Recovered,
}

/// Packets written at once.
const BATCH: usize = 64;

impl<R: ReadAt> Saving<'_, R> {
    fn ring(&mut self, ring: &Ring) -> Result<()> {
        let buffer = self.writer.info().buffer(ring.buffer);
        let mut counts = RingCounts {
            buffer: match buffer {
                Some(buffer) if ring.buffer & OF_THREADS > 0 => {
                    format!("{}+{}", buffer.name, buffer.resized())
                }
                buffer => buffer.map(|buffer| buffer.name.clone()).unwrap_or_default(),
            },
            cpu: ring.cpu,
            ..RingCounts::default()
        };
        let mut pages = Vec::with_capacity(BATCH * PAGE as usize);
        let mut previous: Option<(u64, u64)> = None;
        for slot in &ring.slots {
            self.packets += 1;
            (self.progress)(self.packets);
            // A page that was in use has no count yet: it takes over that of the page before.
            let discarded = previous.map_or(0, |(_, discarded)| discarded);
            let Some((page, whole)) = self.packet(ring, slot, discarded)? else {
                self.recovered.damaged += 1;
                continue;
            };
            if let Some((last, _)) = previous {
                counts.missing += slot.sequence - last - 1;
            }
            if let Ok(packet) = Packet::parse(page.as_slice()) {
                previous = Some((slot.sequence, packet.events_discarded.max(discarded)));
                counts.events += u64::from(packet.events);
                self.seen.look(&packet, &self.table);
            }
            *(if whole { &mut counts.whole } else { &mut counts.cut }) += 1;
            pages.extend_from_slice(page.as_slice());
            if pages.len() >= BATCH * PAGE as usize {
                self.writer.append(ring.buffer, ring.cpu, &pages)?;
                pages.clear();
            }
        }
        self.writer.append(ring.buffer, ring.cpu, &pages)?;
        let all = &mut self.recovered;
        all.whole += counts.whole;
        all.cut += counts.cut;
        all.missing += counts.missing;
        all.events += counts.events;
        all.stale += ring.stale;
        all.copies += ring.copies;
        all.rings.push(counts);
        Ok(())
    }

    /// The best copy of a packet, repaired, and whether it is whole.
    fn packet(
        &mut self,
        ring: &Ring,
        slot: &super::order::Slot,
        discarded: u64,
    ) -> Result<Option<(Box<Page>, bool)>> {
        let mut best = None;
        for place in &slot.places {
            let mut page: Box<Page> = Box::new([0; PAGE as usize]);
            let there = self.image.page(*place, &mut page);
            if !there.map_err(Error::image(&self.recovered.path))? {
                continue;
            }
            let same = Packet::parse(page.as_slice()).is_ok_and(|packet| {
                packet.uuid == self.uuid()
                    && ring_of(packet.buffer, packet.cpu) == (ring.buffer, ring.cpu)
                    && (packet.sequence, packet.begin_ns) == (slot.sequence, slot.begin_ns)
            });
            // Of an image that changes (a live kernel's) the page may be another's by now.
            let Some(repaired) = same
                .then(|| repair(&mut page, &self.table, discarded).ok())
                .flatten()
            else {
                continue;
            };
            let better = match &best {
                None => true,
                Some((_, known)) => {
                    let known: &super::repair::Repaired = known;
                    (repaired.kept, repaired.whole) > (known.kept, known.whole)
                }
            };
            if better {
                best = Some((page, repaired));
            }
            if repaired.whole {
                break;
            }
        }
        Ok(best.map(|(page, repaired)| {
            self.recovered.torn += u64::from(repaired.torn);
            (page, repaired.whole)
        }))
    }

    fn uuid(&self) -> Uuid {
        self.writer.info().uuid
    }

    fn finish(mut self) -> Result<Recovered> {
        let info = self.writer.info();
        let (first, last) = self.seen.times.unwrap_or_default();
        if self.seen.times.is_some() {
            self.recovered.first_ns = since_1970(info.clock, first);
            self.recovered.last_ns = since_1970(info.clock, last);
        }
        let name = |id: u16| {
            self.table
                .get(crate::event::EventId(id))
                .map(|class| class.name.clone())
        };
        let counts = self.seen.counts.iter().filter_map(|((id, cpu), recorded)| {
            Some(EventCount {
                event: name(*id)?,
                cpu: *cpu,
                recorded: *recorded,
                ..EventCount::default()
            })
        });
        let summary = Summary {
            version: info.tracer_version.clone(),
            command: info.command.clone(),
            started_ns: self.recovered.first_ns,
            duration_ns: last - first,
            events: counts.collect(),
            frozen: None,
            missed: None,
            notes: self.recovered.notes(),
            limits: Vec::new(),
            cut_short: None,
        };
        self.writer
            .finish(&summary, &Symbols::default(), &self.seen.processes)?;
        Ok(self.recovered)
    }
}

impl Recovered {
    /// Notes for readers of the trace.
    fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!(
            "recovered from an image of memory: {}, {} cut, {} missing between them; what was lost or overwritten before was not counted",
            counted(self.whole, "whole packet"),
            self.cut,
            self.missing
        )];
        if let Some(by) = &self.explained_by {
            notes.push(format!(
                "its own metadata is not in the image: it was read with that of the trace {by}"
            ));
        }
        if self.torn > 0 {
            notes.push(format!(
                "{} behind unfinished ones cannot be read",
                counted(self.torn, "record")
            ));
        }
        if self.damaged > 0 {
            notes.push(format!("{} could not be read", counted(self.damaged, "packet")));
        }
        notes
    }
}

impl Seen {
    fn look(&mut self, packet: &Packet<'_>, table: &EventTable) {
        for record in packet.records(table).map_while(std::result::Result::ok) {
            if record.is_stack_piece() {
                continue;
            }
            *self.counts.entry((record.event.id.0, record.cpu)).or_default() += 1;
            self.learner.learn(&record, &mut self.processes);
            let (first, last) = self.times.unwrap_or((u64::MAX, 0));
            self.times = Some((first.min(record.time_ns), last.max(record.time_ns)));
        }
    }
}

fn since_1970(clock: ClockOffset, time_ns: u64) -> u64 {
    let seconds = clock.seconds.saturating_mul(1_000_000_000);
    seconds
        .saturating_add(u64::from(clock.nanoseconds))
        .saturating_add(time_ns)
}
