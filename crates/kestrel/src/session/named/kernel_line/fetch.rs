//! What a line of the kernel's fetches, as an expression of the language.

use super::number;
use crate::catalog::arch;

type Result<T> = std::result::Result<T, String>;

/// Most elements of an array, as in the kernel.
const MOST_ELEMENTS: u64 = 64;

/// A value, and whether it lies in memory at an address.
enum Fetched {
    /// An expression.
    Value(String),
    /// An address and bytes to add to it, and whether the process's memory is meant.
    Memory { base: String, offset: i64, user: bool },
    /// The name of the thread.
    Comm,
}

/// `name = expression` for `[NAME=]FETCH[:TYPE]`; several for an array.
pub(super) fn argument(word: &str, position: u32, at_return: bool) -> Result<Vec<String>> {
    let (name, rest) = match word.split_once('=') {
        Some((name, rest)) => (name.to_owned(), rest),
        None => (format!("arg{position}"), word),
    };
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !first || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(format!("`{name}` cannot be the name of an argument"));
    }
    let (fetch, ty) = match rest.rsplit_once(':') {
        Some((fetch, ty)) => (fetch, Some(ty)),
        None => (rest, None),
    };
    let fetched = fetched(fetch, at_return)?;
    let (ty, elements) = match ty.and_then(|ty| ty.strip_suffix(']')?.split_once('[')) {
        Some((ty, count)) => {
            let count = number(count).filter(|n| (1..=MOST_ELEMENTS).contains(n));
            let count =
                count.ok_or_else(|| format!("`{word}`: an array has 1 to {MOST_ELEMENTS} elements"))?;
            (Some(ty), Some(count))
        }
        None => (ty, None),
    };
    let Some(elements) = elements else {
        return Ok(vec![format!("{name} = {}", typed(&fetched, ty, fetch)?)]);
    };
    let Fetched::Memory { base, offset, user } = fetched else {
        return Err(format!("`{fetch}` is no array: only memory is, `+0({fetch})`"));
    };
    let size = match Type::parse(ty.unwrap_or("x64"))? {
        Type::Integer { bits, .. } => i64::from(bits / 8),
        Type::Text { .. } => 8,
        Type::Bits { container, .. } => i64::from(container / 8),
    };
    let element = |index: u64| {
        let fetched = Fetched::Memory {
            base: base.clone(),
            offset: offset + size * index as i64,
            user,
        };
        Ok(format!("{name}_{index} = {}", typed(&fetched, ty, fetch)?))
    };
    (0..elements).map(element).collect()
}

fn fetched(fetch: &str, at_return: bool) -> Result<Fetched> {
    let value = |text: String| Ok(Fetched::Value(text));
    if let Some(register) = fetch.strip_prefix('%') {
        let known = arch::current()
            .registers
            .iter()
            .any(|saved| saved.name == register || saved.aliases.contains(&register));
        return match known {
            true => value(format!("reg(\"{register}\")")),
            false => Err(format!("`{fetch}` is no register of this processor")),
        };
    }
    if let Some(name) = fetch.strip_prefix('$') {
        let index = |prefix: &str| name.strip_prefix(prefix).and_then(|n| n.parse::<u32>().ok());
        return match (name, index("stack"), index("arg")) {
            ("retval", ..) if at_return => value("retval".to_owned()),
            ("retval", ..) => Err("`$retval` is there in return probes only".to_owned()),
            ("comm", ..) => Ok(Fetched::Comm),
            ("stack", ..) => value("reg(\"sp\")".to_owned()),
            (_, Some(entry), _) => Ok(Fetched::Memory {
                base: "reg(\"sp\")".to_owned(),
                offset: i64::from(entry) * 8,
                user: false,
            }),
            (.., Some(_)) if at_return => Err(format!("`{fetch}` has gone when the function returns")),
            (.., Some(argument @ 1..)) if argument as usize <= arch::current().arguments.len() => {
                value(format!("arg{}", argument - 1))
            }
            _ => Err(format!("`{fetch}` has no counterpart")),
        };
    }
    if let Some(immediate) = fetch.strip_prefix('\\') {
        return match number(immediate) {
            Some(number) => value(number.to_string()),
            None => Err(format!(
                "`{fetch}` has no counterpart: only numbers may stand behind the backslash"
            )),
        };
    }
    if let Some(address) = fetch.strip_prefix('@') {
        return match number(address).filter(|_| address.starts_with("0x")) {
            Some(address) => Ok(Fetched::Memory {
                base: format!("{address:#x}"),
                offset: 0,
                user: false,
            }),
            None => Err(format!(
                "`{fetch}`: memory is named by its address or symbol, @0xADDRESS, @SYMBOL+OFFSET, or through a register"
            )),
        };
    }
    memory(fetch, at_return)
}

