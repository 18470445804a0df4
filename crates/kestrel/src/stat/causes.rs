//! Causes of events: hits of events of tracers by event, process and CPU, counted in the kernel while their own handlers run.

use crate::plan::{self, Options, Source};
use crate::session::{Missed, Session};
use kestrel_catalog::Result;
use kestrel_catalog::catalog::Catalog;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_compiler::lang::parse_probes;
use kestrel_hook::buffer::layout::{MIN_BYTES, Mode};
use kestrel_kernel::{Host, procfs};
use kestrel_trace::aggregate::MapType;
use kestrel_trace::aggregate::read::{Row, Snapshot};
use kestrel_trace::print;
use kestrel_trace::symbol::Symbols;
use kestrel_trace::value::Value;
use std::collections::{BTreeMap, HashSet};

/// The map in which hits are counted; one of the user's has another name.
const MAP: &str = "kestrel_causes";
/// Most keys of that map, and of the handlers' own: more than the usual 4,096, as there is one for each event of each process.
const MAX_KEYS: u32 = 1 << 14;
/// With so many keys those of processes that have ended go.
const FULL: usize = MAX_KEYS as usize / 2;

/// A session that counts who causes its events.
#[derive(Debug)]
pub struct Causes {
    session: Session,
    warnings: Vec<(String, Diagnostic)>,
    events: usize,
    host: Host,
    /// Hits of processes that have ended, whose keys went: by event and CPU.
    ended: BTreeMap<(String, u32), u64>,
}

/// The hits of an event by one process under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The event's name.
    pub event: String,
    /// The process; 0 is the idle task of each CPU.
    pub pid: u32,
    /// The name of its threads that did it.
    pub comm: String,
    /// The CPU, where hits are split by CPU.
    pub cpu: Option<u32>,
    /// Number of hits.
    pub hits: u64,
}

/// The hits of an event by processes that have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The event's name.
    pub event: String,
    /// The CPU, where hits are split by CPU.
    pub cpu: Option<u32>,
    /// Number of hits.
    pub hits: u64,
}

/// Counts by cause so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CauseCounts {
    /// Causes of hits, each with its count.
    pub causes: Vec<Cause>,
    /// Hits of processes that have ended, whose keys made room for others.
    pub ended: Vec<Ended>,
    /// Hits of unknown cause, since the map has no room for another one.
    pub uncounted_hits: u64,
    /// Contents of the maps of the events' own handlers.
    pub maps: Vec<Snapshot>,
}

impl Causes {
    /// Loads and attaches the programs, masked. What this process does itself is counted only with `include_self`.
    ///
    /// # Errors
    /// A text that is wrong or names nothing, and what the kernel refuses.
    pub fn start(
        specs: &[String],
        include_self: bool,
        options: &Options,
        catalog: &Catalog,
        command: &str,
    ) -> Result<Self> {
        let own = (!include_self).then(std::process::id);
        let options = Options {
            leave_out: own,
            mode: Some(Mode::Overwrite),
            buffer_bytes: Some(MIN_BYTES),
            max_map_keys: Some(MAX_KEYS),
            ..options.clone()
        };
        // Errors in a text refer to the text as it was typed.
        let typed = plan::plan(Source::Events(specs), &options, catalog)?;
        let counting: Vec<String> = specs.iter().map(|spec| counting(spec, own)).collect();
        let plan = plan::plan(Source::Events(&counting), &options, catalog)?;
        let mut events: Vec<&str> = (plan.hooks.iter().filter(|hook| !hook.companion))
            .flat_map(|hook| hook.instances.iter().map(|instance| instance.name.as_str()))
            .collect();
        events.sort_unstable();
        events.dedup();
        let events = events.len();
        Ok(Self {
            session: Session::start(&plan, catalog, command)?,
            warnings: typed.warnings,
            events,
            host: catalog.host().clone(),
            ended: BTreeMap::new(),
        })
    }

    /// Warnings about the specifications.
    pub fn warnings(&self) -> &[(String, Diagnostic)] {
        &self.warnings
    }

    /// The number of events that are counted.
    pub fn events(&self) -> usize {
        self.events
    }

    /// Lets everything count.
    pub fn begin(&self) {
        self.session.activate();
    }

