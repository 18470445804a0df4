//! Linking: makes one program of a function and all functions that it calls. Their code is placed one behind the other, calls are pointed at it, and the
//! records of `.BTF.ext` move along.

use super::Object;
use super::extension::place;
use super::program::{Function, INSN, MAX_INSNS, Program};
use super::relocation;
use crate::Error;
use crate::btf::{TypeId, u32_at};
use crate::insn::Insn;
use crate::isa::{CALL, LOAD64, PSEUDO_CALL};
use std::collections::HashMap;

/// Reference of an instruction to something that only the loading kernel knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A map of the object, by its index: a 64-bit load of its descriptor.
    Map(usize),
    /// An address in the value of a map of the object; the offset is in the second slot's immediate already.
    MapValue(usize),
    /// A kernel variable, or the address of a kernel function: a 64-bit load.
    Symbol {
        /// The symbol's name.
        name: String,
        /// The type in the object's types; `None` for a bare address.
        ty: Option<TypeId>,
        /// Whether it may be missing; its address is 0 then.
        weak: bool,
    },
    /// A call of a kernel function.
    Function {
        /// The symbol's name.
        name: String,
        /// Whether it may be missing: the verifier then refuses the program only if it can reach the call.
        weak: bool,
    },
}

/// A linked program, complete but for what only the loading kernel knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linked {
    /// The program's instructions.
    pub insns: Vec<Insn>,
    /// References that the loader has to fill in, each with the index of its instruction, in no order.
    pub references: Vec<(usize, Reference)>,
    /// `struct bpf_func_info` records.
    pub functions: Vec<u8>,
    /// `struct bpf_line_info` records.
    pub lines: Vec<u8>,
    /// `struct bpf_core_relo` records.
    pub core: Vec<u8>,
    /// The functions: index of the first instruction, and name.
    pub parts: Vec<(usize, String)>,
}

/// `BPF_CORE_TYPE_MATCHES`, of the kernel's `enum bpf_core_relo_kind`.
const TYPE_MATCHES: u32 = 12;

impl Linked {
    /// Resolves the relocations of kind `BPF_CORE_TYPE_MATCHES` (has a type the same shape in this kernel?) and takes them out of [`Linked::core`]. The kernel
    /// itself (6.0 and later) refuses programs that ask this of deeply nested structs.
    ///
    /// # Errors
    /// Errors of `matches`.
    pub fn answer_type_matches<E>(
        &mut self,
        mut matches: impl FnMut(TypeId) -> Result<bool, E>,
    ) -> Result<(), E> {
        // `struct bpf_core_relo`: byte offset of the instruction, type, access string, kind.
        let mut kept = Vec::with_capacity(self.core.len());
        for record in self.core.chunks_exact(super::extension::CORE) {
            if u32_at(record, 12) != Some(TYPE_MATCHES) {
                kept.extend_from_slice(record);
                continue;
            }
            let at = place(record) as usize / Insn::BYTES;
            let answer = matches(TypeId(u32_at(record, 4).unwrap_or(0)))?;
            if let Some(insn) = self.insns.get_mut(at) {
                insn.imm = i32::from(answer);
            }
        }
        self.core = kept;
        Ok(())
    }
}

/// The source line that an instruction was compiled from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The file's name.
    pub file: String,
    /// The line's text.
    pub text: String,
    /// Number of the line, from 1 on.
    pub line: u32,
    /// Number of the column, from 1 on; 0 where it is not known.
    pub column: u32,
}

/// State of the linking of one program.
pub(super) struct Linker<'o> {
    pub(super) object: &'o Object,
    pub(super) out: Linked,
    /// Index of the first instruction of each function placed so far, by the function's index.
    placed: HashMap<usize, usize>,
    /// Calls to be pointed at their functions at the end: index of the instruction, index of the function.
    calls: Vec<(usize, usize)>,
}

/// Place in the code to which a relocation applies.
pub(super) struct Site<'a> {
    pub(super) function: &'a Function,
    /// Index of the instruction in the linked program.
    pub(super) here: usize,
    /// Offset in the section, in bytes.
    pub(super) offset: u64,
    pub(super) relocation: &'a super::elf::Relocation,
    pub(super) symbol: &'a super::elf::Symbol,
    pub(super) insn: Insn,
}

impl Site<'_> {
    pub(super) fn is_call(&self) -> bool {
        self.insn.code == CALL
    }

    pub(super) fn is_load(&self) -> bool {
        self.insn.code == LOAD64
    }

    pub(super) fn wrong(&self, what: impl std::fmt::Display) -> Error {
        Error::Object(format!(
            "the relocation of instruction {} of {}: {what}",
            (self.offset - self.function.start) / INSN,
            self.function.name
        ))
    }
}

/// Links a program with all functions that it calls, directly or through others.
pub(super) fn link(object: &Object, program: &Program) -> Result<Linked, Error> {
    let mut linker = Linker {
        object,
        out: Linked::default(),
        placed: HashMap::new(),
        calls: Vec::new(),
    };
    linker.place(program.function)?;
    let mut done = 0;
    // The list grows while it is read: a function that is placed here may call more.
    while let Some((_, function)) = linker.calls.get(done).copied() {
        if !linker.placed.contains_key(&function) {
            linker.place(function)?;
        }
        done += 1;
    }
    for (at, function) in &linker.calls {
        let target = linker.placed.get(function).copied().unwrap_or(0);
        if let Some(insn) = linker.out.insns.get_mut(*at) {
            insn.imm = (target as i64 - *at as i64 - 1) as i32;
        }
    }
    Ok(linker.out)
}

