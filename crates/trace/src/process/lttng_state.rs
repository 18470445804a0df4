//! LTTng's record of each thread that runs when a session begins: names of threads that write no record themselves.

/// The event, as imports call it.
pub(super) const EVENT: &str = "lttng:lttng_statedump_process_state";
/// Its fields of the thread's number and name. `name` is no thread's name in other events.
pub(super) const FIELDS: (&str, &str) = ("tid", "name");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventClass, EventId};
    use crate::layout::{Base, FieldType, Layout};
    use crate::process::{Learner, Processes};
    use crate::record::Record;

    #[test]
    fn lttngs_state_of_the_threads_names_them() {
        let number = || FieldType::Integer {
            size: 4,
            signed: true,
            base: Base::Decimal,
        };
        let fields = [
            ("tid", number()),
            ("pid", number()),
            ("name", FieldType::CharArray { size: 16 }),
        ];
        let mut event = EventClass {
            id: EventId(1),
            name: EVENT.to_owned(),
            kind: "imported".to_owned(),
            layout: Layout::new(fields.map(|(name, ty)| (name.to_owned(), ty))),
            action: None,
            print: None,
        };
        let mut bytes = vec![0; event.layout.fixed_end() as usize];
        let place = |at: usize| event.layout.fields()[at].offset() as usize;
        let (tid, name) = (place(0), place(2));
        bytes[tid..tid + 4].copy_from_slice(&12_u32.to_le_bytes());
        bytes[name..name + 4].copy_from_slice(b"sshd");
        for (event_name, known) in [(EVENT, Some("sshd")), ("my:event", None)] {
            event.name = event_name.to_owned();
            let record = Record {
                time_ns: 1,
                cpu: 0,
                pid: 0,
                tid: 0,
                event: &event,
                bytes: &bytes,
                unwound: None,
                rest: &[],
            };
            let mut processes = Processes::default();
            Learner::default().learn(&record, &mut processes);
            assert_eq!(processes.name(12, 12), known, "{event_name}");
        }
    }
}
