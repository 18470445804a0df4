//! The sets of events that a build is recorded with, and the class of each event. This is the one place that names them; which
//! tracepoints exist is read from tracefs.

use std::fs;

use anyhow::{Context, Result, ensure};

/// A class of events: tracefs groups, and single events of groups that belong elsewhere.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    members: &'static [&'static str],
}

const fn class(name: &'static str, members: &'static [&'static str]) -> Class {
    Class { name, members }
}

/// Every class; the first that names an event or its group has it, the last has all others.
pub(crate) const CLASSES: &[Class] = &[
    class("process", &["sched", "task", "signal", "cgroup", "rseq"]),
    class(
        "memory",
        &[
            "kmem",
            "mmap",
            "mmap_lock",
            "vmscan",
            "compaction",
            "migrate",
            "oom",
            "pagemap",
            "filemap",
            "readahead",
            "huge_memory",
            "thp",
            "hugetlbfs",
            "ksm",
            "maple_tree",
            "percpu",
            "vmalloc",
            "tlb",
            "page_isolation",
            "page_pool",
            "swiotlb",
        ],
    ),
    class("accounting", &["memcg"]),
    class(
        "interrupt",
        &["irq", "irq_vectors", "irq_matrix", "nmi", "csd", "ipi"],
    ),
    class("system call", &["raw_syscalls"]),
    class(
        "I/O",
        &[
            "block",
            "ext4",
            "jbd2",
            "writeback",
            "filelock",
            "io_uring",
            "wbt",
            "kyber",
            "iocost",
            "iommu",
            "fuse",
        ],
    ),
    class(
        "network",
        &[
            "net", "sock", "tcp", "udp", "icmp", "skb", "napi", "neigh", "fib", "fib6", "qdisc", "bridge",
            "mptcp", "netlink", "vsock", "xdp",
        ],
    ),
    class("timer", &["timer", "alarmtimer", "timer_migration"]),
    class("exceptions", &["exceptions"]),
    class(LOCKS, &["lock"]),
    class("other", &[]),
];

/// Masked in every set, as in the original's measurement.
const LOCKS: &str = "lock";

/// The events of LKST by its own classes, as far as there are tracepoints for them: the table `original` of the table file `lkst`.
const ORIGINAL: &[&str] = &[
    // Processes.
    "sched:sched_switch",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "sched:sched_process_wait",
    "signal",
    // Interrupts and exceptions.
    "irq",
    "exceptions",
    // System calls.
    "raw_syscalls",
    // Memory: pages given and taken back, and the search for some.
    "kmem:mm_page_alloc",
    "kmem:mm_page_free",
    "vmscan",
    "oom",
    // Packets, devices, timers.
    "net",
    "block",
    "timer:timer_start",
    "timer:timer_cancel",
    "timer:timer_expire_entry",
];

/// Systems of tracefs that are left out: another view of what `raw_syscalls` records, and `ftrace`, which has no events.
const NOT_RECORDED: &[&str] = &["syscalls", "ftrace"];

/// A named set of classes.
pub(crate) struct Set {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Whether an event of a class is in it.
    has: fn(class: &str, event: &str) -> bool,
}

/// Sets of events that a build is recorded with.
pub(crate) const SETS: &[Set] = &[
    Set {
        name: "all",
        about: "every tracepoint, locks masked",
        has: |class, _| class != LOCKS,
    },
    Set {
        name: "flight",
        about: "process, memory, interrupt, system call, I/O, network; locks and the accounting of memory masked",
        has: |class, _| ["process", "memory", "interrupt", "system call", "I/O", "network"].contains(&class),
    },
    Set {
        name: "original",
        about: "the events of LKST, a tracepoint or two for each; locks masked",
        has: |_, event| ORIGINAL.contains(&event) || ORIGINAL.contains(&group(event)),
    },
];

impl Set {
    /// The set of that name.
    pub(crate) fn named(name: &str) -> Result<&'static Self> {
        let known = || SETS.iter().map(|set| set.name).collect::<Vec<_>>().join(", ");
        SETS.iter()
            .find(|set| set.name == name)
            .with_context(|| format!("no set of events is called {name}: there are {}", known()))
    }

    /// The tracepoints of this machine that are in it, `group:name`, in tracefs's order.
    pub(crate) fn events(&self) -> Result<Vec<String>> {
        let file = "/sys/kernel/tracing/available_events";
        let text = fs::read_to_string(file).with_context(|| format!("read {file}"))?;
        let events: Vec<String> = text
            .lines()
            .filter(|event| !NOT_RECORDED.contains(&group(event)) && (self.has)(class_of(event), event))
            .map(str::to_owned)
            .collect();
        ensure!(
            !events.is_empty(),
            "{file} names no event of the set {}",
            self.name
        );
        Ok(events)
    }
}

/// The class of an event.
pub(crate) fn class_of(event: &str) -> &'static str {
    let has = |class: &&Class| class.members.contains(&event) || class.members.contains(&group(event));
    CLASSES.iter().find(has).map_or("other", |class| class.name)
}

fn group(event: &str) -> &str {
    event.split(':').next().unwrap_or(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_has_one_class() {
        assert_eq!(class_of("sched:sched_switch"), "process");
        assert_eq!(class_of("xfs:xfs_buf_get"), "other");
        let mut members: Vec<&str> = CLASSES.iter().flat_map(|class| class.members).copied().collect();
        let count = members.len();
        members.sort_unstable();
        members.dedup();
        assert_eq!(members.len(), count);
    }

    #[test]
    fn locks_are_masked_everywhere() {
        for set in SETS {
            assert!(!(set.has)(LOCKS, "lock:contention_begin"), "{}", set.name);
        }
    }
}
