//! Dispatch of records to the closures of probes: which probe a record belongs to, and the [`Hit`] that is made of it.

use super::definition::{Closure, Probe};
use super::sources::{COMM, HandlerSource, Owners, STACK};
use super::{Frame, Hit, Phase, Registers, Value};
use crate::callbacks::{Callback, Callbacks};
use crate::plan::{Hook, Plan};
use crate::session::Session;
use kestrel_catalog::arch;
use kestrel_catalog::symbols::all_symbols;
use kestrel_kernel::kallsyms::Kallsyms;
use kestrel_kernel::{Host, procfs};
use kestrel_trace::event::EventClass;
use kestrel_trace::info::ClockOffset;
use kestrel_trace::layout::{FieldType, Space};
use kestrel_trace::print::counted;
use kestrel_trace::record::Record;
use kestrel_trace::symbol::Symbols;
use kestrel_trace::value;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::time::{Duration, SystemTime};

/// The closures of all probes, and what hits are made with.
pub(super) struct Dispatch {
    routes: HashMap<u16, Route>,
    closures: Vec<Callbacks<Closure>>,
    hits: Vec<u64>,
    clock: ClockOffset,
    symbols: Symbols,
    host: Host,
}

/// Route of one kind of record to its closure.
#[derive(Debug)]
struct Route {
    probes: Vec<usize>,
    phase: Phase,
    /// Places of the registers among the fields.
    registers: Range<usize>,
    /// Names of the function's arguments.
    arguments: Vec<String>,
}

impl Owners {
    fn of(&self, event: &str) -> Vec<usize> {
        match self {
            Self::One(probe) => vec![*probe],
            Self::ByEvent(probes) => probes.get(event).cloned().unwrap_or_default(),
        }
    }

    /// Name for messages: the probe, or the first of many.
    pub(super) fn name(&self, probes: &[Probe]) -> String {
        match self {
            Self::One(probe) => probes[*probe].name(),
            Self::ByEvent(all) => format!(
                "{} ({}, …)",
                counted(all.len() as u64, "function"),
                all.keys().next().map_or("", String::as_str)
            ),
        }
    }
}

impl Dispatch {
    pub(super) fn new(
        plan: &Plan,
        sources: &[HandlerSource],
        session: &Session,
        given: Vec<Vec<(i32, Box<Closure>)>>,
        host: &Host,
    ) -> Self {
        let mut routes = HashMap::new();
        for hook in &plan.hooks {
            let source = hook.handlers.first().map(|row| row.source.as_ref());
            let Some(found) = sources.iter().find(|one| Some(one.source.as_str()) == source) else {
                continue;
            };
            let arguments = arguments(hook);
            // Each event of a set has as many numbers as its handlers have kinds of record.
            let numbers = (hook.first_record_id..).step_by(usize::from(hook.records.max(1)));
            for (first, instance) in numbers.zip(&hook.instances) {
                for id in first..first + hook.records {
                    let class = session.classes().iter().find(|class| class.id.0 == id);
                    let route = Route {
                        probes: found.owners.of(&instance.name),
                        phase: found.phase,
                        registers: class.map_or(0..0, registers),
                        arguments: arguments.clone(),
                    };
                    routes.insert(id, route);
                }
            }
        }
        let stack = |class: &EventClass| {
            let is = |ty: &FieldType| {
                matches!(
                    ty,
                    FieldType::Stack {
                        space: Space::Kernel,
                        ..
                    }
                )
            };
            class.layout.fields().iter().any(|field| is(&field.ty))
        };
        let symbols = match session.classes().iter().any(stack) {
            true => Kallsyms::read(host)
                .map(|table| all_symbols(&table))
                .unwrap_or_default(),
            false => Symbols::default(),
        };
        let closures: Vec<Callbacks<Closure>> = given.iter().map(|_| Callbacks::default()).collect();
        for (callbacks, given) in closures.iter().zip(given) {
            for (priority, closure) in given {
                callbacks.register(priority, closure).keep();
            }
        }
        Self {
            routes,
            hits: vec![0; closures.len()],
            closures,
            clock: session.info().clock,
            symbols,
            host: host.clone(),
        }
    }

    /// Hits of a probe so far.
    pub(super) fn hits(&self, probe: usize) -> u64 {
        self.hits.get(probe).copied().unwrap_or_default()
    }

