//! Status of the kernel modules that a persistent session has hooks in: not loaded, or of another build.

use crate::session::modules::{awaited, build, loading};
use crate::session::pinned::PinnedSession;
use kestrel_kernel::Host;
use serde::Serialize;
use std::fmt;

/// Why the hooks of a session in a module may not do what they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ModuleState {
    /// The module is not loaded; the hooks wait for it.
    Absent,
    /// The module is of another build than the one that the hooks were compiled for.
    Rebuilt,
}

/// A module that a session's hooks wait for, or that has changed since they were compiled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModuleStatus {
    /// The module's name.
    pub module: String,
    /// The state of the module.
    pub state: ModuleState,
    /// The session's events in it.
    pub events: Vec<String>,
}

impl PinnedSession {
    /// Modules with hooks of this session that are not loaded, or of another build than before.
    pub(in crate::session) fn modules(&self, host: &Host) -> Vec<ModuleStatus> {
        let mut all: Vec<ModuleStatus> = Vec::new();
        for hook in self.state.hooks.iter().filter(|hook| !hook.companion) {
            let mechanism = hook.attached.as_ref();
            let Some(module) = mechanism.and_then(awaited) else {
                continue;
            };
            let state = if loading(host, module).is_none() {
                ModuleState::Absent
            } else if hook.module_build.is_some() && hook.module_build != build(host, module) {
                ModuleState::Rebuilt
            } else {
                continue;
            };
            let events = hook.events.iter().map(|event| event.name.clone());
            match all
                .iter_mut()
                .find(|one| one.module == module && one.state == state)
            {
                Some(known) => known.events.extend(events),
                None => all.push(ModuleStatus {
                    module: module.to_owned(),
                    state,
                    events: events.collect(),
                }),
            }
        }
        all
    }
}

impl fmt::Display for ModuleStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let module = &self.module;
        let events = match self.events.as_slice() {
            [first, second, _, rest @ ..] if !rest.is_empty() => {
                format!("{first}, {second} and {} more", rest.len() + 1)
            }
            few => few.join(", "),
        };
        match self.state {
            ModuleState::Absent => write!(
                f,
                "the module {module} is not loaded: the kernel attaches {events} when it is"
            ),
            ModuleState::Rebuilt => write!(
                f,
                "the module {module} was loaded again in another build than that for which the handlers of {events} were compiled: load their tables again (`kestrel table load`), or their values may be wrong"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_events_of_a_module_are_counted() {
        let of = |count: usize| {
            let events = (0..count).map(|event| format!("e{event}"));
            let status = ModuleStatus {
                module: "m".to_owned(),
                state: ModuleState::Absent,
                events: events.collect(),
            };
            status.to_string()
        };
        assert!(of(3).contains("attaches e0, e1, e2 when"));
        assert!(of(4).contains("attaches e0, e1 and 2 more when"));
    }
}
