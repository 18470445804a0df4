//! A table for a session that runs already: programs for its hooks' slots, and new hooks only for events that it does not see yet.

use super::check_handlers::{CalledProgram, Candidate, Refused, without_set};
use super::events::Events;
use super::existing::{Existing, ExistingHook};
use super::hook::{Hook, Slot};
use super::per_event::PerEventBuilder;
use super::planned::{self, Plan};
use super::planner::cells::{Cell, Cells};
use super::planner::{Done, Planner};
use super::source::Options;
use super::{KERNEL_STACKS, control_groups, control_groups_in, program_types, relayed, trust};
use kestrel_catalog::catalog::{Catalog, Resolved, Via};
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_hook::buffer::REMOVED;
use kestrel_hook::table::TableFile;

/// Plans one table of a file for a session that runs: hooks with a [`Slot`] are programs for hooks of the session, the others are new hooks whose
/// rows know the table's `number`. Buffers are the session's; parameters that it does not have are added.
///
/// # Errors
/// [`Error::Table`] with all that is wrong, among it what only a new session could do; [`Error::AtFunction`] where hooks must be made anew first; or why this kernel cannot be asked.
pub fn plan_load(
    existing: &Existing,
    file: &TableFile,
    table: &str,
    number: u32,
    catalog: &Catalog,
    via: Via,
) -> Result<Plan> {
    if file.table(table).is_none() {
        return Err(file.no_table(table));
    }
    let mut globals = existing.globals.clone();
    globals.max_map_keys = file.max_map_keys;
    globals.tables.clone_from(&existing.tables);
    if !globals.tables.iter().any(|known| known == table) {
        globals.tables.push(table.to_owned());
    }
    let mut planner = begin(existing, file, globals, catalog, via);
    let mut cells = planner.tables(file, &[table])?;
    // Hooks that are attached come first: an event that one of them sees must not get a second hook, which would double its hits.
    let mut hooks = Vec::new();
    let mut relayed = Vec::new();
    let mut at_function = Vec::new();
    for (place, hook) in existing.hooks.iter().enumerate() {
        if let Some(event) = relayed::misfit(&cells[0], hook, &planner) {
            // A hook at the function of a system call has no relay; it has to move to the tracepoint before the table can be loaded.
            if !hook.mechanism.relays() {
                cells[0][event] = None;
                at_function.push(hook);
                continue;
            }
            // A relay that another table made may serve the handler already.
            let others = existing.hooks.get(place + 1..).unwrap_or_default();
            if !relayed::is_served(event, others, &cells[0], &planner) && !hook.is_relay {
                relayed.push((event, hook));
            }
            continue;
        }
        let mine = take_cells(&mut cells[0], hook, &planner);
        hooks.extend(into_slot(
            &mut planner,
            catalog,
            via,
            place,
            existing,
            &mine,
            number,
        )?);
    }
    for (event, from) in relayed {
        hooks.extend(relayed::hook(&mut planner, &mut cells[0], event, from, number)?);
    }
    let groups = planner.groups(&cells)?;
    for mut hook in planner.hooks(groups, &[number]) {
        // Only companions: what a table names was given to the hooks that are there before.
        if let Some(place) = existing_hook(&hook, existing) {
            let sets = vec![Vec::new(); hook.handlers.len()];
            hook.slot = Some(Slot {
                hook: place,
                sets,
                events: Vec::new(),
                only: None,
            });
        }
        hooks.push(hook);
    }
    let plan = finished(planner, hooks, existing, file)?;
    match at_function.is_empty() {
        true => Ok(plan),
        false => Err(Error::AtFunction {
            hooks: at_function.iter().map(|hook| hook.number).collect(),
            events: at_function
                .iter()
                .flat_map(|hook| hook.instances.clone())
                .collect(),
        }),
    }
}

