//! Events that a recording leaves out because they are about its own recorder alone: a reader that wakes a few times a second is otherwise a good part of
//! what an idle machine does, and a live view of system calls would show the calls that show it.
//!
//! A switch between the recorder and another program, or a wakeup by another, is about that one, too, and is kept: no task's time on a CPU gets a wrong end.

use kestrel_catalog::catalog::{Instance, Resolved};

/// Per event: the condition that holds where it is about the process OWN alone.
const ALONE: [(&str, &str); 5] = [
    (
        "sched:sched_switch",
        "(pid == OWN && args.next_pid == 0) || (args.prev_pid == 0 && args.next_pid == OWN)",
    ),
    (
        "sched:sched_waking",
        "args.pid == OWN && (pid == 0 || pid == OWN)",
    ),
    (
        "sched:sched_wakeup",
        "args.pid == OWN && (pid == 0 || pid == OWN)",
    ),
    (
        "sched:sched_migrate_task",
        "args.pid == OWN && (pid == 0 || pid == OWN)",
    ),
    ("sched:sched_stat_runtime", "pid == OWN && args.pid == OWN"),
];

/// The systems whose events are about the process that runs, and no other.
const OF_THE_CALLER: [&str; 2] = ["syscalls:", "raw_syscalls:"];

/// The condition under which all of these events are about the process OWN alone.
fn alone(events: &[Instance]) -> Option<&'static str> {
    let is_call = |event: &Instance| OF_THE_CALLER.iter().any(|system| event.name.starts_with(system));
    match events {
        [] => None,
        all if all.iter().all(is_call) => Some("pid == OWN"),
        [event] => {
            let mut rows = ALONE.iter().filter(|(name, _)| *name == event.name);
            rows.next().map(|(_, alone)| *alone)
        }
        _ => None,
    }
}

/// Leaves out of events what is about this process alone.
pub(super) fn leave_out(events: &mut Resolved, own: u32) {
    for one in &mut events.members {
        leave_out(one, own);
    }
    let Some(alone) = alone(&events.instances) else {
        return;
    };
    let others = format!("!({})", alone.replace("OWN", &own.to_string()));
    for strategy in &mut events.strategies {
        strategy.guard = Some(match strategy.guard.take() {
            None => others.clone(),
            Some(guard) => format!("({guard}) && {others}"),
        });
    }
}
