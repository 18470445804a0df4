//! Records of the caller's session, taken out of its rings as they come: what `trace` shows.

use super::queue::{Queue, Taken};
use super::watermark::Watermark;
use crate::postprocess;
use crate::session::Session;
use kestrel_catalog::Result;
use kestrel_hook::buffer::Buffer;
use kestrel_hook::buffer::cursor::{Begin, Cursor, Policy, View};
use kestrel_kernel::barrier::wait_for_running_programs;
use kestrel_kernel::procfs;
use kestrel_trace::decode::EventTable;
use kestrel_trace::record::Record;
use kestrel_trace::summary::EventCount;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A session being watched.
#[derive(Debug)]
pub struct Live {
    session: Session,
    table: EventTable,
    /// Of each buffer, by its place, the cursors of its rings.
    cursors: Vec<(usize, Cursor)>,
    waiting: Queue,
    watermark: Option<Watermark>,
    lost: u64,
    lost_frozen: u64,
}

impl Live {
    /// Watches a session; hooks stay masked until [`Live::start`]. What has come is given at once: a record that another CPU kept a moment later
    /// than its time says may come after later ones.
    pub fn new(session: Session) -> Self {
        let table = EventTable::new(session.classes().iter().cloned());
        let rings = session.buffers().iter().map(Buffer::ring).enumerate();
        let cursors = rings.flat_map(|(place, ring)| {
            let cursor = move |cpu| (place, ring.cursor(cpu, Begin::Unfreed));
            ring.cpus().map(cursor)
        });
        Self {
            cursors: cursors.collect(),
            session,
            table,
            waiting: Queue::default(),
            watermark: None,
            lost: 0,
            lost_frozen: 0,
        }
    }

    /// Watches a session and gives records in the order of their times over all CPUs, without exception, for which each waits some 10 to 50 ms.
    pub fn ordered(session: Session) -> Self {
        Self {
            watermark: Some(Watermark::new()),
            ..Self::new(session)
        }
    }

    /// Lets events in.
    pub fn start(&self) {
        self.session.activate();
    }

