//! The programs of named probes made anew over other buffers, while they work: each probe goes over by one store of its word.
//!
//! ```text
//!   programs into each hook's free slot ──► new state: one rename ──► each probe's word: number + slot ──► wait ──► old slots emptied
//! ```
//!
//! A hook reads its probe's word once, so an event meets the old programs or the new ones, whatever is stored meanwhile. What a probe keeps for `:post`
//! and `entry.` is in maps that both share; hooks that write no records refer to no buffer and stay as they are.

use super::change::of_probe;
use super::{PROBE_SLOTS, ProbeIdentity};
use crate::session::hook_maps::HookMaps;
use crate::session::pinned::{Change, PinnedSession};
use crate::session::recompile::Recompile;
use crate::session::state::{HookState, ProbeState, Probes, ProgramState, State};
use kestrel_catalog::Result;
use std::collections::BTreeSet;

impl Change {
    /// Makes the programs of all named probes anew that refer to buffers, into slots that are free; the state says then that they are in force.
    pub(in crate::session) fn renew_probes(
        &self,
        remake: &mut Recompile<'_>,
        gone: &BTreeSet<u32>,
        next: &mut State,
    ) -> Result<()> {
        for probe in &mut next.probes.each {
            let mine = |hook: &&mut HookState| hook.probe == Some(probe.number) && hook.has_records();
            // Its module is not there any more, and so nothing that hits it.
            if gone.contains(&probe.number) {
                continue;
            }
            let slot = (0..PROBE_SLOTS)
                .find(|slot| Some(*slot) != probe.slot)
                .unwrap_or(0);
            let mut renewed = false;
            remake.name_text(format!("probe {}", probe.name));
            for (index, there) in next.hooks.iter_mut().enumerate() {
                if !mine(&there) {
                    continue;
                }
                recompile_hook(remake, probe, index, there, slot)
                    .map_err(|error| of_probe(&probe.name, error))?;
                renewed = true;
            }
            if renewed {
                probe.slot = Some(slot);
                next.probes.renewed = true;
            }
        }
        remake.name_text(String::new());
        Ok(())
    }
}

/// Recompiles the program of one hook, which is in force from now on.
fn recompile_hook(
    remake: &mut Recompile<'_>,
    probe: &ProbeState,
    index: usize,
    there: &mut HookState,
    slot: u32,
) -> Result<()> {
    let Some(program) = there
        .programs
        .iter()
        .find(|program| is_in_force(program))
        .cloned()
    else {
        return Ok(());
    };
    let live: Vec<usize> = (0..program.rows.len()).collect();
    let mut hook = remake.recompile_program(there, index, &program, &live)?.hook;
    hook.named_probe = Some(ProbeIdentity {
        place: probe.place,
        number: probe.number,
        counted: true,
    });
    remake.put(&hook, there, &[slot])?;
    for old in there.programs.iter_mut().flat_map(|program| &mut program.rows) {
        old.tables.clear();
    }
    there.programs.push(ProgramState {
        slot: Some(slot),
        ..program
    });
    Ok(())
}

fn is_in_force(program: &ProgramState) -> bool {
    program.rows.iter().any(|row| !row.tables.is_empty())
}

impl PinnedSession {
    /// Empties the slots of named probes' hooks whose programs are not in force.
    pub(in crate::session) fn clear_probe_slots(&self, hooks: &[HookState], probes: &Probes) -> Result<()> {
        for hook in hooks
            .iter()
            .filter(|hook| hook.probe.is_some() && hook.has_records())
        {
            let own = probes.each.iter().find(|probe| Some(probe.number) == hook.probe);
            let kept = own.and_then(|own| own.slot);
            let maps = HookMaps::open(&self.directory, hook)?;
            for slot in (0..PROBE_SLOTS).filter(|slot| Some(*slot) != kept) {
                maps.clear(slot)?;
            }
        }
        Ok(())
    }
}
