//! Types of TSDL as fields of a layout: which field holds each value, and in which type.

use super::value::LONGEST;
use super::{Node, Rank};
use crate::import::ctf::types::{Integer, Type, bare};
use crate::layout::{Base, FieldType};
use crate::packet::CAPACITY;

/// Destination of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// The field of that index, as it is.
    Field(usize),
    /// The field of that index, as text.
    Text(usize),
    Pid(Rank),
    Tid(Rank),
    /// The name of the thread, and the field of that index, where there is one.
    Name(Option<usize>),
    Nowhere,
}

/// Numbers of processes and threads among contexts, and among the fields that perf writes.
const THREADS: &[(&str, Destination)] = &[
    ("pid", Destination::Pid(Rank::Machine)),
    ("tid", Destination::Tid(Rank::Machine)),
    ("vpid", Destination::Pid(Rank::Container)),
    ("vtid", Destination::Tid(Rank::Container)),
];

const PERF: &[(&str, Destination)] = &[
    ("perf_pid", Destination::Pid(Rank::Machine)),
    ("perf_tid", Destination::Tid(Rank::Machine)),
];

/// Most fields of an event; what is behind them is left out.
const FIELDS: usize = 512;

/// Most elements of an array that is a field.
const ELEMENTS: u64 = 256;

/// Fields of a class while it is made.
pub(super) struct Fields {
    pub(super) names: Vec<String>,
    pub(super) types: Vec<FieldType>,
    /// Bytes that are left for fields of fixed size.
    room: u32,
    /// Whether what is added is a context of the event, not its payload.
    pub(super) is_context: bool,
    /// Whether the event is a system call, whose fields are its arguments.
    is_call: bool,
}

impl Fields {
    pub(super) fn new(is_call: bool) -> Self {
        Self {
            names: Vec::new(),
            types: Vec::new(),
            room: CAPACITY / 2,
            is_context: false,
            is_call,
        }
    }

    /// Adds fields for a value, those of a structure one by one.
    pub(super) fn node(&mut self, ty: &Type, name: &str) -> Node {
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

    /// Adds a field for a value, where one is needed and there is room; returns the destination.
    fn place(&mut self, ty: &Type, name: &str) -> Destination {
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
            let kept = !self.is_call && self.types.len() < FIELDS;
            if kept {
                self.names.push("comm".to_owned());
                self.types.push(FieldType::String { max: LONGEST });
            }
            return Destination::Name(kept.then(|| self.types.len() - 1));
        }
        let direct = field_type(ty);
        let as_it_is = direct.is_some();
        let field = direct.unwrap_or(FieldType::String { max: LONGEST });
        let size = field.fixed_size();
        if self.types.len() == FIELDS || size > self.room {
            return Destination::Nowhere;
        }
        self.room -= size;
        let name = match (self.is_context, name) {
            // A prefix, so that it is not taken for an argument of the call.
            (true, name) if self.is_call => format!("__{name}_val"),
            (_, name) => identifier(name),
        };
        self.names.push(name);
        self.types.push(field);
        match as_it_is {
            true => Destination::Field(self.types.len() - 1),
            false => Destination::Text(self.types.len() - 1),
        }
    }
}

/// Makes names unique.
pub(super) fn unique(names: Vec<String>) -> Vec<String> {
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

pub(super) fn element_size(ty: &Type) -> Option<usize> {
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
            element if is_character(element) && *count > 0 => FieldType::CharArray {
                size: u32::try_from(*count).ok()?,
            },
            Type::Integer(_) | Type::Float { .. } if (1..=ELEMENTS).contains(count) => FieldType::Array {
                element: Box::new(field_type(element)?),
                count: *count as u32,
            },
            _ => return None,
        },
        Type::Sequence(element, _) if is_character(element) => FieldType::String { max: LONGEST },
        Type::Sequence(..) | Type::Struct(_) | Type::Variant(..) | Type::Choice(..) => return None,
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

/// Whether a type is a character of a text.
fn is_character(ty: &Type) -> bool {
    matches!(ty, Type::Integer(integer) if integer.text && integer.bits == 8)
}

/// Whether values of a type are strings.
pub(super) fn is_text(ty: &Type) -> bool {
    match ty {
        Type::Text => true,
        Type::Array(element, _) | Type::Sequence(element, _) => is_character(element),
        _ => false,
    }
}
