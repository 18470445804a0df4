//! Readers of /proc and its like: processors, time, processes and the machine; not symbols (`kallsyms`), not privilege.

mod clock;
mod cpu;
mod current_call;
mod files;
mod identity;
mod locks;
mod machine;
mod task;
mod text;

pub use clock::{ClockPair, atomic_time, boottime, monotonic, realtime};
pub use cpu::{CpuList, cpu_online_id, online_cpus, possible_cpus};
pub use current_call::{CurrentCall, current_call};
pub use files::{OpenFiles, open_files};
pub use identity::ProcessIdentity;
pub use locks::holder;
pub use machine::{
    KernelConfig, Lockdown, available_memory, boot_id, bpf_stats_enabled, config, hostname, kernel_release,
    kernel_version, lockdown, page_frames, perf_event_paranoid, total_memory, version_code,
};
pub use task::{
    Mapped, Permissions, comm, comm_bytes, command_line, executable, is_in_background, is_stopped, maps,
    parent, processes, start_time, threads,
};
pub use text::text;
