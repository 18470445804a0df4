//! The helpers that programs call or listings show, one row each; whether a kernel offers one is not known here.

/// A BPF helper by its number (`enum bpf_func_id` of `uapi/linux/bpf.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Helper(pub u32);

/// A helper function's row: name, number, arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The helper's number.
    pub helper: Helper,
    /// The name, without `bpf_`.
    pub name: &'static str,
    /// Number of its arguments, in r1 and up.
    pub arguments: u8,
}

impl Helper {
    /// The row, if the table has it.
    pub fn row(self) -> Option<&'static Row> {
        TABLE
            .binary_search_by_key(&self, |row| row.helper)
            .ok()
            .and_then(|at| TABLE.get(at))
    }

    /// The name without `bpf_`, if known.
    ///
    /// ```
    /// assert_eq!(kestrel_bpf::helper::KTIME_GET_NS.name(), Some("ktime_get_ns"));
    /// ```
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|row| row.name)
    }

    /// The helper of that name, with or without `bpf_`.
    pub fn by_name(name: &str) -> Option<Self> {
        let bare = name.strip_prefix("bpf_").unwrap_or(name);
        TABLE.iter().find(|row| row.name == bare).map(|row| row.helper)
    }
}

/// `BPF_NOEXIST`, a flag of [`MAP_UPDATE_ELEM`]: an element is only made.
pub const NOEXIST: u64 = 1;
/// `BPF_EXIST`, a flag of [`MAP_UPDATE_ELEM`]: an element is only replaced.
pub const EXIST: u64 = 2;

macro_rules! helpers {
    ($($id:literal $constant:ident $name:literal $arguments:literal;)*) => {
        $(
            #[doc = concat!("`bpf_", $name, "`, helper ", stringify!($id), ".")]
            pub const $constant: Helper = Helper($id);
        )*
        /// The helpers, by number.
        pub const TABLE: &[Row] = &[
            $(Row { helper: $constant, name: $name, arguments: $arguments },)*
        ];
    };
}

