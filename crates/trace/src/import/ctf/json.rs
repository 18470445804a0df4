//! The metadata of Common Trace Format 2: fragments of JSON one after the other, to the blocks that those of version 1.8 give. Fields have roles there instead
//! of names that a reader must know; a field with a role gets the name that version 1.8 has for it.

use super::tsdl::{Clock, EventBlock, Metadata, StreamClass};
use super::types::{Choice, Integer, Struct, Type};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// The mark before each fragment, which strings within JSON cannot have.
const RECORD_SEPARATOR: char = '\x1e';

/// How deep types may be nested.
const DEPTH: u32 = 32;

/// Roles of fields, where they stand, and the names that version 1.8 has for such fields.
const ROLES: &[(&str, StreamScope, &str)] = &[
    ("packet-magic-number", StreamScope::Packet, "magic"),
    ("data-stream-class-id", StreamScope::Packet, "stream_id"),
    ("packet-total-length", StreamScope::Packet, "packet_size"),
    ("packet-content-length", StreamScope::Packet, "content_size"),
    ("default-clock-timestamp", StreamScope::Packet, "timestamp_begin"),
    (
        "packet-end-default-clock-timestamp",
        StreamScope::Packet,
        "timestamp_end",
    ),
    (
        "discarded-event-record-counter-snapshot",
        StreamScope::Packet,
        "events_discarded",
    ),
    ("packet-sequence-number", StreamScope::Packet, "packet_seq_num"),
    ("event-record-class-id", StreamScope::Header, "id"),
    ("default-clock-timestamp", StreamScope::Header, "timestamp"),
];

/// The part of a stream that a type is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum StreamScope {
    /// A packet's header and context.
    Packet,
    /// An event's header.
    Header,
    /// An event's contexts and payload.
    Event,
}

/// Whether text is metadata of version 2.
pub(super) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[', RECORD_SEPARATOR])
}

/// Parses the fragments.
pub(super) fn parse(text: &str) -> Result<Metadata, String> {
    let text = text.replace(RECORD_SEPARATOR, "\n");
    let mut parser = Parser {
        aliases: HashMap::new(),
        renamed: HashMap::new(),
        depth: 0,
        metadata: Metadata {
            little: true,
            ..Metadata::default()
        },
    };
    for fragment in serde_json::Deserializer::from_str(&text).into_iter() {
        let fragment: Value = fragment.map_err(|error| format!("its metadata: {error}"))?;
        parser.fragment(&fragment)?;
    }
    Ok(parser.metadata)
}

struct Parser {
    /// Types by the names that fragments give them, or why they are not read; what is made of them shares them.
    aliases: HashMap<(String, StreamScope), Result<Type, String>>,
    /// Names that fields of the part at hand have in place of their own, by these.
    renamed: HashMap<String, &'static str>,
    depth: u32,
    metadata: Metadata,
}

impl Parser {
    fn fragment(&mut self, fragment: &Value) -> Result<(), String> {
        if !fragment.is_object() {
            return Err("its metadata: what stands where a fragment should is no object".to_owned());
        }
        match string(fragment, "type") {
            "preamble" => match whole(fragment, "version") {
                Some(2) => {}
                other => {
                    return Err(format!(
                        "it is of version {}; versions 1.8 and 2 are read",
                        other.map_or("?".to_owned(), |version| version.to_string())
                    ));
                }
            },
            "field-class-alias" => self.alias(fragment),
            "trace-class" => {
                self.metadata.packet_header =
                    self.part(fragment, "packet-header-field-class", StreamScope::Packet)?;
                for (key, value) in object(fragment, "environment") {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    self.metadata.env.insert(key.clone(), text);
                }
            }
            "clock-class" => self.metadata.clocks.push(clock(fragment)),
            "data-stream-class" => {
                let class = self.stream(fragment)?;
                self.metadata.streams.push(class);
            }
            "event-record-class" => {
                let block = self.event(fragment)?;
                self.metadata.events.push(block);
            }
            // A later revision may have more kinds: what is known of the trace is read without them.
            other => {
                let remark = format!("metadata: a fragment {other} is not understood");
                if !self.metadata.remarks.contains(&remark) {
                    self.metadata.remarks.push(remark);
                }
            }
        }
        Ok(())
    }

    /// A type with a name, kept once for each scope: what fields of the specification's roles are called differs by scope.
    fn alias(&mut self, fragment: &Value) {
        let class = fragment.get("field-class").unwrap_or(&Value::Null);
        for scope in [StreamScope::Packet, StreamScope::Header, StreamScope::Event] {
            let ty = self.ty(class, scope);
            self.aliases
                .insert((string(fragment, "name").to_owned(), scope), ty);
        }
    }

    fn stream(&mut self, fragment: &Value) -> Result<StreamClass, String> {
        Ok(StreamClass {
            id: whole(fragment, "id").unwrap_or(0),
            packet_context: self.part(fragment, "packet-context-field-class", StreamScope::Packet)?,
            event_header: self.part(fragment, "event-record-header-field-class", StreamScope::Header)?,
            event_context: self.part(
                fragment,
                "event-record-common-context-field-class",
                StreamScope::Event,
            )?,
        })
    }