impl<'o> Linker<'o> {
    /// Appends a function's code and records, applies its relocations and notes its calls.
    fn place(&mut self, index: usize) -> Result<(), Error> {
        let object = self.object;
        let function = object
            .functions
            .get(index)
            .ok_or_else(|| Error::Object("a function is missing".into()))?;
        let section = object
            .elf
            .sections
            .get(function.section)
            .ok_or_else(|| Error::Object("a section is missing".into()))?;
        let base = self.out.insns.len();
        self.placed.insert(index, base);
        self.out.parts.push((base, function.name.clone()));
        let bytes = section
            .data
            .get(function.start as usize..function.end as usize)
            .unwrap_or(&[]);
        if base + bytes.len() / Insn::BYTES > MAX_INSNS {
            return Err(Error::Object(format!(
                "with all that it calls, {} has more than a million instructions",
                self.out.parts.first().map_or("", |(_, name)| name)
            )));
        }
        self.out.insns.extend(
            bytes
                .chunks_exact(Insn::BYTES)
                .filter_map(|insn| insn.first_chunk().map(|insn| Insn::from_bytes(*insn))),
        );
        self.records(function, &section.name, base);
        // Calls that a relocation has resolved; the others are found below.
        let mut relocated = std::collections::HashSet::new();
        // The section's relocations, of all its functions, are in the order of their offsets.
        let from = section
            .relocations
            .partition_point(|relocation| relocation.offset < function.start);
        for relocation in section
            .relocations
            .get(from..)
            .unwrap_or(&[])
            .iter()
            .take_while(|r| r.offset < function.end)
        {
            let here = base + ((relocation.offset - function.start) / INSN) as usize;
            let insn = self.out.insns.get(here).copied().unwrap_or_default();
            let symbol = object.elf.symbols.get(relocation.symbol);
            let symbol = symbol.ok_or_else(|| {
                Error::Object(format!(
                    "the relocation at {:#x} of section {} names a symbol that is not there",
                    relocation.offset, section.name
                ))
            })?;
            let site = Site {
                function,
                here,
                offset: relocation.offset,
                relocation,
                symbol,
                insn,
            };
            if !relocation.offset.is_multiple_of(INSN) {
                return Err(site.wrong("it lies inside of an instruction"));
            }
            if site.is_load() && here + 1 >= self.out.insns.len() {
                return Err(site.wrong("the 64-bit load is cut in half"));
            }
            relocation::apply(self, &site)?;
            relocated.insert(here);
        }
        // Within a section the compiler resolves calls itself, without a relocation. Their distances hold in the section, not in the linked program.
        for here in base..self.out.insns.len() {
            let insn = self.out.insns.get(here).copied().unwrap_or_default();
            if insn.code == CALL && insn.src == PSEUDO_CALL && !relocated.contains(&here) {
                let from = (function.start / INSN) as i64 + (here - base) as i64;
                let target = from + i64::from(insn.imm) + 1;
                self.call(
                    here,
                    function.section,
                    target.checked_mul(INSN as i64),
                    &function.name,
                )?;
            }
        }
        Ok(())
    }

    /// Notes that the instruction `here` calls the function that begins at byte `target` of a section.
    pub(super) fn call(
        &mut self,
        here: usize,
        section: usize,
        target: Option<i64>,
        caller: &str,
    ) -> Result<(), Error> {
        let target = target.and_then(|target| u64::try_from(target).ok());
        let found = target.and_then(|target| self.object.function_at.get(&(section, target)).copied());
        let found =
            found.ok_or_else(|| Error::Object(format!("{caller} calls a place where no function begins")))?;
        self.calls.push((here, found));
        Ok(())
    }

    /// Copies a function's records of `.BTF.ext`. The first word of each is the place it belongs to: before, in bytes of the section; afterwards, in instructions
    /// (CO-RE: bytes) of the program.
    fn records(&mut self, function: &Function, section: &str, base: usize) {
        let extension = &self.object.extension;
        let (start, end) = (function.start, function.end);
        let index = |record: &[u8]| ((u64::from(place(record)) - start) / INSN) as u32 + base as u32;
        let put = |out: &mut Vec<u8>, word: u32, record: &[u8]| {
            out.extend(word.to_le_bytes());
            out.extend(record.get(4..).unwrap_or(&[]));
        };
        for record in extension.functions.within(section, start, end) {
            put(&mut self.out.functions, index(record), record);
        }
        for record in extension.lines.within(section, start, end) {
            put(&mut self.out.lines, index(record), record);
        }
        for record in extension.core.within(section, start, end) {
            put(
                &mut self.out.core,
                index(record).wrapping_mul(Insn::BYTES as u32),
                record,
            );
        }
    }
}

impl Object {
    /// The source line that an instruction was compiled from, where the object was compiled with `-g`.
    pub fn source_line(&self, linked: &Linked, insn: usize) -> Option<SourceLine> {
        let records = linked.lines.chunks_exact(super::extension::LINE);
        let record = records
            .take_while(|record| u32_at(record, 0).is_some_and(|at| at as usize <= insn))
            .last()?;
        // A record from before the function's first instruction belongs to another function.
        let begin = linked
            .parts
            .iter()
            .map(|(at, _)| *at)
            .filter(|at| *at <= insn)
            .max()?;
        if (u32_at(record, 0)? as usize) < begin {
            return None;
        }
        let btf = self.btf()?;
        // `line_col`: the column is in the low ten bits.
        let place = u32_at(record, 12)?;
        Some(SourceLine {
            file: btf.string(u32_at(record, 4)?).to_owned(),
            text: btf.string(u32_at(record, 8)?).to_owned(),
            line: place >> 10,
            column: place & 0x3ff,
        })
    }
}
