//! One session's log: pages of its stream buffers into segments, each record once, whenever this process is killed.
//!
//! Pages are written, then freed in the ring: between the two they are on file and in the ring, and [`Ending::recover`] finds out.

use super::segment::{self, Ending, Finished, LostRecords, PartEntry, Segment, SharedCode};
use super::{RETRY, Rotation, as_user};
use crate::agent::user::User;
use crate::session::pinned::{PinnedSession, ThreadNames};
use crate::session::state::State;
use crate::user_symbols::{UserCode, holds_user_stacks};
use kestrel_catalog::{Error, Result};
use kestrel_hook::buffer::bell::{Bell, Doorbell};
use kestrel_hook::buffer::borrow::{Part, write_lent};
use kestrel_hook::buffer::{Buffer, numbered};
use kestrel_kernel::Host;
use kestrel_kernel::barrier::wait_for_running_programs;
use kestrel_kernel::procfs;
use kestrel_trace::ctf::packed::StreamOut;
use kestrel_trace::decode::EventTable;
use kestrel_trace::info::{BufferInfo, TraceInfo};
use kestrel_trace::packet::{HEADER, PAGE};
use kestrel_trace::process::Processes;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Segments that are being ended beside the one that is written.
const MAX_ENDING: usize = 4;
/// How soon a file ends after its beginning for the sake of a ring that is read to its end.
const REST: Duration = Duration::from_millis(20);
/// Longest time until a described buffer exists.
const RESIZING: Duration = Duration::from_secs(2);
/// Longest time that programs that were running when a session ended may take for their records.
const SETTLING: Duration = Duration::from_millis(50);

/// Destination and settings of a log.
#[derive(Clone, Debug)]
pub(super) struct LogTarget {
    pub(super) folder: PathBuf,
    pub(super) rotation: Rotation,
    pub(super) user: Option<User>,
    pub(super) host: Host,
}

/// The log of one session.
#[derive(Debug)]
pub(super) struct Spool {
    target: LogTarget,
    session: PinnedSession,
    threads: ThreadNames,
    buffers: Vec<Buffer>,
    /// The doorbell of their writers.
    doorbell: Option<Doorbell>,
    /// Whether no program writes any more to what buffers were before they were resized.
    settled: bool,
    /// When a newer description was first seen that has a ring not read here.
    stale: Option<Instant>,
    /// Description that all segments have: the buffers logged, all events known.
    info: TraceInfo,
    events: EventTable,
    /// Identity of what `info` was read from.
    described: Option<u64>,
    segment: Option<Segment>,
    /// When the last segment ended.
    rotated: Instant,
    counted: LostRecords,
    endings: Vec<Ended>,
    /// Segments that could not be ended, and when that was tried.
    failed: Vec<(Instant, Ending)>,
    /// Bytes of packets written.
    written: u64,
    /// Where records have stacks of processes: what is known of their code.
    code: Option<SharedCode>,
    /// Whether following it failed: it is not tried again.
    cannot_follow: bool,
}

impl Spool {
    /// Goes on with the log of a session where the last agent stopped, whose unfinished segments are ended now. `wanted` are the places of its
    /// stream buffers; of one that was resized, what it was before is read to its end, too.
    pub(super) fn open(target: LogTarget, session: PinnedSession, wanted: &[u32]) -> Result<Self> {
        let mut buffers = session.buffers()?;
        let described = session.version();
        let mut info = session.info()?;
        let places = (0..).zip(&buffers).filter(|(place, _)| wanted.contains(place));
        info.buffers = places.flat_map(|(place, buffer)| buffer.infos(place)).collect();
        let uuid = info.uuid.to_string();
        let threads = session.thread_names()?;
        let endings = as_user(target.user.as_ref(), || {
            recover(&target, Some((&uuid, &mut buffers)), &|| {
                threads.read().unwrap_or_default()
            })
        })?;
        let counted = as_user(target.user.as_ref(), || {
            Ok(segment::counted(&target.folder, &uuid))
        })?;
        Ok(Self {
            events: EventTable::new(info.events.iter().cloned()),
            target,
            settled: session.state().is_settled(),
            doorbell: session.stream_bell()?,
            stale: None,
            session,
            threads,
            buffers,
            info,
            described,
            segment: None,
            rotated: Instant::now(),
            counted,
            endings,
            failed: Vec::new(),
            written: 0,
            code: None,
            cannot_follow: false,
        })
    }

