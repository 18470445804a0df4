//! Modules that are unloaded and loaded again while their functions are probed. A recorder attaches its kprobes again itself; those of persistent sessions are events of tracefs,
//! which the kernel attaches again, and their status tells which modules are absent or of another build.
//!
//! ```text
//!   rmmod: the kernel's kprobes are gone ──► insmod: nothing is attached ──► the next look: attached again, and noted what was not seen
//! ```
//!
//! A module that is loaded again has another directory below /sys/module, which its inode tells.

use super::pinned::PinnedSession;
use super::{Attached, Session};
use kestrel_catalog::Result;
use kestrel_catalog::attach::{self, Links, Mechanism};
use kestrel_catalog::catalog::{Catalog, Instance};
use kestrel_catalog::code::KERNEL;
use kestrel_kernel::Host;
use kestrel_kernel::procfs::ClockPair;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// How often it is looked for modules that have come back.
const LOOK: Duration = Duration::from_millis(50);

/// Where a hook sits in a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InModule {
    module: String,
    /// Which loading of it the hook is attached to; none while it is not loaded.
    loaded: Option<u64>,
    /// Symbols and offsets.
    spots: Vec<(String, u64)>,
    at_return: bool,
    maxactive: Option<u32>,
}

/// A time in which a module's functions were not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleGap {
    /// The module.
    pub module: String,
    /// Events in it that were being seen.
    pub events: Vec<String>,
    /// When it was found unloaded: ns since 1970.
    pub unloaded: u64,
    /// When the events were attached again; none while the module is not back.
    pub attached: Option<u64>,
    /// Why some could not be attached again.
    pub refused: Option<String>,
    /// The look that ended it.
    look: u64,
}

/// What a session knows of its modules.
#[derive(Debug, Default)]
pub(super) struct Followed {
    looked: Option<Instant>,
    /// How often.
    look: u64,
    gaps: Vec<ModuleGap>,
}

/// Which loading of a module this is.
fn loading(host: &Host, module: &str) -> Option<u64> {
    let directory = host.path(format!("/sys/module/{module}"));
    // One that goes has the state until its last reference is gone.
    let state = std::fs::read_to_string(directory.join("initstate")).ok()?;
    let live = state.trim() == "live";
    std::fs::metadata(directory)
        .ok()
        .map(|found| found.ino())
        .filter(|_| live)
}

/// The module of what the kernel attaches whenever that is loaded.
pub(super) fn awaited(mechanism: &Mechanism) -> Option<&str> {
    match mechanism {
        Mechanism::Instruction(attach::Instruction {
            place, address: 0, ..
        }) => place.module.as_deref(),
        _ => None,
    }
}

/// Which build of a module is loaded: its build id, or the checksum of its source.
pub(super) fn build(host: &Host, module: &str) -> Option<String> {
    let directory = host.path(format!("/sys/module/{module}"));
    let note = || std::fs::read(directory.join("notes/.note.gnu.build-id")).ok();
    let source = || std::fs::read_to_string(directory.join("srcversion")).ok();
    note().map_or_else(
        || source().map(|text| text.trim().to_owned()),
        |note| Some(note.iter().map(|byte| format!("{byte:02x}")).collect()),
    )
}

/// Why the hooks of a session in a module may not do what they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleState {
    /// It is not loaded: they wait for it.
    Absent,
    /// It is of another build than that for which the hooks were compiled.
    Rebuilt,
}

/// A module that hooks wait for, or that is another one than that which they were made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleStatus {
    /// Its name.
    pub module: String,
    /// What is the matter.
    pub state: ModuleState,
    /// The events.
    pub events: Vec<String>,
}

