//! Arguments of perf_event_open(2) and its ioctls: `struct perf_event_attr`, and the numbers of its fields.

use bytemuck::{Pod, Zeroable};

/// `struct perf_event_attr` up to version 7 (120 bytes; the kernel takes shorter and zero-tailed longer ones).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Attributes {
    pub(super) kind: u32,
    pub(super) size: u32,
    pub(super) config: u64,
    pub(super) sample_period: u64,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) flags: u64,
    pub(super) wakeup: u32,
    pub(super) breakpoint: u32,
    pub(super) config1: u64,
    pub(super) config2: u64,
    pub(super) branch_sample_type: u64,
    pub(super) sample_regs_user: u64,
    pub(super) sample_stack_user: u32,
    pub(super) clockid: i32,
    pub(super) sample_regs_intr: u64,
    pub(super) aux_watermark: u32,
    pub(super) sample_max_stack: u16,
    pub(super) reserved: u16,
    pub(super) aux_sample_size: u32,
    pub(super) reserved2: u32,
}

const _: () = assert!(size_of::<Attributes>() == 120);

pub(super) const TYPE_SOFTWARE: u32 = 1;

pub(super) const TYPE_TRACEPOINT: u32 = 2;

pub(super) const TYPE_BREAKPOINT: u32 = 5;

/// `PERF_SAMPLE_RAW`.
pub(super) const SAMPLE_RAW: u64 = 1 << 10;

/// `PERF_FORMAT_LOST`: the number of lost events follows the count.
pub(super) const FORMAT_LOST: u64 = 1 << 4;

/// `PERF_FLAG_FD_CLOEXEC`.
pub(super) const FLAG_CLOEXEC: u64 = 8;

/// `PERF_SAMPLE_TIME`.
pub(super) const SAMPLE_TIME: u64 = 1 << 2;

/// Bits of `flags`, by the names of the kernel's bit fields.
pub(super) struct Flags {
    pub(super) disabled: u64,
    pub(super) inherit: u64,
    pub(super) mmap: u64,
    pub(super) comm: u64,
    pub(super) task: u64,
    pub(super) watermark: u64,
    pub(super) sample_id_all: u64,
    pub(super) mmap2: u64,
    pub(super) comm_exec: u64,
    pub(super) use_clockid: u64,
    pub(super) inherit_thread: u64,
}

pub(super) const FLAGS: Flags = Flags {
    disabled: 1 << 0,
    inherit: 1 << 1,
    mmap: 1 << 8,
    comm: 1 << 9,
    task: 1 << 13,
    watermark: 1 << 14,
    sample_id_all: 1 << 18,
    mmap2: 1 << 23,
    comm_exec: 1 << 24,
    use_clockid: 1 << 25,
    inherit_thread: 1 << 35,
};

pub(super) const IOC_ENABLE: u64 = 0x2400;

/// `_IOW('$', 4, __u64)`.
pub(super) const IOC_PERIOD: u64 = 0x4008_2404;

pub(super) const IOC_DISABLE: u64 = 0x2401;

pub(super) const IOC_SET_BPF: u64 = 0x4004_2408;
