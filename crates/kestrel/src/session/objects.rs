//! Compiled objects whose programs are handlers of a session's tables. An object is loaded once for all rows that name its file, pinned with the session and
//! found again when another table is loaded; [`kestrel_object::HandlerFile`] says which of its programs an event runs.

use super::pins::{self, Directory};
use super::state::{CallState, ObjectMapState, ObjectState, ProgramState};
use crate::plan::{Call, Hook, PlannedStrategy};
use kestrel_catalog::{Error, Result};
use kestrel_hook::hook::{CALLS, MAX_TABLE_SLOTS};
use kestrel_kernel::bpf::{Map, ProgramKind};
use kestrel_object::BpfMap;
use kestrel_object::HandlerFile;
use kestrel_object::handler::HandlerObject;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Objects of a session, opened when they are first asked for.
#[derive(Debug, Default)]
pub(super) struct Objects(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Files that rows may name.
    files: Vec<Arc<HandlerFile>>,
    /// Objects that the session has, and where their maps are pinned.
    known: Vec<ObjectState>,
    directory: Option<Directory>,
    /// Objects in use here.
    open: Vec<Opened>,
}

/// An object in use.
#[derive(Debug)]
struct Opened {
    /// The file's path.
    path: String,
    number: u32,
    /// Whether the session did not have it before.
    is_new: bool,
    object: HandlerObject,
}

impl Objects {
    /// The objects of a session that was found again.
    pub(super) fn of(known: &[ObjectState], directory: &Directory) -> Self {
        Self(Mutex::new(Inner {
            known: known.to_vec(),
            directory: Some(directory.clone()),
            ..Inner::default()
        }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds files that rows may name from now on.
    pub(super) fn add(&self, files: &[Arc<HandlerFile>]) {
        self.inner().files.extend(files.iter().cloned());
    }

    /// Loads the programs that a hook calls, as the type that it is of itself, and puts them where it calls them.
    pub(super) fn fill(&self, slots: &Map, calls: &[Call], kind: ProgramKind) -> Result<()> {
        let mut inner = self.inner();
        for call in calls {
            let object = inner.open(&call.object)?;
            let program = object.program(&call.program, kind)?;
            slots.set_slot(call.entry, program.as_fd())?;
        }
        Ok(())
    }

    /// Keeps the pins that maps ask for from now on.
    pub(super) fn keep(&self) {
        self.inner().open.iter_mut().for_each(|open| open.object.keep());
    }

    /// Calls `show` with each map of the objects in use, and the path of its file.
    pub(super) fn each_map(&self, show: &mut dyn FnMut(&str, &BpfMap)) {
        for open in &self.inner().open {
            open.object.maps().iter().for_each(|map| show(&open.path, map));
        }
    }

    /// Says in a program's state which objects its rows call.
    pub(super) fn describe_calls(
        &self,
        hook: &Hook,
        strategy: Option<&PlannedStrategy>,
        state: &mut ProgramState,
    ) {
        let Some(strategy) = strategy else { return };
        let calls = hook.calls(strategy);
        let inner = self.inner();
        for (handler, row) in strategy.checked.iter().zip(&mut state.rows) {
            let call = crate::plan::called(handler).and_then(|(object, program)| {
                calls.iter().find(|c| c.object == object && c.program == program)
            });
            let number = |call: &Call| {
                let open = inner.open.iter().find(|open| open.path == call.object);
                open.map(|open| open.number)
            };
            row.call = call.and_then(|call| {
                Some(CallState {
                    object: number(call)?,
                    program: call.program.clone(),
                    entry: call.entry,
                })
            });
        }
    }

    /// Pins the maps of new objects; gives what the session's state is to keep of them.
    pub(super) fn pin(&self, to: &Directory) -> Result<Vec<ObjectState>> {
        let inner = self.inner();
        let mut states = Vec::new();
        for open in inner.open.iter().filter(|open| open.is_new) {
            let mut maps = Vec::new();
            for map in open.object.maps() {
                let state = ObjectMapState {
                    name: map.name().to_owned(),
                    is_data: map.is_data(),
                };
                to.pin(map.as_fd(), &pins::object(open.number, &state.name))?;
                maps.push(state);
            }
            let file = inner.files.iter().find(|file| file.path() == open.path);
            states.push(ObjectState {
                number: open.number,
                path: open.path.clone(),
                content: file.map_or(0, |file| file.content()),
                maps,
            });
        }
        Ok(states)
    }
}

impl Inner {
    /// The object of a file: as the session has it, or new.
    fn open(&mut self, path: &str) -> Result<&mut HandlerObject> {
        let at = match self.open.iter().position(|open| open.path == path) {
            Some(at) => at,
            None => {
                let file = self.files.iter().find(|file| file.path() == path);
                let file = file.ok_or_else(|| Error::Object {
                    object: path.to_owned(),
                    why: "the file was not read".to_owned(),
                })?;
                let same = |known: &&ObjectState| known.path == path && known.content == file.content();
                let (number, is_new, object) = match (self.known.iter().find(same), &self.directory) {
                    (Some(known), Some(directory)) => {
                        let given = |name: &str| match known.maps.iter().any(|map| map.name == name) {
                            true => directory.map(&pins::object(known.number, name)).map(Some),
                            false => Ok(None),
                        };
                        (known.number, false, file.load(&given)?)
                    }
                    _ => {
                        let taken = self.known.iter().map(|known| known.number);
                        let taken = taken.chain(self.open.iter().map(|open| open.number));
                        (
                            taken.max().map_or(0, |most| most + 1),
                            true,
                            file.load(&|_| Ok(None))?,
                        )
                    }
                };
                self.open.push(Opened {
                    path: path.to_owned(),
                    number,
                    is_new,
                    object,
                });
                self.open.len() - 1
            }
        };
        Ok(&mut self.open[at].object)
    }
}

/// A map of an object as it is found again.
pub(super) fn found(directory: &Directory, object: &ObjectState, state: &ObjectMapState) -> Result<BpfMap> {
    let map = directory.map(&pins::object(object.number, &state.name))?;
    Ok(BpfMap::found(&state.name, map, state.is_data))
}

/// The first run of so many places for calls that no program of a hook uses.
pub(super) fn free(programs: &[ProgramState], many: usize) -> Option<u32> {
    let taken: BTreeSet<u32> = entries(programs).collect();
    let fits = |first: &u32| (*first..*first + many as u32).all(|entry| !taken.contains(&entry));
    (MAX_TABLE_SLOTS..(MAX_TABLE_SLOTS + CALLS + 1).saturating_sub(many as u32)).find(fits)
}

/// Places of calls that programs use.
pub(super) fn entries(programs: &[ProgramState]) -> impl Iterator<Item = u32> {
    let rows = programs.iter().flat_map(|program| &program.rows);
    rows.filter_map(|row| row.call.as_ref()).map(|call| call.entry)
}