helpers! {
    1 MAP_LOOKUP_ELEM "map_lookup_elem" 2;
    2 MAP_UPDATE_ELEM "map_update_elem" 4;
    3 MAP_DELETE_ELEM "map_delete_elem" 2;
    4 PROBE_READ "probe_read" 3;
    5 KTIME_GET_NS "ktime_get_ns" 0;
    6 TRACE_PRINTK "trace_printk" 5;
    7 GET_PRANDOM_U32 "get_prandom_u32" 0;
    8 GET_SMP_PROCESSOR_ID "get_smp_processor_id" 0;
    12 TAIL_CALL "tail_call" 3;
    14 GET_CURRENT_PID_TGID "get_current_pid_tgid" 0;
    15 GET_CURRENT_UID_GID "get_current_uid_gid" 0;
    16 GET_CURRENT_COMM "get_current_comm" 2;
    22 PERF_EVENT_READ "perf_event_read" 2;
    25 PERF_EVENT_OUTPUT "perf_event_output" 5;
    27 GET_STACKID "get_stackid" 3;
    35 GET_CURRENT_TASK "get_current_task" 0;
    36 PROBE_WRITE_USER "probe_write_user" 3;
    37 CURRENT_TASK_UNDER_CGROUP "current_task_under_cgroup" 2;
    42 GET_NUMA_NODE_ID "get_numa_node_id" 0;
    45 PROBE_READ_STR "probe_read_str" 3;
    46 GET_SOCKET_COOKIE "get_socket_cookie" 1;
    55 PERF_EVENT_READ_VALUE "perf_event_read_value" 4;
    56 PERF_PROG_READ_VALUE "perf_prog_read_value" 3;
    58 OVERRIDE_RETURN "override_return" 2;
    67 GET_STACK "get_stack" 4;
    80 GET_CURRENT_CGROUP_ID "get_current_cgroup_id" 0;
    87 MAP_PUSH_ELEM "map_push_elem" 3;
    88 MAP_POP_ELEM "map_pop_elem" 2;
    89 MAP_PEEK_ELEM "map_peek_elem" 2;
    93 SPIN_LOCK "spin_lock" 1;
    94 SPIN_UNLOCK "spin_unlock" 1;
    109 SEND_SIGNAL "send_signal" 1;
    111 SKB_OUTPUT "skb_output" 5;
    112 PROBE_READ_USER "probe_read_user" 3;
    113 PROBE_READ_KERNEL "probe_read_kernel" 3;
    114 PROBE_READ_USER_STR "probe_read_user_str" 3;
    115 PROBE_READ_KERNEL_STR "probe_read_kernel_str" 3;
    117 SEND_SIGNAL_THREAD "send_signal_thread" 1;
    118 JIFFIES64 "jiffies64" 0;
    120 GET_NS_CURRENT_PID_TGID "get_ns_current_pid_tgid" 4;
    123 GET_CURRENT_ANCESTOR_CGROUP_ID "get_current_ancestor_cgroup_id" 1;
    125 KTIME_GET_BOOT_NS "ktime_get_boot_ns" 0;
    126 SEQ_PRINTF "seq_printf" 5;
    127 SEQ_WRITE "seq_write" 3;
    130 RINGBUF_OUTPUT "ringbuf_output" 4;
    131 RINGBUF_RESERVE "ringbuf_reserve" 3;
    132 RINGBUF_SUBMIT "ringbuf_submit" 2;
    133 RINGBUF_DISCARD "ringbuf_discard" 2;
    134 RINGBUF_QUERY "ringbuf_query" 2;
    141 GET_TASK_STACK "get_task_stack" 4;
    147 D_PATH "d_path" 3;
    148 COPY_FROM_USER "copy_from_user" 3;
    149 SNPRINTF_BTF "snprintf_btf" 5;
    153 PER_CPU_PTR "per_cpu_ptr" 2;
    154 THIS_CPU_PTR "this_cpu_ptr" 1;
    156 TASK_STORAGE_GET "task_storage_get" 4;
    157 TASK_STORAGE_DELETE "task_storage_delete" 2;
    158 GET_CURRENT_TASK_BTF "get_current_task_btf" 0;
    160 KTIME_GET_COARSE_NS "ktime_get_coarse_ns" 0;
    164 FOR_EACH_MAP_ELEM "for_each_map_elem" 4;
    165 SNPRINTF "snprintf" 5;
    173 GET_FUNC_IP "get_func_ip" 1;
    174 GET_ATTACH_COOKIE "get_attach_cookie" 1;
    175 TASK_PT_REGS "task_pt_regs" 1;
    176 GET_BRANCH_SNAPSHOT "get_branch_snapshot" 3;
    177 TRACE_VPRINTK "trace_vprintk" 4;
    180 FIND_VMA "find_vma" 5;
    181 LOOP "loop" 4;
    182 STRNCMP "strncmp" 3;
    183 GET_FUNC_ARG "get_func_arg" 3;
    184 GET_FUNC_RET "get_func_ret" 2;
    185 GET_FUNC_ARG_CNT "get_func_arg_cnt" 1;
    191 COPY_FROM_USER_TASK "copy_from_user_task" 5;
    195 MAP_LOOKUP_PERCPU_ELEM "map_lookup_percpu_elem" 3;
    208 KTIME_GET_TAI_NS "ktime_get_tai_ns" 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_by_number_with_distinct_names() {
        assert!(TABLE.is_sorted_by(|a, b| a.helper < b.helper));
        for row in TABLE {
            assert_eq!(Helper::by_name(row.name), Some(row.helper));
            assert_eq!(Helper::by_name(&format!("bpf_{}", row.name)), Some(row.helper));
            assert_eq!(row.helper.row(), Some(row));
            assert!(row.arguments <= 5);
        }
        assert_eq!(Helper(0).row(), None);
    }

    /// The numbers against the header of the machine that runs the test, where there is one.
    #[test]
    fn numbers_agree_with_the_uapi_header() {
        let Ok(header) = std::fs::read_to_string("/usr/include/linux/bpf.h") else {
            return;
        };
        let names: Vec<&str> = header
            .lines()
            .filter_map(|l| l.trim().strip_prefix("FN("))
            .filter_map(|l| {
                l.split_once(')')
                    .map(|(name, _)| name.split(',').next().unwrap_or(name))
            })
            .collect();
        assert!(names.len() > 150, "no list of helpers in the header");
        for row in TABLE {
            assert_eq!(names.get(row.helper.0 as usize).copied(), Some(row.name));
        }
    }
}
