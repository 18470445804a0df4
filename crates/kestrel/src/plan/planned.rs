//! A plan: the tables, hooks and buffers that a session is made of.

use super::hook::Hook;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::check::tree::{CheckedProbe, Destination};
use kestrel_compiler::lang::diag::Diagnostic;
use kestrel_hook::buffer::bell::Bell;
use kestrel_hook::buffer::layout::{Geometry, Mode};
use kestrel_hook::buffer::name::{MESSAGES, MESSAGES_BYTES};
use kestrel_hook::hook::dispatch::BufferPolicy;
use kestrel_hook::hook::owner::Owner;
use kestrel_hook::hook::process_filter::ProcessFilter;
use kestrel_object::HandlerFile;
use std::sync::Arc;

/// A buffer of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferPlan {
    /// The buffer's name.
    pub name: String,
    /// The shape of the buffer's rings.
    pub geometry: Geometry,
    /// The process that it is for, if it is for one.
    pub process: Option<Owner>,
    /// The bell of its reader.
    pub bell: Bell,
}

impl BufferPlan {
    /// Bell of a buffer in a session whose readers are woken by `bell`: only streams are read while they are filled, and each message is
    /// awaited.
    pub(crate) fn bell_of(bell: Bell, name: &str, mode: Mode) -> Bell {
        match mode {
            Mode::Stream if bell != Bell::Silent && name == MESSAGES => Bell::Records,
            Mode::Stream => bell,
            Mode::Overwrite => Bell::Silent,
        }
    }
}

/// A session before anything is attached.
pub struct Plan {
    /// Names of the tables: the first has number 1.
    pub tables: Vec<String>,
    /// Hooks that are to be attached, with their programs.
    pub hooks: Vec<Hook>,
    /// The processes whose events are traced.
    pub target: ProcessFilter,
    /// Buffers, at least one: the first is where records go that name none.
    pub buffers: Vec<BufferPlan>,
    /// Globals of the handlers.
    pub globals: Globals,
    /// Whether tables can be loaded later, so that hooks have slots for their handlers.
    pub slots: bool,
    /// Compiled objects that rows name.
    pub objects: Vec<Arc<HandlerFile>>,
    /// Warnings about the source.
    pub warnings: Vec<(String, Diagnostic)>,
}

/// Gives out numbers of records from `next` on; gives the one after the last.
///
/// # Errors
/// When a trace has no room for so many.
pub fn number(hooks: &mut [Hook], mut next: u32) -> Result<u32> {
    for hook in hooks {
        let numbers = hook.instances.len() as u32 * u32::from(hook.records.max(1));
        hook.first_record_id = u16::try_from(next).map_err(|_| too_many())?;
        next += numbers;
    }
    if next > u32::from(u16::MAX) {
        return Err(too_many());
    }
    Ok(next)
}

fn too_many() -> Error {
    Error::Unsupported {
        what: "the events together".to_owned(),
        why: "a trace has room for 65,535 kinds of record; narrow the patterns".to_owned(),
    }
}

/// Number of kinds of record that the buffers of a persistent session have room for when it begins with `records`: tables that are loaded later bring
/// theirs.
pub(crate) fn room_to_grow(numbers: u32) -> u32 {
    (2 * numbers).clamp(1024, u32::from(u16::MAX) + 1)
}

impl Plan {
    /// Whether records go through a buffer of their own because they ask something of user space.
    pub(super) fn asks(&self) -> bool {
        let strategies = self.hooks.iter().flat_map(|hook| &hook.strategies);
        let mut records =
            strategies.flat_map(|strategy| strategy.checked.iter().flat_map(CheckedProbe::records));
        records.any(|record| record.to == Destination::Messages)
    }

    /// The hook at the other end of the calls whose end a hook is at, where one program is to see both.
    pub(crate) fn other_end(&self, hook: &Hook) -> Option<&Hook> {
        let call = hook.entry_exit_id?;
        let mut others = self
            .hooks
            .iter()
            .filter(|other| other.entry_exit_id == Some(call));
        others.find(|other| other.kind != hook.kind)
    }

    /// Whether threads of processes must be followed: those of a command, or others that a handler asks for.
    pub fn follows(&self) -> bool {
        let strategies = self.hooks.iter().flat_map(|hook| &hook.strategies);
        let mut handlers = strategies.flat_map(|strategy| &strategy.checked);
        matches!(self.target, ProcessFilter::Command(_))
            || self.target.has_threads() && handlers.any(|handler| handler.uses().targets)
    }

    /// Adds the buffer for messages to the agent, if there is none.
    pub(crate) fn give_messages_a_buffer(&mut self) {
        if self.buffers.iter().any(|buffer| buffer.name == MESSAGES) {
            return;
        }
        let events = self.buffers.iter().map(|b| b.geometry.events).max();
        let bell = match self.buffers.iter().all(|buffer| buffer.bell == Bell::Silent) {
            true => Bell::Silent,
            false => Bell::Records,
        };
        self.buffers.push(BufferPlan {
            name: MESSAGES.to_owned(),
            geometry: Geometry::new(Mode::Stream, MESSAGES_BYTES, events.unwrap_or(1)),
            process: None,
            bell,
        });
    }

    /// Policy for the buffers while the hooks run: in a persistent session, anything.
    pub fn buffer_policy(&self) -> BufferPolicy {
        if self.globals.persistent {
            return BufferPolicy::any(&self.globals.buffers);
        }
        let strategies = self.hooks.iter().flat_map(|hook| &hook.strategies);
        BufferPolicy::of(strategies.flat_map(|strategy| &strategy.checked))
    }
}
