//! Field rules: how the fields of a tracepoint's formatted entry are computed from the raw tracepoint's arguments.
//!
//! This file is a table; it grows by rows. A field's *type* is the one that the kernel's format file states; a row only says where
//! the value comes from, as an expression of the language over the raw arguments (named as in the kernel's `TP_PROTO`), with
//! `PFN(page)` for the number of a page's frame. A field that a row does not name is the argument of its name, if there is one of its size.
//! An event may have several rows, for kernels that differ. Where none fits the running kernel (a renamed member, a new field),
//! the event is recorded the classic way instead; guests of every kernel compare both ways field by field. Events whose fields
//! are all arguments stand in [`super::plain`].

use super::plain::is_plain;

/// Rule that reads one tracepoint raw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<'a> {
    /// `group:name` as in tracefs.
    pub(crate) event: &'a str,
    /// The raw tracepoint's name.
    pub(crate) raw: &'a str,
    /// Field of the entry, expression over the raw arguments.
    pub(crate) fields: &'static [(&'static str, &'static str)],
}

/// The rules for `group:name`, best first.
pub(super) fn of<'a>(full: &'a str, name: &'a str) -> impl Iterator<Item = Rule<'a>> {
    let plain = is_plain(full).then_some(Rule {
        event: full,
        raw: name,
        fields: &[],
    });
    rows(full).chain(plain)
}

