//! Outcomes of attaching that the plan did not want: events traced in another way, left out, or missed.

use kestrel_trace::print::{counted, were};

/// An event that could not be traced in the way that was planned, and is traced in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The event's name.
    pub event: String,
    /// How it is traced now, in words.
    pub used: String,
    /// Why the planned way failed.
    pub why: String,
}

/// An event that could not be attached, and is left out because no text names it: only a pattern matched it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The event's name.
    pub event: String,
    /// The kernel's answer.
    pub why: String,
}

/// Hits that a program did not see because a program was running already on that CPU; returns also because too many calls were in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The program's event; for a set of events, the first.
    pub event: String,
    /// Number of further events that the program serves: the kernel counts the missed hits of all together.
    pub further_events: usize,
    /// Whether only the events of some processes are traced: the kernel counts the missed hits of all processes.
    pub filtered: bool,
    /// Number of missed hits, or why it is not known. For returns it is reported even if it is zero.
    pub count: std::result::Result<u64, String>,
    /// Kind of hits that the program sees.
    pub hits: HitKind,
}

/// Kind of hits that a program sees, which decides why it can miss some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitKind {
    /// Hits of a place in code, or of an event.
    Any,
    /// Returns of functions, of which the kernel follows a limited number of calls at once.
    Returns,
    /// Entries of functions, each with its return.
    Calls,
}

impl Missed {
    /// Whether it is known that nothing was missed, so that there is nothing to report.
    pub fn is_nothing(&self) -> bool {
        self.count == Ok(0)
    }
}

/// Whether an event's program also runs for other arrivals at its place, which are counted as missed, too: behind an instruction, where a jump may lead or
/// where the called function begins; at a fault, where the kernel takes all faults.
fn is_passed_by_others(event: &str) -> bool {
    [":post", ":fault", " fault"]
        .iter()
        .any(|end| event.ends_with(end))
}

/// Remark on a count where only some processes are traced.
const EVERYBODYS: &str = " (counted for all processes, not only for those traced)";

impl std::fmt::Display for Missed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            count, hits: what, ..
        } = self;
        let event = match self.further_events {
            0 => self.event.clone(),
            others => format!("{} and {}", self.event, counted(others as u64, "other")),
        };
        let count = match count {
            Ok(count) => count,
            Err(why) => {
                return write!(f, "how many hits of {event} were missed is not known: {why}");
            }
        };
        let whose = if self.filtered { EVERYBODYS } else { "" };
        // The advice has to fit each of several events.
        let wider = if self.further_events == 0 {
            event.as_str()
        } else {
            "kretprobe:FUNCTION"
        };
        match (what, count) {
            (HitKind::Any, _) if is_passed_by_others(&self.event) => write!(
                f,
                "{} where {event} is seen {} missed: a program was running already on that CPU; arrivals from elsewhere are counted, too, so at most so many hits{whose}",
                counted(*count, "arrival"),
                were(*count)
            ),
            (HitKind::Any, _) => write!(
                f,
                "{} of {event} {} missed: a program was running already on that CPU{whose}",
                counted(*count, "hit"),
                were(*count)
            ),
            (HitKind::Calls, _) => write!(
                f,
                "{} of {event} {} missed, entry and return: a program was running already on that CPU, or more calls were on their way than the kernel follows{whose}",
                counted(*count, "call"),
                were(*count)
            ),
            (HitKind::Returns, 0) => write!(f, "0 returns of {event} were missed"),
            (HitKind::Returns, _) => write!(
                f,
                "{} of {event} {} missed: more calls at once than the kernel follows{whose}; {wider}:maxactive=N follows more, fexit follows all",
                counted(*count, "return"),
                were(*count)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_set_and_of_some_processes_it_is_said_whose_misses_are_counted() {
        let missed = |others, chosen, what, count| {
            let event = "kretprobe:a".to_owned();
            let missed = Missed {
                event,
                further_events: others,
                filtered: chosen,
                count: Ok(count),
                hits: what,
            };
            missed.to_string()
        };
        assert_eq!(
            missed(0, false, HitKind::Returns, 1),
            "1 return of kretprobe:a was missed: more calls at once than the kernel follows; kretprobe:a:maxactive=N follows more, fexit follows all"
        );
        let of_set = missed(2, true, HitKind::Returns, 226);
        assert!(
            of_set.starts_with("226 returns of kretprobe:a and 2 others were missed: "),
            "{of_set}"
        );
        assert!(of_set.contains("not only for those traced); kretprobe:FUNCTION:maxactive=N"));
        assert_eq!(
            missed(1, true, HitKind::Returns, 0),
            "0 returns of kretprobe:a and 1 other were missed"
        );
        assert!(
            missed(0, false, HitKind::Calls, 2)
                .starts_with("2 calls of kretprobe:a were missed, entry and return: ")
        );
        assert!(missed(0, true, HitKind::Any, 3).ends_with("not only for those traced)"));
    }

    #[test]
    fn arrivals_where_an_event_is_seen_are_not_called_its_hits() {
        let sentence = |event: &str| {
            let missed = Missed {
                event: event.to_owned(),
                further_events: 0,
                filtered: false,
                count: Ok(17),
                hits: HitKind::Any,
            };
            missed.to_string()
        };
        for event in [
            "kprobe:f+0x9:post",
            "kprobe:f+0x9:fault",
            "kprobe:f+0x9:post fault",
        ] {
            let sentence = sentence(event);
            assert!(
                sentence.starts_with("17 arrivals where kprobe:f+0x9:"),
                "{sentence}"
            );
            assert!(sentence.contains("were missed: a program"), "{sentence}");
        }
        for event in ["kprobe:f+0x9", "kprobe:f+0x9:post start"] {
            assert!(
                sentence(event).starts_with("17 hits of kprobe:f+0x9"),
                "{}",
                sentence(event)
            );
        }
    }
}
