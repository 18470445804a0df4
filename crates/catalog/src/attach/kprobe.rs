//! Kprobes on instructions, and kretprobes on single functions: by perf events, or by events of tracefs where only those can.

use super::family::{Attach, Events, Formatted, Preempted, Profile, Runner, Sections};
use super::links::Links;
use super::own_event::{self, OwnEvent};
use super::site::{KprobeSite, Sites};
use crate::code::{CodeCache, CodePlace};
use crate::error::Result;
use kestrel_bpf::object::Hook;
use kestrel_kernel::bpf::{LinkDetail, Program, ProgramKind};
use kestrel_kernel::perf::{self, PerfEvent, PerfTarget};
use serde::{Deserialize, Serialize};

/// An instruction hooked by kprobe, or a function's return by kretprobe, wherever in the kernel or its modules; by name where that is exact,
/// else by address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves or are those of a site")]
pub struct Instruction {
    pub place: CodePlace,
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
const SECTIONS: Sections = Sections {
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

/// Profile that all kprobes have in common.
pub(super) const PROFILE: Profile = Profile {
    sections: SECTIONS,
    letter: 'k',
    // The kernel turns preemption off before it calls programs of kprobes.
    preempted: Preempted::Never,
    guarded: true,
    maxactive: None,
    joins: false,
    formatted: Formatted::No,
    call_end: None,
    relays: true,
    loads_ahead: true,
};

/// Interface by which a kprobe is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KprobeVia {
    /// A perf kprobe; where the kernel has none, an event of tracefs.
    #[default]
    Best,
    /// A perf kprobe with a link, which can be pinned.
    Link,
    /// An event in tracefs' `kprobe_events`, as on old kernels.
    Tracefs,
}

/// A kprobe or kretprobe.
#[derive(Clone, Copy, Debug)]
pub struct Kprobe<'a> {
    /// The place that is probed.
    pub place: perf::ProbePlace<'a>,
    /// Whether it is at the return of a function.
    pub at_return: bool,
    /// The number of calls that can be pending (maxactive), where it is given: only tracefs takes one.
    pub maxactive: Option<u32>,
    /// The attach cookie, by which its program distinguishes it from others.
    pub cookie: u64,
    /// Whether it is an event of tracefs by its name, which the kernel attaches whenever its module is loaded.
    pub awaited: bool,
    /// Whether the returns that it misses are to be counted: where links do not tell them, tracefs does.
    pub counted: bool,
    /// The interface by which the probe is made.
    pub via: KprobeVia,
}

impl<'a> Kprobe<'a> {
    /// At a symbol, by what is best.
    pub fn at(symbol: &'a str, offset: u64) -> Self {
        Self {
            place: perf::ProbePlace::Symbol(symbol, offset),
            at_return: false,
            maxactive: None,
            cookie: 0,
            awaited: false,
            counted: true,
            via: KprobeVia::Best,
        }
    }
}

impl Links {
    /// Attaches a program to a kprobe.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kprobe(&mut self, program: &Program, kprobe: &Kprobe<'_>, known: &CodeCache) -> Result<()> {
        // Where one return had to take tracefs to be counted, so have the others.
        let by_tracefs = kprobe.via == KprobeVia::Tracefs
            || kprobe.awaited
            || kprobe.maxactive.is_some()
            || kprobe.at_return && !self.events.is_empty();
        if by_tracefs {
            return self.kprobe_event(program, kprobe, known);
        }
        match PerfEvent::kprobe(known.host(), kprobe.place, kprobe.at_return, PerfTarget::All) {
            Err(kestrel_kernel::Error::Unavailable { .. }) if kprobe.via == KprobeVia::Best => {
                return self.kprobe_event(program, kprobe, known);
            }
            event => self.perf_event(program, event?, kprobe.cookie)?,
        }
        if let Some(link) = self.links.last()
            && kprobe.at_return
            && kprobe.counted
            && !matches!(link.info()?.detail, LinkDetail::Kprobe { .. })
        {
            self.links.pop();
            return self.kprobe_event(program, kprobe, known);
        }
        Ok(())
    }

    /// Attaches a program to a kprobe by an event of tracefs; without a link where that was asked for.
    fn kprobe_event(&mut self, program: &Program, kprobe: &Kprobe<'_>, known: &CodeCache) -> Result<()> {
        let tracefs = known.tracefs()?;
        if self.events.is_empty() {
            own_event::sweep(known.host());
        }
        let options = (kprobe.at_return, kprobe.maxactive);
        let own = OwnEvent::define(tracefs, known.host(), kprobe.place, options, kprobe.awaited)?;
        let event = PerfEvent::tracepoint(own.id()?, &kprobe.place.to_string(), PerfTarget::All)?;
        if kprobe.via == KprobeVia::Tracefs {
            event.set_program(program)?;
            self.perf_events.push(event);
        } else {
            self.perf_event(program, event, kprobe.cookie)?;
        }
        self.events.push(own);
        Ok(())
    }

    /// Attaches a program to a kprobe at a symbol; `options` are whether it is at the return, and the calls that are followed.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn kprobe_at(
        &mut self,
        program: &Program,
        (symbol, offset): (&str, u64),
        (at_return, maxactive): (bool, Option<u32>),
        known: &CodeCache,
    ) -> Result<()> {
        let kprobe = Kprobe {
            at_return,
            maxactive,
            ..Kprobe::at(symbol, offset)
        };
        self.kprobe(program, &kprobe, known)
    }

    fn site(
        &mut self,
        program: &Program,
        site: &KprobeSite,
        (at_return, maxactive): (bool, Option<u32>),
        known: &CodeCache,
    ) -> Result<()> {
        let symbol = match &site.place.module {
            Some(module) => format!("{module}:{}", site.place.symbol),
            None => site.place.symbol.clone(),
        };
        let place = match site.by_name {
            true => perf::ProbePlace::Symbol(&symbol, site.place.offset),
            false => perf::ProbePlace::Address(site.address),
        };
        let kprobe = Kprobe {
            place,
            at_return,
            maxactive,
            awaited: site.address == 0,
            ..Kprobe::at(&symbol, 0)
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

    fn profile(&self) -> Profile {
        Profile {
            letter: if self.at_return { 'r' } else { 'k' },
            maxactive: self.maxactive,
            ..PROFILE
        }
    }

    fn runner(&self) -> Runner<'_> {
        Runner::Kernel
    }

    fn sites(&self) -> Sites<'_> {
        Sites::Instruction(&self.place, self.address)
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

    fn profile(&self) -> Profile {
        PROFILE
    }

    fn runner(&self) -> Runner<'_> {
        Runner::Kernel
    }

    fn sites(&self) -> Sites<'_> {
        Sites::Instructions(&self.sites)
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
