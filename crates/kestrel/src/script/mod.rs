//! Programs of the language while they run (`kestrel run`): begin and end, and what they print, in the order of time; no command line.

mod at_once;
mod failed;
mod maps;
mod packets;
mod perform;
mod ticks;
mod walk;

pub use crate::system_names::SystemNames;
pub use failed::FailureMessages;
pub use maps::ProgramMaps;
pub use packets::PacketFiles;
pub use perform::{Outcome, Perform};

use crate::session::Session;
use crate::tail::Live;
use failed::FirstFailures;
use kestrel_catalog::Result;
use kestrel_kernel::bpf::enable_stats;
use kestrel_kernel::procfs;
use kestrel_trace::record::Record;
use std::cell::RefCell;
use std::time::{Duration, Instant};
use ticks::Ticks;
use walk::Walk;

/// For how long a benchmark runs, and how often between two readings of what it prints.
const BENCH_TIME: Duration = Duration::from_millis(500);
const BENCH_STEP: u32 = 64;

/// A program whose handlers are attached.
#[derive(Debug)]
pub struct Running {
    live: Live,
    /// The code that `exit` gave.
    exit: Option<i64>,
    /// The iterators while they walk.
    walk: Option<Walk>,
    /// The intervals that the kernel need not know of, from `begin` on.
    ticks: Option<Ticks>,
}

impl Running {
    /// A session whose handlers are attached and masked.
    pub fn new(session: Session) -> Self {
        Self {
            live: Live::ordered(session),
            exit: None,
            walk: None,
            ticks: None,
        }
    }

    /// The session that runs the script.
    pub fn session(&self) -> &Session {
        self.live.session()
    }

    /// The session, to be detached.
    pub fn session_mut(&mut self) -> &mut Session {
        self.live.session_mut()
    }

    /// The records beside what is printed: losses.
    pub fn live_mut(&mut self) -> &mut Live {
        &mut self.live
    }

    /// The code of `exit`, once that was called.
    pub fn exit(&self) -> Option<i64> {
        self.exit
    }

