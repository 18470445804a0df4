//! The kinds of maps (`enum bpf_map_type`) that need special treatment in declarations.

pub(super) const ARRAY: u32 = 2;
const PROG_ARRAY: u32 = 3;
const PERF_EVENT_ARRAY: u32 = 4;
const CGROUP_ARRAY: u32 = 8;
const ARRAY_OF_MAPS: u32 = 12;
const HASH_OF_MAPS: u32 = 13;

/// Whether the values of such a map are maps.
pub(super) fn is_of_maps(kind: u32) -> bool {
    matches!(kind, ARRAY_OF_MAPS | HASH_OF_MAPS)
}

/// Size in bytes that libbpf gives keys whose size is not declared: arrays of file descriptors are indexed by 32-bit numbers.
pub(super) fn default_key_size(kind: u32) -> u32 {
    match kind {
        PROG_ARRAY | PERF_EVENT_ARRAY | CGROUP_ARRAY => 4,
        _ => 0,
    }
}

/// Size in bytes that libbpf gives values whose size is not declared: where they are file descriptors.
pub(super) fn default_value_size(kind: u32) -> u32 {
    match kind {
        PROG_ARRAY | PERF_EVENT_ARRAY | CGROUP_ARRAY | ARRAY_OF_MAPS | HASH_OF_MAPS => 4,
        _ => 0,
    }
}
