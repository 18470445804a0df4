//! Event classes of another tracer as Kestrel's: structures are taken apart, and what has no type here (arrays of structures, variants, sequences of numbers)
//! becomes the text that people read.

use super::super::draft::Draft;
use super::bits::{Bits, Stop};
use super::names;
use super::types::{Integer, Struct, Type, bare, label};
use crate::event::{EventClass, EventId};
use crate::layout::{Base, FieldType, Layout};
use crate::packet::CAPACITY;
use std::sync::Arc;

/// Integers that were read before in the same packet or event: what lengths and choices refer to.
pub(super) type Scope<'t> = Vec<(&'t str, i128, Option<&'t str>)>;

/// An event class, and how records of it are read.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) event: EventClass,
    /// The event's context and its fields.
    parts: Vec<Node>,
    /// What of the stream's context goes where, in its own order.
    stream_context: Option<Node>,
}

/// A part of an event, in the order in which its bits lie.
#[derive(Debug)]
enum Node {
    Struct(u64, Vec<(String, Self)>),
    Leaf(Type, To),
}

/// Where a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// The field of that index, as it is.
    Field(usize),
    /// The same, as text.
    Text(usize),
    Pid(Rank),
    Tid(Rank),
    /// The name of the thread, and the field of that index, where there is one.
    Name(Option<usize>),
    Nowhere,
}

/// Which of several numbers of a process counts: the one of the machine, not that of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    #[default]
    None,
    Container,
    Machine,
}

/// What a record says of its thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Thread {
    /// Its name; empty where the record does not say.
    pub(super) name: Vec<u8>,
    pid: (Rank, u32),
    tid: (Rank, u32),
}

impl Thread {
    /// Its numbers; `running` is the thread that was last seen to run there.
    pub(super) fn numbers(&self, running: u32) -> (u32, u32) {
        let tid = match self.tid {
            (Rank::None, _) => running,
            (_, tid) => tid,
        };
        match self.pid {
            (Rank::None, _) => (tid, tid),
            (_, pid) => (pid, tid),
        }
    }
}

/// Numbers of processes and threads among contexts, and among the fields that perf writes.
const THREADS: &[(&str, To)] = &[
    ("pid", To::Pid(Rank::Machine)),
    ("tid", To::Tid(Rank::Machine)),
    ("vpid", To::Pid(Rank::Container)),
    ("vtid", To::Tid(Rank::Container)),
];
const PERF: &[(&str, To)] = &[
    ("perf_pid", To::Pid(Rank::Machine)),
    ("perf_tid", To::Tid(Rank::Machine)),
];

/// Fields of a class while it is made.
struct Making {
    names: Vec<String>,
    fields: Vec<FieldType>,
    room: u32,
    is_context: bool,
    is_call: bool,
}

/// Most fields of an event; what is behind them is left out.
const FIELDS: usize = 512;
/// Most bytes of a text.
const LONGEST: u32 = CAPACITY;
/// Most elements of an array that is a field.
const ELEMENTS: u64 = 256;

impl Class {
    pub(super) fn new(
        name: &str,
        id: EventId,
        contexts: [Option<&Type>; 2],
        payload: Option<&Type>,
        is_kernel: bool,
    ) -> Self {
        let name = if is_kernel {
            names::event(name)
        } else {
            name.to_owned()
        };
        let mut making = Making {
            names: Vec::new(),
            fields: Vec::new(),
            room: CAPACITY / 2,
            is_context: false,
            is_call: name.contains("syscalls:"),
        };
        // The fields stand first; contexts follow.
        let payload = payload.map(|ty| making.node(ty, ""));
        let own = making.names.len();
        making.is_context = true;
        let [stream_context, context] = contexts.map(|ty| ty.map(|ty| making.node(ty, "")));
        let mut all = making.names;
        if is_kernel {
            names::fields(&name, &mut all[..own]);
        }
        let layout = Layout::new(unique(all).into_iter().zip(making.fields));
        Self {
            event: EventClass {
                id,
                name,
                kind: "tracepoint".to_owned(),
                layout,
                action: None,
                print: None,
            },
            parts: context.into_iter().chain(payload).collect(),
            stream_context,
        }
    }

