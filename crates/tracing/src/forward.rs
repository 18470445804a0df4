//! Tracepoints as events of `tracing`: each has a callsite with its name and its fields, made when it is first forwarded.

use kestrel_tracepoint::{Event, Record, Registration, Value};
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use tracing_core::callsite::{Callsite, Identifier};
use tracing_core::field::{FieldSet, Value as TracingValue, display};
use tracing_core::metadata::Kind;
use tracing_core::subscriber::Interest;
use tracing_core::{Level, Metadata, callsite, dispatcher};

/// Fields of an event of `tracing` at most, its message among them.
const MAX: usize = 32;
/// The field in which `tracing` has an event's words.
const MESSAGE: &str = "message";
/// The group of this crate's own events: made of `tracing`'s, they would be echoes.
const OWN: &str = "tracing";

/// Makes an event of `tracing` of each record of the tracepoints that match a pattern (as in [`kestrel_tracepoint::matching`]), until the registrations are dropped: its name
/// is `group:name`, its target the group, its message the record's line, and its fields are the record's.
///
/// # Errors
/// When the code of the places that emit one cannot be changed.
pub fn forward(pattern: &str, level: Level) -> io::Result<Vec<Registration>> {
    let matching = kestrel_tracepoint::matching(pattern);
    let others = matching.into_iter().filter(|event| event.group() != OWN);
    let listen = |event: &'static Event| {
        let site = Site::of(event, level);
        event.listen(move |record| site.emit(record), i32::MIN)
    };
    others.map(listen).collect()
}

/// The callsite of a tracepoint.
struct Site {
    metadata: std::sync::OnceLock<Metadata<'static>>,
    /// The subscribers' last answer about their interest.
    interest: AtomicU8,
}

const NEVER: u8 = 0;
const SOMETIMES: u8 = 1;
const ALWAYS: u8 = 2;

impl Site {
    /// One for each tracepoint that is forwarded; never freed, because `tracing` keeps references to callsites.
    fn of(event: &'static Event, level: Level) -> &'static Self {
        let site: &'static Self = Box::leak(Box::new(Self {
            metadata: std::sync::OnceLock::new(),
            interest: AtomicU8::new(SOMETIMES),
        }));
        let names = event.fields().iter().map(|field| field.name);
        let names: Vec<&'static str> = std::iter::once(MESSAGE).chain(names).take(MAX).collect();
        let fields = FieldSet::new(Vec::leak(names), Identifier(site));
        let name: &'static str = String::leak(event.to_string());
        site.metadata
            .get_or_init(|| Metadata::new(name, event.group(), level, None, None, None, fields, Kind::EVENT));
        callsite::register(site);
        site
    }

    fn emit(&'static self, record: &Record<'_>) {
        let interest = self.interest.load(Ordering::Relaxed);
        let metadata = self.metadata();
        if interest == NEVER {
            return;
        }
        dispatcher::get_default(|subscriber| {
            if interest != ALWAYS && !subscriber.enabled(metadata) {
                return;
            }
            let set = metadata.fields();
            let mut named = set.iter();
            let Some(message) = named.next() else { return };
            let line = display(record);
            let values: Vec<Box<dyn TracingValue + '_>> = record.values().iter().map(boxed).collect();
            let fields: Vec<_> = named.collect();
            let mut all: [(&tracing_core::Field, Option<&dyn TracingValue>); MAX] = [(&message, None); MAX];
            all[0] = (&message, Some(&line));
            for ((place, field), value) in all[1..].iter_mut().zip(&fields).zip(&values) {
                *place = (field, Some(value.as_ref()));
            }
            subscriber.event(&tracing_core::Event::new(metadata, &set.value_set(&all)));
        });
    }
}

fn boxed<'a>(value: &'a Value<'a>) -> Box<dyn TracingValue + 'a> {
    match value {
        Value::Unsigned(value) => Box::new(*value),
        Value::Signed(value) => Box::new(*value),
        Value::Float(value) => Box::new(*value),
        Value::Bool(value) => Box::new(*value),
        Value::Text(text) => Box::new(*text),
        Value::Bytes(_) | Value::Elements(_) => Box::new(display(value)),
    }
}

impl Callsite for Site {
    fn set_interest(&self, interest: Interest) {
        let interest = match interest {
            interest if interest.is_never() => NEVER,
            interest if interest.is_always() => ALWAYS,
            _ => SOMETIMES,
        };
        self.interest.store(interest, Ordering::Relaxed);
    }

    fn metadata(&self) -> &Metadata<'_> {
        // It is there before anybody knows the site.
        self.metadata.get().unwrap_or(&NOWHERE)
    }
}

/// Stands for the metadata of a site that is being made.
static NOWHERE: Metadata<'static> = {
    static NONE: Site = Site {
        metadata: std::sync::OnceLock::new(),
        interest: AtomicU8::new(NEVER),
    };
    Metadata::new(
        "",
        "",
        Level::TRACE,
        None,
        None,
        None,
        FieldSet::new(&[], Identifier(&NONE)),
        Kind::EVENT,
    )
};
