//! A bound expression: a tree over the places of one event's fields, and its value for a record.

use crate::background::Background;
use kestrel_compiler::check::tree::{BinaryOp, CompareOp, UnaryOp};
use kestrel_compiler::lang::glob::Glob;
use kestrel_trace::process::Processes;
use kestrel_trace::record::Record;
use kestrel_trace::value::{FAULT_IN_STRING, Value};

/// Subject for which an expression is evaluated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// The record that is looked at.
    pub(crate) record: Record<'a>,
    /// Names of threads at its time.
    pub(crate) processes: &'a Processes,
    /// Time of the trace's first record, ns.
    pub(crate) begin_ns: u64,
}

impl<'a> Subject<'a> {
    /// A record, and what is known beside it.
    pub(crate) fn new(record: &Record<'a>, background: &'a Background) -> Self {
        Self {
            record: *record,
            processes: &background.processes,
            begin_ns: background.begin_ns,
        }
    }
}

/// A number of 64 bits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Number {
    /// A constant.
    Constant(u64),
    /// A value of the header that every record has.
    Header(Header),
    /// `size` bytes of a field, from byte `at` of it.
    Field {
        field: usize,
        at: usize,
        size: u8,
        signed: bool,
    },
    /// Bits of a number.
    BitField {
        value: Box<Number>,
        shift: u8,
        bits: u8,
        signed: bool,
    },
    /// What the piece of a chain before this one comes to.
    Piece,
    /// A chain of operators in pieces, each with the one before as its first operand: as one tree it would be too deep.
    Chain { pieces: Vec<Number>, value: Box<Number> },
    /// An operator with one operand.
    Unary(UnaryOp, Box<Number>),
    /// Arithmetic.
    Binary {
        op: BinaryOp,
        signed: bool,
        left: Box<Number>,
        right: Box<Number>,
    },
    /// A comparison: 1 or 0.
    Compare {
        op: CompareOp,
        signed: bool,
        left: Box<Number>,
        right: Box<Number>,
    },
    /// `&&` (`and`) or `||`.
    Logic {
        and: bool,
        left: Box<Number>,
        right: Box<Number>,
    },
    /// `condition ? then : otherwise`; without `then`, the condition's own value.
    Ternary {
        condition: Box<Number>,
        then: Option<Box<Number>>,
        otherwise: Box<Number>,
    },
    /// The low `size` bytes, extended.
    Convert {
        value: Box<Number>,
        size: u8,
        signed: bool,
    },
    /// 1 where both texts are equal up to their NUL and within `bytes` bytes.
    TextEqual {
        left: Text,
        right: Text,
        bytes: usize,
        negated: bool,
    },
    /// 1 where the pattern stands for the text up to its NUL, of which `bytes` bytes are looked at.
    TextGlob { text: Text, glob: Glob, bytes: usize },
}

/// Header that every record has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// Process and thread, as `bpf_get_current_pid_tgid` gives them.
    PidTgid,
    /// Number of the record's CPU.
    Cpu,
    /// The time, ns of `CLOCK_MONOTONIC`.
    Time,
    /// The time of the trace's first record.
    Begin,
    /// The number of the event class.
    Event,
}

/// Source of a text's bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Text {
    /// A constant; zeros behind its end do not matter.
    Constant(Vec<u8>),
    /// The name of the thread.
    Comm,
    /// At most `size` bytes of a field, from byte `at` of it.
    Field { field: usize, at: usize, size: usize },
    /// `condition ? then : otherwise`.
    Choice(Box<Number>, Box<Text>, Box<Text>),
}

impl Number {
    /// The value for a record; a field that the record is too short for is 0.
    pub(crate) fn value(&self, of: &Subject<'_>) -> u64 {
        self.value_behind(0, of)
    }

