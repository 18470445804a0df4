//! Numbers of records for hooks that a running session gets: what is recorded in the same shape from the same events, and asks the same of an agent,
//! has a number already; what is new has the next ones, for as many as the buffers have counters.

use super::load::{Loading, full, messages};
use super::state::{MessageState, ProgramState};
use super::{event_of, objects};
use crate::catalog::Instance;
use crate::error::{Error, Result};
use crate::plan::{Hook, Plan, Slot};
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::layout::Layout;
use std::collections::HashMap;

impl Loading<'_> {
    /// The numbers of a program for a slot of a hook that is there.
    pub(super) fn number_in_slot(&mut self, plan: &mut Plan, index: usize, into: &Slot) -> Result<()> {
        let there = &self.next.hooks[into.hook];
        // Without records a number is only what counts are kept under: that of the hook itself will do.
        let own = there
            .programs
            .first()
            .filter(|own| (own.records == 1 && into.events.is_empty()) || there.events.len() == 1);
        match own.map(|own| own.first) {
            Some(first) if plan.hooks[index].records == 0 => plan.hooks[index].first = first,
            _ => self.renumber(&mut plan.hooks[index])?,
        }
        self.number_calls(&mut plan.hooks[index], into)
    }

    /// Where a program for a slot of a hook that is there has what its handlers call.
    fn number_calls(&self, hook: &mut Hook, into: &Slot) -> Result<()> {
        let there = &self.next.hooks[into.hook];
        hook.first_call = objects::free(&there.programs, hook.most_calls()).ok_or_else(|| {
            let why = format!("a hook has room for {} programs of objects", super::CALLS);
            full(&[event_of(hook)], &why)
        })?;
        Ok(())
    }

    /// Whether the records of a hook ask the same of an agent that those from this number on ask, or asked last.
    fn asks(&self, first: u16, hook: &Hook, messages: Vec<MessageState>) -> bool {
        let program = ProgramState {
            first,
            records: hook.records.max(1),
            messages,
            ..ProgramState::default()
        };
        let known = self.next.messages();
        let same = |(number, message): (u16, &MessageState)| known.get(&number) == Some(&message.message());
        program.asks(hook.instances.len()).all(same)
    }

    /// Gives a hook its numbers; ways in which its records would have other shapes are left out.
    pub(super) fn renumber(&mut self, hook: &mut Hook) -> Result<()> {
        let wanted = hook.ways.first().map_or_else(Vec::new, |way| hook.classes(way));
        let fits: Vec<bool> = hook.ways.iter().map(|way| hook.classes(way) == wanted).collect();
        let mut fits = fits.into_iter();
        hook.ways.retain(|_| fits.next().unwrap_or(false));
        hook.first = self.number(hook, &wanted)?;
        Ok(())
    }

    /// The number of a hook's first record: what is recorded in the same shape from the same events has a number already.
    fn number(&mut self, hook: &Hook, wanted: &[EventClass]) -> Result<u16> {
        let same =
            |a: &EventClass, b: &EventClass| a.name == b.name && a.kind == b.kind && a.layout == b.layout;
        let by_id: HashMap<u16, &EventClass> = self.session.classes.iter().map(|c| (c.id.0, c)).collect();
        let fits = |first: u16| {
            (first..)
                .zip(wanted)
                .all(|(id, class)| by_id.get(&id).is_some_and(|known| same(known, class)))
        };
        // Without records a number is only what counts are kept under.
        let bare = |instance: &Instance| EventClass {
            id: EventId(0),
            name: instance.name.clone(),
            kind: hook.kind.to_owned(),
            layout: Layout::new(Vec::new()),
        };
        let bare: Vec<EventClass> = hook.instances.iter().map(bare).collect();
        let (wanted, records) = match wanted {
            [] => (bare.as_slice(), false),
            some => (some, true),
        };
        let Some(one) = wanted.first() else {
            return Err(full(&[event_of(hook)], "a handler has no event"));
        };
        let starts = self.session.classes.iter().filter(|known| same(known, one));
        let mut starts = starts.map(|known| known.id.0).filter(|first| fits(*first));
        // An agent knows by the number what it is asked for.
        let messages = messages(hook);
        if let Some(known) =
            starts.find(|first| messages.is_empty() || self.asks(*first, hook, messages.clone()))
        {
            return Ok(known);
        }
        let first = self.next.next_record;
        let room = match records {
            true => self.next.buffers.iter().map(|b| b.events).min().unwrap_or(0),
            false => u32::from(u16::MAX),
        };
        if first as usize + wanted.len() > room as usize {
            return Err(Error::Unsupported {
                what: format!("{} more kinds of record for {}", wanted.len(), event_of(hook)),
                why: format!(
                    "the session's buffers have room for {room} and {first} are taken; start the session anew with these tables in its file"
                ),
            });
        }
        let numbered = (first as u16..).zip(wanted).map(|(id, class)| EventClass {
            id: EventId(id),
            ..class.clone()
        });
        self.session.classes.extend(numbered);
        self.next.next_record += wanted.len() as u32;
        Ok(first as u16)
    }
}
