//! The numbers and argument structures of bpf(2) (`uapi/linux/bpf.h`), and the call itself. What they mean and who owns descriptors is elsewhere.
//!
//! The kernel refuses (EINVAL, E2BIG) when bytes of the argument that it does not know are not zero, padding included. `Pod` makes
//! the compiler prove that a structure has no padding, so a literal with `..Zeroable::zeroed()` sets every byte.

use crate::error::Errno;
use bytemuck::{Pod, Zeroable};
use std::fmt;
use std::os::fd::{FromRawFd, OwnedFd};

/// Defines a type for a kernel enumeration, with constants for the values in use and the kernel's spelling of each for display.
macro_rules! numbers {
    ($(#[$doc:meta])* $type:ident { $($constant:ident = $value:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(pub u32);

        #[allow(missing_docs, reason = "the kernel's own names and numbers")]
        impl $type {
            $(pub const $constant: Self = Self($value);)*

            /// The kernel's short name, if it is one of those that are known here.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some($text),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "number {}", self.0),
                }
            }
        }
    };
}

numbers! {
    /// `enum bpf_map_type`.
    MapKind {
        HASH = 1 "hash",
        ARRAY = 2 "array",
        PROG_ARRAY = 3 "prog_array",
        PERF_EVENT_ARRAY = 4 "perf_event_array",
        PERCPU_HASH = 5 "percpu_hash",
        PERCPU_ARRAY = 6 "percpu_array",
        STACK_TRACE = 7 "stack_trace",
        CGROUP_ARRAY = 8 "cgroup_array",
        LRU_HASH = 9 "lru_hash",
        LRU_PERCPU_HASH = 10 "lru_percpu_hash",
        LPM_TRIE = 11 "lpm_trie",
        ARRAY_OF_MAPS = 12 "array_of_maps",
        HASH_OF_MAPS = 13 "hash_of_maps",
        DEVMAP = 14 "devmap",
        SOCKMAP = 15 "sockmap",
        CPUMAP = 16 "cpumap",
        XSKMAP = 17 "xskmap",
        SOCKHASH = 18 "sockhash",
        CGROUP_STORAGE = 19 "cgroup_storage",
        REUSEPORT_SOCKARRAY = 20 "reuseport_sockarray",
        PERCPU_CGROUP_STORAGE = 21 "percpu_cgroup_storage",
        QUEUE = 22 "queue",
        STACK = 23 "stack",
        SK_STORAGE = 24 "sk_storage",
        DEVMAP_HASH = 25 "devmap_hash",
        STRUCT_OPS = 26 "struct_ops",
        RINGBUF = 27 "ringbuf",
        INODE_STORAGE = 28 "inode_storage",
        TASK_STORAGE = 29 "task_storage",
        BLOOM_FILTER = 30 "bloom_filter",
        USER_RINGBUF = 31 "user_ringbuf",
        CGRP_STORAGE = 32 "cgrp_storage",
        ARENA = 33 "arena",
    }
}

numbers! {
    /// `enum bpf_prog_type`.
    ProgramType {
        SOCKET_FILTER = 1 "socket_filter",
        KPROBE = 2 "kprobe",
        SCHED_CLS = 3 "sched_cls",
        SCHED_ACT = 4 "sched_act",
        TRACEPOINT = 5 "tracepoint",
        XDP = 6 "xdp",
        PERF_EVENT = 7 "perf_event",
        CGROUP_SKB = 8 "cgroup_skb",
        RAW_TRACEPOINT = 17 "raw_tracepoint",
        RAW_TRACEPOINT_WRITABLE = 24 "raw_tracepoint_writable",
        TRACING = 26 "tracing",
        STRUCT_OPS = 27 "struct_ops",
        EXT = 28 "ext",
        LSM = 29 "lsm",
        SYSCALL = 31 "syscall",
    }
}