    fn event(&mut self, fragment: &Value) -> Result<EventBlock, String> {
        // Events of CTF 2 may be without a name; where records are shown, each has one.
        let name = Some(string(fragment, "name")).filter(|name| !name.is_empty());
        Ok(EventBlock {
            id: whole(fragment, "id").unwrap_or(0),
            stream: whole(fragment, "data-stream-class-id").unwrap_or(0),
            name: name.unwrap_or("event").to_owned(),
            context: self.part(fragment, "specific-context-field-class", StreamScope::Event)?,
            fields: self.part(fragment, "payload-field-class", StreamScope::Event)?,
        })
    }

    /// A fragment's type of that key, where it has one.
    fn part(&mut self, fragment: &Value, key: &str, place: StreamScope) -> Result<Option<Type>, String> {
        self.renamed.clear();
        fragment.get(key).map(|class| self.ty(class, place)).transpose()
    }

    fn ty(&mut self, class: &Value, place: StreamScope) -> Result<Type, String> {
        if self.depth >= DEPTH {
            return Err("its metadata: types are nested too deeply".to_owned());
        }
        self.depth += 1;
        let ty = match class.as_str() {
            Some(name) => match self.aliases.get(&(name.to_owned(), place)) {
                Some(ty) => ty.clone(),
                None => Err(format!("its metadata: {name} is not a type")),
            },
            None => self.own_type(class, place),
        };
        self.depth -= 1;
        ty
    }

    fn own_type(&mut self, class: &Value, place: StreamScope) -> Result<Type, String> {
        let kind = string(class, "type");
        if string(class, "encoding").starts_with("utf-16") || string(class, "encoding").starts_with("utf-32")
        {
            return Err(format!(
                "its metadata: {kind} of {} is not read",
                string(class, "encoding")
            ));
        }
        Ok(match kind {
            "fixed-length-unsigned-integer"
            | "fixed-length-signed-integer"
            | "fixed-length-boolean"
            | "fixed-length-bit-array"
            | "fixed-length-bit-map" => {
                let integer = integer(class, kind.contains("-signed-"))?;
                // Of a map of bits its flags name bits, not values.
                let labels: Vec<_> = object(class, "mappings")
                    .flat_map(|(name, of)| ranges(of).map(move |(low, high)| (low, high, name.clone())))
                    .collect();
                match labels.is_empty() {
                    true => Type::Integer(integer),
                    false => Type::Enumeration(integer, labels.into()),
                }
            }
            "fixed-length-floating-point-number" => {
                let Integer {
                    bits, align, little, ..
                } = integer(class, false)?;
                if !matches!(bits, 32 | 64) {
                    return Err(format!("its metadata: {kind} of {bits} bits is not read"));
                }
                Type::Float { bits, align, little }
            }
            "null-terminated-string" => Type::Text,
            "static-length-string" => Type::Array(Arc::new(byte(true)), length(class)?),
            "static-length-blob" => Type::Array(Arc::new(byte(false)), length(class)?),
            "dynamic-length-string" => Type::Sequence(
                Arc::new(byte(true)),
                self.location(class, "length-field-location")?,
            ),
            "dynamic-length-blob" => Type::Sequence(
                Arc::new(byte(false)),
                self.location(class, "length-field-location")?,
            ),
            "static-length-array" => Type::Array(self.element(class, place)?, length(class)?),
            "dynamic-length-array" => Type::Sequence(
                self.element(class, place)?,
                self.location(class, "length-field-location")?,
            ),
            "structure" => self.structure(class, place)?,
            "variant" => {
                let selector = self.location(class, "selector-field-location")?;
                let mut options = Vec::new();
                for option in list(class, "options") {
                    options.push(self.choice(option, option, "selector-field-ranges", place)?);
                }
                Type::Choice(selector, options.into(), false)
            }
            "optional" => {
                let selector = self.location(class, "selector-field-location")?;
                let mut choice = self.choice(class, class, "selector-field-ranges", place)?;
                // Of a selector without ranges any value but false.
                if choice.ranges.is_empty() {
                    choice.ranges = vec![(i128::MIN, -1), (1, i128::MAX)];
                }
                Type::Choice(selector, Arc::new([choice]), true)
            }
            other => return Err(format!("its metadata: the type {other} is not read")),
        })
    }

    fn choice(&mut self, of: &Value, named: &Value, key: &str, place: StreamScope) -> Result<Choice, String> {
        Ok(Choice {
            ranges: ranges(of.get(key).unwrap_or(&Value::Null)).collect(),
            name: own_name(string(named, "name")),
            ty: self.ty(of.get("field-class").unwrap_or(&Value::Null), place)?,
        })
    }

    fn element(&mut self, class: &Value, place: StreamScope) -> Result<Arc<Type>, String> {
        let element = self.ty(class.get("element-field-class").unwrap_or(&Value::Null), place)?;
        match whole(class, "minimum-alignment").unwrap_or(1) > element.align() {
            true => {
                Err("its metadata: an array that is aligned more than its elements is not read".to_owned())
            }
            false => Ok(Arc::new(element)),
        }
    }

