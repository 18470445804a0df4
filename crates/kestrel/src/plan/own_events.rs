//! Events that a recording leaves out because they are about its own recorder alone: a reader that wakes a few times a second is otherwise a good part of
//! what an idle machine does.
//!
//! A switch between the recorder and another program, or a wakeup by another, is about that one, too, and is kept: nobody's time on a CPU gets a wrong end.

use kestrel_catalog::catalog::Resolved;

/// Per event: what holds of it if it is about the process OWN and nobody else.
const ALONE: [(&str, &str); 5] = [
    (
        "sched:sched_switch",
        "((pid == OWN && args.next_pid == 0) || (args.prev_pid == 0 && args.next_pid == OWN))",
    ),
    (
        "sched:sched_waking",
        "(args.pid == OWN && (pid == 0 || pid == OWN))",
    ),
    (
        "sched:sched_wakeup",
        "(args.pid == OWN && (pid == 0 || pid == OWN))",
    ),
    (
        "sched:sched_migrate_task",
        "(args.pid == OWN && (pid == 0 || pid == OWN))",
    ),
    ("sched:sched_stat_runtime", "(pid == OWN && args.pid == OWN)"),
];

/// Leaves out of an event what is about this process alone.
pub(super) fn leave_out(events: &mut Resolved, own: u32) {
    let [event] = events.instances.as_slice() else {
        return;
    };
    let Some((_, alone)) = ALONE.iter().find(|(name, _)| *name == event.name) else {
        return;
    };
    let others = format!("!{}", alone.replace("OWN", &own.to_string()));
    for way in &mut events.ways {
        way.guard = Some(match way.guard.take() {
            None => others.clone(),
            Some(guard) => format!("({guard}) && {others}"),
        });
    }
}
