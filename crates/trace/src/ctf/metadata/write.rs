//! From a `TraceInfo` to TSDL text; reading it back is `restore`'s work.

use super::hint::{self, Hint, encode, is_nested};
use super::{BEGINNING, CONTEXT, END, FORMAT, HEADER, TRACER, identifiers, length_name};
use crate::error::{Error, Result};
use crate::event::EventClass;
use crate::info::{BufferMode, TraceInfo};
use crate::layout::{Base, Composite, Field, FieldType, Layout};
use crate::stack_pieces::CLASS;
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
    write_integers(&aliases, &mut out);
    write_trace(info, &mut out);
    write_env(info, &mut out);
    write_stream(info, &mut out);
    out.push_str(&events);
    Ok(out)
}

/// Whether there may be pieces of stacks, which readers of CTF need to be told of.
fn has_stack_copies(info: &TraceInfo) -> bool {
    let mut fields = info.events.iter().flat_map(|event| event.layout.fields());
    fields.any(|field| matches!(field.ty, FieldType::StackCopy { .. }))
}

/// What the place of an integer is a multiple of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Aligned {
    /// Its own size.
    Own,
    /// 8 bytes, whatever its size: it begins a word.
    Word,
    /// Nothing: what it is part of says where it lies.
    Packed,
}

/// An integer type as an alias: bytes, signedness, base, and where it may lie.
type Alias = (u8, bool, u8, Aligned);

fn alias_name((size, signed, base, aligned): Alias) -> String {
    let sign = if signed { "" } else { "u" };
    let base = match base {
        16 => "_hex",
        8 => "_oct",
        _ => "",
    };
    let aligned = match aligned {
        Aligned::Own => "",
        Aligned::Word => "_word",
        Aligned::Packed => "_packed",
    };
    format!("{sign}int{}{base}{aligned}_t", u32::from(size) * 8)
}

fn write_integers(used: &BTreeSet<Alias>, out: &mut String) {
    let always = [1, 2, 4, 8].map(|size| (size, false, 10, Aligned::Own));
    let all: BTreeSet<Alias> = used.iter().copied().chain(always).collect();
    for alias in all {
        let (size, signed, base, aligned) = alias;
        let bits = u32::from(size) * 8;
        let align = match aligned {
            Aligned::Own => bits,
            Aligned::Word => 64,
            Aligned::Packed => 8,
        };
        _ = writeln!(
            out,
            "typealias integer {{ size = {bits}; align = {align}; signed = {signed}; base = {base}; }} := {};",
            alias_name(alias)
        );
    }
    out.push_str(
        "typealias integer { size = 64; align = 64; signed = false; base = 16; } := addr_t;\n\
         typealias integer { size = 8; align = 8; signed = false; encoding = UTF8; } := char_t;\n\n",
    );
}

fn write_trace(info: &TraceInfo, out: &mut String) {
    _ = writeln!(
        out,
        "trace {{\n    major = 1;\n    minor = 8;\n    uuid = \"{}\";\n    byte_order = le;",
        info.uuid
    );
    out.push_str("    packet.header := struct {\n");
    for (name, bits) in HEADER {
        match bits {
            128 => _ = writeln!(out, "        uint8_t {name}[16];"),
            _ => _ = writeln!(out, "        uint{bits}_t {name};"),
        }
    }
    out.push_str("    };\n};\n\n");
}

