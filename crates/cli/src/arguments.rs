//! Values of options: sizes, times, directories; and the command line as it was typed.

use clap::Args;
use kestrel_trace::ctf::block::LEVELS;
use std::path::PathBuf;
use std::time::Duration;

/// The trace directory that commands use by default.
pub(crate) const DEFAULT_TRACE: &str = "kestrel.trace";

/// The recording that a command reads.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct TraceArgument {
    /// The trace directory, or a recording of perf, trace-cmd or LTTng (perf.data, trace.dat, a folder of theirs)
    #[arg(id = "trace", value_name = "DIR", default_value = DEFAULT_TRACE)]
    pub(crate) path: PathBuf,
}

/// The parser of a trace directory: any path but `-`.
pub(crate) fn directory() -> impl clap::builder::TypedValueParser<Value = PathBuf> {
    use clap::builder::{PathBufValueParser, TypedValueParser};
    PathBufValueParser::new().try_map(|path| match path.as_os_str() == "-" {
        true => Err("a trace is a directory and cannot go to standard output; `kestrel trace` writes lines there, and ./- is a directory of that name"),
        false => Ok(path),
    })
}

/// Reads a level of compression.
pub(crate) fn level() -> impl clap::builder::TypedValueParser<Value = u8> {
    let (least, most) = (i64::from(*LEVELS.start()), i64::from(*LEVELS.end()));
    clap::value_parser!(u8).range(least..=most)
}

/// The command line of this process, for the metadata of traces and sessions; bytes that are not UTF-8 are replaced.
pub(crate) fn command_line() -> String {
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    words.join(" ")
}

/// Parses the number of a process or thread of a recording.
pub(crate) fn recorded(text: &str) -> Result<u32, String> {
    number(text, "threads by name are `--comm NAME`")
}

/// Parses the number of a process or thread of a recording, for commands that choose no threads by name.
pub(crate) fn recorded_thread(text: &str) -> Result<u32, String> {
    number(text, "`kestrel sched latency` lists those of the recording")
}

/// Parses the number of a process or thread.
pub(crate) fn pid(text: &str) -> Result<u32, String> {
    number(text, "`pidof NAME` prints those of a program")
}

fn number(text: &str, hint: &str) -> Result<u32, String> {
    let number = text.parse().ok();
    number.ok_or_else(|| format!("`{text}` is not a number; {hint}"))
}

/// The value of a long option of this process as it was typed.
pub(crate) fn typed(option: &str) -> Option<String> {
    value_of(
        option,
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()),
    )
}

fn value_of(option: &str, words: impl Iterator<Item = String>) -> Option<String> {
    let mut words = words.take_while(|word| word != "--");
    while let Some(word) = words.next() {
        match word.strip_prefix(option) {
            Some("") => return words.next(),
            Some(value) if value.starts_with('=') => return Some(value[1..].to_owned()),
            _ => {}
        }
    }
    None
}

/// Parses the size of a ring buffer per CPU.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let bytes = nonzero_bytes(text)?;
    let fits = (1..=kestrel::buffer::layout::MAX_BYTES).contains(&bytes);
    fits.then_some(bytes).ok_or_else(|| {
        format!(
            "a ring holds 1 byte to {}M per CPU: the verifier follows offsets in it no further",
            kestrel::buffer::layout::MAX_BYTES >> 20
        )
    })
}

/// Parses a size in bytes greater than 0.
pub(crate) fn nonzero_bytes(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        0 => Err("nothing fits into 0 bytes; give it a size, as 64K or 4M".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Parses a size in bytes, with an optional unit.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1u64 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        other => return Err(format!("`{other}` is not a unit; use K, M or G")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|error: std::num::ParseIntError| match error.kind() {
            std::num::IntErrorKind::PosOverflow => format!("{text} is more than can be counted"),
            std::num::IntErrorKind::Empty => "give a size, as 64K or 4M".to_owned(),
            _ => format!("`{digits}` is not a whole number"),
        })?;
    let bytes = number.checked_mul(factor);
    bytes.ok_or_else(|| format!("{text} is more than can be counted"))
}

/// Parses a time in seconds, or with a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => return Err(format!("`{other}` is not a unit of time; use ms, s, m or h")),
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| format!("`{digits}` is not a number"))?;
    let time = Duration::try_from_secs_f64(number * factor).ok();
    time.filter(|time| *time <= LONGEST)
        .ok_or_else(|| format!("{text} is no time from 0 to a hundred years"))
}

/// Parses a time in milliseconds, or with a unit, in whole milliseconds.
pub(crate) fn milliseconds(text: &str) -> Result<u64, String> {
    let time = match text.ends_with(|c: char| c.is_ascii_alphabetic()) {
        true => duration(text)?.as_millis().try_into().unwrap_or(u64::MAX),
        false => text.parse().map_err(|_| {
            format!("`{text}` is not a whole number of milliseconds; with ms, s, m or h it is a time")
        })?,
    };
    match time {
        0 => Err("an interval has at least 1 ms".to_owned()),
        time => Ok(time),
    }
}

/// The longest time an option takes: longer ones cannot be added to every clock.
pub(crate) const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_as_they_were_typed() {
        let value = |line: &str| value_of("--duration", line.split(' ').map(str::to_owned));
        assert_eq!(value("trace --duration 10 -- ls").as_deref(), Some("10"));
        assert_eq!(value("trace --duration=10ms ls").as_deref(), Some("10ms"));
        assert_eq!(value("trace --durations 3 -- ls --duration 10"), None);
    }

    #[test]
    fn sizes_and_times() {
        assert_eq!(size("4M"), Ok(4 << 20));
        assert_eq!(size("64k"), Ok(65536));
        assert!(size("1T").is_err());
        assert!(size("0").is_err_and(|why| why.contains("nothing fits")));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert!(duration("-1").is_err());
        assert_eq!(recorded("42"), Ok(42));
        assert!(recorded("sh").is_err_and(|why| why.contains("--comm")));
        assert!(pid("-1").is_err_and(|why| why.contains("not a number")));
        assert!(duration("10000000000000000000s").is_err() && duration("1e300h").is_err());
        assert!(std::time::Instant::now().checked_add(LONGEST).is_some());
        assert!(duration("1 fortnight").is_err());
        assert_eq!((milliseconds("250"), milliseconds("1.5s")), (Ok(250), Ok(1500)));
        assert!(milliseconds("0").is_err() && milliseconds("100us").is_err() && milliseconds("1.5").is_err());
        assert!(milliseconds("1x").is_err_and(|why| why.contains("not a unit")));
    }
}
