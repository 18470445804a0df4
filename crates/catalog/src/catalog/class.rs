//! Classes of events (`class:memory`): by their purpose, not by the kernel's groups. This file is a table; it grows by rows.
//!
//! The classes are those of LKST on the tracepoints of today's kernels. Events of LKST for which kernels have no tracepoint (System V
//! semaphores, message queues and pipes as such; big kernel lock) are left out; their system calls are in `syscall`.

use super::glob::Glob;
use super::kind::{DescribedField, Description, EventKind, KindRow, Resolved, Via};
use super::lookup::Catalog;
use crate::error::{Error, Result, nothing_matches};
use kestrel_compiler::lang::ast::{EventPart, EventSpec, Span};
use kestrel_trace::event_kind;
use std::collections::HashSet;
use std::sync::LazyLock;

/// A named class of events.
#[derive(Debug)]
pub struct Class {
    /// Name of the class, as in `class:memory`.
    pub name: &'static str,
    /// Description for people.
    pub about: &'static str,
    /// Patterns of tracepoints, `group:name`; or a kind that is one event.
    pub events: &'static [&'static str],
    /// Patterns of tracepoints that belong to it, too, but duplicate others; they are asked for by name.
    pub doubles: &'static [&'static str],
}

/// All classes; an event belongs to the first that it matches.
pub const CLASSES: &[Class] = &[
    Class {
        name: "process",
        about: "processes and threads: birth, death, scheduling, work queues, control groups",
        events: &[
            "sched:*",
            "sched_ext:*",
            "task:*",
            "cgroup:*",
            "rseq:*",
            "workqueue:*",
            "notifier:*",
        ],
        doubles: &[],
    },
    Class {
        name: "memory",
        about: "memory: allocation, reclaim, compaction, migration, huge pages, out of memory",
        events: &[
            "kmem:*",
            "vmscan:*",
            "oom:*",
            "compaction:*",
            "migrate:*",
            "huge_memory:*",
            "ksm:*",
            "page_isolation:*",
            "percpu:*",
            "mmap:*",
            "vmalloc:*",
            "cma:*",
            "swiotlb:*",
            "damon:*",
            "memcg:*",
            "pagemap:*",
            "hugetlbfs:*",
            "maple_tree:*",
            "page_pool:*",
        ],
        doubles: &[],
    },
    Class {
        name: "hardware",
        about: "interrupts, soft interrupts, power, processors and devices",
        events: &[
            "irq:*",
            "irq_vectors:*",
            "irq_matrix:*",
            "nmi:*",
            "ipi:*",
            "power:*",
            "cpuhp:*",
            "mce:*",
            "ras:*",
            "tlb:*",
            "x86_fpu:*",
            "thermal:*",
            "thermal_power_allocator:*",
            "clk:*",
            "regulator:*",
            "regmap:*",
            "gpio:*",
            "pwm:*",
            "i2c:*",
            "spi:*",
            "hwmon:*",
            "iommu:*",
            "dma:*",
            "dma_fence:*",
            "drm:*",
            "gpu_scheduler:*",
            "gpu_mem:*",
            "dev:*",
            "devfreq:*",
            "rpm:*",
            "mdio:*",
            "xhci-hcd:*",
            "usb:*",
            "intel_iommu:*",
            "amd_cpu:*",
            "hyperv:*",
            "xen:*",
            "pci_hp_event:*",
            "interconnect:*",
        ],
        doubles: &[],
    },
    Class {
        name: "syscall",
        about: "system calls, each by its name",
        events: &["syscalls:*"],
        doubles: &["raw_syscalls:*", "vsyscall:*"],
    },
    Class {
        name: "lock",
        about: "locks: contention, and with lock statistics every acquisition; RCU",
        events: &["lock:*", "mmap_lock:*", "rcu:*", "dlm:*"],
        doubles: &[],
    },
    Class {
        name: "io",
        about: "input and output: block devices, write-back, page cache, file systems, io_uring",
        events: &[
            "block:*",
            "writeback:*",
            "filemap:*",
            "filelock:*",
            "iomap:*",
            "io_uring:*",
            "fs_dax:*",
            "scsi:*",
            "nvme:*",
            "libata:*",
            "mmc:*",
            "iocost:*",
            "wbt:*",
            "kyber:*",
            "bfq:*",
            "null_blk:*",
            "bcache:*",
            "ext4:*",
            "jbd2:*",
            "xfs:*",
            "btrfs:*",
            "f2fs:*",
            "erofs:*",
            "nilfs2:*",
            "gfs2:*",
            "ocfs2:*",
            "fuse:*",
            "9p:*",
            "nfs:*",
            "nfs4:*",
            "nfsd:*",
            "cifs:*",
            "smb3:*",
            "ceph:*",
            "afs:*",
            "netfs:*",
            "fscache:*",
            "cachefiles:*",
            "zonefs:*",
            "bcachefs:*",
            "target:*",
        ],
        doubles: &[],
    },
    Class {
        name: "network",
        about: "network: devices, sockets, packets, TCP, UDP, routing, remote procedure calls",
        events: &[
            "net:*",
            "napi:*",
            "sock:*",
            "skb:*",
            "tcp:*",
            "udp:*",
            "mptcp:*",
            "sctp:*",
            "qdisc:*",
            "fib:*",
            "fib6:*",
            "neigh:*",
            "bridge:*",
            "xdp:*",
            "icmp:*",
            "netlink:*",
            "handshake:*",
            "devlink:*",
            "cfg80211:*",
            "mac80211:*",
            "sunrpc:*",
            "rpcgss:*",
            "rpcrdma:*",
            "rxrpc:*",
            "smc:*",
            "openvswitch:*",
            "ib_mad:*",
        ],
        doubles: &[],
    },
    Class {
        name: "timer",
        about: "timers: expiry, ticks, alarm clocks, real-time clocks",
        events: &["timer:*", "alarmtimer:*", "rtc:*", "timer_migration:*"],
        doubles: &["osnoise:*"],
    },
    Class {
        name: "ipc",
        about: "communication between processes: signals, binder, virtual sockets, pipes of the kernel",
        events: &["signal:*", "binder:*"],
        doubles: &[],
    },
    Class {
        name: "exception",
        about: "exceptions: page faults, and what the kernel reports as errors of its own",
        events: &["exceptions:*", "error_report:*"],
        doubles: &["printk:*"],
    },
    Class {
        name: "user",
        about: "what programs say themselves: marks",
        events: &["mark"],
        doubles: &[],
    },
];

