//! Status of a persistent session: tables, buffers, counts of events, and over an interval rates and costs; read only.

use crate::session::hotplug::Unattended;
use crate::session::missed::{self, Misses};
use crate::session::modules::status::ModuleStatus;
use crate::session::pinned::PinnedSession;
use crate::session::pins;
use crate::session::state::{HookState, TableState};
use crate::session::uncounted::Uncounted;
use kestrel_catalog::{Error, Result};
use kestrel_hook::buffer::Buffer;
use kestrel_hook::buffer::status::Status as BufferStatus;
use kestrel_hook::hook::second_chance;
use kestrel_kernel::bpf::{LinkInfo, Pinned, Program, enable_stats};
use kestrel_kernel::procfs::{self, ClockPair};
use kestrel_trace::aggregate::read::Snapshot;
use kestrel_trace::event::EventClass;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A table of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableStatus {
    /// The table's name.
    pub name: String,
    /// Whether it is the active one.
    pub active: bool,
    /// Since when, ns since 1970; `None` if it is not active, or a handler made it so.
    #[serde(rename = "active_since")]
    pub since: Option<u64>,
    /// Events that it has a handler for.
    pub events: usize,
    /// Different handlers.
    pub handlers: usize,
    /// The file that it comes from.
    pub file: Option<String>,
    /// When it was loaded: ns since 1970.
    pub loaded: u64,
}

/// Counts of one event over all buffers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EventStatus {
    /// Name of the event.
    pub event: String,
    /// Records written (counted in buffers that overwrite).
    pub recorded: u64,
    /// Records lost: a ring was full, or frozen.
    pub lost: u64,
    /// Records taken and lost per second, over the interval.
    pub rate: Option<f64>,
}

/// Cost of one program.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProgramStatus {
    /// The event, or the first of its set.
    pub event: String,
    /// Events that it serves.
    pub events: usize,
    /// The strategy, in words.
    pub way: String,
    /// Events that it did not see because it (or one sharing its guard) was running already on that CPU.
    pub missed: u64,
    /// Runs per second, over the interval: masked events count, too; 0 without one.
    pub rate: Option<f64>,
    /// ns per run, over the interval, handlers in slots included; `None` if it did not run.
    pub cost: Option<f64>,
}

/// Runs and time of a hook, all its programs together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookCost {
    /// The event, or the first of its set.
    pub event: String,
    /// Events that it serves.
    pub events: usize,
    /// The strategy, in words.
    pub way: String,
    /// Events that it did not see because it (or one sharing its guard) was running already on that CPU.
    pub missed: u64,
    /// Runs while the kernel timed programs.
    pub runs: u64,
    /// ns of these.
    pub time: u64,
}

/// A map of its handlers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MapStatus {
    /// Name of the map as handlers write it: `@x`, or `count()`.
    #[serde(rename = "map")]
    pub title: String,
    /// Keys that it holds; one without keys has one as soon as it holds anything, and that of a `sum` from the beginning.
    pub keys: usize,
    /// The most keys that the map has room for.
    pub most: u32,
    /// Updates that were not made because there was no room.
    pub lost: u64,
}

/// A duration in seconds.
fn seconds<S: Serializer>(duration: &Duration, to: S) -> std::result::Result<S::Ok, S::Error> {
    to.serialize_f64(duration.as_secs_f64())
}

/// Status of a session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// The session's name.
    #[serde(rename = "session")]
    pub name: String,
    /// The identity of its trace.
    pub uuid: String,
    /// The command that made it.
    pub command: String,
    /// When it was made: ns since 1970.
    pub started: u64,
    /// The session's tables.
    pub tables: Vec<TableStatus>,
    /// The session's buffers.
    pub buffers: Vec<BufferStatus>,
    /// Events that were recorded or lost, by name.
    pub events: Vec<EventStatus>,
    /// The maps of its handlers.
    pub maps: Vec<MapStatus>,
    /// The session's programs.
    pub programs: Vec<ProgramStatus>,
    /// Events that do not come from some CPUs, because those came after they were attached, with the CPUs.
    pub unattended: Vec<Unattended>,
    /// Why not all missed hits are counted, where it is not.
    pub uncounted: Option<Uncounted>,
    /// Events with a hook beside the first that the handlers of the first do not know, because a load was cut short: one that the kernel skips there may be handled
    /// by two tables when they are switched.
    pub half_loaded: Vec<String>,
    /// Modules that its hooks wait for, or that are of another build than before.
    pub modules: Vec<ModuleStatus>,
    /// Time over which rates and costs were measured.
    #[serde(serialize_with = "seconds")]
    pub interval: Duration,
}

