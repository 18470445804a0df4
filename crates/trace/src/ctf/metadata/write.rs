//! From a `TraceInfo` to TSDL text; reading it back is `restore`'s work.

use super::hint::{self, Hint, encode, is_nested};
use crate::error::{Error, Result};
use crate::event::EventClass;
use crate::info::{BufferMode, TraceInfo};
use crate::layout::{Base, Composite, Field, FieldType, Layout};
use crate::stack_pieces::CLASS;
use kestrel_layout::tsdl::{self, Alias, Aligned, BEGINNING, Origin, Quoted, identifiers, length_name};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The metadata of a trace as TSDL text, which begins with `/* CTF 1.8 */`.
///
/// Fails where a layout holds what CTF has no words for (an integer of 3 bytes, an array of strings), or where two events
/// have one number.
pub fn text(info: &TraceInfo) -> Result<String> {
    let mut events = String::new();
    let mut aliases = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    for event in &info.events {
        if !numbers.insert(event.id) {
            let both = format!(
                "two events have number {}, one of them is {}",
                event.id.0, event.name
            );
            return Err(Error::Contradiction(both));
        }
        write_event(event, &mut events, &mut aliases)?;
    }
    if has_stack_copies(info) {
        write_event(&CLASS, &mut events, &mut aliases)?;
    }
    let mut out = format!("{BEGINNING}\n\n");
    let fields = info.events.iter().flat_map(|event| event.layout.fields());
    let floats = fields.clone().any(|field| field.ty.is_float());
    write_integers(&aliases, floats, &mut out);
    _ = tsdl::trace(&mut out, &info.uuid);
    write_env(info, &mut out);
    _ = tsdl::stream(&mut out, info.clock.seconds, info.clock.nanoseconds);
    out.push_str(&events);
    Ok(out)
}

/// Whether there may be pieces of stacks, which the metadata has to describe for readers of CTF.
fn has_stack_copies(info: &TraceInfo) -> bool {
    let mut fields = info.events.iter().flat_map(|event| event.layout.fields());
    fields.any(|field| matches!(field.ty, FieldType::StackCopy { .. }))
}

fn write_integers(used: &BTreeSet<Alias>, floats: bool, out: &mut String) {
    let always = [1, 2, 4, 8].map(|size| Alias::new(size, false));
    let all: BTreeSet<Alias> = used.iter().copied().chain(always).collect();
    for alias in all {
        _ = alias.declare(out);
    }
    _ = tsdl::other_types(out, floats);
}

fn write_env(info: &TraceInfo, out: &mut String) {
    let origin = Origin {
        domain: "kernel",
        tracer_version: &info.tracer_version,
        hostname: &info.hostname,
        kernel_release: &info.kernel_release,
        machine: &info.machine,
        command: &info.command,
        session: &info.session,
        boot: &info.boot,
    };
    _ = tsdl::env(out, &origin);
    for buffer in &info.buffers {
        let mode = match buffer.mode {
            BufferMode::Overwrite => "overwrite",
            BufferMode::Discard => "discard",
        };
        _ = tsdl::buffer(out, buffer.number, &buffer.name, mode, buffer.bytes_per_cpu);
    }
    for event in &info.events {
        _ = writeln!(out, "    event_{} = {};", event.id.0, Quoted(&hints(event)));
    }
    out.push_str("};\n\n");
}

fn hints(event: &EventClass) -> String {
    let mut text = String::new();
    encode(&event.kind, &mut text);
    if let Some(action) = &event.action {
        text.push_str(" !");
        encode(&action.verb, &mut text);
        text.push(':');
        encode(&action.text, &mut text);
    }
    if let Some(print) = &event.print {
        text.push_str(" =");
        encode(print, &mut text);
    }
    for field in event.layout.fields() {
        text.push(' ');
        encode(&field.name, &mut text);
        if let Some(hint) = Hint::of(&field.ty) {
            hint.write(&mut text);
        }
    }
    text
}

fn write_event(event: &EventClass, out: &mut String, aliases: &mut BTreeSet<Alias>) -> Result<()> {
    _ = tsdl::event(out, event.id.0, &event.name);
    let layout = &event.layout;
    let names = identifiers(
        layout
            .fields()
            .iter()
            .map(|f| (f.name.as_str(), f.ty.is_variable())),
    );
    let named: Vec<(&Field, &String)> = layout.fields().iter().zip(&names).collect();
    for (field, name) in in_memory_order(&named) {
        if field.ty.is_variable() {
            _ = tsdl::field(out, &Alias::new(2, false), &length_name(name), &"");
        } else {
            let (ty, counts) = declaration(event, field, aliases)?;
            _ = tsdl::field(out, &ty, name, &counts);
        }
    }
    for tail in layout.tail() {
        let name = named
            .iter()
            .find(|(field, _)| std::ptr::eq(*field, tail))
            .map_or("", |(_, name)| name);
        let ty = if tail.ty.is_stack() { "addr_t" } else { "char_t" };
        _ = tsdl::field(out, &ty, name, &format_args!("[_{}]", length_name(name)));
    }
    _ = tsdl::event_end(out, needs_end(layout));
    Ok(())
}

fn in_memory_order<'a>(named: &[(&'a Field, &'a String)]) -> Vec<(&'a Field, &'a String)> {
    let mut all = named.to_vec();
    all.sort_by_key(|(field, _)| field.memory_order());
    all
}

/// Whether the last field may leave the record's length unaligned.
fn needs_end(layout: &Layout) -> bool {
    layout.is_words() || layout.constant_size() != Some(layout.fixed_end())
}

