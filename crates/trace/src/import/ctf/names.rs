//! LTTng's names of the kernel's events and their fields, and what the kernel calls them, as reports of the scheduler and of system calls expect.

/// Prefixes of LTTng's names, the kernel's subsystem, and the prefix of its own name instead. The first that fits counts.
const SUBSYSTEMS: &[(&str, &str, &str)] = &[
    ("compat_syscall_entry_", "compat_syscalls", "sys_enter_"),
    ("compat_syscall_exit_", "compat_syscalls", "sys_exit_"),
    ("syscall_entry_", "syscalls", "sys_enter_"),
    ("syscall_exit_", "syscalls", "sys_exit_"),
    ("sched_", "sched", "sched_"),
    ("irq_softirq_", "irq", "softirq_"),
    ("irq_tasklet_", "irq", "tasklet_"),
    ("irq_handler_", "irq", "irq_handler_"),
    ("x86_irq_vectors_", "irq_vectors", ""),
    ("x86_exceptions_", "exceptions", ""),
    ("timer_hrtimer_", "timer", "hrtimer_"),
    ("timer_itimer_", "timer", "itimer_"),
    ("timer_", "timer", "timer_"),
    ("hrtimer_", "timer", "hrtimer_"),
    ("power_", "power", ""),
    ("kmem_mm_", "kmem", "mm_"),
    ("kmem_kmalloc", "kmem", "kmalloc"),
    ("kmem_kfree", "kmem", "kfree"),
    ("kmem_", "kmem", "kmem_"),
    ("mm_vmscan_", "vmscan", "mm_vmscan_"),
    ("mm_compaction_", "compaction", "mm_compaction_"),
    ("block_", "block", "block_"),
    ("net_", "net", "net_"),
    ("netif_", "net", "netif_"),
    ("napi_", "napi", "napi_"),
    ("skb_", "skb", ""),
    ("sock_", "sock", "sock_"),
    ("udp_", "udp", "udp_"),
    ("signal_", "signal", "signal_"),
    ("workqueue_", "workqueue", "workqueue_"),
    ("writeback_", "writeback", "writeback_"),
    ("jbd2_", "jbd2", "jbd2_"),
    ("ext4_", "ext4", "ext4_"),
    ("btrfs_", "btrfs", "btrfs_"),
    ("scsi_", "scsi", "scsi_"),
    ("rcu_", "rcu", "rcu_"),
    ("random_", "random", ""),
    ("regulator_", "regulator", "regulator_"),
    ("printk_", "printk", ""),
    ("module_", "module", "module_"),
    ("kvm_", "kvm", "kvm_"),
    ("gpio_", "gpio", "gpio_"),
    ("lttng_", "lttng", "lttng_"),
];

/// The kernel's name of an event of LTTng's; other names are left as they are.
pub(super) fn event(name: &str) -> String {
    let rule = SUBSYSTEMS.iter().find(|(begin, ..)| name.starts_with(begin));
    match rule {
        Some((begin, system, own)) => format!("{system}:{own}{}", &name[begin.len()..]),
        None => name.to_owned(),
    }
}

/// Names of the fields of an event of LTTng's as the kernel has them: it calls the number of a thread `pid`, LTTng `tid`, and that of a process `tgid`.
pub(super) fn fields(event: &str, names: &mut [String]) {
    if !event.starts_with("sched:") {
        return;
    }
    let threads: Vec<String> = names
        .iter()
        .filter_map(|name| name.strip_suffix("tid"))
        .filter(|begin| begin.is_empty() || begin.ends_with('_'))
        .map(str::to_owned)
        .collect();
    for begin in threads {
        for name in names.iter_mut() {
            if *name == format!("{begin}pid") {
                *name = format!("{begin}tgid");
            } else if *name == format!("{begin}tid") {
                *name = format!("{begin}pid");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_kernels() {
        for (lttng, kernel) in [
            ("sched_switch", "sched:sched_switch"),
            ("syscall_entry_openat", "syscalls:sys_enter_openat"),
            ("syscall_exit_openat", "syscalls:sys_exit_openat"),
            ("irq_softirq_entry", "irq:softirq_entry"),
            ("timer_hrtimer_start", "timer:hrtimer_start"),
            ("power_cpu_idle", "power:cpu_idle"),
            ("my_app:thing", "my_app:thing"),
        ] {
            assert_eq!(event(lttng), kernel);
        }
        let mut names = ["prev_comm", "prev_tid", "child_tid", "child_pid", "vtid"].map(str::to_owned);
        fields("sched:x", &mut names);
        assert_eq!(
            names,
            ["prev_comm", "prev_pid", "child_pid", "child_tgid", "vtid"]
        );
    }
}
