//! Counters and clocks of the kernel: a perf event on one CPU or on each. A perf event is dead once its CPU has been offline, so CPUs that come online later
//! need new ones.

use super::family::{Attach, Events, Formatted, Preempted, Profile, Runner, Sections};
use super::links::{Links, OnlineCpu};
use super::site::Sites;
use crate::error::{Error, Result};
use kestrel_bpf::object::Hook;
use kestrel_kernel::Errno;
use kestrel_kernel::Host;
use kestrel_kernel::bpf::{Attachment, Link, Program, ProgramKind};
use kestrel_kernel::perf::{self, PerfEvent, PerfTarget};
use kestrel_kernel::procfs::{cpu_online_id, online_cpus, threads};
use serde::{Deserialize, Serialize};

/// A counter or clock of the kernel that gives an event for each `period` counts (clocks: ns), on the first CPU or on every one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub struct Counter {
    pub counter: perf::Counter,
    pub period: u64,
    pub every_cpu: bool,
    /// Restricts it to the threads of this process, including those that it makes later, and to processes that it makes later.
    #[serde(default)]
    pub process: Option<u32>,
}

/// The CPUs that are online.
///
/// # Errors
/// When the kernel's list cannot be read.
pub fn online(host: &Host) -> Result<Vec<OnlineCpu>> {
    let on = |cpu| OnlineCpu {
        cpu,
        online_id: cpu_online_id(host, cpu),
    };
    Ok(online_cpus(host)?.iter().map(on).collect())
}

impl Counter {
    /// CPUs of `online` that need a link, each with the index in `have` of the dead link that it replaces, if any.
    pub fn missing(&self, have: &[OnlineCpu], online: &[OnlineCpu]) -> Vec<(Option<usize>, OnlineCpu)> {
        if self.process.is_some() {
            return Vec::new();
        }
        if !self.every_cpu {
            let alive = have.iter().any(|on| online.contains(on));
            let first = online.first().filter(|_| !alive);
            let place = (!have.is_empty()).then_some(0);
            return first.map(|on| (place, *on)).into_iter().collect();
        }
        let wanted = online.iter().filter(|on| !have.contains(on));
        wanted
            .map(|on| (have.iter().position(|known| known.cpu == on.cpu), *on))
            .collect()
    }

    /// Opens the perf event on one CPU; `None` if the CPU has gone offline meanwhile.
    fn open_on(&self, cpu: u32) -> Result<Option<PerfEvent>> {
        match self.open(PerfTarget::Cpu(cpu)) {
            Err(error) if error.errno() == Some(Errno::ENODEV) => Ok(None),
            other => other.map(Some),
        }
    }

    /// Opens and enables the perf event on a CPU or thread.
    fn open(&self, target: PerfTarget) -> Result<PerfEvent> {
        let opened = PerfEvent::counter(&self.counter, self.period, target);
        let event = opened.map_err(|error| match error.errno() {
            Some(Errno::ENOSPC) if self.counter.is_breakpoint() => Error::Unsupported {
                what: self.counter.name.clone().into_owned(),
                why: "all debug registers are taken: by other watchpoints, debuggers or perf (x86 has four)"
                    .to_owned(),
            },
            _ => error.into(),
        })?;
        event.enable()?;
        Ok(event)
    }

    /// Attaches a program to each thread of a process; threads that end meanwhile are passed over.
    fn attach_to(&self, program: &Program, process: u32, host: &Host, links: &mut Links) -> Result<()> {
        for thread in threads(host, process)? {
            match self.open(PerfTarget::Thread(thread)) {
                Err(error) if error.errno() == Some(Errno::ESRCH) => {}
                event => links.perf_event(program, event?, 0)?,
            }
        }
        Ok(())
    }

    /// Attaches a program on one CPU; `None` if the CPU has gone offline meanwhile.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach_on(&self, program: &Program, cpu: u32) -> Result<Option<Link>> {
        let event = self.open_on(cpu)?;
        Ok(event
            .map(|event| Link::perf_event(program, &event, 0))
            .transpose()?)
    }
}

impl Attach for Counter {
    fn program_kinds(&self, _events: usize) -> Result<Vec<ProgramKind>> {
        Ok(vec![ProgramKind::PerfEvent])
    }

    fn descriptors(&self, _events: u64, cpus: u64) -> u64 {
        if self.every_cpu { 2 * cpus } else { 3 }
    }

    fn profile(&self) -> Profile {
        Profile {
            sections: Sections {
                hooks: &[Hook::PerfEvent],
                written: "SEC(\"perf_event\")",
                loadable: None,
            },
            letter: 't',
            preempted: Preempted::Never,
            guarded: false,
            maxactive: None,
            joins: false,
            formatted: Formatted::No,
            call_end: None,
            relays: true,
            loads_ahead: true,
        }
    }

    fn runner(&self) -> Runner<'_> {
        Runner::Cpus(self)
    }

    fn sites(&self) -> Sites<'_> {
        Sites::Fixed
    }

    fn describe(&self, _reads: &str) -> String {
        let unit = if self.counter.counts_time { " ns" } else { "" };
        let place = match (self.process, self.every_cpu) {
            (Some(pid), _) => format!("in process {pid}"),
            (None, true) => "on every CPU".to_owned(),
            (None, false) => "on one CPU".to_owned(),
        };
        let (name, period) = (&self.counter.name, self.period);
        format!("perf event {name} {place}, one in {period}{unit}")
    }

    fn attach(&self, _kind: ProgramKind, programs: &[&Program], events: &Events<'_>) -> Result<Links> {
        let mut links = Links::default();
        for program in programs {
            if let Some(process) = self.process {
                self.attach_to(program, process, events.known.host(), &mut links)?;
            }
            for (_, on) in self.missing(&[], &online(events.known.host())?) {
                let event = self.open_on(on.cpu)?;
                if let Some(clock) = event
                    .as_ref()
                    .filter(|_| !self.every_cpu && self.counter.counts_time)
                {
                    links.clocks.push((clock.try_clone()?, self.period));
                }
                let attached = event.map(|event| event.attach(program, 0));
                match attached.transpose()? {
                    Some(Attachment::Link(link)) => links.set_cpu_link(None, link, on),
                    Some(Attachment::Event(event)) => links.perf_events.push(event),
                    None => {}
                }
            }
        }
        Ok(links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_kernel::perf::Software;

    fn on(cpu: u32, online_id: u64) -> OnlineCpu {
        OnlineCpu { cpu, online_id }
    }

    fn missing(every_cpu: bool, have: &[OnlineCpu], online: &[OnlineCpu]) -> Vec<(Option<usize>, OnlineCpu)> {
        let counter = Counter {
            counter: Software::CpuClock.into(),
            period: 1,
            every_cpu,
            process: None,
        };
        counter.missing(have, online)
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
