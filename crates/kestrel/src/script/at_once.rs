//! Files and commands that are read and run when their records come out of the rings, before the order of the records is known: a file
//! as `/proc/PID/maps` may be gone by then. The results are printed in the records' order.

use kestrel_trace::event::EventClass;
use kestrel_trace::output::needs_trust;
use kestrel_trace::record::Record;
use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Whether an event's records ask for such an action: one that opens a file or runs a command.
pub(super) fn is_of(event: &EventClass) -> bool {
    let action = event.action.as_ref();
    action.is_some_and(|action| needs_trust(&action.verb))
}

/// Runs a command of `system`.
pub(super) fn shell(command: &[u8]) -> io::Result<Output> {
    Command::new("/bin/sh")
        .arg("-c")
        .arg(OsStr::from_bytes(command))
        .stdin(Stdio::null())
        .output()
}

/// Result of an action that did not wait.
#[derive(Debug)]
pub(super) enum Done {
    /// `cat`: the bytes of the file.
    File(io::Result<Vec<u8>>),
    /// `system`: what the command printed, and its status.
    Command(io::Result<Output>),
}

/// The results that wait for the turn of their records.
#[derive(Debug, Default)]
pub(super) struct AtOnce {
    done: HashMap<Key, VecDeque<Done>>,
    /// Time of the first `exit` that came: what is later is not done ahead.
    exit_ns: Option<u64>,
    /// Time that the actions of this reading of the rings have taken.
    taken: Duration,
}

/// Time that actions may take in one reading of the rings, before the others wait for their turn: commands may cause the events that ask for more of them.
const BUDGET: Duration = Duration::from_millis(10);

/// A record's place: its time, CPU and event.
type Key = (u64, u32, u16);

fn key(record: &Record<'_>) -> Key {
    (record.time_ns, record.cpu, record.event.id.0)
}

impl AtOnce {
    /// Notes that the program is to end at a record.
    pub(super) fn exits(&mut self, record: &Record<'_>) {
        let first = self
            .exit_ns
            .map_or(record.time_ns, |known| known.min(record.time_ns));
        self.exit_ns = Some(first);
    }

    /// Whether a record comes before every end that is known.
    pub(super) fn is_before_exit(&self, record: &Record<'_>) -> bool {
        self.exit_ns.is_none_or(|exit| record.time_ns < exit)
    }

    /// The rings are read anew.
    pub(super) fn begin_reading(&mut self) {
        self.taken = Duration::ZERO;
    }

    /// Whether there is time left for actions.
    pub(super) fn has_time(&self) -> bool {
        self.taken < BUDGET
    }

    /// Counts the time that an action took.
    pub(super) fn took(&mut self, time: Duration) {
        self.taken += time;
    }

    pub(super) fn keep(&mut self, record: &Record<'_>, done: Done) {
        self.done.entry(key(record)).or_default().push_back(done);
    }

    /// The result for a record whose turn has come, if it was done ahead.
    pub(super) fn take(&mut self, record: &Record<'_>) -> Option<Done> {
        let key = key(record);
        let waiting = self.done.get_mut(&key)?;
        let done = waiting.pop_front();
        if waiting.is_empty() {
            self.done.remove(&key);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_trace::event::EventId;
    use kestrel_trace::layout::Layout;

    #[test]
    fn results_wait_for_their_records_and_none_is_made_behind_an_exit() {
        let event = EventClass {
            id: EventId(3),
            name: "exit".to_owned(),
            kind: "own".to_owned(),
            layout: Layout::new([]),
            action: None,
            print: None,
        };
        let at = |time_ns, cpu| Record {
            time_ns,
            cpu,
            pid: 1,
            tid: 1,
            event: &event,
            bytes: &[],
            unwound: None,
            rest: &[],
        };
        let mut ahead = AtOnce::default();
        let file = |byte| Done::File(Ok(vec![byte]));
        // Two in the same nanosecond keep their order.
        for (time_ns, cpu, byte) in [(5, 0, 1), (5, 1, 2), (5, 0, 3)] {
            ahead.keep(&at(time_ns, cpu), file(byte));
        }
        let mut taken = |time_ns, cpu| match ahead.take(&at(time_ns, cpu)) {
            Some(Done::File(Ok(bytes))) => bytes.first().copied(),
            _ => None,
        };
        let all = [taken(5, 0), taken(5, 1), taken(5, 0), taken(5, 0), taken(6, 0)];
        assert_eq!(all, [Some(1), Some(2), Some(3), None, None]);
        ahead.exits(&at(9, 1));
        ahead.exits(&at(7, 0));
        assert!(ahead.is_before_exit(&at(6, 1)) && !ahead.is_before_exit(&at(7, 1)));
    }

    #[test]
    fn actions_have_so_much_time_in_each_reading() {
        let mut ahead = AtOnce::default();
        ahead.took(BUDGET / 2);
        assert!(ahead.has_time());
        ahead.took(BUDGET / 2);
        assert!(!ahead.has_time());
        ahead.begin_reading();
        assert!(ahead.has_time());
    }
}
