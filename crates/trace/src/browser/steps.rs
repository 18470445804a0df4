//! Spans of programs, as the layer of `kestrel-tracing` records them: `span_begin` has a span's fields, `span_enter` and `span_exit` are a thread's entry and
//! exit, `span_end` closes the span.

use crate::event::EventClass;
use crate::print;
use crate::record::Record;
use crate::symbol::Symbols;
use std::collections::HashMap;

/// Kind of a span's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begin,
    Enter,
    Exit,
    End,
}

/// Suffixes of the names of these events, whichever way they were recorded: `usdt:./shop:tracing:span_enter`, `user_events:…`.
const STEPS: [(&str, Step); 4] = [
    ("tracing:span_begin", Step::Begin),
    ("tracing:span_enter", Step::Enter),
    ("tracing:span_exit", Step::Exit),
    ("tracing:span_end", Step::End),
];

/// A span by its process and number.
type SpanId = (u32, u64);

/// Spans that are open.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// By event number.
    events: HashMap<u16, Step>,
    /// The fields of open spans, as text.
    fields: HashMap<SpanId, String>,
    /// When a thread entered a span.
    entered: HashMap<(u32, SpanId), u64>,
}

/// A time that a thread was in a span.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InSpan {
    pub(super) begin_ns: u64,
    pub(super) name: String,
    /// The name and the fields.
    pub(super) text: String,
}

impl Steps {
    /// The spans of a trace with these events.
    pub(super) fn new(events: &[EventClass]) -> Self {
        let step = |event: &EventClass| {
            let (_, step) = STEPS.iter().find(|(name, _)| event.name.ends_with(name))?;
            Some((event.id.0, *step))
        };
        Self {
            events: events.iter().filter_map(step).collect(),
            ..Self::default()
        }
    }

    /// Whether the trace has none.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Takes a record; gives what the thread was in, where it leaves a span that it was seen to enter.
    pub(super) fn record(&mut self, record: &Record<'_>) -> Option<InSpan> {
        let step = *self.events.get(&record.event.id.0)?;
        let id = (record.pid, value(record, "id")?.as_u64()?);
        match step {
            Step::Begin => _ = self.fields.insert(id, text(record, "fields")),
            Step::Enter => _ = self.entered.insert((record.tid, id), record.time_ns),
            Step::End => _ = self.fields.remove(&id),
            Step::Exit => {
                let begin_ns = self.entered.remove(&(record.tid, id))?;
                let name = text(record, "name");
                let about = self.fields.get(&id).map_or("", String::as_str);
                let text = format!("{name} {about}").trim_end().to_owned();
                return Some(InSpan { begin_ns, name, text });
            }
        }
        None
    }

    /// Notes that records were lost: a thread may have left what it was in.
    pub(super) fn lose(&mut self) {
        self.entered.clear();
    }
}

fn value<'a>(record: &Record<'a>, field: &str) -> Option<crate::value::Value<'a>> {
    let mut fields = record.event.layout.fields().iter();
    Some(record.value(fields.find(|it| it.name == field)?))
}

fn text(record: &Record<'_>, field: &str) -> String {
    let mut text = Vec::new();
    if let Some(value) = value(record, field) {
        print::value(value, &Symbols::default(), &mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventId;
    use crate::layout::{Base, FieldType, Layout};

    fn class(id: u16, name: &str, text: &str) -> EventClass {
        let number = FieldType::Integer {
            size: 8,
            signed: false,
            base: Base::Decimal,
        };
        let fields = [("id", number), (text, FieldType::CharArray { size: 8 })];
        EventClass {
            id: EventId(id),
            name: name.to_owned(),
            kind: "usdt".to_owned(),
            layout: Layout::new(fields.map(|(name, ty)| (name.to_owned(), ty))),
            action: None,
            print: None,
        }
    }

    #[test]
    fn threads_are_in_spans_from_enter_to_exit() {
        let events = [
            class(1, "usdt:./shop:tracing:span_begin", "fields"),
            class(2, "usdt:./shop:tracing:span_enter", "name"),
            class(3, "usdt:./shop:tracing:span_exit", "name"),
            class(4, "usdt:./shop:tracing:span_end", "name"),
            class(5, "sched:sched_switch", "name"),
        ];
        let mut steps = Steps::new(&events);
        assert!(!steps.is_empty() && Steps::new(&events[4..]).is_empty());
        let mut record = |event: usize, time_ns: u64, tid: u32, id: u64, text: &str| {
            let mut bytes = vec![0; 16];
            bytes.extend(id.to_le_bytes());
            bytes.extend(text.bytes().chain([0; 8]).take(8));
            steps.record(&Record {
                time_ns,
                cpu: 0,
                pid: 1,
                tid,
                event: &events[event - 1],
                bytes: &bytes,
                unwound: None,
                rest: &[],
            })
        };
        assert_eq!(record(1, 10, 1, 7, "user=7"), None);
        assert_eq!(record(2, 20, 1, 7, "buy"), None);
        // Another thread is in the same span meanwhile; a switch has fields of these names, too.
        assert_eq!(record(2, 25, 2, 7, "buy"), None);
        assert_eq!(record(5, 26, 1, 7, "buy"), None);
        let left = |begin_ns, text: &str| {
            Some(InSpan {
                begin_ns,
                name: "buy".to_owned(),
                text: text.to_owned(),
            })
        };
        assert_eq!(record(3, 30, 1, 7, "buy"), left(20, "buy user=7"));
        assert_eq!(record(3, 31, 1, 7, "buy"), None, "it was left already");
        assert_eq!(record(4, 32, 1, 7, "buy"), None);
        assert_eq!(record(3, 40, 2, 7, "buy"), left(25, "buy"));
        assert_eq!(record(2, 50, 1, 8, "buy"), None);
        steps.lose();
    }
}
