//! Registered probes: they are attached as long as their [`Registration`] lives.

use super::definition::Closure;
use super::dispatch::Dispatch;
use super::sources::Sources;
use super::{Probe, ProbeKind};
use crate::callbacks::{Callback, Callbacks};
use crate::plan::{self, Source};
use crate::session::{Missed, Session};
use crate::tail::Live;
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::Host;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Pause of the reader when there are no hits.
const NAP: Duration = Duration::from_millis(5);

/// Probes that are attached, and the buffer that their hits come through.
///
/// Dropping it takes the probes off the kernel; hits that were not read are gone then, where [`unregister`](Self::unregister) still delivers them. The
/// kernel takes some 0.1 s for each probe that is attached by itself. It ends with the process, too, however that ends.
///
/// The registration may be sent to another thread, which then runs the closures:
///
/// ```no_run
/// use kestrel::probe::Kprobe;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// let go_on = Arc::new(AtomicBool::new(true));
/// let mut probe = Kprobe::at("vfs_write").on_hit(|hit| println!("{hit}")).register()?;
/// let reader = std::thread::spawn({
///     let go_on = go_on.clone();
///     move || {
///         probe.run_while(|| go_on.load(Ordering::Relaxed))?;
///         probe.unregister()
///     }
/// });
/// go_on.store(false, Ordering::Relaxed);
/// let ended = reader.join().unwrap()?;
/// println!("{} hits", ended.hits);
/// # Ok::<(), kestrel::Error>(())
/// ```
#[derive(Debug)]
pub struct Registration {
    live: Live,
    sources: Sources,
    dispatch: Dispatch,
    probes: Vec<KnownProbe>,
    enabled: bool,
    attached: bool,
    lost: u64,
}

/// A registered probe without its closure.
#[derive(Debug)]
struct KnownProbe {
    name: String,
    kind: ProbeKind,
}

/// A registered probe, as the kernel's list of probes has one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The event: `kprobe:vfs_read+0x12`.
    pub name: String,
    /// The kind; [`ProbeKind::letter`] is the list's letter for it.
    pub kind: ProbeKind,
    /// Whether its handlers run: neither it nor all of them are disabled.
    pub enabled: bool,
    /// Hits that were read from the buffer so far, all moments together.
    pub hits: u64,
}

/// Final counts that [`Registration::unregister`] returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FinalCounts {
    /// Hits that were read, all probes together.
    pub hits: u64,
    /// Hits that handlers wanted to record when the buffer was full.
    pub lost: u64,
    /// Hits that the kernel did not bring to the handlers.
    pub missed: Vec<Missed>,
}

/// Options of registration.
///
/// ```no_run
/// use kestrel::probe::{Kprobe, Options};
/// // For bursts of hits between two calls of poll().
/// let options = Options::with_buffer(16 << 20);
/// let probes = options.register_all([Kprobe::at("vfs_read"), Kprobe::at("vfs_write")])?;
/// # Ok::<(), kestrel::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Bytes of buffer per CPU, 8 KiB to 256 MiB; rounded up to a power of two of pages. The default is 1 MiB.
    pub buffer_bytes: u64,
    /// Where the kernel's files are.
    pub host: Host,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            buffer_bytes: 1 << 20,
            host: Host::default(),
        }
    }
}

impl Options {
    /// With so many bytes of buffer per CPU.
    pub fn with_buffer(bytes: u64) -> Self {
        Self {
            buffer_bytes: bytes,
            ..Self::default()
        }
    }

    /// Registers probes, all or none; see [`register_all`](super::register_all).
    ///
    /// # Errors
    /// As [`register_all`](super::register_all).
    pub fn register_all<P: Into<Probe>>(&self, probes: impl IntoIterator<Item = P>) -> Result<Registration> {
        let probes: Vec<Probe> = probes.into_iter().map(Into::into).collect();
        Registration::new(probes, self)
    }
}

