//! USDT probes of programs and libraries: where they are, where their arguments lie, and, of events that say it themselves, what these are.
//!
//! The notes are those of SystemTap's `sys/sdt.h`, and those of kestrel-tracepoint beside them: group, name, print format, fields, each a text that ends in a NUL.

use super::Executable;
use crate::arch;
use crate::bounded_read;
use crate::error::{Error, Result};
use kestrel_compiler::lang::diag::nearest;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSection};
use std::collections::HashMap;
use std::io::Seek;
use std::sync::Arc;

/// A place of a USDT probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsdtProbe {
    /// The first half of its name.
    pub provider: String,
    /// The second part of `PROVIDER:NAME`.
    pub name: String,
    /// Where in the file its instruction lies.
    pub offset: u64,
    /// Where in the file its counter of listeners lies; 0 where it has none.
    pub semaphore: u64,
    /// Where its arguments are, as the note writes it: `-4@%edi 8@-16(%rbp)`.
    pub arguments: String,
}

/// Description of an event from the note beside its probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// How its records are printed: text with `{field}`.
    pub print: String,
    /// The fields, in order.
    pub fields: Vec<Field>,
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's name.
    pub name: String,
    /// The field's type.
    pub kind: UsdtFieldKind,
    /// Name of the type in C: `unsigned short`.
    pub c_type: String,
}

/// Type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "sizes are in bytes")]
pub enum UsdtFieldKind {
    /// An integer, in one word.
    Integer { size: u8, signed: bool },
    /// The bits of a float of 4 or 8 bytes, always those of 8.
    Float,
    /// 0 or 1, in one word.
    Bool,
    /// The address of a text that ends in a NUL, cut to so many bytes with it.
    Text { size: u32 },
    /// The address of a text that ends in a NUL.
    String,
    /// An address, and in the next word a number of bytes.
    Bytes,
    /// The address of so many integers.
    Array { size: u8, signed: bool, count: u32 },
}

impl UsdtFieldKind {
    /// Number of its words among those that the probe's register points to.
    pub fn words(self) -> u32 {
        if self == Self::Bytes { 2 } else { 1 }
    }

    fn read(text: &str) -> Option<Self> {
        let integer = |text: &str| {
            let signed = text.starts_with('i');
            let bits: u8 = text.strip_prefix(['i', 'u'])?.parse().ok()?;
            matches!(bits, 8 | 16 | 32 | 64).then_some((bits / 8, signed))
        };
        Some(match (text, text.split_once('[')) {
            ("bool", _) => Self::Bool,
            ("str", _) => Self::String,
            ("bytes", _) => Self::Bytes,
            ("f32" | "f64", _) => Self::Float,
            (_, Some((element, count))) => {
                let count: u16 = count.strip_suffix(']')?.parse().ok()?;
                let count = u32::from(count);
                match element {
                    "char" => Self::Text { size: count },
                    element => integer(element).map(|(size, signed)| Self::Array { size, signed, count })?,
                }
            }
            (text, None) => integer(text).map(|(size, signed)| Self::Integer { size, signed })?,
        })
    }
}

/// All USDT probes of a file.
#[derive(Debug, Default)]
pub struct UsdtProbes {
    probes: Vec<UsdtProbe>,
    /// By provider and name.
    descriptions: HashMap<(String, String), Arc<Description>>,
}

impl Executable {
    /// The probes.
    ///
    /// # Errors
    /// When the file cannot be read, has none, or its notes make no sense.
    pub fn usdt_probes(&self) -> Result<UsdtProbes> {
        // Where it is read is shared with the file that it is a copy of.
        let again = self.file.try_clone().and_then(|mut file| {
            file.rewind()?;
            Ok(file)
        });
        let bytes = again.and_then(|file| bounded_read::all_of(file, bounded_read::LARGEST_PROGRAM));
        let bytes = bytes.map_err(Error::io("read", self.path.display()))?;
        read(&bytes).map_err(|why| Error::Object {
            object: self.path.display().to_string(),
            why,
        })
    }

