//! Counting without recording: events of tracers in maps of our own programs, counters of the kernel and the processor with perf_event_open(2), read together.
//!
//! [`Stat::prepare`] opens and attaches all, [`Stat::begin`] lets it count, [`Stat::read`] says what was counted since, [`Stat::end`] stops it.
//! How the figures look is the caller's business.
//!
//! ```text
//! -e texts ── wanted ──► counters (perf)  ─┐
//!                   └──► traced (session) ─┴─► Count { event, part, amount }
//! ```

mod arranged;
mod causes;
mod cgroup;
mod count;
mod counters;
mod plain;
mod request;
mod scope;
mod traced;
mod wanted;

pub use causes::{Cause, CauseCounts, Causes};
pub use cgroup::Cgroup;
pub use count::{Amount, Count, Event, Part};
pub use kestrel_catalog::catalog::counter::counted::{Meaning, Named, Scale};
pub use kestrel_kernel::perf::Reading;
pub use request::Request;
pub use scope::{Scope, Split};

use crate::session::Session;
use arranged::{Arranged, ordered};
use counters::Counters;
use kestrel_catalog::Result;
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::catalog::counter::counted;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_kernel::procfs;
use traced::Traced;
use wanted::CountSpec;

/// Everything that counts for a request.
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
    /// A text that is wrong or names nothing, with names that come close; what the kernel refuses. That a machine lacks a counter is none:
    /// its amount is [`Amount::NotSupported`].
    pub fn prepare(request: &Request, catalog: &Catalog) -> Result<Self> {
        let wanted = match request.events.as_slice() {
            [] => vec![CountSpec::Counters(counted::usual(), false, 0)],
            texts => wanted::parse(texts, catalog.host())?,
        };
        let mut plain = plain::of(&wanted, request, catalog);
        let mut counters = Counters::open(
            &Arranged::of(&wanted, &plain, request).groups,
            request,
            catalog.host(),
        )?;
        if counters.may_miss && plain.iter().any(Option::is_some) {
            // Programs see the events of threads whenever these come.
            plain = plain::none(&wanted);
            counters = Counters::open(
                &Arranged::of(&wanted, &plain, request).groups,
                request,
                catalog.host(),
            )?;
        }
        let Arranged {
            mut events, texts, ..
        } = Arranged::of(&wanted, &plain, request);
        let mut traced = match texts.is_empty() {
            true => None,
            false => Some(Traced::start(texts, request, catalog)?),
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

    /// The events in their order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Remarks about the texts that do not stand in the way.
    pub fn warnings(&self) -> &[(String, Diagnostic)] {
        self.traced.as_ref().map_or(&[], Traced::warnings)
    }

    /// The session of events of tracers, for what it missed or left out.
    pub fn session(&self) -> Option<&Session> {
        self.traced.as_ref().map(Traced::session)
    }

    /// Hits that were counted for no row because a map had no room for another key: for each text its first event, and how many.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn without_row(&self) -> Result<Vec<(String, u64)>> {
        self.traced.as_ref().map_or(Ok(Vec::new()), Traced::without_row)
    }

    /// Takes all down, what is slow in the background; gives how many hooks that is for.
    pub fn detach(&mut self) -> usize {
        self.traced
            .as_mut()
            .map_or(0, |traced| traced.session_mut().detach_apart())
    }

    /// Lets everything count; counters of a command that waits to exec count from its exec on, and so do tracers.
    ///
    /// # Errors
    /// The kernel's.
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
    /// The kernel's.
    pub fn read(&self) -> Result<Vec<Count>> {
        let mut counts = self.counters.read()?;
        if let Some(traced) = &self.traced {
            let time = procfs::monotonic().saturating_sub(self.began);
            counts.extend(traced.read(self.by_cpu, time)?);
        }
        // Stable: parts stay in the order in which they were opened or are sorted.
        counts.sort_by_key(|count| count.event);
        Ok(counts)
    }

    /// Stops counting and gives the totals; what happens later is in none of them.
    ///
    /// # Errors
    /// The kernel's.
    pub fn end(&mut self) -> Result<Vec<Count>> {
        self.counters.disable()?;
        if let Some(traced) = &self.traced {
            traced.stop();
        }
        self.read()
    }
}
