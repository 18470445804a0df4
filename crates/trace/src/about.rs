//! Threads that an event is about beside the one that it happened in: the woken one, the one that is switched to, the one that gets a signal.
//!
//! An event is about a thread when a field holds its number. Which fields do is a table: a field that is called `pid` may hold something else, and one
//! that holds a thread's number may be called anything. Events that are not in it are about no other thread.

use crate::event::EventClass;
use crate::layout::Field;

/// A table: per event, its fields that hold the number of a thread which the event is about.
const ABOUT: &[(&str, &[&str])] = &[
    ("cgroup:cgroup_attach_task", &["pid"]),
    ("cgroup:cgroup_transfer_tasks", &["pid"]),
    ("oom:finish_task_reaping", &["pid"]),
    ("oom:mark_victim", &["pid"]),
    ("oom:oom_score_adj_update", &["pid"]),
    ("oom:skip_task_reaping", &["pid"]),
    ("oom:start_task_reaping", &["pid"]),
    ("oom:wake_reaper", &["pid"]),
    ("sched:sched_kthread_stop", &["pid"]),
    ("sched:sched_migrate_task", &["pid"]),
    ("sched:sched_move_numa", &["pid"]),
    ("sched:sched_pi_setprio", &["pid"]),
    ("sched:sched_process_exec", &["pid", "old_pid"]),
    ("sched:sched_process_exit", &["pid"]),
    ("sched:sched_process_fork", &["child_pid"]),
    ("sched:sched_process_free", &["pid"]),
    ("sched:sched_process_hang", &["pid"]),
    ("sched:sched_process_wait", &["pid"]),
    ("sched:sched_stat_blocked", &["pid"]),
    ("sched:sched_stat_iowait", &["pid"]),
    ("sched:sched_stat_runtime", &["pid"]),
    ("sched:sched_stat_sleep", &["pid"]),
    ("sched:sched_stat_wait", &["pid"]),
    ("sched:sched_stick_numa", &["src_pid", "dst_pid"]),
    ("sched:sched_swap_numa", &["src_pid", "dst_pid"]),
    ("sched:sched_switch", &["next_pid"]),
    ("sched:sched_wait_task", &["pid"]),
    ("sched:sched_wakeup", &["pid"]),
    ("sched:sched_wakeup_new", &["pid"]),
    ("sched:sched_waking", &["pid"]),
    ("signal:signal_generate", &["pid"]),
    ("task:task_newtask", &["pid"]),
    ("task:task_rename", &["pid"]),
    ("timer:itimer_expire", &["pid"]),
];

/// The fields of an event of this name that hold the number of a thread which it is about.
pub fn about(event: &str) -> &'static [&'static str] {
    let row = ABOUT.binary_search_by_key(&event, |(name, _)| name);
    row.map_or(&[], |place| ABOUT[place].1)
}

/// The fields of a class of records that have these names, as far as it has them.
pub fn about_fields(event: &EventClass) -> Vec<Field> {
    let fields = event.layout.fields().iter();
    let known = about(&event.name);
    fields
        .filter(|field| known.contains(&field.name.as_str()))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(ABOUT.is_sorted_by_key(|(name, _)| name));
        assert_eq!(about("sched:sched_waking"), ["pid"]);
        assert_eq!(about("sched:sched_switch"), ["next_pid"]);
        assert!(about("sched:nothing").is_empty());
    }
}