/// Plans a named probe for a session that runs: hooks of its own whose rows stand in the table of this `number`, whatever hooks are there. What
/// it keeps for itself is its own, too: two probes of the same text do not take each other's.
///
/// # Errors
/// As [`plan_load`].
pub(crate) fn plan_named(
    existing: &Existing,
    file: &TableFile,
    number: u32,
    catalog: &Catalog,
    via: Via,
) -> Result<Plan> {
    let mut globals = existing.globals.clone();
    globals.max_map_keys = file.max_map_keys;
    globals.text = format!("probe {}", file.name);
    let mut planner = begin(existing, file, globals, catalog, via);
    planner.events.with_modules = false;
    let names: Vec<&str> = file.table_names().collect();
    let cells = planner.tables(file, &names)?;
    let groups = planner.groups(&cells)?;
    let hooks = planner.hooks(groups, &[number]);
    finished(planner, hooks, existing, file)
}

/// The plan of these hooks, numbered behind those of the running session.
fn finished(
    planner: Planner<'_>,
    mut hooks: Vec<Hook>,
    existing: &Existing,
    file: &TableFile,
) -> Result<Plan> {
    let Done {
        globals,
        objects,
        warnings,
    } = planner.finish()?;
    planned::number(&mut hooks, existing.next_number)?;
    let plan = Plan {
        objects,
        tables: globals.tables.clone(),
        hooks,
        target: existing.target.clone(),
        buffers: existing.buffers.clone(),
        globals,
        slots: true,
        warnings,
    };
    trust::check(file, plan)
}

fn begin<'a>(
    existing: &Existing,
    file: &TableFile,
    mut globals: Globals,
    catalog: &'a Catalog,
    via: Via,
) -> Planner<'a> {
    for parameter in &file.parameters {
        if globals.parameter(&parameter.name).is_none() {
            globals.parameters.push(parameter.clone());
        }
    }
    let groups = control_groups(control_groups_in(&file.text), catalog);
    globals.control_groups.extend(groups);
    if file.text.contains(KERNEL_STACKS) {
        catalog.learn_dispatchers();
    }
    let options = Options {
        target: existing.target.clone(),
        via,
        ..Options::default()
    };
    let mut planner = Planner::new(catalog, options, globals);
    planner.begin_file(file);
    buffers_exist(&mut planner, file, existing);
    planner
}

/// Loading a table makes no buffers, and leaves those that are there as they are.
fn buffers_exist(planner: &mut Planner<'_>, file: &TableFile, existing: &Existing) {
    for buffer in file.buffers.iter().filter(|b| b.span.end > 0) {
        let name = &buffer.name;
        let option = match &buffer.process {
            Some(owner) => format!(" --process {owner}"),
            None => String::new(),
        };
        let create = format!("kestrel buffer create {name} {}{option}", buffer.bytes);
        let Some(known) = existing.buffers.iter().find(|known| known.name == *name) else {
            let there = existing.buffers.iter().filter(|b| !b.name.starts_with(REMOVED));
            let there: Vec<&str> = there.map(|b| b.name.as_str()).collect();
            let message = format!("the running session has no buffer \"{name}\"");
            let hint = format!("it has {}; `{create}` makes this one", there.join(", "));
            planner
                .findings
                .wrong(vec![Diagnostic::error(buffer.span, message).hint(hint)]);
            continue;
        };
        if known.process != buffer.process {
            let message = match &known.process {
                Some(owner) => format!("the running session's buffer \"{name}\" is for the process {owner}"),
                None => format!("the running session's buffer \"{name}\" is for no process of its own"),
            };
            let hint = format!(
                "`kestrel buffer remove {name}`, then `{create}`, make it anew; or give this one another name"
            );
            planner
                .findings
                .wrong(vec![Diagnostic::error(buffer.span, message).hint(hint)]);
        }
    }
}

/// Takes the handlers of a hook's events out of the table, in the order of the hook's events.
fn take_cells(cells: &mut Cells, hook: &ExistingHook, planner: &Planner<'_>) -> Vec<Option<Cell>> {
    let of = |name: &String| {
        let event = planner.events.named(&hook.kind, name)?;
        cells.get_mut(event)?.take()
    };
    hook.instances.iter().map(of).collect()
}