/// A field's type, and the counts of elements behind its name.
fn declaration(event: &EventClass, field: &Field, aliases: &mut BTreeSet<Alias>) -> Result<(String, String)> {
    let aligned = match event.layout.is_words() {
        // Arguments of raw tracepoints lie in words of 8 bytes each, which the alias's alignment says.
        true => Aligned::Word,
        false => Aligned::Own,
    };
    // Where a structure lies and how its members do is said by what stands around it, so they are all packed.
    let aligned = if is_nested(&field.ty) {
        Aligned::Packed
    } else {
        aligned
    };
    declared(&field.ty, aligned, aliases).map_err(|why| Error::Inexpressible {
        event: event.name.clone(),
        field: field.name.clone(),
        why,
    })
}

/// The declaration of a field, or of a member of a structure.
fn declared(
    ty: &FieldType,
    aligned: Aligned,
    aliases: &mut BTreeSet<Alias>,
) -> std::result::Result<(String, String), &'static str> {
    let mut counts = String::new();
    let mut ty = ty;
    while let FieldType::Array { element, count } = ty {
        _ = write!(counts, "[{count}]");
        ty = element;
    }
    let mut integer = |size: u8, signed: bool, base: u8| match size {
        1 | 2 | 4 | 8 => {
            let needless = size == 8 && aligned == Aligned::Word || size == 1 && aligned == Aligned::Packed;
            let alias = Alias {
                size,
                signed,
                base,
                aligned: if needless { Aligned::Own } else { aligned },
            };
            aliases.insert(alias);
            Ok(alias.to_string())
        }
        _ => Err("is an integer whose size is not 1, 2, 4 or 8 bytes"),
    };
    let text = match ty {
        FieldType::Integer { size, signed, base } => integer(*size, *signed, number_of(*base))?,
        FieldType::Bool => integer(1, false, 10)?,
        // Packed, it is its bits: its own types are aligned.
        FieldType::Float { size } if aligned == Aligned::Packed => integer(*size, false, 16)?,
        FieldType::Float { size: size @ (4 | 8) } => tsdl::float(*size).into(),
        FieldType::Float { .. } => return Err("is a floating-point number whose size is not 4 or 8 bytes"),
        FieldType::Pointer { .. } if aligned == Aligned::Packed => integer(8, false, 16)?,
        FieldType::Pointer { .. } => "addr_t".into(),
        FieldType::Flags { size, .. } => integer(*size, false, 16)?,
        FieldType::Enumeration { size, signed, names } => {
            let container = integer(*size, *signed, 10)?;
            if hint::expressible(*size, *signed, names) {
                enumeration(&container, *signed, names)
            } else {
                container
            }
        }
        FieldType::CharArray { .. } | FieldType::InlineString { .. } => {
            _ = write!(counts, "[{}]", ty.fixed_size());
            "char_t".into()
        }
        FieldType::Composite(composite) if composite.is_in_order() => structure(composite, aliases)?,
        FieldType::Named(named) if named.shape() == (8, 8) => integer(8, false, 16)?,
        FieldType::Named(named) if named.shape() == (4, 4) => integer(4, true, 10)?,
        // Bytes, to other readers.
        FieldType::Composite(_)
        | FieldType::Named(_)
        | FieldType::Buffer { .. }
        | FieldType::HeldStack(_) => {
            _ = write!(counts, "[{}]", ty.fixed_size());
            integer(1, false, 10)?
        }
        FieldType::Array { .. }
        | FieldType::String { .. }
        | FieldType::Bytes { .. }
        | FieldType::Stack { .. }
        | FieldType::StackCopy { .. } => return Err("is an array of elements of variable length"),
    };
    Ok((text, counts))
}

/// `struct { … }` with the bytes between members as members.
fn structure(
    composite: &Composite,
    aliases: &mut BTreeSet<Alias>,
) -> std::result::Result<String, &'static str> {
    const GAP: &str = "gap";
    let mut all: Vec<(&str, std::result::Result<&FieldType, u32>)> = Vec::new();
    let mut end = 0;
    for member in &composite.members {
        if member.offset > end {
            all.push((GAP, Err(member.offset - end)));
        }
        all.push((&member.name, Ok(&member.ty)));
        end = member.offset.saturating_add(member.ty.fixed_size());
    }
    if composite.size > end {
        all.push((GAP, Err(composite.size - end)));
    }
    let names = identifiers(all.iter().map(|(name, _)| (*name, false)));
    let mut out = "struct { ".to_owned();
    for ((_, ty), name) in all.iter().zip(&names) {
        out += &match ty {
            Ok(ty) => {
                let (ty, counts) = declared(ty, Aligned::Packed, aliases)?;
                format!("{ty} _{name}{counts}")
            }
            Err(bytes) => format!("uint8_t _{name}[{bytes}]"),
        };
        out += "; ";
    }
    Ok(out + "}")
}

fn number_of(base: Base) -> u8 {
    match base {
        Base::Decimal => 10,
        Base::Hexadecimal => 16,
        Base::Octal => 8,
        Base::Float => 16,
        Base::Named(meaning) if meaning.is_set() => 16,
        Base::Named(_) => 10,
    }
}

fn enumeration(container: &str, signed: bool, names: &[(i64, String)]) -> String {
    let mut out = format!("enum : {container} {{ ");
    for (i, (value, name)) in names.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        let name = Quoted(name);
        if signed {
            _ = write!(out, "{comma}{name} = {value}");
        } else {
            _ = write!(out, "{comma}{name} = {}", *value as u64);
        }
    }
    out + " }"
}
