//! One pass over a written trace: how much of each event it holds, and names for the addresses and threads in it.

use crate::system_names::SystemNames;
use crate::user_symbols::UserCode;
use kestrel_catalog::Result;
use kestrel_catalog::symbols::{kernel_symbols, shows_addresses};
use kestrel_hook::buffer::Buffer;
use kestrel_hook::buffer::layout::Mode;
use kestrel_kernel::Host;
use kestrel_kernel::procfs;
use kestrel_trace::calls::MEMORY;
use kestrel_trace::ctf::directory;
use kestrel_trace::event::EventClass;
use kestrel_trace::names::KeptNames;
use kestrel_trace::process::{Learner, Processes};
use kestrel_trace::record::Record;
use kestrel_trace::summary::EventCount;
use kestrel_trace::symbol::{self, Symbols};
use kestrel_trace::tasks::Tasks;
use kestrel_trace::unwound::Unwound;
use kestrel_trace::user_symbol::code_addresses;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

/// Called with how many packets of how many were looked through.
pub type Progress = Box<dyn FnMut(u64, u64)>;

/// Result of the pass.
#[derive(Debug)]
pub(crate) struct Review {
    /// Records by buffer, event number and CPU.
    pub recorded: BTreeMap<(u32, u16, u32), u64>,
    /// Times of the first and the last record, ns.
    pub span: Option<(u64, u64)>,
    /// Names of the addresses.
    pub symbols: Symbols,
    /// Notes for readers.
    pub notes: Vec<String>,
    /// Frames that were found in copies of stacks.
    pub unwound: Unwound,
    /// Names of the threads.
    pub processes: Processes,
    /// The threads' processes.
    pub tasks: Tasks,
}

/// Reads a trace of these classes; `processes` are the names that threads had last, as far as they are known.
pub(crate) fn postprocess(
    path: &Path,
    classes: &[EventClass],
    mut processes: Processes,
    host: &Host,
    mut code: Option<&mut UserCode>,
    progress: Option<Progress>,
) -> Result<Review> {
    let trace = directory::open(path)?;
    let (mut reader, total) = (trace.reader, trace.packets);
    if let Some(mut progress) = progress {
        reader.watch(Box::new(move |done| progress(done, total)));
    }
    let symbolic = shows_addresses(classes);
    let mut recorded: BTreeMap<(u32, u16, u32), u64> = BTreeMap::new();
    let mut addresses = HashSet::new();
    let mut span = None;
    // Calls tell of executions to the moment, and who reads calls follows them.
    let mut learner = match classes.iter().any(|class| tells_executions(&class.name)) {
        true => Learner::default(),
        false => Learner::noting(),
    };
    let mut tasks = HashSet::new();
    let mut named = NamedNumbers::of(classes);
    let last = processes.clone();
    while let Some((buffer, record)) = reader.next_in()? {
        *recorded
            .entry((buffer, record.event.id.0, record.cpu))
            .or_default() += 1;
        let (first, _) = span.unwrap_or((record.time_ns, 0));
        span = Some((first, record.time_ns));
        if symbolic {
            symbol::addresses(&record, &mut addresses);
        }
        if let Some(code) = &mut code {
            code.unwind(&record);
            code_addresses(&record, |address| code.need(record.pid, record.time_ns, address));
        }
        learner.learn(&record, &mut processes);
        named.see(&record);
        tasks.insert((record.pid, record.tid));
    }
    let mut processes = processes.with_changes(learner.changes(&last));
    // Names that no record holds: threads that ran before the recording and still do have them in /proc.
    let mut kept = running(host);
    for (pid, tid) in tasks {
        kept.insert(tid, pid);
        if processes.name(tid, pid).is_none()
            && let Ok(name) = procfs::comm_bytes(host, tid)
        {
            processes.insert(tid, name);
        }
    }
    let symbols = if addresses.is_empty() {
        Symbols::default()
    } else {
        kernel_symbols(host, &addresses)
    };
    let (user, notes) = code.as_mut().map(|code| code.name()).unwrap_or_default();
    let unwound = code.map(UserCode::take_unwound).unwrap_or_default();
    Ok(Review {
        recorded,
        span,
        symbols: symbols.with_user(user).with_kept_names(named.names(host)),
        notes,
        unwound,
        processes,
        tasks: kept,
    })
}

