//! Messages of several rings, in the order of their times over all CPUs; one that has to wait keeps no other waiting.
//!
//! A ring is acknowledged up to its oldest message that waits, so that the next agent finds it when this one is killed. That may see again what came after it. Where
//! what waits would keep more than half of a ring from being used again, it is kept in this process alone.

use super::Answer;
use kestrel_catalog::Result;
use kestrel_hook::buffer::cursor::{Begin, Cursor, Policy};
use kestrel_hook::buffer::memory::Memory;
use kestrel_hook::buffer::reader::Ring;
use kestrel_trace::ctf::packet::Packet;
use kestrel_trace::decode::EventTable;
use kestrel_trace::packet::HEADER;
use kestrel_trace::record::Record;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// A ring's number among those of its buffer, and a CPU.
type RingPlace = (u32, u32);

/// Reading position in one CPU's ring.
#[derive(Debug)]
struct Progress {
    /// Everything before it was taken from the ring.
    cursor: Cursor,
    /// Where messages begin that were taken and not acted on.
    open: BTreeSet<u64>,
}

/// A message that was taken from its ring.
#[derive(Debug)]
struct Taken {
    place: RingPlace,
    position: u64,
    time_ns: u64,
    bytes: Vec<u8>,
}

/// Messages that were taken and wait, and how far each ring was read.
#[derive(Debug, Default)]
pub struct MessageQueue {
    rings: BTreeMap<RingPlace, Progress>,
    /// Messages that wait for earlier ones, in the order of time.
    waiting: Vec<Taken>,
}

impl MessageQueue {
    /// Whether one of these rings holds something that was not taken yet.
    pub fn is_new<'r, M: Memory + 'r>(&self, rings: impl IntoIterator<Item = (u32, &'r Ring<M>)>) -> bool {
        rings.into_iter().any(|(number, ring)| {
            ring.cpus().any(|cpu| {
                let known = self.rings.get(&(number, cpu));
                let seen = known.map_or(0, |known| known.cursor.position());
                ring.has_unread(cpu) && ring.position(cpu) > seen
            })
        })
    }

    /// Shows what waits and what came until a moment at which everything that was reserved before has been committed, oldest first, and
    /// acknowledges what was acted on. Gives how many that were.
    ///
    /// # Errors
    /// Errors of `act`; messages that were not acted on wait.
    pub fn poll<'r, M: Memory + 'r>(
        &mut self,
        rings: impl IntoIterator<Item = (u32, &'r Ring<M>)>,
        until: u64,
        events: &EventTable,
        act: &mut dyn FnMut(&Record<'_>) -> Result<Answer>,
    ) -> Result<usize> {
        let rings: BTreeMap<u32, &Ring<M>> = rings.into_iter().collect();
        self.rings.retain(|(number, _), _| rings.contains_key(number));
        for (number, ring) in &rings {
            for cpu in ring.cpus() {
                let place = (*number, cpu);
                let progress = self.rings.entry(place).or_insert_with(|| Progress {
                    cursor: ring.cursor(cpu, Begin::At(ring.consumed(cpu))),
                    open: BTreeSet::new(),
                });
                take(ring, place, progress, until, events, &mut self.waiting)?;
            }
        }
        // Those of one ring are in order; of two with the same time the one that waited before comes first.
        self.waiting.sort_by_key(|taken| taken.time_ns);
        let (mut acted, mut outcome) = (0, Ok(()));
        let mut later = Vec::new();
        for taken in std::mem::take(&mut self.waiting) {
            let answer = match events.record(&taken.bytes, taken.place.1, taken.time_ns) {
                Ok(record) if outcome.is_ok() => act(&record),
                Ok(_) => Ok(Answer::Later),
                Err(_) => Ok(Answer::Done),
            };
            match answer {
                Ok(Answer::Done) => {
                    acted += 1;
                    if let Some(progress) = self.rings.get_mut(&taken.place) {
                        progress.open.remove(&taken.position);
                        acknowledge(&rings, taken.place, progress);
                    }
                }
                Ok(Answer::Later) => later.push(taken),
                Err(error) => {
                    outcome = Err(error);
                    later.push(taken);
                }
            }
        }
        self.waiting = later;
        for (place, progress) in &mut self.rings {
            let oldest = progress
                .open
                .first()
                .copied()
                .unwrap_or_else(|| progress.cursor.position());
            let Some(ring) = rings.get(&place.0) else { continue };
            if ring.position(place.1).saturating_sub(oldest) > u64::from(ring.geometry().data() / 2) {
                progress.open.clear();
            }
            acknowledge(&rings, *place, progress);
        }
        outcome.map(|()| acted)
    }

    /// Messages that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Of these, those that are in this process alone.
    pub fn alone(&self) -> usize {
        let is_open = |taken: &&Taken| {
            let progress = self.rings.get(&taken.place);
            progress.is_some_and(|progress| progress.open.contains(&taken.position))
        };
        self.waiting.len() - self.waiting.iter().filter(is_open).count()
    }
}

/// Says in the ring how far it was acted on.
fn acknowledge<M: Memory>(rings: &BTreeMap<u32, &Ring<M>>, (number, cpu): RingPlace, progress: &Progress) {
    let position = progress
        .open
        .first()
        .copied()
        .unwrap_or_else(|| progress.cursor.position());
    if let Some(ring) = rings.get(&number)
        && position > ring.acknowledged(cpu)
    {
        ring.acknowledge(cpu, position);
    }
}

/// Takes what a CPU's ring holds of messages until a moment.
fn take<M: Memory>(
    ring: &Ring<M>,
    place: RingPlace,
    progress: &mut Progress,
    until: u64,
    events: &EventTable,
    taken: &mut Vec<Taken>,
) -> Result<()> {
    // The first message of a later time: it is taken when all before it have come.
    let mut later = None;
    ring.follow(&mut progress.cursor, Policy::Tail, until, &mut |view| {
        let Ok(packet) = Packet::parse(view.bytes.as_slice()) else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut at = HEADER;
        for record in packet.records(events).map_while(std::result::Result::ok) {
            let (offset, position) = (at, view.position + u64::from(at));
            at += record.bytes.len() as u32;
            if offset < view.from {
                continue;
            }
            if record.time_ns > until {
                later = Some(position);
                return Ok(ControlFlow::Break(()));
            }
            progress.open.insert(position);
            taken.push(Taken {
                place,
                position,
                time_ns: record.time_ns,
                bytes: record.bytes.to_vec(),
            });
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if let Some(position) = later {
        progress.cursor = ring.cursor(place.1, Begin::At(position));
    }
    Ok(())
}
