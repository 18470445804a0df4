//! Kprobe events of `kprobe_events` that go with whoever made them, and sweeping up after those who were killed.
//!
//! The group says whose an event is: `kestrel_PID_START`, with the process's number and the time it began, which together never come again
//! before a reboot. Groups of other names are other people's and are never touched.

use super::{DynamicEvents, Tracefs};
use crate::error::{Errno, Error, Result};
use crate::host::Host;
use crate::procfs;

const PREFIX: &str = "kestrel_";
/// Names longer than this the kernel refuses (`MAX_EVENT_NAME_LEN` is 64).
const LONGEST: usize = 48;

/// A kprobe event; dropping it removes it.
#[derive(Debug)]
pub struct KprobeEvent {
    tracefs: Tracefs,
    group: String,
    name: String,
}

impl KprobeEvent {
    /// Defines an event at `place` (`vfs_read`, `vfs_read+0x12`, `module:symbol`); `maxactive` is how many calls of the function can be
    /// followed to their return at a time, 0 for the kernel's choice.
    ///
    /// # Errors
    /// [`Error::System`]: `ENOENT` for an unknown symbol, `EINVAL` or `EILSEQ` for a place that cannot be probed.
    pub fn define(
        tracefs: &Tracefs,
        host: &Host,
        place: &str,
        at_return: bool,
        maxactive: u32,
    ) -> Result<Self> {
        let pid = std::process::id();
        let group = format!("{PREFIX}{pid}_{}", procfs::start_time(host, pid)?);
        let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let stem: String = place.chars().take(LONGEST).map(clean).collect();
        let letter = match (at_return, maxactive) {
            (false, _) => "p".to_owned(),
            (true, 0) => "r".to_owned(),
            (true, most) => format!("r{most}"),
        };
        for number in 0..1000 {
            let name = format!("{}{stem}_{number}", if at_return { "r_" } else { "p_" });
            if tracefs.path(&format!("events/{group}/{name}")).exists() {
                continue;
            }
            match tracefs.define(DynamicEvents::Kprobe, &format!("{letter}:{group}/{name} {place}")) {
                Ok(()) => {
                    return Ok(Self {
                        tracefs: tracefs.clone(),
                        group,
                        name,
                    });
                }
                Err(error) if error.errno() == Some(Errno(libc::EEXIST)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Argument {
            subject: place.to_owned(),
            why: "this process has a thousand probes there already".to_owned(),
        })
    }

    /// Its group.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Its name within the group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number, for [`crate::perf::PerfEvent::tracepoint`].
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn id(&self) -> Result<u64> {
        self.tracefs.event_id(&self.group, &self.name)
    }

    /// Removes it, which dropping does without a word.
    ///
    /// # Errors
    /// [`Error::System`]: `EBUSY` while a perf event uses it.
    pub fn remove(mut self) -> Result<()> {
        let name = std::mem::take(&mut self.name);
        self.tracefs
            .define(DynamicEvents::Kprobe, &format!("-:{}/{name}", self.group))
    }
}

impl Drop for KprobeEvent {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            let _ = self
                .tracefs
                .define(DynamicEvents::Kprobe, &format!("-:{}/{}", self.group, self.name));
        }
    }
}

/// Removes the events of processes that are gone, and only those; one that is still in use stays. Answers with what was removed.
///
/// A process of another pid namespace counts as gone if its number is not known here: share the namespace to share the events.
///
/// # Errors
/// [`Error::System`] if the list cannot be read.
pub fn sweep_kprobe_events(tracefs: &Tracefs, host: &Host) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    for line in tracefs.definitions(DynamicEvents::Kprobe)? {
        let Some(event) = dead(&line, |pid| procfs::start_time(host, pid).ok()) else {
            continue;
        };
        if tracefs
            .define(DynamicEvents::Kprobe, &format!("-:{event}"))
            .is_ok()
        {
            removed.push(event.to_owned());
        }
    }
    Ok(removed)
}

/// `p:kestrel_12_345/name place` as `kestrel_12_345/name`, if it is one of ours and process 12 is not the one that began at 345.
fn dead(line: &str, started: impl Fn(u32) -> Option<u64>) -> Option<&str> {
    let event = line.split_once(':')?.1.split_ascii_whitespace().next()?;
    let (group, _) = event.split_once('/')?;
    let (pid, start) = group.strip_prefix(PREFIX)?.split_once('_')?;
    let (pid, start): (u32, u64) = (pid.parse().ok()?, start.parse().ok()?);
    (started(pid) != Some(start)).then_some(event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_what_the_dead_left_is_dead() {
        let started = |pid: u32| (pid == 7).then_some(100);
        let of = |line| dead(line, started);
        assert_eq!(of("p:kestrel_7_100/p_vfs_read_0 vfs_read"), None, "alive");
        assert_eq!(
            of("r8:kestrel_7_99/x vfs_read"),
            Some("kestrel_7_99/x"),
            "its number was given to another"
        );
        assert_eq!(of("p:kestrel_8_100/x vfs_read"), Some("kestrel_8_100/x"));
        assert_eq!(of("p:kprobes/kestrel_8_100 vfs_read"), None);
        assert_eq!(of("p:kestrel_mine/x vfs_read"), None);
        assert_eq!(of("nonsense"), None);
    }

    #[test]
    fn an_event_is_appended_and_its_removal_too() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path().join("sys/kernel/tracing");
        fs::create_dir_all(root.join("events")).unwrap();
        fs::write(
            root.join("kprobe_events"),
            "p:other/theirs vfs_read\np:kestrel_1_999999/x vfs_read\n",
        )
        .unwrap();
        let pid = std::process::id();
        let proc = tree.path().join(format!("proc/{pid}"));
        fs::create_dir_all(&proc).unwrap();
        fs::write(
            proc.join("stat"),
            format!("{pid} (a b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 0"),
        )
        .unwrap();
        let host = Host::new(tree.path());
        let tracefs = Tracefs::open(&host).unwrap();
        let event = KprobeEvent::define(&tracefs, &host, "vfs_read+0x4", true, 64).unwrap();
        let full = format!("{}/{}", event.group(), event.name());
        drop(event);
        let text = fs::read_to_string(root.join("kprobe_events")).unwrap();
        assert!(text.starts_with("p:other/theirs vfs_read\n"), "{text}");
        assert!(
            text.contains(&format!("r64:{full} vfs_read+0x4\n")) && text.ends_with(&format!("-:{full}\n")),
            "{text}"
        );
        let swept = sweep_kprobe_events(&tracefs, &host).unwrap();
        assert_eq!(swept, ["kestrel_1_999999/x"]);
    }
}