    /// Reads the stream's context and what follows into a record that was begun. `true` where all of it had room.
    pub(super) fn read<'t>(
        &'t self,
        bits: &mut Bits<'_>,
        scope: &mut Scope<'t>,
        draft: &mut Draft,
        thread: &mut Thread,
    ) -> Result<(), Stop> {
        for node in self.stream_context.iter().chain(&self.parts) {
            self.node(node, "", bits, scope, draft, thread)?;
        }
        Ok(())
    }

    fn node<'t>(
        &'t self,
        node: &'t Node,
        name: &'t str,
        bits: &mut Bits<'_>,
        scope: &mut Scope<'t>,
        draft: &mut Draft,
        thread: &mut Thread,
    ) -> Result<(), Stop> {
        match node {
            Node::Struct(align, fields) => {
                bits.align(*align);
                for (name, node) in fields {
                    self.node(node, name, bits, scope, draft, thread)?;
                }
                Ok(())
            }
            Node::Leaf(ty, to) => self.leaf(ty, *to, name, bits, scope, draft, thread),
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "what a record is made of and where it goes"
    )]
    fn leaf<'t>(
        &'t self,
        ty: &'t Type,
        to: To,
        name: &'t str,
        bits: &mut Bits<'_>,
        scope: &mut Scope<'t>,
        draft: &mut Draft,
        thread: &mut Thread,
    ) -> Result<(), Stop> {
        let fields = self.event.layout.fields();
        match to {
            To::Text(index) => {
                let mut text = Vec::new();
                shown(ty, name, bits, scope, &mut text)?;
                draft.hold(index, &text);
            }
            To::Name(index) => {
                thread.name = characters(ty, bits, scope)?;
                if let Some(index) = index {
                    draft.hold(index, &thread.name);
                }
            }
            To::Nowhere => shown(ty, name, bits, scope, &mut Vec::new())?,
            To::Pid(rank) => {
                let value = number(ty, name, bits, scope)?;
                if rank >= thread.pid.0 {
                    thread.pid = (rank, value as u32);
                }
            }
            To::Tid(rank) => {
                let value = number(ty, name, bits, scope)?;
                if rank >= thread.tid.0 {
                    thread.tid = (rank, value as u32);
                }
            }
            To::Field(index) => match ty {
                Type::Text => draft.hold(index, bits.text()?),
                Type::Float {
                    bits: size,
                    align,
                    little,
                } => {
                    bits.align(*align);
                    let value = bits.integer(*size, false, *little)?.unwrap_or(0) as u64;
                    if let Some(field) = fields.get(index) {
                        draft.set(field, &value.to_le_bytes());
                    }
                }
                Type::Array(element, count) => {
                    let mut all = Vec::new();
                    let size = element_size(element).unwrap_or(1);
                    for _ in 0..*count {
                        let value = match &**element {
                            Type::Float {
                                bits: size,
                                align,
                                little,
                            } => {
                                bits.align(*align);
                                bits.integer(*size, false, *little)?.unwrap_or(0)
                            }
                            element => number(element, "", bits, scope)?,
                        };
                        all.extend_from_slice(&value.to_le_bytes()[..size]);
                    }
                    if let Some(field) = fields.get(index) {
                        draft.set(field, &all);
                    }
                }
                Type::Sequence(..) => draft.hold(index, &characters(ty, bits, scope)?),
                ty => {
                    let value = number(ty, name, bits, scope)?;
                    if let Some(field) = fields.get(index) {
                        draft.set(field, &(value as u64).to_le_bytes());
                    }
                }
            },
        }
        Ok(())
    }
}