/// The class with this name.
pub fn find(name: &str) -> Option<&'static Class> {
    CLASSES.iter().find(|class| class.name == name)
}

/// The class of a tracepoint, `group:name`.
pub fn of(event: &str) -> Option<&'static Class> {
    let holds = |(own, doubles): &Patterns| own.iter().chain(doubles).any(|glob| glob.matches(event));
    CLASSES.get(PATTERNS.iter().position(holds)?)
}

/// The patterns of a class: of its events, and of duplicates of these.
type Patterns = (Vec<Glob>, Vec<Glob>);

/// Patterns by class, parsed once: they are matched with thousands of events.
static PATTERNS: LazyLock<Vec<Patterns>> = LazyLock::new(|| {
    let globs = |patterns: &[&str]| patterns.iter().map(|pattern| Glob::new(*pattern)).collect();
    let of_class = |class: &Class| (globs(class.events), globs(class.doubles));
    CLASSES.iter().map(of_class).collect()
});

/// Events of each class on this kernel, in the order of [`CLASSES`].
///
/// # Errors
/// When the kernel does not list its tracepoints.
pub fn events(catalog: &Catalog) -> Result<Vec<Vec<String>>> {
    let mut all = vec![Vec::new(); CLASSES.len()];
    super::tracepoint::Tracepoint.names(catalog, &[], &mut |name| {
        let holds = |(own, _): &Patterns| own.iter().any(|glob| glob.matches(name));
        if let Some(place) = PATTERNS.iter().position(holds) {
            all[place].push(name.to_owned());
        }
    })?;
    for (class, all) in CLASSES.iter().zip(&mut all) {
        for kind in kinds(catalog, class) {
            kind.names(catalog, &[], &mut |_| all.push(kind.name().to_owned()))?;
        }
    }
    Ok(all)
}

/// The kinds of a class that are one event each.
fn kinds(catalog: &Catalog, class: &Class) -> impl Iterator<Item = &'static dyn EventKind> {
    let all = catalog.kinds();
    class.events.iter().filter_map(move |event| all.find(event))
}

