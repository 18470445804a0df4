//! Watching a persistent session: records of its buffers as they come, in the order of their times, while an agent, dumps and other watchers go
//! on; nothing is taken, and what was overwritten before it was shown is counted.
//!
//! Pages are copied first, then the session's description is read: so all events in them are described. A buffer that is resized is
//! watched on in its new ring.

use super::queue::{Queue, Taken};
use super::watermark::Watermark;
use crate::session::pinned::{PinnedSession, ThreadNames};
use crate::session::store::Store;
use kestrel_catalog::{Error, Result};
use kestrel_hook::buffer::checkpoint::Checkpoint;
use kestrel_hook::buffer::cursor::{Begin, Cursor, Policy, View};
use kestrel_hook::buffer::{Buffer, numbered};
use kestrel_kernel::procfs;
use kestrel_trace::ctf::packet::Packet;
use kestrel_trace::decode::EventTable;
use kestrel_trace::event::EventClass;
use kestrel_trace::info::BufferInfo;
use kestrel_trace::record::Record;
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// A persistent session that is being watched.
#[derive(Debug)]
pub struct Watch {
    store: Store,
    session: PinnedSession,
    buffers: Vec<Buffer>,
    /// Places of the buffers that are watched.
    places: Vec<u32>,
    rings: Vec<Watched>,
    classes: Vec<EventClass>,
    table: EventTable,
    /// Version of the description that `classes` were read from.
    described: Option<u64>,
    waiting: Queue,
    watermark: Watermark,
    /// Packets overwritten unseen in rings that are gone.
    overwritten_before: u64,
    /// Records missed in rings that are gone; `None` where they were not counted.
    gone: Option<u64>,
    reported_overwritten: u64,
    reported: u64,
    /// Time since which a described ring is awaited that does not exist yet.
    awaited: Option<Instant>,
    ended: bool,
}

/// Pages of a ring that are copied at once.
const AT_ONCE: usize = 256;
/// Longest time until a described ring exists.
const RESIZING: Duration = Duration::from_secs(2);

/// A watched ring of one CPU.
#[derive(Debug)]
struct Watched {
    /// The number in its packets.
    number: u32,
    cursor: Cursor,
    /// Earliest time of records that are shown, ns.
    since_ns: u64,
    /// Position from which records are counted, and the number recorded there.
    begin: Option<Checkpoint>,
    /// Position up to which they are counted.
    end: Option<Checkpoint>,
    /// Records shown between the two.
    shown: u64,
}

impl Watched {
    /// Records between its begin and its end that were not shown, if that is known.
    fn missing(&self) -> Option<u64> {
        if self.cursor.unread().overwritten == 0 {
            return Some(0);
        }
        let all = self.end?.recorded.checked_sub(self.begin?.recorded)?;
        Some(all.saturating_sub(self.shown))
    }
}

/// Records overwritten or lost unseen since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// Packets of records that were overwritten before they were shown.
    pub packets: u64,
    /// Records lost: full streams, frozen buffers.
    pub lost: u64,
}

impl Watch {
    /// Watches buffers of a session (none named: all but that of the agent's messages), from now on, or from the oldest time that they still hold.
    ///
    /// # Errors
    /// When there is no such session or buffer, and the kernel's.
    pub fn open(
        store: Store,
        session: Option<&str>,
        names: &[String],
        since: Option<Duration>,
    ) -> Result<Self> {
        let session = store.session(session)?;
        let buffers = session.buffers()?;
        let places = kestrel_hook::buffer::name::numbers(&buffers, names)?;
        let since_ns = since.map_or(0, |since| {
            procfs::monotonic().saturating_sub(since.as_nanos() as u64).max(1)
        });
        let described = session.version();
        let classes = session.info()?.events;
        let mut watch = Self {
            store,
            session,
            buffers,
            places,
            rings: Vec::new(),
            table: EventTable::new(classes.iter().cloned()),
            classes,
            described,
            waiting: Queue::default(),
            watermark: Watermark::new(),
            overwritten_before: 0,
            gone: Some(0),
            reported_overwritten: 0,
            reported: 0,
            awaited: None,
            ended: false,
        };
        watch.reported = watch.lost();
        let mut rings = Vec::new();
        for (number, buffer) in watch.parts() {
            let ring = buffer.ring();
            for cpu in ring.cpus() {
                // Before the cursor: records between the two would be shown and not counted.
                let begin = ring.checkpoint(cpu);
                let since_ns = match since_ns {
                    0 => 0,
                    since_ns => since_ns.max(watch.reset(number)),
                };
                let from = match (since_ns, begin) {
                    (0, Some(mark)) => Begin::At(mark.position),
                    (0, None) => Begin::Now,
                    (since_ns, _) => Begin::Since(since_ns),
                };
                rings.push(Watched {
                    number,
                    cursor: ring.cursor(cpu, from),
                    since_ns,
                    begin,
                    end: None,
                    shown: 0,
                });
            }
        }
        watch.rings = rings;
        Ok(watch)
    }

