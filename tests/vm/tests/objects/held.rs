//! Helpers of all tests of objects: what the kernel holds before and after, the command while it runs, its output.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel_kernel::bpf;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};
use vm_tests::{TRACEFS, shell};

/// The kernel's BPF objects, and the probes of tracefs.
pub(crate) fn held() -> (Vec<u32>, Vec<u32>, Vec<u32>, String) {
    let probes = fs::read_to_string(format!("{TRACEFS}/kprobe_events")).unwrap();
    (
        bpf::program_ids().unwrap(),
        bpf::link_ids().unwrap(),
        bpf::map_ids().unwrap(),
        probes,
    )
}

/// Maps and programs go a little after their last user: what must be gone is waited for.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while std::time::Instant::now() < end {
        if holds() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    panic!("{what} does not come");
}

/// Waits until nothing is held that was not held before. What other tests left then may have gone meanwhile.
pub(crate) fn gone(before: &(Vec<u32>, Vec<u32>, Vec<u32>, String)) {
    wait_for(
        &format!("the state of before, {before:?}; now {:?}", held()),
        || {
            let now = held();
            let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
            new(&now.0, &before.0).is_empty()
                && new(&now.1, &before.1).is_empty()
                && new(&now.2, &before.2).is_empty()
                && new(&lines(&now.3), &lines(&before.3)).is_empty()
        },
    );
}

/// Objects that were not there before.
pub(crate) fn new<T: PartialEq + Clone>(now: &[T], before: &[T]) -> Vec<T> {
    now.iter().filter(|one| !before.contains(one)).cloned().collect()
}

/// `kestrel bpf run …`, once it says that it runs.
pub(crate) struct Run {
    pub(crate) child: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Run {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new("kestrel")
            .args(["bpf", "run"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line.trim() != "Running." {
            line.clear();
            if out.read_line(&mut line).unwrap() == 0 {
                let output = child.wait_with_output().unwrap();
                panic!(
                    "{arguments:?} does not run: {}",
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        }
        Self { child, out }
    }

    /// Ctrl-C, and what it said until its end.
    pub(crate) fn end(self) -> (String, String) {
        shell(&format!("kill -INT {}", self.child.id())).success();
        self.wait()
    }

    pub(crate) fn wait(mut self) -> (String, String) {
        let mut out = String::new();
        std::io::Read::read_to_string(&mut self.out, &mut out).unwrap();
        let output = self.child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{out}{err}");
        (out, err)
    }
}

/// The values of the last showing of maps in JSON: by map and key.
pub(crate) fn last_value(out: &str, map: &str, key: u64) -> Value {
    let mut lines = out
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .rfind(|line| line["map"] == map && line["key"] == key)
        .unwrap_or_else(|| panic!("no {map}[{key}] in {out}"))["value"]
        .clone()
}

/// Hits that were missed, of all programs: on some kernels a program that is preempted makes others miss.
pub(crate) fn missed(out: &str) -> u64 {
    let lines = out
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut last = std::collections::BTreeMap::new();
    for line in lines.filter(|line| line["program"].is_string()) {
        last.insert(
            line["program"].to_string(),
            line["missed"].as_u64().unwrap() + line["missed"].as_u64().unwrap(),
        );
    }
    last.values().sum()
}

/// Runs an object while `work` is done; what it showed.
pub(crate) fn shown(arguments: &[&str], work: impl FnOnce()) -> String {
    let options = ["--maps", "--stats", "--format", "json", "--interval", "60"];
    let mut child = Command::new("kestrel")
        .args(["bpf", "run"])
        .args(arguments)
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    let mut printed = String::new();
    while line.trim() != "Running." {
        line.clear();
        if err.read_line(&mut line).unwrap() == 0 {
            panic!("{arguments:?} does not run: {printed}");
        }
        printed += &line;
    }
    work();
    shell(&format!("kill -INT {}", child.id())).success();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{printed}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The same while this process makes so many reads of one byte and calls of getppid, and until a program has run that comes by itself.
pub(crate) fn shown_calls(arguments: &[&str], count: u64, comes: Option<&str>) -> String {
    let wanted = format!("wanted={}", std::process::id());
    let work = || {
        vm_tests::read_calls(count).unwrap();
        vm_tests::getppid_calls(count);
        let ran = |name: &str| {
            let all = bpf::program_ids().unwrap().into_iter();
            let infos = all.filter_map(|id| bpf::Program::from_id(id).ok()?.info().ok());
            infos.filter(|info| info.name == name).any(|info| info.runs > 0)
        };
        if let Some(name) = comes {
            wait_for(name, || ran(name));
        }
    };
    shown(&[arguments, &["--set", &wanted]].concat(), work)
}
