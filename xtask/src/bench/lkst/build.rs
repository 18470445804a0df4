//! One build under one recorder, and what it took: wall clock, the processor time of the build, and that of the whole machine.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};

use super::{
    recorder::{Counts, RING, Recorder},
    tree::Tree,
};

/// Shell script that is recorded: the build, with clocks read before and after. `times` gives the time of its children.
const SCRIPT: &str = r#"#!/bin/sh
exec < /dev/null
trap 'kill $! 2>/dev/null; exit 143' TERM INT
cat /proc/stat > DIR/stat.before
date +%s%N > DIR/clock.before
make -s -C OBJECTS -j JOBS TARGETS > DIR/make.out 2>&1 &
wait $!
status=$?
date +%s%N > DIR/clock.after
times > DIR/times
cat /proc/stat > DIR/stat.after
exit $status
"#;

/// The build.
pub(crate) struct Work<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) targets: &'a [String],
    pub(crate) jobs: usize,
    /// Where `kestrel` is.
    pub(crate) programs: &'a Path,
}

/// Costs of a build, seconds.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) wall: f64,
    /// User and system time of the build's processes.
    pub(crate) build_cpu: f64,
    /// Processor time of the whole machine during the build, interrupts and the recorder included.
    pub(crate) machine_cpu: f64,
    /// Start-up and shutdown of the recorder: from its start to the build's, and from the build's end to its own.
    pub(crate) startup_and_stop: f64,
    /// From the recorder's exit until its background detach ended: none of it may run beside the next build.
    pub(crate) background: f64,
    pub(crate) counts: Option<Counts>,
}

impl Work<'_> {
    /// Builds from scratch while `recorder` records `events`.
    pub(crate) fn measure(&self, recorder: &Recorder, events: &[String]) -> Result<Taken> {
        self.tree.reset()?;
        let scratch = tempfile::tempdir().context("make a folder for traces")?;
        let folder = scratch.path().display().to_string();
        let script = scratch.path().join("build.sh");
        let list = scratch.path().join("events");
        let text = SCRIPT
            .replace("DIR", &folder)
            .replace("OBJECTS", &self.tree.objects().display().to_string())
            .replace("JOBS", &self.jobs.to_string())
            .replace("TARGETS", &self.targets.join(" "));
        fs::write(&script, text)?;
        let events: Vec<&str> = events
            .iter()
            .map(String::as_str)
            .filter(|event| !recorder.refuses.iter().any(|(refused, _)| refused == event))
            .collect();
        fs::write(&list, events.join("\n") + "\n")?;
        let line = recorder
            .line
            .replace("EVENTS", &events.join(","))
            .replace("LIST", &list.display().to_string())
            .replace("BUILD", &format!("sh {}", script.display()))
            .replace("RING", RING)
            .replace("DIR", &folder);
        let begun = Instant::now();
        self.run(&line, scratch.path())?;
        let total = begun.elapsed().as_secs_f64();
        wait_for_closers();
        let after = begun.elapsed().as_secs_f64() - total;
        let mut taken = read(scratch.path())?;
        taken.startup_and_stop = total - taken.wall;
        taken.background = after;
        taken.counts = (recorder.counts)(scratch.path())?;
        Ok(taken)
    }

    fn run(&self, line: &str, scratch: &Path) -> Result<()> {
        let path = env::var("PATH").unwrap_or_default();
        let script = scratch.join("recorder.sh");
        fs::write(&script, line)?;
        // setpriv: a recorder must not outlive us.
        let output = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "sh"])
            .arg(&script)
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .context("run setpriv")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        let made = fs::read_to_string(scratch.join("make.out")).unwrap_or_default();
        ensure!(
            output.status.success(),
            "{}: {} {}",
            output.status,
            last_lines(&stderr),
            last_lines(&made)
        );
        Ok(())
    }
}

/// Name of the process in which `kestrel` detaches in the background.
const CLOSER: &str = "kestrel-detach";

fn wait_for_closers() {
    let is_there = || {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut names = processes.filter_map(|process| fs::read_to_string(process.path().join("comm")).ok());
        names.any(|name| name.trim() == CLOSER)
    };
    while is_there() {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    let shown: Vec<String> = lines
        .iter()
        .skip(lines.len().saturating_sub(5))
        .map(|line| line.chars().take(300).collect())
        .collect();
    shown.join(" | ")
}

/// Reads what the script left.
fn read(scratch: &Path) -> Result<Taken> {
    let text = |name: &str| -> Result<String> {
        let path = scratch.join(name);
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    };
    let clock = |name: &str| -> Result<f64> {
        let nanoseconds: u64 = text(name)?
            .trim()
            .parse()
            .with_context(|| format!("a time in {name}"))?;
        Ok(nanoseconds as f64 / 1e9)
    };
    let busy = |name: &str| -> Result<f64> { busy(&text(name)?).with_context(|| format!("times in {name}")) };
    Ok(Taken {
        wall: clock("clock.after")? - clock("clock.before")?,
        build_cpu: children(&text("times")?).context("what sh says about times")?,
        machine_cpu: busy("stat.after")? - busy("stat.before")?,
        startup_and_stop: 0.0,
        background: 0.0,
        counts: None,
    })
}

/// Ticks of /proc/stat in a second, the same on every Linux that user space sees (`USER_HZ`).
const TICKS: f64 = 100.0;

/// Seconds of all processors, from the first line of /proc/stat: user, nice, system, interrupts; not idle, not waiting, not stolen.
fn busy(stat: &str) -> Option<f64> {
    let mut fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let mut field = || fields.next()?.parse::<f64>().ok();
    let (user, nice, system, _idle, _waiting) = (field()?, field()?, field()?, field()?, field()?);
    let (interrupts, soft) = (field()?, field()?);
    Some((user + nice + system + interrupts + soft) / TICKS)
}

/// User and system time of children: the second line of `times`, as in `1m2.50s 0m3.25s`.
fn children(times: &str) -> Option<f64> {
    let seconds = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let mut words = times.lines().nth(1)?.split_whitespace();
    Some(seconds(words.next()?)? + seconds(words.next()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_read() {
        let stat = "cpu  100 20 300 4000 50 6 7 8 0 0\ncpu0 1 2 3\n";
        assert_eq!(busy(stat), Some(4.33));
        assert_eq!(children("0m0.00s 0m0.01s\n1m2.50s 0m3.25s\n"), Some(65.75));
        assert_eq!(children("0m0.00s 0m0.01s\n"), None);
    }
}
