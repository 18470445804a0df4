//! Events of tracers, counted in the kernel: a session whose handlers count in maps, per CPU and without a lock, so that no hit is lost to another.

use super::count::{Amount, Count, Event, Part};
use super::request::CountRequest;
use super::scope::{Scope, Split};
use crate::plan::{self, Options, Plan, Source};
use crate::session::Session;
use kestrel_catalog::Result;
use kestrel_catalog::catalog::{Catalog, Glob};
use kestrel_compiler::lang::ast::Probe;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_compiler::lang::parse_probes;
use kestrel_hook::buffer::layout::MIN_BYTES;
use kestrel_kernel::barrier::wait_for_running_programs;
use kestrel_kernel::perf::Reading;
use kestrel_kernel::procfs::online_cpus;
use kestrel_trace::aggregate::MapType;
use kestrel_trace::aggregate::read::Row;
use kestrel_trace::print;
use kestrel_trace::symbol::Symbols;
use kestrel_trace::value::Value;
use std::collections::BTreeMap;

/// Most keys of a map whose counts are split by thread or value: more than the usual 4,096, which a busy system's threads fill in a minute.
const MAX_KEYS: u32 = 1 << 16;

/// An event specification as a handler that counts.
#[derive(Debug)]
pub(super) struct TracedSpec {
    /// Events and predicate with a block that counts.
    handler: String,
    /// The suffix of an event's name where it is shown.
    predicate: String,
    /// Name of the map that counts.
    map: String,
    /// Whether the map's first key is the event.
    by_event: bool,
    /// The last part of each event as it is written, and its place in all specifications.
    places: Vec<(String, usize)>,
}

/// A session that counts.
#[derive(Debug)]
pub(super) struct Traced {
    session: Session,
    specs: Vec<Placed>,
    warnings: Vec<(String, Diagnostic)>,
    split: Split,
    /// CPUs that have a row although nothing came on them.
    cpus: Vec<u32>,
}

/// A specification with its events.
#[derive(Debug)]
struct Placed {
    text: TracedSpec,
    /// The names, sorted.
    names: Vec<String>,
    /// Which events of the whole they are.
    events: Vec<usize>,
}

impl TracedSpec {
    pub(super) fn new(text: String, places: Vec<usize>, number: usize, request: &CountRequest) -> Self {
        let (probes, _) = parse_probes(&text);
        let events = probes.iter().flat_map(|probe| &probe.events);
        let last = events.map(|event| event.parts.last().map_or(String::new(), |part| part.text.clone()));
        let places = last.zip(places).collect();
        let by_event = !is_one(&probes);
        let map = format!("stat_{number}");
        let mut keys: Vec<&str> = Vec::new();
        if by_event {
            keys.push("probe");
        }
        match &request.split {
            Split::None | Split::Cpu => {}
            Split::Thread => keys.extend(["comm", "tid"]),
            Split::By(expressions) => keys.push(expressions),
        }
        let keys = match keys.is_empty() {
            true => String::new(),
            false => format!("[{}]", keys.join(", ")),
        };
        let count = format!("@{map}{keys} = count()");
        let block = match request.scope.condition() {
            None => count,
            Some(condition) => format!("if ({condition}) {{ {count} }}"),
        };
        Self {
            handler: format!("{text} {{ {block} }}"),
            predicate: predicate(&text, &probes),
            map,
            by_event,
            places,
        }
    }

    /// The place of an event in all specifications: that of the first word that means it, or of the last one.
    fn place(&self, name: &str) -> usize {
        let own = name.rsplit(':').next().unwrap_or(name);
        let mut places = self.places.iter();
        let meant = places.find(|(word, _)| Glob::new(word).matches(own));
        meant.or(self.places.last()).map_or(0, |(_, place)| *place)
    }
}

/// Whether a text names exactly one event.
fn is_one(probes: &[Probe]) -> bool {
    let mut events = probes.iter().flat_map(|probe| &probe.events);
    let plain = |spec: &kestrel_compiler::lang::ast::EventSpec| {
        spec.parts.iter().all(|part| Glob::new(&part.text).is_plain())
            && spec.parts.first().is_none_or(|part| part.text != "class")
    };
    events.next().is_some_and(plain) && events.next().is_none()
}

/// The predicate of a text as it was written.
fn predicate(text: &str, probes: &[Probe]) -> String {
    let events = probes.iter().flat_map(|probe| &probe.events);
    let end = events
        .map(|spec| spec.span.end as usize)
        .max()
        .unwrap_or(text.len());
    text.get(end..).unwrap_or_default().trim().to_owned()
}

impl Traced {
    /// Loads and attaches the programs, masked.
    ///
    /// # Errors
    /// As [`plan::plan`] and [`Session::start`].
    pub(super) fn start(specs: Vec<TracedSpec>, request: &CountRequest, catalog: &Catalog) -> Result<Self> {
        let handlers: Vec<String> = specs.iter().map(|text| text.handler.clone()).collect();
        let split = matches!(request.split, Split::Thread | Split::By(_));
        let options = Options {
            target: request.scope.filter(),
            only_own: true,
            via: request.via,
            // No record is written.
            buffer_bytes: Some(MIN_BYTES),
            max_map_keys: split.then_some(MAX_KEYS),
            ..Options::default()
        };
        let plan = plan::plan(Source::Events(&handlers), &options, catalog)?;
        let placed = specs.into_iter().map(|text| Placed {
            names: names(&plan, &text.handler),
            events: Vec::new(),
            text,
        });
        let specs = placed.collect();
        let session = Session::start(&plan, catalog, "kestrel stat")?;
        let cpus = match &request.scope {
            Scope::Cpus(cpus) => cpus.clone(),
            _ => online_cpus(catalog.host())?,
        };
        Ok(Self {
            session,
            specs,
            warnings: plan.warnings,
            split: request.split.clone(),
            cpus: cpus.iter().collect(),
        })
    }

