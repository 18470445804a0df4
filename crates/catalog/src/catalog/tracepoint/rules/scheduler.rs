//! Field rules of tracepoints of the scheduler, tasks, work queues, control groups and locks.

use super::row::{Fields, Row};

/// `__task_state_index` of the kernel's `sched.h`, then its highest bit: what `prev_state` shows for a task that was not preempted.
/// The commonest states come first.
const PREV_STATE: &str = "preempt ? 0x100 \
    : prev_state == 0x1 ? 0x1 \
    : (prev_state | prev->exit_state) == 0 ? 0 \
    : (prev_state & 0x402) == 0x402 ? 0x80 \
    : (prev_state & 0x9000) != 0 ? 0x2 \
    : ((prev_state | prev->exit_state) & 0x40) != 0 ? 0x40 \
    : ((prev_state | prev->exit_state) & 0x20) != 0 ? 0x20 \
    : ((prev_state | prev->exit_state) & 0x10) != 0 ? 0x10 \
    : ((prev_state | prev->exit_state) & 0x8) != 0 ? 0x8 \
    : ((prev_state | prev->exit_state) & 0x4) != 0 ? 0x4 \
    : ((prev_state | prev->exit_state) & 0x2) != 0 ? 0x2 \
    : ((prev_state | prev->exit_state) & 0x1)";
const WAKEUP: Fields = &[
    ("comm", "p->comm"),
    ("pid", "p->pid"),
    ("prio", "p->prio"),
    ("target_cpu", TASK_CPU),
];
const TASK_CPU: &str = "p->thread_info.cpu";
const TASK: Fields = &[("comm", "p->comm"), ("pid", "p->pid"), ("prio", "p->prio")];
const RSTAT: Fields = &[
    ("root", "cgrp->root->hierarchy_id"),
    ("level", "cgrp->level"),
    ("id", "cgrp->kn->id"),
];

pub(super) const ROWS: &[Row] = &[
    // The program that adds a command to the traced processes is on this tracepoint, too, and has to run before this event's. The kernel runs raw programs in the
    // order of attaching; the formatted entry comes with perf's function, which stands where perf's first user put it.
    (
        "sched:sched_process_exec",
        &[
            ("filename", "kstr(bprm->filename)"),
            ("pid", "p->pid"),
            ("old_pid", "old_pid"),
        ],
    ),
    (
        "sched:sched_switch",
        &[
            ("prev_comm", "prev->comm"),
            ("prev_pid", "prev->pid"),
            ("prev_prio", "prev->prio"),
            ("prev_state", PREV_STATE),
            ("next_comm", "next->comm"),
            ("next_pid", "next->pid"),
            ("next_prio", "next->prio"),
        ],
    ),
    ("sched:sched_wakeup", WAKEUP),
    ("sched:sched_wakeup_new", WAKEUP),
    ("sched:sched_waking", WAKEUP),
    (
        "sched:sched_migrate_task",
        &[
            ("comm", "p->comm"),
            ("pid", "p->pid"),
            ("prio", "p->prio"),
            ("orig_cpu", TASK_CPU),
            ("dest_cpu", "dest_cpu"),
        ],
    ),
    ("sched:sched_process_free", TASK),
    ("sched:sched_process_exit", TASK),
    (
        "sched:sched_process_fork",
        &[
            ("parent_comm", "parent->comm"),
            ("parent_pid", "parent->pid"),
            ("child_comm", "child->comm"),
            ("child_pid", "child->pid"),
        ],
    ),
    (
        "task:task_newtask",
        &[
            ("pid", "task->pid"),
            ("comm", "task->comm"),
            ("clone_flags", "clone_flags"),
            ("oom_score_adj", "task->signal->oom_score_adj"),
        ],
    ),
    ("sched:sched_wait_task", TASK),
    (
        "sched:sched_stat_runtime",
        &[("comm", "tsk->comm"), ("pid", "tsk->pid"), ("runtime", "runtime")],
    ),
    (
        "workqueue:workqueue_execute_start",
        &[("work", "work"), ("function", "work->func")],
    ),
    (
        "workqueue:workqueue_execute_end",
        &[("work", "work"), ("function", "function")],
    ),
    ("workqueue:workqueue_activate_work", &[("function", "work->func")]),
    (
        "workqueue:workqueue_queue_work",
        &[
            ("function", "work->func"),
            ("workqueue", "kstr(pwq->wq->name)"),
            ("cpu", "pwq->pool->cpu"),
        ],
    ),
    ("cgroup:cgroup_rstat_lock_contended", RSTAT),
    ("cgroup:cgroup_rstat_locked", RSTAT),
    ("cgroup:cgroup_rstat_unlock", RSTAT),
    ("lock:contention_begin", &[("lock_addr", "lock")]),
    ("lock:contention_end", &[("lock_addr", "lock")]),
];
