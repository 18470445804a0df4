//! Tracepoints whose entries are their arguments, nothing more: each field bears the name of an argument and is assigned from it.
//!
//! This file is a table; it grows by rows. A row says that somebody has looked: in the kernel's sources, every field of the event's
//! `TP_fast_assign` is `__entry->NAME = NAME`. Names and sizes alone would not prove it (`vmscan:mm_vmscan_throttled` keeps `1U << reason` as
//! `reason`, `oom:compact_retry` a translated `result`). Where a kernel's entry has a field that is no argument of its name and
//! size, its event is recorded the classic way.

/// Group, events.
const PLAIN: &[(&str, &[&str])] = &[
    (
        "compaction",
        &[
            "mm_compaction_fast_isolate_freepages",
            "mm_compaction_isolate_freepages",
            "mm_compaction_isolate_migratepages",
            "mm_compaction_kcompactd_sleep",
            "mm_compaction_kcompactd_wake",
            "mm_compaction_try_to_compact_pages",
            "mm_compaction_wakeup_kcompactd",
        ],
    ),
    ("context_tracking", &["user_enter", "user_exit"]),
    ("cpuhp", &["cpuhp_enter", "cpuhp_exit", "cpuhp_multi_enter"]),
    (
        "csd",
        &["csd_function_entry", "csd_function_exit", "csd_queue_cpu"],
    ),
    ("error_report", &["error_report_end"]),
    (
        "huge_memory",
        &["mm_collapse_huge_page", "mm_collapse_huge_page_swapin"],
    ),
    ("initcall", &["initcall_finish", "initcall_start"]),
    (
        "io_uring",
        &[
            "io_uring_complete",
            "io_uring_cqe_overflow",
            "io_uring_cqring_wait",
            "io_uring_create",
            "io_uring_local_work_run",
            "io_uring_register",
            "io_uring_short_write",
            "io_uring_task_work_run",
        ],
    ),
    ("iommu", &["map", "unmap"]),
    ("ipi", &["ipi_entry", "ipi_exit", "ipi_send_cpu"]),
    ("irq", &[]),
    (
        "irq_vectors",
        &[
            "call_function_entry",
            "call_function_exit",
            "call_function_single_entry",
            "call_function_single_exit",
            "deferred_error_apic_entry",
            "deferred_error_apic_exit",
            "error_apic_entry",
            "error_apic_exit",
            "irq_work_entry",
            "irq_work_exit",
            "local_timer_entry",
            "local_timer_exit",
            "reschedule_entry",
            "reschedule_exit",
            "spurious_apic_entry",
            "spurious_apic_exit",
            "thermal_apic_entry",
            "thermal_apic_exit",
            "threshold_apic_entry",
            "threshold_apic_exit",
            "vector_activate",
            "vector_clear",
            "vector_config",
            "vector_deactivate",
            "vector_free_moved",
            "vector_reserve",
            "vector_reserve_managed",
            "vector_setup",
            "vector_teardown",
            "vector_update",
            "x86_platform_ipi_entry",
            "x86_platform_ipi_exit",
        ],
    ),
    (
        "jbd2",
        &[
            "jbd2_handle_extend",
            "jbd2_handle_restart",
            "jbd2_handle_start",
            "jbd2_handle_stats",
            "jbd2_lock_buffer_stall",
        ],
    ),
    ("kmem", &["mm_alloc_contig_migrate_range_info"]),
    (
        "ksm",
        &[
            "ksm_advisor",
            "ksm_enter",
            "ksm_exit",
            "ksm_merge_one_page",
            "ksm_merge_with_ksm_page",
            "ksm_remove_ksm_page",
            "ksm_remove_rmap_item",
            "ksm_start_scan",
            "ksm_stop_scan",
        ],
    ),
    (
        "kvm",
        &[
            "kvm_ack_irq",
            "kvm_age_hva",
            "kvm_apic",
            "kvm_apic_accept_irq",
            "kvm_apic_ipi",
            "kvm_apicv_accept_irq",
            "kvm_apicv_inhibit_changed",
            "kvm_async_pf_completed",
            "kvm_async_pf_not_present",
            "kvm_async_pf_ready",
            "kvm_async_pf_repeated_fault",
            "kvm_avic_doorbell",
            "kvm_avic_ga_log",
            "kvm_avic_incomplete_ipi",
            "kvm_avic_kick_vcpu_slowpath",
            "kvm_avic_unaccelerated_access",
            "kvm_cpuid",
            "kvm_cr",
            "kvm_fast_mmio",
            "kvm_fpu",
            "kvm_halt_poll_ns",
            "kvm_hv_flush_tlb",
            "kvm_hv_flush_tlb_ex",
            "kvm_hv_hypercall",
            "kvm_hv_hypercall_done",
            "kvm_hv_notify_acked_sint",
            "kvm_hv_send_ipi",
            "kvm_hv_send_ipi_ex",
            "kvm_hv_stimer_callback",
            "kvm_hv_stimer_cleanup",
            "kvm_hv_stimer_expiration",
            "kvm_hv_stimer_set_config",
            "kvm_hv_stimer_set_count",
            "kvm_hv_stimer_start_one_shot",
            "kvm_hv_stimer_start_periodic",
            "kvm_hv_syndbg_get_msr",
            "kvm_hv_syndbg_set_msr",
            "kvm_hv_synic_set_irq",
            "kvm_hv_timer_state",
            "kvm_hypercall",
            "kvm_inj_exception",
            "kvm_inj_virq",
            "kvm_invlpga",
            "kvm_ioapic_delayed_eoi_inj",
            "kvm_ioapic_set_irq",
            "kvm_msi_set_irq",
            "kvm_msr",
            "kvm_nested_intercepts",
            "kvm_nested_vmexit_inject",
            "kvm_pi_irte_update",
            "kvm_pic_set_irq",
            "kvm_ple_window_update",
            "kvm_pml_full",
            "kvm_pv_tlb_flush",
            "kvm_set_irq",
            "kvm_skinit",
            "kvm_smm_transition",
            "kvm_test_age_hva",
            "kvm_try_async_get_page",
            "kvm_unmap_hva_range",
            "kvm_update_master_clock",
            "kvm_userspace_exit",
            "kvm_vcpu_wakeup",
            "kvm_vmgexit_msr_protocol_enter",
            "kvm_vmgexit_msr_protocol_exit",
            "kvm_wait_lapic_expire",
            "kvm_write_tsc_offset",
            "kvm_xen_hypercall",
        ],
    ),
    (
        "kvmmmu",
        &[
            "check_mmio_spte",
            "handle_mmio_page_fault",
            "kvm_mmu_pagetable_walk",
            "kvm_mmu_paging_element",
            "kvm_mmu_split_huge_page",
            "kvm_mmu_walker_error",
            "kvm_tdp_mmu_spte_changed",
        ],
    ),
    (
        "migrate",
        &[
            "mm_migrate_pages",
            "mm_migrate_pages_start",
            "remove_migration_pte",
            "set_migration_pte",
        ],
    ),
    ("mmap", &["vma_mas_szero"]),
    ("mptcp", &["ack_update_msk", "subflow_check_data_avail"]),
    ("msr", &["rdpmc", "read_msr", "write_msr"]),
    (
        "net",
        &[
            "napi_gro_frags_exit",
            "napi_gro_receive_exit",
            "netif_receive_skb_exit",
            "netif_receive_skb_list_exit",
            "netif_rx_exit",
        ],
    ),
    ("nmi", &["nmi_handler"]),
    (
        "notifier",
        &["notifier_register", "notifier_run", "notifier_unregister"],
    ),
    (
        "oom",
        &[
            "finish_task_reaping",
            "skip_task_reaping",
            "start_task_reaping",
            "wake_reaper",
        ],
    ),
    ("page_isolation", &["test_pages_isolated"]),
    (
        "percpu",
        &[
            "percpu_alloc_percpu_fail",
            "percpu_create_chunk",
            "percpu_destroy_chunk",
            "percpu_free_percpu",
        ],
    ),
    (
        "power",
        &[
            "cpu_idle_miss",
            "guest_halt_poll_ns",
            "pm_qos_add_request",
            "pm_qos_remove_request",
            "pm_qos_update_flags",
            "pm_qos_update_request",
            "pm_qos_update_target",
            "pstate_sample",
            "suspend_resume",
        ],
    ),
    ("rcu", &["rcu_stall_warning", "rcu_utilization"]),
    ("rseq", &["rseq_ip_fixup"]),
    (
        "rtc",
        &[
            "rtc_alarm_irq_enable",
            "rtc_irq_set_freq",
            "rtc_irq_set_state",
            "rtc_read_alarm",
            "rtc_read_offset",
            "rtc_read_time",
            "rtc_set_alarm",
            "rtc_set_offset",
            "rtc_set_time",
        ],
    ),
    (
        "rwmmio",
        &[
            "rwmmio_post_read",
            "rwmmio_post_write",
            "rwmmio_read",
            "rwmmio_write",
        ],
    ),
    (
        "sched",
        &[
            "sched_kthread_stop_ret",
            "sched_kthread_work_execute_end",
            "sched_wake_idle_without_ipi",
        ],
    ),
    (
        "thp",
        &[
            "hugepage_set_pmd",
            "hugepage_set_pud",
            "hugepage_update_pmd",
            "hugepage_update_pud",
            "remove_migration_pmd",
            "set_migration_pmd",
        ],
    ),
    (
        "timer",
        &["hrtimer_init", "hrtimer_setup", "tick_stop", "timer_base_idle"],
    ),
    ("tlb", &["tlb_flush"]),
    (
        "vmalloc",
        &[
            "alloc_vmap_area",
            "free_vmap_area_noflush",
            "purge_vmap_area_lazy",
        ],
    ),
    (
        "vmscan",
        &[
            "mm_vmscan_direct_reclaim_begin",
            "mm_vmscan_direct_reclaim_end",
            "mm_vmscan_kswapd_sleep",
            "mm_vmscan_kswapd_wake",
            "mm_vmscan_lru_isolate",
            "mm_vmscan_memcg_reclaim_begin",
            "mm_vmscan_memcg_reclaim_end",
            "mm_vmscan_memcg_softlimit_reclaim_begin",
            "mm_vmscan_memcg_softlimit_reclaim_end",
            "mm_vmscan_node_reclaim_begin",
            "mm_vmscan_node_reclaim_end",
            "mm_vmscan_wakeup_kswapd",
        ],
    ),
    (
        "vsock",
        &["virtio_transport_alloc_pkt", "virtio_transport_recv_pkt"],
    ),
    ("vsyscall", &["emulate_vsyscall"]),
    ("workqueue", &[]),
];

/// Whether an event is in the table.
pub(super) fn is_plain(group: &str, name: &str) -> bool {
    PLAIN
        .iter()
        .any(|(known, events)| *known == group && events.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tracepoint::rules;

    #[test]
    fn each_stands_once_and_has_no_other_rule() {
        let mut all: Vec<String> = PLAIN
            .iter()
            .flat_map(|(group, events)| events.iter().map(move |event| format!("{group}:{event}")))
            .collect();
        assert!(all.iter().all(|event| rules::rows(event).next().is_none()));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(is_plain("tlb", "tlb_flush") && !is_plain("oom", "compact_retry"));
    }
}