    /// The events of all specs, each with its place in these.
    pub(super) fn named(&self) -> Vec<(usize, Event)> {
        let of_text = |placed: &Placed| -> Vec<(usize, Event)> {
            let event = |name: &String| Event {
                name: format!("{name} {}", placed.text.predicate).trim_end().to_owned(),
                counter: None,
            };
            let named = placed.names.iter();
            named.map(|name| (placed.text.place(name), event(name))).collect()
        };
        self.specs.iter().flat_map(of_text).collect()
    }

    /// Says where the events are by now, in the order of [`Traced::named`].
    pub(super) fn renumber(&mut self, places: &[usize]) {
        let mut rest = places.iter().copied();
        for placed in &mut self.specs {
            placed.events = rest.by_ref().take(placed.names.len()).collect();
        }
    }

    pub(super) fn warnings(&self) -> &[(String, Diagnostic)] {
        &self.warnings
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Masks the hooks and waits for the programs that run.
    pub(super) fn stop(&self) {
        self.session.deactivate();
        if wait_for_running_programs().is_err() {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// Counts `time` nanoseconds after the beginning.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub(super) fn read(&self, by_cpu: bool, time: u64) -> Result<Vec<Count>> {
        let mut sums: BTreeMap<(usize, Part), u64> = BTreeMap::new();
        // An event without a hit has no key in any map, and is to be seen as 0.
        self.place_zeroes(&mut sums);
        let snapshots: Vec<_> = match by_cpu {
            true => self.session.map_snapshots_by_cpu()?,
            false => self
                .session
                .map_snapshots()?
                .into_iter()
                .map(|it| (0, it))
                .collect(),
        };
        for (cpu, snapshot) in &snapshots {
            let Some(placed) = self
                .specs
                .iter()
                .find(|placed| placed.text.map == snapshot.ty.name)
            else {
                continue;
            };
            for row in &snapshot.rows {
                let Some((event, keys)) = placed.event_of(row, &snapshot.ty) else {
                    continue;
                };
                let hits = count(row, &snapshot.ty);
                if hits > 0 {
                    let part = self.part(by_cpu.then_some(*cpu), keys);
                    *sums.entry((event, part)).or_default() += hits;
                }
            }
        }
        let counts = sums.into_iter().map(|((event, part), value)| Count {
            event,
            part,
            amount: Amount::Counted(Reading {
                value,
                enabled: time,
                running: time,
            }),
        });
        Ok(counts.collect())
    }

    /// Events that never came are shown, too, unless counts are split by values that come with the events.
    fn place_zeroes(&self, sums: &mut BTreeMap<(usize, Part), u64>) {
        let parts: Vec<Part> = match self.split {
            Split::None => vec![Part::All],
            Split::Cpu => self.cpus.iter().copied().map(Part::Cpu).collect(),
            Split::Thread | Split::By(_) => return,
        };
        for placed in &self.specs {
            for event in &placed.events {
                sums.extend(parts.iter().map(|part| ((*event, part.clone()), 0)));
            }
        }
    }

    fn part(&self, cpu: Option<u32>, keys: Vec<String>) -> Part {
        match (&self.split, cpu, keys.as_slice()) {
            (_, Some(cpu), _) => Part::Cpu(cpu),
            (Split::Thread, _, [comm, tid]) => Part::Thread {
                comm: comm.clone(),
                tid: tid.parse().unwrap_or_default(),
            },
            (Split::By(_), ..) => Part::By(keys),
            _ => Part::All,
        }
    }

    /// Hits that were counted for no row because a map had no room for another key, by the text's events.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub(super) fn uncounted_hits(&self) -> Result<Vec<(String, u64)>> {
        let snapshots = self.session.map_snapshots()?;
        let lost = snapshots.into_iter().filter(|snapshot| snapshot.lost > 0);
        let named = lost.filter_map(|snapshot| {
            let mut specs = self.specs.iter();
            let placed = specs.find(|placed| placed.text.map == snapshot.ty.name)?;
            Some((placed.names.first()?.clone(), snapshot.lost))
        });
        Ok(named.collect())
    }
}

impl Placed {
    /// The event of a row, and its other keys as text.
    fn event_of(&self, row: &Row, ty: &MapType) -> Option<(usize, Vec<String>)> {
        let mut keys = row.keys(ty);
        let place = match self.text.by_event {
            false => 0,
            true => {
                let name = shown(keys.next()?);
                self.names.iter().position(|known| *known == name)?
            }
        };
        Some((*self.events.get(place)?, keys.map(shown).collect()))
    }
}

fn count(row: &Row, ty: &MapType) -> u64 {
    debug_assert!(ty.value.aggregation().is_some());
    u64::try_from(row.weight(ty)).unwrap_or_default()
}

fn shown(value: Value<'_>) -> String {
    let mut bytes = Vec::new();
    print::value(value, &Symbols::default(), &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The events that a text stands for on this kernel.
fn names(plan: &Plan, handler: &str) -> Vec<String> {
    let hooks = plan.hooks.iter().filter(|hook| !hook.companion);
    let of_text = hooks.filter(|hook| hook.handlers.iter().any(|row| *row.source == *handler));
    let mut names: Vec<String> = of_text
        .flat_map(|hook| hook.instances.iter().map(|instance| instance.name.clone()))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}