impl Making {
    fn node(&mut self, ty: &Type, name: &str) -> Node {
        if let Type::Struct(it) = ty {
            let fields = it.fields.iter().map(|(own, ty)| {
                let whole = match name {
                    "" => bare(own).to_owned(),
                    outer => format!("{outer}_{}", bare(own)),
                };
                (own.clone(), self.node(ty, &whole))
            });
            return Node::Struct(it.align, fields.collect());
        }
        Node::Leaf(ty.clone(), self.place(ty, name))
    }

    fn place(&mut self, ty: &Type, name: &str) -> To {
        let known = if self.is_context { THREADS } else { PERF };
        let is_number = matches!(ty, Type::Integer(_));
        if let Some((_, to)) = known
            .iter()
            .find(|(known, _)| *known == name)
            .filter(|_| is_number)
        {
            return *to;
        }
        if self.is_context && name == "procname" && is_text(ty) {
            // Names of threads are learned from a field that is called so; of a call it would be an argument.
            let kept = !self.is_call && self.fields.len() < FIELDS;
            if kept {
                self.names.push("comm".to_owned());
                self.fields.push(FieldType::String { max: LONGEST });
            }
            return To::Name(kept.then(|| self.fields.len() - 1));
        }
        let direct = field_type(ty);
        let as_it_is = direct.is_some();
        let field = direct.unwrap_or(FieldType::String { max: LONGEST });
        let size = field.fixed_size();
        if self.fields.len() == FIELDS || size > self.room {
            return To::Nowhere;
        }
        self.room -= size;
        let name = match (self.is_context, name) {
            // Not to be taken for arguments of the call.
            (true, name) if self.is_call => format!("__{name}_val"),
            (_, name) => identifier(name),
        };
        self.names.push(name);
        self.fields.push(field);
        match as_it_is {
            true => To::Field(self.fields.len() - 1),
            false => To::Text(self.fields.len() - 1),
        }
    }
}

/// Names of which each is there once.
fn unique(names: Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for mut name in names {
        if name == "comm" && all.contains(&name) {
            name = "procname".to_owned();
        }
        while all.contains(&name) {
            name.push('_');
        }
        all.push(name);
    }
    all
}

/// Whether values of a type are characters of a text.
fn is_text(ty: &Type) -> bool {
    match ty {
        Type::Text => true,
        Type::Array(element, _) | Type::Sequence(element, _) => {
            matches!(&**element, Type::Integer(integer) if integer.text && integer.bits == 8)
        }
        _ => false,
    }
}

/// Reads such a text.
fn characters<'t>(ty: &'t Type, bits: &mut Bits<'_>, scope: &mut Scope<'t>) -> Result<Vec<u8>, Stop> {
    let (element, count) = match ty {
        Type::Array(element, count) => (element, *count),
        Type::Sequence(element, length) => (element, self::length(scope, length)?),
        _ => return Ok(bits.text()?.to_vec()),
    };
    let mut text = Vec::new();
    for _ in 0..count {
        let byte = number(element, "", bits, scope)? as u8;
        if text.len() < LONGEST as usize {
            text.push(byte);
        }
    }
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    text.truncate(end);
    Ok(text)
}

fn identifier(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '_'
        }
    };
    let name: String = name.chars().map(plain).collect();
    match name.chars().next() {
        Some(first) if !first.is_ascii_digit() => name,
        _ => format!("_{name}"),
    }
}

/// Bytes that hold so many bits.
fn size_of(bits: u64) -> Option<u8> {
    [8, 16, 32, 64]
        .into_iter()
        .find(|most| bits <= *most)
        .map(|most| (most / 8) as u8)
}

fn element_size(ty: &Type) -> Option<usize> {
    match ty {
        Type::Integer(integer) => size_of(integer.bits).map(usize::from),
        Type::Float { bits, .. } => Some(*bits as usize / 8),
        _ => None,
    }
}