impl PinnedSession {
    /// The tables, in the order in which they came.
    pub fn tables(&self) -> Vec<TableStatus> {
        let active = self.control.active();
        let since = self.control.switched();
        let status = |table: &TableState| TableStatus {
            name: table.name.clone(),
            active: match self.state.probes.table == Some(table.number) {
                true => self.control.probes_on(),
                false => table.word() == active,
            },
            since: since.filter(|_| table.word() == active),
            events: self.state.events_in(table.number),
            handlers: self.state.handlers_in(table.number),
            file: table.file.clone(),
            loaded: table.loaded,
        };
        self.state.tables.iter().map(status).collect()
    }

    /// Status of the session. Rates and costs are taken over `interval`, during which the kernel times every BPF program of the machine, which
    /// costs each run some 20 ns; without an interval there are none, and all that is counted anyway is there.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn status(&self, interval: Option<Duration>) -> Result<Status> {
        let info = self.info()?;
        let buffers = self.buffers()?;
        let hooks = self.programs();
        let misses = Misses::new(&self.host);
        let begun = Instant::now();
        let before = counts(&buffers, &info.events);
        let runs = || {
            hooks
                .iter()
                .map(|hook| Runs::of(&hook.program))
                .collect::<Vec<_>>()
        };
        let measured = match interval {
            None => None,
            Some(interval) => {
                let _stats = enable_stats()?;
                let first = runs();
                std::thread::sleep(interval);
                // Read at once after the interval: asking for the misses below takes time in which programs run on.
                Some((first, runs(), begun.elapsed()))
            }
        };
        let mut programs: Vec<ProgramStatus> = hooks
            .iter()
            .map(|hook| hook.status(self.missed_by(hook, &misses)))
            .collect();
        if let Some((first, last, elapsed)) = measured {
            for ((program, first), last) in programs.iter_mut().zip(first).zip(last) {
                program.measure(first, last, elapsed);
            }
        }
        let now = counts(&buffers, &info.events);
        let elapsed = begun.elapsed();
        let held = |(number, buffer): (u32, &Buffer)| {
            buffer.status(self.control.since(number), self.control.is_frozen(number))
        };
        Ok(Status {
            name: self.state.name.clone(),
            uuid: self.state.uuid.clone(),
            command: info.command,
            started: self.started(),
            tables: self.tables(),
            buffers: (0..)
                .zip(&buffers)
                .filter(|(_, b)| !b.is_removed())
                .map(held)
                .collect(),
            events: events(&before, &now, interval.map(|_| elapsed)),
            maps: self.map_snapshots()?.iter().map(map_status).collect(),
            programs,
            unattended: self.unattended_cpus()?,
            uncounted: self.uncounted_of(&hooks, &misses),
            half_loaded: self.half_loaded(),
            modules: self.modules(&self.host),
            interval: interval.map_or(Duration::ZERO, |_| elapsed),
        })
    }

    fn half_loaded(&self) -> Vec<String> {
        let unknown = self.state.unknown_relays();
        let hooks = self
            .state
            .hooks
            .iter()
            .filter(|hook| unknown.contains(&hook.number));
        hooks
            .flat_map(|hook| hook.events.iter().map(|event| event.name.clone()))
            .collect()
    }

    /// When it was made, by the wall clock of now: that one may have been set since.
    fn started(&self) -> u64 {
        let now = ClockPair::now();
        now.realtime
            .saturating_sub(now.monotonic.saturating_sub(self.control.start()))
    }

    /// The programs of its hooks, as far as they can be found: a command that stops it meanwhile takes them away.
    fn programs(&self) -> Vec<Hooked<'_>> {
        let hooks = self.state.hooks.iter();
        hooks.filter_map(|hook| self.program(hook)).collect()
    }

    fn program<'s>(&self, hook: &'s HookState) -> Option<Hooked<'s>> {
        let Pinned::Link(link) = self.directory.open(&pins::link(hook.number, 0)).ok()? else {
            return None;
        };
        let program = Program::from_id(link.info().ok()?.program).ok()?;
        Some(Hooked { hook, program })
    }

    /// The kernel's numbers of its hooks' programs, as far as they can be found.
    pub fn program_numbers(&self) -> Vec<u32> {
        let number = |hooked: &Hooked<'_>| Some(hooked.program.info().ok()?.id);
        self.programs().iter().filter_map(number).collect()
    }

    /// Costs of its hooks as the kernel counted them, as far as they can be found.
    pub(crate) fn hook_costs(&self) -> Vec<HookCost> {
        let misses = Misses::new(&self.host);
        let of = |hooked: &Hooked<'_>| {
            let runs = Runs::of(&hooked.program);
            HookCost {
                event: hooked.event(),
                events: hooked.hook.events.len(),
                way: hooked.hook.way.clone(),
                missed: self.missed_by(hooked, &misses),
                runs: runs.count,
                time: runs.time,
            }
        };
        self.programs().iter().map(of).collect()
    }

    /// Events that programs did not see, all together: because one was running already on that CPU, or too many calls were on their way.
    ///
    /// # Errors
    /// The kernel's, and [`Error::Unsupported`] where it does not tell.
    pub fn missed(&self) -> Result<u64> {
        let misses = Misses::new(&self.host);
        let of = |hooked: &Hooked<'_>| {
            self.count_missed(hooked, &misses)
                .map_err(|why| Error::Unsupported {
                    what: "how many hits were missed".to_owned(),
                    why,
                })
        };
        self.programs().iter().map(of).sum()
    }

    /// Events that a hook's program did not see because it (or one sharing its guard) was running already on that CPU; 0 where the kernel does
    /// not say.
    pub(in crate::session) fn misses_of(&self, hook: &HookState, misses: &Misses) -> u64 {
        self.program(hook)
            .map_or(0, |hooked| self.missed_by(&hooked, misses))
    }

    /// Hits that a program missed; 0 where the kernel does not say.
    fn missed_by(&self, hooked: &Hooked<'_>, misses: &Misses) -> u64 {
        self.count_missed(hooked, misses).unwrap_or(0)
    }

    fn count_missed(&self, hooked: &Hooked<'_>, misses: &Misses) -> std::result::Result<u64, String> {
        let program = hooked.program.info().map_err(|error| error.to_string())?;
        let hook = hooked.hook;
        let own = hook.own_events.iter().map(String::as_str);
        let taken = || second_chance::taken(&self.directory.map(&pins::seen(hook.number))?);
        let taken = (hook.copies > 0).then(taken).transpose();
        misses.of(
            hook.attached.as_ref(),
            &program,
            self.links(hook),
            own,
            taken.map_err(|error| error.to_string())?,
        )
    }

    /// Whether the kernel counts every missed hit of a hook's events.
    pub(in crate::session) fn counts_misses(&self, hook: &HookState, misses: &Misses) -> bool {
        let program = self.program(hook);
        program.is_some_and(|hooked| self.uncounted(&hooked, misses).is_none())
    }

    /// Why not all missed hits of these hooks are counted, where they are not.
    fn uncounted_of(&self, hooks: &[Hooked<'_>], misses: &Misses) -> Option<Uncounted> {
        // Only buffers that overwrite count their records.
        let mut buffers = self.state.buffers.iter();
        let is_streaming = buffers.any(|buffer| !buffer.overwrite);
        let keeps_maps = !self.state.maps.is_empty();
        let mut each = hooks.iter();
        let why = each
            .find_map(|hook| self.uncounted(hook, misses))
            .or_else(|| self.nested(hooks))?;
        Some(Uncounted {
            why: why.into(),
            unseen: is_streaming || keeps_maps,
            joined: hooks.iter().any(|hooked| hooked.hook.events.len() > 1),
        })
    }

    /// Why not every missed hit of a hook's events is counted.
    fn uncounted(&self, hooked: &Hooked<'_>, misses: &Misses) -> Option<String> {
        let hides = || {
            let hook = hooked.hook;
            let hides = hook.own_events.is_empty() && missed::hides(hook.attached.as_ref(), self.links(hook));
            hides.then(|| missed::UNCOUNTED.to_owned())
        };
        self.count_missed(hooked, misses).err().or_else(hides)
    }

    /// Why hits of formatted tracepoints may be missing that the kernel does not count.
    fn nested(&self, hooks: &[Hooked<'_>]) -> Option<String> {
        let hooks = hooks
            .iter()
            .filter_map(|hooked| Some((hooked.program.info().ok()?, self.links(hooked.hook))));
        missed::nest(hooks).then(|| missed::NESTED.to_owned())
    }

    fn links(&self, hook: &HookState) -> impl Iterator<Item = LinkInfo> {
        let number = hook.number;
        (0..hook.links).filter_map(move |link| match self.directory.open(&pins::link(number, link)) {
            Ok(Pinned::Link(link)) => link.info().ok(),
            _ => None,
        })
    }
}

fn map_status(snapshot: &Snapshot) -> MapStatus {
    MapStatus {
        title: snapshot.ty.title(),
        keys: snapshot.rows.len(),
        most: snapshot.ty.entries,
        lost: snapshot.lost,
    }
}

/// A hook and its program.
struct Hooked<'a> {
    hook: &'a HookState,
    program: Program,
}