numbers! {
    /// `enum bpf_attach_type`.
    AttachType {
        NONE = 0 "none",
        TRACE_RAW_TP = 23 "trace_raw_tp",
        TRACE_FENTRY = 24 "trace_fentry",
        TRACE_FEXIT = 25 "trace_fexit",
        MODIFY_RETURN = 26 "modify_return",
        LSM_MAC = 27 "lsm_mac",
        TRACE_ITER = 28 "trace_iter",
        PERF_EVENT = 41 "perf_event",
        TRACE_KPROBE_MULTI = 42 "trace_kprobe_multi",
        TRACE_UPROBE_MULTI = 48 "trace_uprobe_multi",
        TRACE_KPROBE_SESSION = 56 "trace_kprobe_session",
        TRACE_UPROBE_SESSION = 57 "trace_uprobe_session",
    }
}

numbers! {
    /// `enum bpf_link_type`.
    LinkType {
        RAW_TRACEPOINT = 1 "raw_tracepoint",
        TRACING = 2 "tracing",
        CGROUP = 3 "cgroup",
        ITER = 4 "iter",
        PERF_EVENT = 7 "perf_event",
        KPROBE_MULTI = 8 "kprobe_multi",
        STRUCT_OPS = 9 "struct_ops",
        UPROBE_MULTI = 12 "uprobe_multi",
    }
}

/// `BPF_F_RDONLY_PROG`: programs may not write the map.
pub const MAP_PROGRAM_READ_ONLY: u32 = 1 << 7;
/// `BPF_F_MMAPABLE`: an array that user space can map.
pub const MAP_MMAPABLE: u32 = 1 << 10;

/// `BPF_ANY`: make it or replace it.
pub(crate) const UPDATE_ANY: u64 = 0;

/// `BPF_F_SLEEPABLE`: a program that may fault pages in.
pub const PROGRAM_SLEEPABLE: u32 = 1 << 4;

/// `BPF_F_KPROBE_MULTI_RETURN`.
pub(crate) const KPROBE_MULTI_RETURN: u32 = 1;

/// `BPF_PSEUDO_MAP_FD`: source register of a 64-bit load whose immediate is a map's file descriptor.
pub(crate) const PSEUDO_MAP_FD: u8 = 1;
/// `BPF_PSEUDO_MAP_VALUE`: the same, for an address inside the map's first value.
pub(crate) const PSEUDO_MAP_VALUE: u8 = 2;
/// `BPF_PSEUDO_KFUNC_CALL`: source register of a call whose immediate is the BTF id of a kernel function.
pub(crate) const PSEUDO_KFUNC_CALL: u8 = 2;

/// `enum bpf_cmd`.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    MapNextKey = 4,
    ProgLoad = 5,
    ObjPin = 6,
    ObjGet = 7,
    ProgTestRun = 10,
    ProgNextId = 11,
    MapNextId = 12,
    ProgFdById = 13,
    MapFdById = 14,
    ObjInfoByFd = 15,
    RawTracepointOpen = 17,
    BtfLoad = 18,
    BtfFdById = 19,
    MapLookupAndDelete = 21,
    MapFreeze = 22,
    BtfNextId = 23,
    MapLookupBatch = 24,
    MapLookupAndDeleteBatch = 25,
    LinkCreate = 28,
    LinkUpdate = 29,
    LinkFdById = 30,
    LinkNextId = 31,
    EnableStats = 32,
    IterCreate = 33,
    LinkDetach = 34,
    ProgBindMap = 35,
}

