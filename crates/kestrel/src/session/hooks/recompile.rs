//! Recompiles a program of a running session from what the session's state says about it: with the same sources and the same numbers of records, bound to the maps
//! and buffers that the session has now. The new program goes into a slot of its hook.

use crate::plan::{
    Call, CalledProgram, Candidate, Checked, Hook, PerEventBuilder, Plan, Slot, program_types, without_set,
};
use crate::session::attached::Session;
use crate::session::hook_maps::HookMaps;
use crate::session::hook_state::hook_state;
use crate::session::pins::Directory;
use crate::session::slot_program::{compile, program_state};
use crate::session::state::{
    CallState, EventState, HandlerState, HookState, ObjectState, ProgramState, State, TableState,
};
use kestrel_catalog::catalog::phase::Phase;
use kestrel_catalog::catalog::{Catalog, Resolved, Via};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::check::tree::{Action, StatementKind};
use kestrel_compiler::lang::ast::Probe;
use kestrel_compiler::lang::diag::has_errors;
use kestrel_compiler::lang::parse_events;
use kestrel_hook::hook::process_filter::ProcessFilter;
use kestrel_hook::hook::relay::{self, Relay, RelayedHandler};
use kestrel_kernel::bpf::Program;
use kestrel_trace::event::EventClass;
use std::collections::HashMap;
use std::sync::Arc;

/// Inputs with which all programs of a session are compiled again.
pub(in crate::session) struct Recompile<'a> {
    session: &'a Session,
    directory: &'a Directory,
    catalog: &'a Catalog,
    plan: Plan,
    objects: Vec<ObjectState>,
    /// The relays: hooks that run after another hook of the event, with the table's word that it passes on.
    relays: Vec<Relay>,
    /// Kinds of record by number.
    classes: HashMap<u16, &'a EventClass>,
    programs: Vec<Program>,
}

/// The plan of a recompiled program for a slot of its hook, and of the programs that its hook's companions need with it.
pub(in crate::session) struct Recompiled {
    pub(in crate::session) hook: Hook,
    pub(in crate::session) companions: Vec<Hook>,
}

impl<'a> Recompile<'a> {
    /// Prepares the recompilation of programs that are bound to the maps of `session`; `next` is the state that the session will have.
    pub(in crate::session) fn new(
        session: &'a Session,
        next: &State,
        directory: &'a Directory,
        catalog: &'a Catalog,
    ) -> Self {
        Self {
            plan: Plan {
                tables: next.places.clone(),
                hooks: Vec::new(),
                target: ProcessFilter::All,
                buffers: next.buffer_plans(),
                globals: next.globals(next.places.clone()),
                slots: true,
                objects: Vec::new(),
                warnings: Vec::new(),
            },
            objects: next.objects.clone(),
            relays: next.hooks.iter().filter_map(|hook| hook.relay).collect(),
            classes: session.classes.iter().map(|c| (c.id.0, c)).collect(),
            programs: Vec::new(),
            session,
            directory,
            catalog,
        }
    }

    /// Sets the name of the text, so that a recompiled text finds the hidden maps that it had.
    pub(in crate::session) fn name_text(&mut self, name: String) {
        self.plan.globals.text = name;
    }

    /// The programs that were compiled and loaded.
    pub(in crate::session) fn into_programs(self) -> Vec<Program> {
        self.programs
    }

    /// Loads a program and puts it into slots of its hook.
    pub(in crate::session) fn put(&mut self, hook: &Hook, there: &HookState, into: &[u32]) -> Result<()> {
        let maps = HookMaps::open(self.directory, there)?;
        let types = self.catalog.types().ok();
        let (programs, _) = compile(
            &self.session.resources,
            &self.plan,
            hook,
            there,
            &maps,
            types.as_ref(),
        )?;
        for slot in into {
            maps.fill(*slot, &programs)?;
        }
        self.programs.extend(programs);
        Ok(())
    }

