//! Tables of the files of guest tests: the kernels that each runs on, and what its guests have beside every guest's.

use crate::guest::kernel;

/// Files whose tests can run on these kernels alone, also where others are asked for.
const ONLY_ON: &[(&str, &[&str])] = &[
    ("boot", kernel::ALL),
    ("old_kernel", &["5.10"]),
    // Guests with packages are of a kind of their own: the oldest and the newest kernel say enough.
    ("bpftool", &["6.1", "7.3"]),
    ("uprobes", &["6.1", "7.3"]),
    ("stat", &["6.1", "7.3"]),
    ("tracepoints", &["6.1", "6.12", "7.3"]),
];

/// Kernels, and the files of tests that run on them where none are asked for; all others run on the oldest and the newest kernel of the matrix: five emulated
/// kernels for each file take longer than anybody waits. `cargo xtask vm-test NAME --kernel SERIES,…` runs any of them on any kernel, and without NAME all of them, as before a release.
const BY_DEFAULT_ON: &[(&[&str], &[&str])] = &[
    // What may differ from version to version: the functions and types that there are, what a verifier accepts, where hits are missed, what lies in memory that
    // is shared with the kernel. 7.3 stands for 7.2, too.
    (
        &["6.1", "6.12", "6.18", "7.3"],
        &["buffers", "functions", "missed", "recover", "run", "shapes"],
    ),
    // What kernels do differently, but not those of long-term support among one another: attaching, modules, what stands after a kill; layouts of tracefs.
    (
        &["6.1", "6.12", "7.3"],
        &[
            "handlers",
            "library",
            "marks",
            "moments",
            "named",
            "objects",
            "session",
            "tracefs_layouts",
        ],
    ),
    // Pages' command lines are the same everywhere, and each command has tests of its own on other kernels.
    (&["6.1"], &["pages"]),
    // What takes a guest the longest and is about Kestrel rather than the kernel: sessions at their limits, buffers set aside, who is left out, the first commands
    // that a reader meets; and what the verifier counts, by its own rules. On the kernel that most readers have.
    (&["6.12"], &["extremes", "process", "quiet", "readme", "verified"]),
];

/// Files of tests that load compiled objects; they have modules to load, too.
pub(super) const OBJECTS: &[&str] = &["objects", "bpftool", "documented"];

/// Files of tests whose guests have Debian packages, and which.
pub(super) const PACKAGES: &[(&str, &[&str])] = &[
    ("bpftool", &["bpftool"]),
    ("uprobes", &["bpftool"]),
    ("pages", &["linux-perf", "trace-cmd", "babeltrace2"]),
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

/// Files of tests that run programs with tracepoints of their own, and which.
pub(super) const TRACEPOINTS: &[(&str, &[&str])] = &[("tracepoints", &["server", "fork", "shop"])];

/// Files whose tests need a guest of their own, in which no test ran before: they end it, or are about what everything before left in memory.
pub(super) const FRESH: &[&str] = &["extremes", "hotplug", "recover"];

/// Files whose tests may take twice as long: what they do is given from outside, and cannot be made shorter or fewer.
pub(super) const SLOW: &[&str] = &["pages", "readme"];

/// The kernels that a file's tests run on; of those asked for, where some are.
pub(super) fn kernels<'a>(file: &str, asked: Option<&[&'a str]>) -> Vec<&'a str> {
    let only = ONLY_ON.iter().find(|(name, _)| *name == file);
    let on = match (asked, only) {
        (Some(asked), _) => {
            let meant = only.map_or(kernel::MATRIX, |(_, on)| on);
            // No table names a series that is not in ALL (a release candidate's): asked for by name, it runs all files.
            let among = |series: &&&str| meant.contains(series) || !kernel::ALL.contains(series);
            return asked.iter().filter(among).copied().collect();
        }
        (None, Some((_, on))) => on,
        (None, None) => {
            let row = BY_DEFAULT_ON.iter().find(|(_, files)| files.contains(&file));
            row.map_or(kernel::MATRIX_ENDS, |(on, _)| on)
        }
    };
    on.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_kernels() {
        assert_eq!(kernels("pages", None), ["6.1"]);
        assert_eq!(kernels("readme", None), ["6.12"]);
        assert_eq!(kernels("fields", None), kernel::MATRIX_ENDS);
        assert_eq!(kernels("run", None), ["6.1", "6.12", "6.18", "7.3"]);
        assert_eq!(kernels("named", None), ["6.1", "6.12", "7.3"]);
        assert_eq!(kernels("named", Some(&["7.2"])), ["7.2"], "who asks is answered");
        assert_eq!(kernels("pages", Some(&["6.12", "7.3"])), ["6.12", "7.3"]);
        assert_eq!(kernels("stat", Some(&["6.12", "7.3"])), ["7.3"]);
    }

    #[test]
    fn rows_name_kernels_of_the_matrix_and_each_file_once() {
        let by_default = BY_DEFAULT_ON.iter().flat_map(|(_, files)| *files).copied();
        let mut files: Vec<&str> = names(ONLY_ON).chain(by_default).collect();
        let all = files.len();
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len(), all);
        let mut kernels = BY_DEFAULT_ON.iter().flat_map(|(on, _)| *on);
        assert!(kernels.all(|series| kernel::MATRIX.contains(series)));
        let mut kernels = ONLY_ON.iter().flat_map(|(_, on)| *on);
        assert!(kernels.all(|series| kernel::ALL.contains(series)));
    }

    /// Names of the files of a table.
    fn names<T>(table: &'static [(&str, T)]) -> impl Iterator<Item = &'static str> {
        table.iter().map(|(name, _)| *name)
    }

    #[test]
    fn each_row_names_a_file_of_tests() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vm/tests");
        let there: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                name.trim_end_matches(".rs").to_owned()
            })
            .collect();
        let rows = names(ONLY_ON)
            .chain(BY_DEFAULT_ON.iter().flat_map(|(_, files)| *files).copied())
            .chain(names(PACKAGES))
            .chain(names(EXAMPLES))
            .chain(names(TRACEPOINTS))
            .chain([OBJECTS, FRESH, SLOW].concat());
        for name in rows {
            assert!(
                there.iter().any(|file| file == name),
                "{name} is no file of tests"
            );
        }
    }
}
