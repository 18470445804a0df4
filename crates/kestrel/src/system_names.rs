//! Names of users and control groups on this system, and how its clocks differ: asked when output needs one, or all that a recording is to keep.

use kestrel_catalog::catalog::Glob;
use kestrel_kernel::Host;
use kestrel_kernel::procfs::{ClockPair, atomic_time, boottime, monotonic};
use kestrel_trace::layout::DateClock;
use kestrel_trace::names::{KeptNames, Names};
use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Names that a system knows.
#[derive(Debug)]
pub struct SystemNames {
    host: Host,
    users: OnceLock<HashMap<u32, String>>,
    hierarchies: OnceLock<Vec<Hierarchy>>,
    /// Paths of groups that were asked for, by number and hierarchy; groups come and go, so only those that were found are kept.
    groups: Mutex<HashMap<(u64, usize), PathBuf>>,
}

/// A hierarchy of control groups: `unified` (cgroup v2), or one of v1.
#[derive(Debug)]
struct Hierarchy {
    name: String,
    root: PathBuf,
}

/// The name of the hierarchy of cgroup v2.
pub(crate) const UNIFIED: &str = "unified";
/// Depth to which groups are looked for.
const DEEPEST: usize = 64;
/// Most groups whose paths a recording keeps.
const MAX_GROUPS: usize = 1 << 16;

impl SystemNames {
    /// Names on a host; nothing is read yet.
    pub fn new(host: Host) -> Self {
        Self {
            host,
            users: OnceLock::new(),
            hierarchies: OnceLock::new(),
            groups: Mutex::default(),
        }
    }

    fn hierarchies(&self) -> &[Hierarchy] {
        self.hierarchies
            .get_or_init(|| hierarchies(&self.host.read("/proc/self/mounts").unwrap_or_default()))
    }

    /// The names of these users, and the paths of all groups where they are wanted.
    pub(crate) fn kept(&self, users: &BTreeSet<u32>, groups: bool) -> KeptNames {
        let mut kept = KeptNames::default();
        for number in users {
            if let Some(name) = self.user(*number) {
                kept.users.insert(*number, name);
            }
        }
        let hierarchies = if groups { self.hierarchies() } else { &[] };
        for hierarchy in hierarchies {
            let root = self.host.path(&hierarchy.root);
            // No group has this number, so that the search goes over all groups.
            find(&root, DEEPEST, &mut |path| {
                if let (Ok(about), Ok(below)) = (path.metadata(), path.strip_prefix(&root)) {
                    let group = (about.ino(), hierarchy.name.clone());
                    let path = format!("/{}", below.display());
                    kept.control_groups.insert(group, path);
                }
                kept.control_groups.len() >= MAX_GROUPS
            });
        }
        kept
    }

    /// The path of a group below the root of a hierarchy.
    fn group(&self, number: u64, index: usize, hierarchy: &Hierarchy) -> Option<PathBuf> {
        let root = self.host.path(&hierarchy.root);
        let is_it = |path: &Path| path.metadata().is_ok_and(|about| about.ino() == number);
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = groups.get(&(number, index))
            && is_it(&root.join(known))
        {
            return Some(known.clone());
        }
        let found = find(&root, DEEPEST, &mut { is_it })?;
        let path = found.strip_prefix(&root).ok()?.to_owned();
        groups.insert((number, index), path.clone());
        Some(path)
    }
}

impl Names for SystemNames {
    fn user(&self, number: u32) -> Option<String> {
        let users = self
            .users
            .get_or_init(|| users(&self.host.read("/etc/passwd").unwrap_or_default()));
        users.get(&number).cloned()
    }

    fn control_group(&self, number: u64, hierarchies: &str) -> Option<String> {
        let wanted = Glob::new(hierarchies);
        let all = self.hierarchies().iter().enumerate();
        let paths: Vec<String> = all
            .filter(|(_, hierarchy)| hierarchies.is_empty() || wanted.matches(&hierarchy.name))
            .filter_map(|(index, hierarchy)| {
                let path = self.group(number, index, hierarchy)?;
                Some(format!("{}:/{}", hierarchy.name, path.display()))
            })
            .collect();
        Some(paths.join(","))
    }

    fn clock_offset(&self, clock: DateClock) -> i64 {
        const SECOND: i64 = 1_000_000_000;
        let now = ClockPair::now();
        match clock {
            DateClock::Monotonic => now.offset(),
            DateClock::Boot => {
                let asleep = boottime().saturating_sub(monotonic());
                now.offset().saturating_sub_unsigned(asleep)
            }
            DateClock::Atomic => {
                let ahead = atomic_time().cast_signed() - now.realtime.cast_signed();
                // Whole seconds: the two were not read at one moment.
                -((ahead + SECOND / 2).div_euclid(SECOND) * SECOND)
            }
            DateClock::Real => 0,
        }
    }
}

