//! Counting events without recording them. Tracepoints, probes and the like are counted by BPF programs in maps, counters of the kernel and the processor with
//! perf_event_open(2); both are read together.
//!
//! [`Stat::prepare`] opens and attaches everything, [`Stat::begin`] starts counting, [`Stat::read`] returns the counts since then, [`Stat::end`] stops it.
//! Formatting the figures is up to the caller.
//!
//! ```text
//! -e specs ── wanted ──► counters (perf)  ─┐
//!                   └──► traced (session) ─┴─► Count { event, part, amount }
//! ```

mod assignment;
mod causes;
mod cgroup;
mod count;
mod count_spec;
mod counters;
mod kernel_counters;
mod request;
mod scope;
mod traced;

pub use causes::{Cause, CauseCounts, Causes, Ended};
pub use cgroup::Cgroup;
pub use count::{Amount, Count, Event, Part};
pub use kestrel_catalog::catalog::counter::counted::{Meaning, Named, Scale};
pub use kestrel_kernel::perf::Reading;
pub use request::CountRequest;
pub use scope::{Scope, Split};

use crate::session::Session;
use assignment::{Arranged, ordered};
use count_spec::CountSpec;
use counters::Counters;
use kestrel_catalog::Result;
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::catalog::counter::counted;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_kernel::procfs;
use traced::Traced;

/// The counters and programs that serve one [`CountRequest`].
#[derive(Debug)]
pub struct Stat {
    events: Vec<Event>,
    counters: Counters,
    traced: Option<Traced>,
    by_cpu: bool,
    began: u64,
}

impl Stat {
    /// Opens counters, loads and attaches programs; nothing is counted yet.
    ///
    /// # Errors
    /// When a text is wrong or names no event (the error lists similar names), or the kernel refuses something. A counter that the machine lacks is no error:
    /// its amount is [`Amount::NotSupported`].
    pub fn prepare(request: &CountRequest, catalog: &Catalog) -> Result<Self> {
        let wanted = match request.events.as_slice() {
            [] => vec![CountSpec::Counters(counted::usual(), false, 0)],
            specs => count_spec::parse(specs, catalog.host())?,
        };
        let mut plain = kernel_counters::of(&wanted, request, catalog);
        let mut counters = Counters::open(
            &Arranged::of(&wanted, &plain, request).groups,
            request,
            catalog.host(),
        )?;
        if counters.may_miss && plain.iter().any(Option::is_some) {
            // A thread that began while counters were opened for its process has none, and its tracepoints would be missed. Programs see the events of such
            // threads, too, so all tracepoints are counted by programs.
            plain = kernel_counters::none(&wanted);
            counters = Counters::open(
                &Arranged::of(&wanted, &plain, request).groups,
                request,
                catalog.host(),
            )?;
        }
        let Arranged {
            mut events, specs, ..
        } = Arranged::of(&wanted, &plain, request);
        let mut traced = match specs.is_empty() {
            true => None,
            false => Some(Traced::start(specs, request, catalog)?),
        };
        let of_counters = events.len();
        events.extend(traced.iter().flat_map(Traced::named));
        let (events, places) = ordered(events);
        counters.renumber(&places[..of_counters]);
        if let Some(traced) = &mut traced {
            traced.renumber(&places[of_counters..]);
        }
        Ok(Self {
            events,
            counters,
            traced,
            by_cpu: request.split == Split::Cpu,
            began: 0,
        })
    }

    /// The counted events, in the order of their counts.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Warnings about the request's event specifications.
    pub fn warnings(&self) -> &[(String, Diagnostic)] {
        self.traced.as_ref().map_or(&[], Traced::warnings)
    }

    /// The session of the events that programs count, which knows missed and left-out events; `None` if there are none.
    pub fn session(&self) -> Option<&Session> {
        self.traced.as_ref().map(Traced::session)
    }

    /// Hits that are in no row because a map had no room for another key: for each text its first event, and the number of hits.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn uncounted_hits(&self) -> Result<Vec<(String, u64)>> {
        self.traced
            .as_ref()
            .map_or(Ok(Vec::new()), Traced::uncounted_hits)
    }

    /// Detaches the programs, in the background where the kernel takes long; returns the number of hooks that are detached there.
    pub fn detach(&mut self) -> usize {
        self.traced
            .as_mut()
            .map_or(0, |traced| traced.session_mut().detach_in_background())
    }

    /// Starts counting. For a command that waits to exec, counters and programs count from its exec on.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn begin(&mut self) -> Result<()> {
        self.began = procfs::monotonic();
        if let Some(traced) = &self.traced {
            traced.session().activate();
        }
        self.counters.enable()
    }

    /// Counts since the beginning, in the order of the events.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn read(&self) -> Result<Vec<Count>> {
        let mut counts = self.counters.read()?;
        if let Some(traced) = &self.traced {
            let time = procfs::monotonic().saturating_sub(self.began);
            counts.extend(traced.read(self.by_cpu, time)?);
        }
        // The sort is stable: the parts of an event remain in the order in which they were opened or sorted.
        counts.sort_by_key(|count| count.event);
        Ok(counts)
    }

    /// Stops counting and returns the totals, without later events.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn end(&mut self) -> Result<Vec<Count>> {
        self.counters.disable()?;
        if let Some(traced) = &self.traced {
            traced.stop();
        }
        self.read()
    }
}
