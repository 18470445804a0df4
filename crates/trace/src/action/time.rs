//! The action `time`: prints the date and time of the event.

use super::verb::{Effect, Verb};
use crate::date;

pub(super) static TIME: Verb = Verb {
    name: "time",
    usage: "time([\"%H:%M:%S\\n\"])",
    about: "print the date and time of the event as strftime(3) writes them, in the time zone of who reads",
    text: "a format of strftime(3)",
    default: Some("%H:%M:%S\n"),
    values: None,
    carries_fields: false,
    check: |_| Ok(()),
    without_agent: None,
    effect: |format, moment| Effect::Print(date::written(format, moment, 0)),
};

#[cfg(test)]
mod tests {
    use super::*;

    /// As the output statement `time` of programs does, which shares [`date::written`].
    #[test]
    fn a_conversion_that_does_not_exist_stands_as_it_is() {
        let printed = |format: &str| (TIME.effect)(format, 1_700_000_000_123_456_789);
        assert_eq!(
            printed("%s.%f %!"),
            Effect::Print("1700000000.123456 %!".to_owned())
        );
        assert_eq!(printed("%"), Effect::Print("%".to_owned()));
    }
}