    /// The session that is followed.
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
    /// Errors of `show` and of the reader.
    pub fn poll(&mut self, show: &mut dyn FnMut(&Record<'_>) -> Result<()>) -> Result<usize> {
        self.poll_with(&mut |_, record| show(record))
    }

    /// Like [`Live::poll`], with the session at hand while a record is shown.
    ///
    /// # Errors
    /// As [`Live::poll`].
    pub fn poll_with(&mut self, show: &mut dyn FnMut(&Session, &Record<'_>) -> Result<()>) -> Result<usize> {
        self.poll_beside(&mut Vec::new, &mut |_| {}, show)
    }

    /// Like [`Live::poll_with`], beside records that the reader has made: `made` gives those that are new, with the times at which it made them.
    /// `arrived` sees each record as it comes out of its ring, in no order.
    ///
    /// # Errors
    /// As [`Live::poll`].
    pub(crate) fn poll_beside(
        &mut self,
        made: &mut dyn FnMut() -> Vec<(u64, Vec<u8>)>,
        arrived: &mut dyn FnMut(&Record<'_>),
        show: &mut dyn FnMut(&Session, &Record<'_>) -> Result<()>,
    ) -> Result<usize> {
        self.session.follow_cpus()?;
        self.session.follow_modules();
        self.session.listen()?;
        let watermark = self.watermark.as_ref().map(Watermark::until);
        let now = procfs::monotonic();
        let until = watermark.unwrap_or(now);
        self.take_all(now, arrived)?;
        // As those in the rings: what is made behind `until` may come later, what was made before it is here.
        for (time_ns, bytes) in made() {
            self.waiting.put(time_ns, bytes);
        }
        if !self.waiting.is_empty()
            && let Some(watermark) = &self.watermark
        {
            watermark.ask();
        }
        let session = &self.session;
        self.waiting
            .emit(&self.table, until, &mut |record| show(session, record))
    }

    /// Adds a record that its reader has made, with the time at which it did.
    pub(crate) fn put(&mut self, time_ns: u64, bytes: Vec<u8>) {
        self.waiting.put(time_ns, bytes);
    }

    /// Whether records have come that are not given yet, since another CPU may have an earlier one.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Masks the hooks and gives what is left.
    ///
    /// # Errors
    /// As [`Live::poll`].
    pub fn stop(&mut self, show: &mut dyn FnMut(&Record<'_>) -> Result<()>) -> Result<usize> {
        self.stop_with(&mut |_, record| show(record))
    }

    /// Like [`Live::stop`], with the session at hand while a record is shown.
    ///
    /// # Errors
    /// As [`Live::poll`].
    pub fn stop_with(&mut self, show: &mut dyn FnMut(&Session, &Record<'_>) -> Result<()>) -> Result<usize> {
        self.session.deactivate();
        if wait_for_running_programs().is_err() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        self.take_all(procfs::monotonic(), &mut |_| {})?;
        let session = &self.session;
        self.waiting
            .emit(&self.table, u64::MAX, &mut |record| show(session, record))
    }

    /// Records lost since the last call: because a ring was full, and because a buffer was frozen.
    pub fn take_lost(&mut self) -> (u64, u64) {
        let buffers = self.session.buffers().iter();
        // Of two counts that are raised one after the other the part is read first.
        let frozen = buffers.clone().map(Buffer::lost_frozen).sum();
        let all = buffers.map(Buffer::lost).sum::<u64>() + self.waiting.torn();
        let new = all - std::mem::replace(&mut self.lost, all);
        let frozen = frozen - std::mem::replace(&mut self.lost_frozen, frozen);
        (new.saturating_sub(frozen), frozen.min(new))
    }

    /// Records lost so far because a ring was full, by event and CPU, long records of which pieces were lost among it; `recorded` and `overwritten` are 0.
    pub fn lost(&self) -> Vec<EventCount> {
        let classes = self.session.classes();
        let mut tally = postprocess::tally((0..).zip(self.session.buffers()), classes);
        for (&(event, cpu), torn) in self.waiting.torn_by_event() {
            tally.entry((0, event, cpu)).or_default().lost += torn;
        }
        let mut counts = postprocess::counts(classes, &tally, &BTreeMap::new());
        counts.retain(|count| count.lost > 0);
        counts
    }

    /// Fires a hook of the session's own, while a thread takes the pages that it fills: a handler that writes more than a ring holds loses none of it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn fire_one(&mut self, hook: usize) -> Result<bool> {
        let (buffers, cursors) = (self.session.buffers(), &mut self.cursors);
        let session = &self.session;
        let (has_returned, ready) = (AtomicBool::new(false), Barrier::new(2));
        let (fired, pages) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                ready.wait();
                take_pages(buffers, cursors, &has_returned)
            });
            // A thread begins when a processor takes it: a handler is done by then.
            ready.wait();
            let fired = session.fire_one(hook);
            has_returned.store(true, Ordering::Release);
            reader.thread().unpark();
            (fired, reader.join().unwrap_or_default())
        });
        for page in &pages {
            self.waiting.take(&self.table, page, &mut |_, _| true);
        }
        fired
    }

    /// Takes the records of all buffers.
    fn take_all(&mut self, now: u64, arrived: &mut dyn FnMut(&Record<'_>)) -> Result<()> {
        for (place, cursor) in &mut self.cursors {
            let Some(buffer) = self.session.buffers().get(*place) else {
                continue;
            };
            buffer.ring().follow(cursor, Policy::Take, now, &mut |view| {
                self.waiting
                    .take(&self.table, &Taken::from(view), &mut |record, _| {
                        arrived(record);
                        true
                    });
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(())
    }
}

/// Most pages that are kept while a handler runs: 256 MiB. Behind them its ring fills, and what it loses then is counted.
const MAX_PAGES: usize = 1 << 16;
/// Time between two looks at the rings, in which no handler fills one.
const BETWEEN_LOOKS: Duration = Duration::from_micros(500);

/// Pages with records that come to the rings until a handler has returned.
fn take_pages(buffers: &[Buffer], cursors: &mut [(usize, Cursor)], has_returned: &AtomicBool) -> Vec<Taken> {
    let mut pages = Vec::new();
    while !has_returned.load(Ordering::Acquire) && pages.len() < MAX_PAGES {
        let before = pages.len();
        for (place, cursor) in &mut *cursors {
            let Some(buffer) = buffers.get(*place) else {
                continue;
            };
            let mut keep = |view: View<'_>| {
                pages.push(Taken::from(view));
                Ok(match pages.len() < MAX_PAGES {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                })
            };
            let now = procfs::monotonic();
            // The reader of the remaining records meets the same error and reports it.
            _ = buffer.ring().follow(cursor, Policy::Take, now, &mut keep);
        }
        if pages.len() == before {
            std::thread::park_timeout(BETWEEN_LOOKS);
        }
    }
    pages
}
