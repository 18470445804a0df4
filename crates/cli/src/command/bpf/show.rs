//! `kestrel bpf show`: programs, maps and sections of an object file, without loading it.

use super::object;
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::output::columns::Column::Left;
use crate::output::columns::Columns;
use clap::Args;
use kestrel::bpf::{MapDeclaration, Object, ProgramDeclaration};
use kestrel::kernel::bpf::{MapKind, ProgramType};
use kestrel_trace::print::counted;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Options of `bpf show`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kestrel bpf show count.o\n  kestrel bpf show count.o --format json")]
pub(crate) struct Options {
    /// The object: what `clang --target=bpf -c` wrote
    #[arg(value_name = "OBJECT")]
    object: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Runs `kestrel bpf show`.
pub(crate) fn run(options: &Options) -> Result<Exit, Failure> {
    let (object, _) = object::open(&options.object)?;
    let mut out = crate::screen::out();
    match options.format {
        Format::Json => writeln!(out, "{}", as_json(&object))?,
        Format::Text => out.write_all(text(&object).as_bytes())?,
    }
    Ok(Exit::Done)
}

fn pinning(map: &MapDeclaration) -> &'static str {
    use kestrel::bpf::Pinning;
    match map.pinning {
        Pinning::None => "none",
        Pinning::Object => "object",
        Pinning::Global => "global",
        Pinning::ByName => "by name",
    }
}

fn program_type(program: &ProgramDeclaration) -> String {
    program.section.kind().map_or_else(
        || "unknown".to_owned(),
        |kind| ProgramType(kind.program).to_string(),
    )
}

/// A type's name in the object, empty where there is none.
fn ty(object: &Object, id: Option<kestrel::bpf::TypeId>) -> String {
    match (object.parsed().btf(), id) {
        (Some(btf), Some(id)) => btf.render(id),
        _ => String::new(),
    }
}

fn as_json(object: &Object) -> Value {
    let parsed = object.parsed();
    let size = parsed.size();
    let programs: Vec<Value> = parsed
        .programs()
        .iter()
        .map(|program| {
            json!({
                "name": program.name,
                "section": program.section.text,
                "type": program_type(program),
                "target": program.section.target,
                "instructions": program.instructions,
                "sleepable": program.section.sleepable,
                "optional": program.section.optional,
            })
        })
        .collect();
    let maps: Vec<Value> = parsed
        .maps()
        .iter()
        .map(|map| {
            json!({
                "name": map.name,
                "style": map.style,
                "type": MapKind(map.kind).to_string(),
                "key_size": map.key_size,
                "value_size": map.value_size,
                "max_entries": map.entries,
                "flags": map.flags,
                "pinning": pinning(map),
                "key_type": ty(object, map.key),
                "value_type": ty(object, map.value),
            })
        })
        .collect();
    let sections: Vec<Value> = parsed
        .sections()
        .map(|(name, size)| json!({"name": name, "size": size}))
        .collect();
    json!({
        "object": object.name(),
        "license": parsed.license().map(|text| text.to_string_lossy()),
        "version": parsed.version(),
        "programs": programs,
        "maps": maps,
        "sections": sections,
        "types": size.types,
        "relocations": size.relocations,
        "core_relocations": size.core,
        "source_lines": size.lines,
    })
}

fn text(object: &Object) -> String {
    let parsed = object.parsed();
    let size = parsed.size();
    let license = parsed.license().map_or_else(
        || "none (GPL is assumed)".to_owned(),
        |text| text.to_string_lossy().into_owned(),
    );
    let mut text = format!("object {}, license {license}\n", object.name());
    text += &format!("programs ({})\n", parsed.programs().len());
    let mut programs = Columns::new([Left; 4]);
    programs.head("  ", ["name", "section", "type", "instructions"]);
    for program in parsed.programs() {
        programs.row(
            "  ",
            [
                program.name.clone(),
                program.section.text.clone(),
                program_type(program),
                program.instructions.to_string(),
            ],
        );
    }
    text += &programs.text();
    text += &format!("maps ({})\n", parsed.maps().len());
    let mut maps = Columns::new([Left; 8]);
    maps.head(
        "  ",
        [
            "name", "type", "key", "value", "entries", "flags", "pinned", "style",
        ],
    );
    for map in parsed.maps() {
        let sized = |size: u32, name: String| {
            // The type of a data section only repeats the section's name.
            if name.is_empty() || map.is_data {
                format!("{size} B")
            } else {
                format!("{size} B {name}")
            }
        };
        maps.row(
            "  ",
            [
                map.name.clone(),
                MapKind(map.kind).to_string(),
                sized(map.key_size, ty(object, map.key)),
                sized(map.value_size, ty(object, map.value)),
                map.entries.to_string(),
                format!("{:#x}", map.flags),
                pinning(map).to_owned(),
                map.style.to_owned(),
            ],
        );
    }
    text += &maps.text();
    text += "sections\n";
    let mut sections = Columns::new([Left; 2]);
    for (name, size) in parsed.sections() {
        sections.row("  ", [name.to_owned(), format!("{size} B")]);
    }
    text += &sections.text();
    text += &format!(
        "{}, {} for CO-RE, {}, {}\n",
        counted(size.relocations as u64, "relocation"),
        size.core,
        counted(size.types as u64, "type"),
        counted(size.lines as u64, "source line")
    );
    text
}
