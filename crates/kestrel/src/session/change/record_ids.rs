//! Record ids of what is loaded into a running session: under them records are written, described and counted. A handler that comes again keeps its own, what
//! no handler has any more is given out again, and only where buffers have no room for more do two handlers share one.

use crate::plan::{Hook, Plan, PlannedHandler, Slot};
use crate::session::handlers::counts_of;
use crate::session::in_progress::{LoadInProgress, full};
use crate::session::state::{Baseline, HandlerState, HookState, ProgramState, State};
use kestrel_catalog::catalog::Instance;
use kestrel_catalog::{Error, Result};
use kestrel_trace::event::{EventClass, EventId};
use kestrel_trace::layout::Layout;
use std::collections::HashMap;

/// Most kinds of record of a session: their numbers have 16 bits.
const MAX_KINDS: u32 = 1 << 16;

/// Former owner of a record id, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    /// The handler is that of the table which is replaced.
    Same,
    /// Of no handler that is still there.
    Gone,
    /// A handler that is there and is another one.
    Other,
}

/// The rows that write under each number.
#[derive(Default)]
pub(in crate::session) struct RecordIds<'s> {
    rows: HashMap<u16, Vec<&'s HandlerState>>,
    /// Numbers of the tables that are kept.
    staying: Vec<u32>,
    /// The number of the table that is replaced.
    replaced: Option<u32>,
}

impl<'s> RecordIds<'s> {
    /// The numbers of a session in which a table is replaced, or none.
    pub(in crate::session) fn of(state: &'s State, replaced: Option<u32>) -> Self {
        let mut rows: HashMap<u16, Vec<&HandlerState>> = HashMap::new();
        for hook in &state.hooks {
            for program in &hook.programs {
                for (row, numbers) in each_row(hook, program) {
                    for number in numbers.into_iter().flat_map(|first| first..first + row.records) {
                        rows.entry(number).or_default().push(row);
                    }
                }
            }
        }
        let tables = state.tables.iter().map(|table| table.number);
        Self {
            rows,
            staying: tables.filter(|number| Some(*number) != replaced).collect(),
            replaced,
        }
    }

    /// The owner of some numbers, from the first on, for a handler with one of these sources.
    fn whose(&self, first: u16, count: usize, sources: &[&str]) -> Owner {
        let mut found = Owner::Gone;
        let numbers = (first..).take(count);
        for row in numbers.filter_map(|number| self.rows.get(&number)).flatten() {
            if row.tables.iter().any(|table| self.staying.contains(table)) {
                return Owner::Other;
            }
            if self.is_replaced(row) && sources.contains(&&*row.source) {
                found = Owner::Same;
            }
        }
        found
    }

    /// The row that one of a new program takes the place of: the same text in the replaced table, for the same numbers.
    fn before(&self, row: &HandlerState, numbers: &[u16]) -> Option<&'s HandlerState> {
        let rows = self.rows.get(numbers.first()?)?;
        let fits = |known: &&&HandlerState| known.source == row.source && self.is_replaced(known);
        rows.iter().find(fits).copied()
    }

    fn is_replaced(&self, row: &HandlerState) -> bool {
        self.replaced.is_some_and(|table| row.tables.contains(&table))
    }
}

/// A program's rows with the numbers of the first record of each of their events.
fn each_row<'s>(hook: &HookState, program: &'s ProgramState) -> Vec<(&'s HandlerState, Vec<u16>)> {
    let mut before = 0;
    let of = |row: &'s HandlerState| {
        let own = before;
        before += row.records;
        let places =
            (0..hook.events.len() as u16).filter(|place| row.events.is_empty() || row.events.contains(place));
        let firsts = places.filter_map(|place| Some(program.number_of(place)? + own));
        (row, firsts.collect())
    };
    program.rows.iter().map(of).collect()
}

