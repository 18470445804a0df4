//! A recording in several directories, one after another: when it goes on in the next, what each is called, and which are kept.

use crate::arguments::{bytes, duration};
use crate::exit::Failure;
use kestrel::kernel::process::UserSignal;
use kestrel::record::{CompletedDirectory, Recorder, directory_at};
use kestrel_trace::ctf::directory;
use kestrel_trace::print::shown;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Condition on which a recording goes on in another directory, besides SIGUSR2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwitchAt {
    /// At the signal alone.
    Signal,
    /// When the directory at hand has so many bytes.
    Size(u64),
    /// When so much time is over.
    Time(Duration),
}

/// Parses when to switch. As with perf a `M` is mebibytes, and a `m` minutes.
pub(crate) fn switch_at(text: &str) -> Result<SwitchAt, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let at = match unit {
        _ if text == "signal" => SwitchAt::Signal,
        "" => {
            return Err(format!(
                "`{text}` has no unit: a size is 100M or 2G, a time is 30s, 5m or 1h; `signal` is SIGUSR2 alone"
            ));
        }
        "us" | "ms" | "s" | "m" | "min" | "h" => SwitchAt::Time(duration(text)?),
        "d" => SwitchAt::Time(duration(&format!("{digits}h"))?.saturating_mul(24)),
        _ => SwitchAt::Size(bytes(text).map_err(|why| format!("{why} for a size; s, m, h or d for a time"))?),
    };
    match at {
        SwitchAt::Size(0) => Err("nothing fits into 0 bytes".to_owned()),
        SwitchAt::Time(time) if time < MIN => Err(format!(
            "a directory takes {} ms at least: each is counted, and names are found for it",
            MIN.as_millis()
        )),
        at => Ok(at),
    }
}

/// The shortest time between two directories.
const MIN: Duration = Duration::from_millis(10);

/// Options for switching a recording to new directories.
#[derive(Clone, Debug)]
pub(crate) struct Switches {
    /// When the recording goes on in another directory.
    pub(crate) at: SwitchAt,
    /// The most directories that are kept, beside the one that is written.
    pub(crate) most: Option<usize>,
}

/// The directories of a recording.
pub(crate) struct Switching {
    base: PathBuf,
    switches: Switches,
    signal: UserSignal,
    since: Instant,
    /// The time in the name of the directory at hand.
    named: SystemTime,
    kept: VecDeque<PathBuf>,
    /// Of all that are whole: how many, their records, and the events lost.
    pub(crate) whole: DirectoryTotals,
}

/// Totals over the directories of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DirectoryTotals {
    /// Directories.
    pub(crate) directories: u64,
    /// Number of records in the directory.
    pub(crate) records: u64,
    /// Events lost.
    pub(crate) lost: u64,
    /// Hits that the kernel brought to no program.
    pub(crate) missed: u64,
    /// Directories that were removed.
    pub(crate) removed: u64,
}

impl Switching {
    /// From now on SIGUSR2 is noted. Directories are called as `base`, with the time behind it.
    pub(crate) fn new(base: &Path, switches: Switches) -> Result<Self, Failure> {
        Ok(Self {
            base: base.to_owned(),
            switches,
            signal: UserSignal::second()?,
            since: Instant::now(),
            named: SystemTime::UNIX_EPOCH,
            kept: VecDeque::new(),
            whole: DirectoryTotals::default(),
        })
    }

    /// Where the next directory is. Its name comes behind those before, whatever the clock does.
    pub(crate) fn next(&mut self) -> PathBuf {
        self.named = SystemTime::now().max(self.named + Duration::from_millis(1));
        directory_at(&self.base, self.named)
    }

    /// Whether a signal waits for its answer.
    pub(crate) fn is_called(&self) -> bool {
        self.signal.has_come()
    }

    /// Time left until the next switch.
    pub(crate) fn left(&self) -> Duration {
        match self.switches.at {
            SwitchAt::Time(time) => time.saturating_sub(self.since.elapsed()),
            _ => Duration::MAX,
        }
    }

    /// Whether the directory at hand is full.
    fn is_full(&self, recorder: &Recorder) -> bool {
        match self.switches.at {
            SwitchAt::Signal => false,
            SwitchAt::Size(most) => recorder.size() >= most,
            SwitchAt::Time(time) => self.since.elapsed() >= time,
        }
    }

    /// Whether it is time for the next directory, and those before are not too many to be ended at once.
    pub(crate) fn is_due(&self, recorder: &Recorder) -> bool {
        (self.is_called() || self.is_full(recorder)) && !recorder.is_ending_many()
    }

    /// Goes on in the next directory, if it is due.
    pub(crate) fn switch(&mut self, recorder: &mut Recorder) -> Result<bool, Failure> {
        if !self.is_due(recorder) {
            return Ok(false);
        }
        let full = self.is_full(recorder);
        self.signal.take();
        let path = self.next();
        recorder.switch(&path)?;
        // Of a clock's beats none comes late for the sake of the one before, unless that was missed.
        self.since = match self.switches.at {
            SwitchAt::Time(time) if full && self.since.elapsed() < time * 2 => self.since + time,
            _ => Instant::now(),
        };
        Ok(true)
    }

    /// Takes a directory that is whole, and removes what is too old by now.
    pub(crate) fn keep(&mut self, directory: &CompletedDirectory) {
        let missed = directory.summary.missed.unwrap_or_default().hits;
        self.whole.directories += 1;
        self.whole.records += directory.summary.recorded();
        self.whole.lost += directory.summary.lost();
        self.whole.missed += missed;
        self.keep_path(&directory.path);
    }

    /// Keeps a directory that is whole.
    pub(crate) fn keep_path(&mut self, path: &Path) {
        self.kept.push_back(path.to_owned());
        let most = self.switches.most.unwrap_or(usize::MAX).max(1);
        while self.kept.len() > most
            && let Some(oldest) = self.kept.pop_front()
        {
            match directory::discard(&oldest) {
                Ok(()) => self.whole.removed += 1,
                Err(error) => remark!(
                    "{} cannot be removed: {error}",
                    shown(&oldest.display().to_string())
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_times_and_the_signal() {
        assert_eq!(switch_at("signal"), Ok(SwitchAt::Signal));
        assert_eq!(switch_at("1G"), Ok(SwitchAt::Size(1 << 30)));
        assert_eq!(switch_at("5M"), Ok(SwitchAt::Size(5 << 20)));
        assert_eq!(switch_at("5m"), Ok(SwitchAt::Time(Duration::from_secs(300))));
        assert_eq!(
            switch_at("2d"),
            Ok(SwitchAt::Time(Duration::from_secs(2 * 86_400)))
        );
        for wrong in ["100", "", "0M", "0s", "1ms", "5w", "M", "-1s", "signals"] {
            assert!(switch_at(wrong).is_err(), "{wrong}");
        }
    }
}
