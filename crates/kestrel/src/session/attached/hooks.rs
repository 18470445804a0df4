//! Attaching a hook: its strategies are tried in turn until this kernel takes one; what becomes of the others is noted.

use super::{Attached, Session};
use crate::plan::known::{self, KnownRecord};
use crate::plan::{Hook, Plan, PlannedStrategy};
use crate::session::prepare::{self, Ready};
use crate::session::refusal::{can_be_left_out, is_final, reason};
use crate::session::{Fallback, Skipped, attach, modules, rejection};
use kestrel_catalog::attach::Mechanism;
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::{Error, Result};
use kestrel_hook::hook::second_chance;
use kestrel_kernel::bpf::{Map, Program, ProgramKind};
use kestrel_kernel::preemption::Preemption;
use kestrel_trace::event::{EventClass, EventId};
use std::cell::{Cell, RefCell};

impl Session {
    /// Attaches one of a plan's hooks, whose first strategy may be `ready`. One that only a pattern named is left out if the kernel refuses it.
    pub(in crate::session) fn add(
        &mut self,
        plan: &Plan,
        index: usize,
        ready: Option<Ready>,
        catalog: &Catalog,
    ) -> Result<()> {
        let hook = &plan.hooks[index];
        if self
            .end_attached(plan, hook)
            .is_some_and(Attached::sees_both_ends)
        {
            let way = hook.ways.first();
            self.classes
                .extend(way.map_or_else(Vec::new, |way| hook.classes(way)));
            self.sharing.push(index);
            return Ok(());
        }
        match self.attach(plan, hook, ready, catalog) {
            Ok((mut attached, classes, detour)) => {
                attached.hook = index;
                let missing = attached.links.missing().iter().cloned();
                self.left_out
                    .extend(missing.map(|(event, why)| Skipped { event, why }));
                self.detours.extend(detour);
                self.hooks.push(attached);
                self.classes.extend(classes);
                Ok(())
            }
            Err(error) if can_be_left_out(hook, &error) => {
                self.left_out.push(Skipped {
                    event: hook.event(),
                    why: error.to_string(),
                });
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Hooks of its plan that are attached, each with its number of probes: events that the kernel took, once for each handler. Hooks that only serve
    /// others or share their programs are none.
    pub fn attached<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = (&'a Hook, usize)> {
        self.hooks.iter().filter_map(|attached| {
            let hook = plan.hooks.get(attached.hook).filter(|hook| !hook.companion)?;
            let missing = attached.links.missing().len();
            Some((hook, hook.instances.len().saturating_sub(missing) * hook.handlers))
        })
    }

    /// Hook attached at the other end of the calls whose end a hook is at, if they were to share a program.
    fn end_attached(&self, plan: &Plan, hook: &Hook) -> Option<&Attached> {
        let call = hook.call?;
        let known = |attached: &&Attached| {
            plan.hooks
                .get(attached.hook)
                .is_some_and(|it| it.call == Some(call))
        };
        self.hooks.iter().find(known)
    }

    /// Tries the strategies of a hook in turn.
    pub(in crate::session) fn attach(
        &self,
        plan: &Plan,
        hook: &Hook,
        mut ready: Option<Ready>,
        catalog: &Catalog,
    ) -> Result<(Attached, Vec<EventClass>, Option<Fallback>)> {
        let mut last: Option<Error> = None;
        // A program for both ends comes too late for one that is seen in another way.
        let alone = self.end_attached(plan, hook).is_some();
        let possible = |way: &PlannedStrategy| !(alone && matches!(way.mechanism, Mechanism::Calls(_)));
        let ways = hook.ways.iter().enumerate();
        for (index, way) in ways.filter(|(_, way)| possible(way)) {
            let ready = ready.take().map_or_else(
                || Ready::compile(plan, hook, way, prepare::preemption(plan, catalog)),
                Ok,
            );
            let several = ready.as_ref().is_ok_and(|ready| ready.compiled.len() > 1);
            let mut attached = ready.and_then(|ready| self.attach_way(hook, way, ready, catalog));
            if several && attached.as_ref().is_err_and(second_chance::is_without_room) {
                let single = Ready::compile(plan, hook, way, Preemption::default());
                attached = single.and_then(|ready| self.attach_way(hook, way, ready, catalog));
            }
            match attached {
                Ok(mut attached) => {
                    attached.way = index;
                    let detour = last.map(|why| Fallback {
                        event: attached.event.clone(),
                        way: way.to_string(),
                        why: reason(&why),
                    });
                    return Ok((attached, hook.classes(way), detour));
                }
                Err(error) if is_final(&error) => return Err(error),
                Err(error) => last = Some(error),
            }
        }
        let event = hook.event();
        Err(last.unwrap_or(Error::Compile {
            event,
            why: "no way to see it was found".to_owned(),
        }))
    }

    fn attach_way(
        &self,
        hook: &Hook,
        way: &PlannedStrategy,
        mut ready: Ready,
        catalog: &Catalog,
    ) -> Result<Attached> {
        let (event, function) = (hook.event(), hook.function());
        let types = catalog.types().ok();
        let kept = RefCell::new(ready.loaded.take());
        let loaded = Cell::new(ProgramKind::RawTracepoint);
        let calls = hook.calls(way);
        let load = |number: usize, kind: ProgramKind| -> Result<(Program, Vec<Map>)> {
            let kept = kept.borrow_mut().as_mut().and_then(|(known, programs)| {
                let there = *known == kind && !programs.is_empty();
                there.then(|| programs.remove(0))
            });
            let made = match kept {
                Some(made) => made,
                None => {
                    let compiled = &ready.compiled[number];
                    let given = ready.maps(number);
                    self.resources.load(
                        (&event, &function),
                        kind,
                        &compiled.code,
                        &compiled.maps,
                        types.as_ref(),
                        &given,
                    )?
                }
            };
            Ok(made)
        };
        let load_first = |kind: ProgramKind| {
            loaded.set(kind);
            let made = load(0, kind)?;
            // The first program that uses a program array decides which programs it takes.
            if let Some(slots) = ready.slots.first() {
                self.resources.objects.fill(slots, &calls, kind)?;
            }
            Ok(made)
        };
        let load_others = |kind: ProgramKind| {
            let others = 1..ready.compiled.len();
            others.map(|number| Ok(load(number, kind)?.0)).collect()
        };
        let source = hook
            .rows
            .first()
            .map_or_else(String::new, |row| row.source.to_string());
        let (program, mut maps, links) = attach::attach(hook, way, catalog, &load_first, &load_others)
            .map_err(|error| rejection::explain(error, &event, &source, &ready.compiled[0].code))?;
        maps.extend(ready.numbers.map(|(_, map)| map));
        ready.seen.as_ref().map_or(Ok(()), second_chance::begin)?;
        let copies = ready.seen.as_ref().map_or(0, |_| ready.compiled.len() as u32);
        let split = known::split(way).unwrap_or_default();
        let number = |record: KnownRecord| (EventId(hook.first + record.record), record);
        Ok(Attached {
            event,
            others: hook.instances.len().saturating_sub(1),
            program,
            _maps: maps,
            links,
            slots: ready.slots,
            seen: ready.seen,
            copies,
            kind: loaded.get(),
            mechanism: Some(way.mechanism.clone()),
            module: modules::ModulePlace::of(&way.mechanism, &hook.instances, catalog),
            module_build: modules::awaited(&way.mechanism)
                .and_then(|module| modules::build(catalog.host(), module)),
            known: split.known.into_iter().map(number).collect(),
            idle: split.idle,
            hook: 0,
            way: 0,
        })
    }
}
