//! Names of users and control groups, and differences between clocks, which only the recorded system knows. A recording keeps those that its recorder found.

use crate::error::{Error, Result};
use crate::layout::DateClock;
use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};

/// Source of names for numbers. A program that runs asks its system when it prints; a trace has what its recorder asked.
pub trait Names: Debug + Send + Sync {
    /// The name of a user.
    fn user(&self, number: u32) -> Option<String>;

    /// The paths of a control group in the hierarchies whose names match a pattern (all, where it is empty): `unified:/user.slice`, with commas between them.
    fn control_group(&self, number: u64, hierarchies: &str) -> Option<String>;

    /// Offset from times of a clock to ns since 1970.
    fn clock_offset(&self, clock: DateClock) -> i64;
}

/// Names that were asked for before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownNames {
    /// Names of users.
    pub users: BTreeMap<u32, String>,
    /// Paths of control groups.
    pub control_groups: BTreeMap<u64, String>,
    /// Difference between `CLOCK_BOOTTIME` and the time since 1970, in ns.
    pub boot_offset: i64,
    /// The offset of `CLOCK_MONOTONIC`.
    pub monotonic_offset: i64,
    /// Seconds of international atomic time before those of `CLOCK_REALTIME`.
    pub leap_seconds: u32,
}

impl Names for KnownNames {
    fn user(&self, number: u32) -> Option<String> {
        self.users.get(&number).cloned()
    }

    fn control_group(&self, number: u64, _hierarchies: &str) -> Option<String> {
        self.control_groups.get(&number).cloned()
    }

    fn clock_offset(&self, clock: DateClock) -> i64 {
        match clock {
            DateClock::Boot => self.boot_offset,
            DateClock::Monotonic => self.monotonic_offset,
            DateClock::Atomic => -i64::from(self.leap_seconds) * 1_000_000_000,
            DateClock::Real => 0,
        }
    }
}

/// Names that a recorder found for the numbers in its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptNames {
    /// Names of users.
    pub users: BTreeMap<u32, String>,
    /// Paths of control groups, by number and hierarchy.
    pub control_groups: BTreeMap<(u64, String), String>,
}

impl KeptNames {
    /// The file within a trace's side folder: lines `user NUMBER NAME` and `cgroup NUMBER HIERARCHY PATH`.
    pub const FILE: &'static str = "names";

    /// Whether it holds no names.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.control_groups.is_empty()
    }

    /// The paths of a control group, with their hierarchies.
    pub fn paths(&self, number: u64) -> impl Iterator<Item = (&str, &str)> {
        let all = self.control_groups.range((number, String::new())..);
        let own = all.take_while(move |((group, _), _)| *group == number);
        own.map(|((_, hierarchy), path)| (hierarchy.as_str(), path.as_str()))
    }

    /// Takes the names of another recording. Of a number that has another name there neither is kept: the two are of different machines or times.
    pub(crate) fn join(&mut self, others: &Self) {
        join(&mut self.users, &others.users);
        join(&mut self.control_groups, &others.control_groups);
    }

    /// The text of its file.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let line = |name: &str| name.replace(['\n', '\r'], "?");
        for (number, name) in &self.users {
            _ = writeln!(text, "user {number} {}", line(name));
        }
        for ((number, hierarchy), path) in &self.control_groups {
            // The path stands last: it may have spaces.
            _ = writeln!(
                text,
                "cgroup {number} {} {}",
                hierarchy.replace([' ', '\n', '\r'], "?"),
                line(path)
            );
        }
        text
    }

    /// Reads what `to_text` wrote.
    pub fn parse(text: &str) -> Result<Self> {
        let mut names = Self::default();
        for line in text.lines() {
            names.line(line).ok_or_else(|| Error::Side {
                what: "the trace's names of users and control groups".into(),
                why: format!("{line:?} is neither"),
            })?;
        }
        Ok(names)
    }

    fn line(&mut self, line: &str) -> Option<()> {
        let (kind, rest) = line.split_once(' ')?;
        let (number, name) = rest.split_once(' ')?;
        match kind {
            "user" => {
                self.users.insert(number.parse().ok()?, name.to_owned());
            }
            "cgroup" => {
                let (hierarchy, path) = name.split_once(' ')?;
                let group = (number.parse().ok()?, hierarchy.to_owned());
                self.control_groups.insert(group, path.to_owned());
            }
            _ => return None,
        }
        Some(())
    }
}

fn join<K: Clone + Ord>(own: &mut BTreeMap<K, String>, others: &BTreeMap<K, String>) {
    for (number, name) in others {
        match own.get(number) {
            Some(known) if known != name => {
                own.remove(number);
            }
            Some(_) => {}
            None => {
                own.insert(number.clone(), name.clone());
            }
        }
    }
}

/// Names that are empty: numbers are shown as they are.
pub static NOTHING: &dyn Names = &KnownNames {
    users: BTreeMap::new(),
    control_groups: BTreeMap::new(),
    boot_offset: 0,
    monotonic_offset: 0,
    leap_seconds: 0,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_names_are_read_as_they_were_written() {
        let mut names = KeptNames::default();
        assert_eq!(KeptNames::parse(&names.to_text()).unwrap(), names);
        names.users.insert(0, "root".to_owned());
        names.users.insert(1000, "a b".to_owned());
        let mut group = |number, hierarchy: &str, path: &str| {
            let key = (number, hierarchy.to_owned());
            names.control_groups.insert(key, path.to_owned());
        };
        group(1, "unified", "/");
        group(27, "unified", "/my group/x");
        group(27, "cpu", "/");
        let text = names.to_text();
        assert_eq!(
            text,
            "user 0 root\nuser 1000 a b\ncgroup 1 unified /\ncgroup 27 cpu /\ncgroup 27 unified /my group/x\n"
        );
        assert_eq!(KeptNames::parse(&text).unwrap(), names);
        let paths: Vec<_> = names.paths(27).collect();
        assert_eq!(paths, [("cpu", "/"), ("unified", "/my group/x")]);
        assert_eq!(names.paths(2).count(), 0);
        let mut joined = names.clone();
        let others = KeptNames::parse("user 0 admin\nuser 5 games\ncgroup 1 unified /\n").unwrap();
        joined.join(&others);
        assert_eq!(
            joined.to_text(),
            "user 5 games\nuser 1000 a b\ncgroup 1 unified /\ncgroup 27 cpu /\ncgroup 27 unified /my group/x\n"
        );
        for broken in [
            "user",
            "user x root",
            "cgroup 1 unified",
            "cgroup x unified /",
            "group 1 a /",
        ] {
            assert!(KeptNames::parse(broken).is_err(), "{broken}");
        }
    }
}