    /// The identity of the session's trace.
    pub(super) fn uuid(&self) -> &str {
        &self.session.state().uuid
    }

    /// Whether one of its buffers has another ring in this state of the session.
    pub(super) fn is_resized(&self, now: &State) -> bool {
        let differs = |place: u32| {
            let then = self.buffers.get(place as usize).map(Buffer::times_resized);
            then != now.buffers.get(place as usize).map(|buffer| buffer.resized)
        };
        self.info.buffers.iter().any(|of| differs(of.place()))
    }

    /// Whether it takes what the buffer at this place of the session holds.
    pub(super) fn takes(&self, place: u32) -> bool {
        self.info.buffers.iter().any(|of| of.place() == place)
    }

    /// Learns from a state of the session, with the same rings, whether tables are on their way out.
    pub(super) fn settle(&mut self, now: &State) {
        self.settled |= now.is_settled();
    }

    /// Whether its session should be looked at now, because it has a ring, or will have one, that is not read here.
    pub(super) fn is_stale(&self) -> bool {
        self.stale.is_some_and(|since| since.elapsed() < RESIZING)
    }

    /// Bytes of packets written so far.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Names of the buffers that it takes.
    pub(super) fn buffers(&self) -> Vec<String> {
        self.info.buffer_names().into_iter().map(str::to_owned).collect()
    }