/// Numbers of a recording whose names its system alone knows.
struct NamedNumbers {
    /// By event number: the index of the field with the user.
    fields: BTreeMap<u16, usize>,
    users: BTreeSet<u32>,
    /// Whether records have control groups: by number, or within recorded memory.
    groups: bool,
}

impl NamedNumbers {
    fn of(classes: &[EventClass]) -> Self {
        let users = classes.iter().filter_map(|class| {
            let at = class
                .layout
                .fields()
                .iter()
                .position(|field| field.name == "uid")?;
            Some((class.id.0, at))
        });
        let has_memory = |name: &str| {
            let number = name.strip_prefix(MEMORY);
            number.is_some_and(|number| number.starts_with(|digit: char| digit.is_ascii_digit()))
        };
        let has_groups = |class: &EventClass| {
            let mut fields = class.layout.fields().iter();
            fields.any(|field| field.name == "cgroup" || has_memory(&field.name))
        };
        Self {
            fields: users.collect(),
            users: BTreeSet::new(),
            groups: classes.iter().any(has_groups),
        }
    }

    fn see(&mut self, record: &Record<'_>) {
        if let Some(at) = self.fields.get(&record.event.id.0)
            && let Some(user) = record.value(&record.event.layout.fields()[*at]).as_u64()
        {
            self.users.insert(user as u32);
        }
    }

    fn names(&self, host: &Host) -> KeptNames {
        SystemNames::new(host.clone()).kept(&self.users, self.groups)
    }
}

/// Whether an event is the return of a call that gives threads other names: of all calls, or those that execute. Entries alone do not say which succeed.
fn tells_executions(event: &str) -> bool {
    event == "raw_syscalls:sys_exit" || event.starts_with("syscalls:sys_exit_execve")
}

/// The threads that run now.
fn running(host: &Host) -> Tasks {
    let mut tasks = Tasks::default();
    for pid in procfs::processes(host).unwrap_or_default() {
        for tid in procfs::threads(host, pid).unwrap_or_default() {
            tasks.insert(tid, pid);
        }
    }
    tasks
}

/// Counts in the rings of an event on a CPU: records written (in overwriting buffers), records lost.
pub(crate) type Tally = BTreeMap<(u32, u16, u32), kestrel_hook::buffer::reader::Counts>;

/// Reads the counters of these buffers, each with its number.
pub(crate) fn tally<'b>(
    buffers: impl IntoIterator<Item = (u32, &'b Buffer)>,
    classes: &[EventClass],
) -> Tally {
    let mut all = Tally::new();
    for (number, buffer) in buffers
        .into_iter()
        .flat_map(|(place, buffer)| buffer.parts(place))
    {
        let ring = buffer.ring();
        for cpu in ring.cpus() {
            for class in classes {
                let mut counts = ring.counts(cpu, class.id.0);
                if ring.geometry().mode == Mode::Stream {
                    counts.recorded = 0;
                }
                all.insert((number, class.id.0, cpu), counts);
            }
        }
    }
    all
}

/// Sums over all buffers what became of each event on each CPU; `kept` are the records in the trace.
pub(crate) fn counts(
    classes: &[EventClass],
    tally: &Tally,
    kept: &BTreeMap<(u32, u16, u32), u64>,
) -> Vec<EventCount> {
    let mut sums: BTreeMap<(usize, u32), EventCount> = BTreeMap::new();
    let places: BTreeMap<u16, usize> = (0..).zip(classes).map(|(at, class)| (class.id.0, at)).collect();
    for (&(buffer, id, cpu), counts) in tally {
        let Some(&place) = places.get(&id) else { continue };
        let kept = kept.get(&(buffer, id, cpu)).copied().unwrap_or(0);
        let overwritten = counts.recorded.saturating_sub(kept);
        if kept + counts.lost + overwritten == 0 {
            continue;
        }
        let sum = sums.entry((place, cpu)).or_insert_with(|| EventCount {
            event: classes[place].name.clone(),
            cpu,
            ..EventCount::default()
        });
        sum.recorded += kept;
        sum.lost += counts.lost;
        sum.overwritten += overwritten;
    }
    sums.into_values().collect()
}
