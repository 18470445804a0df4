//! One field's value, borrowed from the record's bytes and the layout's names; how it looks in text is decided in `print`.

mod kept_stack;
mod named;
mod parts;

pub use kept_stack::KeptStack;
pub use named::NamedValue;
pub use parts::{BuildIdFrame, Elements, Parts, Stacks, ValueContext};

use crate::layout::{Base, COPIED_WORDS, FieldType, Names, Space, StackMode};

/// The bytes in a place of fixed size (of a map's key or value, say) for a text that could not be read: no text that was read has
/// anything behind a NUL there.
pub const FAULT_IN_STRING: [u8; 8] = *b"\0(fault)";

/// The elements of a string of at most `max` bytes that could not be read: `(fault)`, as far as there is room, and a NUL, which no string that was
/// read has. Other readers of the trace show the text.
pub fn fault_in_string(max: u32) -> Vec<u8> {
    let room = (max as usize).min(FAULT_IN_STRING.len());
    let mut mark: Vec<u8> = FAULT_IN_STRING
        .iter()
        .skip(1)
        .copied()
        .take(room.saturating_sub(1))
        .collect();
    mark.resize(room, 0);
    mark
}

/// Whether the elements of a string are what [`fault_in_string`] gives.
fn is_fault(elements: &[u8], max: u32) -> bool {
    let room = (max as usize).min(FAULT_IN_STRING.len());
    match elements.split_last() {
        Some((0, text)) if elements.len() == room => text == &FAULT_IN_STRING[1..room],
        _ => false,
    }
}

/// Whether the elements of a string are the begin of a longer one: all that there is room for, the last of them a NUL, which no string that was read whole has.
fn is_cut(elements: &[u8], max: u32) -> bool {
    elements.len() == max as usize && elements.iter().position(|byte| *byte == 0) == Some(elements.len() - 1)
}

