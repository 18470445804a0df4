//! Packets that programs hand over (`skboutput`): through a perf event array, because the kernel copies packets to nothing else.

/// The array's name.
pub const MAP: &str = "packets";
/// Bytes before a packet's own: which of [`Packets`] it is for, when it was handed over (the clock of `bpf_ktime_get_ns`, ns), and how many bytes of it there are
/// (behind those a few may follow that are none of its), each in eight bytes.
pub const HEAD: usize = 24;

/// Destination of packets sent to the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packets {
    /// The path of the pcap file.
    pub path: String,
    /// Bytes at the begin of each that are left out: headers below IP.
    pub offset: u64,
}
