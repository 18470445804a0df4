//! Reader of a CTF stream's values: numbers, which later lengths and variants refer to, strings, and any value as text for people.

use super::fields::is_text;
use crate::import::ctf::bits::{Bits, Stop};
use crate::import::ctf::types::{Choice, Integer, Struct, Type, bare, label};
use crate::packet::CAPACITY;
use std::sync::Arc;

/// Integers read so far in the same packet or event, which lengths and variants refer to.
pub(in crate::import::ctf) type Scope<'t> = Vec<(&'t str, i128, Option<&'t str>)>;

/// Most bytes of a text.
pub(super) const LONGEST: u32 = CAPACITY;

/// Reads a number, which later lengths and variants may refer to.
pub(super) fn number<'t>(
    ty: &'t Type,
    name: &'t str,
    bits: &mut Bits<'_>,
    scope: &mut Scope<'t>,
) -> Result<i128, Stop> {
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

/// Reads the bits of a floating-point number; `None` where the type is another.
fn float(ty: &Type, bits: &mut Bits<'_>) -> Result<Option<i128>, Stop> {
    let Type::Float {
        bits: size,
        align,
        little,
    } = ty
    else {
        return Ok(None);
    };
    bits.align(*align);
    Ok(Some(bits.integer(*size, false, *little)?.unwrap_or(0)))
}

/// Reads a number of any type as the bits that a field of that type has.
pub(super) fn plain<'t>(
    ty: &'t Type,
    name: &'t str,
    bits: &mut Bits<'_>,
    scope: &mut Scope<'t>,
) -> Result<i128, Stop> {
    match float(ty, bits)? {
        Some(raw) => Ok(raw),
        None => number(ty, name, bits, scope),
    }
}

/// The integer that a path refers to: the one of that name that was read last.
fn find<'s, 't>(scope: &'s Scope<'t>, path: &str) -> Result<&'s (&'t str, i128, Option<&'t str>), Stop> {
    let name = path.rsplit('.').next().map_or(path, bare);
    let found = scope.iter().rev().find(|(known, ..)| *known == name);
    found.ok_or(Stop::Wrong("a length or a choice refers to what is not there"))
}

/// The option of a variant that its tag names.
fn chosen<'t>(
    scope: &Scope<'_>,
    tag: &str,
    options: &'t [(String, Type)],
) -> Result<&'t (String, Type), Stop> {
    let (_, _, named) = find(scope, tag)?;
    let named = named.map(bare);
    let option = options.iter().find(|(name, _)| Some(bare(name)) == named);
    option.ok_or(Stop::Wrong("a choice is none of those there are"))
}

/// The type that a selector's value chooses; none where nothing may be chosen.
fn selected<'t>(
    scope: &Scope<'_>,
    selector: &str,
    choices: &'t [Choice],
    is_optional: bool,
) -> Result<Option<&'t Choice>, Stop> {
    let (_, value, _) = find(scope, selector)?;
    let holds = |choice: &&Choice| {
        choice
            .ranges
            .iter()
            .any(|(low, high)| (low..=high).contains(&value))
    };
    match choices.iter().find(holds) {
        None if !is_optional => Err(Stop::Wrong("a choice is none of those there are")),
        choice => Ok(choice),
    }
}

/// The text that a variant holds, which is shown without quotes, as other fields are; none where it holds another value.
pub(super) fn text_of<'t>(ty: &'t Type, scope: &Scope<'_>) -> Result<Option<&'t Type>, Stop> {
    Ok(match ty {
        Type::Variant(tag, options) => Some(&chosen(scope, tag, options)?.1).filter(|ty| is_text(ty)),
        Type::Choice(selector, choices, is_optional) => {
            let choice = selected(scope, selector, choices, *is_optional)?;
            choice.map(|choice| &choice.ty).filter(|ty| is_text(ty))
        }
        _ => None,
    })
}

fn length(scope: &Scope<'_>, path: &str) -> Result<u64, Stop> {
    let (_, count, _) = find(scope, path)?;
    u64::try_from(*count).map_err(|_| Stop::Wrong("a length is negative"))
}

/// Reads a text: characters up to the first NUL.
pub(super) fn characters<'t>(
    ty: &'t Type,
    bits: &mut Bits<'_>,
    scope: &mut Scope<'t>,
) -> Result<Vec<u8>, Stop> {
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

/// Most elements of an array whose elements take no bits.
const EMPTY: u64 = 1 << 12;

/// Reads any value and appends it as text.
pub(in crate::import::ctf) fn shown<'t>(
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
        Type::Float { bits: size, .. } => {
            let raw = float(ty, bits)?.unwrap_or(0);
            put(
                text,
                &match size {
                    32 => f32::from_bits(raw as u32).to_string(),
                    _ => f64::from_bits(raw as u64).to_string(),
                },
            );
        }
        Type::Text => {
            // Quoted, so that a text of the trace's cannot pass for a part of the structure around it.
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
            let (name, ty) = chosen(scope, tag, options)?;
            shown(ty, name, bits, scope, text)?;
        }
        Type::Choice(selector, choices, is_optional) => {
            if let Some(choice) = selected(scope, selector, choices, *is_optional)? {
                shown(&choice.ty, &choice.name, bits, scope, text)?;
            }
        }
    }
    Ok(())
}

/// Appends text up to the greatest length.
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

/// Walks through a packet's header and context, or an event's header, and collects numbers by name; times of a clock are given to `clock`.
pub(in crate::import::ctf) fn walk<'t>(
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
            let (name, ty) = chosen(scope, tag, options)?;
            walk(ty, name, bits, scope, clock)?;
        }
        Type::Choice(selector, choices, is_optional) => {
            if let Some(choice) = selected(scope, selector, choices, *is_optional)? {
                walk(&choice.ty, &choice.name, bits, scope, clock)?;
            }
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