/// A decoded value.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields speak for themselves")]
pub enum Value<'a> {
    Signed {
        value: i64,
        base: Base,
        size: u8,
    },
    Unsigned {
        value: u64,
        base: Base,
        size: u8,
    },
    Bool(bool),
    Float(f64),
    Pointer {
        address: u64,
        symbolic: bool,
    },
    Enumeration {
        value: i64,
        signed: bool,
        names: &'a Names,
    },
    Flags {
        bits: u64,
        names: &'a Names,
    },
    /// Text up to its first NUL, or bytes with NULs among them; usually, not surely, UTF-8.
    Text(&'a [u8]),
    /// A text that the program could not read: nothing is mapped at its address, or the page was not in memory.
    Fault,
    /// The beginning of a text that has more bytes than are kept.
    CutText(&'a [u8]),
    /// Bytes of memory that are no text.
    Buffer(&'a [u8]),
    Array(Elements<'a>),
    /// A tuple, a record, a structure or a union.
    Composite(Parts<'a>),
    /// A number that stands for a name.
    Named(NamedValue<'a>),
    Stack(Frames<'a>),
    /// The record was too short to hold the field.
    Missing,
}

/// The return addresses of a stack, innermost first.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a> {
    /// The address space of its addresses.
    pub space: Space,
    /// How it wants to be shown, where its type says that.
    pub mode: Option<StackMode>,
    /// The process whose stack it is; 0 where that is not known.
    pub pid: u32,
    /// When it was taken, ns.
    pub time_ns: u64,
    /// Whether there are more frames than it has: the copy of the stack that they were found in ends before.
    pub truncated: bool,
    bytes: &'a [u8],
}

/// A process's stack as it was copied: what its frames are found from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackCopy<'a> {
    /// The instruction pointer.
    pub ip: u64,
    /// The stack pointer: the address of the first byte of `stack`.
    pub sp: u64,
    /// The frame pointer, where the code has one.
    pub bp: u64,
    /// When it was copied, ns, where other records have more of it ([`crate::stack_pieces`]); else 0.
    pub taken: u64,
    /// The stack's bytes that the record itself holds.
    pub stack: &'a [u8],
    /// Bytes behind them.
    pub rest: &'a [u8],
}

impl<'a> StackCopy<'a> {
    /// Reads the elements of a [`FieldType::StackCopy`]; none where nothing was copied.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (registers, _) = bytes.as_chunks::<8>();
        let [ip, sp, bp, taken, ..] = *registers else {
            return None;
        };
        Some(Self {
            ip: u64::from_le_bytes(ip),
            sp: u64::from_le_bytes(sp),
            bp: u64::from_le_bytes(bp),
            taken: u64::from_le_bytes(taken),
            rest: &[],
            stack: &bytes[COPIED_WORDS as usize * 8..],
        })
    }
}

impl<'a> Value<'a> {
    /// Reads a value of a fixed type from the start of `bytes`; of a variable type, from exactly `bytes`.
    pub fn read(ty: &'a FieldType, bytes: &'a [u8]) -> Self {
        Self::read_beside(ty, bytes, ValueContext::default())
    }

    /// Reads a value with what its bytes refer to.
    pub(crate) fn read_beside(ty: &'a FieldType, bytes: &'a [u8], beside: ValueContext<'a>) -> Self {
        Self::try_read(ty, bytes, beside).unwrap_or(Self::Missing)
    }

    fn try_read(ty: &'a FieldType, bytes: &'a [u8], beside: ValueContext<'a>) -> Option<Self> {
        Some(match ty {
            &FieldType::Integer { size, signed, base } => {
                let value = unsigned(bytes, size)?;
                if signed {
                    Self::Signed {
                        value: extend(value, size),
                        base,
                        size,
                    }
                } else {
                    Self::Unsigned { value, base, size }
                }
            }
            FieldType::Bool => Self::Bool(*bytes.first()? != 0),
            FieldType::Float { size: 4 } => Self::Float(f32::from_le_bytes(*bytes.first_chunk()?).into()),
            FieldType::Float { .. } => Self::Float(f64::from_le_bytes(*bytes.first_chunk()?)),
            &FieldType::Pointer { symbolic } => Self::Pointer {
                address: unsigned(bytes, 8)?,
                symbolic,
            },
            FieldType::Enumeration { size, signed, names } => {
                let value = unsigned(bytes, *size)?;
                let value = if *signed {
                    extend(value, *size)
                } else {
                    value as i64
                };
                Self::Enumeration {
                    value,
                    signed: *signed,
                    names,
                }
            }
            FieldType::Flags { size, names } => Self::Flags {
                bits: unsigned(bytes, *size)?,
                names,
            },
            &FieldType::CharArray { size } => match bytes.get(..size as usize)? {
                marked if marked.starts_with(&FAULT_IN_STRING) => Self::Fault,
                text => Self::Text(until_nul(text)),
            },
            &FieldType::InlineString { max } => match bytes.get(..(max as usize).checked_add(2)?)? {
                marked if marked.starts_with(&FAULT_IN_STRING) => Self::Fault,
                text => match until_nul(text) {
                    whole if whole.len() <= max as usize => Self::Text(whole),
                    more => Self::CutText(&more[..max as usize]),
                },
            },
            &FieldType::Buffer { max } => {
                let kept = bytes.get(4..(max as usize).checked_add(4)?)?;
                let length = unsigned(bytes, 4)?.min(max.into()) as usize;
                Self::Buffer(&kept[..length])
            }
            FieldType::Array { element, count } => {
                let size = (element.fixed_size() as usize).checked_mul(*count as usize)?;
                Self::Array(Elements {
                    ty: element,
                    bytes: bytes.get(..size)?,
                    beside,
                })
            }
            FieldType::Composite(ty) => Self::Composite(Parts {
                ty,
                bytes: bytes.get(..ty.size as usize)?,
                beside,
            }),
            FieldType::Named(named) => Self::Named(NamedValue::read(named, bytes, beside)?),
            FieldType::HeldStack(stack) => return Self::held_stack(stack, bytes, beside),
            &(FieldType::String { max } | FieldType::Bytes { max }) if is_fault(bytes, max) => Self::Fault,
            FieldType::Bytes { .. } => Self::Text(bytes),
            &FieldType::String { max } => match is_cut(bytes, max) {
                true => Self::CutText(until_nul(bytes)),
                false => Self::Text(until_nul(bytes)),
            },
            FieldType::Stack { .. } if bytes == FAULT_IN_STRING => Self::Fault,
            &FieldType::Stack { space, .. } => Self::Stack(Frames {
                space,
                mode: None,
                pid: 0,
                time_ns: 0,
                truncated: false,
                bytes,
            }),
            // A stack whose frames were not found has the innermost.
            FieldType::StackCopy { .. } => {
                let innermost = &bytes[..bytes.len().min(8)];
                Self::Stack(Frames::unwound(innermost, !innermost.is_empty()).shown(ty))
            }
        })
    }

    /// The value as an integer, where it is one.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Self::Signed { value, .. } | Self::Enumeration { value, .. } => Some(value),
            Self::Unsigned { value, .. } => Some(value as i64),
            Self::Pointer { address, .. } => Some(address as i64),
            Self::Flags { bits, .. } => Some(bits as i64),
            Self::Bool(value) => Some(i64::from(value)),
            Self::Named(named) => named.number(),
            _ => None,
        }
    }

    /// The value's bits as an unsigned integer, where it is an integer.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_i64().map(|value| value as u64)
    }

    /// The value as text, where it is text; bytes that are not UTF-8 are replaced.
    pub fn as_text(&self) -> Option<std::borrow::Cow<'a, str>> {
        match *self {
            Self::Text(bytes) | Self::CutText(bytes) => Some(String::from_utf8_lossy(bytes)),
            _ => None,
        }
    }
}

