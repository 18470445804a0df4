//! Tracefs: events with their formats, traceable functions, dynamic probes; reading its rings is not for us.

mod dynamic;
mod function;
mod instance;

pub use dynamic::{DynamicEvents, ProbeProfile};
pub use function::{TraceableFunction, kprobe_blacklist};
pub use instance::Instance;
pub use kestrel_layout::entry::{Field, Format, LabelKind, Labels, Location, Printed};

use crate::error::{Error, Result};
use crate::host::Host;
use std::fs;
use std::io;
use std::path::PathBuf;

/// An event of tracefs by name: `sched:sched_switch`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventName {
    /// The group ("system"): `sched`.
    pub group: String,
    /// The name within the group: `sched_switch`.
    pub name: String,
}

/// A mounted tracefs.
#[derive(Clone, Debug)]
pub struct Tracefs {
    root: PathBuf,
}

impl Tracefs {
    /// The tracefs of a host, if it is mounted (see [`Host::tracefs`]).
    ///
    /// # Errors
    /// [`Error::Unavailable`].
    pub fn open(host: &Host) -> Result<Self> {
        host.tracefs().map(|root| Self { root })
    }

    /// Opens tracefs, mounting it where it is missing (see [`Host::mount_tracefs`]).
    ///
    /// # Errors
    /// As [`Host::mount_tracefs`].
    pub fn mount(host: &Host) -> Result<Self> {
        host.mount_tracefs().map(|root| Self { root })
    }

    /// A path below tracefs.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The whole of a file below tracefs.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn read(&self, path: &str) -> Result<String> {
        let path = self.path(path);
        fs::read(&path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .map_err(|error| Error::tracefs("read", &path, error))
    }

    /// All events that can be switched on, in the kernel's order, dynamic ones included: one read of `available_events` instead of a walk through
    /// thousands of directories.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn events(&self) -> Result<Vec<EventName>> {
        let text = self.read("available_events")?;
        let names = text.lines().filter_map(|line| line.split_once(':'));
        Ok(names
            .map(|(group, name)| EventName {
                group: group.to_owned(),
                name: name.to_owned(),
            })
            .collect())
    }

    /// Whether there is such an event.
    ///
    /// # Errors
    /// [`Error::System`] where this process may not know.
    pub fn has(&self, group: &str, name: &str) -> Result<bool> {
        let path = self.path(&format!("events/{group}/{name}/format"));
        match fs::metadata(&path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(Error::tracefs("read", &path, error))
            }
            // A name that is none (too long, with a NUL) names no event either.
            Err(_) => Ok(false),
        }
    }

    /// The number of an event, for [`crate::perf::PerfEvent::tracepoint`].
    ///
    /// # Errors
    /// [`Error::System`]: `ENOENT` if there is no such event, or it cannot be used with perf.
    pub fn event_id(&self, group: &str, name: &str) -> Result<u64> {
        let path = format!("events/{group}/{name}/id");
        let text = self.read(&path)?;
        text.trim().parse().map_err(|_| Error::Format {
            subject: self.path(&path).display().to_string(),
            why: format!("`{}` is not a number", text.trim()),
        })
    }

    /// The format of an event's entries.
    ///
    /// # Errors
    /// [`Error::System`]: `ENOENT` if there is no such event; [`Error::Format`].
    pub fn format(&self, group: &str, name: &str) -> Result<Format> {
        let path = format!("events/{group}/{name}/format");
        Format::parse(&self.read(&path)?).map_err(|why| Error::Format {
            subject: self.path(&path).display().to_string(),
            why,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Errno;

    /// A tracefs with one event, written by the test.
    fn tree() -> (tempfile::TempDir, Tracefs) {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path().join("sys/kernel/tracing");
        fs::create_dir_all(root.join("events/sched/sched_switch")).unwrap();
        fs::write(
            root.join("available_events"),
            "sched:sched_switch\nsyscalls:sys_enter_read\n",
        )
        .unwrap();
        fs::write(root.join("events/sched/sched_switch/id"), "316\n").unwrap();
        let tracefs = Tracefs::open(&Host::new(tree.path())).unwrap();
        (tree, tracefs)
    }

    #[test]
    fn events_and_ids_come_from_the_tree() {
        let (_tree, tracefs) = tree();
        let events = tracefs.events().unwrap();
        assert_eq!(events.len(), 2);
        assert_eq!(
            (events[1].group.as_str(), events[1].name.as_str()),
            ("syscalls", "sys_enter_read")
        );
        assert_eq!(tracefs.event_id("sched", "sched_switch").unwrap(), 316);
        assert_eq!(
            tracefs.event_id("sched", "nothing").unwrap_err().errno(),
            Some(Errno::ENOENT)
        );
    }

    #[test]
    fn a_damaged_format_is_named() {
        let (_tree, tracefs) = tree();
        fs::write(tracefs.path("events/sched/sched_switch/format"), "name: x\n").unwrap();
        let error = tracefs.format("sched", "sched_switch").unwrap_err().to_string();
        assert!(
            error.contains("sched_switch/format") && error.contains("ID"),
            "{error}"
        );
    }
}