impl Hooked<'_> {
    fn event(&self) -> String {
        let first = self.hook.events.first();
        first.map_or_else(String::new, |e| e.name.clone())
    }

    /// Status without rates and costs.
    fn status(&self, missed: u64) -> ProgramStatus {
        ProgramStatus {
            event: self.event(),
            events: self.hook.events.len(),
            way: self.hook.way.clone(),
            missed,
            ..ProgramStatus::default()
        }
    }
}

impl ProgramStatus {
    fn measure(&mut self, before: Runs, after: Runs, elapsed: Duration) {
        let runs = after.count.saturating_sub(before.count);
        let time = after.time.saturating_sub(before.time);
        self.rate = Some(runs as f64 / elapsed.as_secs_f64());
        self.cost = (runs > 0).then(|| time as f64 / runs as f64);
    }
}

/// Run counts of a program, from the kernel.
#[derive(Clone, Copy, Debug, Default)]
struct Runs {
    count: u64,
    time: u64,
}

impl Runs {
    fn of(program: &Program) -> Self {
        program.info().map_or_else(
            |_| Self::default(),
            |info| Self {
                count: info.runs,
                time: info.run_time,
            },
        )
    }
}

/// Recorded and lost, by event.
type Counts = BTreeMap<String, (u64, u64)>;