/// The program for one hook's slot, where the table has a handler for any of its events.
fn into_slot(
    planner: &mut Planner<'_>,
    catalog: &Catalog,
    via: Via,
    place: usize,
    existing: &Existing,
    cells: &[Option<Cell>],
    number: u32,
) -> Result<Vec<Hook>> {
    let hook = &existing.hooks[place];
    if cells.iter().all(Option::is_none) {
        return Ok(Vec::new());
    }
    let numbers = vec![number; cells.len()];
    let resolved = match hook.instances.as_slice() {
        [name] => planner.events.one_at(&hook.kind, name, &hook.mechanism),
        several => catalog.set(&hook.kind, several, via)?,
    };
    let Some(mut resolved) = resolved else {
        return Err(no_strategy(hook));
    };
    resolved
        .strategies
        .retain(|strategy| strategy.mechanism.is_same_place(&hook.mechanism));
    if resolved.strategies.is_empty() {
        return Err(no_strategy(hook));
    }
    check_maxactive(&resolved, hook)?;
    // The program runs in a slot of the hook as it is attached, whatever details a new one would be attached with.
    for strategy in &mut resolved.strategies {
        strategy.mechanism = hook.mechanism.clone();
    }
    let mut globals = planner.globals.clone();
    let (mut candidates, own) = planner.candidates(cells, &numbers);
    for candidate in &mut candidates {
        candidate.object = candidate.object.take().map(CalledProgram::there);
    }
    program_types::add(catalog, candidates.iter().map(|one| one.probe), &mut resolved);
    let one_by_one = PerEvent {
        events: &planner.events,
        catalog,
        hook,
        cells,
        own: &own,
    };
    let checked = match without_set(resolved.clone(), &candidates, &mut globals) {
        Ok(checked) if checked.refused.is_empty() || hook.instances.len() == 1 => checked,
        whole => {
            // Checked for the whole set, a handler has only the fields that all events of the set have. Checked for its own events it has theirs, too.
            let mut trial = planner.globals.clone();
            match (one_by_one.check(&resolved, &candidates, &mut trial), whole) {
                (Some((mut planned, sets)), _) => {
                    check_body_count(&planned)?;
                    drop(candidates);
                    planner.globals = trial;
                    planned
                        .handlers
                        .iter_mut()
                        .for_each(|row| row.tables = vec![number]);
                    planned.slot = Some(Slot {
                        hook: place,
                        sets,
                        events: Vec::new(),
                        only: None,
                    });
                    planned.leave_out_idle();
                    return Ok(vec![planned]);
                }
                (None, Ok(checked)) => checked,
                (None, Err(refused)) => {
                    let handler = own[refused.candidate];
                    let why = one_by_one.why(&resolved, refused, &candidates, &planner.globals);
                    drop(candidates);
                    planner.refused(handler, cells, why);
                    return Ok(Vec::new());
                }
            }
        }
    };
    drop(candidates);
    planner.globals = globals;
    // Optional handlers (those of patterns) that failed are left out; the others keep their order.
    let out: Vec<usize> = checked.refused.iter().map(|r| r.candidate).collect();
    for refused in checked.refused {
        planner.left_out(own[refused.candidate], refused.why, &checked.names);
    }
    let Some(mut planned) = checked.hook else {
        return Ok(Vec::new());
    };
    let kept: Vec<usize> = (0..own.len())
        .filter(|c| !out.contains(c))
        .map(|c| own[c])
        .collect();
    for row in &mut planned.handlers {
        row.tables = vec![number];
    }
    planned.slot = Some(Slot {
        hook: place,
        sets: events_by_handler(cells, &kept),
        events: Vec::new(),
        only: None,
    });
    planned.leave_out_idle();
    let mut hooks = checked.companions;
    for companion in &mut hooks {
        place_companion(companion, &planned, existing)?;
    }
    hooks.push(planned);
    Ok(hooks)
}