    /// Makes the companion of a recompiled hook; gives the index of the companion's hook, and its state.
    pub(in crate::session) fn companion(
        &mut self,
        mut companion: Hook,
        served: &Hook,
        state: &ProgramState,
        into: &[u32],
        hooks: &[HookState],
    ) -> Result<(usize, ProgramState)> {
        let same = |there: &HookState| {
            let names = there.events.iter().map(|event| &event.name);
            there.companion
                && there.kind == companion.kind
                && there.is_attached(&companion.strategies[0].mechanism)
                && names.eq(companion.instances.iter().map(|instance| &instance.name))
        };
        let place = hooks.iter().position(same);
        let found = place.and_then(|place| Some((place, &hooks[place], hooks[place].programs.first()?)));
        let Some((place, there, own)) = found else {
            return Err(cannot_recompile(&companion.event(), "its hook is not there"));
        };
        companion.first_record_id = own.first;
        let slot = served.slot.as_ref().map(|slot| Slot {
            hook: place,
            events: Vec::new(),
            ..slot.clone()
        });
        companion.slot.clone_from(&slot);
        self.put(&companion, there, into)?;
        let first = into.first().copied().unwrap_or_default();
        let mut made = match &slot {
            Some(slot) => program_state(&companion, slot, first),
            None => ProgramState::default(),
        };
        for (row, served) in made.rows.iter_mut().zip(&state.rows) {
            row.tables.clone_from(&served.tables);
            row.events.clone_from(&served.events);
        }
        Ok((place, made))
    }

    /// The relays that this hook passes the table's word to.
    fn leads(&self, hook: &HookState) -> Vec<Relay> {
        let mine = self.relays.iter().filter(|relay| relay.from == hook.number);
        mine.copied().collect()
    }

    /// For a hook that is a relay: puts into the table's slot of the hook before it the program that passes the table's word on, if the table has a handler for
    /// the relay. That program checks for the event as any handler does, and passes the word on where a handler would call an object. If the table masks the
    /// event, only what was left in the slot is removed.
    pub(in crate::session) fn recompile_relay(
        &mut self,
        hooks: &[HookState],
        relayed: &HookState,
        table: &TableState,
    ) -> Result<()> {
        let (Some(relay), Some(slot)) = (relayed.relay, table.slot) else {
            return Ok(());
        };
        let mut others = (0..).zip(hooks);
        let Some((index, there)) = others.find(|(_, hook)| hook.number == relay.from) else {
            let event = relayed.events.first().map_or("", |event| &event.name);
            return Err(cannot_recompile(
                event,
                "the hook is gone that looks for it at the table",
            ));
        };
        let passes = relayed.serves(table.number);
        if !passes && there.serves(table.number) {
            return Ok(());
        }
        let event = there.events.first().map_or("", |event| event.event());
        // A handler that calls an object checks for the event in the same way, so such a handler is compiled and its call replaced.
        let source: Arc<str> = format!("{event} handler \"{}\"", relay::MAP).into();
        let (probe, _) = parse_events(&source);
        let candidate = Candidate {
            probe: &probe,
            object: Some(CalledProgram::Known(String::new(), String::new())),
            source: source.clone(),
            tables: Vec::new(),
            required: true,
        };
        let is_call = |kind: &StatementKind| matches!(kind, StatementKind::Act(Action::Call { .. }));
        for mut resolved in self.resolved(there)? {
            resolved
                .strategies
                .retain(|way| there.is_attached(&way.mechanism));
            let candidates = std::slice::from_ref(&candidate);
            let checked = without_set(resolved, candidates, &mut self.plan.globals.clone());
            let Ok(Checked {
                hook: Some(mut hook), ..
            }) = checked
            else {
                continue;
            };
            let handlers = hook.strategies.iter_mut().flat_map(|way| &mut way.checked);
            handlers.for_each(|handler| handler.body.retain(|statement| is_call(&statement.kind)));
            hook.relayed_hooks = self.leads(there);
            hook.passes_to = Some(RelayedHandler {
                relay,
                word: passes.then_some(table.word().bits()),
            });
            hook.known_calls = vec![Call {
                object: String::new(),
                program: String::new(),
                entry: 0,
            }];
            hook.slot = Some(Slot {
                hook: index,
                sets: vec![Vec::new()],
                events: Vec::new(),
                only: None,
            });
            return self.put(&hook, there, &[slot]);
        }
        Err(cannot_recompile(
            event,
            "the running session sees it in a way that this kernel no longer offers",
        ))
    }