impl<'a> Frames<'a> {
    /// Frames of a process that were found in a copy of its stack, 8 bytes each.
    pub(crate) fn unwound(bytes: &'a [u8], truncated: bool) -> Self {
        Self {
            space: Space::User,
            mode: None,
            pid: 0,
            time_ns: 0,
            truncated,
            bytes,
        }
    }

    /// The frames that are shown of a copied stack, as its field has it.
    pub(crate) fn shown(self, ty: &FieldType) -> Self {
        let &FieldType::StackCopy {
            shown: Some((mode, most)),
            ..
        } = ty
        else {
            return self;
        };
        let bytes = &self.bytes[..self.bytes.len().min(most as usize * 8)];
        Self {
            mode: Some(mode),
            bytes,
            ..self
        }
    }

    /// The stack as one of a process at a time.
    pub(crate) fn of(self, pid: u32, time_ns: u64) -> Self {
        Self { pid, time_ns, ..self }
    }

    /// Addresses, innermost first.
    pub fn iter(self) -> impl Iterator<Item = u64> + 'a {
        self.bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|frame| u64::from_le_bytes(*frame))
    }

    /// Whether the stack holds no address.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() < 8
    }
}

/// The name of `value` among `names`.
pub fn name_of(value: i64, names: &Names) -> Option<&str> {
    names
        .iter()
        .find(|(number, _)| *number == value)
        .map(|(_, name)| name.as_str())
}

/// Calls `each` with the name of every named bit (or group of bits) of `bits`; gives back the bits without a name.
/// A name for 0 stands only for 0.
pub fn flags<'a>(bits: u64, names: &'a Names, mut each: impl FnMut(&'a str)) -> u64 {
    if bits == 0 {
        if let Some(name) = name_of(0, names) {
            each(name);
        }
        return 0;
    }
    let mut rest = bits;
    for (mask, name) in names.iter() {
        let mask = *mask as u64;
        if mask != 0 && rest & mask == mask {
            each(name);
            rest &= !mask;
        }
    }
    rest
}

fn unsigned(bytes: &[u8], size: u8) -> Option<u64> {
    Some(match size {
        1 => u64::from(*bytes.first()?),
        2 => u64::from(u16::from_le_bytes(*bytes.first_chunk()?)),
        4 => u64::from(u32::from_le_bytes(*bytes.first_chunk()?)),
        8 => u64::from_le_bytes(*bytes.first_chunk()?),
        _ => return None,
    })
}

fn extend(value: u64, size: u8) -> i64 {
    match size {
        1 => i64::from(value as i8),
        2 => i64::from(value as i16),
        4 => i64::from(value as i32),
        _ => value as i64,
    }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_their_sign() {
        let ty = FieldType::Integer {
            size: 2,
            signed: true,
            base: Base::Decimal,
        };
        assert_eq!(Value::read(&ty, &[0xfe, 0xff]).as_i64(), Some(-2));
        assert!(matches!(Value::read(&ty, &[0xfe]), Value::Missing));
    }

    #[test]
    fn flags_are_taken_once_and_the_rest_is_given_back() {
        let names: Names = vec![
            (3, "RW".into()),
            (1, "R".into()),
            (4, "X".into()),
            (0, "NONE".into()),
        ]
        .into();
        let mut seen = Vec::new();
        assert_eq!(flags(0x17, &names, |name| seen.push(name)), 0x10);
        assert_eq!(seen, ["RW", "X"]);
        seen.clear();
        assert_eq!(flags(0, &names, |name| seen.push(name)), 0);
        assert_eq!(seen, ["NONE"]);
    }

    #[test]
    fn a_text_that_could_not_be_read_is_no_text() {
        for max in 1..20 {
            let ty = FieldType::String { max };
            assert!(
                matches!(Value::read(&ty, &fault_in_string(max)), Value::Fault),
                "{max}"
            );
            assert!(matches!(Value::read(&ty, b""), Value::Text(b"")));
            let text = &b"(fault)"[..(max as usize).min(7)];
            assert!(matches!(Value::read(&ty, text), Value::Text(read) if read == text));
        }
        assert_eq!(fault_in_string(255), b"(fault)\0");
        let ty = FieldType::CharArray { size: 16 };
        let mut bytes = [0; 16];
        assert!(matches!(Value::read(&ty, &bytes), Value::Text(b"")));
        bytes[..8].copy_from_slice(&FAULT_IN_STRING);
        assert!(matches!(Value::read(&ty, &bytes), Value::Fault));
    }

    #[test]
    fn text_ends_at_its_nul() {
        let ty = FieldType::CharArray { size: 4 };
        assert_eq!(Value::read(&ty, b"ab\0cd").as_text().unwrap(), "ab");
        let array = FieldType::Array {
            element: Box::new(ty),
            count: 2,
        };
        let Value::Array(elements) = Value::read(&array, b"ab\0\0cdef") else {
            panic!("not an array")
        };
        let strings: Vec<_> = elements.iter().filter_map(|v| v.as_text()).collect();
        assert_eq!(strings, ["ab", "cdef"]);
    }
}