    /// The places of a probe.
    ///
    /// # Errors
    /// As [`Executable::usdt_probes`]; when it has none of the name.
    pub fn usdt_probes_named(&self, provider: &str, name: &str) -> Result<Vec<UsdtProbe>> {
        let probes = self.usdt_probes()?;
        let found: Vec<UsdtProbe> = probes.named(provider, name).cloned().collect();
        match found.is_empty() {
            true => Err(self.no_usdt_probe(&probes, &format!("{provider}:{name}"))),
            false => Ok(found),
        }
    }

    /// The error for a probe that it does not have, with names that come close.
    pub(crate) fn no_usdt_probe(&self, probes: &UsdtProbes, wanted: &str) -> Error {
        let known: Vec<String> = probes
            .names()
            .map(|(provider, name)| format!("{provider}:{name}"))
            .collect();
        let near = nearest(wanted, known.iter().map(String::as_str));
        Error::NoSuchEvent {
            what: format!("USDT probe in {}", self.path.display()),
            near: near.into_iter().map(Into::into).collect(),
            wanted: wanted.to_owned(),
        }
    }
}

impl UsdtProbes {
    /// Provider and name of each probe, once, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut seen = std::collections::HashSet::new();
        let names = self.probes.iter().map(|probe| (&*probe.provider, &*probe.name));
        names.filter(move |name| seen.insert(*name))
    }

    /// The places of a probe.
    pub fn named<'m>(&'m self, provider: &'m str, name: &'m str) -> impl Iterator<Item = &'m UsdtProbe> {
        let is_meant = move |probe: &&UsdtProbe| probe.provider == provider && probe.name == name;
        self.probes.iter().filter(is_meant)
    }

    /// Description of an event.
    pub fn description(&self, provider: &str, name: &str) -> Option<&Arc<Description>> {
        self.descriptions.get(&(provider.to_owned(), name.to_owned()))
    }
}

/// Owner and type of the notes of probes, and of those of descriptions.
const MARK: (&[u8], u32) = (b"stapsdt\0", 3);
const DESCRIPTION: (&[u8], u32) = (b"kestrel\0", 1);

fn read(bytes: &[u8]) -> std::result::Result<UsdtProbes, String> {
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(|error| error.to_string())?;
    let endian = file.endian();
    let section = |name: &str| file.section_by_name(name);
    let Some(notes) = section(".note.stapsdt") else {
        return Err("it has no USDT probes (section .note.stapsdt)".to_owned());
    };
    let notes = notes.data().map_err(|error| error.to_string())?;
    // A file that was prelinked has moved; its notes have not.
    let base = section(".stapsdt.base").map(|base| base.address());
    let offset_of = |address: u64| {
        file.elf_program_headers().iter().find_map(|segment| {
            let (start, size) = (
                segment.p_vaddr(endian),
                segment.p_filesz(endian).max(segment.p_memsz(endian)),
            );
            let loaded = segment.p_type(endian) == object::elf::PT_LOAD;
            let inside = address.checked_sub(start).filter(|at| loaded && *at < size)?;
            segment.p_offset(endian).checked_add(inside)
        })
    };
    let mut probes = Vec::new();
    let mut rest = notes;
    while let Some((note, after)) = note(rest) {
        rest = after;
        let Note {
            owner,
            kind,
            description,
        } = note;
        let (numbers, strings) = match description.split_at_checked(24) {
            Some(parts) if (owner, kind) == MARK => parts,
            _ => continue,
        };
        let number = |at: usize| numbers.get(at..)?.first_chunk().map(|n| u64::from_le_bytes(*n));
        let (Some(address), Some(then), Some(semaphore)) = (number(0), number(8), number(16)) else {
            continue;
        };
        let moved = base.map_or(0, |now| now.wrapping_sub(then));
        let mut strings = strings.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let mut text = || strings.next().unwrap_or_default().into_owned();
        let (provider, name, arguments) = (text(), text(), text());
        let semaphore = match semaphore {
            0 => 0,
            at => offset_of(at.wrapping_add(moved)).ok_or_else(|| {
                format!("the semaphore of its probe {provider}:{name} lies outside of what is loaded")
            })?,
        };
        let offset = offset_of(address.wrapping_add(moved))
            .ok_or_else(|| format!("its probe {provider}:{name} lies outside of what is loaded"))?;
        probes.push(UsdtProbe {
            provider,
            name,
            offset,
            semaphore,
            arguments,
        });
    }
    let described = section(".note.kestrel").map(|notes| notes.data().unwrap_or_default());
    Ok(UsdtProbes {
        probes,
        descriptions: descriptions(described.unwrap_or_default()),
    })
}

