//! Types as lines write them, and how values of them are kept.

use super::argument::{Fetch, Store};
use super::fetch::Reader;
use super::number;
use super::word::{Parsed, Wrong};

/// Elements of an array (`MAX_ARRAY_LEN`).
const MAX_ELEMENTS: u64 = 64;
/// Types of the kernel's that are integers: name, bits, whether it has a sign.
const INTEGERS: &[(&str, u32, bool)] = &[
    ("u8", 8, false),
    ("u16", 16, false),
    ("u32", 32, false),
    ("u64", 64, false),
    ("s8", 8, true),
    ("s16", 16, true),
    ("s32", 32, true),
    ("s64", 64, true),
    ("x8", 8, false),
    ("x16", 16, false),
    ("x32", 32, false),
    ("x64", 64, false),
    ("char", 8, false),
];

/// A type as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Integer { bits: u32, signed: bool },
    Bits { container: u32 },
    Symbol,
    String,
    UserString,
    SymbolString,
}

pub(super) fn written(text: &str) -> Option<Written> {
    if text.starts_with('b') {
        let (_, container) = text.split_once('/')?;
        return match number::unsigned(container)? {
            bits @ (8 | 16 | 32 | 64) => Some(Written::Bits {
                container: bits as u32,
            }),
            _ => None,
        };
    }
    if let Some(&(_, bits, signed)) = INTEGERS.iter().find(|(known, ..)| *known == text) {
        return Some(Written::Integer { bits, signed });
    }
    Some(match text {
        "symbol" => Written::Symbol,
        "string" => Written::String,
        "ustring" => Written::UserString,
        "symstr" => Written::SymbolString,
        _ => return None,
    })
}

/// The bits that a type like `b4@2/32` names.
fn bit_field(text: &str, container: u32) -> Option<Store> {
    let (width, rest) = number::leading(text.strip_prefix('b')?);
    let after = rest.strip_prefix('@')?;
    let (shift, rest) = number::leading(after);
    if width == 0 || rest.len() == after.len() || !rest.starts_with('/') {
        return None;
    }
    let bits = |shift: u64, width: u64, zeros: u64| Store::Bits {
        container,
        shift: shift as u32,
        width: width as u32,
        zeros: zeros as u32,
    };
    let container = u64::from(container);
    match width.checked_add(shift) {
        Some(end) => (end <= container).then(|| bits(shift, width, 0)),
        // The kernel adds without looking for an overflow, and shifts by what comes of it: to the left, by all bits of the container or, where
        // the processor does not know such a shift, by none.
        None if width <= container => match width.wrapping_add(shift) {
            0 if container >= 32 => Some(bits(container - width, width, 0)),
            end => Some(bits(0, end, width - end)),
        },
        None => None,
    }
}

impl Reader<'_> {
    /// How a value of a written type is kept.
    pub(super) fn store(
        &self,
        written: Written,
        ty: &str,
        value: &Fetch,
        elements: Option<u32>,
        at: usize,
    ) -> Parsed<Store> {
        Ok(match written {
            Written::Integer { bits, signed } => Store::Integer { bits, signed },
            Written::Bits { container } => bit_field(ty, container).ok_or_else(|| {
                Wrong::at(
                    at,
                    format!("`{ty}` is no bit field: bWIDTH@OFFSET/SIZE, all of it within SIZE bits"),
                )
            })?,
            Written::Symbol => Store::Symbol,
            Written::SymbolString => match value {
                Fetch::Register(_) | Fetch::Stack(_) | Fetch::ReturnValue => Store::Symbol,
                Fetch::Argument(_) if !self.at_return => Store::Symbol,
                Fetch::Memory { user: false, .. } => Store::Symbol,
                _ => {
                    return Err(Wrong::at(
                        at,
                        "symstr wants an address: a register, an argument, or memory",
                    ));
                }
            },
            Written::String | Written::UserString => {
                let user = written == Written::UserString;
                match value {
                    Fetch::Memory { user: far, .. } => Store::Text {
                        // Of several strings it is the pointers that lie there.
                        user: user || *far && elements.is_none(),
                    },
                    Fetch::Immediate(_) => Store::Text { user },
                    Fetch::Comm | Fetch::Text(_) => Store::Text { user: false },
                    _ => return Err(Wrong::at(at, "a string is read from memory: +0(…):string")),
                }
            }
        })
    }
}

/// `TYPE[COUNT]`.
pub(super) fn array(ty: Option<&str>, at: usize) -> Parsed<(Option<&str>, Option<u32>)> {
    let Some((name, count)) = ty.and_then(|ty| ty.split_once('[')) else {
        return Ok((ty, None));
    };
    let count_at = at + name.len() + 1;
    let Some((count, rest)) = count.split_once(']') else {
        return Err(Wrong::at(count_at + count.len(), "a `]` is missing"));
    };
    if !rest.is_empty() {
        return Err(Wrong::at(
            count_at + count.len() + 1,
            format!("`{rest}` stands behind the array"),
        ));
    }
    match number::unsigned(count) {
        Some(count @ 1..=MAX_ELEMENTS) => Ok((Some(name), Some(count as u32))),
        _ => Err(Wrong::at(
            count_at,
            format!("`{count}`: an array has 1 to {MAX_ELEMENTS} elements"),
        )),
    }
}
