//! The options that say which tasks, CPUs and times of a recording are shown.

use crate::arguments::recorded_thread as pid;
use clap::Args;
use kestrel_trace::sched::SchedFilter;
use kestrel_trace::tasks::Tasks;

/// Filter of the shown rows.
#[derive(Args, Debug)]
pub(super) struct Filter {
    /// Only these processes
    #[arg(short, long = "pid", value_name = "PID,…", value_delimiter = ',', value_parser = pid)]
    pids: Vec<u32>,
    /// Only these threads
    #[arg(short, long = "tid", value_name = "TID,…", value_delimiter = ',', value_parser = pid)]
    tids: Vec<u32>,
    /// Only these CPUs, as 0,2-3
    #[arg(short = 'C', long = "cpu", value_name = "CPUS", value_delimiter = ',', value_parser = range)]
    cpus: Vec<(u32, u32)>,
    /// Only from one time to another, in seconds as they are shown; one of both may be left out
    #[arg(long, value_name = "FROM,TO", value_parser = times)]
    time: Option<(Option<u64>, Option<u64>)>,
}

impl Filter {
    /// The filter as the analyses take it; `tasks` are the recording's.
    pub(super) fn only(&self, tasks: Tasks) -> SchedFilter {
        let (from_ns, to_ns) = self.time.unwrap_or_default();
        SchedFilter {
            pids: self.pids.clone(),
            tids: self.tids.clone(),
            tasks,
            cpus: numbers(&self.cpus),
            from_ns,
            to_ns,
        }
    }
}

/// The numbers of ranges.
pub(super) fn numbers(ranges: &[(u32, u32)]) -> Vec<u32> {
    ranges.iter().flat_map(|(first, last)| *first..=*last).collect()
}

/// The highest number of a CPU that is taken: no kernel has more.
const MAX: u32 = 8191;

/// Parses `2` or `2-5`.
pub(super) fn range(text: &str) -> Result<(u32, u32), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| {
        let number = text.trim().parse().ok();
        let number = number.filter(|number| *number <= MAX);
        number.ok_or_else(|| format!("`{text}` is no number of a CPU"))
    };
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(format!("{first}-{last} holds no CPU"));
    }
    Ok((first, last))
}

/// Parses `12.5,13`, `12.5,` or `,13`.
fn times(text: &str) -> Result<(Option<u64>, Option<u64>), String> {
    let (from, to) = text.split_once(',').unwrap_or((text, ""));
    let (from, to) = (seconds(from.trim())?, seconds(to.trim())?);
    if let (Some(from), Some(to)) = (from, to)
        && from > to
    {
        return Err(format!("{text} ends before it begins"));
    }
    Ok((from, to))
}

/// Parses seconds with up to nine decimals as ns, exactly.
fn seconds(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = || format!("`{text}` is no time in seconds, as 1162.5");
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = part.len() <= 9 && part.bytes().all(|byte| byte.is_ascii_digit());
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let part: u64 = format!("{part:0<9}").parse().map_err(|_| wrong())?;
    let all = whole
        .checked_mul(1_000_000_000)
        .and_then(|ns| ns.checked_add(part));
    all.filter(|_| digits).map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact() {
        assert_eq!(times("1.5,2"), Ok((Some(1_500_000_000), Some(2_000_000_000))));
        assert_eq!(times(",0.000000001"), Ok((None, Some(1))));
        assert_eq!(times("3"), Ok((Some(3_000_000_000), None)));
        for wrong in ["2,1", "x", "1.0000000001", "1.-5", "99999999999999"] {
            assert!(times(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn cpus_are_numbers_and_ranges() {
        assert_eq!(
            numbers(&[range("0").unwrap(), range("2-4").unwrap()]),
            [0, 2, 3, 4]
        );
        for wrong in ["", "a", "3-2", "1-", "99999"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
