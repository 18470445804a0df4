//! Programs that are attached to CPUs one by one: to which, and to those that come back or come later, for a perf event is dead once its CPU has been offline.

use crate::session::attached::{Attached, Session};
use crate::session::pinned::{Change, PinnedSession};
use crate::session::pins;
use crate::session::state::HookState;
use crate::session::transaction::Staged;
use kestrel_catalog::attach::{Counter, Mechanism, OnlineCpu, online};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::bpf::{Pinned, Program};
use serde::Serialize;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Time between two looks for new CPUs.
const LOOK: Duration = Duration::from_millis(200);

/// Counter whose hits are counted, where programs are attached to CPUs one by one.
fn counter(mechanism: Option<&Mechanism>) -> Option<&Counter> {
    mechanism?.counter()
}

impl Attached {
    /// Attaches it to CPUs that have come since.
    fn follow_cpus(&mut self, online: &[OnlineCpu]) -> Result<()> {
        let Some(counter) = counter(self.mechanism.as_ref()) else {
            return Ok(());
        };
        for (place, on) in counter.missing(self.links.cpus(), online) {
            if let Some(link) = counter.attach_on(&self.program, on.cpu)? {
                self.links.set_cpu_link(place, link, on);
            }
        }
        Ok(())
    }
}

impl Session {
    /// Attaches what is attached to CPUs one by one to those that have come since; to be called from time to time.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn follow_cpus(&mut self) -> Result<()> {
        let any = self
            .hooks
            .iter()
            .any(|hook| counter(hook.mechanism.as_ref()).is_some());
        if !any || self.looked.is_some_and(|last| last.elapsed() < LOOK) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let online = online(&self.resources.host)?;
        self.hooks
            .iter_mut()
            .try_for_each(|hook| hook.follow_cpus(&online))
    }
}

impl HookState {
    fn missing(&self, online: &[OnlineCpu]) -> Vec<(Option<usize>, OnlineCpu)> {
        let missing = |counter: &Counter| counter.missing(&self.cpus, online);
        counter(self.attached.as_ref()).map_or_else(Vec::new, missing)
    }
}

/// An event that some CPUs that run do not see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unattended {
    /// The event's name.
    pub event: String,
    /// The CPUs.
    pub cpus: Vec<u32>,
}

impl PinnedSession {
    /// Events that do not come from some CPUs, which have come since they were attached, with those CPUs. Every command that changes the
    /// session attaches them.
    ///
    /// # Errors
    /// When the kernel does not say which CPUs run.
    pub fn unattended_cpus(&self) -> Result<Vec<Unattended>> {
        if self.state.hooks.iter().all(|hook| hook.cpus.is_empty()) {
            return Ok(Vec::new());
        }
        let online = online(&self.host)?;
        let of = |hook: &HookState| {
            let cpus: Vec<u32> = hook.missing(&online).iter().map(|(_, on)| on.cpu).collect();
            let event = hook.events.first().map(|event| event.name.clone())?;
            (!cpus.is_empty()).then_some(Unattended { event, cpus })
        };
        Ok(self.state.hooks.iter().filter_map(of).collect())
    }
}

impl Change {
    /// Attaches hooks to CPUs that have come since they were attached. A dead link gives its name to the new one, so that a process killed in here
    /// leaves nothing attached twice.
    pub(in crate::session) fn follow_cpus(&mut self) -> Result<()> {
        if self.unattended_cpus()?.is_empty() {
            return Ok(());
        }
        let online = online(&self.host)?;
        let mut next = self.state.clone();
        for hook in &mut next.hooks {
            let Some(counter) = counter(hook.attached.as_ref()).cloned() else {
                continue;
            };
            let wanted = hook.missing(&online);
            if wanted.is_empty() {
                continue;
            }
            let program = self.program_of(hook)?;
            for (place, on) in wanted {
                let Some(link) = counter.attach_on(&program, on.cpu)? else {
                    continue;
                };
                let number = place.map_or(hook.links, |place| place as u32);
                self.session
                    .directory
                    .replace(link.as_fd(), &pins::link(hook.number, number))?;
                match place {
                    Some(place) => hook.cpus[place] = on,
                    None => {
                        hook.cpus.push(on);
                        hook.links += 1;
                    }
                }
            }
        }
        self.transact(|_| Ok((Staged::of(next), ())))
    }

    fn program_of(&self, hook: &HookState) -> Result<Program> {
        match self.session.directory.open(&pins::link(hook.number, 0))? {
            Pinned::Link(link) => Ok(Program::from_id(link.info()?.program)?),
            other => Err(Error::State {
                session: self.state.name.clone(),
                why: format!("the link of hook {} is something else: {other:?}", hook.number),
            }),
        }
    }
}