    /// The name of the field that a length or a choice refers to, as the last part of its path says.
    fn location(&self, class: &Value, key: &str) -> Result<String, String> {
        let path = list(class.get(key).unwrap_or(&Value::Null), "path");
        let Some(name) = path.iter().rev().find_map(Value::as_str) else {
            return Err(format!("its metadata: a {} without {key}", string(class, "type")));
        };
        let renamed = self.renamed.get(name);
        Ok(renamed.map_or_else(|| own_name(name), |name| (*name).to_owned()))
    }

    fn structure(&mut self, class: &Value, place: StreamScope) -> Result<Type, String> {
        let mut fields = Vec::new();
        let mut align = alignment(class, "minimum-alignment")?;
        for member in list(class, "member-classes") {
            let of = member.get("field-class").unwrap_or(&Value::Null);
            let ty = self.ty(of, place)?;
            align = align.max(ty.align());
            let role = ROLES.iter().find(|(role, at, _)| {
                *at == place && list(of, "roles").iter().any(|it| it.as_str() == Some(role))
            });
            let own = string(member, "name");
            let name = match role {
                Some((.., name)) => {
                    self.renamed.insert(own.to_owned(), name);
                    (*name).to_owned()
                }
                None => {
                    self.renamed.remove(own);
                    own_name(own)
                }
            };
            fields.push((name, ty));
        }
        Ok(Type::Struct(Arc::new(Struct { fields, align })))
    }
}

/// A clock class; one without a name is called by its `id`.
fn clock(fragment: &Value) -> Clock {
    let offset = fragment.get("offset-from-origin").unwrap_or(&Value::Null);
    let part = |key| offset.get(key).and_then(Value::as_i64).unwrap_or(0).into();
    let names = [string(fragment, "name"), string(fragment, "id")];
    let name = names.into_iter().find(|name| !name.is_empty());
    Clock {
        name: name.unwrap_or_default().to_owned(),
        frequency: whole(fragment, "frequency")
            .filter(|hz| *hz > 0)
            .unwrap_or(1_000_000_000),
        offset_seconds: part("seconds"),
        offset: part("cycles"),
    }
}

fn string<'v>(of: &'v Value, key: &str) -> &'v str {
    of.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn whole(of: &Value, key: &str) -> Option<u64> {
    of.get(key).and_then(Value::as_u64)
}

fn list<'v>(of: &'v Value, key: &str) -> &'v [Value] {
    of.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn object<'v>(of: &'v Value, key: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    of.get(key).and_then(Value::as_object).into_iter().flatten()
}

/// A name of which [`bare`](super::types::bare) is the name itself, as it is of a name in TSDL.
fn own_name(name: &str) -> String {
    match name.starts_with('_') {
        true => format!("_{name}"),
        false => name.to_owned(),
    }
}

/// Ranges of values, both ends among them.
fn ranges(of: &Value) -> impl Iterator<Item = (i128, i128)> {
    let end = |value: &Value| value.as_i64().map(i128::from).or(value.as_u64().map(i128::from));
    let all = of.as_array().map_or(&[][..], Vec::as_slice);
    all.iter()
        .filter_map(move |range| Some((end(range.get(0)?)?, end(range.get(1)?)?)))
}

/// Most elements of an array.
const LONGEST: u64 = u32::MAX as u64;

fn length(class: &Value) -> Result<u64, String> {
    let length = whole(class, "length").filter(|length| *length <= LONGEST);
    length.ok_or_else(|| format!("its metadata: a {} without a length", string(class, "type")))
}

fn alignment(class: &Value, key: &str) -> Result<u64, String> {
    match whole(class, key).unwrap_or(1) {
        bits @ 1..=4096 if bits.is_power_of_two() => Ok(bits),
        _ => Err("its metadata: an alignment that is no power of two".to_owned()),
    }
}

fn integer(class: &Value, signed: bool) -> Result<Integer, String> {
    let kind = string(class, "type");
    let Some(bits @ 1..=4096) = whole(class, "length") else {
        return Err(format!("its metadata: a {kind} without a length"));
    };
    let little = string(class, "byte-order") != "big-endian";
    let natural = if little { "first-to-last" } else { "last-to-first" };
    if !["", natural].contains(&string(class, "bit-order")) {
        return Err(format!(
            "its metadata: a {kind} with bits in an order of its own is not read"
        ));
    }
    Ok(Integer {
        bits,
        align: alignment(class, "alignment")?,
        signed,
        base: whole(class, "preferred-display-base").unwrap_or(10),
        text: false,
        little: Some(little),
        clock: None,
    })
}

/// A byte of a string, or of a blob.
fn byte(text: bool) -> Type {
    Type::Integer(Integer {
        bits: 8,
        align: 8,
        signed: false,
        base: if text { 10 } else { 16 },
        text,
        little: None,
        clock: None,
    })
}
