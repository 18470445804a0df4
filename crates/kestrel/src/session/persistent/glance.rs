//! A persistent session that is looked at again and again: its parts stay open between two looks, and are opened anew when it has changed.

use crate::session::maps::Maps;
use crate::session::pinned::PinnedSession;
use kestrel_catalog::Result;
use kestrel_hook::buffer::Buffer;
use kestrel_hook::buffer::status::Status as BufferStatus;
use kestrel_trace::aggregate::read::Snapshot;
use kestrel_trace::event::EventClass;
use std::time::Instant;

/// Factor between the pause before the kernel is asked again for missed hits and the time of the last answer, at least.
const MISSED_SHARE: u32 = 50;

/// A session with what of it is looked at.
#[derive(Debug)]
pub struct Glance {
    session: PinnedSession,
    parts: Parts,
    missed: Vec<(String, u64)>,
    missed_again: Instant,
}

#[derive(Debug)]
struct Parts {
    buffers: Vec<Buffer>,
    classes: Vec<EventClass>,
    maps: Maps,
}

/// Counts of one event on one CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuCounts {
    /// The event's name.
    pub event: String,
    /// The CPU.
    pub cpu: u32,
    /// Records written (counted in buffers that overwrite).
    pub recorded: u64,
    /// Records lost: a ring was full, or frozen.
    pub lost: u64,
}

/// Result of a glance at the buffers.
#[derive(Clone, Debug, PartialEq)]
pub struct GlanceResult {
    /// The table that is active.
    pub table: Option<String>,
    /// Events that were recorded or lost.
    pub events: Vec<CpuCounts>,
    /// Contents of the maps of its handlers.
    pub maps: Vec<Snapshot>,
    /// Buffers of the session, with their fill.
    pub buffers: Vec<BufferStatus>,
    /// Hits that programs missed, by the first of their events.
    pub missed: Vec<(String, u64)>,
}

impl Glance {
    /// Opens what is looked at.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn new(session: PinnedSession) -> Result<Self> {
        Ok(Self {
            parts: Parts::open(&session)?,
            session,
            missed: Vec::new(),
            missed_again: Instant::now(),
        })
    }

    /// The session that is looked at.
    pub fn session(&self) -> &PinnedSession {
        &self.session
    }

    /// Looks at it; `None` when it has ended, or another one has its name.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn look(&mut self) -> Result<Option<GlanceResult>> {
        if !self.session.is_current() {
            let now = match self.session.reopen() {
                Ok(now) if now.uuid()? == self.session.uuid()? => now,
                Ok(_) => return Ok(None),
                Err(_) if self.session.version().is_none() => return Ok(None),
                Err(error) => return Err(error),
            };
            self.parts = Parts::open(&now)?;
            self.session = now;
        }
        self.ask_missed();
        let (session, parts) = (&self.session, &self.parts);
        let buffers = (0..).zip(&parts.buffers);
        let control = session.control();
        let status = |(number, buffer): (u32, &Buffer)| {
            buffer.status(control.since(number), control.is_frozen(number))
        };
        Ok(Some(GlanceResult {
            table: session.active().map(|table| table.name.clone()),
            events: parts.events(),
            maps: parts.maps.read(&session.state().event_names())?,
            buffers: buffers
                .filter(|(_, buffer)| !buffer.is_removed())
                .map(status)
                .collect(),
            missed: self.missed.clone(),
        }))
    }

    /// Asks the kernel what programs missed, so seldom that it costs next to nothing.
    fn ask_missed(&mut self) {
        let begun = Instant::now();
        if begun < self.missed_again {
            return;
        }
        let costs = self.session.hook_costs().into_iter();
        self.missed = costs
            .filter(|cost| cost.missed > 0)
            .map(|cost| (cost.event, cost.missed))
            .collect();
        self.missed_again = Instant::now() + begun.elapsed() * MISSED_SHARE;
    }
}

impl Parts {
    fn open(session: &PinnedSession) -> Result<Self> {
        Ok(Self {
            buffers: session.buffers()?,
            classes: session.info()?.events,
            maps: session.maps()?,
        })
    }

    fn events(&self) -> Vec<CpuCounts> {
        let mut all = Vec::new();
        for class in &self.classes {
            for buffer in &self.buffers {
                let ring = buffer.ring();
                if u32::from(class.id.0) >= ring.geometry().events {
                    continue;
                }
                for cpu in ring.cpus() {
                    let counts = buffer.counts(cpu, class.id.0);
                    if counts.recorded + counts.lost > 0 {
                        all.push(CpuCounts {
                            event: class.name.clone(),
                            cpu,
                            recorded: counts.recorded,
                            lost: counts.lost,
                        });
                    }
                }
            }
        }
        all
    }
}
