//! Questions about the scheduler, about stacks, groups and latencies, asked of a damaged recording as `sched` and `report` ask them.

use super::through::{Scene, word};
use kestrel_query::{Background, Groups, Keys, Latencies, Measure, Pairs};
use kestrel_trace::ctf::directory::Trace;
use kestrel_trace::record::Record;
use kestrel_trace::sched::{By, Latencies as Delays, Map, Present, SchedFilter, Timehist, Wakeups};
use kestrel_trace::stacks::{CallGraph, Stacks, Weight, flame_graph, folded};

/// The delays, the runs, the map of CPUs or the wakeups.
pub(super) fn sched(scene: &Scene<'_>, choice: u64) -> Result<(), String> {
    let mut trace = scene.open()?;
    let present = Present::of(trace.reader.info());
    let names = trace.processes.clone();
    let only = SchedFilter {
        tasks: trace.tasks.clone(),
        ..SchedFilter::default()
    };
    match choice >> 8 & 3 {
        0 => {
            let mut delays = Delays::new(present, names, only);
            each(&mut trace, |record| delays.add(record))?;
            _ = delays.finish(By::Process, &[]);
        }
        1 => {
            let mut runs = Timehist::new(present, names, only, choice & 1 == 0);
            each(&mut trace, |record| _ = runs.add(record))?;
            _ = runs.finish();
        }
        2 => {
            let mut map = Map::new(present, names);
            each(&mut trace, |record| _ = map.add(record))?;
            _ = map.cpus().len();
        }
        _ => {
            let mut wakeups = Wakeups::new(present, names, only, 5);
            each(&mut trace, |record| wakeups.add(record))?;
            _ = wakeups.finish();
        }
    }
    Ok(())
}

/// Call graphs, folded lines and flame graphs, of records or of the time off the CPU.
pub(super) fn stacks(scene: &Scene<'_>, choice: u64) -> Result<(), String> {
    let mut trace = scene.open()?;
    let weight = match choice & 1 {
        0 => Weight::Records,
        _ => Weight::OffCpu,
    };
    let mut stacks = Stacks::new(trace.symbols.clone(), trace.processes.clone(), weight);
    each(&mut trace, |record| {
        stacks.add(record);
    })?;
    let tree = stacks.finish();
    let graph = CallGraph::default();
    _ = (graph.text(&tree), graph.json(&tree), folded(&tree));
    match tree.stacks() {
        0 => Ok(()),
        _ => flame_graph(&tree, "damaged", std::io::sink(), "out").map_err(word),
    }
}

/// Records by keys, with a measure, or how long it took from one event to another; not asked of a recording without such events.
pub(super) fn groups(scene: &Scene<'_>, choice: u64) -> Result<(), String> {
    let mut trace = scene.open()?;
    let events = trace.reader.info().events.clone();
    let begin_ns = 0;
    let mut background = Background::new(trace.processes.clone(), begin_ns).with_tasks(trace.tasks.clone());
    if choice & 1 == 0 {
        let (by, measure) = BY[usize::try_from(choice >> 8).unwrap() % BY.len()];
        let keys = Keys::new(by, &events, trace.symbols.clone());
        let measure = measure.map(|text| Measure::new(text, &events)).transpose();
        let (Ok(keys), Ok(measure)) = (keys, measure) else {
            return Ok(());
        };
        let mut groups = Groups::new(keys, measure);
        each(&mut trace, |record| {
            background.learn(record);
            groups.add(record, &background);
        })?;
        return groups.finish(None, None).map(drop).map_err(word);
    }
    let pairs = PAIRS[usize::try_from(choice >> 8).unwrap() % PAIRS.len()];
    let Ok(pairs) = Pairs::new(pairs, &events) else {
        return Ok(());
    };
    let mut latencies = Latencies::new(vec![pairs], Some("comm"), &events, &trace.symbols).map_err(word)?;
    each(&mut trace, |record| {
        background.learn(record);
        latencies.add(record, &background);
    })?;
    latencies.finish(None).map(drop).map_err(word)
}

const BY: [(&str, Option<&str>); 4] = [
    ("comm", None),
    ("comm,cpu", Some("nsecs")),
    ("event,args.prev_comm", Some("args.prev_pid")),
    ("pid,args.ret", Some("args.ret")),
];

const PAIRS: [&str; 2] = [
    "syscalls:sys_enter_*,syscalls:sys_exit_*",
    "sched:sched_waking,sched:sched_switch,pid=next_pid",
];

fn each(trace: &mut Trace, mut take: impl FnMut(&Record<'_>)) -> Result<(), String> {
    while let Some(record) = trace.reader.next().map_err(word)? {
        take(&record);
    }
    Ok(())
}
