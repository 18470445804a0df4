//! Tracefs events that Kestrel defines for itself, for what perf's own probes cannot do: kretprobes with a number of calls to follow and a count of missed ones;
//! probes in modules that the kernel attaches whenever the module is loaded; kprobes on kernels without perf kprobes.
//!
//! Such an event outlives its process. Its name says which process made it, so that a later run can remove what a killed one left. The kernel refuses to
//! remove an event that is in use, so those of persistent sessions are safe as long as their links exist.

use crate::error::Result;
use kestrel_kernel::Errno;
use kestrel_kernel::Host;
use kestrel_kernel::index;
use kestrel_kernel::kallsyms::Symbol;
use kestrel_kernel::perf::ProbePlace;
use kestrel_kernel::procfs::ProcessIdentity;
use kestrel_kernel::tracefs::{DynamicEvents, Tracefs};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Group of the tracefs events that Kestrel defines.
pub const GROUP: &str = "kestrel";
/// Longest wait for an event that a link still uses: the kernel releases a link only after the last run of its program.
const PATIENCE: Duration = Duration::from_secs(2);

/// A tracefs event that is removed when this is dropped.
#[derive(Debug)]
pub struct OwnEvent {
    tracefs: Tracefs,
    name: String,
    left: bool,
}

impl OwnEvent {
    /// Defines a kprobe at a place, or a kretprobe on a function with a number of calls to follow. An `awaited` one is attached again whenever its module is loaded.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn define(
        tracefs: Tracefs,
        host: &Host,
        place: ProbePlace<'_>,
        (at_return, maxactive): (bool, Option<u32>),
        awaited: bool,
    ) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("p{}_{number}", ProcessIdentity::own(host)?);
        let kind = match (at_return, maxactive) {
            (false, _) => "p".to_owned(),
            (true, None) => "r".to_owned(),
            (true, Some(most)) => format!("r{most}"),
        };
        let place = if awaited { place } else { fixed(place, host) };
        tracefs.define(DynamicEvents::Kprobe, &format!("{kind}:{GROUP}/{name} {place}"))?;
        Ok(Self {
            tracefs,
            name,
            left: false,
        })
    }

    /// The event's name within the group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The event's number, by which perf opens it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn id(&self) -> Result<u64> {
        Ok(self.tracefs.event_id(GROUP, &self.name)?)
    }

    /// Leaves the event in place when this value is dropped.
    pub fn persist(&mut self) {
        self.left = true;
    }
}

impl Drop for OwnEvent {
    fn drop(&mut self) {
        if !self.left {
            remove(&self.tracefs, std::slice::from_ref(&self.name));
        }
    }
}

/// Turns the name of a module's function into its address. With a name the kernel would attach the event by itself when the module is loaded again
/// (`trace_kprobe_module_callback` in kernel/trace/trace_kprobe.c), without the kprobes that it depends on and with programs that may be out of date.
fn fixed<'p>(place: ProbePlace<'p>, host: &Host) -> ProbePlace<'p> {
    let ProbePlace::Symbol(name, 0) = place else {
        return place;
    };
    let Some((module, function)) = name.split_once(':') else {
        return place;
    };
    // The address is read anew: the module may have been loaded elsewhere since the catalog was read.
    let Ok(symbols) = index::symbols(host) else {
        return place;
    };
    let own = |symbol: &Symbol<'_>| symbol.is_text() && symbol.module == Some(module);
    let mut addresses = symbols.named(function).filter(own).map(|symbol| symbol.address);
    match (addresses.next(), addresses.next()) {
        (Some(address), None) if address != 0 => ProbePlace::Address(address),
        _ => place,
    }
}

