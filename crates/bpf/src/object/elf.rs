//! The ELF side of an object file as plain values: sections, symbols, relocations; their meaning for BPF is in the modules beside it.

use crate::Error;
use object::elf::{EM_BPF, EM_NONE, ET_REL, FileHeader64, SHF_EXECINSTR, SHT_NOBITS, STB_WEAK};
use object::read::elf::{ElfFile, FileHeader};
use object::{
    Endianness, FileKind, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags,
    RelocationTarget, SectionFlags, SymbolFlags, SymbolKind,
};
use std::collections::HashMap;

/// A section of the ELF file.
#[derive(Clone, Debug, Default)]
pub(super) struct Section {
    pub(super) name: String,
    /// The bytes; empty for one that occupies none in the file.
    pub(super) data: Vec<u8>,
    /// The size, also where the file holds no bytes of it.
    pub(super) size: u64,
    pub(super) no_bits: bool,
    pub(super) code: bool,
    /// By place in the section, ascending.
    pub(super) relocations: Vec<Relocation>,
}

/// A symbol of the ELF file.
#[derive(Clone, Debug)]
pub(super) struct Symbol {
    pub(super) name: String,
    /// Index into the sections; `None` for one that is defined elsewhere.
    pub(super) section: Option<usize>,
    pub(super) value: u64,
    pub(super) size: u64,
    pub(super) function: bool,
    /// Stands for its section as a whole: the instruction says the place in it.
    pub(super) whole_section: bool,
    pub(super) global: bool,
    pub(super) weak: bool,
    /// `STV_HIDDEN` or `STV_INTERNAL`.
    pub(super) hidden: bool,
}

/// A place that refers to a symbol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relocation {
    pub(super) offset: u64,
    pub(super) symbol: usize,
    pub(super) kind: u32,
}

/// An object file's parts that matter here.
#[derive(Clone, Debug, Default)]
pub(super) struct Elf {
    pub(super) sections: Vec<Section>,
    pub(super) symbols: Vec<Symbol>,
    /// Indices of the symbols of each section: an object may have many thousands of both.
    by_section: HashMap<usize, Vec<usize>>,
}

/// Limits above what any compiler writes: a file that exceeds them is damaged.
const MAX_SECTIONS: usize = 65_536;
const MAX_SYMBOLS: usize = 1 << 20;
/// Limit of the bytes of all sections together, as a multiple of the file's: damaged headers can let many sections share the same bytes.
const MAX_COPIES: usize = 4;

fn wrong(what: impl Into<String>) -> Error {
    Error::Object(what.into())
}

impl Elf {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Error> {
        match FileKind::parse(bytes) {
            Ok(FileKind::Elf64) => {}
            Ok(FileKind::Elf32) => {
                return Err(wrong(
                    "it is a 32-bit ELF file; BPF objects are 64-bit: compile with `clang --target=bpf`",
                ));
            }
            Err(_) if bytes.starts_with(b"BC\xc0\xde") => {
                return Err(wrong("it is LLVM bitcode, not an ELF file: leave out -emit-llvm"));
            }
            Ok(_) | Err(_) => {
                return Err(wrong(
                    "it is not an ELF file: compile C with `clang --target=bpf -c`",
                ));
            }
        }
        let file = ElfFile::<FileHeader64<Endianness>>::parse(bytes)
            .map_err(|error| wrong(format!("the ELF file is damaged: {error}")))?;
        let endian = file.endian();
        let header = file.elf_header();
        if endian != Endianness::Little {
            return Err(wrong(
                "it is for big-endian machines; this one is little-endian: compile with `clang --target=bpfel`",
            ));
        }
        match header.e_machine(endian) {
            // Compilers from before EM_BPF wrote EM_NONE, which libbpf takes, too.
            EM_BPF | EM_NONE => {}
            other => {
                return Err(wrong(format!(
                    "it is compiled for {}, not for BPF: compile with `clang --target=bpf -c`",
                    machine(other)
                )));
            }
        }
        if header.e_type(endian) != ET_REL {
            return Err(wrong(
                "it is linked already; a BPF object is what `clang --target=bpf -c` writes",
            ));
        }
        let mut elf = Self::default();
        // With the empty section 0, so that numbers are those of the file.
        let count = file.sections().map(|s| s.index().0 + 1).max().unwrap_or(0);
        if count > MAX_SECTIONS {
            return Err(wrong(format!(
                "it has {count} sections, of which {MAX_SECTIONS} are read at most: the file is damaged"
            )));
        }
        elf.sections = vec![Section::default(); count];
        let mut held = 0usize;
        for section in file.sections() {
            let name = section
                .name()
                .map_err(|error| {
                    wrong(format!(
                        "the name of section {} is damaged: {error}",
                        section.index().0
                    ))
                })?
                .to_owned();
            let data = section
                .data()
                .map_err(|error| wrong(format!("the section {name} is truncated: {error}")))?;
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
                continue;
            };
            // Nothing here asks for debug information, which is most of an object; its sections keep their numbers.
            let skipped = name.starts_with(".debug");
            held = held.saturating_add(if skipped { 0 } else { data.len() });
            if held > bytes.len().saturating_mul(MAX_COPIES) {
                return Err(wrong("its sections overlap: the file is damaged"));
            }
            let code = sh_flags.0 & SHF_EXECINSTR.0 != 0;
            let wanted = code || name == ".maps";
            let relocations = if wanted {
                relocations(&section, &name)?
            } else {
                Vec::new()
            };
            let index = section.index().0;
            if let Some(place) = elf.sections.get_mut(index) {
                *place = Section {
                    data: if skipped { Vec::new() } else { data.to_vec() },
                    size: section.size(),
                    no_bits: section.elf_section_header().sh_type.get(endian) == SHT_NOBITS,
                    code,
                    relocations,
                    name,
                };
            }
        }
        elf.symbols = symbols(&file)?;
        for (index, symbol) in elf.symbols.iter().enumerate() {
            if let Some(section) = symbol.section {
                elf.by_section.entry(section).or_default().push(index);
            }
        }
        Ok(elf)
    }

    /// The section of that name.
    pub(super) fn section(&self, name: &str) -> Option<(usize, &Section)> {
        self.sections
            .iter()
            .enumerate()
            .find(|(_, section)| section.name == name)
    }

    /// Symbols that lie in a section.
    pub(super) fn symbols_in(&self, section: usize) -> impl Iterator<Item = &Symbol> {
        let indices = self.by_section.get(&section).into_iter().flatten();
        indices.filter_map(|index| self.symbols.get(*index))
    }
}

