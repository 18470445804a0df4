//! The BPF helpers that generated code calls: one row each, by the number of `uapi/linux/bpf.h`.

/// A BPF helper function, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Helper(pub u32);

macro_rules! helpers {
    ($($constant:ident $number:literal $name:literal $pure:ident)*) => {
        impl Helper {
            $(
                #[doc = concat!("`bpf_", $name, "`.")]
                pub const $constant: Self = Self($number);
            )*

            /// Its name without `bpf_`; the number for one that is not in the table.
            pub fn name(self) -> std::borrow::Cow<'static, str> {
                match self.0 {
                    $($number => $name.into(),)*
                    other => format!("helper#{other}").into(),
                }
            }

            /// Whether a call whose result nobody reads may be left out.
            pub fn is_pure(self) -> bool {
                match self.0 {
                    $($number => helpers!(@ $pure),)*
                    _ => false,
                }
            }
        }
    };
    (@ pure) => { true };
    (@ acts) => { false };
}

helpers! {
    MAP_LOOKUP_ELEM 1 "map_lookup_elem" pure
    MAP_UPDATE_ELEM 2 "map_update_elem" acts
    MAP_DELETE_ELEM 3 "map_delete_elem" acts
    PROBE_READ 4 "probe_read" acts
    KTIME_GET_NS 5 "ktime_get_ns" pure
    GET_PRANDOM_U32 7 "get_prandom_u32" pure
    GET_SMP_PROCESSOR_ID 8 "get_smp_processor_id" pure
    TAIL_CALL 12 "tail_call" acts
    GET_CURRENT_PID_TGID 14 "get_current_pid_tgid" pure
    GET_CURRENT_UID_GID 15 "get_current_uid_gid" pure
    GET_CURRENT_COMM 16 "get_current_comm" acts
    GET_STACKID 27 "get_stackid" acts
    GET_CURRENT_TASK 35 "get_current_task" pure
    GET_NUMA_NODE_ID 42 "get_numa_node_id" pure
    PROBE_READ_STR 45 "probe_read_str" acts
    GET_STACK 67 "get_stack" acts
    GET_CURRENT_CGROUP_ID 80 "get_current_cgroup_id" pure
    PROBE_READ_USER 112 "probe_read_user" acts
    PROBE_READ_KERNEL 113 "probe_read_kernel" acts
    PROBE_READ_USER_STR 114 "probe_read_user_str" acts
    PROBE_READ_KERNEL_STR 115 "probe_read_kernel_str" acts
    JIFFIES64 118 "jiffies64" pure
    KTIME_GET_BOOT_NS 125 "ktime_get_boot_ns" pure
    GET_CURRENT_TASK_BTF 158 "get_current_task_btf" pure
    KTIME_GET_COARSE_NS 160 "ktime_get_coarse_ns" pure
    TASK_STORAGE_GET 156 "task_storage_get" acts
    GET_FUNC_IP 173 "get_func_ip" pure
    GET_ATTACH_COOKIE 174 "get_attach_cookie" pure
    KTIME_GET_TAI_NS 208 "ktime_get_tai_ns" pure
}