    /// The value behind a piece of a chain.
    fn value_behind(&self, piece: u64, of: &Subject<'_>) -> u64 {
        match self {
            Self::Constant(value) => *value,
            Self::Piece => piece,
            Self::Chain { pieces, value } => {
                let before = pieces
                    .iter()
                    .fold(0, |before, piece| piece.value_behind(before, of));
                value.value_behind(before, of)
            }
            Self::Header(header) => header.value(of),
            Self::Field {
                field,
                at,
                size,
                signed,
            } => field_bytes(of, *field)
                .and_then(|bytes| bytes.get(*at..*at + usize::from(*size)))
                .map_or(0, |bytes| extend(little_endian(bytes), *size, *signed)),
            Self::BitField {
                value,
                shift,
                bits,
                signed,
            } => {
                let value = value.value_behind(piece, of) >> shift.min(&63);
                bit_field(value, *bits, *signed)
            }
            Self::Unary(op, value) => {
                let value = value.value_behind(piece, of);
                match op {
                    UnaryOp::Negate => value.wrapping_neg(),
                    UnaryOp::BitNot => !value,
                    UnaryOp::Not => u64::from(value == 0),
                }
            }
            Self::Binary {
                op,
                signed,
                left,
                right,
            } => binary(
                *op,
                *signed,
                left.value_behind(piece, of),
                right.value_behind(piece, of),
            ),
            Self::Compare {
                op,
                signed,
                left,
                right,
            } => u64::from(compare(
                *op,
                *signed,
                left.value_behind(piece, of),
                right.value_behind(piece, of),
            )),
            Self::Logic { and, left, right } => {
                let decided = (left.value_behind(piece, of) != 0) != *and;
                u64::from(match decided {
                    true => !*and,
                    false => right.value_behind(piece, of) != 0,
                })
            }
            Self::Ternary {
                condition,
                then,
                otherwise,
            } => match (condition.value_behind(piece, of), then) {
                (0, _) => otherwise.value_behind(piece, of),
                (_, Some(then)) => then.value_behind(piece, of),
                (value, None) => value,
            },
            Self::Convert { value, size, signed } => extend(value.value_behind(piece, of), *size, *signed),
            Self::TextEqual {
                left,
                right,
                bytes,
                negated,
            } => {
                let equal = match (left.value(of), right.value(of)) {
                    (Some(left), Some(right)) => {
                        let cut = |text: &[u8]| text.len().min(*bytes);
                        left[..cut(left)] == right[..cut(right)]
                    }
                    // A text that could not be read equals none.
                    _ => false,
                };
                u64::from(equal != *negated)
            }
            Self::TextGlob { text, glob, bytes } => {
                let text = text.value(of);
                u64::from(text.is_some_and(|text| glob.matches(&text[..text.len().min(*bytes)])))
            }
        }
    }
}

impl Number {
    /// Whether the value depends on nothing but the event, the thread and its name, and the CPU.
    pub(crate) fn is_thread_constant(&self) -> bool {
        match self {
            Self::Constant(_) | Self::Piece => true,
            Self::Chain { pieces, value } => {
                pieces.iter().all(Self::is_thread_constant) && value.is_thread_constant()
            }
            Self::Header(header) => *header != Header::Time,
            Self::Field { .. } => false,
            Self::BitField { value, .. } | Self::Unary(_, value) | Self::Convert { value, .. } => {
                value.is_thread_constant()
            }
            Self::Binary { left, right, .. }
            | Self::Compare { left, right, .. }
            | Self::Logic { left, right, .. } => left.is_thread_constant() && right.is_thread_constant(),
            Self::Ternary {
                condition,
                then,
                otherwise,
            } => {
                let then = then.as_ref().is_none_or(|then| then.is_thread_constant());
                then && condition.is_thread_constant() && otherwise.is_thread_constant()
            }
            Self::TextEqual { left, right, .. } => left.is_thread_constant() && right.is_thread_constant(),
            Self::TextGlob { text, .. } => text.is_thread_constant(),
        }
    }
}

impl Header {
    fn value(self, of: &Subject<'_>) -> u64 {
        match self {
            Self::PidTgid => u64::from(of.record.pid) << 32 | u64::from(of.record.tid),
            Self::Cpu => of.record.cpu.into(),
            Self::Time => of.record.time_ns,
            Self::Begin => of.begin_ns,
            Self::Event => of.record.event.id.0.into(),
        }
    }
}

