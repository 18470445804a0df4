//! Perf events that count, each as often as its scope has threads or CPUs, added up by part when they are read.

use super::cgroup::Cgroup;
use super::count::{Amount, Count, Part};
use super::request::CountRequest;
use super::scope::CounterTarget;
use kestrel_catalog::catalog::counter::counted::{self, Meaning, Named};
use kestrel_catalog::{Error, Result};
use kestrel_kernel::perf::{Begin, Counted, CountedTasks, Inherit, PerfEvent, Reading, Software};
use kestrel_kernel::process::allow_open_files;
use kestrel_kernel::procfs::online_cpus;
use kestrel_kernel::{Errno, Error as Kernel, Host};

/// Counters that the processor has all together or not at all; mostly one.
#[derive(Debug)]
pub(super) struct Group {
    /// The place of the first one's event.
    pub(super) first: usize,
    pub(super) named: Vec<Named>,
}

/// An event opened on all its CPUs or tasks.
#[derive(Debug)]
struct OpenCounter {
    event: usize,
    places: Vec<PlacedCounter>,
}

#[derive(Debug)]
struct PlacedCounter {
    part: Part,
    /// The open counter; `None` where this machine cannot count it.
    counting: Option<PerfEvent>,
    /// Whether it counts all the time: a tracepoint shares no counter of the processor.
    is_whole: bool,
    /// Whether it is switched by itself, and now.
    switched: bool,
}

impl PlacedCounter {
    fn reading(&self, counting: &PerfEvent) -> Result<Reading> {
        let mut reading = counting.reading()?;
        if self.is_whole {
            // perf's two times are read one after the other, and are 0 where a task did not run.
            reading.running = reading.enabled;
        }
        Ok(reading)
    }
}

/// The counters of a request.
#[derive(Debug, Default)]
pub(super) struct Counters {
    opened: Vec<OpenCounter>,
    /// Whether threads came while counters of their process were opened: those have none.
    pub(super) may_miss: bool,
}

/// Most attempts to open counters of a process that makes threads meanwhile.
const ATTEMPTS: u32 = 8;

/// Descriptors beside those of counters.
const OTHER_FILES: u64 = 256;

impl Counters {
    /// Opens them, switched off.
    ///
    /// # Errors
    /// The kernel's, but for what this machine cannot count.
    pub(super) fn open(groups: &[Group], request: &CountRequest, host: &Host) -> Result<Self> {
        if groups.is_empty() {
            return Ok(Self::default());
        }
        // Replaced only when the next ones are there: the kernel waits for a grace period where the last counter leaves a tracepoint.
        let mut counters = Self::default();
        for _ in 0..ATTEMPTS {
            let before = request.scope.threads(host)?;
            counters = Self::open_once(groups, request, host)?;
            let now = request.scope.threads(host).unwrap_or_default();
            counters.may_miss = now.iter().any(|thread| !before.contains(thread));
            if !counters.may_miss {
                break;
            }
        }
        Ok(counters)
    }

    /// Moves events to the places that they have by now.
    pub(super) fn renumber(&mut self, places: &[usize]) {
        for opened in &mut self.opened {
            opened.event = places[opened.event];
        }
    }

    fn open_once(groups: &[Group], request: &CountRequest, host: &Host) -> Result<Self> {
        let targets = request.scope.targets(&request.split, host)?;
        let events: usize = groups.iter().map(|group| group.named.len()).sum();
        allow_open_files((targets.len() * events) as u64 + OTHER_FILES);
        let mut opened = Vec::new();
        for group in groups {
            let mut places: Vec<Vec<PlacedCounter>> = group.named.iter().map(|_| Vec::new()).collect();
            let cpus = group.named.first().and_then(|named| named.cpus.as_ref());
            let counts = |target: &&CounterTarget<'_>| match (cpus, target.cpu) {
                (Some(cpus), Some(cpu)) => cpus.contains(cpu),
                _ => true,
            };
            // Where none is wanted the kernel moves the counter to one of its own, or refuses it.
            let any = targets.iter().any(|target| counts(&target));
            for target in targets.iter().filter(|target| counts(target) || !any) {
                for (places, place) in places.iter_mut().zip(open_group(group, target)?) {
                    places.extend(place);
                }
            }
            opened.extend(
                (group.first..)
                    .zip(places)
                    .map(|(event, places)| OpenCounter { event, places }),
            );
        }
        Ok(Self {
            opened,
            may_miss: false,
        })
    }

    /// Switches on those that do not wait for an exec.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn enable(&self) -> Result<()> {
        self.switch(PerfEvent::enable)
    }

    /// Switches them off.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn disable(&self) -> Result<()> {
        for counting in self.places().filter_map(|place| place.counting.as_ref()) {
            counting.disable()?;
        }
        Ok(())
    }

    fn switch(&self, switch: impl Fn(&PerfEvent) -> kestrel_kernel::Result<()>) -> Result<()> {
        for place in self.places().filter(|place| place.switched) {
            place.counting.as_ref().map_or(Ok(()), &switch)?;
        }
        Ok(())
    }

    fn places(&self) -> impl Iterator<Item = &PlacedCounter> {
        self.opened.iter().flat_map(|opened| &opened.places)
    }

    /// Counts of the counters.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn read(&self) -> Result<Vec<Count>> {
        let mut counts = Vec::new();
        for opened in &self.opened {
            let first = counts.len();
            if opened.places.is_empty() {
                // All that was to be counted ended before.
                add(
                    &mut counts,
                    first,
                    (opened.event, &Part::All),
                    Amount::Counted(Reading::default()),
                );
            }
            for place in &opened.places {
                let amount = match &place.counting {
                    Some(counting) => Amount::Counted(place.reading(counting)?),
                    None => Amount::NotSupported,
                };
                add(&mut counts, first, (opened.event, &place.part), amount);
            }
        }
        Ok(counts)
    }
}

