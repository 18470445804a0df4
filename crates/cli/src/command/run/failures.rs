//! `-k`: failures of helpers as warnings at their places, each with how often it happened since it was said last.

use super::message;
use crate::style::system_words;
use kestrel::language::{DIVISION, Diagnostic, ENDLESS, Failure, OUTSIDE, Span, UNWINDING, position};
use kestrel::script::FailureMessages;
use kestrel_trace::print::counted;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Helper failures that have been reported so far.
#[derive(Debug, Default)]
pub(super) struct Failures(BTreeMap<Key, u64>);

/// Place, helper and answer of a failure.
type Key = (u32, u32, u32, i32);

fn key(failure: &Failure) -> Key {
    let place = failure.place.unwrap_or(Span { start: 0, end: 0 });
    (place.start, place.end, failure.helper.0, failure.answer)
}

impl Failures {
    /// The first failure of a place, unless it was reported before.
    pub(super) fn first(&mut self, failure: &Failure) -> Option<Failed> {
        let is_new = !self.0.contains_key(&key(failure));
        is_new.then(|| {
            self.0.insert(key(failure), 1);
            Failed {
                failure: *failure,
                times: 1,
                is_repeated: false,
            }
        })
    }

    /// Failures since the last call, given all that were counted so far.
    pub(super) fn since(&mut self, counted: Vec<Failure>) -> Vec<Failed> {
        let mut new = Vec::new();
        for failure in counted {
            let key = key(&failure);
            let before = self.0.insert(key, failure.count).unwrap_or(0);
            if let times @ 1.. = failure.count.saturating_sub(before) {
                let is_repeated = before > 0;
                let failed = Failed {
                    failure,
                    times,
                    is_repeated,
                };
                new.push((key, failed));
            }
        }
        new.sort_unstable_by_key(|(key, _)| *key);
        new.into_iter().map(|(_, failed)| failed).collect()
    }
}

/// Messages about the first failure of each place, among a program's output.
#[derive(Debug)]
pub(super) struct Messages {
    /// Those that it gives are reported from then on.
    pub(super) reported: Rc<RefCell<Failures>>,
    pub(super) name: String,
    pub(super) text: Arc<str>,
    pub(super) json: bool,
    pub(super) as_bpftrace: bool,
}

impl FailureMessages for Messages {
    fn first(&mut self, failure: &Failure) -> Option<Vec<u8>> {
        let failed = self.reported.borrow_mut().first(failure)?;
        let (name, text) = (&self.name, &self.text);
        let message = match self.json {
            true => failed.json(name, text),
            false => message::text_of(self.as_bpftrace, name, &[failed.warning()], text) + "\n",
        };
        Some(message.into_bytes())
    }
}

/// A failure of one kind at one place, and how often it happened since it was said last.
#[derive(Debug)]
pub(super) struct Failed {
    failure: Failure,
    times: u64,
    /// Whether the place was reported before these failures.
    is_repeated: bool,
}

impl Failed {
    /// The failure as a warning at its place.
    pub(super) fn warning(&self) -> Diagnostic {
        let place = self.failure.place.unwrap_or(Span { start: 0, end: 0 });
        Diagnostic::warning(place, self.message())
    }

    /// The failure as a line of JSON, with bpftrace's members; `times` is there where it happened more than once.
    pub(super) fn json(&self, file: &str, text: &str) -> String {
        let mut line: Vec<(&str, Value)> = Vec::new();
        let mut put = |name, value| line.push((name, value));
        let answer = self.failure.answer;
        match (self.mishap(), self.failure.helper.name()) {
            (None, Some(helper)) => {
                put("type", "helper_error".into());
                put("msg", reason(answer).into());
                put("helper", helper.into());
                put("retcode", answer.into());
            }
            (mishap, _) => {
                put("type", "runtime_error".into());
                put(
                    "msg",
                    mishap
                        .unwrap_or("failures of helpers beyond the room for their places")
                        .into(),
                );
            }
        }
        if let Some(place) = self.failure.place {
            let (file, number, column) = position(file, text, place);
            put("filename", file.into());
            put("line", number.into());
            put("col", column.into());
        }
        if self.times > 1 {
            put("times", self.times.into());
        }
        // With bpftrace's blanks.
        let members = line.iter().map(|(name, value)| format!("\"{name}\": {value}"));
        format!("{{{}}}\n", members.collect::<Vec<_>>().join(", "))
    }