impl Registration {
    fn new(mut probes: Vec<Probe>, options: &Options) -> Result<Self> {
        let catalog = Catalog::new(options.host.clone());
        let mut sources = Sources::of(&probes)
            .map_err(|(number, why)| refused(Some(probes[number].name()), probes.len(), why))?;
        let how = plan::Options {
            buffer_bytes: Some(options.buffer_bytes),
            parameters: sources.parameters(),
            ..plan::Options::default()
        };
        let all: Vec<String> = sources.all.iter().map(|one| one.source.clone()).collect();
        let plan = match plan::plan(Source::Events(&all), &how, &catalog) {
            Ok(plan) => plan,
            Err(error) => {
                // The error names no probe: the first that fails alone is the wrong one.
                let alone = |one: &&super::sources::HandlerSource| {
                    let spec = std::slice::from_ref(&one.source);
                    plan::plan(Source::Events(spec), &how, &catalog).is_err()
                };
                let wrong = sources.all.iter().find(alone);
                let names = wrong.map(|one| one.owners.name(&probes));
                return Err(refused(names, probes.len(), error));
            }
        };
        sources.meet(&plan.hooks, &catalog);
        let session = Session::start(&plan, &catalog, "kestrel::probe").map_err(|error| {
            let only = (probes.len() == 1).then(|| probes[0].name());
            refused(only, probes.len(), error)
        })?;
        let closures = probes
            .iter_mut()
            .map(|probe| std::mem::take(&mut probe.closures))
            .collect();
        let dispatch = Dispatch::new(&plan, &sources.all, &session, closures, catalog.host());
        let known = |probe: Probe| KnownProbe {
            name: probe.name(),
            kind: probe.kind,
        };
        let live = Live::new(session);
        live.start();
        Ok(Self {
            live,
            sources,
            dispatch,
            probes: probes.into_iter().map(known).collect(),
            enabled: true,
            attached: true,
            lost: 0,
        })
    }

    /// Gives every hit that has come since the last call to the closures, oldest first over all CPUs and probes. Does not wait. Gives the number of hits.
    ///
    /// When a closure panics, everything is taken off the kernel before the panic goes on.
    ///
    /// # Errors
    /// When the buffer cannot be read.
    pub fn poll(&mut self) -> Result<usize> {
        self.read(false)
    }

