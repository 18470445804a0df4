//! The programs of a handler that go into a slot of a hook which is attached already.

use crate::plan::{Hook, Plan, PlannedHandler, Slot};
use crate::session::hook_maps::{HookMaps, numbers_map};
use crate::session::resources::Resources;
use crate::session::state::{HandlerState, HookState, ProgramState, messages};
use crate::session::verifier_error;
use kestrel_bpf::btf::Btf;
use kestrel_catalog::{Error, Result};
use kestrel_hook::hook::dispatch;
use kestrel_hook::hook::second_chance::{self, ProgramPlace};
use kestrel_kernel::bpf::Program;
use std::sync::Arc;

/// A program for each that is attached, and which of the hook's strategies they are.
pub(in crate::session) type Made = Result<(Vec<Program>, usize)>;

/// The programs for a slot of a hook that is there, bound to the session's maps.
pub(in crate::session) fn compile(
    resources: &Resources,
    plan: &Plan,
    hook: &Hook,
    there: &HookState,
    maps: &HookMaps,
    types: Option<&Arc<Btf>>,
) -> Made {
    let event = hook.event();
    let mut last = None;
    for (index, way) in hook.strategies.iter().enumerate() {
        let numbers = way.context.selector.as_ref();
        let numbers = numbers.map(|s| numbers_map(hook, &s.map)).transpose()?;
        let kind = way.mechanism.called_kind(there.multi)?;
        let mut programs = Vec::new();
        let first = (there.copies > 0).then_some(ProgramPlace::FIRST);
        let places = std::iter::once(first).chain(second_chance::later(there.copies).map(Some));
        for (place, slots) in places.zip(&maps.slots) {
            let compiled = hook.compile(way, plan, place)?;
            let given = numbers.iter().map(|(name, map)| (name.as_str(), map));
            let seen = maps.seen.as_ref().map(|seen| (second_chance::MAP, seen));
            let given: Vec<_> = given.chain([(dispatch::SLOTS_MAP, slots)]).chain(seen).collect();
            match resources.load(
                (&event, &hook.function()),
                kind,
                &compiled.code,
                &compiled.maps,
                types,
                &given,
            ) {
                Ok((program, _)) => programs.push(program),
                Err(error) => {
                    let source = hook.handlers.first().map_or("", |row| &row.source);
                    last = Some(verifier_error::explain(error, &event, source, &compiled.code));
                    break;
                }
            }
        }
        if programs.len() == maps.slots.len() {
            let calls = hook.calls(way);
            // When it is made anew, what it calls is there.
            if let Some(slots) = maps.slots.first().filter(|_| hook.known_calls.is_empty()) {
                resources.objects.fill(slots, &calls, kind)?;
            }
            return Ok((programs, index));
        }
    }
    Err(last.unwrap_or(Error::Compile {
        event,
        why: "no way to see it was found".to_owned(),
    }))
}

/// State of a program for a slot.
pub(in crate::session) fn program_state(hook: &Hook, into: &Slot, slot: u32) -> ProgramState {
    let way = hook.strategies.first();
    let row = |(index, (row, events)): (usize, (&PlannedHandler, &Vec<u16>))| {
        let handler = way.and_then(|way| way.checked.get(index));
        HandlerState::of(row, handler, events.iter().map(|at| into.place(*at)).collect())
    };
    ProgramState {
        slot: Some(slot),
        first: hook.first_record_id,
        records: hook.records.max(1),
        rows: hook
            .handlers
            .iter()
            .zip(&into.sets)
            .enumerate()
            .map(row)
            .collect(),
        events: into.events.clone(),
        messages: way.map_or_else(Vec::new, |way| messages(&way.checked)),
    }
}
