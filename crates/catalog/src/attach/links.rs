//! Links and events that keep programs attached.

use super::own_event::{self, OwnEvent};
use crate::error::Result;
use kestrel_kernel::bpf::Attachment;
use kestrel_kernel::bpf::{Link, LinkInfo, Program};
use kestrel_kernel::perf::PerfEvent;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::OwnedFd;

/// The links and events that keep a program attached; dropping it detaches. Links go first, so that their events can go.
#[derive(Debug, Default)]
pub struct Links {
    pub(super) links: Vec<Link>,
    /// Perf events with programs that are attached without a link: kernels before 5.15.
    pub(super) bare: Vec<PerfEvent>,
    pub(super) events: Vec<OwnEvent>,
    /// Where CPUs have links one by one: the CPU of each.
    pub(super) cpus: Vec<OnCpu>,
    /// Clocks of one CPU and their periods in ns: their first periods can begin anew.
    pub(super) clocks: Vec<(PerfEvent, u64)>,
    /// Events of a set that the kernel did not let be attached, and why.
    pub(super) missing: Vec<(String, String)>,
}

/// A CPU while it is online: when it has been offline in between it is another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnCpu {
    /// The number.
    pub cpu: u32,
    /// A number that is new each time it comes online.
    pub stay: u64,
}

/// In which order the kernel runs the programs of one event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Tracepoints (kernel/tracepoint.c, `func_add`).
    OldestFirst,
    /// Trampolines (kernel/bpf/trampoline.c, `bpf_trampoline_add_prog`).
    NewestFirst,
}

impl From<Vec<Link>> for Links {
    fn from(links: Vec<Link>) -> Self {
        Self {
            links,
            ..Self::default()
        }
    }
}

impl From<Link> for Links {
    fn from(link: Link) -> Self {
        vec![link].into()
    }
}

impl Extend<Self> for Links {
    fn extend<I: IntoIterator<Item = Self>>(&mut self, others: I) {
        for other in others {
            self.links.extend(other.links);
            self.bare.extend(other.bare);
            self.events.extend(other.events);
            self.cpus.extend(other.cpus);
            self.clocks.extend(other.clocks);
            self.missing.extend(other.missing);
        }
    }
}

impl Links {
    /// Attaches a program to a perf event: by a link, or without one where the kernel has no such links.
    pub(super) fn perf_event(&mut self, program: &Program, event: PerfEvent, cookie: u64) -> Result<()> {
        match event.attach(program, cookie)? {
            Attachment::Link(link) => self.links.push(link),
            Attachment::Event(event) => self.bare.push(event),
        }
        Ok(())
    }

    /// Starts the periods of clocks now.
    ///
    /// # Errors
    /// The kernel's.
    pub fn begin_periods(&self) -> Result<()> {
        let mut clocks = self.clocks.iter();
        Ok(clocks.try_for_each(|(clock, period)| clock.begin_period(*period))?)
    }

    /// How many places the programs are attached to, by as many links or events.
    pub fn count(&self) -> usize {
        self.links.len() + self.bare.len()
    }

    /// How they are attached, for people: `link`, `perf event`, `tracefs GROUP/NAME`; empty if they are attached to nothing.
    pub fn describe(&self) -> String {
        match (self.events.first(), self.links.is_empty(), self.bare.is_empty()) {
            (Some(event), ..) => format!("tracefs {}/{}", own_event::GROUP, event.name()),
            (None, false, _) => "link".to_owned(),
            (None, true, false) => "perf event".to_owned(),
            (None, true, true) => String::new(),
        }
    }

    /// Attaches a hook's programs, so that the kernel runs them in this order, in which their links are, too.
    pub(super) fn one_after_another(
        programs: &[&Program],
        order: Order,
        attach: &dyn Fn(&Program) -> Result<Link>,
    ) -> Result<Self> {
        let mut programs = programs.to_vec();
        if order == Order::NewestFirst {
            programs.reverse();
        }
        let mut links = programs.into_iter().map(attach).collect::<Result<Vec<_>>>()?;
        if order == Order::NewestFirst {
            links.reverse();
        }
        Ok(links.into())
    }

    /// Where CPUs have links one by one: the CPU of each.
    pub fn cpus(&self) -> &[OnCpu] {
        &self.cpus
    }

    /// Adds a CPU's link, or puts it in the place of a dead one.
    pub fn put(&mut self, place: Option<usize>, link: Link, on: OnCpu) {
        match place {
            Some(place) => (self.links[place], self.cpus[place]) = (link, on),
            None => {
                self.links.push(link);
                self.cpus.push(on);
            }
        }
    }

    /// Events of a set that are missing, and why.
    pub fn missing(&self) -> &[(String, String)] {
        &self.missing
    }

    /// Events of tracefs that were made for them.
    pub fn events(&self) -> &[OwnEvent] {
        &self.events
    }

    /// Leaves the events of tracefs in place: removing the pins removes them.
    pub fn leave(&mut self) {
        self.events.iter_mut().for_each(OwnEvent::leave);
    }

    /// The descriptors.
    pub fn into_files(self) -> impl Iterator<Item = OwnedFd> {
        self.links.into_iter().map(OwnedFd::from)
    }

    /// Kernel information about the links.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn infos(&self) -> Result<Vec<LinkInfo>> {
        let infos = self.links.iter().map(Link::info);
        Ok(infos.collect::<std::result::Result<_, _>>()?)
    }

    /// Of iterators: files that walk once when they are read.
    ///
    /// # Errors
    /// The kernel's; links of others cannot be read.
    pub fn walks(&self) -> Result<Vec<File>> {
        let walks = self.links.iter().map(Link::iterate);
        Ok(walks.collect::<std::result::Result<_, _>>()?)
    }

    /// The links, one or many.
    pub fn each(&self) -> &[Link] {
        &self.links
    }
}