    /// Gives a record to the closures that it is for; says whether it is a hit.
    pub(super) fn give(&mut self, record: &Record<'_>) -> bool {
        let Some(route) = self.routes.get(&record.event.id.0) else {
            return false;
        };
        for &probe in &route.probes {
            if let Some(hits) = self.hits.get_mut(probe) {
                *hits += 1;
            }
        }
        // A hit is costly to make: registers, symbols, perhaps /proc.
        let heard = |probe: &usize| self.closures.get(*probe).is_some_and(|all| !all.is_empty());
        if !route.probes.iter().any(heard) {
            return true;
        }
        let mut hit = self.hit(route, record);
        for &probe in &route.probes {
            if let Some(callbacks) = self.closures.get(probe) {
                hit.probe = probe;
                callbacks.each(|closure| closure(&hit));
            }
        }
        true
    }

    /// Registers a closure of a probe.
    pub(super) fn register(&self, probe: usize, priority: i32, closure: Box<Closure>) -> Option<Callback> {
        Some(self.closures.get(probe)?.register(priority, closure))
    }

    /// The closures of a probe, to register some elsewhere.
    pub(super) fn callbacks(&self, probe: usize) -> Option<Callbacks<Closure>> {
        self.closures.get(probe).cloned()
    }

    fn hit(&self, route: &Route, record: &Record<'_>) -> Hit {
        let when = Duration::from_nanos(record.time_ns);
        let mut hit = Hit {
            probe: 0,
            event: record.event.name.clone(),
            phase: route.phase,
            when,
            time: SystemTime::UNIX_EPOCH + Duration::new(self.clock.seconds, self.clock.nanoseconds) + when,
            cpu: record.cpu,
            pid: record.pid,
            tid: record.tid,
            comm: String::new(),
            registers: None,
            arguments: Vec::new(),
            stack: Vec::new(),
            fields: Vec::new(),
        };
        let mut registers = Vec::new();
        for (place, (field, it)) in record.fields().enumerate() {
            if route.registers.contains(&place) {
                let saved = &arch::current().registers[place - route.registers.start];
                registers.push((saved.name, Value::from(it)));
                continue;
            }
            match (field.name.as_str(), it) {
                (COMM, it) => hit.comm = it.as_text().unwrap_or_default().into_owned(),
                (STACK | "kstack", value::Value::Stack(frames)) => {
                    hit.stack = frames.iter().map(|address| self.frame(address)).collect();
                }
                (name, it) if route.arguments.iter().any(|known| known == name) => {
                    hit.arguments.push((name.to_owned(), Value::from(it)));
                }
                (name, it) => hit.fields.push((name.to_owned(), Value::from(it))),
            }
        }
        if !registers.is_empty() {
            hit.registers = Some(Registers(registers));
        }
        // The text did not record the name: what /proc says may be younger than the hit.
        if hit.comm.is_empty() {
            hit.comm = procfs::comm(&self.host, record.tid).unwrap_or_default();
        }
        hit
    }

    fn frame(&self, address: u64) -> Frame {
        let found = self.symbols.resolve(address);
        Frame {
            address,
            symbol: found.map(|found| format!("{}+{:#x}", found.name, found.offset)),
        }
    }
}

/// Names by which handlers read a function's arguments.
fn arguments(hook: &Hook) -> Vec<String> {
    let context = hook.strategies.first().map(|way| &way.context);
    let typed = context.into_iter().flat_map(|context| &context.fields);
    let typed = typed.map(|field| field.name.clone());
    let raw = context.map_or(0, |context| context.arguments.len());
    typed
        .chain((0..raw).map(|number| format!("arg{number}")))
        .collect()
}

/// Places of all registers among the fields of a record. One whose name another field has already has a number behind it: `di_1`.
fn registers(class: &EventClass) -> Range<usize> {
    let names: Vec<&str> = class.layout.shown().map(|field| field.name.as_str()).collect();
    let all = arch::current().registers;
    let is = |name: &&str, wanted: &str| {
        let rest = name.strip_prefix(wanted);
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('_').is_some_and(|n| n.parse::<u32>().is_ok())
        })
    };
    let found = names
        .windows(all.len())
        .position(|names| names.iter().zip(all).all(|(name, saved)| is(name, saved.name)));
    found.map_or(0..0, |first| first..first + all.len())
}

impl fmt::Debug for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatch")
            .field("routes", &self.routes)
            .field("hits", &self.hits)
            .finish_non_exhaustive()
    }
}
