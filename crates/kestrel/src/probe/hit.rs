//! A hit of a probe, decoded, as it is given to a closure.

use super::{Registers, Value};
use std::fmt;
use std::time::{Duration, SystemTime};

/// Phase of a hit, relative to the instruction or function that is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Before the instruction ran (`pre_handler` of `struct kprobe`), or at a function's entry.
    Pre,
    /// After the instruction ran (`post_handler`).
    Post,
    /// The instruction faulted (`fault_handler`, which the kernel had until 5.13).
    Fault,
    /// A function was called, with its parameters (`struct jprobe`, which the kernel had until 4.15).
    Call,
    /// A function returned (`handler` of `struct kretprobe`).
    Return,
    /// The kernel passed a tracepoint.
    Event,
}

/// A frame of the call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The address of the instruction, or the return address.
    pub address: u64,
    /// `symbol+0xOFFSET`, where `/proc/kallsyms` says it.
    pub symbol: Option<String>,
}

/// A hit of a probe.
///
/// Which of its parts are present depends on what the probe's handler records. The default handlers, for a probe with a closure and no text, record all
/// that the kind of probe has; any other handler records what its text says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Hit {
    /// The probe's place among those registered together, from 0.
    pub probe: usize,
    /// The event: `kprobe:vfs_read+0x12:post`. Of a probe with a pattern, the function that was hit.
    pub event: String,
    /// Before, after, …
    pub phase: Phase,
    /// The time since the machine was started, without suspension (`CLOCK_MONOTONIC`), in ns.
    pub when: Duration,
    /// The time as wall-clock time, by the clock's offset when the probe was registered.
    pub time: SystemTime,
    /// The CPU.
    pub cpu: u32,
    /// The process, as user space numbers it (thread group).
    pub pid: u32,
    /// The thread that was running.
    pub tid: u32,
    /// The thread's name, at the hit where the handler records it, else when the hit was read; empty where the thread was gone then.
    pub comm: String,
    /// The registers, where the handler records them (`record(regs)`).
    pub registers: Option<Registers>,
    /// The function's arguments by name (of a fault: `address`, `trap`, `error_code`; of a tracepoint its fields), as far as the handler records them.
    pub arguments: Vec<(String, Value)>,
    /// The kernel's call stack, innermost first, where the handler records it ([`with_stack`](super::Kprobe::with_stack)).
    pub stack: Vec<Frame>,
    /// The other fields of the handler, under the names it gives: `retval`, entry data, `name = value`.
    pub fields: Vec<(String, Value)>,
}

impl Hit {
    /// An argument or field by its name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let mut all = self.fields.iter().chain(&self.arguments);
        all.find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Return value of a function, as a signed integer: negative ones are mostly `-errno`.
    pub fn returned(&self) -> Option<i64> {
        self.get("retval").and_then(Value::as_i64)
    }
}

/// Writes one line like those of `kestrel trace`; registers and stack on lines of their own beneath it, without a line feed at the end.
impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = (self.when.as_secs(), self.when.subsec_micros());
        write!(
            f,
            "{}-{} [{:03}] {}.{:06}: {}:",
            self.comm, self.tid, self.cpu, when.0, when.1, self.event
        )?;
        for (name, value) in self.arguments.iter().chain(&self.fields) {
            write!(f, " {name}={value}")?;
        }
        if let Some(registers) = &self.registers {
            write!(f, "\n{registers}")?;
        }
        for Frame { address, symbol } in &self.stack {
            write!(f, "\n{address:>24x} {}", symbol.as_deref().unwrap_or("?"))?;
        }
        Ok(())
    }
}
