//! Lists of events as tracefs's `set_event` takes them: `system:event`, `system:*`, `*:*`, names alone, `!` before what is not wanted; beyond that `#` before remarks.

use kestrel_catalog::catalog::Catalog;
use kestrel_catalog::{Error, Result};
use kestrel_compiler::lang::diag::nearest;
use kestrel_compiler::lang::glob::Glob;
use kestrel_kernel::tracefs::{EventName, Tracefs};

/// The largest list of events that is read, in bytes: larger than any real one.
pub const LARGEST_LIST: u64 = 4 << 20;

/// The events of a list, as one text of `-e`. Lines are taken one after the other, as by writes to `set_event`: what a line takes away, a later one may add.
///
/// # Errors
/// A line that names no event of this kernel, a list that leaves none.
pub fn listed(list: &str, name: &str, catalog: &Catalog) -> Result<String> {
    let tracefs = Tracefs::mount(catalog.host())?;
    let events = tracefs.events()?;
    specs(list, &events)
        .map(|specs| specs.join(","))
        .map_err(|wrong| match wrong {
            Wrong::Unknown { wanted, near } => Error::NoSuchEvent {
                what: format!("tracepoint for a line of {name}:"),
                wanted,
                near,
            },
            Wrong::Empty => Error::WrongShape {
                wanted: name.to_owned(),
                shape: "lines of SYSTEM:EVENT, and at least one event must be left".to_owned(),
            },
        })
}

#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    Unknown { wanted: String, near: Vec<String> },
    Empty,
}

/// The names of a list. Where nothing is taken away, patterns stay as they are written: a plan attaches one as one row, and names of modules that are loaded
/// later fit it. Where something is, names of single events are what is left.
fn specs(list: &str, events: &[EventName]) -> std::result::Result<Vec<String>, Wrong> {
    let lines = list
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let mut written: Vec<String> = Vec::new();
    let mut chosen = vec![false; events.len()];
    let removes = words.iter().any(|word| word.starts_with('!'));
    for word in words {
        let (pattern, wanted) = match word.strip_prefix('!') {
            Some(pattern) => (pattern, false),
            None => (word, true),
        };
        let meant = Pattern::of(pattern);
        let mut any = false;
        for (event, chosen) in events.iter().zip(&mut chosen) {
            if meant.means(event) {
                *chosen = wanted;
                any = true;
            }
        }
        if !any {
            let names: Vec<String> = events
                .iter()
                .map(|it| format!("{}:{}", it.group, it.name))
                .collect();
            return Err(Wrong::Unknown {
                wanted: pattern.to_owned(),
                near: nearest(pattern, names.iter().map(String::as_str))
                    .into_iter()
                    .map(str::to_owned)
                    .collect(),
            });
        }
        match pattern.split_once(':') {
            Some((_, name)) if !name.is_empty() => written.push(pattern.to_owned()),
            // A word alone becomes the events that it means: some are names of the language's own events (`begin`).
            _ => written.extend(
                events
                    .iter()
                    .filter(|event| meant.means(event))
                    .map(|it| format!("{}:{}", it.group, it.name)),
            ),
        }
    }
    if removes {
        let left = events.iter().zip(&chosen).filter(|(_, chosen)| **chosen);
        written = left.map(|(it, _)| format!("{}:{}", it.group, it.name)).collect();
    }
    let mut seen = std::collections::BTreeSet::new();
    written.retain(|name| seen.insert(name.clone()));
    match written.is_empty() {
        true => Err(Wrong::Empty),
        false => Ok(written),
    }
}

/// A pattern of a list: system and name, or a word that is the one or the other (`__ftrace_set_clr_event_nolock` in kernel/trace/trace_events.c). What is no glob
/// means no event.
struct Pattern {
    group: Option<Glob>,
    name: Option<Glob>,
    /// Whether one of both suffices.
    either: bool,
}

impl Pattern {
    fn of(text: &str) -> Self {
        let glob = |text: &str| Glob::parse(text).ok();
        match text.split_once(':') {
            Some((group, name)) => Self {
                group: glob(group),
                name: glob(if name.is_empty() { "*" } else { name }),
                either: false,
            },
            None => Self {
                group: glob(text),
                name: glob(text),
                either: true,
            },
        }
    }

    fn means(&self, event: &EventName) -> bool {
        let fits =
            |glob: &Option<Glob>, name: &str| glob.as_ref().is_some_and(|glob| glob.matches(name.as_bytes()));
        let (group, name) = (fits(&self.group, &event.group), fits(&self.name, &event.name));
        if self.either { group || name } else { group && name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> std::result::Result<Vec<String>, Wrong> {
        let names = [
            "sched:sched_switch",
            "sched:sched_waking",
            "irq:softirq_entry",
            "timer:tick",
        ];
        let events = names.map(|name| {
            let (group, name) = name.split_once(':').unwrap();
            EventName {
                group: group.to_owned(),
                name: name.to_owned(),
            }
        });
        specs(text, &events)
    }

    #[test]
    fn lines_add_and_take_away_in_their_order() {
        let names = |text: &str| list(text).unwrap().join(" ");
        assert_eq!(
            names("# all\nsched:*\n\nirq:softirq_entry # one\n"),
            "sched:* irq:softirq_entry"
        );
        assert_eq!(names("*:*"), "*:*");
        assert_eq!(names("*:*\n!sched:*\n"), "irq:softirq_entry timer:tick");
        assert_eq!(
            names("*:*\n!sched:*\nsched:sched_switch"),
            "sched:sched_switch irq:softirq_entry timer:tick"
        );
        assert_eq!(
            names("sched\nsched_switch"),
            "sched:sched_switch sched:sched_waking"
        );
        assert_eq!(names("irq: tick"), "irq:softirq_entry timer:tick");
        assert_eq!(list("# nothing"), Err(Wrong::Empty));
        assert_eq!(list("sched:*\n!sched:*"), Err(Wrong::Empty));
        let Err(Wrong::Unknown { wanted, near }) = list("sched:sched_swich") else {
            panic!("it is taken");
        };
        assert_eq!(
            (wanted.as_str(), near[0].as_str()),
            ("sched:sched_swich", "sched:sched_switch")
        );
    }
}
