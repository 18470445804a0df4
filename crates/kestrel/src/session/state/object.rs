//! State of compiled objects whose programs are handlers.

use super::{HandlerState, State};
use serde::{Deserialize, Serialize};

/// An object, as the session has it: its maps are pinned, its programs stand in slots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectState {
    /// The number: its pins bear it.
    pub number: u32,
    /// The path of its file, from the root.
    pub path: String,
    /// Identity of its content, against another one's under this path.
    pub content: u64,
    /// The object's maps.
    pub maps: Vec<ObjectMapState>,
}

/// A map of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectMapState {
    /// The name in the object.
    pub name: String,
    /// Whether it holds global data.
    pub is_data: bool,
}

/// The program of an object that a row calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallState {
    /// The object's number.
    pub object: u32,
    /// The program's name.
    pub program: String,
    /// The place in the hook's program array.
    pub entry: u32,
}

impl State {
    /// Takes out the objects that no row calls any more, and gives them.
    pub(in crate::session) fn forget_objects(&mut self) -> Vec<ObjectState> {
        let programs = self.hooks.iter().flat_map(|hook| &hook.programs);
        let rows = programs.flat_map(|program| &program.rows);
        let live = |row: &&HandlerState| !row.tables.is_empty();
        let used: Vec<u32> = rows
            .filter(live)
            .filter_map(|row| Some(row.call.as_ref()?.object))
            .collect();
        let all = std::mem::take(&mut self.objects);
        let (kept, gone) = all.into_iter().partition(|object| used.contains(&object.number));
        self.objects = kept;
        gone
    }
}
