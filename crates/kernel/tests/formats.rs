//! The formats of every event of the kernel that runs the tests, held against each other and against what other files say; skips without tracefs.

use kestrel_kernel::tracefs::{LabelKind, Location, Tracefs};
use kestrel_kernel::{Errno, Host};

fn tracefs() -> Option<Tracefs> {
    let tracefs = Tracefs::open(&Host::default()).and_then(|tracefs| tracefs.events().map(|_| tracefs));
    tracefs.map_err(|error| println!("skipped: {error}")).ok()
}

#[test]
fn every_format_is_understood_and_its_fields_do_not_overlap() {
    let Some(tracefs) = tracefs() else { return };
    let mut seen = 0;
    for event in tracefs.events().unwrap() {
        let format = match tracefs.format(&event.group, &event.name) {
            // Dynamic events come and go.
            Err(error) if error.errno().and_then(Errno::name) == Some("ENOENT") => continue,
            format => format.unwrap(),
        };
        seen += 1;
        assert_eq!(format.name, event.name);
        if let Ok(id) = tracefs.event_id(&event.group, &event.name) {
            assert_eq!(id, format.id);
        }
        let mut fields: Vec<_> = format.common.iter().chain(&format.fields).collect();
        fields.sort_by_key(|field| field.offset);
        for pair in fields.windows(2) {
            assert!(
                pair[0].offset + pair[0].size <= pair[1].offset,
                "{event:?}: {pair:?}"
            );
        }
        for field in fields {
            assert!(
                !field.name.is_empty() && !field.type_text.is_empty(),
                "{event:?}: {field:?}"
            );
            if field.location != Location::Inline {
                assert_eq!(field.size, 4, "{event:?}: {field:?}");
            } else if let Some(len) = field.array_len.filter(|len| *len > 0) {
                assert_eq!(field.size % len, 0, "{event:?}: {field:?}");
            }
        }
    }
    assert!(seen > 100, "only {seen} events");
}

#[test]
fn well_known_values_have_their_names() {
    let Some(tracefs) = tracefs() else { return };
    let switch = tracefs.format("sched", "sched_switch").unwrap();
    assert_eq!(switch.field("prev_comm").unwrap().array_len, Some(16));
    let state = switch.labels("prev_state").unwrap();
    assert_eq!(
        state.kind,
        LabelKind::Flags {
            delimiter: "|".into()
        }
    );
    // TASK_INTERRUPTIBLE and TASK_UNINTERRUPTIBLE have been 1 and 2 for ever.
    assert_eq!(state.rows[..2], [(1, "S".into()), (2, "D".into())]);
    let softirq = tracefs
        .format("irq", "softirq_entry")
        .unwrap()
        .labels("vec")
        .unwrap();
    assert_eq!(
        (softirq.kind, softirq.rows[1].clone()),
        (LabelKind::Symbolic, (1, "TIMER".into()))
    );
}
