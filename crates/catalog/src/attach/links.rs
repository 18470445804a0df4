//! What keeps programs attached.

use super::own_event::OwnEvent;
use crate::error::Result;
use kestrel_kernel::bpf::{Link, LinkInfo, Program};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;

/// What keeps a program attached; dropping it detaches. Links go first, so that their events can go.
#[derive(Debug, Default)]
pub struct Links {
    pub(super) links: Vec<Link>,
    pub(super) events: Vec<OwnEvent>,
    /// Where CPUs have links one by one: the CPU of each.
    pub(super) cpus: Vec<OnCpu>,
    /// Events of a set that the kernel did not let be attached, and why.
    pub(super) missing: Vec<(String, String)>,
}

/// A CPU while it is online: when it has been offline in between it is another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnCpu {
    /// Its number.
    pub cpu: u32,
    /// Which of its stays online.
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

impl Links {
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

    /// Keeps another link, which is none of the hook's own.
    pub fn keep(&mut self, link: Link) {
        self.links.push(link);
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

    /// Whoever has the pins takes the events away.
    pub fn leave(&mut self) {
        self.events.iter_mut().for_each(OwnEvent::leave);
    }

    /// Their descriptors.
    pub fn into_files(self) -> impl Iterator<Item = OwnedFd> {
        self.links.into_iter().map(OwnedFd::from)
    }

    /// What the kernel says of them.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn infos(&self) -> Result<Vec<LinkInfo>> {
        let infos = self.links.iter().map(Link::info);
        Ok(infos.collect::<std::result::Result<_, _>>()?)
    }

    /// One or many.
    pub fn each(&self) -> &[Link] {
        &self.links
    }
}