/// The rows of this table for `group:name`.
pub(super) fn rows<'a>(full: &str) -> impl Iterator<Item = Rule<'a>> {
    RULES.iter().copied().filter(move |rule| rule.event == full)
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

const DEV_INO: &[(&str, &str)] = &[("dev", "inode->i_sb->s_dev"), ("ino", "inode->i_ino")];
const MAPPING: &[(&str, &str)] = &[
    ("i_ino", "mapping->host->i_ino"),
    ("s_dev", "mapping->host->i_sb->s_dev"),
];
const EXTENT: &[(&str, &str)] = &[
    ("dev", "inode->i_sb->s_dev"),
    ("ino", "inode->i_ino"),
    ("lblk", "es->es_lblk"),
    ("len", "es->es_len"),
    ("pblk", ES_PBLK),
    ("status", "es->es_pblk >> 59"),
];
/// `ext4_es_show_pblock`: the five highest bits are the status; no block is shown as 0.
const ES_PBLK: &str =
    "(es->es_pblk & 0x7ffffffffffffff) == 0x7ffffffffffffff ? 0 : es->es_pblk & 0x7ffffffffffffff";
const MAP_BLOCKS_EXIT: &[(&str, &str)] = &[
    ("dev", "inode->i_sb->s_dev"),
    ("ino", "inode->i_ino"),
    ("pblk", "map->m_pblk"),
    ("lblk", "map->m_lblk"),
    ("len", "map->m_len"),
    ("mflags", "map->m_flags"),
];
const MEMCG: &[(&str, &str)] = &[("id", "memcg->css.cgroup->kn->id")];
const MAPLE: &[(&str, &str)] = &[
    ("min", "mas->min"),
    ("max", "mas->max"),
    ("index", "mas->index"),
    ("last", "mas->last"),
    ("node", "mas->node"),
];
const PAGE: &[(&str, &str)] = &[("pfn", "PFN(page)")];
const PAGE_OR_NONE: &[(&str, &str)] = &[
    ("pfn", "(uint64)page == 0 ? 0xffffffffffffffff : PFN(page)"),
    ("gfp_flags", "gfp_flags"),
];
const GFP: &[(&str, &str)] = &[("gfp_flags", "gfp_flags")];
const BUFFER: &[(&str, &str)] = &[
    ("dev", "bh->b_bdev->bd_dev"),
    ("sector", "bh->b_blocknr"),
    ("size", "bh->b_size"),
];
const SKB: &[(&str, &str)] = &[("skbaddr", "skb")];
const RSTAT: &[(&str, &str)] = &[
    ("root", "cgrp->root->hierarchy_id"),
    ("level", "cgrp->level"),
    ("id", "cgrp->kn->id"),
];
/// `cgroup_id_from_mm`: that of the root where the memory has no owner any more.
const MMAP_LOCK: &[(&str, &str)] = &[(
    "memcg_id",
    "(uint64)mm->owner == 0 ? 1 : mm->owner->cgroups->subsys[memory_cgrp_id]->cgroup->kn->id",
)];

const JBD2: &[(&str, &str)] = &[
    ("dev", "journal->j_fs_dev->bd_dev"),
    ("sync_commit", "commit_transaction->t_synchronous_commit"),
    ("transaction", "commit_transaction->t_tid"),
];
/// `ntohs(skb->protocol)`.
const PROTOCOL: &str = "((skb->protocol & 0xff) << 8) | (skb->protocol >> 8)";

/// The fields of `pagemap:mm_lru_insertion` (`folio_lru_list`, `trace_pagemap_flags`), given where a folio has its flags. Before
/// `_large_mapcount` (6.10) the kernel counted the mappings of a large folio page by page: there the classic way serves.
macro_rules! lru_insertion {
    ($flags:literal) => {
        &[
            ("pfn", "PFN(folio)"),
            (
                "lru",
                concat!(
                    "((",
                    $flags,
                    " >> PG_unevictable) & 1) != 0 ? 4 : ((((",
                    $flags,
                    " >> PG_swapbacked) & 1) ^ 1) << 1) + ((",
                    $flags,
                    " >> PG_active) & 1)"
                ),
            ),
            (
                "flags",
                concat!(
                    "(((uint64)folio->mapping & 1) != 0 ? 2 : 4)",
                    " | ((((",
                    $flags,
                    " >> PG_head) & 1) != 0 ? folio->_large_mapcount.counter : folio->_mapcount.counter) >= 0 ? 1 : 0)",
                    " | ((",
                    $flags,
                    " >> PG_swapbacked) & (",
                    $flags,
                    " >> PG_swapcache) & 1) << 3",
                    " | ((",
                    $flags,
                    " >> PG_swapbacked) & 1) << 4",
                    " | ((",
                    $flags,
                    " >> PG_mappedtodisk) & 1) << 5",
                    " | ((",
                    $flags,
                    " >> PG_private) & 1) << 6"
                ),
            ),
        ]
    };
}

const RULES: &[Rule<'static>] = &[
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
        event: "sched:sched_process_fork",
        raw: "sched_process_fork",
        fields: &[
            ("parent_comm", "parent->comm"),
            ("parent_pid", "parent->pid"),
            ("child_comm", "child->comm"),
            ("child_pid", "child->pid"),
        ],
    },
    Rule {
        event: "task:task_newtask",
        raw: "task_newtask",
        fields: &[
            ("pid", "task->pid"),
            ("comm", "task->comm"),
            ("clone_flags", "clone_flags"),
            ("oom_score_adj", "task->signal->oom_score_adj"),
        ],
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
        event: "timer:hrtimer_start_expired",
        raw: "hrtimer_start_expired",
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
    Rule {
        event: "memcg:mod_memcg_state",
        raw: "mod_memcg_state",
        fields: MEMCG,
    },
    Rule {
        event: "memcg:mod_memcg_lruvec_state",
        raw: "mod_memcg_lruvec_state",
        fields: MEMCG,
    },
    Rule {
        event: "memcg:count_memcg_events",
        raw: "count_memcg_events",
        fields: MEMCG,
    },
    Rule {
        event: "memcg:memcg_flush_stats",
        raw: "memcg_flush_stats",
        fields: MEMCG,
    },
    Rule {
        event: "maple_tree:ma_op",
        raw: "ma_op",
        fields: MAPLE,
    },
    Rule {
        event: "maple_tree:ma_read",
        raw: "ma_read",
        fields: MAPLE,
    },
    Rule {
        event: "maple_tree:ma_write",
        raw: "ma_write",
        fields: MAPLE,
    },
    Rule {
        event: "kmem:kmalloc",
        raw: "kmalloc",
        fields: GFP,
    },
    Rule {
        event: "percpu:percpu_alloc_percpu",
        raw: "percpu_alloc_percpu",
        fields: GFP,
    },
    Rule {
        event: "kmem:kmem_cache_alloc",
        raw: "kmem_cache_alloc",
        fields: &[
            ("bytes_req", "s->object_size"),
            ("bytes_alloc", "s->size"),
            ("gfp_flags", "gfp_flags"),
            ("name", "kstr(s->name)"),
            (
                "accounted",
                "((gfp_flags >> ___GFP_ACCOUNT_BIT) & 1) != 0 || ((s->flags >> _SLAB_ACCOUNT) & 1) != 0",
            ),
        ],
    },
    Rule {
        event: "kmem:kmem_cache_alloc",
        raw: "kmem_cache_alloc",
        fields: &[
            ("bytes_req", "s->object_size"),
            ("bytes_alloc", "s->size"),
            ("gfp_flags", "gfp_flags"),
            ("name", "kstr(s->name)"),
            (
                "accounted",
                "(gfp_flags & 0x400000) != 0 || (s->flags & 0x4000000) != 0",
            ),
        ],
    },
    Rule {
        event: "kmem:mm_page_free",
        raw: "mm_page_free",
        fields: PAGE,
    },
    Rule {
        event: "kmem:mm_page_free_batched",
        raw: "mm_page_free_batched",
        fields: PAGE,
    },
    Rule {
        event: "kmem:mm_page_alloc",
        raw: "mm_page_alloc",
        fields: PAGE_OR_NONE,
    },
    Rule {
        event: "kmem:mm_page_alloc_zone_locked",
        raw: "mm_page_alloc_zone_locked",
        fields: PAGE_OR_NONE,
    },
    Rule {
        event: "kmem:mm_page_pcpu_drain",
        raw: "mm_page_pcpu_drain",
        fields: PAGE_OR_NONE,
    },
    Rule {
        event: "filemap:mm_filemap_get_pages",
        raw: "mm_filemap_get_pages",
        fields: MAPPING,
    },
    Rule {
        event: "filemap:mm_filemap_map_pages",
        raw: "mm_filemap_map_pages",
        fields: MAPPING,
    },
    Rule {
        event: "filemap:mm_filemap_fault",
        raw: "mm_filemap_fault",
        fields: MAPPING,
    },
    Rule {
        event: "filemap:mm_filemap_add_to_page_cache",
        raw: "mm_filemap_add_to_page_cache",
        fields: &[
            ("pfn", "PFN(folio)"),
            ("i_ino", "folio->mapping->host->i_ino"),
            ("index", "folio->index"),
            ("s_dev", "folio->mapping->host->i_sb->s_dev"),
            (
                "order",
                "(folio->flags.f >> PG_head) & 1 ? folio->_flags_1 & 0xff : 0",
            ),
        ],
    },
    Rule {
        event: "filemap:mm_filemap_delete_from_page_cache",
        raw: "mm_filemap_delete_from_page_cache",
        fields: &[
            ("pfn", "PFN(folio)"),
            ("i_ino", "folio->mapping->host->i_ino"),
            ("index", "folio->index"),
            ("s_dev", "folio->mapping->host->i_sb->s_dev"),
            (
                "order",
                "(folio->flags.f >> PG_head) & 1 ? folio->_flags_1 & 0xff : 0",
            ),
        ],
    },
    Rule {
        event: "filemap:mm_filemap_add_to_page_cache",
        raw: "mm_filemap_add_to_page_cache",
        fields: &[
            ("pfn", "PFN(folio)"),
            ("i_ino", "folio->mapping->host->i_ino"),
            ("index", "folio->index"),
            ("s_dev", "folio->mapping->host->i_sb->s_dev"),
            (
                "order",
                "(folio->flags >> PG_head) & 1 ? folio->_flags_1 & 0xff : 0",
            ),
        ],
    },
    Rule {
        event: "filemap:mm_filemap_delete_from_page_cache",
        raw: "mm_filemap_delete_from_page_cache",
        fields: &[
            ("pfn", "PFN(folio)"),
            ("i_ino", "folio->mapping->host->i_ino"),
            ("index", "folio->index"),
            ("s_dev", "folio->mapping->host->i_sb->s_dev"),
            (
                "order",
                "(folio->flags >> PG_head) & 1 ? folio->_flags_1 & 0xff : 0",
            ),
        ],
    },
    Rule {
        event: "filemap:mm_filemap_add_to_page_cache",
        raw: "mm_filemap_add_to_page_cache",
        fields: &[
            ("pfn", "PFN(folio)"),
            ("i_ino", "folio->mapping->host->i_ino"),
            ("index", "folio->index"),
            ("s_dev", "folio->mapping->host->i_sb->s_dev"),
            ("order", "(folio->flags >> PG_head) & 1 ? folio->_folio_order : 0"),
        ],
    },
    Rule {
        event: "filemap:mm_filemap_delete_from_page_cache",
        raw: "mm_filemap_delete_from_page_cache",
        fields: &[
            ("pfn", "PFN(folio)"),
            ("i_ino", "folio->mapping->host->i_ino"),
            ("index", "folio->index"),
            ("s_dev", "folio->mapping->host->i_sb->s_dev"),
            ("order", "(folio->flags >> PG_head) & 1 ? folio->_folio_order : 0"),
        ],
    },
    Rule {
        event: "pagemap:mm_lru_insertion",
        raw: "mm_lru_insertion",
        fields: lru_insertion!("folio->flags.f"),
    },
    Rule {
        event: "pagemap:mm_lru_insertion",
        raw: "mm_lru_insertion",
        fields: lru_insertion!("folio->flags"),
    },
    Rule {
        event: "pagemap:mm_lru_activate",
        raw: "mm_lru_activate",
        fields: &[("pfn", "PFN(folio)")],
    },
    Rule {
        event: "mmap:vm_unmapped_area",
        raw: "vm_unmapped_area",
        fields: &[
            ("total_vm", "curtask->mm->total_vm"),
            ("flags", "info->flags"),
            ("length", "info->length"),
            ("low_limit", "info->low_limit"),
            ("high_limit", "info->high_limit"),
            ("align_mask", "info->align_mask"),
            ("align_offset", "info->align_offset"),
        ],
    },
    Rule {
        event: "mmap_lock:mmap_lock_start_locking",
        raw: "mmap_lock_start_locking",
        fields: MMAP_LOCK,
    },
    Rule {
        event: "mmap_lock:mmap_lock_acquire_returned",
        raw: "mmap_lock_acquire_returned",
        fields: MMAP_LOCK,
    },
    Rule {
        event: "mmap_lock:mmap_lock_released",
        raw: "mmap_lock_released",
        fields: MMAP_LOCK,
    },
    Rule {
        event: "block:block_touch_buffer",
        raw: "block_touch_buffer",
        fields: BUFFER,
    },
    Rule {
        event: "block:block_dirty_buffer",
        raw: "block_dirty_buffer",
        fields: BUFFER,
    },
    Rule {
        event: "timer:hrtimer_start",
        raw: "hrtimer_start",
        fields: &[
            ("function", "hrtimer->function"),
            ("expires", "hrtimer->node.expires"),
            ("softexpires", "hrtimer->_softexpires"),
        ],
    },
    Rule {
        event: "timer:hrtimer_expire_entry",
        raw: "hrtimer_expire_entry",
        fields: &[("function", "hrtimer->function"), ("now", "*now")],
    },
    Rule {
        event: "timer:hrtimer_expire_entry",
        raw: "hrtimer_expire_entry",
        fields: &[("function", "hrtimer->function"), ("now", "now")],
    },
    Rule {
        event: "workqueue:workqueue_activate_work",
        raw: "workqueue_activate_work",
        fields: &[("function", "work->func")],
    },
    Rule {
        event: "workqueue:workqueue_queue_work",
        raw: "workqueue_queue_work",
        fields: &[
            ("function", "work->func"),
            ("workqueue", "kstr(pwq->wq->name)"),
            ("cpu", "pwq->pool->cpu"),
        ],
    },
    Rule {
        event: "ext4:ext4_es_lookup_extent_enter",
        raw: "ext4_es_lookup_extent_enter",
        fields: DEV_INO,
    },
    Rule {
        event: "ext4:ext4_da_write_begin",
        raw: "ext4_da_write_begin",
        fields: DEV_INO,
    },
    Rule {
        event: "ext4:ext4_da_write_end",
        raw: "ext4_da_write_end",
        fields: DEV_INO,
    },
    Rule {
        event: "ext4:ext4_write_begin",
        raw: "ext4_write_begin",
        fields: DEV_INO,
    },
    Rule {
        event: "ext4:ext4_write_end",
        raw: "ext4_write_end",
        fields: DEV_INO,
    },
    Rule {
        event: "ext4:ext4_ext_map_blocks_enter",
        raw: "ext4_ext_map_blocks_enter",
        fields: DEV_INO,
    },
    Rule {
        event: "ext4:ext4_ind_map_blocks_enter",
        raw: "ext4_ind_map_blocks_enter",
        fields: DEV_INO,
    },
    Rule {
        event: "ext4:ext4_drop_inode",
        raw: "ext4_drop_inode",
        fields: DEV_INO,
    },
    Rule {
        event: "ext4:ext4_begin_ordered_truncate",
        raw: "ext4_begin_ordered_truncate",
        fields: DEV_INO,
    },
    Rule {
        event: "ext4:ext4_discard_preallocations",
        raw: "ext4_discard_preallocations",
        fields: DEV_INO,
    },
    Rule {
        event: "ext4:ext4_es_insert_extent",
        raw: "ext4_es_insert_extent",
        fields: EXTENT,
    },
    Rule {
        event: "ext4:ext4_es_cache_extent",
        raw: "ext4_es_cache_extent",
        fields: EXTENT,
    },
    Rule {
        event: "ext4:ext4_es_lookup_extent_exit",
        raw: "ext4_es_lookup_extent_exit",
        fields: EXTENT,
    },
    Rule {
        event: "ext4:ext4_ext_map_blocks_exit",
        raw: "ext4_ext_map_blocks_exit",
        fields: MAP_BLOCKS_EXIT,
    },
    Rule {
        event: "ext4:ext4_ind_map_blocks_exit",
        raw: "ext4_ind_map_blocks_exit",
        fields: MAP_BLOCKS_EXIT,
    },
    Rule {
        event: "ext4:ext4_mark_inode_dirty",
        raw: "ext4_mark_inode_dirty",
        fields: &[
            ("dev", "inode->i_sb->s_dev"),
            ("ino", "inode->i_ino"),
            ("ip", "IP"),
        ],
    },
    Rule {
        event: "ext4:ext4_journal_start_inode",
        raw: "ext4_journal_start_inode",
        fields: &[
            ("dev", "inode->i_sb->s_dev"),
            ("ino", "inode->i_ino"),
            ("ip", "IP"),
        ],
    },
    Rule {
        event: "ext4:ext4_journal_start_sb",
        raw: "ext4_journal_start_sb",
        fields: &[("dev", "sb->s_dev"), ("ip", "IP")],
    },
    Rule {
        event: "ext4:ext4_journal_start",
        raw: "ext4_journal_start",
        fields: &[("dev", "sb->s_dev"), ("ip", "IP")],
    },
    Rule {
        event: "skb:consume_skb",
        raw: "consume_skb",
        fields: SKB,
    },
    Rule {
        event: "skb:skb_copy_datagram_iovec",
        raw: "skb_copy_datagram_iovec",
        fields: SKB,
    },
    Rule {
        event: "skb:kfree_skb",
        raw: "kfree_skb",
        fields: &[("skbaddr", "skb"), ("protocol", PROTOCOL)],
    },
    Rule {
        event: "task:task_newtask",
        raw: "task_newtask",
        fields: &[
            ("pid", "task->pid"),
            ("comm", "task->comm"),
            ("clone_flags", "clone_flags"),
            ("oom_score_adj", "task->signal->oom_score_adj"),
        ],
    },
    Rule {
        event: "cgroup:cgroup_rstat_lock_contended",
        raw: "cgroup_rstat_lock_contended",
        fields: RSTAT,
    },
    Rule {
        event: "cgroup:cgroup_rstat_locked",
        raw: "cgroup_rstat_locked",
        fields: RSTAT,
    },
    Rule {
        event: "cgroup:cgroup_rstat_unlock",
        raw: "cgroup_rstat_unlock",
        fields: RSTAT,
    },
    Rule {
        event: "lock:contention_begin",
        raw: "contention_begin",
        fields: &[("lock_addr", "lock")],
    },
    Rule {
        event: "lock:contention_end",
        raw: "contention_end",
        fields: &[("lock_addr", "lock")],
    },
    Rule {
        event: "irq_vectors:vector_alloc",
        raw: "vector_alloc",
        fields: &[("vector", "ret < 0 ? 0 : vector"), ("ret", "ret > 0 ? 0 : ret")],
    },
    Rule {
        event: "irq_vectors:vector_alloc_managed",
        raw: "vector_alloc_managed",
        fields: &[("vector", "ret < 0 ? 0 : vector"), ("ret", "ret > 0 ? 0 : ret")],
    },
    Rule {
        event: "jbd2:jbd2_start_commit",
        raw: "jbd2_start_commit",
        fields: JBD2,
    },
    Rule {
        event: "jbd2:jbd2_commit_locking",
        raw: "jbd2_commit_locking",
        fields: JBD2,
    },
    Rule {
        event: "jbd2:jbd2_commit_flushing",
        raw: "jbd2_commit_flushing",
        fields: JBD2,
    },
    Rule {
        event: "jbd2:jbd2_commit_logging",
        raw: "jbd2_commit_logging",
        fields: JBD2,
    },
    Rule {
        event: "capability:cap_capable",
        raw: "cap_capable",
        fields: &[("capable_ns", "ret == 0 ? (uint64)capable_ns : 0")],
    },
];
