//! Global variables of an object: each section of them becomes the one value of an array map.

use super::declared::{Content, KconfigVariable, Map, Source};
use super::kind;
use crate::Error;
use crate::btf::{BtfKind, Type};

/// `BPF_F_RDONLY_PROG` and `BPF_F_MMAPABLE`.
const PROGRAM_READ_ONLY: u32 = 1 << 7;
const MMAPABLE: u32 = 1 << 10;
/// Largest section of variables in bytes. A larger one is a mistake or damage, and the kernel would have to hold it in memory.
const MAX: u64 = 64 << 20;

/// Whether a section holds variables, and whether programs may only read them.
pub(in crate::object) fn is_data(name: &str) -> Option<bool> {
    let is = |stem: &str| name == stem || name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('.'));
    match () {
        () if is(".rodata") => Some(true),
        () if is(".data") || is(".bss") => Some(false),
        () => None,
    }
}

/// The maps for the sections of variables: `.data`, `.bss`, `.rodata` and those named after them.
pub(super) fn read(source: &Source<'_>) -> Result<Vec<Map>, Error> {
    let mut maps = Vec::new();
    for (index, section) in source.elf.sections.iter().enumerate() {
        let Some(read_only) = is_data(&section.name).filter(|_| section.size > 0) else {
            continue;
        };
        if section.size > MAX {
            return Err(Error::Object(format!(
                "its section {} has {} bytes; at most {MAX} are served",
                section.name, section.size
            )));
        }
        let content = if section.no_bits {
            Content::Empty
        } else {
            Content::Bytes(section.data.clone())
        };
        maps.push(Map {
            name: section.name.clone(),
            kind: kind::ARRAY,
            key_size: 4,
            value_size: section.size as u32,
            entries: 1,
            flags: MMAPABLE | if read_only { PROGRAM_READ_ONLY } else { 0 },
            value: source
                .btf
                .and_then(|btf| btf.find(BtfKind::Datasec, &section.name)),
            content,
            is_data: true,
            place: (index, 0),
            ..Map::default()
        });
    }
    Ok(maps)
}

/// The map for variables whose values come from the kernel's configuration (`__kconfig`), side by side.
pub(super) fn kconfig(source: &Source<'_>) -> Result<Vec<Map>, Error> {
    let Some(btf) = source.btf.filter(|_| !source.externs.kconfig.is_empty()) else {
        return Ok(Vec::new());
    };
    let mut variables = Vec::new();
    let mut end = 0u32;
    for wanted in &source.externs.kconfig {
        let wrong = |what: &str| {
            Error::Object(format!(
                "the variable {} of the kernel's configuration {what}",
                wanted.name
            ))
        };
        let ty = wanted.ty.ok_or_else(|| wrong("has no type"))?;
        let size = btf
            .size_of(ty)
            .and_then(|size| u32::try_from(size).ok())
            .filter(|size| (1..=4096).contains(size));
        let size = size.ok_or_else(|| wrong("has an impossible size"))?;
        if !matches!(
            btf.resolved(ty),
            Type::Int(_) | Type::Enum(_) | Type::Array { .. }
        ) {
            return Err(wrong("is neither a number nor a string"));
        }
        let align = if matches!(btf.resolved(ty), Type::Array { .. }) {
            1
        } else {
            size
        };
        // The object says no offsets for these: relocations are rewritten to those chosen here, which are aligned for the loads.
        let offset = end.next_multiple_of(align);
        end = offset + size;
        if u64::from(end) > 1 << 20 {
            return Err(wrong("is one too many"));
        }
        let weak = source
            .elf
            .symbols
            .iter()
            .any(|symbol| symbol.name == wanted.name && symbol.weak);
        variables.push(KconfigVariable {
            name: wanted.name.clone(),
            offset,
            size,
            ty,
            weak,
        });
    }
    Ok(vec![Map {
        name: ".kconfig".to_owned(),
        kind: kind::ARRAY,
        key_size: 4,
        value_size: end,
        entries: 1,
        flags: PROGRAM_READ_ONLY,
        content: Content::Kconfig(variables),
        is_data: true,
        place: (usize::MAX, 0),
        ..Map::default()
    }])
}
