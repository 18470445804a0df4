//! Planning inputs from a session's state: what its handlers share, and its buffers.

use super::{BufferState, State};
use crate::plan::BufferPlan;
use kestrel_compiler::check::globals::Globals;
use kestrel_hook::buffer::bell::Bell;

impl State {
    /// Globals that the handlers of a session share.
    pub(in crate::session) fn globals(&self, tables: Vec<String>) -> Globals {
        Globals {
            tables,
            buffers: self.buffers.iter().map(|b| b.name.clone()).collect(),
            parameters: self.parameters.iter().map(|p| p.parameter()).collect(),
            messages: true,
            persistent: true,
            maps: self.maps.clone(),
            control_groups: self.control_groups.clone(),
            ..Globals::default()
        }
    }

    /// The buffers of a session.
    pub(in crate::session) fn buffer_plans(&self) -> Vec<BufferPlan> {
        let of = |buffer: &BufferState| BufferPlan {
            name: buffer.name.clone(),
            geometry: buffer.geometry(),
            process: buffer.process.clone(),
            bell: match self.bell {
                true => BufferPlan::bell_of(Bell::QuarterFull, &buffer.name, buffer.geometry().mode),
                false => Bell::Silent,
            },
        };
        self.buffers.iter().map(of).collect()
    }
}
