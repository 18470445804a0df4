//! Types of TSDL: what lies in a stream of another tracer.

use std::sync::Arc;

/// A type; parts are shared, since a name may stand for a large one many times.
#[derive(Clone, Debug)]
pub(super) enum Type {
    Integer(Integer),
    /// Bits of exponent and mantissa together: 32 or 64 are read.
    Float {
        bits: u64,
        align: u64,
        little: Option<bool>,
    },
    Text,
    Enumeration(Integer, Arc<Labels>),
    Struct(Arc<Struct>),
    Array(Arc<Self>, u64),
    /// Elements, as many as an integer read before says.
    Sequence(Arc<Self>, String),
    /// A variant: the type that is named by the value of an enumeration read before.
    Variant(String, Arc<[(String, Self)]>),
    /// The type whose ranges hold the value of an integer read before; nothing where none does and that is allowed.
    Choice(String, Arc<[Choice]>, bool),
}

/// A type that some values of an integer choose.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// Ranges of values, both ends among them.
    pub(super) ranges: Vec<(i128, i128)>,
    pub(super) name: String,
    pub(super) ty: Type,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Integer {
    pub(super) bits: u64,
    pub(super) align: u64,
    pub(super) signed: bool,
    pub(super) base: u64,
    pub(super) text: bool,
    /// Byte order; none where it is the trace's.
    pub(super) little: Option<bool>,
    /// The clock whose time it is.
    pub(super) clock: Option<Arc<str>>,
}

/// Ranges of values, both ends among them, and their names.
pub(super) type Labels = [(i128, i128, String)];

#[derive(Clone, Debug, Default)]
pub(super) struct Struct {
    pub(super) fields: Vec<(String, Type)>,
    pub(super) align: u64,
}

impl Type {
    /// The alignment in bits.
    pub(super) fn align(&self) -> u64 {
        match self {
            Self::Integer(integer) | Self::Enumeration(integer, _) => integer.align,
            Self::Float { align, .. } => *align,
            Self::Text => 8,
            Self::Struct(it) => it.align,
            Self::Array(element, _) | Self::Sequence(element, _) => element.align(),
            Self::Variant(..) | Self::Choice(..) => 1,
        }
    }
}

/// The name of a value.
pub(super) fn label(labels: &Labels, value: i128) -> Option<&str> {
    let found = labels
        .iter()
        .find(|(low, high, _)| (*low..=*high).contains(&value));
    found.map(|(.., name)| name.as_str())
}

/// A name without the underscore that writers of TSDL put before it, so that it is no word of the language's.
pub(super) fn bare(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}