type File<'d> = ElfFile<'d, FileHeader64<Endianness>>;

fn symbols(file: &File<'_>) -> Result<Vec<Symbol>, Error> {
    let mut symbols = Vec::new();
    for symbol in file.symbols() {
        let SymbolFlags::Elf {
            st_info, st_other, ..
        } = symbol.flags()
        else {
            continue;
        };
        let index = symbol.index().0;
        if index > MAX_SYMBOLS {
            return Err(wrong(format!("it has more than {MAX_SYMBOLS} symbols")));
        }
        // The reader leaves out the empty symbol 0: one is put in for it, so that numbers are those of the file.
        while symbols.len() < index {
            symbols.push(Symbol {
                name: String::new(),
                section: None,
                value: 0,
                size: 0,
                function: false,
                whole_section: false,
                global: false,
                weak: false,
                hidden: false,
            });
        }
        symbols.push(Symbol {
            name: symbol
                .name()
                .map_err(|error| wrong(format!("the name of symbol {index} is damaged: {error}")))?
                .to_owned(),
            section: symbol.section_index().map(|index| index.0),
            value: symbol.address(),
            size: symbol.size(),
            function: symbol.kind() == SymbolKind::Text,
            whole_section: symbol.kind() == SymbolKind::Section,
            global: !symbol.is_local(),
            weak: st_info.st_bind() == STB_WEAK,
            hidden: matches!(st_other.0 & 3, 1 | 2),
        });
    }
    Ok(symbols)
}

fn relocations<'d>(section: &impl object::ObjectSection<'d>, name: &str) -> Result<Vec<Relocation>, Error> {
    let mut found = Vec::new();
    for (offset, relocation) in section.relocations() {
        let RelocationTarget::Symbol(symbol) = relocation.target() else {
            return Err(wrong(format!(
                "the relocation at {offset:#x} of section {name} names no symbol"
            )));
        };
        let RelocationFlags::Elf { r_type } = relocation.flags() else {
            continue;
        };
        if offset >= section.size() {
            return Err(wrong(format!(
                "the relocation at {offset:#x} lies outside of section {name}, which has {:#x} bytes",
                section.size()
            )));
        }
        if relocation.addend() != 0 {
            return Err(wrong(format!(
                "the relocation at {offset:#x} of section {name} has an addend, which BPF compilers do not write"
            )));
        }
        found.push(Relocation {
            offset,
            symbol: symbol.0,
            kind: r_type.0,
        });
    }
    found.sort_by_key(|relocation| relocation.offset);
    Ok(found)
}

/// Common name of a machine.
fn machine(number: object::elf::Machine) -> String {
    match number {
        object::elf::EM_386 => "x86 (32 bit)".to_owned(),
        object::elf::EM_X86_64 => "x86-64".to_owned(),
        object::elf::EM_AARCH64 => "arm64".to_owned(),
        object::elf::EM_ARM => "arm".to_owned(),
        object::elf::EM_RISCV => "RISC-V".to_owned(),
        object::elf::EM_S390 => "s390".to_owned(),
        object::elf::EM_PPC64 => "ppc64".to_owned(),
        other => format!("machine number {}", other.0),
    }
}