/// `+OFFS(FETCH)`, `-OFFS(FETCH)`, `+uOFFS(FETCH)`.
fn memory(fetch: &str, at_return: bool) -> Result<Fetched> {
    let unreadable =
        || format!("`{fetch}` is not %REGISTER, $VARIABLE, @0xADDRESS, @SYMBOL or +OFFSET(FETCH)");
    let (negative, rest) = match (fetch.strip_prefix('+'), fetch.strip_prefix('-')) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => return Err(unreadable()),
    };
    let (user, rest) = match rest.strip_prefix('u') {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let inner = rest.strip_suffix(')').and_then(|rest| rest.split_once('('));
    let (offset, inner) = inner.ok_or_else(unreadable)?;
    let offset = number(offset)
        .and_then(|n| i64::try_from(n).ok())
        .ok_or_else(unreadable)?;
    let base = match fetched(inner, at_return)? {
        Fetched::Value(text) => text,
        Fetched::Comm => return Err(format!("`{inner}` is a text, not an address")),
        place => integer(&place, "uint64"),
    };
    Ok(Fetched::Memory {
        base,
        offset: if negative { -offset } else { offset },
        user,
    })
}

/// How a value is to be read.
enum Type {
    Integer { name: &'static str, bits: u32 },
    Text { user: bool },
    Bits { width: u32, offset: u32, container: u32 },
}

/// Types of the kernel's, and those of the language.
const INTEGERS: &[(&str, &str, u32)] = &[
    ("u8", "uint8", 8),
    ("u16", "uint16", 16),
    ("u32", "uint32", 32),
    ("u64", "uint64", 64),
    ("s8", "int8", 8),
    ("s16", "int16", 16),
    ("s32", "int32", 32),
    ("s64", "int64", 64),
    ("x8", "uint8", 8),
    ("x16", "uint16", 16),
    ("x32", "uint32", 32),
    ("x64", "uint64", 64),
    ("char", "uint8", 8),
];

impl Type {
    fn parse(text: &str) -> Result<Self> {
        if let Some(&(_, name, bits)) = INTEGERS.iter().find(|(known, ..)| *known == text) {
            return Ok(Self::Integer { name, bits });
        }
        match text {
            "string" => return Ok(Self::Text { user: false }),
            "ustring" => return Ok(Self::Text { user: true }),
            _ => {}
        }
        let bits = |text: &str| {
            let (width, rest) = text.strip_prefix('b')?.split_once('@')?;
            let (offset, container) = rest.split_once('/')?;
            Some((width.parse().ok()?, offset.parse().ok()?, container.parse().ok()?))
        };
        match bits(text) {
            Some((width, offset, container @ (8 | 16 | 32 | 64)))
                if width >= 1 && u32::checked_add(width, offset).is_some_and(|end| end <= container) =>
            {
                Ok(Self::Bits {
                    width,
                    offset,
                    container,
                })
            }
            _ => Err(format!(
                "the type `{text}` has no counterpart: there are u8 to u64, s8 to s64, x8 to x64, char, string, ustring and bit fields"
            )),
        }
    }
}

fn typed(fetched: &Fetched, ty: Option<&str>, fetch: &str) -> Result<String> {
    let parsed = ty.map(Type::parse).transpose()?;
    match (fetched, parsed) {
        (Fetched::Comm, None | Some(Type::Text { user: false })) => Ok("comm".to_owned()),
        (Fetched::Comm, Some(_)) => Err("`$comm` is a string".to_owned()),
        (Fetched::Value(text), None) => Ok(text.clone()),
        (place, None) => Ok(integer(place, "uint64")),
        (place, Some(Type::Integer { name, .. })) => Ok(integer(place, name)),
        (
            place,
            Some(Type::Bits {
                width,
                offset,
                container,
            }),
        ) => {
            let name = ["uint8", "uint16", "uint32", "uint64"][container.trailing_zeros() as usize - 3];
            let mask = u64::MAX >> (64 - width);
            Ok(format!("({} >> {offset}) & {mask:#x}", integer(place, name)))
        }
        (
            Fetched::Memory {
                base,
                offset,
                user: far,
            },
            Some(Type::Text { user }),
        ) => Ok(format!("str({})", pointer(base, *offset, user || *far))),
        (Fetched::Value(_), Some(Type::Text { .. })) => {
            Err(format!("a string is read from memory: `+0({fetch}):string`"))
        }
    }
}

fn integer(fetched: &Fetched, name: &str) -> String {
    match fetched {
        Fetched::Value(text) => format!("({name})({text})"),
        Fetched::Memory { base, offset, user } => format!("*({name} *){}", pointer(base, *offset, *user)),
        Fetched::Comm => "comm".to_owned(),
    }
}

fn pointer(base: &str, offset: i64, user: bool) -> String {
    let space = if user { "uptr" } else { "kptr" };
    match offset {
        0 => format!("{space}({base})"),
        below if below < 0 => format!("{space}({base} - {})", below.unsigned_abs()),
        above => format!("{space}({base} + {above})"),
    }
}
