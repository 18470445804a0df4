//! perf's way to ask for samples: `-F HZ`, `-c COUNT`, and counters by their bare names, as events of the language.

use crate::exit::{Exit, Failure};
use clap::Args;
use kestrel::catalog::counter_kind;
use kestrel::kernel::perf::Software;

/// Options for samples.
#[derive(Args, Debug)]
pub(crate) struct Sampling {
    /// Take this many samples per second on each CPU: a profile, with -g of call stacks (events: profile:hz:HZ)
    #[arg(short = 'F', long, value_name = "HZ", conflicts_with_all = ["table", "count"], value_parser = clap::value_parser!(u32).range(1..=100_000))]
    frequency: Option<u32>,
    /// Take one sample every COUNT events of the counters named with -e, such as cycles, page-faults, cpu-clock (ns)
    #[arg(short = 'c', long, value_name = "COUNT", conflicts_with = "table", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

impl Sampling {
    /// The events to record: those named, counters in the language's spelling; a clock's where only a frequency is given.
    ///
    /// # Errors
    /// Where the options fit none of the events.
    pub(crate) fn events(&self, named: &[String]) -> Result<Vec<String>, Failure> {
        if let (Some(hertz), []) = (self.frequency, named) {
            return Ok(vec![format!("profile:hz:{hertz}")]);
        }
        let mut sampled = false;
        let mut events = Vec::new();
        for text in named {
            events.push(match self.event(text)? {
                Some(event) => {
                    sampled = true;
                    event
                }
                None => text.clone(),
            });
        }
        let option = match (self.frequency, self.count) {
            (Some(_), _) => "-F",
            (_, Some(_)) => "-c",
            _ => return Ok(events),
        };
        match sampled {
            true => Ok(events),
            false => {
                let failure = format!("{option} takes samples of counters, and no event of -e is one");
                let hint = "-e cpu-clock, page-faults, cycles and the like are; every hit of a tracepoint or probe is recorded";
                Err(Failure::new(Exit::Usage, failure).hint(hint))
            }
        }
    }

    /// A list of events with its counters as events of the language; none where there is no counter among them.
    fn event(&self, text: &str) -> Result<Option<String>, Failure> {
        let (mut events, mut sampled, mut rest) = (String::new(), false, text);
        loop {
            let text = rest.trim_start();
            let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !"-_:*?.[]".contains(c));
            let (name, behind) = text.split_at(end.unwrap_or(text.len()));
            let counter = self.counter(name)?;
            sampled |= counter.is_some();
            events.push_str(counter.as_deref().unwrap_or(name));
            let Some(next) = behind.trim_start().strip_prefix(',') else {
                events.push_str(behind);
                return Ok(sampled.then_some(events));
            };
            events.push(',');
            rest = next;
        }
    }

    /// A counter as an event of the language; none where the name is something else's.
    fn counter(&self, name: &str) -> Result<Option<String>, Failure> {
        let Some((kind, counter)) = counter(name) else {
            return Ok(None);
        };
        let event = match (self.frequency, self.count) {
            // The frequency of a counter that counts time is a timer's.
            (Some(hertz), _) if Software::find(counter).is_some_and(Software::counts_time) => {
                format!("profile:hz:{hertz}")
            }
            (Some(_), _) => {
                let failure = format!("cannot sample {name} by a frequency: it is counted, not timed");
                let hint = format!(
                    "-c 1000000 takes one sample in a million of {name}; -F without -e samples by time"
                );
                return Err(Failure::new(Exit::Usage, failure).hint(hint));
            }
            (None, Some(count)) => format!("{kind}:{counter}:{count}"),
            (None, None) => format!("{kind}:{counter}"),
        };
        Ok(Some(event))
    }
}

/// The kind and the name of a counter, without a count behind it.
fn counter(name: &str) -> Option<(&'static str, &str)> {
    match name.split_once(':') {
        None => Some((counter_kind(name)?, name)),
        Some((kind, counter)) => counter_kind(counter)
            .filter(|known| known == &kind)
            .map(|kind| (kind, counter)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(frequency: Option<u32>, count: Option<u64>, named: &[&str]) -> Result<Vec<String>, String> {
        let named: Vec<String> = named.iter().map(|name| (*name).to_owned()).collect();
        Sampling { frequency, count }
            .events(&named)
            .map_err(|failure| failure.message)
    }

    #[test]
    fn perfs_spelling_becomes_events() {
        let one = |frequency, count, named: &str| events(frequency, count, &[named]).unwrap().remove(0);
        assert_eq!(events(Some(99), None, &[]).unwrap(), ["profile:hz:99"]);
        assert_eq!(one(None, None, "page-faults"), "software:page-faults");
        assert_eq!(one(None, Some(100), "faults"), "software:faults:100");
        assert_eq!(
            one(None, Some(7), "cycles /pid == 1/"),
            "hardware:cycles:7 /pid == 1/"
        );
        assert_eq!(one(None, Some(7), "software:cpu-clock"), "software:cpu-clock:7");
        assert_eq!(
            one(Some(49), None, "cpu-clock { record(ustack) }"),
            "profile:hz:49 { record(ustack) }"
        );
        for clock in ["task-clock", "cpu", "software:cpu", "software:task-clock"] {
            assert_eq!(one(Some(49), None, clock), "profile:hz:49");
        }
        assert_eq!(one(None, None, "sched:sched_switch"), "sched:sched_switch");
        assert_eq!(
            one(None, None, "software:page-faults:3"),
            "software:page-faults:3"
        );
        // Lists as perf takes them.
        assert_eq!(
            one(None, Some(1), "minor-faults, sched:*,faults /pid == 1/"),
            "software:minor-faults:1,sched:*,software:faults:1 /pid == 1/"
        );
        assert_eq!(
            one(None, None, "cpu-clock,task-clock"),
            "software:cpu-clock,software:task-clock"
        );
        assert_eq!(
            one(None, None, "uprobe:/bin/cpu,faults:f"),
            "uprobe:/bin/cpu,faults:f"
        );
        assert_eq!(
            events(None, Some(9), &["sched:sched_switch", "page-faults"]).unwrap(),
            ["sched:sched_switch", "software:page-faults:9"]
        );
    }

    #[test]
    fn recordings_without_samples_are_refused() {
        assert!(
            events(Some(9), None, &["sched:sched_switch"])
                .unwrap_err()
                .contains("-F takes samples")
        );
        assert!(
            events(None, Some(9), &["kprobe:vfs_read"])
                .unwrap_err()
                .contains("-c takes samples")
        );
        assert!(
            events(Some(9), None, &["cycles"])
                .unwrap_err()
                .contains("frequency")
        );
    }
}