/// Names of users by number, of a text like that of /etc/passwd.
fn users(text: &str) -> HashMap<u32, String> {
    let mut users = HashMap::new();
    for line in text.lines() {
        let mut words = line.split(':');
        if let (Some(name), Some(number)) = (words.next(), words.nth(1))
            && let Ok(number) = number.parse()
        {
            users.entry(number).or_insert_with(|| name.to_owned());
        }
    }
    users
}

/// The mounted hierarchies, the unified one first.
fn hierarchies(mounts: &str) -> Vec<Hierarchy> {
    let mut all: Vec<Hierarchy> = Vec::new();
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(root), Some(kind)) = (words.next(), words.next()) else {
            continue;
        };
        let root = PathBuf::from(root);
        let name = match kind {
            "cgroup2" => UNIFIED.to_owned(),
            "cgroup" => match root.file_name() {
                Some(name) => name.to_string_lossy().into_owned(),
                None => continue,
            },
            _ => continue,
        };
        if all.iter().all(|known| known.name != name) {
            all.push(Hierarchy { name, root });
        }
    }
    all.sort_unstable_by(|a, b| (a.name != UNIFIED, &a.name).cmp(&(b.name != UNIFIED, &b.name)));
    all
}

/// The directory that is wanted, at most so deep below another.
fn find(directory: &Path, depth: usize, is_it: &mut impl FnMut(&Path) -> bool) -> Option<PathBuf> {
    if is_it(directory) {
        return Some(directory.to_owned());
    }
    let deeper = depth.checked_sub(1)?;
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let mut directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.find_map(|entry| find(&entry.path(), deeper, is_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_users_have_the_names_of_their_host() {
        let tree = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "etc/passwd",
            "root:x:0:0::/:/bin/sh\nother:x:0:0::/:/bin/sh\nbroken\ndaemon:x:1:1::/:\n",
        );
        write(
            "proc/self/mounts",
            "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\nproc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
        );
        write("sys/fs/cgroup/unified/a/b/cgroup.procs", "");
        write("sys/fs/cgroup/cpu/cgroup.procs", "");
        let names = SystemNames::new(Host::new(tree.path()));
        assert_eq!(names.user(0).as_deref(), Some("root"));
        assert_eq!((names.user(1).as_deref(), names.user(2)), (Some("daemon"), None));
        let number = |path: &str| {
            tree.path()
                .join("sys/fs/cgroup")
                .join(path)
                .metadata()
                .unwrap()
                .ino()
        };
        let inner = number("unified/a/b");
        assert_eq!(names.control_group(inner, "").as_deref(), Some("unified:/a/b"));
        assert_eq!(names.control_group(inner, "un*").as_deref(), Some("unified:/a/b"));
        assert_eq!(names.control_group(inner, "cpu").as_deref(), Some(""));
        assert_eq!(names.control_group(number("cpu"), "").as_deref(), Some("cpu:/"));
        let kept = names.kept(&BTreeSet::from([1, 2]), true);
        let text = format!("user 1 daemon\ncgroup {} unified /a/b\n", number("unified/a/b"));
        for line in text.lines() {
            assert!(kept.to_text().contains(line), "{line}: {}", kept.to_text());
        }
        assert_eq!(kept.paths(number("cpu")).collect::<Vec<_>>(), [("cpu", "/")]);
        assert_eq!(kept.users.len(), 1);
        assert!(names.kept(&BTreeSet::new(), false).is_empty());
        // A path that was found is looked for again when it is no longer there.
        let from = tree.path().join("sys/fs/cgroup/unified/a/b");
        std::fs::rename(&from, tree.path().join("sys/fs/cgroup/unified/c")).unwrap();
        assert_eq!(names.control_group(inner, "").as_deref(), Some("unified:/c"));
    }

    #[test]
    fn times_of_all_clocks_are_dates() {
        let names = SystemNames::new(Host::default());
        let now = ClockPair::now().realtime;
        let second = 1_000_000_000;
        for (clock, time) in [
            (DateClock::Monotonic, monotonic()),
            (DateClock::Boot, boottime()),
            (DateClock::Atomic, atomic_time()),
            (DateClock::Real, now),
        ] {
            let date = time.wrapping_add_signed(names.clock_offset(clock));
            // A minute, should this thread stand still between the readings.
            assert!(date.abs_diff(now) < 60 * second, "{clock:?} {date} {now}");
        }
    }
}
