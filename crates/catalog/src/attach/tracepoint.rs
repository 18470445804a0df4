//! Tracepoints by perf events: programs see the formatted entry.

use super::detach::close_many;
use super::family::{Attach, Events, Formatted, Preempted, Profile, Runner, Sections};
use super::links::Links;
use super::site::Sites;
use crate::error::Result;
use kestrel_bpf::object::Hook;
use kestrel_kernel::bpf::{Program, ProgramKind};
use kestrel_kernel::perf::{PerfEvent, PerfTarget};
use kestrel_kernel::tracefs::Tracefs;
use serde::{Deserialize, Serialize};

/// A tracepoint's perf event, by group and name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct Tracepoint {
    pub group: String,
    pub name: String,
}

/// Tracepoints whose entries are alike, by a perf event each: one program sees them all. Which they are, the hook's events say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracepoints;

const PROFILE: Profile = Profile {
    sections: Sections {
        hooks: &[Hook::Tracepoint],
        written: "SEC(\"tp\")",
        loadable: None,
    },
    letter: 't',
    // All programs of perf events share one guard per CPU (`bpf_prog_active`), so a second program would be skipped with the first.
    preempted: Preempted::Never,
    guarded: true,
    maxactive: None,
    joins: false,
    formatted: Formatted::One,
    call_end: None,
    relays: true,
    loads_ahead: true,
};

impl Links {
    /// Attaches a program to a tracepoint's perf event.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn tracepoint(
        &mut self,
        program: &Program,
        tracefs: &Tracefs,
        (group, name): (&str, &str),
        cookie: u64,
    ) -> Result<()> {
        let id = tracefs.event_id(group, name)?;
        let event = PerfEvent::tracepoint(id, &format!("{group}:{name}"), PerfTarget::All)?;
        self.perf_event(program, event, cookie)
    }
}

impl Attach for Tracepoint {
    fn program_kinds(&self, _events: usize) -> Result<Vec<ProgramKind>> {
        Ok(vec![ProgramKind::Tracepoint])
    }

    fn descriptors(&self, _events: u64, _cpus: u64) -> u64 {
        2
    }

    fn profile(&self) -> Profile {
        PROFILE
    }

    fn runner(&self) -> Runner<'_> {
        Runner::Kernel
    }

    fn sites(&self) -> Sites<'_> {
        Sites::Fixed
    }

    fn describe(&self, _reads: &str) -> String {
        format!("tracepoint {}:{}, the formatted entry", self.group, self.name)
    }

    fn attach(&self, _kind: ProgramKind, programs: &[&Program], events: &Events<'_>) -> Result<Links> {
        let tracefs = events.known.tracefs()?;
        let mut links = Links::default();
        for program in programs {
            links.tracepoint(program, &tracefs, (&self.group, &self.name), 0)?;
        }
        Ok(links)
    }
}

impl Attach for Tracepoints {
    fn program_kinds(&self, _events: usize) -> Result<Vec<ProgramKind>> {
        Ok(vec![ProgramKind::Tracepoint])
    }

    fn descriptors(&self, events: u64, _cpus: u64) -> u64 {
        1 + events
    }

    fn profile(&self) -> Profile {
        Profile {
            formatted: Formatted::Alike,
            ..PROFILE
        }
    }

    fn runner(&self) -> Runner<'_> {
        Runner::Kernel
    }

    fn sites(&self) -> Sites<'_> {
        Sites::Fixed
    }

    fn describe(&self, _reads: &str) -> String {
        "tracepoints of one shape, the formatted entry".to_owned()
    }

    fn attach(&self, _kind: ProgramKind, programs: &[&Program], events: &Events<'_>) -> Result<Links> {
        let tracefs = events.known.tracefs()?;
        let mut links = Links::default();
        let mut refused = None;
        let named = (0..).zip(events.names);
        for (program, (cookie, event)) in programs
            .iter()
            .flat_map(|program| named.clone().map(move |named| (program, named)))
        {
            let name = event.split_once(':').unwrap_or((event, ""));
            match links.tracepoint(program, &tracefs, name, cookie) {
                Ok(()) => {}
                Err(error) if events.optional && !error.is_shortage() => {
                    links.missing.push(((*event).to_owned(), error.to_string()));
                    refused = Some(error);
                }
                Err(error) => {
                    close_many(events.known.host(), links.into_files().collect());
                    return Err(error);
                }
            }
        }
        match refused {
            Some(error) if links.links.is_empty() => Err(error),
            _ => Ok(links),
        }
    }
}
