//! Changes of threads' names: the time from which each name holds, learned from all records of a recording.
//!
//! A thread that executes a program while its execution is not recorded has its old name in the switch to it, and the new one in the switch from it. Between the two
//! the new one holds: a child executes soon after it first runs.

use super::name::{self, Name};
use crate::error::{Error, Result};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Thread number → its names, with the times from which they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    threads: HashMap<u32, Thread, RandomState>,
    /// Whether every change of a name is known with its time: then a thread is shown with its name at the record's time, whether a record has that name or not.
    complete: bool,
}

/// The line of the file that says that they are complete: no thread has this number.
const COMPLETE: &[u8] = b"0 0 complete";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Thread {
    /// Names by rising time, ns.
    names: Vec<(u64, Name)>,
    /// Time at which the last of them was noted last.
    noted_ns: u64,
    /// Whether a change lies between two records, neither of which is its own.
    between: bool,
    /// Whether the last of them is of the record of a change.
    is_exact: bool,
}

impl Changes {
    /// Name of the file in a trace's side folder: one line `TID NANOSECONDS NAME` each.
    pub const FILE: &'static str = "renames";

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Notes the name that a thread got at this time, from a source beside the records that has every change (COMM records of perf.data).
    pub(crate) fn tell(&mut self, tid: u32, name: &Name, time_ns: u64) {
        if tid != 0 && !name.bytes().is_empty() {
            let names = &mut self.threads.entry(tid).or_default().names;
            let at = names.partition_point(|(from_ns, _)| *from_ns <= time_ns);
            if at == 0 || names[at - 1].1 != *name {
                names.insert(at, (time_ns, name.clone()));
            }
            self.complete = true;
        }
    }

    /// Whether every change of a name is known with its time.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Notes the name that a record of this time has for a thread; `is_change` where the record is that of the change itself.
    pub(super) fn note(&mut self, tid: u32, name: &[u8], time_ns: u64, is_change: bool) {
        if name.is_empty() || tid == 0 {
            return;
        }
        let thread = self.threads.entry(tid).or_default();
        match thread.names.last() {
            Some((_, last)) if last.bytes() == name => {}
            last => {
                let from_ns = match last {
                    None => 0,
                    Some(_) if is_change => time_ns,
                    Some(_) => thread.noted_ns,
                };
                thread.between |= last.is_some() && !is_change;
                thread.names.push((from_ns, name.into()));
            }
        }
        thread.noted_ns = time_ns;
        thread.is_exact = is_change;
    }

    /// Takes the name that a thread had last, which no record has: of a child whose birth was recorded, but not what it executed. It holds from when another
    /// was noted last, unless the record of a change had that one.
    pub(super) fn note_last(&mut self, tid: u32, name: &Name) {
        let Some(thread) = self.threads.get_mut(&tid).filter(|thread| !thread.is_exact) else {
            return;
        };
        if thread.names.last().is_some_and(|(_, last)| last != name) {
            thread.names.push((thread.noted_ns, name.clone()));
            thread.between = true;
        }
    }

    /// The changes without those of threads whose records have a change's time themselves.
    pub(super) fn kept(mut self) -> Self {
        self.threads.retain(|_, thread| thread.between);
        self
    }

    /// The name that a thread had from the last change up to this time.
    pub(super) fn name_at(&self, tid: u32, time_ns: u64) -> Option<&Name> {
        let names = &self.threads.get(&tid)?.names;
        let count = names.partition_point(|(from_ns, _)| *from_ns <= time_ns);
        let (_, name) = names.get(count.checked_sub(1)?)?;
        Some(name)
    }

    /// Bytes of the file, by rising numbers of threads.
    pub fn to_lines(&self) -> Vec<u8> {
        let mut all: Vec<_> = self.threads.iter().collect();
        all.sort_unstable_by_key(|(tid, _)| **tid);
        let mut lines = Vec::new();
        if self.complete {
            lines.extend_from_slice(COMPLETE);
            lines.push(b'\n');
        }
        for (tid, thread) in all {
            for (from_ns, name) in &thread.names {
                lines.extend_from_slice(format!("{tid} {from_ns} ").as_bytes());
                name.write_line(&mut lines);
            }
        }
        lines
    }

    /// Parses what `to_lines` wrote.
    pub fn parse(lines: &[u8]) -> Result<Self> {
        let mut all = Self::default();
        for line in name::lines(lines) {
            if line == COMPLETE {
                all.complete = true;
                continue;
            }
            let read = || {
                let (tid, rest) = name::number(line)?;
                let (from_ns, name) = name::number(rest)?;
                Some((u32::try_from(tid).ok()?, from_ns, name))
            };
            let Some((tid, from_ns, name)) = read() else {
                return Err(Error::Side {
                    what: "the trace's changes of names".into(),
                    why: format!(
                        "{:?} is not a number, a time and a name",
                        String::from_utf8_lossy(line)
                    ),
                });
            };
            let thread: &mut Thread = all.threads.entry(tid).or_default();
            thread.names.push((from_ns, name.into()));
        }
        for thread in all.threads.values_mut() {
            thread.names.sort_by_key(|(from_ns, _)| *from_ns);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_name_holds_from_the_last_record_with_the_old_one() {
        let mut all = Changes::default();
        // A child is born and run as `w`, executes, is switched from as `true`; its number comes again.
        for (time_ns, name) in [(10, "w"), (20, "w"), (30, "true"), (40, "true"), (90, "sh")] {
            all.note(7, name.as_bytes(), time_ns, false);
        }
        // A change that has a record of its own is known to the moment.
        all.note(8, b"w", 10, false);
        all.note(8, b"ls", 25, true);
        let all = all.kept();
        let read = Changes::parse(&all.to_lines()).unwrap();
        for all in [all, read] {
            let names = [0, 19, 20, 35, 39, 40, 95].map(|time_ns| all.name_at(7, time_ns).unwrap().text());
            assert_eq!(names, ["w", "w", "true", "true", "true", "sh", "sh"]);
            assert_eq!(all.name_at(8, 30), None);
        }
        assert!(Changes::parse(b"7 w\n").is_err());
    }

    #[test]
    fn changes_that_were_told_are_complete_also_when_they_are_read() {
        let mut all = Changes::default();
        all.note(7, b"sh", 10, false);
        assert!(!all.is_complete());
        for (time_ns, name) in [(25, "cat"), (0, "sh"), (30, "cat")] {
            all.tell(7, &name.into(), time_ns);
        }
        all.tell(0, &"swapper".into(), 0);
        let read = Changes::parse(&all.to_lines()).unwrap();
        assert!(read.is_complete());
        assert_eq!(
            [0, 24, 25].map(|time_ns| read.name_at(7, time_ns).unwrap().text()),
            ["sh", "sh", "cat"]
        );
        assert_eq!(read.name_at(0, 1), None);
    }

    #[test]
    fn the_last_name_holds_where_no_record_tells_the_change() {
        let mut all = Changes::default();
        // Born as `sh`; what it executed was not recorded.
        all.note(7, b"sh", 10, false);
        all.note_last(7, &"cat".into());
        // Its execution was recorded, what it called itself later was not.
        all.note(8, b"sh", 10, false);
        all.note(8, b"java", 20, true);
        all.note_last(8, &"main".into());
        // No record names it.
        all.note_last(9, &"ls".into());
        let all = all.kept();
        assert_eq!(
            [9, 10, 30].map(|at| all.name_at(7, at).map(Name::text)),
            [Some("sh"), Some("cat"), Some("cat")]
        );
        assert_eq!([8, 9].map(|tid| all.name_at(tid, 30)), [None, None]);
    }
}
