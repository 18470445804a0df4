//! Events with their fields, a column for each; where there are too many, every second of the most frequent event goes, again and again.

use super::columns::Columns;
use super::strings::Strings;
use crate::event::EventClass;
use crate::layout::{Base, FieldType};
use crate::print;
use crate::record::Record;
use crate::symbol::Symbols;
use crate::value::Value;
use serde_json::{Value as Json, json};

/// Elements of an array that have columns of their own; longer ones are strings.
const ELEMENTS: u32 = 8;

/// Events of all classes.
#[derive(Debug)]
pub(super) struct Events {
    /// The event classes, at the index that is the event's number.
    classes: Vec<Option<Class>>,
    kept: usize,
    most: usize,
}

/// The events of a class.
#[derive(Debug)]
struct Class {
    name: String,
    /// The kind in `kestrel list`: tracepoint, kprobe, …
    kind: String,
    fields: Vec<Column>,
    has_stacks: bool,
    seen: u64,
    /// Of so many events one is kept.
    stride: u64,
    rows: Vec<Row>,
}

/// A row of the columns that all events have.
#[derive(Clone, Copy, Debug)]
struct Row {
    time_ns: u64,
    cpu: u32,
    thread: u32,
    /// 1 + the node of its stack; 0 where it has none.
    stack: u32,
}

/// Values of a field.
#[derive(Debug)]
struct Column {
    name: String,
    /// The place among the event's fields, and the element of an array.
    field: usize,
    element: Option<usize>,
    words: Words,
    values: Vec<u64>,
}

/// Form of a field's values in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Words {
    Signed,
    Unsigned,
    Hexadecimal,
    /// Indices of strings.
    Text,
}

impl Words {
    fn of(ty: &FieldType) -> Self {
        match *ty {
            FieldType::Integer {
                base: Base::Decimal,
                signed,
                ..
            } if signed => Self::Signed,
            FieldType::Integer {
                base: Base::Decimal, ..
            } => Self::Unsigned,
            FieldType::Integer {
                base: Base::Hexadecimal,
                ..
            }
            | FieldType::Pointer { symbolic: false } => Self::Hexadecimal,
            _ => Self::Text,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Signed | Self::Unsigned => "number",
            Self::Hexadecimal => "hexadecimal",
            Self::Text => "text",
        }
    }
}

impl Events {
    /// A collection without elements yet, of so many at most.
    pub(super) fn new(most: usize) -> Self {
        Self {
            classes: Vec::new(),
            kept: 0,
            most,
        }
    }

    /// Whether events of this class have stacks, and the next one is kept: its stack is to be looked up.
    pub(super) fn wants_stack(&mut self, record: &Record<'_>) -> bool {
        let class = self.class(record.event);
        class.has_stacks && class.seen.is_multiple_of(class.stride)
    }

    /// Takes the next record in time.
    pub(super) fn add(
        &mut self,
        record: &Record<'_>,
        (thread, stack): (u32, u32),
        symbols: &Symbols,
        strings: &mut Strings,
    ) {
        let class = self.class(record.event);
        let wanted = class.seen.is_multiple_of(class.stride);
        class.seen += 1;
        if !wanted {
            return;
        }
        class.rows.push(Row {
            time_ns: record.time_ns,
            cpu: record.cpu,
            thread,
            stack,
        });
        for column in &mut class.fields {
            column.add(record, symbols, strings);
        }
        self.kept += 1;
        if self.kept > self.most {
            self.thin();
        }
    }

    fn class(&mut self, event: &EventClass) -> &mut Class {
        let id = usize::from(event.id.0);
        if self.classes.len() <= id {
            self.classes.resize_with(id + 1, || None);
        }
        self.classes[id].get_or_insert_with(|| Class::new(event))
    }

    /// Gives up every second event of the class with the most.
    fn thin(&mut self) {
        let classes = self.classes.iter_mut().flatten();
        if let Some(class) = classes.max_by_key(|class| class.rows.len()) {
            let before = class.rows.len();
            every_second(&mut class.rows);
            class
                .fields
                .iter_mut()
                .for_each(|column| every_second(&mut column.values));
            class.stride *= 2;
            self.kept -= before - class.rows.len();
        }
    }

