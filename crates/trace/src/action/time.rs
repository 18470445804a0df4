//! The action `time`: prints the date and time of the event.

use super::verb::{Effect, Verb};
use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

pub(super) static TIME: Verb = Verb {
    name: "time",
    usage: "time([\"%H:%M:%S\\n\"])",
    about: "print the date and time of the event as strftime(3) writes them, in the time zone of who reads",
    text: "a format of strftime(3)",
    default: Some("%H:%M:%S\n"),
    values: None,
    carries_fields: false,
    check: |format| shown(format, 0, &TimeZone::UTC).map(drop),
    without_agent: None,
    effect: |format, moment| match shown(format, moment, &TimeZone::system()) {
        Ok(text) => Effect::Print(text),
        Err(_) => Effect::Show,
    },
};

/// A moment (ns since 1970) in a time zone.
fn shown(format: &str, moment: u64, zone: &TimeZone) -> Result<String, String> {
    let moment = Timestamp::from_nanosecond(moment.into()).map_err(|error| error.to_string())?;
    strtime::format(format, &moment.to_zoned_datetime(zone.clone())).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_strftime_does() {
        let moment = 1_700_000_000_123_456_789;
        let shown = |format: &str| shown(format, moment, &TimeZone::UTC);
        assert_eq!(shown("%H:%M:%S\n").unwrap(), "22:13:20\n");
        assert_eq!(shown("%Y-%m-%d %%").unwrap(), "2023-11-14 %");
        assert!(shown("%E!").is_err(), "{:?}", shown("%E!"));
        assert!((TIME.check)("%H").is_ok() && (TIME.check)("%").is_err());
    }
}