    /// The session's name.
    pub fn name(&self) -> &str {
        self.session.name()
    }

    /// Kinds of records known so far.
    pub fn classes(&self) -> &[EventClass] {
        &self.classes
    }

    /// Names of threads that the session has kept.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn thread_names(&self) -> Result<ThreadNames> {
        self.session.thread_names()
    }

    /// Whether the session is there no more.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The parts of the buffers that are watched, each with the number in its packets.
    fn parts(&self) -> Vec<(u32, &Buffer)> {
        let of = |place: &u32| {
            self.buffers
                .get(*place as usize)
                .map(|buffer| buffer.parts(*place))
        };
        self.places.iter().filter_map(of).flatten().collect()
    }

    /// Time of a buffer's last reset.
    fn reset(&self, number: u32) -> u64 {
        self.session.control().since(number & 0xffff)
    }

    fn lost(&self) -> u64 {
        let of = |place: &u32| self.buffers.get(*place as usize).map_or(0, Buffer::lost);
        self.places.iter().map(of).sum()
    }

    /// Shows every record that has come since the last call and that no other can precede any more (some 10 to 50 ms after it happened), oldest
    /// first over all CPUs. Returns their number.
    ///
    /// # Errors
    /// Errors of `show` and of the kernel.
    pub fn poll(&mut self, show: &mut dyn FnMut(&Record<'_>) -> Result<()>) -> Result<usize> {
        let (pages, until) = self.take()?;
        let now = self.learn()?;
        self.read(&pages);
        if self.has_waiting() {
            self.watermark.ask();
        }
        if let Some((session, buffers)) = now {
            self.renew(session, buffers);
        }
        self.waiting.emit(&self.table, until, show)
    }

    /// Whether records have come that are not shown yet, since another CPU may have an earlier one.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Shows the remaining records, up to a moment for each ring at which its missed records are known.
    ///
    /// # Errors
    /// As [`Watch::poll`].
    pub fn finish(&mut self, show: &mut dyn FnMut(&Record<'_>) -> Result<()>) -> Result<usize> {
        // A buffer that was resized since the last poll has records in a ring that is not watched yet.
        let mut shown = self.poll(show)?;
        for watched in &mut self.rings {
            if let Some(buffer) = numbered(&self.buffers, watched.number) {
                watched.end = buffer.ring().checkpoint(watched.cursor.cpu());
            }
        }
        // A ring that was written round once more has not the records of the end.
        let most = self
            .parts()
            .iter()
            .map(|(_, part)| part.ring().geometry().pages)
            .max();
        for _ in 0..=most.unwrap_or(0) as usize / AT_ONCE {
            let (pages, until) = self.take()?;
            self.learn()?;
            self.read(&pages);
            shown += self.waiting.emit(&self.table, until, show)?;
        }
        Ok(shown + self.waiting.emit(&self.table, u64::MAX, show)?)
    }

    /// Records that were kept and overwritten before they could be shown, from the beginning to [`Watch::finish`]; `None` where buffers do not
    /// count what they keep (streams), or were never at rest.
    pub fn missing(&self) -> Option<u64> {
        let each = self.rings.iter().map(Watched::missing);
        each.sum::<Option<u64>>()?.checked_add(self.gone?)
    }

    /// Records overwritten or lost unseen since the last call.
    pub fn take_unseen(&mut self) -> Unseen {
        let of = |ring: &Watched| ring.cursor.unread().overwritten;
        let overwritten = self.rings.iter().map(of).sum::<u64>() + self.overwritten_before;
        let lost = self.lost();
        Unseen {
            packets: overwritten - std::mem::replace(&mut self.reported_overwritten, overwritten),
            lost: lost.saturating_sub(std::mem::replace(&mut self.reported, lost)),
        }
    }

    /// Copies pages with new records, each with its ring, and returns the time up to which these are all: the watermark, unless a ring has more
    /// than is copied at once.
    fn take(&mut self) -> Result<(Vec<(usize, Taken)>, u64)> {
        let (mut all, mut until) = (Vec::new(), self.watermark.until());
        let now = procfs::monotonic();
        for (ring, watched) in self.rings.iter_mut().enumerate() {
            let Some(buffer) = numbered(&self.buffers, watched.number) else {
                continue;
            };
            let most = all.len() + AT_ONCE;
            let mut take = |view: View<'_>| {
                all.push((ring, Taken::from(view)));
                Ok(match all.len() < most {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                })
            };
            let is_all = buffer
                .ring()
                .follow(&mut watched.cursor, Policy::Tail, now, &mut take)?;
            let last = all
                .last()
                .and_then(|(_, page)| Packet::parse(page.bytes.as_slice()).ok());
            if let Some(last) = last.filter(|_| !is_all) {
                until = until.min(last.end_ns.saturating_sub(1));
            }
        }
        Ok((all, until))
    }

    /// Puts their records among those that wait to be shown.
    fn read(&mut self, pages: &[(usize, Taken)]) {
        for (ring, page) in pages {
            let Some(watched) = self.rings.get_mut(*ring) else {
                continue;
            };
            let counted = watched.begin.map_or(0, |mark| mark.position)
                ..watched.end.map_or(u64::MAX, |mark| mark.position);
            self.waiting.take(&self.table, page, &mut |record, position| {
                watched.shown += u64::from(counted.contains(&position) && !record.is_stack_piece());
                record.time_ns >= watched.since_ns
            });
        }
    }

    /// Checks for loaded tables and for the session's end; returns the session as it is now, if it has changed.
    fn learn(&mut self) -> Result<Option<(PinnedSession, Vec<Buffer>)>> {
        let described = self.session.version();
        let waits = self.awaited.is_some_and(|since| since.elapsed() < RESIZING);
        if described == self.described && !waits {
            return Ok(None);
        }
        let uuid = self.session.uuid()?;
        let now = match self.store.session(Some(self.session.name())) {
            Ok(now) if now.uuid()? == uuid => now,
            Ok(_) | Err(Error::NoSession { .. }) => {
                self.ended = true;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // It may end, or be resized, while it is looked at: then it is looked at again.
        let (Ok(info), Ok(buffers)) = (now.info(), now.buffers()) else {
            return Ok(None);
        };
        let ours = |of: &&BufferInfo| self.places.contains(&of.place());
        let there = |of: &BufferInfo| numbered(&buffers, of.number).is_some();
        // A ring is described before it is there.
        if info.buffers.iter().filter(ours).all(there) {
            self.awaited = None;
        } else if !waits {
            self.awaited = Some(Instant::now());
        }
        self.classes = info.events;
        self.table = EventTable::new(self.classes.iter().cloned());
        self.described = described;
        Ok(Some((now, buffers)))
    }

    /// Continues with the session as it is now: rings that are gone are dropped, new ones are watched from their beginning.
    fn renew(&mut self, session: PinnedSession, buffers: Vec<Buffer>) {
        for mut watched in std::mem::take(&mut self.rings) {
            if numbered(&buffers, watched.number).is_some() {
                self.rings.push(watched);
                continue;
            }
            if let Some(buffer) = numbered(&self.buffers, watched.number) {
                watched.end = buffer.ring().checkpoint(watched.cursor.cpu());
            }
            self.overwritten_before += watched.cursor.unread().overwritten;
            self.gone = self.gone.zip(watched.missing()).map(|(gone, more)| gone + more);
        }
        (self.session, self.buffers) = (session, buffers);
        let known: HashSet<u32> = self.rings.iter().map(|watched| watched.number).collect();
        let mut new = Vec::new();
        for (number, buffer) in self.parts() {
            if known.contains(&number) {
                continue;
            }
            for cpu in buffer.ring().cpus() {
                let ring = buffer.ring();
                new.push(Watched {
                    number,
                    cursor: ring.cursor(cpu, Begin::Start),
                    since_ns: 0,
                    begin: ring.checkpoint_at_start(cpu),
                    end: None,
                    shown: 0,
                });
            }
        }
        self.rings.extend(new);
    }
}
