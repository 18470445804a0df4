//! State of an attached hook of a persistent session, and the hook's pins.

use crate::plan::Hook;
use crate::session::attached::Attached;
use crate::session::objects::Objects;
use crate::session::pins::{self, Directory};
use crate::session::state::{EventState, HandlerState, HookState, ProgramState, messages};
use kestrel_catalog::Result;
use std::os::fd::AsFd;

/// State of a hook that was attached.
pub(in crate::session) fn hook_state(
    number: u32,
    hook: &Hook,
    attached: &Attached,
    objects: &Objects,
) -> HookState {
    // Other strategies of the hook were refused by the kernel; code is generated anew for this one alone.
    let strategy = &hook.strategies[attached.strategy];
    let events = hook.instances.iter().map(|instance| EventState {
        name: instance.name.clone(),
        event: None,
        code: instance.code,
    });
    let rows = hook
        .handlers
        .iter()
        .enumerate()
        .map(|(index, row)| HandlerState::of(row, strategy.checked.get(index), Vec::new()));
    let mut program = ProgramState {
        slot: None,
        first: hook.first_record_id,
        records: hook.records.max(1),
        rows: rows.collect(),
        events: Vec::new(),
        messages: messages(&strategy.checked),
    };
    objects.describe_calls(hook, Some(strategy), &mut program);
    HookState {
        number,
        kind: hook.kind.to_owned(),
        way: strategy.to_string(),
        attached: Some(strategy.mechanism.clone()),
        multi: attached.kind.is_multi(),
        links: attached.links.each().len() as u32,
        cpus: attached.links.cpus().to_vec(),
        own_events: attached
            .links
            .events()
            .iter()
            .map(|e| e.name().to_owned())
            .collect(),
        events: events.collect(),
        programs: vec![program],
        probe: hook.named_probe.map(|own| own.number),
        companion: hook.companion,
        relay: hook.taken_from,
        module_build: attached.module_build.clone(),
        copies: attached.copies,
    }
}

impl Attached {
    /// Pins its links, which keep everything else, and its slots, which the kernel empties when no user of them is left.
    pub(in crate::session) fn pin(&self, number: u32, to: &Directory) -> Result<()> {
        if let Some(seen) = &self.seen {
            to.pin(seen.as_fd(), &pins::seen(number))?;
        }
        for (program, slots) in (0..).zip(&self.slots) {
            to.pin(slots.as_fd(), &pins::slots(number, program))?;
        }
        for (index, link) in (0..).zip(self.links.each()) {
            to.pin(link.as_fd(), &pins::link(number, index))?;
        }
        Ok(())
    }
}
