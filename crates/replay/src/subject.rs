//! Subjects of a program over a recording: a record, or a moment between records.

use kestrel_trace::layout::{FieldType, Space};
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use kestrel_trace::value::Value;

/// An event, as much as programs can ask about it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The record that happened; nothing for the events of the program itself.
    pub record: Option<Record<'a>>,
    /// ns of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Names of threads at that time.
    pub processes: &'a Processes,
    /// The process that runs the program, for the events of the program itself.
    own: u32,
}

/// The name of the task that runs where no event has one.
const OWN: &str = "kestrel";

impl<'a> Subject<'a> {
    /// The subject of a record.
    pub fn of(record: Record<'a>, processes: &'a Processes) -> Self {
        Self {
            record: Some(record),
            time_ns: record.time_ns,
            processes,
            own: 0,
        }
    }

    /// A moment of the program's own, in the process of this number.
    pub fn at(time_ns: u64, processes: &'a Processes, own: u32) -> Self {
        Self {
            record: None,
            time_ns,
            processes,
            own,
        }
    }

    pub(crate) fn cpu(&self) -> u32 {
        self.record.map_or(0, |record| record.cpu)
    }

    /// The process; at moments of the program's own the one that runs it.
    pub(crate) fn pid(&self) -> u32 {
        self.record.map_or(self.own, |record| record.pid)
    }

    /// Process and thread as the kernel's helper gives them.
    pub(crate) fn pid_tgid(&self) -> u64 {
        let tid = self.record.map_or(self.own, |record| record.tid);
        u64::from(self.pid()) << 32 | u64::from(tid)
    }

    /// The thread's name: the idle task of a CPU has the kernel's for it. At most 15 bytes.
    pub(crate) fn comm(&self) -> [u8; 16] {
        let mut comm = [0; 16];
        let mut put = |name: &[u8]| {
            for (to, byte) in comm.iter_mut().take(15).zip(name) {
                *to = *byte;
            }
        };
        match self.record {
            None => put(OWN.as_bytes()),
            Some(record) if record.tid == 0 => put(format!("swapper/{}", record.cpu).as_bytes()),
            Some(record) => put(self
                .processes
                .name_bytes(record.tid, record.pid)
                .unwrap_or_default()),
        }
        comm
    }

    /// The name of another thread, by its number. The idle tasks, which are one for each CPU, have none by theirs.
    pub(crate) fn name_of(&self, thread: u32) -> Option<&'a [u8]> {
        (thread != 0)
            .then(|| self.processes.name_bytes(thread, thread))
            .flatten()
    }

    /// The number that the record has in a field; 0 where there is no such field.
    pub(crate) fn field(&self, name: &str) -> u64 {
        let value = self.record.and_then(|record| record.get(name));
        value.and_then(|value| value.as_u64()).unwrap_or(0)
    }

    /// The frames of the stack that was recorded with the event, innermost first.
    pub(crate) fn frames(&self, space: Space) -> Option<impl Iterator<Item = u64> + use<'a>> {
        let record = self.record?;
        let fields = record.event.layout.fields();
        let field = fields.iter().find(|field| is_stack_of(&field.ty, space))?;
        match record.value(field) {
            Value::Stack(frames) => Some(frames.iter()),
            _ => None,
        }
    }
}

/// Whether a field's values are stacks in a space.
pub(crate) fn is_stack_of(ty: &FieldType, space: Space) -> bool {
    match ty {
        FieldType::Stack { space: own, .. } => *own == space,
        FieldType::StackCopy { .. } => space == Space::User,
        _ => false,
    }
}
