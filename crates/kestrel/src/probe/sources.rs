//! Probes as sources in the event language: one for each handler of a probe, one for many functions that share a handler.

use super::Phase;
use super::definition::{Probe, ProbeKind};
use crate::plan::Hook;
use kestrel_catalog::catalog::phase::Phase as InName;
use kestrel_catalog::catalog::{Catalog, Instance};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::Parameter;
use kestrel_compiler::check::tree::Type;
use std::collections::{BTreeMap, HashSet};

/// The number of functions with the same handler from which on they share one source, and so one request to the kernel.
const MANY: usize = 17;
/// Parameters of a session that can be had, of 64 switches each.
const MAX: usize = 256 * 64;

/// Under which names the default handlers record what is no field of the event.
pub(super) const COMM: &str = "__comm";
/// The name of the field for the stack.
pub(super) const STACK: &str = "__stack";

/// A handler as it is planned, events and block, and the probes that it belongs to.
#[derive(Debug)]
pub(super) struct HandlerSource {
    pub(super) source: String,
    pub(super) phase: Phase,
    /// The probes by the event's name, where there are several; else the one probe that all its events belong to.
    pub(super) owners: Owners,
}

#[derive(Debug)]
pub(super) enum Owners {
    One(usize),
    ByEvent(BTreeMap<String, Vec<usize>>),
}

/// The sources of all handlers, and the switches that stand in them.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub(super) all: Vec<HandlerSource>,
    /// The switch of each probe; probes that share a source have none of their own.
    pub(super) switches: Vec<Option<usize>>,
    words: Vec<u64>,
}

impl Sources {
    /// The sources of these probes.
    ///
    /// # Errors
    /// Which probe is wrong by itself, and why.
    pub(super) fn of(probes: &[Probe]) -> std::result::Result<Self, (usize, Error)> {
        let mut sources = Self::default();
        let mut shared: BTreeMap<(&str, String), Vec<usize>> = BTreeMap::new();
        for (number, probe) in probes.iter().enumerate() {
            let of = |why| (number, why);
            probe.check().map_err(of)?;
            if is_plain(probe) {
                let text = handler_text(probe, probe.kind.phase(), true, None).map_err(of)?;
                shared.entry((probe.kind.name(), text)).or_default().push(number);
            }
        }
        shared.retain(|_, members| members.len() >= MANY);
        sources.switches = vec![None; probes.len()];
        for (number, probe) in probes.iter().enumerate() {
            if shared.values().all(|members| !members.contains(&number)) {
                sources.single(number, probe).map_err(|why| (number, why))?;
            }
        }
        for ((_, text), members) in shared {
            let mut owners: BTreeMap<String, Vec<usize>> = BTreeMap::new();
            for member in members {
                owners.entry(probes[member].name()).or_default().push(member);
            }
            let events: Vec<&str> = owners.keys().map(String::as_str).collect();
            let first = owners.values().flatten().next();
            sources.all.push(HandlerSource {
                source: format!("{} {text}", events.join(",")),
                phase: first.map_or(Phase::Pre, |first| probes[*first].kind.phase()),
                owners: Owners::ByEvent(owners),
            });
        }
        Ok(sources)
    }

    /// The sources of one probe, behind a switch of its own.
    fn single(&mut self, number: usize, probe: &Probe) -> Result<()> {
        let switch = self.switches.iter().flatten().count();
        let guard = (switch < MAX).then(|| {
            self.switches[number] = Some(switch);
            self.words.resize(switch / 64 + 1, 0);
            self.words[switch / 64] |= u64::from(!probe.disabled) << (switch % 64);
            format!("((__probes_{} >> {}) & 1) == 1", switch / 64, switch % 64)
        });
        let mut phases: Vec<Phase> = probe.handlers.iter().map(|(phase, _)| *phase).collect();
        if phases.is_empty() {
            phases.push(probe.kind.phase());
        }
        for phase in phases {
            let after = match (phase, probe.maxactive) {
                (Phase::Post, _) => InName::Post,
                (Phase::Fault, _) => InName::Fault,
                (Phase::Return, Some(calls)) => InName::Return(calls),
                _ => InName::Plain,
            };
            let after = after.written();
            let handler = handler_text(probe, phase, probe.is_pattern(), guard.as_deref())?;
            self.all.push(HandlerSource {
                source: format!("{}{after} {handler}", probe.name()),
                phase,
                owners: Owners::One(number),
            });
        }
        Ok(())
    }

