//! The questions on records made by hand: each test is a short story of a few tasks.

use super::*;
use crate::event::{EventClass, EventId};
use crate::info::TraceInfo;
use crate::layout::{Base, FieldPlace, FieldType, Layout};
use crate::process::Processes;
use crate::record::Record;

/// An event of the scheduler, once.
#[derive(Clone, Copy)]
enum What {
    /// From a task in a state to another.
    Switch(u32, u64, u32),
    Waking(u32),
    Wakeup(u32),
    New(u32),
    Migrate(u32, u32, u32),
    Runtime(u32, u64),
    Rename(u32),
}
use What::*;

const R: u64 = 0;
const PREEMPTED: u64 = 0x100;
const S: u64 = 1;
const D: u64 = 2;
const Z: u64 = 0x20;

/// Time, CPU, what runs there, what happens.
type Happening = (u64, u32, u32, What);

fn class(id: u16, name: &str, fields: &[&str]) -> EventClass {
    let ty = |name: &str| {
        let integer = |size| FieldType::Integer {
            size,
            signed: true,
            base: Base::Decimal,
        };
        match name {
            name if name.ends_with("comm") => FieldType::CharArray { size: 16 },
            "prev_state" | "runtime" => integer(8),
            _ => integer(4),
        }
    };
    EventClass {
        id: EventId(id),
        name: name.to_owned(),
        kind: "tracepoint".to_owned(),
        layout: Layout::new(fields.iter().map(|name| ((*name).to_owned(), ty(name)))),
        action: None,
        print: None,
    }
}

fn classes() -> Vec<EventClass> {
    let wakeup = &["comm", "pid", "prio", "target_cpu"];
    vec![
        class(
            1,
            "sched:sched_switch",
            &["prev_comm", "prev_pid", "prev_state", "next_comm", "next_pid"],
        ),
        class(2, "sched:sched_waking", wakeup),
        class(3, "sched:sched_wakeup", wakeup),
        class(4, "sched:sched_wakeup_new", wakeup),
        class(
            5,
            "sched:sched_migrate_task",
            &["comm", "pid", "orig_cpu", "dest_cpu"],
        ),
        class(6, "sched:sched_stat_runtime", &["comm", "pid", "runtime"]),
        class(7, "task:task_rename", &["pid", "oldcomm", "newcomm"]),
    ]
}

fn name(tid: u32) -> String {
    if tid == 0 {
        "swapper/0".into()
    } else {
        format!("t{tid}")
    }
}

