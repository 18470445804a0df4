//! Attaching a hook: its strategies are tried in turn until this kernel takes one; what becomes of the others is noted.

use super::{Attached, Session};
use crate::plan::constant_records::{self, ConstantRecord};
use crate::plan::{Hook, Plan, PlannedStrategy};
use crate::session::kernel_error::{can_be_left_out, is_final, reason};
use crate::session::prepare::{self, PreparedHook};
use crate::session::{Fallback, Skipped, attach, modules, verifier_error};
use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::{Error, Result};
use kestrel_hook::hook::second_chance;
use kestrel_kernel::bpf::{Map, Program, ProgramKind};
use kestrel_kernel::preemption::Preemption;
use kestrel_trace::event::{EventClass, EventId};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

impl Session {
    /// Attaches one of a plan's hooks, whose first strategy may be `ready`. One that only a pattern named is left out if the kernel refuses it.
    pub(in crate::session) fn add(
        &mut self,
        plan: &Plan,
        index: usize,
        ready: Option<PreparedHook>,
        catalog: &Catalog,
    ) -> Result<()> {
        let hook = &plan.hooks[index];
        if self
            .end_attached(plan, hook)
            .is_some_and(Attached::sees_both_ends)
        {
            let strategy = hook.strategies.first();
            self.classes.extend(strategy.map_or_else(Vec::new, |strategy| {
                hook.classes_among(strategy, &self.event_names)
            }));
            self.sharing.push(index);
            return Ok(());
        }
        match self.attach(plan, hook, ready, catalog) {
            Ok((mut attached, classes, detour)) => {
                attached.hook = index;
                let missing = attached.links.missing().iter().cloned();
                self.skipped
                    .extend(missing.map(|(event, why)| Skipped { event, why }));
                self.fallbacks.extend(detour);
                self.hooks.push(attached);
                self.classes.extend(classes);
                Ok(())
            }
            Err(error) if can_be_left_out(hook, &error) => {
                self.skipped.push(Skipped {
                    event: hook.event(),
                    why: error.to_string(),
                });
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Hooks of its plan that are attached, each with its number of probes: events that the kernel took, once for each handler. Hooks that only serve
    /// others or share their programs are none. An event whose places have a hook each, as USDT probes whose arguments lie elsewhere at each, is one probe.
    pub fn attached<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = (&'a Hook, usize)> {
        let mut counted = HashSet::new();
        self.hooks.iter().filter_map(move |attached| {
            let hook = plan.hooks.get(attached.hook).filter(|hook| !hook.companion)?;
            let missing = attached.links.missing().len();
            let again = match (hook.instances.as_slice(), hook.handlers.first()) {
                ([one], Some(handler)) => {
                    !counted.insert((hook.kind, one.name.as_str(), handler.span.start, hook.turn))
                }
                _ => false,
            };
            let events = if again { 0 } else { hook.instances.len() };
            Some((hook, events.saturating_sub(missing) * hook.merged_probes))
        })
    }

    /// Hook attached at the other end of the calls whose end a hook is at, if they were to share a program.
    fn end_attached(&self, plan: &Plan, hook: &Hook) -> Option<&Attached> {
        let call = hook.entry_exit_id?;
        let known = |attached: &&Attached| {
            plan.hooks
                .get(attached.hook)
                .is_some_and(|it| it.entry_exit_id == Some(call))
        };
        self.hooks.iter().find(known)
    }

    /// Tries the strategies of a hook in turn.
    pub(in crate::session) fn attach(
        &self,
        plan: &Plan,
        hook: &Hook,
        mut ready: Option<PreparedHook>,
        catalog: &Catalog,
    ) -> Result<(Attached, Vec<EventClass>, Option<Fallback>)> {
        let mut last: Option<Error> = None;
        // A program for both ends comes too late for one that is seen in another way.
        let alone = self.end_attached(plan, hook).is_some();
        let possible = |strategy: &PlannedStrategy| !(alone && strategy.mechanism.call_end().is_some());
        let strategies = hook.strategies.iter().enumerate();
        for (index, strategy) in strategies.filter(|(_, strategy)| possible(strategy)) {
            let ready = ready.take().map_or_else(
                || PreparedHook::compile(plan, hook, strategy, prepare::preemption(plan, catalog)),
                Ok,
            );
            let several = ready.as_ref().is_ok_and(|ready| ready.compiled.len() > 1);
            let mut attached = ready.and_then(|ready| self.attach_strategy(hook, strategy, ready, catalog));
            if several && attached.as_ref().is_err_and(second_chance::is_without_room) {
                let single = PreparedHook::compile(plan, hook, strategy, Preemption::default());
                attached = single.and_then(|ready| self.attach_strategy(hook, strategy, ready, catalog));
            }
            match attached {
                Ok(mut attached) => {
                    attached.strategy = index;
                    let detour = last.map(|why| Fallback {
                        event: attached.event.clone(),
                        used: strategy.to_string(),
                        why: reason(&why),
                    });
                    return Ok((attached, hook.classes_among(strategy, &self.event_names), detour));
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

    fn attach_strategy(
        &self,
        hook: &Hook,
        strategy: &PlannedStrategy,
        mut ready: PreparedHook,
        catalog: &Catalog,
    ) -> Result<Attached> {
        let (event, function) = (hook.event(), hook.function());
        let types = catalog.types().ok();
        let kept = RefCell::new(ready.loaded.take());
        let loaded = Cell::new(ProgramKind::RawTracepoint);
        let calls = hook.calls(strategy);
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
            .handlers
            .first()
            .map_or_else(String::new, |row| row.source.to_string());
        let (program, mut maps, links) =
            attach::attach(hook, strategy, catalog, &load_first, &load_others)
                .map_err(|error| verifier_error::explain(error, &event, &source, &ready.compiled[0].code))?;
        maps.extend(ready.numbers.map(|(_, map)| map));
        ready.seen.as_ref().map_or(Ok(()), second_chance::begin)?;
        let copies = ready.seen.as_ref().map_or(0, |_| ready.compiled.len() as u32);
        let split = constant_records::split(strategy).unwrap_or_default();
        let number = |record: ConstantRecord| (EventId(hook.first_record_id + record.record), record);
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
            mechanism: Some(strategy.mechanism.clone()),
            module: modules::ModulePlace::of(&strategy.mechanism, &hook.instances, catalog),
            module_build: modules::awaited(&strategy.mechanism)
                .and_then(|module| modules::build(catalog.host(), module)),
            constant_records: split.known.into_iter().map(number).collect(),
            idle: split.idle,
            hook: 0,
            strategy: 0,
        })
    }
}
