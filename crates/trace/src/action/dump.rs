//! The action `dump`: writes what the buffers hold into a trace.

use super::verb::{Effect, Verb};
use std::time::Duration;

pub(super) static DUMP: Verb = Verb {
    name: "dump",
    usage: "dump(\"10s\"[, args | value | name = value, …])",
    about: "let the session's agent write what its buffers hold of so long before this event into a trace of its own; with the event's fields or the values given in its line",
    text: "how long before the event the trace begins",
    default: None,
    values: Some("give the values after it: dump(\"10s\", pid, comm)"),
    carries_fields: true,
    check: |text| time(text).map(drop),
    without_agent: Some("writes no trace without a session and its agent"),
    effect: |text, _| time(text).map_or(Effect::Show, Effect::Dump),
};

/// Longest time that a dump goes back.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Time before the event at which the trace begins.
fn time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        other => return Err(format!("`{other}` is not a unit of time; use ms, s, m or h")),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| format!("`{digits}` is not a whole number"))?;
    let time = number.checked_mul(unit).map(Duration::from_millis);
    time.filter(|time| !time.is_zero() && *time <= LONGEST)
        .ok_or_else(|| format!("{text} is not a time from 1ms to 24h"))
}
