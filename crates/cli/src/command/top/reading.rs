//! Counts at one moment, of an ad-hoc program or of persistent sessions: plain data; two of them give rates.

use kestrel_trace::aggregate::Entry;
use std::collections::BTreeMap;
use std::time::Duration;

/// Counts up to a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// When, since the beginning.
    pub(super) at: Duration,
    /// Events, as they are counted.
    pub(super) hits: Vec<Hits>,
    /// Events by whom, where other counts than `hits` know that.
    pub(super) causes: Option<Vec<Hits>>,
    /// Whether it was asked who caused events, and where they came.
    pub(super) knows: ReadingParts,
    pub(super) maps: Vec<MapReading>,
    pub(super) buffers: Vec<BufferReading>,
    /// Hits that programs missed, by session and event.
    pub(super) missed: Vec<(String, String, u64)>,
    /// Hits that are in no row, since there was no room for another one.
    pub(super) uncounted_hits: u64,
    /// Notes: sessions that have ended, records that were not read.
    pub(super) notes: Vec<String>,
}

/// Costly parts that a reading contains only on request, beside the counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadingParts {
    /// On which CPUs events came.
    pub(super) cpus: bool,
    /// Which processes caused events.
    pub(super) processes: bool,
}

impl ReadingParts {
    /// Parts of a reading needed for the hits of a slice.
    pub(super) fn by(slice: &Slice, by: By) -> Self {
        Self {
            cpus: by == By::Cpu || slice.cpu.is_some(),
            processes: by == By::Process || slice.pid.is_some(),
        }
    }

    /// Whether it has all that another one has.
    pub(super) fn covers(self, other: Self) -> bool {
        self.cpus >= other.cpus && self.processes >= other.processes
    }

    /// Union of both.
    pub(super) fn with(self, other: Self) -> Self {
        Self {
            cpus: self.cpus || other.cpus,
            processes: self.processes || other.processes,
        }
    }
}

/// The hits of an event, by what distinguishes them (CPU, process, …).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hits {
    /// Session of the event; empty for events that `top` itself counts.
    pub(super) session: String,
    pub(super) event: String,
    /// The process that caused the hits, where that is known.
    pub(super) process: Option<Process>,
    pub(super) cpu: Option<u32>,
    pub(super) count: u64,
    /// Of these, lost to a buffer.
    pub(super) lost: u64,
}

/// A process, under one of the names of its threads.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) comm: String,
}

/// Contents of a map at a reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MapReading {
    pub(super) session: String,
    /// As people write it: `@x`.
    pub(super) title: String,
    /// The aggregating function that fills it: `count`, `hist`.
    pub(super) function: String,
    /// Whether its values only grow, so that what was added in an interval is known.
    pub(super) only_grows: bool,
    pub(super) entries: Vec<Entry>,
    /// The most keys that the map has room for.
    pub(super) most: u32,
    /// Updates that were not made because there was no room.
    pub(super) lost: u64,
    /// The whole map as the other commands print it, and as JSON.
    pub(super) text: String,
    pub(super) json: serde_json::Value,
}

/// State of a buffer, all CPUs together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct BufferReading {
    pub(super) session: String,
    pub(super) name: String,
    pub(super) mode: String,
    pub(super) bytes_per_cpu: u64,
    /// How full the fullest ring is, 0 to 1.
    pub(super) fill: f64,
    /// Time that the history covers, seconds.
    pub(super) span: Option<f64>,
    pub(super) recorded: u64,
    pub(super) overwritten: u64,
    pub(super) lost: u64,
}

/// Key by which hits are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Event,
    Process,
    Cpu,
}

/// A filter of hits: those that match all of its fields that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slice {
    /// A session and an event of it.
    pub(super) event: Option<(String, String)>,
    pub(super) pid: Option<u32>,
    pub(super) cpu: Option<u32>,
}

/// The sums of some hits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subtotal {
    pub(super) count: u64,
    pub(super) lost: u64,
    /// Name that the process had in most of these hits.
    pub(super) comm: String,
}

/// Key of the row to which hits belong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Event(String, String),
    Process(u32),
    Cpu(u32),
}

#[cfg(test)]
impl Hits {
    /// Hits of an event by a process on a CPU, for tests.
    pub(super) fn of(event: &str, pid: u32, comm: &str, cpu: u32, count: u64) -> Self {
        Self {
            event: event.to_owned(),
            process: Some(Process {
                pid,
                comm: comm.to_owned(),
            }),
            cpu: Some(cpu),
            count,
            ..Self::default()
        }
    }
}

