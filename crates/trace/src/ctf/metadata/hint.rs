//! The `env` strings that carry what TSDL cannot: `KIND [!VERB:TEXT] [=PRINT FORMAT] FIELD FIELD:hint …`, the fields in reading order; not their places.
//!
//! ```text
//! bool   float   call(open)   pointer   symbol   flags(1=S,2=D)   enum(0=A)   kstack(127)   ustack(127)   stackcopy(2048)   string(256)   bytes(64)
//! type({"Composite":{"kind":"Tuple",…}})
//! ```
//! A hint on an array is about its elements, but for `type`, which is the whole type as JSON: composites, and numbers that stand for names. Bytes outside a small set are written `%xx`; an empty word is `%`.

use crate::layout::{Base, FieldType, Names, Space};
use crate::syscall::Meaning;
use kestrel_layout::tsdl::Word;
use std::fmt::Write as _;

/// Hint about one field, beyond TSDL.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Hint {
    Bool,
    Float,
    Call(Meaning),
    Pointer {
        symbolic: bool,
    },
    Flags(Names),
    /// Where TSDL cannot hold the names: there are none, or one is out of the integer's range.
    Enumeration(Names),
    Stack {
        space: Space,
        max: u32,
    },
    StackCopy {
        max: u32,
    },
    String {
        max: u32,
    },
    Bytes {
        max: u32,
    },
    /// The whole type.
    Type(Box<FieldType>),
}

/// Whether TSDL and the other hints cannot say all of a type.
pub(super) fn is_nested(ty: &FieldType) -> bool {
    match ty {
        FieldType::Array { element, .. } => is_nested(element),
        FieldType::Composite(_)
        | FieldType::Named(_)
        | FieldType::InlineString { .. }
        | FieldType::Buffer { .. }
        | FieldType::HeldStack(_) => true,
        _ => false,
    }
}

impl Hint {
    /// The hint that `ty` needs, if any.
    pub(super) fn of(ty: &FieldType) -> Option<Self> {
        Some(match ty {
            ty if is_nested(ty) => Self::Type(Box::new(ty.clone())),
            FieldType::Bool => Self::Bool,
            FieldType::Integer {
                base: Base::Float, ..
            } => Self::Float,
            FieldType::Integer {
                base: Base::Named(meaning),
                ..
            } => Self::Call(*meaning),
            FieldType::Pointer { symbolic } => Self::Pointer { symbolic: *symbolic },
            FieldType::Flags { names, .. } => Self::Flags(names.clone()),
            FieldType::Enumeration { size, signed, names } if !expressible(*size, *signed, names) => {
                Self::Enumeration(names.clone())
            }
            FieldType::Stack { space, max } => Self::Stack {
                space: *space,
                max: *max,
            },
            FieldType::StackCopy { max, .. } => Self::StackCopy { max: *max },
            FieldType::String { max } => Self::String { max: *max },
            FieldType::Bytes { max } => Self::Bytes { max: *max },
            FieldType::Array { element, .. } => return Self::of(element),
            _ => return None,
        })
    }

    pub(super) fn is_variable(&self) -> bool {
        matches!(
            self,
            Self::Stack { .. } | Self::StackCopy { .. } | Self::String { .. } | Self::Bytes { .. }
        )
    }

    /// `:hint`, appended to a field's name.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Bool => out.push_str(":bool"),
            Self::Float => out.push_str(":float"),
            Self::Call(meaning) => out.push_str(&format!(":call({})", meaning.word())),
            Self::Pointer { symbolic: true } => out.push_str(":symbol"),
            Self::Pointer { symbolic: false } => out.push_str(":pointer"),
            Self::Flags(names) => write_names(":flags", names, out),
            Self::Enumeration(names) => write_names(":enum", names, out),
            Self::Stack {
                space: Space::Kernel,
                max,
            } => out.push_str(&format!(":kstack({max})")),
            Self::Stack {
                space: Space::User,
                max,
            } => out.push_str(&format!(":ustack({max})")),
            Self::StackCopy { max } => out.push_str(&format!(":stackcopy({max})")),
            Self::String { max } => out.push_str(&format!(":string({max})")),
            Self::Bytes { max } => out.push_str(&format!(":bytes({max})")),
            Self::Type(ty) => {
                out.push_str(":type(");
                // A type is made of strings and numbers, and so cannot fail to serialise.
                encode_only(
                    &serde_json::to_string(ty).unwrap_or_default(),
                    |byte| !matches!(byte, b' '..=b'~') || matches!(byte, b' ' | b'%'),
                    out,
                );
                out.push(')');
            }
        }
    }

    /// Parses the text of `write`, without the colon.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (word, argument) = match text.split_once('(') {
            Some((word, rest)) => (word, rest.strip_suffix(')')?),
            None => (text, ""),
        };
        Some(match word {
            "bool" => Self::Bool,
            "float" => Self::Float,
            "call" => Self::Call(Meaning::from_word(argument)?),
            "symbol" => Self::Pointer { symbolic: true },
            "pointer" => Self::Pointer { symbolic: false },
            "flags" => Self::Flags(parse_names(argument)?),
            "enum" => Self::Enumeration(parse_names(argument)?),
            "kstack" => Self::Stack {
                space: Space::Kernel,
                max: argument.parse().ok()?,
            },
            "ustack" => Self::Stack {
                space: Space::User,
                max: argument.parse().ok()?,
            },
            "stackcopy" => Self::StackCopy {
                max: argument.parse().ok()?,
            },
            "string" => Self::String {
                max: argument.parse().ok()?,
            },
            "type" => {
                let ty: FieldType = serde_json::from_str(&decode(argument)?).ok()?;
                Self::Type(Box::new(Some(ty).filter(FieldType::is_sound)?))
            }
            "bytes" => Self::Bytes {
                max: argument.parse().ok()?,
            },
            _ => return None,
        })
    }
}

/// Whether TSDL can hold an enumeration's names: there is at least one and each value fits.
pub(super) fn expressible(size: u8, signed: bool, names: &Names) -> bool {
    let bits = u32::from(size) * 8;
    let fits = |value: i64| match (signed, bits) {
        (_, 64) => true,
        (true, _) => (-(1_i64 << (bits - 1))..1_i64 << (bits - 1)).contains(&value),
        (false, _) => (0..1_i64 << bits).contains(&value),
    };
    !names.is_empty() && names.iter().all(|(value, _)| fits(*value))
}

fn write_names(word: &str, names: &Names, out: &mut String) {
    out.push_str(word);
    out.push('(');
    for (i, (value, name)) in names.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        out.push_str(&format!("{value}="));
        encode(name, out);
    }
    out.push(')');
}

fn parse_names(text: &str) -> Option<Names> {
    let mut names = Vec::new();
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (value, name) = pair.split_once('=')?;
        names.push((value.parse().ok()?, decode(name)?));
    }
    Some(names.into())
}

/// Appends a word in which only a small set of characters stands for itself.
pub(super) fn encode(word: &str, out: &mut String) {
    _ = write!(out, "{}", Word(word));
}

/// Appends a word in which some bytes, `%` among them, do not stand for themselves.
fn encode_only(word: &str, which: impl Fn(u8) -> bool, out: &mut String) {
    for byte in word.bytes() {
        match which(byte) {
            true => out.push_str(&format!("%{byte:02x}")),
            false => out.push(char::from(byte)),
        }
    }
}

/// Parses the text of `encode`.
pub(super) fn decode(word: &str) -> Option<String> {
    if word == "%" {
        return Some(String::new());
    }
    let mut bytes = Vec::new();
    let mut rest = word.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}