/// Descriptions of events in the notes of a section. One that makes no sense is left out: the probes have their arguments without it.
fn descriptions(notes: &[u8]) -> HashMap<(String, String), Arc<Description>> {
    let mut all = HashMap::new();
    let mut rest = notes;
    while let Some((note, after)) = note(rest) {
        rest = after;
        let strings = match (note.owner, note.kind) == DESCRIPTION {
            true => note.description,
            false => continue,
        };
        let mut strings = strings.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let mut text = || strings.next().unwrap_or_default().into_owned();
        let (provider, name, print) = (text(), text(), text());
        let fields = strings.filter(|text| !text.is_empty()).map(|text| field(&text));
        let Some(fields) = fields.collect::<Option<Vec<_>>>() else {
            continue;
        };
        all.insert((provider, name), Arc::new(Description { print, fields }));
    }
    all
}

/// `status u16 unsigned short`.
fn field(text: &str) -> Option<Field> {
    let mut parts = text.splitn(3, ' ');
    let (name, kind, c_type) = (parts.next()?, parts.next()?, parts.next()?);
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name =
        !name.is_empty() && name.chars().all(is_letter) && !name.starts_with(|c: char| c.is_ascii_digit());
    Some(Field {
        name: is_name.then(|| name.to_owned())?,
        kind: UsdtFieldKind::read(kind)?,
        c_type: c_type.to_owned(),
    })
}

/// A note of an ELF file.
struct Note<'b> {
    owner: &'b [u8],
    kind: u32,
    description: &'b [u8],
}

/// The first note, and what follows it.
fn note(bytes: &[u8]) -> Option<(Note<'_>, &[u8])> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().map(|w| u32::from_le_bytes(*w));
    let (owner, description, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
    let begin = 12 + owner.next_multiple_of(4);
    let end = begin.checked_add(description)?;
    let found = Note {
        owner: bytes.get(12..12 + owner)?,
        kind,
        description: bytes.get(begin..end)?,
    };
    Some((found, bytes.get(end.next_multiple_of(4)..).unwrap_or(&[])))
}

/// An argument of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// 1, 2, 4 or 8 bytes.
    pub size: u8,
    /// Whether it may be negative.
    pub signed: bool,
    /// Where the argument is when the probe is hit.
    pub place: ArgumentPlace,
}

/// The arguments of a probe, of what its note says.
///
/// # Errors
/// With a word about the first that is not understood.
pub fn arguments(text: &str) -> std::result::Result<Vec<Argument>, String> {
    let argument = |argument: &str| {
        let (size, operand) = argument
            .split_once('@')
            .ok_or_else(|| format!("the probe's argument `{argument}` has no size"))?;
        let size: i8 = size
            .parse()
            .ok()
            .filter(|size: &i8| [1, 2, 4, 8].contains(&size.unsigned_abs()))
            .ok_or_else(|| format!("the probe's argument `{argument}` has no known size"))?;
        let place = place(operand).ok_or_else(|| {
            format!("the probe's argument `{argument}` is in a place that BPF programs cannot read")
        })?;
        Ok(Argument {
            size: size.unsigned_abs(),
            signed: size < 0,
            place,
        })
    };
    text.split_whitespace().map(argument).collect()
}

/// Place of an argument of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the assembler's own words")]
pub enum ArgumentPlace {
    /// `$5`.
    Constant(i64),
    /// By the place of its register in `struct pt_regs`.
    Register(u32),
    /// `-8(%rbp)`.
    Memory { register: u32, offset: i64 },
    /// Base, index and the logarithm of the scale.
    Indexed {
        register: u32,
        index: u32,
        scale: u32,
        offset: i64,
    },
}

