//! A field's value as a copy, which outlives the record.

use kestrel_trace::layout::Base;
use kestrel_trace::print;
use kestrel_trace::symbol::Symbols;
use kestrel_trace::value as lent;
use std::fmt;

/// A decoded value.
///
/// ```
/// use kestrel::probe::Value;
/// let flags = Value::Flags { bits: 5, names: vec!["CF".to_owned(), "PF".to_owned()] };
/// assert_eq!((flags.as_u64(), flags.to_string().as_str()), (Some(5), "CF|PF"));
/// assert_eq!(Value::Signed(-14).as_i64(), Some(-14));
/// assert_eq!(Value::Text("/etc/passwd".to_owned()).as_str(), Some("/etc/passwd"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A signed integer of up to 8 bytes.
    Signed(i64),
    /// An unsigned integer of up to 8 bytes that people read in decimal.
    Unsigned(u64),
    /// An unsigned integer of up to 8 bytes that people read in hexadecimal.
    Hexadecimal(u64),
    /// A bool.
    Bool(bool),
    /// An address, of the kernel or of the process.
    Pointer(u64),
    /// A value of an enumeration, with its name where it has one.
    Enumeration {
        /// The number.
        value: i64,
        /// The name in the kernel's types.
        name: Option<String>,
    },
    /// A set of bits.
    Flags {
        /// All bits.
        bits: u64,
        /// Names of those that have one.
        names: Vec<String>,
    },
    /// Text up to its first NUL; bytes that are not UTF-8 are replaced.
    Text(String),
    /// The elements of an array.
    List(Vec<Value>),
    /// Addresses of a call stack, innermost first.
    Stack(Vec<u64>),
    /// A text that could not be read.
    Fault,
    /// The record did not hold the field.
    Missing,
}

impl Value {
    /// The value as a signed integer, where it is an integer of some kind; one beyond the signed ones as its bits.
    pub fn as_i64(&self) -> Option<i64> {
        Some(match *self {
            Self::Signed(value) | Self::Enumeration { value, .. } => value,
            Self::Unsigned(value) | Self::Hexadecimal(value) | Self::Pointer(value) => value.cast_signed(),
            Self::Flags { bits, .. } => bits.cast_signed(),
            Self::Bool(value) => i64::from(value),
            _ => return None,
        })
    }

    /// The value's bits, where it is an integer of some kind.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_i64().map(i64::cast_unsigned)
    }

    /// The value as text: where it is text, or the name of an enumeration's value.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Enumeration { name, .. } => name.as_deref(),
            _ => None,
        }
    }
}

impl From<lent::Value<'_>> for Value {
    fn from(value: lent::Value<'_>) -> Self {
        match value {
            lent::Value::Signed { value, .. } => Self::Signed(value),
            lent::Value::Unsigned { value, base, .. } => match base {
                Base::Decimal => Self::Unsigned(value),
                _ => Self::Hexadecimal(value),
            },
            lent::Value::Bool(value) => Self::Bool(value),
            // No event of the kernel has one.
            lent::Value::Float(value) => Self::Text(value.to_string()),
            lent::Value::Pointer { address, .. } => Self::Pointer(address),
            lent::Value::Enumeration { value, names, .. } => Self::Enumeration {
                value,
                name: lent::name_of(value, names).map(str::to_owned),
            },
            lent::Value::Flags { bits, names } => {
                let mut named = Vec::new();
                lent::flags(bits, names, |name| named.push(name.to_owned()));
                Self::Flags { bits, names: named }
            }
            lent::Value::Text(bytes) | lent::Value::CutText(bytes) | lent::Value::Buffer(bytes) => {
                Self::Text(String::from_utf8_lossy(bytes).into_owned())
            }
            lent::Value::Array(elements) => Self::List(elements.iter().map(Self::from).collect()),
            lent::Value::Composite(parts) => Self::List(parts.iter().map(|(_, it)| Self::from(it)).collect()),
            named @ lent::Value::Named(_) => {
                let mut text = Vec::new();
                print::value(named, &Symbols::default(), &mut text);
                Self::Text(String::from_utf8_lossy(&text).into_owned())
            }
            lent::Value::Stack(frames) => Self::Stack(frames.iter().collect()),
            lent::Value::Fault => Self::Fault,
            lent::Value::Missing => Self::Missing,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(value) => write!(f, "{value}"),
            Self::Unsigned(value) => write!(f, "{value}"),
            Self::Hexadecimal(value) | Self::Pointer(value) => write!(f, "{value:#x}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Enumeration { value, name: None } => write!(f, "{value}"),
            Self::Enumeration { name: Some(name), .. } => f.write_str(name),
            Self::Flags { bits, names } if names.is_empty() => write!(f, "{bits:#x}"),
            Self::Flags { names, .. } => f.write_str(&names.join("|")),
            Self::Text(text) => f.write_str(text),
            Self::List(values) => {
                f.write_str("[")?;
                for (place, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if place == 0 { "" } else { "," })?;
                }
                f.write_str("]")
            }
            Self::Stack(frames) => {
                for (place, frame) in frames.iter().enumerate() {
                    write!(f, "{}{frame:#x}", if place == 0 { "" } else { "<-" })?;
                }
                Ok(())
            }
            Self::Fault => f.write_str("(fault)"),
            Self::Missing => f.write_str("?"),
        }
    }
}