/// Adds an amount to that of the same part, which stands behind `first` where there is one: parts come one after the other, or are few.
fn add(counts: &mut Vec<Count>, first: usize, (event, part): (usize, &Part), amount: Amount) {
    let known = counts
        .iter_mut()
        .skip(first)
        .rev()
        .find(|count| count.part == *part);
    match (known, amount) {
        (None, amount) => counts.push(Count {
            event,
            part: part.clone(),
            amount,
        }),
        (Some(known), Amount::Counted(more)) => {
            known.amount = match known.amount {
                Amount::Counted(sum) => Amount::Counted(Reading {
                    value: sum.value + more.value,
                    enabled: sum.enabled + more.enabled,
                    running: sum.running + more.running,
                }),
                Amount::NotSupported => Amount::Counted(more),
            };
        }
        (Some(_), Amount::NotSupported) => {}
    }
}

/// The events of a group at one place; none at all where the thread has ended.
fn open_group(group: &Group, target: &CounterTarget<'_>) -> Result<Vec<Option<PlacedCounter>>> {
    let mut places: Vec<Option<PlacedCounter>> = Vec::new();
    for named in &group.named {
        let counted = Counted {
            counter: &named.counter,
            levels: named.levels,
            whose: target.whose,
            cpu: target.cpu,
            inherit: target.inherit,
            begin: target.begin,
        };
        let leader = places.first().and_then(|place| place.as_ref()?.counting.as_ref());
        let may_open = places.is_empty() || leader.is_some();
        let counting = match may_open.then(|| PerfEvent::counting(&counted, leader)) {
            Some(Ok(counting)) => Some(counting),
            Some(Err(error)) if error.errno() == Some(Errno::ESRCH) => return Ok(vec![]),
            Some(Err(error)) if is_closed(&error, target.whose, named) => return Err(closed()),
            Some(Err(error)) if !is_unsupported(&error) => return Err(error.into()),
            // Without its leader none of a group counts.
            _ => None,
        };
        let switched = places.is_empty() && target.begin == Begin::WhenEnabled;
        places.push(Some(PlacedCounter {
            part: target.part.clone(),
            counting,
            is_whole: named.meaning == Meaning::Tracepoint,
            switched,
        }));
    }
    Ok(places)
}

/// Whether perf can count the tasks of a cgroup.
pub(super) fn knows(cgroup: &Cgroup, host: &Host) -> bool {
    let named = counted::of_software(Software::CpuClock);
    let counted = |cpu| Counted {
        counter: &named.counter,
        levels: named.levels,
        whose: CountedTasks::Cgroup(cgroup.directory()),
        cpu: Some(cpu),
        inherit: Inherit::Nothing,
        begin: Begin::WhenEnabled,
    };
    let first = online_cpus(host).ok().and_then(|cpus| cpus.iter().next());
    first.is_some_and(|cpu| PerfEvent::counting(&counted(cpu), None).is_ok())
}

/// Whether perf does not know a cgroup: every machine has the kernel's own counters.
fn is_closed(error: &Kernel, whose: CountedTasks<'_>, named: &Named) -> bool {
    let own = matches!(named.meaning, Meaning::Software(_));
    own && matches!(whose, CountedTasks::Cgroup(_)) && error.errno() == Some(Errno::ENOENT)
}

/// Groups get perf's controller when their parent hands on any (`cgroup_calc_subtree_ss_mask` in kernel/cgroup/cgroup.c).
fn closed() -> Error {
    Error::Unsupported {
        what: "counting the cgroup with counters".to_owned(),
        why: "perf does not know it: no controller was ever handed on by the groups above it (`echo +pids > cgroup.subtree_control` in its parent); events of tracers can be counted".to_owned(),
    }
}

/// Whether the kernel says that the machine cannot count this (`perf_event_open` in kernel/events/core.c and the drivers).
fn is_unsupported(error: &Kernel) -> bool {
    let unsupported = [Errno::ENOENT, Errno::EOPNOTSUPP, Errno::ENODEV, Errno::EINVAL];
    error.errno().is_some_and(|errno| unsupported.contains(&errno))
}
