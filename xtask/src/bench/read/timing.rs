//! The cost of a command: processor time, time of the clock and memory; figures of several rounds.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::recordings::Recordings;

/// Time and memory of a command, once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    /// Seconds of processor time, of all its threads, in user space and in the kernel.
    cpu_s: f64,
    /// Seconds of the clock until it ended.
    clock_s: f64,
    /// The most memory that it had, KiB.
    memory_kib: f64,
}

/// Times of an event, over several rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// ns of processor time.
    pub(super) cpu: Pair,
    /// ns of the clock.
    pub(super) clock: Pair,
    /// The most memory, MiB.
    pub(super) memory_mib: f64,
}

/// The best round and the median one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) best: f64,
    pub(super) median: f64,
}

/// Runs a shell line in the folder of the recordings, its output thrown away.
pub(super) fn run(line: &str, recordings: &Recordings) -> Result<Spent> {
    // The shell's own clock has milliseconds, GNU time has the memory.
    let timed = format!("TIMEFORMAT='%3R %3U %3S'; time command time -f %M {line} > /dev/null 2> errors");
    let output = Command::new("bash")
        .args(["-c", &timed])
        .current_dir(recordings.folder())
        .env("PATH", recordings.path())
        // Pagers and colours are for terminals; there is no debuginfod to ask.
        .env_remove("DEBUGINFOD_URLS")
        .stdin(Stdio::null())
        .output()
        .context("run bash")?;
    let errors = std::fs::read_to_string(recordings.folder().join("errors")).unwrap_or_default();
    ensure!(output.status.success(), "{line}: {}: {errors}", output.status);
    let times = String::from_utf8_lossy(&output.stderr).into_owned();
    parse(&times, &errors).with_context(|| format!("{line}: times in {times:?} and memory in {errors:?}"))
}

/// Parses the shell's times, and GNU time's memory in its last line.
fn parse(times: &str, errors: &str) -> Option<Spent> {
    let mut numbers = times.split_whitespace().map(str::parse::<f64>);
    let (clock_s, user, system) = (
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
        numbers.next()?.ok()?,
    );
    Some(Spent {
        cpu_s: user + system,
        clock_s,
        memory_kib: errors.lines().last()?.trim().parse().ok()?,
    })
}

impl Figures {
    /// The figures of several rounds over this number of events.
    pub(super) fn of(spent: &[Spent], events: u64) -> Self {
        let pair = |seconds: fn(&Spent) -> f64| {
            let mut all: Vec<f64> = spent.iter().map(seconds).collect();
            all.sort_by(f64::total_cmp);
            let ns = |at: usize| {
                all.get(at)
                    .map_or(f64::NAN, |seconds| seconds * 1e9 / events as f64)
            };
            Pair {
                best: ns(0),
                median: ns(all.len() / 2),
            }
        };
        Self {
            cpu: pair(|spent| spent.cpu_s),
            clock: pair(|spent| spent.clock_s),
            memory_mib: spent.iter().map(|spent| spent.memory_kib).fold(0.0, f64::max) / 1024.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_events() {
        let rounds = [
            "2.000 1.500 0.250\n",
            "1.000 0.800 0.100\n",
            "9.000 3.000 1.000\n",
        ];
        let spent = rounds.map(|times| parse(times, "a warning\n10240\n").unwrap());
        let figures = Figures::of(&spent, 1_000_000);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(
            near(figures.cpu.best, 900.0) && near(figures.cpu.median, 1750.0),
            "{figures:?}"
        );
        assert!(
            near(figures.clock.best, 1000.0) && near(figures.clock.median, 2000.0),
            "{figures:?}"
        );
        assert!(near(figures.memory_mib, 10.0));
        assert!(parse("1.0 2.0", "1").is_none() && parse("1 2 3", "no").is_none());
    }
}