/// The type that a value is kept in; none where it becomes text.
fn field_type(ty: &Type) -> Option<FieldType> {
    Some(match ty {
        Type::Integer(integer) => integer_type(integer)?,
        Type::Float { bits, .. } => FieldType::Float {
            size: (*bits / 8) as u8,
        },
        Type::Text => FieldType::String { max: LONGEST },
        Type::Enumeration(integer, labels) => {
            let one = |(low, high, name): &(i128, i128, String)| {
                let value = i64::try_from(*low)
                    .or_else(|_| u64::try_from(*low).map(u64::cast_signed))
                    .ok()?;
                (low == high).then(|| (value, name.clone()))
            };
            FieldType::Enumeration {
                size: size_of(integer.bits)?,
                signed: integer.signed,
                names: labels.iter().filter_map(one).collect(),
            }
        }
        Type::Array(element, count) => match &**element {
            Type::Integer(integer) if integer.text && integer.bits == 8 && *count > 0 => FieldType::Text {
                size: u32::try_from(*count).ok()?,
            },
            Type::Integer(_) | Type::Float { .. } if (1..=ELEMENTS).contains(count) => FieldType::Array {
                element: Box::new(field_type(element)?),
                count: *count as u32,
            },
            _ => return None,
        },
        Type::Sequence(element, _) => match &**element {
            Type::Integer(integer) if integer.text && integer.bits == 8 => FieldType::String { max: LONGEST },
            _ => return None,
        },
        Type::Struct(_) | Type::Variant(..) => return None,
    })
}

fn integer_type(integer: &Integer) -> Option<FieldType> {
    Some(FieldType::Integer {
        size: size_of(integer.bits)?,
        signed: integer.signed,
        base: match integer.base {
            16 => Base::Hexadecimal,
            8 => Base::Octal,
            _ => Base::Decimal,
        },
    })
}

/// Reads a number, which later lengths and choices may refer to.
fn number<'t>(ty: &'t Type, name: &'t str, bits: &mut Bits<'_>, scope: &mut Scope<'t>) -> Result<i128, Stop> {
    let (integer, labels) = match ty {
        Type::Integer(integer) => (integer, None),
        Type::Enumeration(integer, labels) => (integer, Some(labels)),
        _ => return Err(Stop::Wrong("a number is expected where there is none")),
    };
    bits.align(integer.align);
    let value = bits
        .integer(integer.bits, integer.signed, integer.little)?
        .unwrap_or(0);
    if !name.is_empty() {
        let named = labels.and_then(|labels| label(labels, value));
        scope.push((bare(name), value, named));
    }
    Ok(value)
}

/// The integer that a path refers to: the one of that name that was read last.
fn find<'s, 't>(scope: &'s Scope<'t>, path: &str) -> Result<&'s (&'t str, i128, Option<&'t str>), Stop> {
    let name = path.rsplit('.').next().map_or(path, bare);
    let found = scope.iter().rev().find(|(known, ..)| *known == name);
    found.ok_or(Stop::Wrong("a length or a choice refers to what is not there"))
}

fn length(scope: &Scope<'_>, path: &str) -> Result<u64, Stop> {
    let (_, count, _) = find(scope, path)?;
    u64::try_from(*count).map_err(|_| Stop::Wrong("a length is negative"))
}

/// Most elements of an array of what takes no bits.
const EMPTY: u64 = 1 << 12;

