//! A task as the scheduler's events name it: its number, its process and its name.

use crate::print::shown_bytes;
use crate::value::Value;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// A task's name as the kernel keeps it: 16 bytes, ended by a NUL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Comm([u8; 16]);

impl Comm {
    /// The name of what runs where nothing else does.
    pub(super) const IDLE: Self = Self(*b"<idle>\0\0\0\0\0\0\0\0\0\0");

    /// The first 16 bytes of a name.
    pub fn new(name: &[u8]) -> Self {
        let mut bytes = [0; 16];
        let length = name.len().min(bytes.len());
        bytes[..length].copy_from_slice(&name[..length]);
        Self(bytes)
    }

    /// The name in a field; none where the field is no text.
    pub(super) fn of(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(name) => Some(Self::new(name)),
            _ => None,
        }
    }

    /// The name as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes())
    }

    /// The name as lines for people show it.
    pub fn shown(&self) -> Cow<'_, str> {
        shown_bytes(self.bytes())
    }

    fn bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        &self.0[..end.unwrap_or(self.0.len())]
    }
}

/// Identity of a task: its thread and name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Who {
    /// Number of the thread.
    pub tid: u32,
    /// Process; that of the thread's number where no record said.
    pub pid: u32,
    /// Name of the thread.
    pub comm: Comm,
}

impl Who {
    /// Whether it is the idle task of a CPU.
    pub fn is_idle(&self) -> bool {
        self.tid == 0
    }

    /// `comm:tid`, as `perf sched latency` and `map` name tasks.
    pub fn short(&self) -> String {
        format!("{}:{}", self.comm.shown(), self.tid)
    }

    /// `comm[tid]`, `comm[tid/pid]` of a thread that does not lead its process, as `perf sched timehist` names tasks; the idle tasks have no number.
    pub fn long(&self) -> String {
        let comm = self.comm.shown();
        match (self.tid, self.pid) {
            (0, _) => comm.into_owned(),
            (tid, pid) if tid == pid => format!("{comm}[{tid}]"),
            (tid, pid) => format!("{comm}[{tid}/{pid}]"),
        }
    }
}

impl Serialize for Who {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Who", 3)?;
        fields.serialize_field("comm", &self.comm.text())?;
        fields.serialize_field("pid", &self.pid)?;
        fields.serialize_field("tid", &self.tid)?;
        fields.end()
    }
}