/// An operand as the assembler writes it: `$5`, `%rax`, `-8(%rbp)`, `(%rax,%rdx,4)`.
fn place(operand: &str) -> Option<ArgumentPlace> {
    let number = |text: &str| -> Option<i64> {
        let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let value = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()? as i64,
            None => digits.parse::<u64>().ok()? as i64,
        };
        Some(value.wrapping_mul(sign))
    };
    let register = |text: &str| (arch::current().operand)(text.strip_prefix('%')?);
    if let Some(constant) = operand.strip_prefix('$') {
        return number(constant).map(ArgumentPlace::Constant);
    }
    let Some((offset, inside)) = operand.split_once('(') else {
        return register(operand).map(ArgumentPlace::Register);
    };
    let offset = if offset.is_empty() { 0 } else { number(offset)? };
    let mut parts = inside.strip_suffix(')')?.split(',');
    let base = register(parts.next()?)?;
    let Some(index) = parts.next() else {
        return Some(ArgumentPlace::Memory {
            register: base,
            offset,
        });
    };
    let scale = match parts.next().unwrap_or("1") {
        "1" => 0,
        "2" => 1,
        "4" => 2,
        "8" => 3,
        _ => return None,
    };
    Some(ArgumentPlace::Indexed {
        register: base,
        index: register(index)?,
        scale,
        offset,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_places() {
        assert_eq!(place("$-5"), Some(ArgumentPlace::Constant(-5)));
        assert_eq!(place("$0x10"), Some(ArgumentPlace::Constant(16)));
        assert_eq!(place("%edi"), Some(ArgumentPlace::Register(112)));
        assert_eq!(place("%r11d"), Some(ArgumentPlace::Register(48)));
        assert_eq!(place("%sil"), Some(ArgumentPlace::Register(104)));
        assert_eq!(
            place("-16(%rbp)"),
            Some(ArgumentPlace::Memory {
                register: 32,
                offset: -16
            })
        );
        assert_eq!(
            place("(%rax)"),
            Some(ArgumentPlace::Memory {
                register: 80,
                offset: 0
            })
        );
        assert_eq!(
            place("8(%rax,%rdx,4)"),
            Some(ArgumentPlace::Indexed {
                register: 80,
                index: 96,
                scale: 2,
                offset: 8
            })
        );
        for strange in [
            "",
            "%",
            "%xmm0",
            "foo(%rip)",
            "$",
            "8(%rax",
            "(%rax,%rdx,3)",
            "%ripx",
        ] {
            assert_eq!(place(strange), None, "{strange}");
        }
    }

    #[test]
    fn descriptions_are_read_and_bad_ones_left_out() {
        let mut notes = Vec::new();
        for text in [
            "server\0answered\0{path} {n}\0path str char\0n u16 unsigned short\0name char[16] char\0set i32[3] int\0\0\0",
            "server\0strange\0{n}\0n u12 int\0",
            "server\0no_name\0\0 u8 int\0",
        ] {
            let mut text = text.as_bytes().to_vec();
            text.resize(text.len().next_multiple_of(4), 0);
            notes.extend(8_u32.to_le_bytes());
            notes.extend((text.len() as u32).to_le_bytes());
            notes.extend(1_u32.to_le_bytes());
            notes.extend(b"kestrel\0");
            notes.extend(text);
        }
        let all = descriptions(&notes);
        assert_eq!(all.len(), 1);
        let answered = &all[&("server".to_owned(), "answered".to_owned())];
        assert_eq!(answered.print, "{path} {n}");
        let kinds: Vec<UsdtFieldKind> = answered.fields.iter().map(|field| field.kind).collect();
        let unsigned = UsdtFieldKind::Integer {
            size: 2,
            signed: false,
        };
        let array = UsdtFieldKind::Array {
            size: 4,
            signed: true,
            count: 3,
        };
        assert_eq!(
            kinds,
            [
                UsdtFieldKind::String,
                unsigned,
                UsdtFieldKind::Text { size: 16 },
                array
            ]
        );
        assert_eq!(answered.fields[1].c_type, "unsigned short");
        // Nothing panics, whatever is cut off.
        for cut in 0..notes.len() {
            descriptions(&notes[..cut]);
        }
    }

    #[test]
    fn damaged_notes_end_the_list() {
        assert!(note(&[]).is_none());
        assert!(note(&[255; 12]).is_none());
        assert!(read(b"no file").is_err());
    }
}