/// Reads any value and appends it as text.
pub(super) fn shown<'t>(
    ty: &'t Type,
    name: &'t str,
    bits: &mut Bits<'_>,
    scope: &mut Scope<'t>,
    text: &mut Vec<u8>,
) -> Result<(), Stop> {
    match ty {
        Type::Integer(Integer { base, .. }) => {
            let value = number(ty, name, bits, scope)?;
            put(
                text,
                &match base {
                    16 => format!("{:#x}", value as u64),
                    8 => format!("{:#o}", value as u64),
                    _ => value.to_string(),
                },
            );
        }
        Type::Enumeration(_, labels) => {
            let value = number(ty, name, bits, scope)?;
            put(
                text,
                &label(labels, value).map_or_else(|| value.to_string(), str::to_owned),
            );
        }
        Type::Float {
            bits: size,
            align,
            little,
        } => {
            bits.align(*align);
            let raw = bits.integer(*size, false, *little)?.unwrap_or(0);
            put(
                text,
                &match size {
                    32 => f32::from_bits(raw as u32).to_string(),
                    _ => f64::from_bits(raw as u64).to_string(),
                },
            );
        }
        Type::Text => {
            let value = String::from_utf8_lossy(bits.text()?).into_owned();
            put(text, &format!("{value:?}"));
        }
        Type::Struct(it) => structure(it, bits, scope, text)?,
        Type::Array(element, count) => elements(element, *count, bits, scope, text)?,
        Type::Sequence(element, length) => {
            let count = self::length(scope, length)?;
            elements(element, count, bits, scope, text)?;
        }
        Type::Variant(tag, options) => {
            let (_, _, named) = find(scope, tag)?;
            let named = named.map(bare);
            let option = options.iter().find(|(name, _)| Some(bare(name)) == named);
            let (name, ty) = option.ok_or(Stop::Wrong("a choice is none of those there are"))?;
            shown(ty, name, bits, scope, text)?;
        }
    }
    Ok(())
}

/// Appends, as far as a text may be long.
fn put(text: &mut Vec<u8>, more: &str) {
    if text.len() < LONGEST as usize {
        text.extend_from_slice(more.as_bytes());
    }
}

fn structure<'t>(
    it: &'t Arc<Struct>,
    bits: &mut Bits<'_>,
    scope: &mut Scope<'t>,
    text: &mut Vec<u8>,
) -> Result<(), Stop> {
    bits.align(it.align);
    put(text, "{");
    for (at, (name, ty)) in it.fields.iter().enumerate() {
        put(text, if at > 0 { ", " } else { "" });
        put(text, bare(name));
        put(text, "=");
        shown(ty, name, bits, scope, text)?;
    }
    put(text, "}");
    Ok(())
}

fn elements<'t>(
    element: &'t Type,
    count: u64,
    bits: &mut Bits<'_>,
    scope: &mut Scope<'t>,
    text: &mut Vec<u8>,
) -> Result<(), Stop> {
    if count > bits.left().saturating_add(EMPTY) {
        return Err(Stop::End);
    }
    bits.align(element.align());
    put(text, "[");
    let known = scope.len();
    for at in 0..count {
        put(text, if at > 0 { ", " } else { "" });
        shown(element, "", bits, scope, text)?;
        scope.truncate(known);
    }
    put(text, "]");
    Ok(())
}

/// Adds up what a packet's header and context, or an event's header, say, by name; times of a clock are given to `clock`.
pub(super) fn walk<'t>(
    ty: &'t Type,
    name: &'t str,
    bits: &mut Bits<'_>,
    scope: &mut Scope<'t>,
    clock: &mut dyn FnMut(&Integer, u64),
) -> Result<(), Stop> {
    match ty {
        Type::Struct(it) => {
            bits.align(it.align);
            for (name, ty) in &it.fields {
                walk(ty, name, bits, scope, clock)?;
            }
        }
        Type::Variant(tag, options) => {
            let (_, _, named) = find(scope, tag)?;
            let named = named.map(bare);
            let option = options.iter().find(|(name, _)| Some(bare(name)) == named);
            let (name, ty) = option.ok_or(Stop::Wrong("a choice is none of those there are"))?;
            walk(ty, name, bits, scope, clock)?;
        }
        Type::Integer(integer) => {
            let value = number(ty, name, bits, scope)?;
            if integer.clock.is_some() || bare(name) == "timestamp" {
                clock(integer, value as u64);
            }
        }
        Type::Enumeration(..) => _ = number(ty, name, bits, scope)?,
        other => shown(other, name, bits, scope, &mut Vec::new())?,
    }
    Ok(())
}
