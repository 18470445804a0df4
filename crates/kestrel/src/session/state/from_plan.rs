//! The state of what a plan makes, before anything is attached.

use super::{BufferState, HandlerState, ParameterState, State, TableState, VERSION};
use crate::plan::{Hook, Plan, PlannedHandler};
use kestrel_compiler::check::globals::Parameter;
use kestrel_compiler::check::tree::{Action, CheckedProbe, Statement, StatementKind, Type};
use kestrel_hook::buffer::bell::Bell;
use kestrel_hook::buffer::layout::Mode;

impl State {
    /// Initial state of a plan, before anything is attached.
    pub(in crate::session) fn of_plan(name: &str, plan: &Plan, file: Option<&str>, now: u64) -> Self {
        let tables = (1u32..).zip(&plan.tables).map(|(number, table)| TableState {
            name: table.clone(),
            number,
            place: number - 1,
            slot: None,
            file: file.map(str::to_owned),
            loaded: now,
            uses: uses(plan, number),
        });
        let numbers = |hook: &Hook| {
            u32::from(hook.first_record_id) + hook.instances.len() as u32 * u32::from(hook.records.max(1))
        };
        Self {
            version: VERSION,
            name: name.to_owned(),
            tracer: env!("CARGO_PKG_VERSION").to_owned(),
            started: now,
            generation: 1,
            tables: tables.collect(),
            places: plan.tables.clone(),
            next_table: plan.tables.len() as u32 + 1,
            next_record: plan.hooks.iter().map(numbers).max().unwrap_or(1).max(1),
            buffers: plan.buffers.iter().map(buffer).collect(),
            bell: plan.buffers.iter().any(|buffer| buffer.bell != Bell::Silent),
            parameters: plan.globals.parameters.iter().map(parameter).collect(),
            maps: plan.globals.maps.clone(),
            control_groups: plan.globals.control_groups.clone(),
            ..Self::default()
        }
    }
}

impl HandlerState {
    /// State of a plan's row, checked as `handler`.
    pub(in crate::session) fn of(
        row: &PlannedHandler,
        handler: Option<&CheckedProbe>,
        events: Vec<u16>,
    ) -> Self {
        let uses = handler.map(CheckedProbe::uses).unwrap_or_default();
        Self {
            source: row.text().into(),
            tables: row.tables.clone(),
            records: row.records,
            events,
            maps: uses.maps.into_iter().collect(),
            parameters: uses.parameters.into_iter().collect(),
            named_tables: uses.tables.into_iter().collect(),
            named_buffers: uses.buffers.into_iter().collect(),
            call: None,
            reset: None,
        }
    }
}

/// The records of a program's handlers that ask something of user space, by their places.
pub(in crate::session) fn messages(handlers: &[CheckedProbe]) -> Vec<u16> {
    let records = handlers.iter().flat_map(CheckedProbe::records);
    let asking = (0..).zip(records).filter(|(_, record)| record.asks.is_some());
    asking.map(|(place, _)| place).collect()
}

fn buffer(plan: &crate::plan::BufferPlan) -> BufferState {
    BufferState {
        name: plan.name.clone(),
        overwrite: plan.geometry.mode == Mode::Overwrite,
        pages: plan.geometry.pages,
        events: plan.geometry.events,
        process: plan.process.clone(),
        ..BufferState::default()
    }
}

pub(in crate::session) fn parameter(parameter: &Parameter) -> ParameterState {
    let (size, signed) = match &parameter.ty {
        Type::Bool => (0, false),
        Type::Integer { size, signed, .. } => (*size, *signed),
        _ => (8, false),
    };
    ParameterState {
        name: parameter.name.clone(),
        start: parameter.value,
        size,
        signed,
    }
}

/// The name of the table that a statement switches to.
fn switched_to(statement: &Statement) -> Option<String> {
    match &statement.kind {
        StatementKind::Act(Action::UseTable(name)) => Some(name.clone()),
        _ => None,
    }
}

/// Names of the tables that the handlers of the plan's table `number` may switch to.
pub(in crate::session) fn uses(plan: &Plan, number: u32) -> Vec<String> {
    let mut names = Vec::new();
    for hook in &plan.hooks {
        let Some(way) = hook.strategies.first() else {
            continue;
        };
        for (row, handler) in hook.handlers.iter().zip(&way.checked) {
            if row.tables.contains(&number) {
                names.extend(handler.statements().filter_map(switched_to));
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}
