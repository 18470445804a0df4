//! Compiled BPF objects (ELF): programs, maps, relocations, types, CO-RE records, global data; bytes to values, never the kernel.
//!
//! Bytes are foreign: a damaged object is an error with words, never a panic, and takes no more memory than a few times its size. CO-RE
//! relocations are handed on as they are: the kernel itself adapts field accesses (`core_relos` of BPF_PROG_LOAD, Linux 5.17 and later).

mod elf;
mod extension;
mod link;
pub mod map;
mod program;
mod relocation;
mod section;
mod types;

pub use link::{Linked, Reference, SourceLine};
pub use map::Map;
pub use program::Program;
pub use section::{Hook, KINDS, SectionKind, SectionName};

use crate::Error;
use crate::btf::{Btf, Type, TypeId};
use elf::Elf;
use extension::Extension;
use std::collections::HashMap;
use std::ffi::CString;
use types::Externs;

/// An object that was read.
#[derive(Debug)]
pub struct Object {
    elf: Elf,
    functions: Vec<program::Function>,
    function_at: HashMap<(usize, u64), usize>,
    programs: Vec<Program>,
    maps: Vec<Map>,
    btf: Option<Btf>,
    extension: Extension,
    externs: Externs,
    license: Option<CString>,
    version: Option<u32>,
}

/// A global variable of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The map's index.
    pub map: usize,
    /// The place in the map's value.
    pub offset: u32,
    /// The variable's size in bytes.
    pub size: u32,
    /// The variable's type.
    pub ty: TypeId,
}

/// Counts of what an object carries, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Relocations of instructions.
    pub relocations: usize,
    /// CO-RE relocations.
    pub core: usize,
    /// Source lines known.
    pub lines: usize,
    /// Types.
    pub types: usize,
}