    /// Gives the hits of a function that has several names to the probes of all of them: the plan has it by one.
    pub(super) fn meet(&mut self, hooks: &[Hook], catalog: &Catalog) {
        for one in &mut self.all {
            let Owners::ByEvent(owners) = &mut one.owners else {
                continue;
            };
            let mine = |hook: &&Hook| {
                hook.handlers
                    .first()
                    .is_some_and(|row| *row.source == *one.source)
            };
            let planned: Vec<&Instance> = hooks.iter().filter(mine).flat_map(|h| &h.instances).collect();
            let names: HashSet<&str> = planned.iter().map(|instance| instance.name.as_str()).collect();
            let absent = owners.keys().filter(|name| !names.contains(name.as_str()));
            for name in absent.cloned().collect::<Vec<_>>() {
                let identity = catalog.canonical_name(&name);
                if let Some(known) = planned.iter().find(|i| i.identity() == identity)
                    && let Some(probes) = owners.remove(&name)
                {
                    owners.entry(known.name.clone()).or_default().extend(probes);
                }
            }
        }
    }

    /// The words in which the switches are, with what they begin with.
    pub(super) fn parameters(&self) -> Vec<Parameter> {
        let of = |(number, value): (usize, &u64)| Parameter {
            name: format!("__probes_{number}"),
            ty: Type::U64,
            value: *value,
        };
        self.words.iter().enumerate().map(of).collect()
    }

    /// Turns a switch; gives the word that it is in, and what that is now.
    pub(super) fn turn(&mut self, switch: usize, on: bool) -> (usize, u64) {
        let (word, bit) = (switch / 64, 1 << (switch % 64));
        match on {
            true => self.words[word] |= bit,
            false => self.words[word] &= !bit,
        }
        (word, self.words[word])
    }

    /// Whether a switch is on.
    pub(super) fn is_on(&self, switch: usize) -> bool {
        self.words[switch / 64] >> (switch % 64) & 1 == 1
    }
}

/// Whether it is a function by its name, with one handler.
fn is_plain(probe: &Probe) -> bool {
    let several = probe
        .handlers
        .iter()
        .any(|(phase, _)| *phase != probe.kind.phase());
    let elsewhere = probe.offset.is_some()
        || probe.module.is_some()
        || probe.maxactive.is_some()
        || probe.is_pattern()
        || probe.place.contains('+')
        || probe.place.starts_with(|c: char| c.is_ascii_digit());
    // Each jprobe's parameters are its own, and each tracepoint's fields.
    !(several
        || elsewhere
        || probe.disabled
        || matches!(probe.kind, ProbeKind::Jprobe | ProbeKind::Tracepoint))
}

/// Predicate and block of a handler: the one that was given, or the default one.
fn handler_text(probe: &Probe, phase: Phase, many: bool, guard: Option<&str>) -> Result<String> {
    let mut conditions: Vec<String> = guard.map(str::to_owned).into_iter().collect();
    conditions.extend(probe.filter.as_ref().map(|filter| format!("({filter})")));
    let predicate = match conditions.as_slice() {
        [] => String::new(),
        all => format!("/{}/ ", all.join(" && ")),
    };
    let given = probe.handlers.iter().find(|(known, _)| *known == phase);
    let block = match given {
        Some((_, text)) if text.trim().is_empty() => {
            return Err(Error::Compile {
                event: probe.name(),
                why: "its text is empty, and would do nothing: leave the text out to record everything, or write count()".to_owned(),
            });
        }
        Some((_, text)) if balanced(text) => format!("{{ {text} }}"),
        Some((_, text)) => {
            return Err(Error::Compile {
                event: probe.name(),
                why: format!(
                    "`{text}` is not the inside of a block, as record(regs) is: its braces and quotes must come in pairs"
                ),
            });
        }
        None => format!("{{ {} }}", everything(probe, many)),
    };
    Ok(predicate + &block)
}

/// Whether no brace of the text closes what the text did not open.
fn balanced(text: &str) -> bool {
    let mut open = 0_i32;
    let mut quoted = false;
    let mut escaped = false;
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '{' if !quoted => open += 1,
            '}' if !quoted => open -= 1,
            _ => {}
        }
        if open < 0 {
            return false;
        }
    }
    open == 0 && !quoted
}

/// The default handler. Functions of a set have no types in common, and their registers can be had only where each is attached alone.
fn everything(probe: &Probe, many: bool) -> String {
    let mut values = Vec::new();
    match (many, probe.kind) {
        (true, ProbeKind::Kretprobe) => values.push("retval".to_owned()),
        (true, ProbeKind::Kprobe) => values.extend((0..6).map(|n| format!("arg{n}"))),
        _ => values.push("args".to_owned()),
    }
    if probe.registers && !many {
        values.push("regs".to_owned());
    }
    let entry = probe.entry.iter();
    values.extend(entry.map(|(name, expression)| format!("{name} = entry.{expression}")));
    values.push(format!("{COMM} = comm"));
    if probe.stack {
        values.push(format!("{STACK} = kstack"));
    }
    format!("record({})", values.join(", "))
}
