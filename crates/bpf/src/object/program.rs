//! The functions of an object, and which of them are programs.

use super::elf::Elf;
use super::section::SectionName;
use crate::Error;
use crate::insn::Insn;

/// A function of the object: its name, and its place in a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) section: usize,
    /// Range of the function in the section, in bytes.
    pub(super) start: u64,
    pub(super) end: u64,
    global: bool,
}

/// A program of the object: a function that events run, as opposed to one that only other functions call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The function's name.
    pub name: String,
    /// The name of its section, parsed: the event that the program belongs to.
    pub section: SectionName,
    /// Its own instructions, without the functions that it calls.
    pub instructions: usize,
    /// Index of its function in the object's functions.
    pub(super) function: usize,
}

/// Name of the section of functions that are only called by others and are no programs.
const SUBPROGRAMS: &str = ".text";
/// The most instructions of a program that a kernel takes from a privileged user (`BPF_COMPLEXITY_LIMIT_INSNS`).
pub(super) const MAX_INSNS: usize = 1_000_000;
/// Size of an instruction in bytes.
pub(super) const INSN: u64 = Insn::BYTES as u64;

/// All functions of an object, ordered by section and place.
pub(super) fn functions(elf: &Elf) -> Result<Vec<Function>, Error> {
    let mut functions = Vec::new();
    for (index, section) in elf.sections.iter().enumerate() {
        if !section.code || section.size == 0 {
            continue;
        }
        if !(section.data.len() as u64).is_multiple_of(INSN) || section.no_bits {
            return Err(Error::Object(format!(
                "its section {} is truncated: {} bytes are not whole instructions",
                section.name,
                section.data.len()
            )));
        }
        let length = section.data.len() as u64;
        let mut here: Vec<_> = elf
            .symbols_in(index)
            .filter(|symbol| symbol.function && !symbol.whole_section && !symbol.name.is_empty())
            .collect();
        // Of several symbols at one place a global one is taken.
        here.sort_by_key(|symbol| (symbol.value, !symbol.global));
        here.dedup_by_key(|symbol| symbol.value);
        // A section without symbols is one function.
        if here.is_empty() {
            functions.push(Function {
                name: section.name.clone(),
                section: index,
                start: 0,
                end: length,
                global: true,
            });
        }
        let only_local = here.iter().all(|symbol| !symbol.global);
        for (at, symbol) in here.iter().enumerate() {
            let next = here.get(at + 1).map_or(length, |next| next.value);
            // Functions do not overlap: one of unknown size, or a damaged one, ends where the next begins.
            let end = if symbol.size == 0 {
                next
            } else {
                symbol.value.saturating_add(symbol.size)
            };
            let wrong = |what: &str| Error::Object(format!("the function {}: {what}", symbol.name));
            if end > length {
                return Err(wrong(&format!(
                    "it reaches past the end of its section {}, which may be truncated",
                    section.name
                )));
            }
            if !symbol.value.is_multiple_of(INSN)
                || !end.is_multiple_of(INSN)
                || end <= symbol.value
                || end > next
            {
                return Err(wrong("its place or size is not that of instructions"));
            }
            if (end - symbol.value) / INSN > MAX_INSNS as u64 {
                return Err(wrong("it has more than a million instructions"));
            }
            let global = symbol.global || only_local;
            functions.push(Function {
                name: symbol.name.clone(),
                section: index,
                start: symbol.value,
                end,
                global,
            });
        }
    }
    Ok(functions)
}

/// The functions that are programs: global ones, outside of `.text`.
pub(super) fn programs(elf: &Elf, functions: &[Function]) -> Vec<Program> {
    let mut programs = Vec::new();
    for (index, function) in functions.iter().enumerate() {
        let Some(section) = elf.sections.get(function.section) else {
            continue;
        };
        if section.name == SUBPROGRAMS || !function.global {
            continue;
        }
        programs.push(Program {
            name: function.name.clone(),
            section: SectionName::parse(&section.name),
            instructions: ((function.end - function.start) / INSN) as usize,
            function: index,
        });
    }
    programs
}