fn write_env(info: &TraceInfo, out: &mut String) {
    _ = writeln!(
        out,
        "env {{\n    domain = \"kernel\";\n    sysname = \"Linux\";\n    {TRACER}"
    );
    for (key, value) in [
        ("tracer_version", &info.tracer_version),
        ("hostname", &info.hostname),
        ("kernel_release", &info.kernel_release),
        ("machine", &info.machine),
        ("command", &info.command),
    ] {
        _ = writeln!(out, "    {key} = {};", quoted(value));
    }
    if !info.session.is_empty() {
        _ = writeln!(out, "    session = {};", quoted(&info.session));
    }
    _ = writeln!(out, "    trace_format = {FORMAT};");
    for buffer in &info.buffers {
        let mode = match buffer.mode {
            BufferMode::Overwrite => "overwrite",
            BufferMode::Discard => "discard",
        };
        let mut text = String::new();
        encode(&buffer.name, &mut text);
        _ = writeln!(
            out,
            "    buffer_{} = \"{text} {mode} {}\";",
            buffer.number, buffer.bytes_per_cpu
        );
    }
    for event in &info.events {
        _ = writeln!(out, "    event_{} = {};", event.id.0, quoted(&hints(event)));
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
    for field in event.layout.fields() {
        text.push(' ');
        encode(&field.name, &mut text);
        if let Some(hint) = Hint::of(&field.ty) {
            hint.write(&mut text);
        }
    }
    text
}

fn write_stream(info: &TraceInfo, out: &mut String) {
    let clock = info.clock;
    _ = writeln!(
        out,
        "clock {{\n    name = monotonic;\n    description = \"CLOCK_MONOTONIC\";\n    freq = 1000000000;\n    \
         offset_s = {};\n    offset = {};\n}};\n",
        clock.seconds, clock.nanoseconds
    );
    for (bits, align) in [(48, 8), (64, 64)] {
        _ = writeln!(
            out,
            "typealias integer {{ size = {bits}; align = {align}; signed = false; map = clock.monotonic.value; }} := time{bits}_t;"
        );
    }
    out.push_str("\nstream {\n    id = 0;\n    packet.context := struct {\n");
    for (name, bits) in CONTEXT {
        let ty = if name.starts_with("timestamp") {
            "time"
        } else {
            "uint"
        };
        _ = writeln!(out, "        {ty}{bits}_t {name};");
    }
    out.push_str(
        "    };\n    event.header := struct {\n        uint16_t id;\n        time48_t timestamp;\n    } align(64);\n    \
         event.context := struct {\n        uint32_t _pid;\n        uint32_t _tid;\n    };\n};\n",
    );
}

fn write_event(event: &EventClass, out: &mut String, aliases: &mut BTreeSet<Alias>) -> Result<()> {
    _ = write!(
        out,
        "\nevent {{\n    name = {};\n    id = {};\n    stream_id = 0;\n    fields := struct {{\n",
        quoted(&event.name),
        event.id.0
    );
    let layout = &event.layout;
    let names = identifiers(
        layout
            .fields()
            .iter()
            .map(|f| (f.name.as_str(), f.ty.is_variable())),
    );
    let named: Vec<(&Field, &String)> = layout.fields().iter().zip(&names).collect();
    let mut line = |text: &str| _ = writeln!(out, "        {text};");
    for (field, name) in in_memory_order(&named) {
        if field.ty.is_variable() {
            line(&format!("uint16_t _{}", length_name(name)));
        } else {
            line(&declaration(event, field, name, aliases)?);
        }
    }
    for tail in layout.tail() {
        let name = named
            .iter()
            .find(|(field, _)| std::ptr::eq(*field, tail))
            .map_or("", |(_, name)| name);
        let ty = if tail.ty.is_stack() { "addr_t" } else { "char_t" };
        line(&format!("{ty} _{name}[_{}]", length_name(name)));
    }
    // Records begin at multiples of 8 bytes: other readers learn of the gap by an empty aligned structure.
    if needs_end(layout) {
        line(&format!("struct {{ }} align(64) _{END}"));
    }
    out.push_str("    };\n};\n");
    Ok(())
}

fn in_memory_order<'a>(named: &[(&'a Field, &'a String)]) -> Vec<(&'a Field, &'a String)> {
    let mut all = named.to_vec();
    all.sort_by_key(|(field, _)| field.memory_order());
    all
}

/// Whether the last field may leave the record's length unaligned. A reader would take the padding before the end of the
/// content for one more event (babeltrace2 2.0.4 does), so the fields must be said to reach over it.
fn needs_end(layout: &Layout) -> bool {
    layout.is_words() || layout.constant_size() != Some(layout.fixed_end())
}

/// `type _name[count]`.
fn declaration(
    event: &EventClass,
    field: &Field,
    name: &str,
    aliases: &mut BTreeSet<Alias>,
) -> Result<String> {
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
    declared(&field.ty, name, aligned, aliases).map_err(|why| Error::Inexpressible {
        event: event.name.clone(),
        field: field.name.clone(),
        why,
    })
}

/// The same of a field, or of a member of a structure.
fn declared(
    ty: &FieldType,
    name: &str,
    aligned: Aligned,
    aliases: &mut BTreeSet<Alias>,
) -> std::result::Result<String, &'static str> {
    let mut counts = String::new();
    let mut ty = ty;
    while let FieldType::Array { element, count } = ty {
        _ = write!(counts, "[{count}]");
        ty = element;
    }
    let mut integer = |size: u8, signed: bool, base: u8| match size {
        1 | 2 | 4 | 8 => {
            let needless = size == 8 && aligned == Aligned::Word || size == 1 && aligned == Aligned::Packed;
            let alias = (size, signed, base, if needless { Aligned::Own } else { aligned });
            aliases.insert(alias);
            Ok(alias_name(alias))
        }
        _ => Err("is an integer whose size is not 1, 2, 4 or 8 bytes"),
    };
    let text = match ty {
        FieldType::Integer { size, signed, base } => integer(*size, *signed, number_of(*base))?,
        FieldType::Bool => integer(1, false, 10)?,
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
        FieldType::Text { .. } | FieldType::InlineString { .. } => {
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
    Ok(format!("{text} _{name}{counts}"))
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
            Ok(ty) => declared(ty, name, Aligned::Packed, aliases)?,
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
        Base::Named(meaning) if meaning.is_set() => 16,
        Base::Named(_) => 10,
    }
}

fn enumeration(container: &str, signed: bool, names: &[(i64, String)]) -> String {
    let mut out = format!("enum : {container} {{ ");
    for (i, (value, name)) in names.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        let name = quoted(name);
        if signed {
            _ = write!(out, "{comma}{name} = {value}");
        } else {
            _ = write!(out, "{comma}{name} = {}", *value as u64);
        }
    }
    out + " }"
}

/// A TSDL string literal.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if (c as u32) < 0x20 || c == '\x7f' => _ = write!(out, "\\{:03o}", c as u32),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