/// The class and the numbers of a record; names follow from numbers.
fn values(what: What, cpu: u32) -> (usize, Vec<(&'static str, u64)>) {
    let woken = |tid: u32| vec![("pid", u64::from(tid)), ("target_cpu", u64::from(cpu))];
    match what {
        Switch(prev, state, next) => (
            0,
            vec![
                ("prev_pid", prev.into()),
                ("prev_state", state),
                ("next_pid", next.into()),
            ],
        ),
        Waking(tid) => (1, woken(tid)),
        Wakeup(tid) => (2, woken(tid)),
        New(tid) => (3, woken(tid)),
        Migrate(tid, from, to) => (
            4,
            vec![
                ("pid", tid.into()),
                ("orig_cpu", from.into()),
                ("dest_cpu", to.into()),
            ],
        ),
        Runtime(tid, ns) => (5, vec![("pid", tid.into()), ("runtime", ns)]),
        Rename(tid) => (6, vec![("pid", tid.into())]),
    }
}

fn bytes(class: &EventClass, numbers: &[(&str, u64)]) -> Vec<u8> {
    let mut bytes = vec![0; class.layout.fixed_end() as usize];
    for field in class.layout.fields() {
        let FieldPlace::Fixed { offset } = field.place else {
            panic!("{} is variable", field.name)
        };
        let number = |name: &str| numbers.iter().find(|(known, _)| *known == name).map(|(_, n)| *n);
        let value = match field.name.as_str() {
            "newcomm" => b"renamed".to_vec(),
            "oldcomm" => Vec::new(),
            "comm" => name(number("pid").unwrap() as u32).into_bytes(),
            "prev_comm" => name(number("prev_pid").unwrap() as u32).into_bytes(),
            "next_comm" => name(number("next_pid").unwrap() as u32).into_bytes(),
            other => number(other).unwrap_or(0).to_le_bytes()[..field.ty.fixed_size() as usize].to_vec(),
        };
        let at = offset as usize;
        bytes[at..at + value.len()].copy_from_slice(&value);
    }
    bytes
}

/// Makes records of the steps; threads from 100 on are of process 100.
fn tell(story: &[Happening], mut take: impl FnMut(&Record<'_>)) {
    let classes = classes();
    for &(time_ns, cpu, tid, what) in story {
        let (class, numbers) = values(what, cpu);
        let bytes = bytes(&classes[class], &numbers);
        take(&Record {
            time_ns,
            cpu,
            pid: if tid >= 100 { 100 } else { tid },
            tid,
            event: &classes[class],
            bytes: &bytes,
            unwound: None,
            rest: &[],
        });
    }
}

/// The events of the recording that makes these steps.
fn present(story: &[Happening]) -> Present {
    let all = classes();
    let mut info = TraceInfo::default();
    for (index, class) in all.iter().enumerate() {
        if story.iter().any(|(.., what)| values(*what, 0).0 == index) {
            info.events.push(class.clone());
        }
    }
    Present::of(&info)
}

fn names() -> Processes {
    let mut names = Processes::default();
    names.insert(100, "leader");
    names
}

fn latencies(story: &[Happening], by: By, only: SchedFilter) -> Vec<Latency> {
    let mut latencies = Latencies::new(present(story), names(), only);
    tell(story, |record| latencies.add(record));
    latencies.finish(by, &[Sort::Pid])
}

fn row(rows: &[Latency], tid: u32) -> Latency {
    *rows.iter().find(|row| row.who.tid == tid).unwrap()
}

#[test]
fn a_delay_runs_from_the_wakeup_or_the_preemption() {
    let story = [
        (10, 0, 0, Waking(1)),
        (15, 0, 0, Switch(0, R, 1)),
        (40, 0, 1, Switch(1, PREEMPTED, 2)),
        (100, 0, 2, Switch(2, S, 1)),
        (130, 0, 1, Switch(1, S, 0)),
    ];
    let rows = latencies(&story, By::Thread, SchedFilter::default());
    let one = row(&rows, 1);
    assert_eq!((one.switches, one.delay_ns, one.average_ns), (2, 65, 32));
    assert_eq!((one.max_ns, one.max_began_ns, one.max_ended_ns), (60, 40, 100));
    assert_eq!(one.runtime_ns, 55, "25 and 30");
    // A task that was there before counts as one switch without a delay.
    let two = row(&rows, 2);
    assert_eq!((two.switches, two.delay_ns, two.runtime_ns), (1, 0, 60));
    assert_eq!(rows.len(), 2, "the idle task has no row");
}

#[test]
fn a_wakeup_of_a_task_that_does_not_sleep_begins_no_delay() {
    let story = [
        (10, 0, 0, Waking(1)),
        (12, 1, 0, Waking(1)),
        (20, 0, 0, Switch(0, R, 1)),
        (25, 1, 0, Waking(1)),
        (30, 0, 1, Switch(1, R, 2)),
        (35, 1, 0, Waking(1)),
        (50, 0, 2, Switch(2, S, 1)),
    ];
    let one = row(&latencies(&story, By::Thread, SchedFilter::default()), 1);
    assert_eq!((one.switches, one.delay_ns, one.max_ns), (2, 10 + 20, 20));
}

#[test]
fn where_the_wakeup_is_missing_there_is_no_delay() {
    let story = [
        (10, 0, 0, Switch(0, R, 1)),
        (20, 0, 1, Switch(1, S, 0)),
        (40, 0, 0, Switch(0, R, 1)),
        (50, 0, 1, Switch(1, S, 2)),
        (60, 0, 2, Waking(3)),
    ];
    let one = row(&latencies(&story, By::Thread, SchedFilter::default()), 1);
    assert_eq!((one.switches, one.unexplained, one.runtime_ns), (1, 1, 20));
}

#[test]
fn lost_switches_and_contradicting_clocks_do_no_harm() {
    // Task 1 comes twice without leaving, then is woken after it came by the other CPU's clock.
    let story = [
        (10, 0, 0, Switch(0, R, 1)),
        (20, 1, 0, Switch(0, R, 1)),
        (30, 1, 1, Switch(1, S, 0)),
        (50, 0, 2, Waking(1)),
        (45, 1, 0, Switch(0, R, 1)),
        (60, 1, 1, Switch(1, S, 0)),
    ];
    let one = row(&latencies(&story, By::Thread, SchedFilter::default()), 1);
    assert_eq!((one.switches, one.unexplained, one.max_ns), (1, 2, 0));
}

#[test]
fn wakeups_come_from_waking_where_recorded_and_run_times_from_the_schedulers_account() {
    let story = [
        (10, 0, 0, Waking(1)),
        (14, 0, 0, Wakeup(1)),
        (20, 0, 0, Switch(0, R, 1)),
        (28, 0, 1, Runtime(1, 7)),
        (30, 0, 1, Switch(1, S, 0)),
        (35, 0, 0, New(9)),
        (40, 0, 0, Switch(0, R, 9)),
    ];
    let rows = latencies(&story, By::Thread, SchedFilter::default());
    let one = row(&rows, 1);
    assert_eq!((one.delay_ns, one.runtime_ns), (10, 7));
    assert_eq!(row(&rows, 9).delay_ns, 5);
    let without: Vec<Happening> = story
        .into_iter()
        .filter(|(.., what)| !matches!(what, Waking(_) | Runtime(..)))
        .collect();
    let one = row(&latencies(&without, By::Thread, SchedFilter::default()), 1);
    assert_eq!((one.delay_ns, one.runtime_ns), (6, 10));
}

#[test]
fn rows_are_of_threads_processes_or_names() {
    let story = [
        (10, 0, 0, Waking(101)),
        (15, 0, 0, Switch(0, R, 101)),
        (20, 0, 101, Waking(102)),
        (30, 0, 101, Switch(101, S, 102)),
        (40, 0, 102, Rename(102)),
        (50, 0, 102, Switch(102, S, 0)),
    ];
    let rows = latencies(&story, By::Process, SchedFilter::default());
    assert_eq!(rows.len(), 1);
    let process = rows[0];
    assert_eq!((process.who.tid, process.who.pid, process.tasks), (100, 100, 2));
    assert_eq!(
        (process.switches, process.max_ns, process.runtime_ns),
        (2, 10, 35)
    );
    let names = latencies(&story, By::Comm, SchedFilter::default());
    assert_eq!(names.len(), 2);
    let only = SchedFilter {
        tids: vec![102],
        ..SchedFilter::default()
    };
    let rows = latencies(&story, By::Thread, only);
    assert_eq!((rows.len(), rows[0].who.tid), (1, 102));
    let only = SchedFilter {
        from_ns: Some(25),
        cpus: vec![0],
        ..SchedFilter::default()
    };
    let rows = latencies(&story, By::Thread, only);
    assert_eq!((row(&rows, 102).switches, rows.len()), (1, 1));
}

/// The runs of a story, and their sums.
fn runs_of(story: &[Happening], only: SchedFilter, idle: bool) -> (Vec<TaskRun>, Summary) {
    let mut timehist = Timehist::new(present(story), names(), only, idle);
    let mut runs = Vec::new();
    tell(story, |record| {
        if let Some(Line::TaskRun(run, _)) = timehist.add(record) {
            runs.push(run);
        }
    });
    (runs, timehist.finish())
}

#[test]
fn a_run_has_the_times_that_led_to_it() {
    let story = [
        (100, 0, 0, Switch(0, R, 1)),
        (130, 0, 1, Switch(1, D, 0)),
        (150, 1, 5, Waking(1)),
        (160, 0, 0, Switch(0, R, 1)),
        (200, 0, 1, Switch(1, PREEMPTED, 2)),
        (230, 0, 2, Switch(2, S, 1)),
        (240, 0, 1, Switch(1, Z, 0)),
    ];
    let (all, summary) = runs_of(&story, SchedFilter::default(), false);
    let times = |run: &TaskRun| (run.who.tid, run.wait_ns, run.delay_ns, run.run_ns);
    let times: Vec<_> = all.iter().map(times).collect();
    assert_eq!(
        times,
        [
            (0, 0, 0, 0),
            (1, 0, 0, 30),
            (0, 30, 0, 30),
            (1, 30, 10, 40),
            (2, 0, 0, 30),
            (1, 30, 0, 10)
        ]
    );
    let one = summary.tasks[0];
    assert_eq!(
        (one.run.count, one.run.total_ns, one.run.min_ns, one.run.max_ns),
        (3, 80, 10, 40)
    );
    assert_eq!(
        (one.iowait_ns, one.preempt_ns, one.delay_ns, one.ended),
        (30, 30, 10, true)
    );
    // The standard deviation of 30, 40, 10 is 15.275; of their mean 8.819, which is 33.07 % of 26.667.
    assert!((one.run.stddev_percent - 33.07).abs() < 0.01, "{one:?}");
    assert_eq!(
        (summary.idle[0].idle_ns, summary.span_ns, summary.run_ns),
        (30, 140, 110)
    );
}

#[test]
fn time_limits_cut_runs_and_idle_time_goes_to_the_task_that_left() {
    let story = [
        (100, 0, 0, Switch(0, R, 1)),
        (200, 0, 1, Switch(1, S, 0)),
        (300, 0, 0, Switch(0, R, 2)),
        (400, 0, 2, Switch(2, S, 1)),
    ];
    let only = SchedFilter {
        from_ns: Some(150),
        to_ns: Some(320),
        ..SchedFilter::default()
    };
    let (all, _) = runs_of(&story, only, false);
    let runs: Vec<_> = all.iter().map(|run| (run.time_ns, run.run_ns)).collect();
    assert_eq!(runs, [(200, 50), (300, 100), (320, 20)]);
    let (all, summary) = runs_of(&story, SchedFilter::default(), true);
    assert_eq!(all.len(), 3, "those that begin or end an idle one");
    let rows: Vec<_> = summary
        .tasks
        .iter()
        .map(|task| (task.who.tid, task.run.total_ns))
        .collect();
    assert_eq!(rows, [(1, 100)]);
}

#[test]
fn runs_of_a_clock_that_runs_backwards_span_no_time() {
    let story = [
        (900, 0, 0, Switch(0, R, 1)),
        (890, 0, 1, Switch(1, S, 2)),
        (800, 0, 2, Switch(2, S, 0)),
    ];
    let (runs, summary) = runs_of(&story, SchedFilter::default(), true);
    assert_eq!((runs.len(), summary.span_ns), (2, 0));
}

#[test]
fn a_map_explains_each_shortcut_once() {
    let story = [
        (10, 0, 0, Switch(0, R, 1)),
        (20, 2, 0, Switch(0, R, 2)),
        (30, 0, 1, Switch(1, S, 0)),
        (40, 0, 0, Switch(0, R, 2)),
    ];
    let mut map = Map::new(present(&story), names());
    let mut seen = Vec::new();
    tell(&story, |record| {
        if let Some(change) = map.add(record) {
            seen.push((change.cpu, change.shortcut.to_string(), map.explain(&change.who)));
        }
    });
    let expected = [
        (0, "A0", true),
        (2, "B0", true),
        (0, ". ", false),
        (0, "B0", false),
    ];
    assert_eq!(
        seen,
        expected.map(|(cpu, shortcut, fresh)| (cpu, shortcut.to_owned(), fresh))
    );
    let cpus: Vec<_> = map.cpus().iter().map(Option::is_some).collect();
    assert_eq!(cpus, [true, false, true]);
}

#[test]
fn a_long_delay_has_its_wakeups_and_the_tasks_that_ran_meanwhile() {
    let story = [
        (5, 0, 0, Switch(0, R, 9)),
        (10, 0, 9, Waking(1)),
        (12, 0, 9, Switch(9, S, 1)),
        (20, 0, 1, Waking(2)),
        (22, 0, 1, Switch(1, S, 8)),
        // Task 2 waits for CPU 0, then for CPU 1, where 7 and 6 run.
        (30, 1, 0, Switch(0, R, 7)),
        (40, 1, 7, Migrate(2, 0, 1)),
        (50, 1, 7, Switch(7, S, 6)),
        (70, 1, 6, Switch(6, S, 2)),
        (80, 1, 2, Switch(2, S, 0)),
    ];
    let mut wakeups = Wakeups::new(present(&story), names(), SchedFilter::default(), 1);
    tell(&story, |record| wakeups.add(record));
    let (pairs, worst) = wakeups.finish();
    let pairs: Vec<_> = pairs
        .iter()
        .map(|pair| (pair.waker.tid, pair.woken.tid, pair.count, pair.max_ns))
        .collect();
    assert_eq!(pairs, [(1, 2, 1, 50), (9, 1, 1, 2)]);
    let worst = &worst[0];
    assert_eq!(
        (worst.task.tid, worst.cpu, worst.began_ns, worst.delay_ns),
        (2, 1, 20, 50)
    );
    let chain: Vec<_> = worst
        .chain
        .iter()
        .map(|link| (link.waker.tid, link.woken.tid, link.delay_ns))
        .collect();
    assert_eq!(chain, [(9, 1, Some(2)), (1, 2, Some(50))]);
    let meanwhile: Vec<_> = worst
        .meanwhile
        .iter()
        .map(|it| (it.cpu, it.task.tid, it.from_ns, it.ns))
        .collect();
    assert_eq!(
        meanwhile,
        [(0, 1, 20, 2), (0, 8, 22, 18), (1, 7, 40, 10), (1, 6, 50, 20)]
    );
}

#[test]
fn chains_and_worst_delays_are_bounded() {
    let mut story = Vec::new();
    for round in 0..100u64 {
        let (one, two) = if round % 2 == 0 { (1, 2) } else { (2, 1) };
        story.push((round * 100, 0, one, Waking(two)));
        story.push((round * 100 + round, 0, one, Switch(one, S, two)));
    }
    let mut wakeups = Wakeups::new(present(&story), names(), SchedFilter::default(), 3);
    tell(&story, |record| wakeups.add(record));
    let (_, worst) = wakeups.finish();
    let delays: Vec<u64> = worst.iter().map(|it| it.delay_ns).collect();
    assert_eq!(delays, [99, 98, 97]);
    assert!(worst.iter().all(|it| it.chain.len() == 8));
}

#[test]
fn missing_scheduler_events_are_named() {
    let switches = [(1, 0, 0, Switch(0, R, 1))];
    assert_eq!(present(&[]).lacks(false), Some(MissingEvents::Switches));
    assert_eq!(present(&switches).lacks(false), None);
    assert_eq!(present(&switches).lacks(true), Some(MissingEvents::Wakeups));
    assert!(MissingEvents::Wakeups.to_string().contains("sched_waking"));
}
