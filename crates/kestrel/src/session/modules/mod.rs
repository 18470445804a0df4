//! Modules that are unloaded and loaded again while their functions are probed. A recorder attaches its kprobes again itself; those of persistent sessions are events of tracefs,
//! which the kernel attaches again; their status lists the modules that are absent or of another build.
//!
//! ```text
//!   rmmod: the kernel's kprobes are gone ──► insmod: nothing is attached ──► the next look: attached again, and noted what was not seen
//! ```
//!
//! A module that is loaded again has another directory below /sys/module, recognised by its inode.

pub(crate) mod follow;
pub(crate) mod status;

use kestrel_catalog::attach::{Mechanism, Sites};
use kestrel_catalog::catalog::{Catalog, Instance};
use kestrel_catalog::code::KERNEL;
use kestrel_kernel::Host;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

/// Place of a hook in a kernel module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) struct ModulePlace {
    pub(in crate::session) module: String,
    /// Which loading of it the hook is attached to; none while it is not loaded.
    pub(in crate::session) loaded: Option<u64>,
    /// Symbols and offsets.
    pub(in crate::session) spots: Vec<(String, u64)>,
    pub(in crate::session) at_return: bool,
    pub(in crate::session) maxactive: Option<u32>,
}

/// A time in which a module's functions were not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleGap {
    /// The module's name.
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
    pub(in crate::session) look: u64,
}

/// Watch over kernel modules: the last look, and the gaps in what was seen.
#[derive(Debug, Default)]
pub(in crate::session) struct ModuleWatch {
    pub(in crate::session) looked: Option<Instant>,
    /// Number of looks so far.
    pub(in crate::session) look: u64,
    pub(in crate::session) gaps: Vec<ModuleGap>,
}

/// Generation of a loaded module.
pub(in crate::session) fn loading(host: &Host, module: &str) -> Option<u64> {
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
pub(in crate::session) fn awaited(mechanism: &Mechanism) -> Option<&str> {
    match mechanism.sites() {
        Sites::Instruction(place, 0) => place.module.as_deref(),
        Sites::Instruction(..)
        | Sites::Instructions(_)
        | Sites::Functions
        | Sites::Trampoline(..)
        | Sites::Fixed => None,
    }
}

/// Build id of a loaded module: its build id, or the checksum of its source.
pub(in crate::session) fn build(host: &Host, module: &str) -> Option<String> {
    let directory = host.path(format!("/sys/module/{module}"));
    let note = || std::fs::read(directory.join("notes/.note.gnu.build-id")).ok();
    let source = || std::fs::read_to_string(directory.join("srcversion")).ok();
    note().map_or_else(
        || source().map(|text| text.trim().to_owned()),
        |note| Some(note.iter().map(|byte| format!("{byte:02x}")).collect()),
    )
}

impl ModulePlace {
    /// Module in which a hook sits, if it does.
    pub(in crate::session) fn of(
        mechanism: &Mechanism,
        instances: &[Instance],
        catalog: &Catalog,
    ) -> Option<Self> {
        let places = match mechanism.sites() {
            // The kernel attaches what waited for its module, each time that comes.
            Sites::Instruction(_, 0) => return None,
            Sites::Instruction(place, _) => vec![place.clone()],
            Sites::Instructions(sites) => sites.iter().map(|site| site.place.clone()).collect(),
            Sites::Functions => {
                let [one] = instances else { return None };
                let symbol = one.symbol.clone()?;
                let module = catalog.module_of(None, &symbol)?;
                let place = kestrel_catalog::code::CodePlace {
                    module: Some(module),
                    symbol,
                    offset: 0,
                };
                vec![place]
            }
            Sites::Trampoline(..) | Sites::Fixed => return None,
        };
        let module = places.first()?.module.clone().filter(|module| module != KERNEL)?;
        let spots = places.into_iter().map(|place| (place.symbol, place.offset));
        Some(Self {
            loaded: loading(catalog.host(), &module),
            module,
            spots: spots.collect(),
            at_return: mechanism.letter() == 'r',
            maxactive: mechanism.maxactive(),
        })
    }
}

impl ModuleWatch {
    /// The gap that a hook of a module is in, which begins where the hook has just been found gone (`fresh`) and none is open.
    pub(in crate::session) fn gap(&mut self, module: &str, fresh: bool, time: u64) -> &mut ModuleGap {
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
    fn a_build_is_known_by_its_note_or_its_source() {
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
    fn a_gap_is_that_of_all_hooks_of_a_module() {
        let mut all = ModuleWatch {
            look: 1,
            ..ModuleWatch::default()
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