impl PinnedSession {
    /// Modules with hooks of this session that are not loaded, or of another build than before.
    pub(super) fn modules(&self, host: &Host) -> Vec<ModuleStatus> {
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

impl InModule {
    /// Where a hook sits, if that is in a module.
    pub(super) fn of(mechanism: &Mechanism, instances: &[Instance], catalog: &Catalog) -> Option<Self> {
        let (places, at_return, maxactive) = match mechanism {
            // The kernel attaches what waited for its module, each time that comes.
            Mechanism::Instruction(attach::Instruction { address: 0, .. }) => return None,
            Mechanism::Instruction(attach::Instruction {
                place,
                at_return,
                maxactive,
                ..
            }) => (vec![place.clone()], *at_return, *maxactive),
            Mechanism::Instructions(attach::Instructions { sites }) => {
                (sites.iter().map(|site| site.place.clone()).collect(), false, None)
            }
            Mechanism::Functions(attach::Functions {
                at_return, maxactive, ..
            }) => {
                let [one] = instances else { return None };
                let symbol = one.symbol.clone()?;
                let module = catalog.module_of(None, &symbol)?;
                let place = kestrel_catalog::code::Place {
                    module: Some(module),
                    symbol,
                    offset: 0,
                };
                (vec![place], *at_return, *maxactive)
            }
            _ => return None,
        };
        let module = places.first()?.module.clone().filter(|module| module != KERNEL)?;
        let spots = places.into_iter().map(|place| (place.symbol, place.offset));
        Some(Self {
            loaded: loading(catalog.host(), &module),
            module,
            spots: spots.collect(),
            at_return,
            maxactive,
        })
    }
}

impl Attached {
    /// Attaches the program to its places again.
    fn attach_again(&mut self, catalog: &Catalog) -> Result<()> {
        let Some(place) = &self.module else { return Ok(()) };
        let mut links = Links::default();
        for (symbol, offset) in &place.spots {
            let symbol = format!("{}:{symbol}", place.module);
            let options = (place.at_return, place.maxactive);
            links.kprobe_at(&self.program, (&symbol, *offset), options, catalog)?;
        }
        self.links = links;
        Ok(())
    }
}

impl Session {
    /// Attaches what sits in modules that were unloaded and have come back, and notes what could not be seen; to be called from time to time.
    pub fn follow_modules(&mut self) {
        let hooks = || self.hooks.iter().filter(|hook| hook.module.is_some());
        let looked = self.modules.looked;
        if hooks().next().is_none() || looked.is_some_and(|last| last.elapsed() < LOOK) {
            return;
        }
        self.modules.looked = Some(Instant::now());
        self.modules.look += 1;
        let host = self.host.clone();
        let mut catalog = None;
        for hook in &mut self.hooks {
            let Some(place) = &hook.module else { continue };
            let (module, before) = (place.module.clone(), place.loaded);
            let now = loading(&host, &module);
            if now == before {
                continue;
            }
            let time = ClockPair::now().realtime;
            let look = self.modules.look;
            let gap = self.modules.gap(&module, before.is_some(), time);
            if before.is_some() && !gap.events.contains(&hook.event) {
                gap.events.push(hook.event.clone());
            }
            if now.is_some() {
                let catalog = catalog.get_or_insert_with(|| Catalog::new(host.clone()));
                match hook.attach_again(catalog) {
                    Ok(()) => (gap.attached, gap.look) = (Some(time), look),
                    Err(error) => gap.refused = Some(error.to_string()),
                }
            }
            if let Some(place) = &mut hook.module {
                place.loaded = now;
            }
        }
    }

    /// Times in which functions of modules were not seen, because their module was not loaded or had just come.
    pub fn module_gaps(&self) -> &[ModuleGap] {
        &self.modules.gaps
    }
}

impl Followed {
    /// The gap that a hook of a module is in, which begins where the hook has just been found gone (`fresh`) and none is open.
    fn gap(&mut self, module: &str, fresh: bool, time: u64) -> &mut ModuleGap {
        let look = self.look;
        let of =
            |gap: &ModuleGap| gap.module == module && (gap.attached.is_none() || gap.look == look || !fresh);
        let at = self.gaps.iter().rposition(of).unwrap_or_else(|| {
            self.gaps.push(ModuleGap {
                module: module.to_owned(),
                events: Vec::new(),
                unloaded: time,
                attached: None,
                refused: None,
                look,
            });
            self.gaps.len() - 1
        });
        &mut self.gaps[at]
    }
}

impl fmt::Display for ModuleGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (module, events) = (&self.module, self.events.join(", "));
        match (&self.refused, self.attached) {
            (Some(why), _) => write!(
                f,
                "the module {module} was unloaded and came back, and could not be probed again ({why}): {events} saw nothing more"
            ),
            (None, Some(at)) => write!(
                f,
                "the module {module} was unloaded and loaded again: {events} saw nothing in between, and until they were attached again {:.1} s after it was found gone",
                at.saturating_sub(self.unloaded) as f64 / 1e9
            ),
            (None, None) => write!(f, "the module {module} was unloaded: {events} saw nothing more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_told_by_its_note_or_its_source() {
        let root = tempfile::tempdir().unwrap();
        let of = |path: &str, bytes: &[u8]| {
            let path = root.path().join("sys/module").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        of("noted/notes/.note.gnu.build-id", &[4, 0xab]);
        of("noted/srcversion", b"1\n");
        of("summed/srcversion", b"C0FFEE\n");
        of("bare/initstate", b"live\n");
        let host = Host::new(root.path());
        assert_eq!(build(&host, "noted").as_deref(), Some("04ab"));
        assert_eq!(build(&host, "summed").as_deref(), Some("C0FFEE"));
        assert_eq!(build(&host, "bare"), None);
        assert!(loading(&host, "bare").is_some() && loading(&host, "noted").is_none());
    }

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

    #[test]
    fn a_gap_is_that_of_all_hooks_of_a_module() {
        let mut all = Followed {
            look: 1,
            ..Followed::default()
        };
        all.gap("m", true, 5).events.push("a".to_owned());
        all.gap("m", true, 5).events.push("b".to_owned());
        all.look = 2;
        let gap = all.gap("m", false, 9);
        (gap.attached, gap.look) = (Some(1_000_000_005), 2);
        // The second hook, in the same look.
        all.gap("m", false, 9);
        assert_eq!(all.gaps.len(), 1);
        let shown = all.gaps[0].to_string();
        assert!(
            shown.contains("a, b saw nothing in between") && shown.contains("1.0 s"),
            "{shown}"
        );
        all.look = 3;
        all.gap("m", true, 20);
        assert_eq!(all.gaps.len(), 2, "it went once more");
        assert!(all.gaps[1].to_string().ends_with("saw nothing more"));
    }

    #[test]
    fn a_module_is_another_when_it_was_loaded_again() {
        let tree = tempfile::tempdir().unwrap();
        let module = tree.path().join("sys/module/m");
        let host = Host::new(tree.path());
        assert_eq!(loading(&host, "m"), None);
        std::fs::create_dir_all(&module).unwrap();
        std::fs::write(module.join("initstate"), "going\n").unwrap();
        assert_eq!(loading(&host, "m"), None);
        std::fs::write(module.join("initstate"), "live\n").unwrap();
        assert!(loading(&host, "m").is_some());
    }
}