    /// Plans a program of a hook anew, for a slot of the hook. It has all of the program's rows, so that its records keep their numbers, but only the rows `live` run.
    pub(in crate::session) fn recompile_program(
        &mut self,
        there: &HookState,
        index: usize,
        program: &ProgramState,
        live: &[usize],
    ) -> Result<Recompiled> {
        let event = there.events.first().map_or("", |event| &event.name);
        let parsed: Vec<(Arc<str>, Probe)> = program.rows.iter().map(parse).collect::<Result<_>>()?;
        let candidates: Vec<Candidate<'_>> = parsed
            .iter()
            .zip(&program.rows)
            .map(|((source, probe), row)| Candidate {
                probe,
                object: row
                    .call
                    .as_ref()
                    .map(|call| CalledProgram::Known(self.path_of(call), call.program.clone())),
                source: source.clone(),
                tables: row.tables.clone(),
                required: true,
            })
            .collect();
        let mut calls: Vec<Call> = Vec::new();
        for call in program.rows.iter().filter_map(|row| row.call.as_ref()) {
            calls.push(Call {
                object: self.path_of(call),
                program: call.program.clone(),
                entry: call.entry,
            });
        }
        let globals = &self.plan.globals;
        let mut why = "the running session sees it in a way that this kernel no longer offers".to_owned();
        for mut resolved in self.resolved(there)? {
            resolved
                .strategies
                .retain(|way| there.is_attached(&way.mechanism));
            if resolved.strategies.is_empty() {
                continue;
            }
            program_types::add(
                self.catalog,
                candidates.iter().map(|one| one.probe),
                &mut resolved,
            );
            let mut checked_globals = globals.clone();
            let checked = without_set(resolved.clone(), &candidates, &mut checked_globals);
            let (mut hook, companions) = match checked {
                Ok(Checked {
                    hook: Some(hook),
                    companions,
                    ..
                }) => (hook, companions),
                Ok(_) => continue,
                Err(refused) => {
                    checked_globals = globals.clone();
                    let hook =
                        self.one_by_one(there, program, &resolved, &candidates, &mut checked_globals)?;
                    let Some(hook) = hook else {
                        if let Some(diagnostic) = refused.why.first() {
                            why.clone_from(&diagnostic.message);
                        }
                        continue;
                    };
                    (hook, Vec::new())
                }
            };
            // The programs of a named probe have the probe's name.
            for (instance, known) in hook.instances.iter_mut().zip(&there.events) {
                instance.name.clone_from(&known.name);
            }
            hook.first_record_id = program.first;
            hook.relayed_hooks = self.leads(there);
            hook.known_calls.clone_from(&calls);
            let all = |row: usize| program.rows[row].events.is_empty();
            hook.slot = Some(Slot {
                hook: index,
                sets: (0..program.rows.len())
                    .map(|row| match live.contains(&row) {
                        true => program.rows[row].events.clone(),
                        false => vec![Slot::NO_EVENT],
                    })
                    .collect(),
                events: Vec::new(),
                only: match live {
                    &[row] if all(row) => Some(row),
                    _ => None,
                },
            });
            if !program.events.is_empty() {
                hook.keep_only(&program.events);
            }
            let ways = std::mem::take(&mut hook.strategies);
            hook.strategies = ways
                .into_iter()
                .filter(|way| hook.classes(way).iter().all(|class| self.is_known(class)))
                .collect();
            if hook.strategies.is_empty() || checked_globals.maps.len() != globals.maps.len() {
                "its records would look different".clone_into(&mut why);
                continue;
            }
            self.plan.globals = checked_globals;
            return Ok(Recompiled { hook, companions });
        }
        Err(cannot_recompile(event, &why))
    }