    /// Description of a failure that has no helper.
    fn mishap(&self) -> Option<&'static str> {
        match self.failure.helper {
            DIVISION => Some(
                "Divide or modulo by 0 detected. This can lead to unexpected results. 1 is being used as the result.",
            ),
            OUTSIDE => Some("The index lies outside of the array: the element is read as 0."),
            ENDLESS => Some(
                "The loop was ended after 8,388,607 times, before its condition or its range ended it: the kernel repeats nothing more often.",
            ),
            UNWINDING => Some(
                "No DWARF unwind data available for this process: it is none of those that -p, -c and --dwarf-pid name. Its innermost frame is kept alone.",
            ),
            _ => None,
        }
    }

    /// Message about the failure and how often it happened.
    fn message(&self) -> String {
        let (failure, times) = (&self.failure, self.times);
        if failure.place.is_none() {
            return format!(
                "{} of helpers beyond the room for their places: they are counted together",
                counted(times, "more failure")
            );
        }
        let often = match times {
            times if self.is_repeated => format!(", {}", counted(times, "more time")),
            1 => String::new(),
            times => format!(", {times} times"),
        };
        if let Some(mishap) = self.mishap() {
            return format!("{mishap}{often}");
        }
        let (name, answer) = (failure.helper.name().unwrap_or("a helper"), failure.answer);
        let what = match (name, answer) {
            ("map_update_elem", FULL) => {
                "Map full; can't update element. `config = { max_map_keys = N }` or a declaration (`let @a = hash(N)`) gives it more room.".to_owned()
            }
            (_, 0) => "Can't lookup map element because it does not exist.".to_owned(),
            _ => format!("Failed to {name}: {} ({answer})", reason(answer)),
        };
        format!("{what}\nAdditional Info - helper: {name}, retcode: {answer}{often}")
    }
}

/// E2BIG, the answer of an update for which a map has no room.
const FULL: i32 = -7;

/// The system's words for what a helper gave.
fn reason(answer: i32) -> String {
    system_words(&std::io::Error::from_raw_os_error(answer.saturating_neg()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_said_with_how_often_it_is_new() {
        let failure = |start: u32, helper: u32, answer: i32, count: u64| {
            let key = [start, start + 4, helper, answer.cast_unsigned()].map(u32::to_le_bytes);
            Failure::read(
                key.as_flattened(),
                [count, 7].map(u64::to_le_bytes).as_flattened(),
            )
            .unwrap()
        };
        let mut printed = Failures::default();
        let mut messages = |counted: Vec<Failure>| -> Vec<String> {
            let warnings = printed.since(counted).into_iter();
            warnings.map(|failed| failed.warning().message).collect()
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
        assert!(messages(vec![read(7)])[0].ends_with("retcode: -14, 2 more times"));
        assert!(messages(vec![failure(3, ENDLESS.0, 0, 1)])[0].starts_with("The loop was ended"));
        let others = Failure {
            place: None,
            ..read(3)
        };
        assert!(messages(vec![others])[0].starts_with("3 more failures of helpers"));
        // A place whose first failure was shown among the output: the repetitions follow.
        let mut printed = Failures::default();
        assert_eq!(printed.first(&read(5)).unwrap().times, 1);
        assert!(printed.first(&read(5)).is_none());
        let rest = printed.since(vec![read(5)]);
        assert!(rest[0].warning().message.ends_with("retcode: -14, 4 more times"));
        assert!(printed.since(vec![read(5)]).is_empty());
    }

    #[test]
    fn lines_of_json_have_place_and_helper() {
        let failed = |helper: u32, answer: i32, times: u64| {
            let key = [10, 14, helper, answer.cast_unsigned()].map(u32::to_le_bytes);
            let value = [times, 7].map(u64::to_le_bytes);
            let failure = Failure::read(key.as_flattened(), value.as_flattened()).unwrap();
            let is_repeated = false;
            Failed {
                failure,
                times,
                is_repeated,
            }
            .json("a.bt", "begin {\n  @x[1]; }")
        };
        assert_eq!(
            failed(1, 0, 1),
            "{\"type\": \"helper_error\", \"msg\": \"Success\", \"helper\": \"map_lookup_elem\", \"retcode\": 0, \"filename\": \"a.bt\", \"line\": 2, \"col\": 3}\n"
        );
        let full = failed(2, -7, 3);
        assert!(
            full.contains(
                "\"msg\": \"Argument list too long\", \"helper\": \"map_update_elem\", \"retcode\": -7"
            ),
            "{full}"
        );
        assert!(full.ends_with("\"col\": 3, \"times\": 3}\n"), "{full}");
        let division = failed(DIVISION.0, 0, 1);
        assert!(
            division.starts_with("{\"type\": \"runtime_error\", \"msg\": \"Divide or modulo by 0"),
            "{division}"
        );
        assert!(!division.contains("retcode"), "{division}");
    }
}
