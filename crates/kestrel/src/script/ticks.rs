//! Intervals without a kernel program: their handlers only print constants and maps and clear maps, and a thread of the reader makes their output records.
//!
//! A record has the time at which the thread made it, so that it is performed in order among those of the rings, however busy the reader is. Each count falls into
//! exactly one interval: the thread raises the map's generation as a kernel program would, and the record is performed after the last program has ended that may
//! still count into the generation before.

use crate::plan::constant_records::{ConstantRecord, Turn};
use crate::session::Session;
use crate::session::maps::Generations;
use kestrel_hook::hook::control::Table;
use kestrel_kernel::procfs::monotonic;
use kestrel_trace::event::EventId;
use kestrel_trace::layout::header;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Records that wait for the reader at most: what it writes to may stand still for hours.
const MAX_WAITING: usize = 1 << 16;

/// The intervals of a program, until they are dropped.
#[derive(Debug)]
pub(super) struct Ticks {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Records that were not taken yet: time, bytes.
    made: Mutex<Vec<(u64, Vec<u8>)>>,
    /// CLOCK_MONOTONIC of the next tick, ns.
    next: AtomicU64,
    /// Ticks skipped since the last [`Ticks::take_skipped`], because the reader was too far behind.
    skipped: AtomicU64,
    over: AtomicBool,
}

/// An interval.
struct Tick {
    period: u64,
    records: Vec<(EventId, ConstantRecord)>,
    /// CLOCK_MONOTONIC of its next tick, ns.
    due: u64,
}

impl Ticks {
    /// Begins the intervals of a session; none where it has none that its reader makes.
    pub(super) fn begin(session: &Session) -> Option<Self> {
        let now = monotonic();
        let ticks = session.periodic().into_iter().map(|(period, records)| Tick {
            period: period.max(1),
            records,
            due: now + period,
        });
        let mut ticks: Vec<Tick> = ticks.collect();
        if ticks.is_empty() {
            return None;
        }
        let (generations, control) = (session.generations(), session.control());
        let shared = Arc::new(Shared::default());
        shared.next.store(next(&ticks), Ordering::Relaxed);
        let own = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while own.sleep() {
                // An `exit` in a handler masks intervals as well.
                own.tick(&mut ticks, &generations, &|| control.active() != Table::NONE);
            }
        });
        Some(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Takes the records that were made: time, bytes.
    pub(super) fn take(&self) -> Vec<(u64, Vec<u8>)> {
        std::mem::take(&mut *self.shared.made())
    }

    /// Takes the number of ticks that were skipped.
    pub(super) fn take_skipped(&self) -> u64 {
        self.shared.skipped.swap(0, Ordering::Relaxed)
    }

    /// Time until the next tick.
    pub(super) fn until_next(&self) -> Duration {
        if !self.shared.made().is_empty() {
            return Duration::ZERO;
        }
        let next = self.shared.next.load(Ordering::Relaxed);
        Duration::from_nanos(next.saturating_sub(monotonic()))
    }

    /// Ends the thread; records that were made can still be taken.
    pub(super) fn end(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A thread that has panicked has nothing more to say.
            let _ended = thread.join();
        }
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn made(&self) -> MutexGuard<'_, Vec<(u64, Vec<u8>)>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until the next tick; whether there is to be one.
    fn sleep(&self) -> bool {
        loop {
            let left = self.next.load(Ordering::Relaxed).saturating_sub(monotonic());
            match (self.over.load(Ordering::Relaxed), left) {
                (true, _) => return false,
                (false, 0) => return true,
                (false, left) => std::thread::park_timeout(Duration::from_nanos(left)),
            }
        }
    }

    /// Makes the records of those that are due, the earliest first, unless they are masked, and says when the next is.
    fn tick(&self, ticks: &mut [Tick], generations: &Generations, are_active: &dyn Fn() -> bool) {
        let now = monotonic();
        let mut due: Vec<&mut Tick> = ticks.iter_mut().filter(|tick| tick.due <= now).collect();
        due.sort_by_key(|tick| tick.due);
        // Locked until all records are pushed: a reader that takes the list has every record up to its time.
        let mut waiting = self.made();
        for tick in due {
            let has_room = waiting.len() < MAX_WAITING && tick.has_room(generations);
            if !are_active() {
                // Nothing is to be printed any more.
            } else if !has_room {
                self.skipped.fetch_add(1, Ordering::Relaxed);
            } else {
                let made = tick.make(generations);
                let time = monotonic();
                waiting.extend(
                    made.into_iter()
                        .map(|(id, bytes)| (time, stamped(bytes, id, time))),
                );
            }
            tick.due = after(tick.due, tick.period, now);
        }
        drop(waiting);
        self.next.store(next(ticks), Ordering::Relaxed);
    }
}

