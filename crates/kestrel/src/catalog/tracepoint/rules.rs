//! Field rules: how the fields of a tracepoint's formatted entry are computed from the raw tracepoint's arguments.
//!
//! This file is a table; it grows by rows. A field's *type* is the one that the kernel's format file states; a row only says where
//! the value comes from, as an expression of the language over the raw arguments (named as in the kernel's `TP_PROTO`). An event whose rule
//! does not fit the running kernel (a renamed member, a new field) is recorded the classic way instead; guests of every
//! kernel compare both ways field by field.

/// One tracepoint that is read raw.
#[derive(Debug)]
pub(crate) struct Rule {
    /// `group:name` as in tracefs.
    pub(crate) event: &'static str,
    /// The raw tracepoint's name.
    pub(crate) raw: &'static str,
    /// Field of the entry, expression over the raw arguments.
    pub(crate) fields: &'static [(&'static str, &'static str)],
}

/// The rule for `group:name`, if there is one.
pub(crate) fn find(event: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.event == event)
}

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

const WAKEUP: &[(&str, &str)] = &[
    ("comm", "p->comm"),
    ("pid", "p->pid"),
    ("prio", "p->prio"),
    ("target_cpu", TASK_CPU),
];
const TASK_CPU: &str = "p->thread_info.cpu";
const TASK: &[(&str, &str)] = &[("comm", "p->comm"), ("pid", "p->pid"), ("prio", "p->prio")];
const SOFTIRQ: &[(&str, &str)] = &[("vec", "vec_nr")];
const HRTIMER: &[(&str, &str)] = &[("hrtimer", "hrtimer")];
const TIMER: &[(&str, &str)] = &[("timer", "timer")];
const CPU_STATE: &[(&str, &str)] = &[("state", "state"), ("cpu_id", "cpu_id")];
const PAGE_FAULT: &[(&str, &str)] = &[
    ("address", "address"),
    ("ip", "regs->ip"),
    ("error_code", "error_code"),
];

const RULES: &[Rule] = &[
    Rule {
        event: "sched:sched_switch",
        raw: "sched_switch",
        fields: &[
            ("prev_comm", "prev->comm"),
            ("prev_pid", "prev->pid"),
            ("prev_prio", "prev->prio"),
            ("prev_state", PREV_STATE),
            ("next_comm", "next->comm"),
            ("next_pid", "next->pid"),
            ("next_prio", "next->prio"),
        ],
    },
    Rule {
        event: "sched:sched_wakeup",
        raw: "sched_wakeup",
        fields: WAKEUP,
    },
    Rule {
        event: "sched:sched_wakeup_new",
        raw: "sched_wakeup_new",
        fields: WAKEUP,
    },
    Rule {
        event: "sched:sched_waking",
        raw: "sched_waking",
        fields: WAKEUP,
    },
    Rule {
        event: "sched:sched_migrate_task",
        raw: "sched_migrate_task",
        fields: &[
            ("comm", "p->comm"),
            ("pid", "p->pid"),
            ("prio", "p->prio"),
            ("orig_cpu", TASK_CPU),
            ("dest_cpu", "dest_cpu"),
        ],
    },
    Rule {
        event: "sched:sched_process_free",
        raw: "sched_process_free",
        fields: TASK,
    },
    Rule {
        event: "sched:sched_process_exit",
        raw: "sched_process_exit",
        fields: TASK,
    },
    Rule {
        event: "sched:sched_wait_task",
        raw: "sched_wait_task",
        fields: TASK,
    },
    Rule {
        event: "sched:sched_stat_runtime",
        raw: "sched_stat_runtime",
        fields: &[("comm", "tsk->comm"), ("pid", "tsk->pid"), ("runtime", "runtime")],
    },
    Rule {
        event: "irq:irq_handler_entry",
        raw: "irq_handler_entry",
        fields: &[("irq", "irq"), ("name", "kstr(action->name)")],
    },
    Rule {
        event: "irq:irq_handler_exit",
        raw: "irq_handler_exit",
        fields: &[("irq", "irq"), ("ret", "ret")],
    },
    Rule {
        event: "irq:softirq_entry",
        raw: "softirq_entry",
        fields: SOFTIRQ,
    },
    Rule {
        event: "irq:softirq_exit",
        raw: "softirq_exit",
        fields: SOFTIRQ,
    },
    Rule {
        event: "irq:softirq_raise",
        raw: "softirq_raise",
        fields: SOFTIRQ,
    },
    Rule {
        event: "timer:hrtimer_cancel",
        raw: "hrtimer_cancel",
        fields: HRTIMER,
    },
    Rule {
        event: "timer:hrtimer_expire_exit",
        raw: "hrtimer_expire_exit",
        fields: HRTIMER,
    },
    Rule {
        event: "timer:timer_cancel",
        raw: "timer_cancel",
        fields: TIMER,
    },
    Rule {
        event: "timer:timer_expire_exit",
        raw: "timer_expire_exit",
        fields: TIMER,
    },
    Rule {
        event: "timer:timer_init",
        raw: "timer_init",
        fields: TIMER,
    },
    Rule {
        event: "power:cpu_idle",
        raw: "cpu_idle",
        fields: CPU_STATE,
    },
    Rule {
        event: "power:cpu_frequency",
        raw: "cpu_frequency",
        fields: &[("state", "frequency"), ("cpu_id", "cpu_id")],
    },
    Rule {
        event: "exceptions:page_fault_user",
        raw: "page_fault_user",
        fields: PAGE_FAULT,
    },
    Rule {
        event: "exceptions:page_fault_kernel",
        raw: "page_fault_kernel",
        fields: PAGE_FAULT,
    },
    Rule {
        event: "workqueue:workqueue_execute_start",
        raw: "workqueue_execute_start",
        fields: &[("work", "work"), ("function", "work->func")],
    },
    Rule {
        event: "workqueue:workqueue_execute_end",
        raw: "workqueue_execute_end",
        fields: &[("work", "work"), ("function", "function")],
    },
    Rule {
        event: "kmem:kmem_cache_free",
        raw: "kmem_cache_free",
        fields: &[
            ("call_site", "call_site"),
            ("ptr", "ptr"),
            ("name", "kstr(s->name)"),
        ],
    },
    Rule {
        event: "kmem:kfree",
        raw: "kfree",
        fields: &[("call_site", "call_site"), ("ptr", "ptr")],
    },
    Rule {
        event: "oom:mark_victim",
        raw: "mark_victim",
        fields: &[("pid", "task->pid")],
    },
];