    /// Readable when one of the buffers has filled since the last [`Spool::poll`]; `None` in sessions of Kestrels that had no such thing.
    pub(super) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.doorbell.as_ref().map(Doorbell::fd)
    }

    /// Asks the writers of the buffers to wake who sleeps on [`Spool::bell`] when there is enough to take.
    fn listen(&mut self) -> Result<()> {
        let Some(doorbell) = &mut self.doorbell else {
            return Ok(());
        };
        doorbell.drain()?;
        for of in &self.info.buffers {
            if let Some(buffer) = numbered(&self.buffers, of.number) {
                buffer.ring().listen(Bell::QuarterFull);
            }
        }
        Ok(())
    }

    /// How full the fullest of the buffers is, 0 to 1.
    pub(super) fn fill(&self) -> f64 {
        let fill = |number: u32| numbered(&self.buffers, number).map_or(0.0, |b| b.ring().fill());
        let all = self.info.buffers.iter().map(|b| fill(b.number));
        all.fold(0.0, f64::max)
    }

    /// Writes all pages that are whole, and begins a new segment when it is time. Gives the number of pages.
    pub(super) fn poll(&mut self) -> Result<usize> {
        let ends = self.ends();
        // Events in the pages before these places were described before they happened.
        self.learn()?;
        let user = self.target.user.clone();
        self.follow_code()?;
        let pages = as_user(user.as_ref(), || self.take(&ends))?;
        // Behind the records, so that it knows all that they mean.
        self.follow_code()?;
        as_user(user.as_ref(), || {
            if self.rotated.elapsed() >= self.target.rotation.time || self.has_rest() {
                self.rotate(true)?;
            }
            self.listen()?;
            Ok(pages)
        })
    }

    /// Takes what processes have changed in their memory, where records have their stacks. Without the right to follow them stacks keep their addresses.
    fn follow_code(&mut self) -> Result<()> {
        if self.code.is_none() && !self.cannot_follow && holds_user_stacks(&self.info.events) {
            match UserCode::follow(&self.target.host) {
                Ok(code) => self.code = Some(segment::share(code)),
                Err(_) => self.cannot_follow = true,
            }
        }
        // A file that is being ended may have it: perf's rings keep what comes meanwhile.
        if let Some(code) = &self.code
            && let Ok(mut code) = code.try_lock()
        {
            code.poll()?;
        }
        Ok(())
    }

    /// Whether something is left in the last page of a ring that no program writes any more: then its file ends with it, so that the ring can go.
    fn has_rest(&self) -> bool {
        let waits = |part: &Buffer| part.ring().cpus().any(|cpu| part.ring().has_unread(cpu));
        let place = |of: &BufferInfo| self.buffers.get(of.place() as usize);
        let mut before = self.info.buffers.iter().filter_map(|of| place(of)?.before());
        self.settled && self.rotated.elapsed() >= REST && before.any(waits)
    }

    /// Number of a buffer logged, CPU, and position of the page in use.
    fn ends(&self) -> Vec<(u32, u32, u64)> {
        let mut all = Vec::new();
        for of in &self.info.buffers {
            if let Some(buffer) = numbered(&self.buffers, of.number) {
                let ring = buffer.ring();
                all.extend(ring.cpus().map(|cpu| (of.number, cpu, ring.in_use(cpu))));
            }
        }
        all
    }

    /// Learns of events that came with a table that was loaded.
    fn learn(&mut self) -> Result<()> {
        let described = self.session.version();
        if described.is_none() || described == self.described {
            return Ok(());
        }
        let Ok(info) = self.session.reopen().and_then(|now| now.info()) else {
            return Ok(()); // it has just ended
        };
        let of = |number: u32| self.info.buffers.iter().any(|of| of.number == number);
        let ours = |place: u32| self.info.buffers.iter().any(|of| of.place() == place);
        if info.buffers.iter().any(|b| ours(b.place()) && !of(b.number)) {
            self.stale = Some(Instant::now());
        }
        let known = self.info.events.len();
        let new = || info.events.iter().skip(known).cloned();
        if let Some(segment) = &mut self.segment {
            let user = self.target.user.clone();
            as_user(user.as_ref(), || Ok(segment.writer.add_events(new())?))?;
        }
        self.info.events.extend(new());
        self.events = EventTable::new(self.info.events.iter().cloned());
        self.described = described;
        Ok(())
    }

    fn take(&mut self, ends: &[(u32, u32, u64)]) -> Result<usize> {
        let mut pages = 0;
        for &(number, cpu, end) in ends {
            let Some(buffer) = numbered(&self.buffers, number) else {
                continue;
            };
            if let Some(part) = buffer.ring().unread_tail(cpu, end, &self.events)? {
                self.give(number, cpu, &part)?;
                pages += 1;
            }
            while let more @ 1.. = self.take_run(number, cpu, end)? {
                pages += more;
                if self.size() >= self.target.rotation.size {
                    self.rotate(false)?;
                }
            }
        }
        Ok(pages)
    }

    fn size(&self) -> u64 {
        let written = self.segment.as_ref().map(|segment| segment.writer.written());
        written.map_or(0, |written| written.bytes)
    }

    /// Writes one run of pages.
    fn take_run(&mut self, number: u32, cpu: u32, end: u64) -> Result<usize> {
        let idle = |buffer: &Buffer| buffer.ring().freed(cpu) >= end;
        if numbered(&self.buffers, number).is_none_or(idle) {
            return Ok(0);
        }
        self.begin()?;
        let (Some(segment), Some(buffer)) = (&mut self.segment, numbered(&self.buffers, number)) else {
            return Ok(0);
        };
        let path = segment.place.beside();
        let writer = &mut segment.writer;
        let before = writer.packets(number, cpu);
        let from = buffer.ring().freed(cpu);
        let taken = buffer.ring().borrow_run(cpu, end, &mut |memory, range| {
            let mut write =
                |stream: &mut StreamOut, done| write_lent(memory, range.start + done..range.end, stream);
            let appended = writer.append_with(number, cpu, range.len(), &mut write);
            Ok(appended.map_err(|error| error.within(&path))?)
        });
        let pages = writer.packets(number, cpu) - before;
        self.written += pages * u64::from(PAGE);
        if taken.is_err() && pages > 0 {
            // As many as there was room for are on file.
            let end = from + pages * u64::from(PAGE) + u64::from(HEADER);
            buffer.ring().acknowledge(cpu, end);
        }
        taken
    }

    /// Writes a packet of its own, then acknowledges it in the ring.
    fn give(&mut self, number: u32, cpu: u32, part: &Part) -> Result<()> {
        if part.records > 0 {
            self.begin()?;
            if let Some(segment) = &mut self.segment {
                let path = segment.place.beside();
                let appended = segment.writer.append(number, cpu, part.bytes.as_slice());
                appended.map_err(|error| Error::from(error.within(&path)))?;
                self.written += u64::from(PAGE);
            }
        }
        if let Some(buffer) = numbered(&self.buffers, number) {
            buffer.ring().acknowledge(cpu, part.end);
        }
        Ok(())
    }

    /// Sees to it that there is a segment to write to.
    fn begin(&mut self) -> Result<()> {
        if self.segment.is_none() {
            let segment = Segment::begin(&self.target.folder, self.info.clone(), &self.counted)?;
            self.segment = Some(segment);
        }
        Ok(())
    }

    /// Ends the segment, with the records of pages in use if `all` are wanted; the next one is begun when there is something for it.
    fn rotate(&mut self, all: bool) -> Result<()> {
        let parts = if all { self.parts()? } else { Vec::new() };
        if parts.iter().any(|(.., part)| part.records > 0) {
            self.begin()?;
        }
        let Some(mut segment) = self.segment.take() else {
            self.rotated = Instant::now();
            return Ok(());
        };
        let entry = |(buffer, cpu, part): &(u32, u32, Part)| PartEntry {
            buffer: *buffer,
            cpu: *cpu,
            packets: segment.writer.packets(*buffer, *cpu),
            end: part.end,
        };
        let entries = parts.iter().map(entry).collect();
        let lost = segment::lost(&self.info, &self.buffers);
        let closed = segment.close(&lost, entries);
        self.segment = Some(segment);
        closed?;
        // From here on this segment is ended, come what may: nothing else may be written to it.
        self.rotated = Instant::now();
        self.counted = lost;
        let given = parts
            .iter()
            .try_for_each(|(buffer, cpu, part)| self.give(*buffer, *cpu, part));
        if let Some(segment) = self.segment.take() {
            let threads = self.threads.read().unwrap_or_default();
            let ending = segment.ending(threads, self.code.clone(), &self.target.host);
            self.endings.push(Ended::begin(ending, &self.target));
        }
        given
    }

    /// The records of pages in use.
    fn parts(&self) -> Result<Vec<(u32, u32, Part)>> {
        let now = procfs::monotonic();
        let mut all = Vec::new();
        for (number, cpu, _) in self.ends() {
            let buffer = numbered(&self.buffers, number);
            let part = buffer.map(|buffer| buffer.ring().unread_head(cpu, now, &self.events));
            all.extend(part.transpose()?.flatten().map(|part| (number, cpu, part)));
        }
        Ok(all)
    }

    /// Segments that were ended since the last call.
    pub(super) fn finished(&mut self) -> Vec<Result<Finished>> {
        if let Some(at) = self.failed.iter().position(|(at, _)| at.elapsed() >= RETRY) {
            let (_, ending) = self.failed.swap_remove(at);
            self.endings.push(Ended::begin(ending, &self.target));
        }
        let mut done = Vec::new();
        let crowd = |endings: &[Ended]| endings.len() > MAX_ENDING;
        while let Some(at) = self
            .endings
            .iter()
            .position(|ended| ended.thread.is_finished() || crowd(&self.endings))
        {
            let ended = self.endings.swap_remove(at);
            let again = ended.again;
            match ended.outcome() {
                Ok(finished) => done.push(Ok(finished)),
                Err((error, ending)) => {
                    self.failed
                        .extend(ending.map(|ending| (Instant::now(), ending.failed())));
                    if !again {
                        done.push(Err(error));
                    }
                }
            }
        }
        done
    }

    /// Ends the log, with all that there is. A session that has `ended` writes no more: what it left unfinished is taken as far as it goes.
    pub(super) fn close(&mut self, ended: bool) -> Vec<Result<Finished>> {
        let last = if ended {
            self.drain()
        } else {
            self.poll().map(drop)
        };
        let user = self.target.user.clone();
        let closed = last.and_then(|()| as_user(user.as_ref(), || self.rotate(true)));
        let mut done: Vec<_> = self.endings.drain(..).map(Ended::join).collect();
        done.extend(closed.err().map(Err));
        done
    }

    fn drain(&mut self) -> Result<()> {
        let calm = |part: &Buffer| part.ring().cpus().all(|cpu| part.ring().is_quiet(cpu));
        let quiet = |buffer: &Buffer| buffer.before().is_none_or(calm) && calm(buffer);
        std::thread::sleep(Duration::from_millis(2));
        // A CPU may stand still in the middle of a record; a kernel that cannot be asked leaves it to time.
        if !self.buffers.iter().all(quiet) && wait_for_running_programs().is_err() {
            let deadline = Instant::now() + SETTLING;
            while Instant::now() < deadline && !self.buffers.iter().all(quiet) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let user = self.target.user.clone();
        as_user(user.as_ref(), || {
            let ends = self.ends();
            self.take(&ends)?;
            self.rotate(true)?;
            // Remaining gaps are where a writer was stopped in the middle of a record.
            for (number, cpu, _) in ends {
                let mut pages = Vec::new();
                let Some(buffer) = numbered(&self.buffers, number) else {
                    continue;
                };
                let ring = buffer.ring();
                if ring.is_quiet(cpu) {
                    continue;
                }
                ring.drain_abandoned(cpu, procfs::monotonic(), &self.events, &mut pages)?;
                if !pages.is_empty() {
                    self.begin()?;
                }
                if let Some(segment) = &mut self.segment {
                    segment.writer.append(number, cpu, &pages)?;
                }
            }
            Ok(())
        })
    }
}

