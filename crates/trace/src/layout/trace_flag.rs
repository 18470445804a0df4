//! The bits of `common_flags` in tracefs's entries (`enum trace_flag_type` in include/linux/trace_events.h), and one of ours.

/// Interrupts were off.
pub const IRQS_OFF: u64 = 0x01;
/// Rescheduling was needed.
pub const NEED_RESCHED: u64 = 0x04;
/// In a hard interrupt.
pub const HARDIRQ: u64 = 0x08;
/// In a soft interrupt.
pub const SOFTIRQ: u64 = 0x10;
/// In a non-maskable interrupt.
pub const NMI: u64 = 0x40;
/// Soft interrupts were off.
pub const BH_OFF: u64 = 0x80;
/// Whether interrupts were off is not known; the kernel has no such bit.
pub const IRQS_UNKNOWN: u64 = 0x100;