/// Check of a set's handlers for one event each: the program that the set's hook calls finds out which event it is first, so a handler may use
/// the fields of its own event.
struct PerEvent<'a, 'c> {
    events: &'a Events<'c>,
    catalog: &'a Catalog,
    hook: &'a ExistingHook,
    cells: &'a [Option<Cell>],
    /// The handler of each candidate.
    own: &'a [usize],
}

impl PerEvent<'_, '_> {
    /// A hook with a row for each handler, and more rows where it reads its events differently, and the indices of the rows' events; `None`
    /// where a handler fails its check for an event, or needs a companion.
    fn check(
        &self,
        set: &Resolved,
        candidates: &[Candidate<'_>],
        globals: &mut Globals,
    ) -> Option<(Hook, Vec<Vec<u16>>)> {
        let mut builder = PerEventBuilder::new(set);
        let mut sets = Vec::new();
        for (candidate, &handler) in candidates.iter().zip(self.own) {
            let cells = (0..).zip(self.cells);
            let mine = cells.filter(|(_, cell)| cell.is_some_and(|c| c.handler == handler));
            let mine: Vec<u16> = mine.map(|(place, _)| place).collect();
            if let Some(hook) = builder.of_set(candidate, globals) {
                builder.add(hook);
                sets.push(mine);
                continue;
            }
            let first = builder.rows();
            for place in mine {
                let name = self.hook.instances.get(usize::from(place))?;
                let hook = builder.of_one(self.one(name)?, candidate, globals)?;
                // Many events have the handler's fields at the same offsets: one body serves them all.
                match builder.same(first, &hook) {
                    Some(row) => sets[row].push(place),
                    None => {
                        builder.add(hook);
                        sets.push(vec![place]);
                    }
                }
            }
        }
        let optional = candidates.iter().all(|candidate| !candidate.required);
        Some((builder.into_hook(optional), sets))
    }

    /// An event of the set, with what the set's program can know of it.
    fn one(&self, name: &str) -> Option<Resolved> {
        let member = self.catalog.member(&self.hook.kind, name).ok().flatten();
        member.or_else(|| self.alone(name))
    }

    /// An event of the set by itself.
    fn alone(&self, name: &str) -> Option<Resolved> {
        self.events.one_called(&self.hook.kind, name)
    }

    /// The reason why a handler fails, found at its own events. The diagnostics about the set can mislead: the handler may ask for a field that its event does
    /// not have, or that only a hook at the event's own tracepoint knows.
    fn why(
        &self,
        set: &Resolved,
        refused: Refused,
        candidates: &[Candidate<'_>],
        globals: &Globals,
    ) -> Vec<Diagnostic> {
        let (candidate, handler) = (&candidates[refused.candidate], self.own[refused.candidate]);
        let cells = self.hook.instances.iter().zip(self.cells);
        let mine = cells.filter(|(_, cell)| cell.is_some_and(|c| c.handler == handler));
        for (name, _) in mine {
            let (Some(alone), Some(one)) = (self.alone(name), self.one(name)) else {
                continue;
            };
            let mut trial = globals.clone();
            if PerEventBuilder::new(set)
                .of_one(one, candidate, &mut trial)
                .is_some()
            {
                continue;
            }
            return match without_set(alone, std::slice::from_ref(candidate), &mut globals.clone()) {
                Err(refused) => refused.why,
                Ok(_) => refused
                    .why
                    .into_iter()
                    .map(|diagnostic| needs_own_hook(name, &diagnostic))
                    .collect(),
            };
        }
        refused.why
    }
}

/// The refusal of a handler that needs more than the set's program knows of an event.
fn needs_own_hook(name: &str, of_set: &Diagnostic) -> Diagnostic {
    let message = format!(
        "{}: the running session sees {name} and others by one program, which has their arguments; this asks for what only the event's own tracepoint has",
        of_set.message
    );
    Diagnostic::error(of_set.span, message).hint(
        "start a session with this table in its file; a string that an argument points to is here, too: `str(args.NAME)`".to_owned(),
    )
}

/// Most handlers of one program for a slot where each is for events of its own: the verifier follows all of them, in an emulated guest
/// for seconds.
const MAX_BODIES: usize = 32;

fn check_body_count(hook: &Hook) -> Result<()> {
    let bodies = hook.handlers.len();
    if bodies <= MAX_BODIES {
        return Ok(());
    }
    Err(Error::Unsupported {
        what: format!(
            "{bodies} different handlers with fields of their own for {} and others of its set",
            hook.instances.first().map_or("an event", |event| &event.name)
        ),
        why: format!(
            "one program of the running session serves them all and has room for {MAX_BODIES}; name fewer events, or start the session anew with this table in its file"
        ),
    })
}

/// Refuses a handler that wants to follow more calls at once (`maxactive`) than the hook was attached for.
fn check_maxactive(wanted: &Resolved, hook: &ExistingHook) -> Result<()> {
    let (wanted, has) = (
        wanted.strategies[0].mechanism.maxactive(),
        hook.mechanism.maxactive(),
    );
    let Some(number) = wanted.filter(|_| wanted > has) else {
        return Ok(());
    };
    let has = match has {
        Some(has) => format!("{has} at once"),
        None => "the kernel's own number of them".to_owned(),
    };
    Err(Error::Unsupported {
        what: format!(
            "following {number} calls of {}",
            hook.instances.first().map_or("a function", String::as_str)
        ),
        why: format!("the running session follows {has}; start the session anew with this table in its file"),
    })
}

/// Places a companion: into the slot of an existing hook at the same events, or as a hook of its own.
fn place_companion(companion: &mut Hook, served: &Hook, existing: &Existing) -> Result<()> {
    let sets = served
        .slot
        .as_ref()
        .map_or_else(Vec::new, |slot| slot.sets.clone());
    for (row, served) in companion.handlers.iter_mut().zip(&served.handlers) {
        row.tables.clone_from(&served.tables);
    }
    match existing_hook(companion, existing) {
        Some(hook) => {
            companion.slot = Some(Slot {
                hook,
                sets,
                events: Vec::new(),
                only: None,
            })
        }
        None if sets.len() > 1 => {
            return Err(Error::Unsupported {
                what: format!("values of the entry for {}", companion.instances.first().map_or("", |i| &i.name)),
                why: "the running session has no hook at these entries, and the table has several handlers for them; start the session anew with this table in its file".to_owned(),
            });
        }
        None => {}
    }
    Ok(())
}

/// The hook of the running session that serves the same events.
fn existing_hook(hook: &Hook, existing: &Existing) -> Option<usize> {
    let same = |known: &ExistingHook| {
        known.kind == hook.kind
            && known.mechanism == hook.strategies[0].mechanism
            && known.instances.iter().eq(hook.instances.iter().map(|i| &i.name))
    };
    existing.hooks.iter().position(same)
}

/// The events of each handler, by their index in the hook; empty where one handler is for all of them.
fn events_by_handler(cells: &[Option<Cell>], handlers: &[usize]) -> Vec<Vec<u16>> {
    let of = |handler: usize| -> Vec<u16> {
        let places = cells.iter().enumerate();
        let places = places.filter(|(_, cell)| cell.is_some_and(|c| c.handler == handler));
        places.map(|(place, _)| place as u16).collect()
    };
    match handlers {
        &[one] if of(one).len() == cells.len() => vec![Vec::new()],
        handlers => handlers.iter().map(|&handler| of(handler)).collect(),
    }
}

fn no_strategy(hook: &ExistingHook) -> Error {
    Error::Unsupported {
        what: format!(
            "a handler for {}",
            hook.instances.first().map_or("an event", String::as_str)
        ),
        why: "the running session sees it in a way that this kernel no longer offers; start the session anew"
            .to_owned(),
    }
}
