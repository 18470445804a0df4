//! A recorded event to programs: its context for the compiler, and a record's bytes as that context says they lie.
//!
//! ```text
//!   the record up to its tail | for each string or memory of the tail a u32 as of `__data_loc` | a NUL | strings, each with a NUL, and memory
//! ```

use kestrel_compiler::context::{Context, EventField, Features, Source, ValueType};
use kestrel_trace::event::EventClass;
use kestrel_trace::layout::{Field, FieldPlace, FieldType, Layout};
use kestrel_trace::record::Record;
use kestrel_trace::value::Value;

/// Unpacking of a class's records into the layout that programs read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unpacking {
    /// Bytes that are taken as they are.
    fixed: usize,
    /// Places of the strings and the memory of the tail among the fields.
    located: Vec<usize>,
}

/// Arguments that have numbers in the language.
const MAX_ARGUMENTS: usize = 10;
/// Why a field cannot be had whose values programs have no type for.
const UNREADABLE: &str = "its kind of value is none that programs over recordings have";
/// The greatest length of the tail that a program has: an offset of it is 16 bits.
const MAX: usize = 0xffff;
/// Most bytes of memory, as of the language's `buf`.
const MAX_MEMORY: u32 = 1023;

/// The context of an event class.
pub fn context(event: &EventClass) -> Context {
    let layout = &event.layout;
    let mut context = Context::recorded(event, |index, field| Some(value(layout, index, field)));
    context.features = features();
    context.fields.retain(|field| !is_stack(layout, &field.name));
    let by_name = |name: &str| context.fields.iter().find(|field| field.name == name);
    let numbered = (0..MAX_ARGUMENTS).map(|place| word(by_name(&format!("arg{place}"))?));
    let numbered: Vec<Option<Source>> = numbered.collect();
    let count = numbered
        .iter()
        .rposition(Option::is_some)
        .map_or(0, |last| last + 1);
    let numbered = numbered.into_iter().take(count).enumerate();
    context.arguments = numbered
        .map(|(place, source)| source.unwrap_or_else(|| unrecorded_argument(event, place)))
        .collect();
    context.return_value = by_name("retval").or(by_name("ret")).cloned();
    context
}

/// The argument of this number where it was not recorded: it is refused by name.
pub fn unrecorded_argument(event: &EventClass, place: usize) -> Source {
    Source::Absent {
        why: format!("it was not recorded with {}", event.name),
        instead: Some(advice(&event.name, &format!("arg{place}"))),
    }
}

/// How a value would be recorded with an event.
pub fn advice(event: &str, value: &str) -> String {
    format!("record it: kestrel record -e '{event} {{ record(args, {value}) }}'")
}

/// The value in a hint that is an [`advice`] about this event.
#[must_use]
pub fn advised<'h>(hint: &'h str, event: &str) -> Option<&'h str> {
    let own = advice(event, "\0");
    let (before, behind) = own.split_once('\0')?;
    hint.strip_prefix(before)?.strip_suffix(behind)
}

/// Features of programs over recordings.
pub fn features() -> Features {
    Features {
        probe_read_kernel: true,
        counted_reads: true,
        ..Features::default()
    }
}

/// The source of a field that is a word, which arguments by number are.
fn word(field: &EventField) -> Option<Source> {
    match &field.source {
        source @ Source::Context { size: 8, .. } => Some(source.clone()),
        _ => None,
    }
}

fn is_stack(layout: &Layout, name: &str) -> bool {
    let mut fields = layout.fields().iter();
    fields.any(|field| field.name == name && field.ty.is_stack())
}

fn value(layout: &Layout, index: usize, field: &Field) -> (ValueType, Source) {
    let absent = |why: &str| {
        let source = Source::Absent {
            why: why.to_owned(),
            instead: None,
        };
        (ValueType::Pointer { user: false }, source)
    };
    let location = || {
        let before = located(layout).filter(|place| *place < index).count() as u32;
        Source::DataLocation {
            offset: location_table(layout) as u32 + 4 * before,
        }
    };
    match (&field.place, &field.ty) {
        (_, FieldType::String { .. }) => (ValueType::String, location()),
        (_, FieldType::Bytes { max }) => {
            let max = (*max).clamp(1, MAX_MEMORY);
            (ValueType::Memory { max }, location())
        }
        (&FieldPlace::Fixed { offset }, ty) => {
            let Some(known) = ValueType::recorded(ty) else {
                return absent(match ty {
                    FieldType::Float { .. } => {
                        "it is a floating-point number, and programs have integers (`print` and exports show it)"
                    }
                    _ => UNREADABLE,
                });
            };
            let bytes = ty.fixed_size();
            let source = match known {
                ValueType::CharArray { .. } | ValueType::Array { .. } => {
                    Source::ContextArray { offset, bytes }
                }
                _ => Source::Context {
                    offset,
                    size: bytes as u8,
                },
            };
            (known, source)
        }
        _ => absent(UNREADABLE),
    }
}

/// Where the words are that say where strings and memory lie.
fn location_table(layout: &Layout) -> usize {
    (layout.fixed_end() as usize).next_multiple_of(8)
}

/// The places of the strings and the memory of the tail among the fields.
fn located(layout: &Layout) -> impl Iterator<Item = usize> {
    let is_located = |ty: &FieldType| matches!(ty, FieldType::String { .. } | FieldType::Bytes { .. });
    let fields = layout.fields().iter().enumerate();
    let located = fields.filter(move |(_, field)| is_located(&field.ty));
    located.map(|(index, _)| index)
}

impl Unpacking {
    /// Unpacking of an event class.
    pub(crate) fn new(layout: &Layout) -> Self {
        Self {
            fixed: location_table(layout),
            located: located(layout).collect(),
        }
    }

    /// Puts a record where programs find it.
    #[inline]
    pub(crate) fn unpack(&self, record: &Record<'_>, into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(record.bytes.get(..self.fixed).unwrap_or(record.bytes));
        if self.located.is_empty() {
            return;
        }
        // A value that has no room is as empty as the NUL behind the table.
        let table = self.fixed + 4 * self.located.len();
        into.resize(table + 1, 0);
        for (number, &index) in self.located.iter().enumerate() {
            let field = record.event.layout.fields().get(index);
            let bytes = match field.map(|field| record.value(field)) {
                Some(Value::Text(bytes) | Value::CutText(bytes)) => bytes,
                _ => &[],
            };
            // A text's length is with its NUL, which stands behind memory, too.
            let is_text = field.is_some_and(|field| matches!(field.ty, FieldType::String { .. }));
            let begin = into.len();
            let (begin, bytes) = match begin + bytes.len() < MAX {
                true => (begin, bytes),
                false => (table, &[][..]),
            };
            let location = begin as u32 | (bytes.len() as u32 + u32::from(is_text)) << 16;
            let at = self.fixed + 4 * number;
            if let Some(word) = into.get_mut(at..at + 4) {
                word.copy_from_slice(&location.to_le_bytes());
            }
            into.extend_from_slice(bytes);
            into.push(0);
        }
    }
}
