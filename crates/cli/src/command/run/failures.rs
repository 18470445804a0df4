//! `-k`: failures of helpers as warnings at their places, each with how often it happened since it was said last.

use crate::style::system_words;
use kestrel::language::{DIVISION, Diagnostic, ENDLESS, Failure, OUTSIDE, Span};
use kestrel_trace::print::counted;
use std::collections::BTreeMap;

/// Helper failures that have been reported so far.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<(u32, u32, u32, i32), u64>);

impl Failures {
    /// Warnings of what has come since the last call, given all that was counted so far.
    pub(super) fn since(&mut self, counted: Vec<Failure>) -> Vec<Diagnostic> {
        let mut warnings = Vec::new();
        for failure in counted {
            let place = failure.place.unwrap_or(Span { start: 0, end: 0 });
            let key = (place.start, place.end, failure.helper.0, failure.answer);
            let before = self.0.insert(key, failure.count).unwrap_or(0);
            if let new @ 1.. = failure.count.saturating_sub(before) {
                warnings.push((key, Diagnostic::warning(place, message(&failure, new))));
            }
        }
        warnings.sort_by_key(|(key, _)| *key);
        warnings.into_iter().map(|(_, warning)| warning).collect()
    }
}

/// Message about a failure and how often it happened.
fn message(failure: &Failure, times: u64) -> String {
    if failure.place.is_none() {
        return format!(
            "{} of helpers had no room to be told apart",
            counted(times, "more failure")
        );
    }
    let often = match times {
        1 => String::new(),
        times => format!(", {times} times"),
    };
    if failure.helper == DIVISION {
        let what = "Divide or modulo by 0 detected. This can lead to unexpected results. 1 is being used as the result.";
        return format!("{what}{often}");
    }
    if failure.helper == OUTSIDE {
        return format!("The index lies outside of the array: the element is read as 0.{often}");
    }
    if failure.helper == ENDLESS {
        let what = "The loop was ended after 8,388,607 times, before its condition or its range ended it: the kernel repeats nothing more often.";
        return format!("{what}{often}");
    }
    let (name, answer) = (failure.helper.name().unwrap_or("a helper"), failure.answer);
    let what = match answer {
        0 => "Can't lookup map element because it does not exist.".to_owned(),
        _ => {
            let why = system_words(&std::io::Error::from_raw_os_error(answer.saturating_neg()));
            format!("Failed to {name}: {why} ({answer})")
        }
    };
    format!("{what}\nAdditional Info - helper: {name}, retcode: {answer}{often}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_said_with_how_often_it_is_new() {
        let failure = |start: u32, helper: u32, answer: i32, count: u64| {
            let key = [start, start + 4, helper, answer.cast_unsigned()].map(u32::to_le_bytes);
            Failure::read(key.as_flattened(), &count.to_le_bytes()).unwrap()
        };
        let mut said = Failures::default();
        let mut messages = |counted: Vec<Failure>| -> Vec<String> {
            let warnings = said.since(counted).into_iter();
            warnings.map(|warning| warning.message).collect()
        };
        let lookup = |count| failure(3, 1, 0, count);
        let read = |count| failure(9, 112, -14, count);
        let first = messages(vec![read(5), lookup(1)]);
        assert_eq!(
            first,
            [
                "Can't lookup map element because it does not exist.\nAdditional Info - helper: map_lookup_elem, retcode: 0",
                "Failed to probe_read_user: Bad address (-14)\nAdditional Info - helper: probe_read_user, retcode: -14, 5 times"
            ]
        );
        assert_eq!(messages(vec![read(5), lookup(1)]), Vec::<String>::new());
        assert!(messages(vec![read(7)])[0].ends_with("retcode: -14, 2 times"));
        assert!(messages(vec![failure(3, ENDLESS.0, 0, 1)])[0].starts_with("The loop was ended"));
        let others = Failure {
            place: None,
            ..read(3)
        };
        assert!(messages(vec![others])[0].starts_with("3 more failures of helpers"));
    }
}
