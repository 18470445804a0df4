//! The links, perf events and tracefs events that keep a hook's programs attached.

use super::own_event::{self, OwnEvent};
use crate::error::Result;
use kestrel_kernel::bpf::Attachment;
use kestrel_kernel::bpf::{Link, LinkInfo, Program};
use kestrel_kernel::perf::PerfEvent;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::OwnedFd;

/// The links and events that keep programs attached; dropping it detaches them. Fields are dropped in order, links before events, because the kernel does not
/// remove an event that is in use.
#[derive(Debug, Default)]
pub struct Links {
    pub(super) links: Vec<Link>,
    /// Perf events whose programs are attached without a link, on kernels before 5.15.
    pub(super) perf_events: Vec<PerfEvent>,
    pub(super) events: Vec<OwnEvent>,
    /// Where each CPU has a link of its own: the CPU of each link, in the order of `links`.
    pub(super) cpus: Vec<OnlineCpu>,
    /// Interval clocks and their periods in ns, for [`Links::begin_periods`].
    pub(super) clocks: Vec<(PerfEvent, u64)>,
    /// Events of a set that the kernel refused to attach, each with the reason.
    pub(super) missing: Vec<(String, String)>,
}

/// A CPU during one stretch of being online. After it has been offline it counts as another one, because its perf events are dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnlineCpu {
    /// The CPU's number.
    pub cpu: u32,
    /// Identity of this stretch of being online: a number that is new each time the CPU comes online.
    #[serde(alias = "stay")]
    pub online_id: u64,
}

/// Order in which the kernel runs several programs of one event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The program attached first runs first: tracepoints (kernel/tracepoint.c, `func_add`).
    OldestFirst,
    /// The program attached last runs first: trampolines (kernel/bpf/trampoline.c, `bpf_trampoline_add_prog`).
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
            self.perf_events.extend(other.perf_events);
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
            Attachment::Event(event) => self.perf_events.push(event),
        }
        Ok(())
    }

    /// Restarts the periods of the interval clocks: the next tick comes a whole period from now.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn begin_periods(&self) -> Result<()> {
        let mut clocks = self.clocks.iter();
        Ok(clocks.try_for_each(|(clock, period)| clock.begin_period(*period))?)
    }

    /// Number of attachments: links, and perf events without one.
    pub fn count(&self) -> usize {
        self.links.len() + self.perf_events.len()
    }

    /// How the programs are attached, in words: `link`, `perf event`, `tracefs GROUP/NAME`; empty if they are attached to nothing.
    pub fn describe(&self) -> String {
        match (
            self.events.first(),
            self.links.is_empty(),
            self.perf_events.is_empty(),
        ) {
            (Some(event), ..) => format!("tracefs {}/{}", own_event::GROUP, event.name()),
            (None, false, _) => "link".to_owned(),
            (None, true, false) => "perf event".to_owned(),
            (None, true, true) => String::new(),
        }
    }

    /// Attaches a hook's programs so that the kernel runs them in the given order; the links are in that order, too.
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

    /// Where each CPU has a link of its own: the CPU of each link, in the order of `links`.
    pub fn cpus(&self) -> &[OnlineCpu] {
        &self.cpus
    }

    /// Adds a CPU's link, or replaces the dead link at `place`.
    pub fn set_cpu_link(&mut self, place: Option<usize>, link: Link, on: OnlineCpu) {
        match place {
            Some(place) => (self.links[place], self.cpus[place]) = (link, on),
            None => {
                self.links.push(link);
                self.cpus.push(on);
            }
        }
    }

    /// Events of a set that could not be attached, each with the reason.
    pub fn missing(&self) -> &[(String, String)] {
        &self.missing
    }

    /// The tracefs events that were created for these programs.
    pub fn events(&self) -> &[OwnEvent] {
        &self.events
    }

    /// Keeps the tracefs events when this is dropped: those of a pinned session are removed together with its pins.
    pub fn persist(&mut self) {
        self.events.iter_mut().for_each(OwnEvent::persist);
    }

    /// The file descriptors of the links.
    pub fn into_files(self) -> impl Iterator<Item = OwnedFd> {
        self.links.into_iter().map(OwnedFd::from)
    }

    /// The kernel's information about each link (`BPF_OBJ_GET_INFO_BY_FD`).
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn infos(&self) -> Result<Vec<LinkInfo>> {
        let infos = self.links.iter().map(Link::info);
        Ok(infos.collect::<std::result::Result<_, _>>()?)
    }

    /// For iterator programs: a file for each link, which runs the iterator once when it is read.
    ///
    /// # Errors
    /// When the kernel refuses, as it does for links of other programs.
    pub fn iterator_files(&self) -> Result<Vec<File>> {
        let walks = self.links.iter().map(Link::iterate);
        Ok(walks.collect::<std::result::Result<_, _>>()?)
    }

    /// All links.
    pub fn each(&self) -> &[Link] {
        &self.links
    }
}