impl LoadInProgress<'_> {
    /// The numbers of a program for a slot of a hook that is there.
    pub(in crate::session) fn number_in_slot(
        &mut self,
        plan: &mut Plan,
        index: usize,
        into: &Slot,
        owners: &RecordIds<'_>,
    ) -> Result<()> {
        let there = &self.next.hooks[into.hook];
        // Without records a number is only what counts are kept under: that of the hook itself will do.
        let own = there
            .programs
            .first()
            .filter(|own| (own.records == 1 && into.events.is_empty()) || there.events.len() == 1);
        match own.map(|own| own.first) {
            Some(first) if plan.hooks[index].records == 0 => plan.hooks[index].first_record_id = first,
            _ => self.renumber(&mut plan.hooks[index], owners)?,
        }
        self.number_calls(&mut plan.hooks[index], into)
    }

    /// Gives a hook its numbers; ways in which its records would have other shapes are left out.
    pub(in crate::session) fn renumber(&mut self, hook: &mut Hook, owners: &RecordIds<'_>) -> Result<()> {
        let wanted = hook
            .strategies
            .first()
            .map_or_else(Vec::new, |way| hook.classes(way));
        let fits: Vec<bool> = hook
            .strategies
            .iter()
            .map(|way| hook.classes(way) == wanted)
            .collect();
        let mut fits = fits.into_iter();
        hook.strategies.retain(|_| fits.next().unwrap_or(false));
        hook.first_record_id = self.number(hook, &wanted, owners)?;
        Ok(())
    }

    /// The number of a hook's first record: that of a hook that recorded the same shape from the same events and has gone, or a new one.
    fn number(&mut self, hook: &Hook, wanted: &[EventClass], owners: &RecordIds<'_>) -> Result<u16> {
        // A reader knows by a record's number what it asks.
        let same = |a: &EventClass, b: &EventClass| {
            a.name == b.name
                && a.kind == b.kind
                && a.layout == b.layout
                && a.action == b.action
                && a.print == b.print
        };
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
            action: None,
            print: None,
        };
        let bare: Vec<EventClass> = hook.instances.iter().map(bare).collect();
        let (wanted, records) = match wanted {
            [] => (bare.as_slice(), false),
            some => (some, true),
        };
        let Some(one) = wanted.first() else {
            return Err(full(&[hook.event()], "a handler has no event"));
        };
        let starts = self.session.classes.iter().filter(|known| same(known, one));
        let starts = starts.map(|known| known.id.0).filter(|first| fits(*first));
        let sources: Vec<&str> = hook.handlers.iter().map(PlannedHandler::text).collect();
        let whose = |first: u16| match records {
            true => (owners.whose(first, wanted.len(), &sources), first),
            false => (Owner::Same, first),
        };
        let known = starts.map(whose).min();
        if let Some((Owner::Same | Owner::Gone, known)) = known {
            return Ok(known);
        }
        let first = self.next.next_record;
        let room = match records {
            true => self.next.buffers.iter().map(|b| b.events).min().unwrap_or(0),
            false => u32::from(u16::MAX),
        };
        let needed = first + wanted.len() as u32;
        if needed > room {
            if let Some((_, known)) = known {
                return Ok(known);
            }
            if needed > MAX_KINDS || !records {
                return Err(Error::NoRoom {
                    event: hook.event(),
                    wanted: wanted.len(),
                    needed,
                });
            }
            // The buffers get room for all that this load needs, once it is known.
            self.needed = needed;
        }
        let numbered = (first as u16..).zip(wanted).map(|(id, class)| EventClass {
            id: EventId(id),
            ..class.clone()
        });
        self.session.classes.extend(numbered);
        self.next.next_record += wanted.len() as u32;
        Ok(first as u16)
    }

    /// Starts the counts of a hook's last program at 0, whatever had their record ids before; but a handler that comes again goes on.
    pub(in crate::session) fn begin_counts(&mut self, hook: usize, owners: &RecordIds<'_>) {
        let Some((program, events)) = self
            .next
            .hooks
            .get(hook)
            .and_then(|hook| Some((hook.programs.last()?, hook)))
        else {
            return;
        };
        let mut next = 0;
        let begin = |(row, numbers): (&HandlerState, Vec<u16>)| {
            let from = next;
            next += row.records;
            if let Some(before) = owners.before(row, &numbers) {
                return before.reset.clone();
            }
            let asks = program.only_asks(from, row.records);
            let of = |first: &u16| {
                counts_of(
                    &self.session.resources.buffers,
                    u64::from(*first),
                    row.records,
                    asks,
                )
            };
            let counts: Vec<(u64, u64)> = numbers.iter().map(of).collect();
            counts.iter().any(|counts| *counts != (0, 0)).then_some(Baseline {
                at: self.now,
                counts,
                missed: 0,
            })
        };
        let begun: Vec<Option<Baseline>> = each_row(events, program).into_iter().map(begin).collect();
        if let Some(program) = self.next.hooks[hook].programs.last_mut() {
            for (row, begun) in program.rows.iter_mut().zip(begun) {
                row.reset = begun;
            }
        }
    }
}
