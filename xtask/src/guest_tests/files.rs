//! Tables of the files of guest tests: the kernels that each runs on, and what its guests have beside every guest's.

use crate::guest::kernel;

/// Files of tests that do not simply run on the matrix, and the kernels that they run on.
pub(super) const ELSEWHERE: &[(&str, &[&str])] = &[
    ("boot", kernel::ALL),
    ("old_kernel", &["5.10"]),
    // Guests with packages are of a kind of their own: the oldest and the newest kernel say enough.
    ("bpftool", &["6.1", "7.2"]),
    ("uprobes", &["6.1", "7.3"]),
    ("stat", &["6.1", "7.3"]),
    ("tracepoints", &["6.1", "6.12", "7.2"]),
];

/// Files about what kernels do differently: attaching, verifying, memory that is shared with the kernel, loading objects, recovering. They run on the whole
/// matrix, on [`NEIGHBOUR`] as far as [`VERSION_BY_VERSION`] says; all others, on its oldest and its newest kernel: five emulated kernels for each file take longer than anybody waits.
pub(super) const WHOLE_MATRIX: &[&str] = &[
    "buffers",
    "functions",
    "handlers",
    "library",
    "marks",
    "missed",
    "moments",
    "named",
    "objects",
    "recover",
    "run",
    "session",
    "shapes",
    "tracefs_layouts",
];

/// Files that run on the oldest kernel alone: what readers type is the same everywhere, and what a command does has tests of its own on other kernels. The first
/// commands that a reader meets, those of the file `readme`, run on the newest one, too.
pub(super) const OLDEST_ALONE: &[&str] = &["pages"];

/// The newest kernel's neighbour. Users of commands and tables meet the same there as on the newest, in the same way: only what may differ from version to version
/// is tried on both.
pub(super) const NEIGHBOUR: &str = "7.2";

/// Those are: the functions and types that there are, where hits are missed, what lies in memory, where the preemption count is.
pub(super) const VERSION_BY_VERSION: &[&str] = &[
    "functions",
    "missed",
    "objects",
    "recover",
    "shapes",
    "tracefs_layouts",
];

/// Files of tests that load compiled objects; they have modules to load, too.
pub(super) const OBJECTS: &[&str] = &["objects", "bpftool"];

/// Files of tests whose guests have Debian packages, and which.
pub(super) const PACKAGES: &[(&str, &[&str])] = &[
    ("bpftool", &["bpftool"]),
    ("uprobes", &["bpftool"]),
    ("stat", &["linux-perf"]),
    ("calls", &["strace", "linux-perf"]),
    ("sched", &["linux-perf"]),
    ("tracepoints", &["bpftrace", "linux-perf"]),
    ("perf_stacks", &["linux-perf", "python3-minimal"]),
];

/// Files of tests that run examples of the library, and which.
pub(super) const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "library",
        &[
            "probe_registers",
            "probe_processes",
            "probe_open_latency",
            "probe_fault",
            "probe_tracepoint",
        ],
    ),
    ("objects", &["bpf_calls"]),
];

/// Files of tests that run programs with tracepoints of their own, which are examples: of which package, and which.
pub(super) const TRACEPOINTS: &[(&str, &[(&str, &str)])] = &[(
    "tracepoints",
    &[
        ("kestrel-tracepoint", "server"),
        ("kestrel-tracepoint", "fork"),
        ("kestrel-tracing", "shop"),
    ],
)];

/// Files whose tests need a clone that saw no others: they end it, or are about what everything before left in memory.
pub(super) const FRESH: &[&str] = &["extremes", "hotplug", "recover"];

/// Files whose tests may take twice as long: what they do is given from outside, and cannot be made shorter or fewer.
pub(super) const SLOW: &[&str] = &["pages", "readme"];

/// The kernels that a file's tests run on; of those asked for, where some are.
pub(super) fn kernels<'a>(file: &str, asked: Option<&[&'a str]>) -> Vec<&'a str> {
    let elsewhere = ELSEWHERE.iter().find(|(name, _)| *name == file);
    let meant = elsewhere.map_or(kernel::MATRIX, |(_, on)| on);
    let on: &[&str] = match (asked, elsewhere) {
        (Some(asked), _) => {
            let among = |series: &&&str| meant.contains(series) || !kernel::ALL.contains(series);
            return asked.iter().filter(among).copied().collect();
        }
        (None, Some(_)) => meant,
        (None, None) if OLDEST_ALONE.contains(&file) => &kernel::MATRIX_ENDS[..1],
        (None, None) if VERSION_BY_VERSION.contains(&file) => meant,
        (None, None) if WHOLE_MATRIX.contains(&file) => {
            let apart = |series: &&&str| **series != NEIGHBOUR;
            return meant.iter().filter(apart).copied().collect();
        }
        (None, None) => kernel::MATRIX_ENDS,
    };
    on.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_kernels() {
        assert_eq!(kernels("pages", None), ["6.1"]);
        assert_eq!(kernels("readme", None), kernel::MATRIX_ENDS);
        assert_eq!(kernels("fields", None), kernel::MATRIX_ENDS);
        assert_eq!(kernels("shapes", None), kernel::MATRIX);
        assert_eq!(kernels("named", None), ["6.1", "6.12", "6.18", "7.3"]);
        assert_eq!(kernels("named", Some(&["7.2"])), ["7.2"], "who asks is answered");
        assert_eq!(kernels("pages", Some(&["6.12", "7.3"])), ["6.12", "7.3"]);
        assert_eq!(kernels("stat", Some(&["6.12", "7.3"])), ["7.3"]);
    }

    #[test]
    fn what_differs_by_version_is_on_the_whole_matrix_and_the_neighbour_in_it() {
        assert!(kernel::MATRIX.contains(&NEIGHBOUR));
        assert!(VERSION_BY_VERSION.iter().all(|file| WHOLE_MATRIX.contains(file)));
    }
}