    /// Lets the iterators walk, one after the other, each once, while records are performed.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn walk(&mut self) -> Result<()> {
        self.walk = Walk::begin(self.session().iterator_files()?);
        Ok(())
    }

    /// Whether an iterator still walks. A program whose iterators call `exit` ends when the walk does, as bpftrace's.
    ///
    /// # Errors
    /// When the kernel broke the walk off.
    pub fn is_walking(&mut self) -> Result<bool> {
        match self.walk.take_if(|walk| walk.has_ended()) {
            Some(ended) => ended.outcome().map(|()| false),
            None => Ok(self.walk.is_some()),
        }
    }

    /// Runs the handlers of `begin`, and lets events in unless they ended the program.
    ///
    /// # Errors
    /// The kernel's, and what `perform` answers.
    pub fn begin(&mut self, perform: &mut Perform) -> Result<()> {
        self.fire_once("begin", perform)?;
        if self.exit.is_none() {
            // An interval counts from `begin` on, not from when it was attached.
            self.session().begin_periods()?;
            self.ticks = Ticks::begin(self.session());
            self.live.start();
        }
        Ok(())
    }

    /// Performs what has come since the last call; gives how much that was.
    ///
    /// # Errors
    /// As [`Running::begin`].
    pub fn poll(&mut self, perform: &mut Perform) -> Result<usize> {
        let (ticks, exit) = (&self.ticks, &mut self.exit);
        perform.begin_reading();
        let (performer, mut failed) = (RefCell::new(&mut *perform), FirstFailures::default());
        let came = self.live.poll_beside(
            &mut || ticks.as_ref().map(Ticks::take).unwrap_or_default(),
            &mut |record| performer.borrow_mut().arrived(record),
            &mut |session, record| {
                let perform = &mut performer.borrow_mut();
                failed.before(record, session, perform)?;
                performed(perform, session, record, exit)
            },
        )?;
        self.live.session_mut().unwatch(&mut perform.unwatched);
        Ok(came)
    }

    /// Number of interval ticks that were skipped since the last call, because what was printed before them was not written out yet. What was counted went into
    /// the next ones.
    pub fn take_skipped(&self) -> u64 {
        self.ticks.as_ref().map_or(0, Ticks::take_skipped)
    }

    /// Time until the next work that no bell announces; `None` where there is none.
    pub fn until_due(&self) -> Option<Duration> {
        self.ticks.as_ref().map(Ticks::until_next)
    }

    /// Whether the program reads files or runs commands, which may be about processes that end soon.
    pub fn acts_at_once(&self) -> bool {
        self.live.session().classes().iter().any(at_once::is_of)
    }

    /// Whether something has come that is not performed yet, since another CPU may have something earlier.
    pub fn has_waiting(&self) -> bool {
        self.live.has_waiting()
    }

    /// Masks all events, performs what is left, and runs the handlers of `end`.
    ///
    /// # Errors
    /// As [`Running::begin`].
    pub fn end(&mut self, perform: &mut Perform) -> Result<()> {
        if let Some(ticks) = &mut self.ticks {
            ticks.end();
            for (time_ns, bytes) in ticks.take() {
                self.live.put(time_ns, bytes);
            }
        }
        self.drain(perform)?;
        perform.at_end = true;
        // A handler of `end` has the last word.
        let code = self.exit.take();
        self.fire_once("end", perform)?;
        self.exit = self.exit.or(code);
        Ok(())
    }

    /// Runs the handlers of an own event while no others run, and performs what they ask.
    fn fire_once(&mut self, name: &str, perform: &mut Perform) -> Result<()> {
        let mut fired = false;
        for hook in self.session().own_hooks(name) {
            // A program that a handler of `begin` ends has no more of them.
            if name == "begin" {
                if std::mem::take(&mut fired) {
                    self.drain(perform)?;
                }
                if self.exit.is_some() {
                    break;
                }
            }
            let session = self.live.session();
            if !session.known_records(hook)?.is_empty() && std::mem::take(&mut fired) {
                self.drain(perform)?;
            }
            self.perform_known(hook, perform)?;
            fired |= self.live.fire_one(hook)?;
        }
        match fired {
            true => self.drain(perform),
            false => Ok(()),
        }
    }

    /// Performs the records that a hook stands for, as if they had been written now.
    fn perform_known(&mut self, hook: usize, perform: &mut Perform) -> Result<()> {
        let session = self.live.session();
        for (event, bytes) in session.known_records(hook)? {
            let record = Record {
                time_ns: procfs::monotonic(),
                cpu: 0,
                pid: std::process::id(),
                tid: std::process::id(),
                event,
                bytes: &bytes,
                unwound: None,
                rest: &[],
            };
            performed(perform, session, &record, &mut self.exit)?;
        }
        Ok(())
    }

    /// Runs the handlers of an own event, as `self:signal:SIGUSR1` for a signal that came; says whether there are any.
    ///
    /// # Errors
    /// As [`Running::begin`].
    pub fn fire(&mut self, name: &str) -> Result<bool> {
        self.session().fire(name)
    }

    /// Runs the handlers of a test once, and performs all that they ask; gives what they returned, or the code of their `exit`, and for how many nanoseconds
    /// they ran.
    ///
    /// # Errors
    /// As [`Running::begin`].
    pub fn test(&mut self, name: &str, perform: &mut Perform) -> Result<(i64, u64)> {
        let _timed = enable_stats()?;
        self.exit = None;
        let before = self.session().own_runs(name)?;
        self.session().fire(name)?;
        let after = self.session().own_runs(name)?;
        self.drain(perform)?;
        self.live.start();
        Ok((self.exit.take().unwrap_or(0), after.1 - before.1))
    }

    /// Runs the handlers of an own event again and again, for some time; gives how often that was and how many nanoseconds one took. All that they print is
    /// performed before it ends, and their `exit` ends nothing.
    ///
    /// # Errors
    /// As [`Running::begin`].
    pub fn bench(&mut self, name: &str, perform: &mut Perform) -> Result<(u64, u64)> {
        let _timed = enable_stats()?;
        let before = self.session().own_runs(name)?;
        let begun = Instant::now();
        // `exit` masks the handlers: behind it one that does nothing would be measured.
        let mut step = 1;
        while begun.elapsed() < BENCH_TIME {
            for _ in 0..step {
                self.session().fire(name)?;
            }
            match step {
                1 => self.drain(perform)?,
                _ => _ = self.poll(perform)?,
            }
            step = match self.exit.take() {
                Some(_) => 1,
                None => BENCH_STEP,
            };
            self.live.start();
        }
        let after = self.session().own_runs(name)?;
        self.drain(perform)?;
        self.exit = None;
        self.live.start();
        let runs = after.0 - before.0;
        Ok((runs, (after.1 - before.1) / runs.max(1)))
    }

    fn drain(&mut self, perform: &mut Perform) -> Result<()> {
        let (exit, mut failed) = (&mut self.exit, FirstFailures::default());
        self.live.stop_with(&mut |session, record| {
            failed.before(record, session, perform)?;
            performed(perform, session, record, exit)
        })?;
        self.live.session_mut().unwatch(&mut perform.unwatched);
        Ok(())
    }
}

/// Performs one record; the first `exit` gives the code. It has masked all events: behind it come only records of handlers that ran already.
fn performed(
    perform: &mut Perform,
    mut session: &Session,
    record: &Record<'_>,
    exit: &mut Option<i64>,
) -> Result<()> {
    if let Outcome::Exit(code) = perform.record(&mut session, record)? {
        exit.get_or_insert(code);
    }
    Ok(())
}