    /// Counts since the beginning, by CPU or all together.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn read(&mut self, by_cpu: bool) -> Result<CauseCounts> {
        let (own, maps): (Vec<Snapshot>, Vec<Snapshot>) = self
            .session
            .map_snapshots()?
            .into_iter()
            .partition(|snapshot| snapshot.ty.name == MAP);
        let uncounted_hits = own.iter().map(|snapshot| snapshot.lost).sum();
        let causes = match by_cpu {
            false => own.iter().flat_map(|snapshot| causes(snapshot, None)).collect(),
            true => {
                let by_cpu = self.session.map_snapshots_by_cpu()?;
                let own = by_cpu.iter().filter(|(_, snapshot)| snapshot.ty.name == MAP);
                own.flat_map(|(cpu, snapshot)| causes(snapshot, Some(*cpu)))
                    .collect()
            }
        };
        let counts = CauseCounts {
            causes,
            ended: self.ended(by_cpu),
            uncounted_hits,
            maps,
        };
        if own.iter().any(|snapshot| snapshot.rows.len() > FULL) {
            self.forget_ended()?;
        }
        Ok(counts)
    }

    fn ended(&self, by_cpu: bool) -> Vec<Ended> {
        let mut all: Vec<Ended> = Vec::new();
        for ((event, cpu), hits) in &self.ended {
            match all.last_mut() {
                Some(last) if !by_cpu && last.event == *event => last.hits += hits,
                _ => all.push(Ended {
                    event: event.clone(),
                    cpu: by_cpu.then_some(*cpu),
                    hits: *hits,
                }),
            }
        }
        all
    }

    /// Makes room: takes the keys of processes that have ended out of the map, and adds up what they had.
    fn forget_ended(&mut self) -> Result<()> {
        let running: HashSet<u32> = procfs::processes(&self.host)?.into_iter().collect();
        let taken = self.session.take_rows(MAP, &mut |row, ty| {
            cause(row, ty, None).is_some_and(|cause| cause.pid > 0 && !running.contains(&cause.pid))
        })?;
        for (cpu, snapshot) in &taken {
            for cause in causes(snapshot, Some(*cpu)) {
                *self.ended.entry((cause.event, *cpu)).or_default() += cause.hits;
            }
        }
        Ok(())
    }

    /// Hits that programs did not see because they were running already on that CPU.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn missed(&self) -> Result<Vec<Missed>> {
        self.session.missed()
    }

    /// The session, for what it left out.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Takes all down, what is slow in the background; gives how many hooks that is for.
    pub fn detach(&mut self) -> usize {
        self.session.detach_in_background()
    }
}

/// A text of events whose handlers count their causes before they do what they do.
fn counting(text: &str, own: Option<u32>) -> String {
    let count = format!("@{MAP}[probe, pid, comm] = count();");
    let (probes, _) = parse_probes(text);
    let (mut out, mut at) = (String::new(), 0);
    for (number, probe) in probes.iter().enumerate() {
        let (end, added) = match (&probe.block, &probe.object) {
            (Some(block), _) if block.statements.is_empty() => continue,
            (Some(block), _) => {
                let leave = own.map(|own| format!(" if (pid == {own}) {{ return; }}"));
                let begin = block.span.start as usize + 1;
                (begin, leave.unwrap_or_default() + " " + &count)
            }
            (None, Some(_)) => continue,
            (None, None) => {
                let end = match number + 1 == probes.len() {
                    true => text.len(),
                    false => probe.span.end as usize,
                };
                let block = match own {
                    Some(own) => format!(" {{ if (pid != {own}) {{ {count} }} }}"),
                    None => format!(" {{ {count} }}"),
                };
                (end, block)
            }
        };
        out.push_str(text.get(at..end).unwrap_or_default());
        out.push_str(&added);
        at = end;
    }
    out + text.get(at..).unwrap_or_default()
}

/// The rows of the map as hits of events.
fn causes(snapshot: &Snapshot, cpu: Option<u32>) -> impl Iterator<Item = Cause> {
    let cause = move |row: &Row| cause(row, &snapshot.ty, cpu);
    snapshot.rows.iter().filter_map(cause)
}

fn cause(row: &Row, ty: &MapType, cpu: Option<u32>) -> Option<Cause> {
    let mut keys = row.keys(ty).map(shown);
    let (event, pid, comm) = (keys.next()?, keys.next()?, keys.next()?);
    let hits = u64::try_from(row.weight(ty)).unwrap_or_default();
    (hits > 0).then(|| Cause {
        event,
        pid: pid.parse().unwrap_or_default(),
        comm,
        cpu,
        hits,
    })
}

fn shown(value: Value<'_>) -> String {
    let mut bytes = Vec::new();
    print::value(value, &Symbols::default(), &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_before_their_handlers_run() {
        let count = "@kestrel_causes[probe, pid, comm] = count();";
        for (text, expected) in [
            ("sched:*", format!("sched:* {{ {count} }}")),
            (
                "sched:sched_switch, irq:* /pid == 1/",
                format!("sched:sched_switch, irq:* /pid == 1/ {{ {count} }}"),
            ),
            (
                "sched:sched_switch { @[comm] = count() }",
                format!("sched:sched_switch {{ {count} @[comm] = count() }}"),
            ),
            ("sched:sched_switch {}", "sched:sched_switch {}".to_owned()),
        ] {
            assert_eq!(counting(text, None), expected);
        }
        assert_eq!(
            counting("a:b { @ = count() }", Some(7)),
            format!("a:b {{ if (pid == 7) {{ return; }} {count} @ = count() }}")
        );
        assert_eq!(
            counting("a:b", Some(7)),
            format!("a:b {{ if (pid != 7) {{ {count} }} }}")
        );
        // A text with errors is left as it is: the planner reports them.
        assert_eq!(counting("a:b { @ = ", None), "a:b { @ = ");
    }
}
