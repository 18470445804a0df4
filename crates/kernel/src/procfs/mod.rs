//! What /proc and its like say about processors, time, processes and configuration; not symbols (`kallsyms`), not privilege.

mod cpu;

pub use cpu::{CpuList, possible_cpus};
