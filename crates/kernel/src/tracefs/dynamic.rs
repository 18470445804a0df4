//! Probes defined through tracefs's `kprobe_events` and `uprobe_events`: adding, removing, listing, hits and misses. The text of a definition is up to the caller.

use super::Tracefs;
use crate::error::{Error, Result};
use std::fs::OpenOptions;
use std::io::Write;

/// A tracefs file that takes definitions of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DynamicEvents {
    /// Probes on kernel code.
    Kprobe,
    /// Probes on user code.
    Uprobe,
}

impl DynamicEvents {
    /// The file with the definitions.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Kprobe => "kprobe_events",
            Self::Uprobe => "uprobe_events",
        }
    }

    fn profile(self) -> &'static str {
        match self {
            Self::Kprobe => "kprobe_profile",
            Self::Uprobe => "uprobe_profile",
        }
    }
}

/// Hits and misses of a dynamic event, from a line of `kprobe_profile` or `uprobe_profile`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeProfile {
    /// The name, without the group.
    pub name: String,
    /// Number of hits.
    pub hits: u64,
    /// Number of misses: a kretprobe was out of instances, or a probe was hit inside another probe's handler. Uprobes have none.
    pub misses: u64,
}

impl Tracefs {
    /// Defines or removes an event by a line in the kernel's syntax (`r64:group/name symbol`, `-:group/name`). The file is only ever
    /// appended to: a truncating open would delete the probes of all tools. An event outlives the process that defined it, until any process removes it.
    ///
    /// # Errors
    /// [`Error::System`]: `EEXIST`, `ENOENT` for an unknown symbol or event, `EINVAL` (see `error_log` in tracefs), `EBUSY` while it is in use.
    pub fn define(&self, events: DynamicEvents, line: &str) -> Result<()> {
        let path = self.path(events.file());
        let mut file = OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(|error| Error::system("append to", path.display().to_string(), error))?;
        // One write for the whole line: the kernel does not join lines that come in several writes.
        file.write_all(format!("{}\n", line.trim_end()).as_bytes())
            .map_err(|error| Error::system("define the probe", format!("`{line}`"), error))
    }

    /// The definitions in force, one line each.
    ///
    /// # Errors
    /// [`Error::System`]: `ENOENT` on a kernel without such probes.
    pub fn definitions(&self, events: DynamicEvents) -> Result<Vec<String>> {
        Ok(self.read(events.file())?.lines().map(str::to_owned).collect())
    }

    /// Hits and misses of each event that is defined.
    ///
    /// # Errors
    /// As [`Tracefs::definitions`].
    pub fn profile(&self, events: DynamicEvents) -> Result<Vec<ProbeProfile>> {
        let text = self.read(events.profile())?;
        let row = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            if events == DynamicEvents::Uprobe {
                words.next(); // the file
            }
            let name = words.next()?.to_owned();
            let hits = words.next()?.parse().ok()?;
            let misses = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            Some(ProbeProfile { name, hits, misses })
        };
        Ok(text.lines().filter_map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use std::fs;

    #[test]
    fn definitions_are_appended_never_truncated() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path().join("sys/kernel/tracing");
        fs::create_dir_all(root.join("events")).unwrap();
        fs::write(root.join("kprobe_events"), "p:other/theirs vfs_read\n").unwrap();
        fs::write(root.join("kprobe_profile"), "  theirs   12   3\n").unwrap();
        let tracefs = Tracefs::open(&Host::new(tree.path())).unwrap();
        tracefs
            .define(DynamicEvents::Kprobe, "r64:kestrel/mine vfs_write")
            .unwrap();
        let lines = tracefs.definitions(DynamicEvents::Kprobe).unwrap();
        assert_eq!(lines, ["p:other/theirs vfs_read", "r64:kestrel/mine vfs_write"]);
        let profile = tracefs.profile(DynamicEvents::Kprobe).unwrap();
        assert_eq!((profile[0].hits, profile[0].misses), (12, 3));
        assert!(
            tracefs
                .define(DynamicEvents::Uprobe, "p:x/y /bin/true:0")
                .is_err(),
            "no such file is made"
        );
    }
}
