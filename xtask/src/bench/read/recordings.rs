//! The recordings that are read: one load, recorded by each recorder in its own format.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{
    artifact,
    install::{self, Need},
};

use super::load;

/// Readers that are measured, beside the tracers.
const READERS: &[Need] = &[("trace-cmd", "trace-cmd"), ("time", "time"), ("bash", "bash")];

/// The recorder of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorder {
    Kestrel,
    /// A recording by Kestrel, compressed.
    Packed,
    Perf,
    Tracefs,
}

/// A folder with a recording of each recorder.
pub(super) struct Recordings {
    folder: PathBuf,
    /// With our programs before all others.
    path: OsString,
    /// By recorder.
    events: [u64; LINES.len()],
    /// The directory of the recordings, removed with this.
    _scratch: tempfile::TempDir,
}

/// The load: this program itself.
const LOAD: &str = "taskset -c 1 xtask bench read --load BATCHES";

/// How each records, in the folder of the recordings; the last word on the line's standard output is the number of events.
const LINES: [(Recorder, &str); 4] = [
    (
        Recorder::Kestrel,
        "kestrel record --buffer-size 64M -e raw_syscalls:sys_enter -e raw_syscalls:sys_exit -o trace -- LOAD > /dev/null \
         && kestrel report --format json trace | grep -o '\"records\":[0-9]*' | cut -d: -f2",
    ),
    (
        Recorder::Packed,
        "kestrel cut --compress trace -o packed > /dev/null && cat Kestrel.events",
    ),
    (
        Recorder::Perf,
        "perf record -m 64M -e raw_syscalls:sys_enter,raw_syscalls:sys_exit -o perf.data -- LOAD > /dev/null 2> stdout \
         && grep -o '[0-9]* samples' stdout | cut -d' ' -f1",
    ),
    // `trace-cmd record` wants function tracing, which not every machine lets it have; what it does is this, with trace-cmd itself making the file.
    // The load's own ring has room for all of ten million events where there is a GiB: a busy machine gives `cat` no time to empty it.
    (
        Recorder::Tracefs,
        "ring=/sys/kernel/tracing/instances/kestrel-bench-read; mkdir $ring \
         && trap 'echo 0 > $ring/events/enable; kill $readers 2> /dev/null; rmdir $ring' EXIT \
         && echo 65536 > $ring/buffer_size_kb && echo mono > $ring/trace_clock || exit 1; readers=; \
         echo 1048576 > $ring/per_cpu/cpu1/buffer_size_kb; \
         for cpu in $(seq 0 $(($(nproc --all) - 1))); do \
             cat $ring/per_cpu/cpu$cpu/trace_pipe_raw > raw.$cpu 2> /dev/null & readers=\"$readers $!\"; \
         done; \
         sh -c 'cd '$ring'/events/raw_syscalls && echo \"common_pid == $$\" > filter && echo 1 > enable && exec LOAD' > /dev/null \
             || exit 1; \
         echo 0 > $ring/events/enable; sleep 2; cat $ring/per_cpu/cpu*/stats > stats; \
         kill $readers; wait $readers 2> /dev/null; \
         ! grep -E '^(overrun|dropped events): [1-9]' stats >&2 \
         && trace-cmd restore -c -o head.dat > /dev/null 2>&1 \
         && trace-cmd restore -i head.dat -o trace.dat raw.* > /dev/null && rm raw.* head.dat \
         && awk -F': ' '/^read events/ { n += $2 } END { print n }' stats",
    ),
];

impl Recordings {
    /// Makes them, of about so many events each; those that are in the folder to keep are taken as they are.
    pub(super) fn make(events: u64, keep: Option<&Path>) -> Result<Self> {
        install::ensure(install::TRACERS)?;
        install::ensure(READERS)?;
        ensure!(
            Path::new("/sys/kernel/tracing/events").exists(),
            "tracefs is not mounted on /sys/kernel/tracing"
        );
        let scratch = tempfile::tempdir().context("make a folder for the recordings")?;
        let folder = keep.unwrap_or(scratch.path());
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        let programs = scratch.path().join("programs");
        fs::create_dir(&programs)?;
        fs::copy(artifact::release()?, programs.join("kestrel"))?;
        fs::copy(std::env::current_exe()?, programs.join("xtask"))?;
        let mut path = OsString::from(&programs);
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut made = Self {
            folder: folder.to_owned(),
            path,
            events: [0; LINES.len()],
            _scratch: scratch,
        };
        let load = LOAD.replace("BATCHES", &(events / 2).div_ceil(load::CALLS).to_string());
        for (recorder, line) in LINES {
            made.events[recorder as usize] = made.recorded(recorder, &line.replace("LOAD", &load))?;
        }
        Ok(made)
    }

    /// Records, unless that was done before; gives the number of events.
    fn recorded(&self, recorder: Recorder, line: &str) -> Result<u64> {
        let note = self.folder.join(format!("{recorder:?}.events"));
        if let Ok(text) = fs::read_to_string(&note) {
            return text
                .trim()
                .parse()
                .with_context(|| format!("a number in {}", note.display()));
        }
        eprintln!("recording: {recorder:?}");
        let output = Command::new("bash")
            .args(["-c", line])
            .current_dir(&self.folder)
            .env("PATH", &self.path)
            .stdin(Stdio::null())
            .output()
            .context("run bash")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{line}: {}: {errors}", output.status);
        let stdout = String::from_utf8_lossy(&output.stdout);
        let events = stdout
            .split_whitespace()
            .last()
            .and_then(|word| word.parse().ok());
        let events = events.with_context(|| format!("{line}: a number of events in {stdout:?}: {errors}"))?;
        fs::write(&note, format!("{events}\n"))?;
        Ok(events)
    }

    /// Where they are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where programs are looked for.
    pub(super) fn path(&self) -> &OsString {
        &self.path
    }

    /// Number of events of a recording.
    pub(super) fn events(&self, recorder: Recorder) -> u64 {
        self.events[recorder as usize]
    }
}
