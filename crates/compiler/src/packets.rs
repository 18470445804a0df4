//! Packets that programs hand over (`skboutput`): through a perf event array, because the kernel copies packets to nothing else.

/// The array's name.
pub const MAP: &str = "packets";
/// Bytes before a packet's own: which of [`Packets`] it is for, and when it was handed over (the clock of `bpf_ktime_get_ns`, ns), each in eight bytes.
pub const HEAD: usize = 16;

/// Where packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packets {
    /// The file.
    pub path: String,
    /// Bytes at the begin of each that are left out: headers below IP.
    pub skipped: u64,
}
