//! `kestrel bpf show`: programs, maps and sections of an object file, without loading it.

use super::object;
use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::output::columns::Column::Left;
use crate::output::columns::Columns;
use crate::output::json;
use clap::Args;
use kestrel::bpf::{MapDeclaration, Object, ProgramDeclaration};
use kestrel::kernel::bpf::{MapKind, ProgramType};
use kestrel_trace::print::counted;
use serde::Serialize;
use std::borrow::Cow;
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
    let shown = Shown::of(&object);
    let mut out = crate::screen::out();
    match options.format {
        Format::Json => writeln!(out, "{}", json::line(&shown)?)?,
        Format::Text => out.write_all(text(&shown).as_bytes())?,
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

/// An object: JSON as it stands here, and text of the same.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    object: &'a str,
    license: Option<Cow<'a, str>>,
    version: Option<u32>,
    programs: Vec<ShownProgram<'a>>,
    maps: Vec<ShownMap<'a>>,
    sections: Vec<ShownSection<'a>>,
    types: usize,
    relocations: usize,
    core_relocations: usize,
    source_lines: usize,
}

/// A program of an object.
#[derive(Debug, Serialize)]
struct ShownProgram<'a> {
    name: &'a str,
    section: &'a str,
    r#type: String,
    target: &'a str,
    instructions: usize,
    sleepable: bool,
    optional: bool,
}

/// A map of an object; its types' names are empty where the object has none.
#[derive(Debug, Serialize)]
struct ShownMap<'a> {
    name: &'a str,
    style: &'static str,
    r#type: String,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    pinning: &'static str,
    key_type: String,
    value_type: String,
    #[serde(skip)]
    is_data: bool,
}

/// A section of an object.
#[derive(Debug, Serialize)]
struct ShownSection<'a> {
    name: &'a str,
    size: u64,
}

impl<'a> Shown<'a> {
    fn of(object: &'a Object) -> Self {
        let parsed = object.parsed();
        let size = parsed.size();
        let programs = parsed.programs().iter().map(|program| ShownProgram {
            name: &program.name,
            section: &program.section.text,
            r#type: program_type(program),
            target: &program.section.target,
            instructions: program.instructions,
            sleepable: program.section.sleepable,
            optional: program.section.optional,
        });
        let maps = parsed.maps().iter().map(|map| ShownMap {
            name: &map.name,
            style: map.style,
            r#type: MapKind(map.kind).to_string(),
            key_size: map.key_size,
            value_size: map.value_size,
            max_entries: map.entries,
            flags: map.flags,
            pinning: pinning(map),
            key_type: ty(object, map.key),
            value_type: ty(object, map.value),
            is_data: map.is_data,
        });
        let sections = parsed.sections();
        Self {
            object: object.name(),
            license: parsed.license().map(|text| text.to_string_lossy()),
            version: parsed.version(),
            programs: programs.collect(),
            maps: maps.collect(),
            sections: sections.map(|(name, size)| ShownSection { name, size }).collect(),
            types: size.types,
            relocations: size.relocations,
            core_relocations: size.core,
            source_lines: size.lines,
        }
    }
}

fn text(object: &Shown<'_>) -> String {
    let license = object.license.as_deref().unwrap_or("none (GPL is assumed)");
    let mut text = format!("object {}, license {license}\n", object.object);
    text += &format!("programs ({})\n", object.programs.len());
    let mut programs = Columns::new([Left; 4]);
    programs.head("  ", ["name", "section", "type", "instructions"]);
    for program in &object.programs {
        programs.row(
            "  ",
            [
                program.name.to_owned(),
                program.section.to_owned(),
                program.r#type.clone(),
                program.instructions.to_string(),
            ],
        );
    }
    text += &programs.text();
    text += &format!("maps ({})\n", object.maps.len());
    let mut maps = Columns::new([Left; 8]);
    maps.head(
        "  ",
        [
            "name", "type", "key", "value", "entries", "flags", "pinned", "style",
        ],
    );
    for map in &object.maps {
        let sized = |size: u32, name: &str| {
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
                map.name.to_owned(),
                map.r#type.clone(),
                sized(map.key_size, &map.key_type),
                sized(map.value_size, &map.value_type),
                map.max_entries.to_string(),
                format!("{:#x}", map.flags),
                map.pinning.to_owned(),
                map.style.to_owned(),
            ],
        );
    }
    text += &maps.text();
    text += "sections\n";
    let mut sections = Columns::new([Left; 2]);
    for section in &object.sections {
        sections.row("  ", [section.name.to_owned(), format!("{} B", section.size)]);
    }
    text += &sections.text();
    text += &format!(
        "{}, {} for CO-RE, {}, {}\n",
        counted(object.relocations as u64, "relocation"),
        object.core_relocations,
        counted(object.types as u64, "type"),
        counted(object.source_lines as u64, "source line")
    );
    text
}