impl Object {
    /// Reads an object.
    ///
    /// # Errors
    /// [`Error::Object`] and [`Error::Btf`] for what is damaged, of another machine, or contradicts itself.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let elf = Elf::read(bytes)?;
        let mut externs = Externs::default();
        let btf = match elf.section(".BTF") {
            Some((_, section)) => {
                let raw = Btf::parse(section.data.clone())?;
                // clang leaves sizes and offsets of data sections to the loader, and the kernel refuses BTF without them.
                let (completed, found) = types::complete(&raw, &elf)?;
                externs = found;
                Some(Btf::parse(completed)?)
            }
            None => None,
        };
        let extension = match (elf.section(".BTF.ext"), &btf) {
            (Some((_, section)), Some(btf)) => Extension::read(&section.data, btf)?,
            _ => Extension::default(),
        };
        let maps = map::read(&map::Source {
            elf: &elf,
            btf: btf.as_ref(),
            externs: &externs,
        })?;
        let functions = program::functions(&elf)?;
        let function_at = functions
            .iter()
            .enumerate()
            .map(|(index, f)| ((f.section, f.start), index))
            .collect();
        let programs = program::programs(&elf, &functions);
        let license = elf.section("license").map(|(_, section)| {
            let text = section.data.split(|byte| *byte == 0).next().unwrap_or(&[]);
            CString::new(text).unwrap_or_default()
        });
        let version = elf
            .section("version")
            .and_then(|(_, section)| section.data.first_chunk().map(|v| u32::from_le_bytes(*v)));
        Ok(Self {
            elf,
            functions,
            function_at,
            programs,
            maps,
            btf,
            extension,
            externs,
            license,
            version,
        })
    }

    /// The programs, in the order of the file.
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// The maps; programs refer to them by their index here.
    pub fn maps(&self) -> &[Map] {
        &self.maps
    }

    /// The types, completed so that the kernel takes them.
    pub fn btf(&self) -> Option<&Btf> {
        self.btf.as_ref()
    }

    /// The license, from the `license` section; `None` without one.
    pub fn license(&self) -> Option<&CString> {
        self.license.as_ref()
    }

    /// The version, from the `version` section (`LINUX_VERSION_CODE`), which kernels before 5.0 compare with their own.
    pub fn version(&self) -> Option<u32> {
        self.version
    }

    /// Sections that hold programs or maps, or say something about them, by name and size.
    pub fn sections(&self) -> impl Iterator<Item = (&str, u64)> {
        let shown = |section: &&elf::Section| {
            section.size > 0
                && !section.name.starts_with(".rel")
                && !section.name.starts_with(".debug")
                && !matches!(section.name.as_str(), ".symtab" | ".strtab" | ".shstrtab")
        };
        self.elf
            .sections
            .iter()
            .filter(shown)
            .map(|section| (section.name.as_str(), section.size))
    }

    /// Sizes of what the object carries.
    pub fn size(&self) -> Size {
        Size {
            relocations: self
                .elf
                .sections
                .iter()
                .map(|section| section.relocations.len())
                .sum(),
            core: self.extension.core.count(),
            lines: self.extension.lines.count(),
            types: self.btf.as_ref().map_or(0, Btf::len),
        }
    }

    /// Where a global variable lies: its map, its place in the map's value, and its type. Objects without types have no variables by name.
    pub fn variable(&self, name: &str) -> Option<Variable> {
        let btf = self.btf.as_ref()?;
        for (map, declared) in self.maps.iter().enumerate().filter(|(_, map)| map.is_data) {
            let Some(Type::Datasec { entries, .. }) = declared.value.map(|section| btf.ty(section)) else {
                continue;
            };
            for entry in entries.variables() {
                if let Type::Var { name: found, ty, .. } = btf.ty(entry.ty)
                    && found == name
                {
                    return Some(Variable {
                        map,
                        offset: entry.offset,
                        size: entry.size,
                        ty,
                    });
                }
            }
        }
        None
    }

    /// Sets the initial value of a global variable.
    ///
    /// # Errors
    /// [`Error::Object`] if there is no such variable, or it has another size.
    pub fn set_variable(&mut self, name: &str, value: &[u8]) -> Result<(), Error> {
        let wrong = |why: String| Error::Object(format!("the variable {name}: {why}"));
        let variable = self
            .variable(name)
            .ok_or_else(|| wrong("there is none of this name among its global data".to_owned()))?;
        if variable.size as usize != value.len() {
            return Err(wrong(format!(
                "it has {} bytes, not {}",
                variable.size,
                value.len()
            )));
        }
        let map = self
            .maps
            .get_mut(variable.map)
            .ok_or_else(|| wrong("its map is missing".to_owned()))?;
        if map.content == map::Content::Empty {
            map.content = map::Content::Bytes(vec![0; map.value_size as usize]);
        }
        let map::Content::Bytes(bytes) = &mut map.content else {
            return Err(wrong("the kernel gives it its value".to_owned()));
        };
        let start = variable.offset as usize;
        let place = bytes.get_mut(start..start.saturating_add(value.len()));
        place
            .ok_or_else(|| wrong("it lies outside of its section".to_owned()))?
            .copy_from_slice(value);
        Ok(())
    }

    /// Sets a map's `max_entries`, which are bytes for a ring buffer, whatever its declaration says.
    ///
    /// # Errors
    /// [`Error::Object`] if there is no such map, or it holds global data.
    pub fn set_map_entries(&mut self, name: &str, entries: u32) -> Result<(), Error> {
        let sized = self.maps.iter().filter(|map| !map.is_data);
        let names: Vec<&str> = sized.map(|map| map.name.as_str()).collect();
        let why = match names.is_empty() {
            true => format!("it has no map {name}, and no other"),
            false => format!("it has no map {name}; it has {}", names.join(", ")),
        };
        let mut sized = self.maps.iter_mut().filter(|map| !map.is_data);
        let map = sized.find(|map| map.name == name).ok_or(Error::Object(why))?;
        map.entries = entries;
        Ok(())
    }

    /// A program with all that it calls.
    ///
    /// # Errors
    /// [`Error::Object`] for a relocation that cannot be carried out.
    pub fn link(&self, program: &Program) -> Result<Linked, Error> {
        link::link(self, program)
    }
}

#[cfg(test)]
mod tests;