/// Replaces an error about a missing class without similar names: the error then lists all classes, for they are few.
fn or_any(error: Error) -> Error {
    match error {
        Error::NoSuchEvent { what, wanted, near } if near.is_empty() => {
            let all = CLASSES.iter().map(|class| format!("class:{}", class.name));
            nothing_matches(&what, &wanted, all.collect())
        }
        other => other,
    }
}

/// The spelling `class:NAME` for the tracepoints of a class.
#[derive(Debug)]
pub(super) struct ClassKind;

const ROW: KindRow = KindRow {
    listed: false,
    joins_handlers: false,
    ..KindRow::new(event_kind::CLASS, 1)
};

impl EventKind for ClassKind {
    fn row(&self) -> &KindRow {
        &ROW
    }

    fn names(&self, _catalog: &Catalog, patterns: &[Glob], found: &mut dyn FnMut(&str)) -> Result<()> {
        let wanted = |class: &&Class| patterns.first().is_none_or(|p| p.matches(class.name));
        CLASSES.iter().filter(wanted).for_each(|class| found(class.name));
        Ok(())
    }

    fn describe(&self, catalog: &Catalog, name: &str) -> Result<Description> {
        let class = find(name).ok_or_else(|| nothing_matches("class", name, Vec::new()))?;
        let pattern = |pattern: &&str| DescribedField {
            name: (*pattern).to_owned(),
            ty: match catalog.kinds().find(pattern) {
                Some(_) => "event".to_owned(),
                None => "tracepoint".to_owned(),
            },
        };
        Ok(Description {
            fields: class.events.iter().map(pattern).collect(),
            returns: None,
        })
    }

    fn resolve(&self, catalog: &Catalog, spec: &EventSpec, via: Via) -> Result<Vec<Resolved>> {
        let [part] = &spec.parts[1..] else {
            return Err(Error::wrong_shape(spec, "class:NAME"));
        };
        let mut all = Vec::new();
        let mut seen = HashSet::new();
        let known = catalog.expand(self, &[Glob::new(&part.text)]);
        for name in known.map_err(or_any)? {
            // Few kernels have something for each of the patterns.
            let class = find(&name);
            let patterns = class.iter().flat_map(|class| class.events);
            let patterns: Vec<&str> = patterns
                .copied()
                .filter(|pattern| pattern.contains(':'))
                .collect();
            let mut found = super::tracepoint::Tracepoint.resolve_all(catalog, &patterns, via)?;
            for kind in class.into_iter().flat_map(|class| kinds(catalog, class)) {
                let mut there = false;
                kind.names(catalog, &[], &mut |_| there = true)?;
                if there {
                    found.extend(kind.resolve(catalog, &spec_of(kind.name(), part.span), via)?);
                }
            }
            all.extend(found.into_iter().filter(|r| {
                let names: Vec<String> = r.instances.iter().map(|i| i.name.clone()).collect();
                seen.insert(names)
            }));
        }
        match all.is_empty() {
            true => Err(nothing_matches("event of class", &part.text, Vec::new())),
            false => Ok(all),
        }
    }
}

/// The specification of a kind's only event.
fn spec_of(kind: &str, span: Span) -> EventSpec {
    let part = EventPart {
        text: kind.to_owned(),
        offset: None,
        span,
    };
    EventSpec {
        name: None,
        parts: vec![part],
        span,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_one_class() {
        assert_eq!(of("sched:sched_switch").map(|c| c.name), Some("process"));
        assert_eq!(of("raw_syscalls:sys_enter").map(|c| c.name), Some("syscall"));
        assert_eq!(of("lock:contention_begin").map(|c| c.name), Some("lock"));
        assert_eq!(of("mark").map(|c| c.name), Some("user"));
        assert!(of("nobody:knows").is_none());
    }

    #[test]
    fn no_pattern_stands_twice() {
        let mut seen = HashSet::new();
        for class in CLASSES {
            for pattern in class.events.iter().chain(class.doubles) {
                assert!(seen.insert(*pattern), "{pattern} of {} stands twice", class.name);
                let shape = pattern.split(':').count();
                assert!(
                    shape == 2
                        || crate::catalog::find_kind(pattern).is_some_and(|kind| kind.row().parts == 0),
                    "{pattern}"
                );
            }
        }
    }
}