impl Text {
    /// The text up to its NUL; none where it could not be read when the event happened.
    pub(crate) fn value<'v>(&'v self, of: &Subject<'v>) -> Option<&'v [u8]> {
        match self {
            Self::Constant(text) => Some(until_nul(text)),
            Self::Comm => Some(
                of.processes
                    .name_bytes(of.record.tid, of.record.pid)
                    .unwrap_or_default(),
            ),
            Self::Field { field, at, size } => {
                let bytes = field_bytes(of, *field)?;
                if *at == 0 && bytes.starts_with(&FAULT_IN_STRING) {
                    return None;
                }
                let rest = bytes.get(*at..).unwrap_or_default();
                Some(until_nul(&rest[..rest.len().min(*size)]))
            }
            Self::Choice(condition, then, otherwise) => match condition.value(of) {
                0 => otherwise.value(of),
                _ => then.value(of),
            },
        }
    }
}

impl Text {
    /// Whether the text depends on nothing but the event, the thread and its name, and the CPU.
    pub(crate) fn is_thread_constant(&self) -> bool {
        match self {
            Self::Constant(_) | Self::Comm => true,
            Self::Field { .. } => false,
            Self::Choice(condition, then, otherwise) => {
                condition.is_thread_constant() && then.is_thread_constant() && otherwise.is_thread_constant()
            }
        }
    }
}

/// The bytes of a field of the record at hand; none where they could not be read when the event happened, or are cut off.
fn field_bytes<'a>(of: &Subject<'a>, index: usize) -> Option<&'a [u8]> {
    let field = of.record.event.layout.fields().get(index)?;
    match field.ty.is_variable() {
        false => of.record.bytes.get(field.offset() as usize..),
        true => match of.record.value(field) {
            Value::Text(text) => Some(text),
            _ => None,
        },
    }
}

fn until_nul(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| *byte == 0);
    &text[..end.unwrap_or(text.len())]
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn extend(value: u64, size: u8, signed: bool) -> u64 {
    bit_field(value, size.saturating_mul(8).min(64), signed)
}

/// The low `bits` bits, extended to 64.
fn bit_field(value: u64, bits: u8, signed: bool) -> u64 {
    let shift = 64 - u32::from(bits.clamp(1, 64));
    match signed {
        true => ((value << shift).cast_signed() >> shift).cast_unsigned(),
        false => value << shift >> shift,
    }
}

/// Result of generated code for an operator: division by zero gives 0, the remainder the dividend; shifts count modulo 64.
fn binary(op: BinaryOp, signed: bool, left: u64, right: u64) -> u64 {
    let shift = right & 63;
    match op {
        BinaryOp::Add => left.wrapping_add(right),
        BinaryOp::Subtract => left.wrapping_sub(right),
        BinaryOp::Multiply => left.wrapping_mul(right),
        BinaryOp::Divide | BinaryOp::Modulo if right == 0 => match op {
            BinaryOp::Divide => 0,
            _ => left,
        },
        BinaryOp::Divide if signed => left
            .cast_signed()
            .wrapping_div(right.cast_signed())
            .cast_unsigned(),
        BinaryOp::Divide => left / right,
        BinaryOp::Modulo if signed => left
            .cast_signed()
            .wrapping_rem(right.cast_signed())
            .cast_unsigned(),
        BinaryOp::Modulo => left % right,
        BinaryOp::ShiftLeft => left << shift,
        BinaryOp::ShiftRight if signed => (left.cast_signed() >> shift).cast_unsigned(),
        BinaryOp::ShiftRight => left >> shift,
        BinaryOp::And => left & right,
        BinaryOp::Or => left | right,
        BinaryOp::Xor => left ^ right,
    }
}

fn compare(op: CompareOp, signed: bool, left: u64, right: u64) -> bool {
    let order = match signed {
        true => left.cast_signed().cmp(&right.cast_signed()),
        false => left.cmp(&right),
    };
    match op {
        CompareOp::Equal => order.is_eq(),
        CompareOp::NotEqual => order.is_ne(),
        CompareOp::Less => order.is_lt(),
        CompareOp::LessEqual => order.is_le(),
        CompareOp::Greater => order.is_gt(),
        CompareOp::GreaterEqual => order.is_ge(),
    }
}