    /// The events in columns, in order of time; gives what is to be said of their classes.
    pub(super) fn finish(self, columns: &mut Columns) -> Json {
        let classes: Vec<Class> = self.classes.into_iter().flatten().collect();
        let mut order: Vec<(u64, u32, u32)> = Vec::with_capacity(self.kept);
        for (place, class) in (0..).zip(&classes) {
            let rows = (0..).zip(&class.rows);
            order.extend(rows.map(|(row, it)| (it.time_ns, place, row)));
        }
        order.sort_unstable();
        let rows = order
            .iter()
            .map(|(_, class, row)| &classes[*class as usize].rows[*row as usize]);
        columns.rising("event.time", order.iter().map(|(time, _, _)| *time));
        columns.numbers(
            "event.class",
            order.iter().map(|(_, class, _)| i128::from(*class)),
        );
        columns.numbers("event.cpu", rows.clone().map(|row| row.cpu.into()));
        columns.numbers("event.thread", rows.clone().map(|row| row.thread.into()));
        columns.numbers("event.stack", rows.map(|row| row.stack.into()));
        let mut described = Vec::new();
        for (place, class) in classes.iter().enumerate() {
            let mut fields = Vec::new();
            for (index, column) in class.fields.iter().enumerate() {
                let name = format!("field.{place}.{index}");
                columns.numbers(&name, column.values.iter().map(|value| column.number(*value)));
                fields.push(json!({
                    "name": column.name, "column": name, "words": column.words.name(), "element": column.element,
                }));
            }
            described.push(json!({
                "name": class.name, "kind": class.kind, "count": class.seen, "stride": class.stride,
                "stacks": class.has_stacks, "fields": fields,
            }));
        }
        described.into()
    }
}

fn every_second<T>(values: &mut Vec<T>) {
    let mut index = 0;
    values.retain(|_| {
        index += 1;
        index % 2 == 1
    });
}

impl Class {
    fn new(event: &EventClass) -> Self {
        let mut fields = Vec::new();
        let mut has_stacks = false;
        for (place, field) in event.layout.fields().iter().enumerate() {
            if !event.layout.shown().any(|shown| shown == field) {
                continue;
            }
            if field.ty.is_stack() {
                has_stacks = true;
                continue;
            }
            let column = |element, words| Column {
                name: field.name.clone(),
                field: place,
                element,
                words,
                values: Vec::new(),
            };
            match &field.ty {
                FieldType::Array { element, count }
                    if *count <= ELEMENTS && Words::of(element) != Words::Text =>
                {
                    let words = Words::of(element);
                    fields.extend((0..*count as usize).map(|at| column(Some(at), words)));
                }
                ty => fields.push(column(None, Words::of(ty))),
            }
        }
        Self {
            name: event.name.clone(),
            kind: event.kind.clone(),
            fields,
            has_stacks,
            seen: 0,
            stride: 1,
            rows: Vec::new(),
        }
    }
}

impl Column {
    fn add(&mut self, record: &Record<'_>, symbols: &Symbols, strings: &mut Strings) {
        let field = record.event.layout.fields().get(self.field);
        let value = field.map_or(Value::Missing, |field| record.value(field));
        let number = match (self.words, self.element, value) {
            (Words::Text, _, value) => {
                let mut text = Vec::new();
                print::value(value, symbols, &mut text);
                u64::from(strings.number(&String::from_utf8_lossy(&text)))
            }
            (_, Some(at), Value::Array(elements)) => elements
                .iter()
                .nth(at)
                .and_then(|element| element.as_u64())
                .unwrap_or(0),
            (_, _, value) => value.as_u64().unwrap_or(0),
        };
        self.values.push(number);
    }

    fn number(&self, value: u64) -> i128 {
        match self.words {
            Words::Signed => value.cast_signed().into(),
            Words::Unsigned | Words::Hexadecimal | Words::Text => value.into(),
        }
    }
}