/// Removes events; waits a little for those that a link still uses. What is busy even then is removed by the sweep of a later run.
pub fn remove(tracefs: &Tracefs, names: &[String]) {
    let deadline = Instant::now() + PATIENCE;
    for name in names {
        while let Err(error) = tracefs.define(DynamicEvents::Kprobe, &format!("-:{GROUP}/{name}")) {
            let busy = error.errno() == Some(Errno::EBUSY);
            if !busy || Instant::now() > deadline {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Number of hits that the kernel missed at these events together.
///
/// # Errors
/// When tracefs cannot be read.
pub fn missed<'n>(host: &Host, names: impl Iterator<Item = &'n str>) -> Result<u64> {
    let names: HashSet<&str> = names.collect();
    let tracefs = Tracefs::mount(host)?;
    let profile = tracefs.profile(DynamicEvents::Kprobe)?;
    let own = profile.iter().filter(|row| names.contains(row.name.as_str()));
    Ok(own.map(|row| row.misses).sum())
}

/// Removes events of processes that have ended. Those that a persistent session uses are busy, and remain.
pub fn sweep(host: &Host) {
    let Ok(tracefs) = Tracefs::open(host) else { return };
    let Ok(lines) = tracefs.definitions(DynamicEvents::Kprobe) else {
        return;
    };
    for name in lines.iter().filter_map(|line| own_name(line)) {
        if !owner(name).is_some_and(|owner| owner.is_alive(host)) {
            // Busy: it belongs to a persistent session.
            let _ = tracefs.define(DynamicEvents::Kprobe, &format!("-:{GROUP}/{name}"));
        }
    }
}

/// The event's name in a definition (`r64:kestrel/p12_345_0 vfs_read`), if it is one of Kestrel's.
fn own_name(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(':')?;
    let (name, _) = rest.split_once(' ')?;
    let name = name.strip_prefix(GROUP)?.strip_prefix('/')?;
    owner(name).map(|_| name)
}

/// The process that an event's name refers to.
fn owner(name: &str) -> Option<ProcessIdentity> {
    let (owner, number) = name.strip_prefix('p')?.rsplit_once('_')?;
    number.parse::<u32>().ok()?;
    owner.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A host with one line of another tool in `kprobe_events`, one of a process that has gone, and this process.
    fn host(tree: &Path) -> Host {
        let root = tree.join("sys/kernel/tracing");
        fs::create_dir_all(root.join("events")).unwrap();
        fs::write(
            root.join("kprobe_events"),
            "p:other/theirs vfs_read\np:kestrel/p1_999999_0 vfs_read\n",
        )
        .unwrap();
        let process = tree.join(format!("proc/{}", std::process::id()));
        fs::create_dir_all(&process).unwrap();
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 0";
        fs::write(process.join("stat"), stat).unwrap();
        Host::new(tree)
    }

    #[test]
    fn an_event_is_appended_and_its_removal_too() {
        let tree = tempfile::tempdir().unwrap();
        let host = host(tree.path());
        let tracefs = Tracefs::open(&host).unwrap();
        let lines = || fs::read_to_string(tree.path().join("sys/kernel/tracing/kprobe_events")).unwrap();
        let place = ProbePlace::Symbol("vfs_read", 0);
        let event = OwnEvent::define(tracefs, &host, place, (true, Some(64)), false).unwrap();
        let name = event.name().to_owned();
        drop(event);
        assert!(lines().starts_with("p:other/theirs vfs_read\n"), "{}", lines());
        let ends = format!("r64:{GROUP}/{name} vfs_read\n-:{GROUP}/{name}\n");
        assert!(lines().contains(&ends), "{}", lines());
        sweep(&host);
        assert!(lines().ends_with("-:kestrel/p1_999999_0\n"), "{}", lines());
    }

    #[test]
    fn only_our_own_names_are_taken() {
        assert_eq!(own_name("r64:kestrel/p12_345_0 vfs_read"), Some("p12_345_0"));
        for other in [
            "p:kprobes/p_vfs_read_0 vfs_read",
            "r:kestrel/mine vfs_read",
            "r:kestrel/p12_345 vfs_read",
            "r:kestrel/p12_345_0_1 vfs_read",
            "r:kestrels/p12_345_0 vfs_read",
            "nonsense",
        ] {
            assert_eq!(own_name(other), None, "{other}");
        }
    }
}