/// Defines a kernel structure of exactly `$size` bytes that has no padding and may be all zeroes.
macro_rules! kernel_struct {
    ($(#[$doc:meta])* $name:ident ($size:literal) { $($field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Pod, Zeroable)]
        pub(crate) struct $name {
            $(pub(crate) $field: $type,)*
        }
        const _: () = assert!(size_of::<$name>() == $size);
    };
}

kernel_struct! {
    /// `BPF_MAP_CREATE`.
    MapCreate (72) {
        map_type: u32, key_size: u32, value_size: u32, max_entries: u32, map_flags: u32, inner_map_fd: u32, numa_node: u32,
        map_name: [u8; 16], map_ifindex: u32, btf_fd: u32, btf_key_type_id: u32, btf_value_type_id: u32,
        btf_vmlinux_value_type_id: u32, map_extra: u64,
    }
}
kernel_struct! {
    /// `BPF_MAP_*_ELEM`, `BPF_MAP_GET_NEXT_KEY` (`value` is the next key) and `BPF_MAP_FREEZE`.
    MapElement (32) { map_fd: u32, pad: u32, key: u64, value: u64, flags: u64, }
}
kernel_struct! {
    /// `BPF_MAP_*_BATCH`.
    MapBatch (56) {
        in_batch: u64, out_batch: u64, keys: u64, values: u64, count: u32, map_fd: u32, elem_flags: u64, flags: u64,
    }
}
kernel_struct! {
    /// `BPF_PROG_LOAD`.
    ProgLoad (144) {
        prog_type: u32, insn_cnt: u32, insns: u64, license: u64, log_level: u32, log_size: u32, log_buf: u64,
        kern_version: u32, prog_flags: u32, prog_name: [u8; 16], prog_ifindex: u32, expected_attach_type: u32,
        prog_btf_fd: u32, func_info_rec_size: u32, func_info: u64, func_info_cnt: u32, line_info_rec_size: u32,
        line_info: u64, line_info_cnt: u32, attach_btf_id: u32, attach_fd: u32, core_relo_cnt: u32, fd_array: u64,
        core_relos: u64, core_relo_rec_size: u32, log_true_size: u32,
    }
}
kernel_struct! {
    /// `BPF_OBJ_PIN` and `BPF_OBJ_GET`.
    Object (16) { pathname: u64, bpf_fd: u32, file_flags: u32, }
}
kernel_struct! {
    /// `BPF_PROG_TEST_RUN`.
    TestRun (80) {
        prog_fd: u32, retval: u32, data_size_in: u32, data_size_out: u32, data_in: u64, data_out: u64, repeat: u32,
        duration: u32, ctx_size_in: u32, ctx_size_out: u32, ctx_in: u64, ctx_out: u64, flags: u32, cpu: u32,
        batch_size: u32, pad: u32,
    }
}
kernel_struct! {
    /// `BPF_*_GET_NEXT_ID` and `BPF_*_GET_FD_BY_ID`.
    Id (12) { id: u32, next_id: u32, open_flags: u32, }
}
kernel_struct! {
    /// `BPF_OBJ_GET_INFO_BY_FD`.
    InfoByFd (16) { bpf_fd: u32, info_len: u32, info: u64, }
}
kernel_struct! {
    /// `BPF_RAW_TRACEPOINT_OPEN`; the cookie is known from Linux 6.12 on.
    RawTracepoint (24) { name: u64, prog_fd: u32, pad: u32, cookie: u64, }
}
kernel_struct! {
    /// `BPF_BTF_LOAD`.
    BtfLoad (32) { btf: u64, log_buf: u64, btf_size: u32, log_size: u32, log_level: u32, pad: u32, }
}
kernel_struct! {
    /// `BPF_LINK_CREATE`; `with` is the union of what the attach types want.
    LinkCreate (64) { prog_fd: u32, target_fd: u32, attach_type: u32, flags: u32, with: [u64; 6], }
}
kernel_struct! {
    /// `BPF_LINK_UPDATE`, and with only the first field `BPF_LINK_DETACH` and `BPF_ENABLE_STATS`.
    LinkUpdate (16) { link_fd: u32, new_prog_fd: u32, flags: u32, old_prog_fd: u32, }
}
kernel_struct! {
    /// `BPF_PROG_BIND_MAP`.
    BindMap (12) { prog_fd: u32, map_fd: u32, flags: u32, }
}
kernel_struct! {
    /// `struct bpf_map_info`, as far as it is read here.
    MapInfo (88) {
        kind: u32, id: u32, key_size: u32, value_size: u32, max_entries: u32, map_flags: u32, name: [u8; 16],
        ifindex: u32, btf_vmlinux_value_type_id: u32, netns_dev: u64, netns_ino: u64, btf_id: u32, btf_key_type_id: u32,
        btf_value_type_id: u32, pad: u32, map_extra: u64,
    }
}
kernel_struct! {
    /// `struct bpf_prog_info`.
    ProgInfo (232) {
        kind: u32, id: u32, tag: [u8; 8], jited_prog_len: u32, xlated_prog_len: u32, jited_prog_insns: u64,
        xlated_prog_insns: u64, load_time: u64, created_by_uid: u32, nr_map_ids: u32, map_ids: u64, name: [u8; 16],
        ifindex: u32, gpl_compatible: u32, netns_dev: u64, netns_ino: u64, nr_jited_ksyms: u32,
        nr_jited_func_lens: u32, jited_ksyms: u64, jited_func_lens: u64, btf_id: u32, func_info_rec_size: u32,
        func_info: u64, nr_func_info: u32, nr_line_info: u32, line_info: u64, jited_line_info: u64,
        nr_jited_line_info: u32, line_info_rec_size: u32, jited_line_info_rec_size: u32, nr_prog_tags: u32,
        prog_tags: u64, run_time_ns: u64, run_cnt: u64, recursion_misses: u64, verified_insns: u32,
        attach_btf_obj_id: u32, attach_btf_id: u32, pad: u32,
    }
}
kernel_struct! {
    /// `struct bpf_btf_info`.
    BtfInfo (32) { btf: u64, btf_size: u32, id: u32, name: u64, name_len: u32, kernel_btf: u32, }
}
kernel_struct! {
    /// `struct bpf_link_info`: the common part and the union behind it (which begins at byte 16, as it is aligned to 8).
    LinkInfo (80) { kind: u32, id: u32, prog_id: u32, pad: u32, with: [u64; 8], }
}

/// bpf(2). The answer is what the kernel returned: a file descriptor or zero.
///
/// # Safety
/// Every address in `argument` must be valid for what `command` reads or writes there, for as long as the call lasts.
pub(crate) unsafe fn call<A: Pod>(command: Command, argument: &mut A) -> Result<i32, Errno> {
    // SAFETY: `argument` is `size_of::<A>()` initialised bytes (`Pod`) that the kernel may write to; the addresses in it are the
    // caller's promise.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_long,
            std::ptr::from_mut(argument),
            size_of::<A>(),
        )
    };
    if answer < 0 {
        Err(Errno::last())
    } else {
        Ok(answer as i32)
    }
}

/// bpf(2) for the commands that answer with a new file descriptor (the kernel sets close-on-exec on it).
///
/// # Safety
/// As [`call`]; and `command` must be one that returns a new file descriptor.
pub(crate) unsafe fn call_for_fd<A: Pod>(command: Command, argument: &mut A) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller's promise.
    let fd = unsafe { call(command, argument)? };
    // SAFETY: the kernel has just opened this descriptor for us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A name as the kernel accepts it: 15 bytes of letters, digits, `.` and `_`, the rest zero.
pub(crate) fn object_name(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, from) in bytes[..15].iter_mut().zip(name.bytes()) {
        *to = if from.is_ascii_alphanumeric() || from == b'.' {
            from
        } else {
            b'_'
        };
    }
    bytes
}

/// The text before the first zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_and_cleaned() {
        assert_eq!(text(&object_name("a-very long.name_indeed")), "a_very_long.nam");
        assert_eq!(object_name("x")[15], 0);
    }

    #[test]
    fn numbers_print_as_the_kernel_spells_them() {
        assert_eq!(MapKind::PERCPU_ARRAY.to_string(), "percpu_array");
        assert_eq!(ProgramType(999).to_string(), "number 999");
    }
}
