//! Programs that are attached to CPUs one by one: to which, and to those that come back or come later, for a perf event is dead once its CPU has been offline.

use super::pins;
use super::state::HookState;
use super::stay::{Change, PinnedSession};
use super::{Attached, Session};
use kestrel_catalog::catalog::Attachment;
use kestrel_catalog::{Error, Result};
use kestrel_kernel::Host;
use kestrel_kernel::bpf::{Link, Pinned, Program};
use kestrel_kernel::perf::{Counter, PerfEvent, Rate, Target};
use kestrel_kernel::procfs::{cpu_stay, online_cpus};
use serde::{Deserialize, Serialize};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How often a recorder looks for CPUs that have come.
const LOOK: Duration = Duration::from_millis(200);

/// A CPU while it is online: when it has been offline in between it is another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnCpu {
    /// Its number.
    pub cpu: u32,
    /// Which of its stays online.
    pub stay: u64,
}

/// What is counted on the CPUs.
#[derive(Clone, Debug)]
pub(super) struct Counting {
    counter: Counter,
    period: u64,
    every_cpu: bool,
}

/// The CPUs that run.
fn online() -> Result<Vec<OnCpu>> {
    let host = Host::default();
    let on = |cpu| OnCpu {
        cpu,
        stay: cpu_stay(&host, cpu),
    };
    Ok(online_cpus(&host)?.iter().map(on).collect())
}

/// CPUs that want a link, each with the place of the dead link that it replaces.
fn missing(every_cpu: bool, have: &[OnCpu], online: &[OnCpu]) -> Vec<(Option<usize>, OnCpu)> {
    if !every_cpu {
        let alive = have.iter().any(|on| online.contains(on));
        let first = online.first().filter(|_| !alive);
        return first
            .map(|on| ((!have.is_empty()).then_some(0), *on))
            .into_iter()
            .collect();
    }
    let wanted = online.iter().filter(|on| !have.contains(on));
    wanted
        .map(|on| (have.iter().position(|known| known.cpu == on.cpu), *on))
        .collect()
}

impl Counting {
    /// What an attachment counts, if it is attached to CPUs one by one.
    pub(super) fn of(attachment: &Attachment) -> Option<Self> {
        match attachment {
            Attachment::Counter {
                counter,
                period,
                every_cpu,
            } => Some(Self {
                counter: counter.clone(),
                period: *period,
                every_cpu: *every_cpu,
            }),
            _ => None,
        }
    }

    /// Links for all CPUs that want one.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn attach(&self, program: &Program) -> Result<(Vec<Link>, Vec<OnCpu>)> {
        let (mut links, mut cpus) = (Vec::new(), Vec::new());
        for (_, on) in missing(self.every_cpu, &[], &online()?) {
            if let Some(link) = self.attach_on(program, on.cpu)? {
                links.push(link);
                cpus.push(on);
            }
        }
        Ok((links, cpus))
    }

    /// A link for one CPU; none if it has gone meanwhile.
    fn attach_on(&self, program: &Program, cpu: u32) -> Result<Option<Link>> {
        let event = match PerfEvent::counter(&self.counter, Rate::Period(self.period), Target::Cpu(cpu)) {
            Err(error) if error.errno().is_some_and(|e| e.name() == Some("ENODEV")) => return Ok(None),
            other => other?,
        };
        let link = Link::perf_event(program, &event, 0)?;
        event.enable()?;
        Ok(Some(link))
    }
}

impl Attached {
    /// Attaches it to CPUs that have come since.
    fn follow_cpus(&mut self, online: &[OnCpu]) -> Result<()> {
        let Some(counting) = self.links.counting().cloned() else {
            return Ok(());
        };
        for (place, on) in missing(counting.every_cpu, self.links.cpus(), online) {
            if let Some(link) = counting.attach_on(&self.program, on.cpu)? {
                self.links.put(place, link, on);
            }
        }
        Ok(())
    }
}

impl Session {
    /// Attaches what is attached to CPUs one by one to those that have come since; to be called from time to time.
    ///
    /// # Errors
    /// The kernel's.
    pub fn follow_cpus(&mut self) -> Result<()> {
        let any = self.hooks.iter().any(|hook| hook.links.counting().is_some());
        if !any || self.looked.is_some_and(|last| last.elapsed() < LOOK) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let online = online()?;
        self.hooks
            .iter_mut()
            .try_for_each(|hook| hook.follow_cpus(&online))
    }
}

impl HookState {
    fn counting(&self) -> Option<Counting> {
        Counting::of(&self.attached.attachment()?)
    }

    fn missing(&self, online: &[OnCpu]) -> Vec<(Option<usize>, OnCpu)> {
        self.counting().map_or_else(Vec::new, |counting| {
            missing(counting.every_cpu, &self.cpus, online)
        })
    }
}

impl PinnedSession {
    /// Events that do not come from some CPUs, which have come since they were attached, with those CPUs. Every command that changes the
    /// session attaches them.
    ///
    /// # Errors
    /// When the kernel does not say which CPUs run.
    pub fn unattended_cpus(&self) -> Result<Vec<(String, Vec<u32>)>> {
        if self.state.hooks.iter().all(|hook| hook.cpus.is_empty()) {
            return Ok(Vec::new());
        }
        let online = online()?;
        let of = |hook: &HookState| {
            let cpus: Vec<u32> = hook.missing(&online).iter().map(|(_, on)| on.cpu).collect();
            let event = hook.events.first().map(|event| event.name.clone())?;
            (!cpus.is_empty()).then_some((event, cpus))
        };
        Ok(self.state.hooks.iter().filter_map(of).collect())
    }
}

impl Change {
    /// Attaches hooks to CPUs that have come since they were attached. A dead link gives its name to the new one, so that who is killed in here
    /// leaves nothing attached twice.
    pub(super) fn follow_cpus(&mut self) -> Result<()> {
        if self.unattended_cpus()?.is_empty() {
            return Ok(());
        }
        let online = online()?;
        let mut next = self.state.clone();
        for hook in &mut next.hooks {
            let Some(counting) = hook.counting() else { continue };
            let wanted = hook.missing(&online);
            if wanted.is_empty() {
                continue;
            }
            let program = self.program_of(hook)?;
            for (place, on) in wanted {
                let Some(link) = counting.attach_on(&program, on.cpu)? else {
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
        self.write(next)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn on(cpu: u32, stay: u64) -> OnCpu {
        OnCpu { cpu, stay }
    }

    #[test]
    fn a_cpu_that_was_away_is_another_one() {
        let have = [on(0, 1), on(1, 1)];
        assert_eq!(missing(true, &have, &have), []);
        assert_eq!(
            missing(true, &have, &[on(0, 1)]),
            [],
            "nothing can be done for one that is away"
        );
        assert_eq!(missing(true, &have, &[on(0, 1), on(1, 2)]), [(Some(1), on(1, 2))]);
        assert_eq!(
            missing(true, &have, &[on(0, 1), on(1, 1), on(2, 1)]),
            [(None, on(2, 1))]
        );
    }

    #[test]
    fn one_cpu_is_enough_for_an_interval() {
        assert_eq!(missing(false, &[], &[on(0, 1), on(1, 1)]), [(None, on(0, 1))]);
        assert_eq!(missing(false, &[on(0, 1)], &[on(0, 1), on(1, 1)]), []);
        assert_eq!(missing(false, &[on(0, 1)], &[on(1, 1)]), [(Some(0), on(1, 1))]);
        assert_eq!(
            missing(false, &[on(0, 1)], &[on(0, 2), on(1, 1)]),
            [(Some(0), on(0, 2))]
        );
    }
}