/// A segment that is being ended, on a thread of its own: buffers are read meanwhile.
#[derive(Debug)]
pub(super) struct Ended {
    thread: JoinHandle<std::result::Result<Finished, (Error, Box<Ending>)>>,
    /// Whether that has failed before.
    again: bool,
}

impl Ended {
    fn begin(mut ending: Ending, target: &LogTarget) -> Self {
        let (user, keep) = (target.user.clone(), target.rotation.keep);
        let again = ending.is_retry();
        let thread = std::thread::spawn(move || {
            let finished = as_user(user.as_ref(), || ending.finish(keep));
            finished.map_err(|error| (error, Box::new(ending)))
        });
        Self { thread, again }
    }

    fn outcome(self) -> std::result::Result<Finished, (Error, Option<Box<Ending>>)> {
        match self.thread.join() {
            Ok(done) => done.map_err(|(error, ending)| (error, Some(ending))),
            Err(_) => {
                let error = Error::Unsupported {
                    what: "ending a log file".to_owned(),
                    why: "the thread that did it failed".to_owned(),
                };
                Err((error, None))
            }
        }
    }

    /// Waits until the thread has ended, and gives what it found.
    pub(super) fn join(self) -> Result<Finished> {
        self.outcome().map_err(|(error, _)| error)
    }
}

/// Ends what other agents left.
pub(super) fn recover(
    target: &LogTarget,
    mut live: Option<(&str, &mut [Buffer])>,
    threads: &dyn Fn() -> Processes,
) -> Result<Vec<Ended>> {
    let mut endings = Vec::new();
    for place in segment::unfinished(&target.folder)? {
        let live = live.as_mut().map(|(uuid, buffers)| (*uuid, &mut **buffers));
        let ending = Ending::recover(place, live, threads(), &target.host)?;
        endings.extend(ending.map(|ending| Ended::begin(ending, target)));
    }
    Ok(endings)
}
