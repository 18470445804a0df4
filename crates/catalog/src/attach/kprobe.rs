//! Kprobes on instructions, and kretprobes on single functions: by perf events, or by events of tracefs where only those can.

use super::family::{Attach, Events, Sections};
use super::links::Links;
use super::own_event::OwnEvent;
use crate::code::{KnownCode, Place};
use crate::error::Result;
use kestrel_bpf::object::Hook;
use kestrel_kernel::bpf::{Link, LinkDetail, Program, ProgramKind};
use kestrel_kernel::perf::{self, PerfEvent, Target};
use kestrel_kernel::preemption::Preemption;
use serde::{Deserialize, Serialize};

/// An instruction to be probed: by name where that is exact, else by address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KprobeSite {
    /// Where it is.
    pub place: Place,
    /// The same as an address.
    pub address: u64,
    /// Whether the kernel finds it by its name.
    pub by_name: bool,
}

/// One instruction by kprobe, or one function's return by kretprobe, wherever in the kernel or its modules; by name where that is exact,
/// else by address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves or are those of a site")]
pub struct Instruction {
    pub place: Place,
    pub address: u64,
    pub by_name: bool,
    pub at_return: bool,
    pub maxactive: Option<u32>,
}

/// Several instructions by kprobe, for which one program serves: those that can run after another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct Instructions {
    pub sites: Vec<KprobeSite>,
}

/// Sections whose programs kprobes run.
pub(super) const SECTIONS: Sections = Sections {
    hooks: &[
        Hook::Classic,
        Hook::Kprobe,
        Hook::Kretprobe,
        Hook::KprobeMulti,
        Hook::KretprobeMulti,
        Hook::Ksyscall,
        Hook::Kretsyscall,
    ],
    written: "SEC(\"kprobe\")",
    loadable: None,
};

/// One kprobe, or kretprobe.
pub(super) struct Kprobe<'a> {
    pub(super) place: perf::Place<'a>,
    pub(super) at_return: bool,
    pub(super) maxactive: Option<u32>,
    pub(super) cookie: u64,
    /// Whether it is an event of tracefs by its name, which the kernel attaches whenever its module is loaded.
    pub(super) awaited: bool,
}

impl Links {
    /// Attaches a program to a kprobe.
    pub(super) fn kprobe(&mut self, program: &Program, kprobe: &Kprobe<'_>, known: &KnownCode) -> Result<()> {
        let &Kprobe {
            place,
            at_return,
            maxactive,
            cookie,
            awaited,
        } = kprobe;
        // Only tracefs takes a number of calls; and only it says how many returns were missed where links do not.
        if !awaited && maxactive.is_none() && (!at_return || self.events.is_empty()) {
            let event = PerfEvent::kprobe(known.host(), place, at_return, Target::All)?;
            let link = Link::perf_event(program, &event, cookie)?;
            if !at_return || matches!(link.info()?.detail, LinkDetail::Kprobe { .. }) {
                self.links.push(link);
                return Ok(());
            }
        }
        let tracefs = known.tracefs()?;
        let own = OwnEvent::define(tracefs, known.host(), place, (at_return, maxactive), awaited)?;
        let event = PerfEvent::tracepoint(own.id()?, &place.to_string(), Target::All)?;
        self.links.push(Link::perf_event(program, &event, cookie)?);
        self.events.push(own);
        Ok(())
    }

    /// Attaches a program to a kprobe at a symbol; `options` are whether it is at the return, and the calls that are followed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn kprobe_at(
        &mut self,
        program: &Program,
        (symbol, offset): (&str, u64),
        (at_return, maxactive): (bool, Option<u32>),
        known: &KnownCode,
    ) -> Result<()> {
        let kprobe = Kprobe {
            place: perf::Place::Symbol(symbol, offset),
            at_return,
            maxactive,
            cookie: 0,
            awaited: false,
        };
        self.kprobe(program, &kprobe, known)
    }

    fn site(
        &mut self,
        program: &Program,
        site: &KprobeSite,
        (at_return, maxactive): (bool, Option<u32>),
        known: &KnownCode,
    ) -> Result<()> {
        let symbol = match &site.place.module {
            Some(module) => format!("{module}:{}", site.place.symbol),
            None => site.place.symbol.clone(),
        };
        let place = match site.by_name {
            true => perf::Place::Symbol(&symbol, site.place.offset),
            false => perf::Place::Address(site.address),
        };
        let kprobe = Kprobe {
            place,
            at_return,
            maxactive,
            cookie: 0,
            awaited: site.address == 0,
        };
        self.kprobe(program, &kprobe, known)
    }
}

impl Attach for Instruction {
    fn program_kinds(&self, _events: usize) -> Result<Vec<ProgramKind>> {
        Ok(vec![ProgramKind::Kprobe])
    }

    fn descriptors(&self, _events: u64, _cpus: u64) -> u64 {
        2
    }

    fn sections(&self) -> Sections {
        SECTIONS
    }

    fn letter(&self) -> char {
        if self.at_return { 'r' } else { 'k' }
    }

    /// The kernel turns preemption off before it calls programs of kprobes.
    fn is_preempted(&self, _preemption: Preemption) -> bool {
        false
    }

    fn maxactive(&self) -> Option<u32> {
        self.maxactive
    }

    fn describe(&self, _reads: &str) -> String {
        let probe = if self.at_return { "kretprobe" } else { "kprobe" };
        format!("{probe} at {}", self.place)
    }

    fn attach(&self, _kind: ProgramKind, programs: &[&Program], events: &Events<'_>) -> Result<Links> {
        let site = KprobeSite {
            place: self.place.clone(),
            address: self.address,
            by_name: self.by_name,
        };
        let mut links = Links::default();
        for program in programs {
            links.site(program, &site, (self.at_return, self.maxactive), events.known)?;
        }
        Ok(links)
    }
}

impl Attach for Instructions {
    fn program_kinds(&self, _events: usize) -> Result<Vec<ProgramKind>> {
        Ok(vec![ProgramKind::Kprobe])
    }

    fn descriptors(&self, _events: u64, _cpus: u64) -> u64 {
        2 * self.sites.len() as u64
    }

    fn sections(&self) -> Sections {
        SECTIONS
    }

    fn letter(&self) -> char {
        'k'
    }

    fn is_preempted(&self, _preemption: Preemption) -> bool {
        false
    }

    fn maxactive(&self) -> Option<u32> {
        None
    }

    fn describe(&self, _reads: &str) -> String {
        let places: Vec<String> = self.sites.iter().map(|site| site.place.to_string()).collect();
        format!("kprobe at {}", places.join(" and "))
    }

    fn attach(&self, _kind: ProgramKind, programs: &[&Program], events: &Events<'_>) -> Result<Links> {
        let mut links = Links::default();
        for program in programs {
            for site in &self.sites {
                links.site(program, site, (false, None), events.known)?;
            }
        }
        Ok(links)
    }
}
