//! Watching: records of a session as they come, in the order of their times, without a trace on disk.

use crate::postprocess;
use crate::session::Session;
use kestrel_catalog::Result;
use kestrel_hook::buffer::Buffer;
use kestrel_hook::buffer::memory::Memory;
use kestrel_hook::buffer::reader::Ring;
use kestrel_kernel::barrier::wait_for_running_programs;
use kestrel_kernel::procfs;
use kestrel_trace::ctf::packet::Packet;
use kestrel_trace::decode::EventTable;
use kestrel_trace::packet::{HEADER, PAGE};
use kestrel_trace::record::Record;
use kestrel_trace::summary::EventCount;
use std::collections::BTreeMap;
use watermark::Settled;

pub(crate) mod watermark;

/// A session being watched.
#[derive(Debug)]
pub struct Live {
    session: Session,
    table: EventTable,
    waiting: Queue,
    settled: Option<Settled>,
    lost: u64,
    lost_frozen: u64,
}

/// Records that have come but may be preceded by some that have not.
#[derive(Debug, Default)]
pub(crate) struct Queue(Vec<Waiting>);

#[derive(Debug)]
struct Waiting {
    time_ns: u64,
    cpu: u32,
    bytes: Vec<u8>,
}

impl Live {
    /// Watches a session; hooks stay masked until [`Live::start`]. What has come is given at once: a record that another CPU kept a moment later
    /// than its time says may come after later ones.
    pub fn new(session: Session) -> Self {
        let table = EventTable::new(session.classes().iter().cloned());
        Self {
            session,
            table,
            waiting: Queue::default(),
            settled: None,
            lost: 0,
            lost_frozen: 0,
        }
    }

    /// Watches a session and gives records in the order of their times over all CPUs, without exception, for which each waits some 10 to 50 ms.
    pub fn ordered(session: Session) -> Self {
        Self {
            settled: Some(Settled::new()),
            ..Self::new(session)
        }
    }

    /// Lets events in.
    pub fn start(&self) {
        self.session.activate();
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The session, to be detached.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Gives every record that has come since the last call (of an ordered watch: that no other can precede any more), oldest first over all CPUs.
    /// Gives their number.
    ///
    /// # Errors
    /// What `show` answers, and the reader's.
    pub fn poll(&mut self, show: &mut dyn FnMut(&Record<'_>) -> Result<()>) -> Result<usize> {
        self.session.follow_cpus()?;
        self.session.follow_modules();
        let settled = self.settled.as_ref().map(Settled::until);
        let now = procfs::monotonic();
        let until = settled.unwrap_or(now);
        self.gather(now)?;
        self.waiting.emit(&self.table, until, show)
    }

    /// Masks the hooks and gives what is left.
    ///
    /// # Errors
    /// As [`Live::poll`].
    pub fn stop(&mut self, show: &mut dyn FnMut(&Record<'_>) -> Result<()>) -> Result<usize> {
        self.session.deactivate();
        if wait_for_running_programs().is_err() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        self.gather(procfs::monotonic())?;
        self.waiting.emit(&self.table, u64::MAX, show)
    }

    /// Records lost since the last call: because a ring was full, and because a buffer was frozen.
    pub fn take_lost(&mut self) -> (u64, u64) {
        let buffers = self.session.buffers().iter();
        // Of two counts that are raised one after the other the part is read first.
        let frozen = buffers.clone().map(Buffer::lost_frozen).sum();
        let all: u64 = buffers.map(Buffer::lost).sum();
        let new = all - std::mem::replace(&mut self.lost, all);
        let frozen = frozen - std::mem::replace(&mut self.lost_frozen, frozen);
        (new.saturating_sub(frozen), frozen.min(new))
    }

    /// What was lost so far because a ring was full, by event and CPU; `recorded` and `overwritten` are not told.
    pub fn lost(&self) -> Vec<EventCount> {
        let classes = self.session.classes();
        let tally = postprocess::tally((0..).zip(self.session.buffers()), classes);
        let mut counts = postprocess::counts(classes, &tally, &BTreeMap::new());
        counts.retain(|count| count.lost > 0);
        counts
    }

    /// Takes what is in all buffers.
    fn gather(&mut self, now: u64) -> Result<()> {
        for buffer in self.session.buffers_mut() {
            let ring = buffer.ring_mut();
            for cpu in ring.cpus() {
                gather(ring, cpu, now, &self.table, &mut self.waiting)?;
            }
        }
        Ok(())
    }
}

impl Queue {
    /// Takes a record.
    pub(crate) fn push(&mut self, record: &Record<'_>) {
        self.0.push(Waiting {
            time_ns: record.time_ns,
            cpu: record.cpu,
            bytes: record.bytes.to_vec(),
        });
    }

    /// Shows those that are not later than `until`, oldest first. Gives their number.
    pub(crate) fn emit(
        &mut self,
        table: &EventTable,
        until: u64,
        show: &mut dyn FnMut(&Record<'_>) -> Result<()>,
    ) -> Result<usize> {
        self.0.sort_by_key(|w| w.time_ns);
        let ready = self.0.partition_point(|w| w.time_ns <= until);
        for w in self.0.drain(..ready) {
            if let Ok(record) = table.record(&w.bytes, w.cpu, w.time_ns) {
                show(&record)?;
            }
        }
        Ok(ready)
    }
}

/// Takes what came to a CPU's ring, and what is whole of its page in use.
fn gather<M: Memory>(
    ring: &mut Ring<M>,
    cpu: u32,
    now: u64,
    table: &EventTable,
    waiting: &mut Queue,
) -> Result<()> {
    let mut pages = Vec::new();
    ring.drain(cpu, &mut pages)?;
    for page in pages.chunks_exact(PAGE as usize) {
        // A ring that overwrites may have gone on by more than what is here.
        let position = Packet::parse(page).map_or(0, |packet| packet.sequence * u64::from(PAGE));
        keep(table, waiting, page, ring.unpeeked(cpu, position));
    }
    if let Some((page, from)) = ring.peek(cpu, now)? {
        keep(table, waiting, &page, from);
    }
    Ok(())
}

/// Copies a page's records from offset `from` on.
fn keep(table: &EventTable, waiting: &mut Queue, page: &[u8], from: u32) {
    let Ok(packet) = Packet::parse(page) else { return };
    let mut at = HEADER;
    for record in packet.records(table).map_while(std::result::Result::ok) {
        if at >= from {
            waiting.push(&record);
        }
        at += record.bytes.len() as u32;
    }
}
