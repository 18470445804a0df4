//! What a session tells of its events that did not go as planned: seen in another way, left out, missed.

use kestrel_trace::print::{counted, were};

/// An event that could not be seen in the best way planned, and is seen in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detour {
    /// The event.
    pub event: String,
    /// How it is seen now.
    pub way: String,
    /// What came of the way before.
    pub why: String,
}

/// An event that could not be attached, and that nobody named: only a pattern did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The event.
    pub event: String,
    /// What the kernel said.
    pub why: String,
}

/// Events that a program did not see because it was running already on that CPU; returns also because too many calls were on their way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    /// The program's event.
    pub event: String,
    /// How many, or why that cannot be known. Of returns it is told even if there are none.
    pub count: std::result::Result<u64, String>,
    /// Whether they are returns of functions.
    pub returns: bool,
}

impl std::fmt::Display for Missed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            event,
            count,
            returns,
        } = self;
        let count = match count {
            Ok(count) => count,
            Err(why) => {
                return write!(
                    f,
                    "how many hits of {event} were skipped by the kernel is not known: {why}"
                );
            }
        };
        match (returns, count) {
            (false, _) => write!(
                f,
                "{} of {event} {} skipped by the kernel because a program was running already on that CPU",
                counted(*count, "hit"),
                were(*count)
            ),
            (true, 0) => write!(f, "0 returns of {event} were missed"),
            (true, _) => write!(
                f,
                "{} of {event} {} missed: more calls at once than the kernel follows; {event}:maxactive=N follows more, fexit follows all",
                counted(*count, "return"),
                were(*count)
            ),
        }
    }
}