    /// A hook that sees a system call at its function (one that has no relay) as one at the tracepoint, attached and pinned as hook `number`, with the program that is attached
    /// there in the place of the one that is attached here; `tables` gives the numbers that tables will have.
    pub(in crate::session) fn at_tracepoint(
        &mut self,
        there: &HookState,
        number: u32,
        tables: &dyn Fn(&[u32]) -> Vec<u32>,
    ) -> Result<HookState> {
        let event = there.events.first().map_or("", |event| &event.name);
        let mut refused = cannot_recompile(event, "it cannot be seen at its tracepoint");
        let own = there.programs.iter().find(|program| program.slot.is_none());
        let own = own.ok_or_else(|| cannot_recompile(event, "it has no program of its own"))?;
        let rows: Vec<usize> = (0..own.rows.len()).collect();
        let resolved = self.resolved(there)?;
        let ways = resolved.iter().flat_map(|resolved| &resolved.strategies);
        let elsewhere = ways.filter(|way| !there.is_attached(&way.mechanism));
        for mechanism in elsewhere.map(|way| way.mechanism.clone()) {
            let other = HookState {
                attached: Some(mechanism),
                ..there.clone()
            };
            let made = self.recompile_program(&other, 0, own, &rows).and_then(|again| {
                let mut hook = again.hook;
                hook.slot = None;
                for (row, was) in hook.handlers.iter_mut().zip(&own.rows) {
                    row.tables = tables(&was.tables);
                }
                let attached = self.session.attach(&self.plan, &hook, None, self.catalog)?.0;
                Ok((hook, attached))
            });
            match made {
                Ok((hook, mut attached)) => {
                    attached.pin(number, self.directory)?;
                    // From here on the tracefs events are removed with the pins.
                    attached.links.persist();
                    let state = hook_state(number, &hook, &attached, &self.session.resources.objects);
                    self.programs.push(attached.program);
                    return Ok(state);
                }
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    fn is_known(&self, class: &EventClass) -> bool {
        let known = self.classes.get(&class.id.0);
        known.is_some_and(|k| k.name == class.name && k.kind == class.kind && k.layout == class.layout)
    }

    fn path_of(&self, call: &CallState) -> String {
        let object = self.objects.iter().find(|object| object.number == call.object);
        object.map_or_else(String::new, |object| object.path.clone())
    }

    /// Checks handlers that ask for what only their own events have: each for the first of them, as all of a row's events are read
    /// in one way.
    fn one_by_one(
        &self,
        there: &HookState,
        program: &ProgramState,
        set: &Resolved,
        candidates: &[Candidate<'_>],
        globals: &mut Globals,
    ) -> Result<Option<Hook>> {
        let mut builder = PerEventBuilder::new(set);
        for (candidate, row) in candidates.iter().zip(&program.rows) {
            let mut hook = builder.of_set(candidate, globals);
            let event = row
                .events
                .first()
                .and_then(|place| there.events.get(usize::from(*place)));
            if let (None, Some(event)) = (&hook, event) {
                let member = self.catalog.member(&there.kind, event.event())?;
                let mut ones = member.into_iter().chain(self.named(there, event.event())?);
                hook = ones.find_map(|one| {
                    let mut trial = globals.clone();
                    let hook = builder.of_one(one, candidate, &mut trial)?;
                    *globals = trial;
                    Some(hook)
                });
            }
            let Some(hook) = hook else {
                return Ok(None);
            };
            builder.add(hook);
        }
        Ok(Some(builder.into_hook(false)))
    }

    /// Resolves a hook's events, by each way in which they can be named.
    fn resolved(&self, there: &HookState) -> Result<Vec<Resolved>> {
        let events = there.events.iter().map(EventState::event);
        let names: Vec<String> = events.map(str::to_owned).collect();
        let mut all = Vec::new();
        if let [name] = names.as_slice() {
            all = self.named(there, name)?;
        }
        all.extend(self.catalog.set(&there.kind, &names, Via::Auto)?);
        Ok(all)
    }

    /// Resolves one of a hook's events by its name.
    fn named(&self, there: &HookState, name: &str) -> Result<Vec<Resolved>> {
        let asked = match there.maxactive() {
            Some(most) => format!("{name}{}", Phase::Return(most).written()),
            None => name.to_owned(),
        };
        let (probe, _) = parse_events(&asked);
        let mut all = Vec::new();
        for via in [Via::Auto, Via::Classic] {
            for spec in &probe.events {
                let found = self.catalog.resolve(spec, via)?;
                all.extend(found.into_iter().filter(|resolved| {
                    resolved.kind == there.kind
                        && matches!(resolved.instances.as_slice(), [one] if one.name == name)
                }));
            }
        }
        Ok(all)
    }
}

fn cannot_recompile(event: &str, why: &str) -> Error {
    Error::Compile {
        event: event.to_owned(),
        why: format!("{why}; start the session anew"),
    }
}

/// Parses a handler's text.
fn parse(row: &HandlerState) -> Result<(Arc<str>, Probe)> {
    let (probe, diagnostics) = parse_events(&row.source);
    if has_errors(&diagnostics) {
        return Err(Error::Program {
            source_text: row.source.to_string(),
            diagnostics,
        });
    }
    Ok((row.source.clone(), probe))
}