impl Key {
    /// The session and the event of a row of events.
    pub(super) fn event(&self) -> Option<(&str, &str)> {
        match self {
            Self::Event(session, event) => Some((session, event)),
            _ => None,
        }
    }

    /// The process of a row of processes.
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Process(pid) => Some(*pid),
            _ => None,
        }
    }
}

impl Slice {
    fn has(&self, hits: &Hits) -> bool {
        let event = |(session, event): &(String, String)| *session == hits.session && *event == hits.event;
        self.event.as_ref().is_none_or(event)
            && self
                .pid
                .is_none_or(|pid| hits.process.as_ref().is_some_and(|process| process.pid == pid))
            && self.cpu.is_none_or(|cpu| hits.cpu == Some(cpu))
    }
}

impl Reading {
    /// The hits of a slice, added up by key; those whose key is not known are left out.
    pub(super) fn sums(&self, slice: &Slice, by: By) -> BTreeMap<Key, Subtotal> {
        let mut sums: BTreeMap<Key, (Subtotal, BTreeMap<&str, u64>)> = BTreeMap::new();
        let causes = self
            .causes
            .as_ref()
            .filter(|_| ReadingParts::by(slice, by).processes);
        for hits in causes.unwrap_or(&self.hits).iter().filter(|hits| slice.has(hits)) {
            let key = match by {
                By::Event => Some(Key::Event(hits.session.clone(), hits.event.clone())),
                By::Process => hits.process.as_ref().map(|process| Key::Process(process.pid)),
                By::Cpu => hits.cpu.map(Key::Cpu),
            };
            let Some(key) = key else { continue };
            let (sum, names) = sums.entry(key).or_default();
            sum.count += hits.count;
            sum.lost += hits.lost;
            if let (By::Process, Some(process)) = (by, &hits.process) {
                *names.entry(&process.comm).or_default() += hits.count;
            }
        }
        let named = |(key, (mut sum, names)): (Key, (Subtotal, BTreeMap<&str, u64>))| {
            let most = names.iter().max_by_key(|(_, count)| **count);
            sum.comm = most.map_or_else(String::new, |(name, _)| (*name).to_owned());
            (key, sum)
        };
        sums.into_iter().map(named).collect()
    }

    /// All hits, and those of them that were lost.
    pub(super) fn total(&self) -> (u64, u64) {
        let sum = |of: fn(&Hits) -> u64| self.hits.iter().map(of).sum();
        (sum(|hits| hits.count), sum(|hits| hits.lost))
    }

    /// All hits that programs missed.
    pub(super) fn all_missed(&self) -> u64 {
        self.missed.iter().map(|(.., missed)| missed).sum()
    }

    /// The hits that the programs of an event missed.
    pub(super) fn missed_of(&self, session: &str, event: &str) -> u64 {
        let mut all = self.missed.iter();
        let found = all.find(|(whose, of, _)| whose == session && of == event);
        found.map_or(0, |(.., missed)| *missed)
    }

    /// A map by its session and title.
    pub(super) fn map(&self, session: &str, title: &str) -> Option<&MapReading> {
        self.maps
            .iter()
            .find(|map| map.session == session && map.title == title)
    }
}

impl MapReading {
    /// An entry by its key.
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_added_up_by_the_chosen_key() {
        let reading = Reading {
            hits: vec![
                Hits::of("a", 1, "init", 0, 3),
                Hits::of("a", 1, "worker", 1, 4),
                Hits::of("b", 1, "init", 0, 5),
                Hits::of("b", 2, "sh", 1, 6),
            ],
            ..Reading::default()
        };
        let counts = |slice: &Slice, by| -> Vec<u64> {
            reading.sums(slice, by).values().map(|sum| sum.count).collect()
        };
        let all = Slice::default();
        assert_eq!(counts(&all, By::Event), [7, 11]);
        assert_eq!(counts(&all, By::Process), [12, 6]);
        assert_eq!(counts(&all, By::Cpu), [8, 10]);
        let of_a = Slice {
            event: Some((String::new(), "a".to_owned())),
            ..Slice::default()
        };
        assert_eq!(counts(&of_a, By::Cpu), [3, 4]);
        assert_eq!(
            reading.sums(&of_a, By::Process)[&Key::Process(1)].comm,
            "worker",
            "the name of most of its hits"
        );
        let of_one = Slice {
            pid: Some(2),
            cpu: Some(1),
            ..of_a
        };
        assert_eq!(counts(&of_one, By::Event), [0; 0]);
        assert_eq!(reading.total(), (18, 0));
    }
}