    /// Gives hits to the closures for so long.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn run_for(&mut self, time: Duration) -> Result<usize> {
        let begun = Instant::now();
        self.run_while(|| begun.elapsed() < time)
    }

    /// Gives hits to the closures as long as a condition holds, and those that had come when it ceased to. Gives the number of hits.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn run_while(&mut self, mut condition: impl FnMut() -> bool) -> Result<usize> {
        let mut hits = 0;
        loop {
            let last = !condition();
            let came = self.poll()?;
            hits += came;
            if last {
                return Ok(hits);
            }
            if came == 0 {
                std::thread::sleep(NAP);
            }
        }
    }

    fn read(&mut self, last: bool) -> Result<usize> {
        if !self.attached {
            return Ok(0);
        }
        let Self { live, dispatch, .. } = self;
        let mut hits = 0;
        let mut give = |record: &kestrel_trace::record::Record<'_>| {
            hits += usize::from(dispatch.give(record));
            Ok(())
        };
        let read = catch_unwind(AssertUnwindSafe(|| match last {
            true => live.stop(&mut give),
            false => live.poll(&mut give),
        }));
        match read {
            Ok(read) => {
                read?;
                let (full, frozen) = self.live.take_lost();
                self.lost += full + frozen;
                Ok(hits)
            }
            Err(panic) => {
                self.detach();
                resume_unwind(panic)
            }
        }
    }

    fn detach(&mut self) {
        self.live.session().deactivate();
        self.live.session_mut().detach();
        self.attached = false;
    }

    /// Lets the handlers of all probes run that are not disabled themselves, from the next hit on: one store.
    pub fn enable(&mut self) {
        if self.attached {
            self.enabled = true;
            self.live.start();
        }
    }

    /// Keeps the handlers of all probes from running, from the next hit on; the probes stay where they are.
    pub fn disable(&mut self) {
        self.enabled = false;
        self.live.session().deactivate();
    }

    /// Lets the handlers of one probe run: `enable_kprobe`. It runs when all are enabled, too.
    ///
    /// # Errors
    /// When there is no such probe, or it is one of many that were attached together.
    pub fn enable_one(&mut self, probe: usize) -> Result<()> {
        self.turn(probe, true)
    }

    /// Keeps the handlers of one probe from running: `disable_kprobe`. It stays disabled when all are enabled.
    ///
    /// # Errors
    /// When there is no such probe, or it is one of many that were attached together.
    pub fn disable_one(&mut self, probe: usize) -> Result<()> {
        self.turn(probe, false)
    }

    fn turn(&mut self, probe: usize, on: bool) -> Result<()> {
        let what = if on { "enabling" } else { "disabling" };
        let Some(known) = self.probes.get(probe) else {
            return Err(self.no_probe(what, probe));
        };
        let Some(switch) = self.sources.switches[probe] else {
            return Err(Error::Unsupported {
                what: format!("{what} {} alone", known.name),
                why: "it shares its handler with many others, and they were attached in one operation: enable or disable them together, or register it by itself".to_owned(),
            });
        };
        let (word, value) = self.sources.turn(switch, on);
        self.live.session().set_parameter(word, value);
        Ok(())
    }

    /// Registers one more closure of a probe, until what this gives is dropped. Closures of higher priorities are given a hit first, those of the same priority in the order in which
    /// they were registered; those of [`on_hit`](super::Tracepoint::on_hit) have priority 0.
    ///
    /// # Errors
    /// When there is no such probe.
    pub fn listen(
        &self,
        probe: usize,
        priority: i32,
        closure: impl FnMut(&super::Hit) + Send + 'static,
    ) -> Result<Callback> {
        let registered = self.dispatch.register(probe, priority, Box::new(closure));
        registered.ok_or_else(|| self.no_probe("listening to", probe))
    }

    /// Registry of a probe's closures, for other threads and for the inside of closures, which run while this is borrowed.
    ///
    /// # Errors
    /// When there is no such probe.
    pub fn listeners(&self, probe: usize) -> Result<Listeners> {
        let callbacks = self.dispatch.callbacks(probe);
        callbacks
            .map(Listeners)
            .ok_or_else(|| self.no_probe("listening to", probe))
    }

    fn no_probe(&self, what: &str, probe: usize) -> Error {
        Error::Unsupported {
            what: format!("{what} probe {probe}"),
            why: format!("{} are registered here, counted from 0", self.probes.len()),
        }
    }

    /// The probes, in the order in which they were given.
    pub fn probes(&self) -> Vec<Status> {
        let of = |(number, known): (usize, &KnownProbe)| Status {
            name: known.name.clone(),
            kind: known.kind,
            enabled: self.enabled
                && self.sources.switches[number].is_none_or(|switch| self.sources.is_on(switch)),
            hits: self.dispatch.hits(number),
        };
        self.probes.iter().enumerate().map(of).collect()
    }

    /// Hits that the kernel did not bring to the handlers, by event: because a program was running on that CPU (`nmissed` of `struct kprobe`), or
    /// more calls were on their way than are followed (`nmissed` of `struct kretprobe`, which is reported even if it is 0).
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn missed(&self) -> Result<Vec<Missed>> {
        self.live.session().missed()
    }

    /// Hits that handlers wanted to record when the buffer was full, up to the last [`poll`](Self::poll).
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The session under it: its maps, buffers, and the events that are seen in another way than planned.
    pub fn session(&self) -> &Session {
        self.live.session()
    }

    /// Stops the handlers, gives the hits that are left to the closures, and takes everything off the kernel: `unregister_kprobe` and its
    /// kin. When it returns, nothing of them is there any more.
    ///
    /// # Errors
    /// When the buffer cannot be read or the kernel does not answer; the probes are off all the same.
    pub fn unregister(mut self) -> Result<FinalCounts> {
        self.read(true)?;
        let missed = self.missed()?;
        self.detach();
        Ok(self.ended(missed))
    }

    /// Like [`unregister`](Self::unregister), but the kernel's work of detaching many probes (some 0.1 s for each that was attached by itself) is left to a
    /// process of its own, called `kestrel-detach`. No handler runs from now on.
    ///
    /// # Errors
    /// As [`unregister`](Self::unregister).
    pub fn unregister_in_background(mut self) -> Result<FinalCounts> {
        self.read(true)?;
        let missed = self.missed()?;
        self.live.session_mut().detach_in_background();
        self.attached = false;
        Ok(self.ended(missed))
    }

    fn ended(&self, missed: Vec<Missed>) -> FinalCounts {
        FinalCounts {
            hits: (0..self.probes.len())
                .map(|probe| self.dispatch.hits(probe))
                .sum(),
            lost: self.lost,
            missed,
        }
    }
}

/// The closures of one probe.
#[derive(Clone, Debug)]
pub struct Listeners(Callbacks<Closure>);

impl Listeners {
    /// Like [`Registration::listen`].
    pub fn listen(&self, priority: i32, closure: impl FnMut(&super::Hit) + Send + 'static) -> Callback {
        self.0.register(priority, Box::new(closure))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // The rest goes with the session; no handler runs while it does.
        self.live.session().deactivate();
    }
}

fn refused(probe: Option<String>, among: usize, error: Error) -> Error {
    match probe {
        Some(probe) => Error::Register {
            probe,
            others: among.saturating_sub(1),
            why: Box::new(error),
        },
        None => error,
    }
}