fn counts(buffers: &[Buffer], classes: &[EventClass]) -> Counts {
    let mut all = Counts::new();
    for class in classes {
        let sum = all.entry(class.name.clone()).or_default();
        for buffer in buffers {
            let ring = buffer.ring();
            if u32::from(class.id.0) >= ring.geometry().events {
                continue;
            }
            for cpu in ring.cpus() {
                let counts = buffer.counts(cpu, class.id.0);
                sum.0 += counts.recorded;
                sum.1 += counts.lost;
            }
        }
    }
    all
}

fn events(before: &Counts, now: &Counts, elapsed: Option<Duration>) -> Vec<EventStatus> {
    let of = |(event, counts): (&String, &(u64, u64))| {
        let (recorded, lost) = *counts;
        let earlier = before.get(event).map_or(0, |(recorded, lost)| recorded + lost);
        let came = (recorded + lost).saturating_sub(earlier);
        EventStatus {
            event: event.clone(),
            recorded,
            lost,
            rate: elapsed.map(|elapsed| came as f64 / elapsed.as_secs_f64()),
        }
    };
    let came = now.iter().filter(|(_, (recorded, lost))| recorded + lost > 0);
    came.map(of).collect()
}

/// Age of a time of the records' clock (ns of CLOCK_MONOTONIC).
pub fn age(time: u64) -> Duration {
    Duration::from_nanos(procfs::monotonic().saturating_sub(time))
}