impl Tick {
    /// Whether its maps can be cleared now: its reader may be far behind. Then this interval goes on until the next tick.
    fn has_room(&self, generations: &Generations) -> bool {
        let has_room = |record: &ConstantRecord| {
            let changed = record.generation.as_ref().filter(|of| of.turn != Turn::Unchanged);
            changed.is_none_or(|of| generations.has_room(&of.map))
        };
        self.records.iter().all(|(_, record)| has_room(record))
    }

    /// Does what the records say, and gives their bytes, which have no time yet.
    fn make(&self, generations: &Generations) -> Vec<(EventId, Vec<u8>)> {
        let make = |(id, record): &(EventId, ConstantRecord)| {
            let generation = match &record.generation {
                None => 0,
                Some(of) => match of.turn {
                    Turn::Unchanged => generations.now(&of.map),
                    Turn::Clears => generations.raise(&of.map, false),
                    Turn::Zeroes => generations.raise(&of.map, true),
                },
            };
            (*id, record.bytes(generation))
        };
        self.records.iter().map(make).collect()
    }
}

/// A record with its number and time.
fn stamped(mut bytes: Vec<u8>, id: EventId, time_ns: u64) -> Vec<u8> {
    if let Some(place) = bytes.first_chunk_mut() {
        *place = header(id.0, time_ns).to_le_bytes();
    }
    bytes
}

/// When the next of them is due; there is at least one.
fn next(ticks: &[Tick]) -> u64 {
    ticks.iter().map(|tick| tick.due).min().unwrap_or(u64::MAX)
}

/// The first moment behind `now` that is a whole number of periods behind `due`: as a clock of the kernel's, what was slept through is one tick.
fn after(due: u64, period: u64, now: u64) -> u64 {
    due + (now.saturating_sub(due) / period + 1) * period
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_missed_in_sleep_are_one_tick() {
        assert_eq!(after(100, 10, 100), 110);
        assert_eq!(after(100, 10, 109), 110);
        assert_eq!(after(100, 10, 110), 120);
        assert_eq!(after(100, 10, 155), 160);
        assert_eq!(after(100, 1, 100), 101);
    }

    #[test]
    fn ticks_are_skipped_and_counted_without_a_reader() {
        let known = ConstantRecord {
            record: 0,
            bytes: vec![0; 8],
            generation: None,
        };
        // It is due whenever it is looked at.
        let mut ticks = [Tick {
            period: 1,
            records: vec![(EventId(1), known.clone()), (EventId(2), known)],
            due: 0,
        }];
        let shared = Shared::default();
        let generations = Generations::default();
        for _ in 0..MAX_WAITING / 2 + 3 {
            shared.tick(&mut ticks, &generations, &|| true);
        }
        assert_eq!(shared.made().len(), MAX_WAITING);
        assert_eq!(shared.skipped.load(Ordering::Relaxed), 3);
        shared.tick(&mut ticks, &generations, &|| false);
        assert_eq!(shared.skipped.load(Ordering::Relaxed), 3, "one that is masked");
        shared.made().clear();
        shared.tick(&mut ticks, &generations, &|| true);
        assert_eq!(shared.made().len(), 2);
    }
}
