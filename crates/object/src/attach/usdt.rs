//! USDT marks of programs and libraries: found by their notes, attached one by one, with what programs need to read their arguments.
//!
//! The notes are those of SystemTap's `sys/sdt.h`; the map of argument specifications is that of libbpf's `usdt.bpf.h`, whose programs find their
//! entry by the attach cookie.

use super::request::{AttachRequest, Binding};
use crate::map::BpfMap;
use kestrel_catalog::arch;
use kestrel_catalog::attach::{Links, UserPlaces};
use kestrel_catalog::{Error, Result};
use kestrel_catalog::{bounded_read, executable};
use kestrel_compiler::lang::diag::nearest;
use kestrel_kernel::bpf::{Program, ProgramKind, ValueCheck};
use kestrel_kernel::perf::UprobePlace;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSection};
use std::path::Path;

/// One place of a mark.
#[derive(Debug)]
struct Mark {
    provider: String,
    name: String,
    /// With the counter of listeners, where it has one: the program looks whether anybody listens.
    place: UprobePlace,
    arguments: String,
}

/// `libc:setjmp` of `/lib/libc.so.6:libc:setjmp`.
fn split<'r>(request: &'r AttachRequest<'_>) -> Result<(String, &'r str, &'r str)> {
    let target = request.target()?;
    let mut parts = target.splitn(3, ':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(file), Some(provider), Some(name)) if !provider.is_empty() && !name.is_empty() => {
            Ok((executable::find(file)?.display().to_string(), provider, name))
        }
        _ => Err(request.wrong(format!("`{target}` does not name a mark: FILE:PROVIDER:NAME"))),
    }
}

fn marks(request: &AttachRequest<'_>) -> Result<(String, Vec<Mark>)> {
    let (path, provider, name) = split(request)?;
    let bytes =
        bounded_read::read(Path::new(&path), bounded_read::LARGEST_PROGRAM).map_err(|error| Error::Io {
            action: "read",
            subject: path.clone(),
            error,
        })?;
    let all = read(&bytes).map_err(|why| Error::Object {
        object: path.clone(),
        why,
    })?;
    let known: Vec<String> = all
        .iter()
        .map(|mark| format!("{}:{}", mark.provider, mark.name))
        .collect();
    let found: Vec<Mark> = all
        .into_iter()
        .filter(|mark| mark.provider == provider && mark.name == name)
        .collect();
    if found.is_empty() {
        let wanted = format!("{provider}:{name}");
        let near = nearest(&wanted, known.iter().map(String::as_str));
        return Err(Error::NoSuchEvent {
            what: format!("USDT mark in {path}"),
            near: near.into_iter().map(Into::into).collect(),
            wanted,
        });
    }
    Ok((path, found))
}

pub(super) fn bind(request: &AttachRequest<'_>) -> Result<Binding> {
    for mark in &marks(request)?.1 {
        specification(&mark.arguments).map_err(|why| request.wrong(why))?;
    }
    Ok(Binding::default())
}

pub(super) fn attach(request: &AttachRequest<'_>, program: &Program, kind: ProgramKind) -> Result<Links> {
    let (path, marks) = marks(request)?;
    let map = request.maps.iter().find(|map| map.name() == SPECIFICATIONS);
    let mut places = Vec::new();
    for mark in &marks {
        let specification = specification(&mark.arguments).map_err(|why| request.wrong(why))?;
        let cookie = match map {
            Some(map) => enter(request, map, &specification)?,
            None => 0,
        };
        places.push(UprobePlace { cookie, ..mark.place });
    }
    let all = UserPlaces {
        path: &path,
        places: &places,
        at_return: false,
    };
    all.attach(kind, program, request.kernel.host())
}

/// The array of specifications that libbpf's programs look into; their number is the attach cookie.
const SPECIFICATIONS: &str = "__bpf_usdt_specs";
/// Its element: 12 arguments of 16 bytes, a cookie for users, the count of arguments, padding.
const ELEMENT: usize = 208;
const MOST_ARGUMENTS: usize = 12;
const COUNT_AT: usize = 200;
/// A byte of the padding: the element is in use. libbpf's programs do not read it.
const USED_AT: usize = 202;

/// The number of an element with this specification: one that is there, or the first free one.
fn enter(request: &AttachRequest<'_>, map: &BpfMap, specification: &[u8; ELEMENT]) -> Result<u64> {
    if map.info().value_size as usize != ELEMENT {
        return Err(request.wrong(format!(
            "the elements of {SPECIFICATIONS} have {} bytes, not {ELEMENT}: it is another library's",
            map.info().value_size
        )));
    }
    for number in 0..map.info().entries {
        let there = map.lookup(&number.to_ne_bytes())?.unwrap_or_default();
        if there == specification {
            return Ok(number.into());
        }
        if there.get(USED_AT) == Some(&0) {
            map.update(&number.to_ne_bytes(), specification, ValueCheck::Any)?;
            return Ok(number.into());
        }
    }
    Err(request.wrong(format!(
        "the marks have more than {} different ways to find their arguments (BPF_USDT_MAX_SPEC_CNT)",
        map.info().entries
    )))
}

/// The note's owner and type.
const OWNER: &[u8] = b"stapsdt\0";
const TYPE: u32 = 3;

/// All marks of a file.
fn read(bytes: &[u8]) -> std::result::Result<Vec<Mark>, String> {
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(|error| error.to_string())?;
    let endian = file.endian();
    let section = |name: &str| file.section_by_name(name);
    let Some(notes) = section(".note.stapsdt") else {
        return Err("it has no USDT marks (section .note.stapsdt)".to_owned());
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
    let mut marks = Vec::new();
    let mut rest = notes;
    while let Some((note, after)) = note(rest) {
        rest = after;
        let Note {
            owner,
            kind,
            description,
        } = note;
        let (numbers, texts) = match description.split_at_checked(24) {
            Some(parts) if owner == OWNER && kind == TYPE => parts,
            _ => continue,
        };
        let number = |at: usize| numbers.get(at..)?.first_chunk().map(|n| u64::from_le_bytes(*n));
        let (Some(address), Some(then), Some(semaphore)) = (number(0), number(8), number(16)) else {
            continue;
        };
        let moved = base.map_or(0, |now| now.wrapping_sub(then));
        let mut texts = texts.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let mut text = || texts.next().unwrap_or_default().into_owned();
        let (provider, name, arguments) = (text(), text(), text());
        let semaphore = match semaphore {
            0 => 0,
            at => offset_of(at.wrapping_add(moved)).ok_or_else(|| {
                format!("the semaphore of its mark {provider}:{name} lies outside of what is loaded")
            })?,
        };
        let offset = offset_of(address.wrapping_add(moved))
            .ok_or_else(|| format!("its mark {provider}:{name} lies outside of what is loaded"))?;
        marks.push(Mark {
            provider,
            name,
            place: UprobePlace {
                offset,
                semaphore,
                cookie: 0,
            },
            arguments,
        });
    }
    Ok(marks)
}

/// One note of an ELF file.
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

/// Where an argument is, with libbpf's number for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArgumentPlace {
    Constant(i64),
    /// By the place of its register in `struct pt_regs`.
    Register(u32),
    Memory {
        register: u32,
        offset: i64,
    },
    /// Base, index and the logarithm of the scale (libbpf 1.7 and later).
    Indexed {
        register: u32,
        index: u32,
        scale: u32,
        offset: i64,
    },
}

/// The element of the map for a mark's arguments, as its note writes them: `-4@%edi 8@-16(%rbp)`.
fn specification(text: &str) -> std::result::Result<[u8; ELEMENT], String> {
    let mut element = [0; ELEMENT];
    let mut count = 0usize;
    for argument in text.split_whitespace() {
        let (size, operand) = argument
            .split_once('@')
            .ok_or_else(|| format!("the mark's argument `{argument}` has no size"))?;
        let size: i32 = size
            .parse()
            .ok()
            .filter(|size: &i32| [1, 2, 4, 8].contains(&size.abs()))
            .ok_or_else(|| format!("the mark's argument `{argument}` has no known size"))?;
        let place = place(operand).ok_or_else(|| {
            format!("the mark's argument `{argument}` is in a place that programs cannot be told of")
        })?;
        let room = element
            .get_mut(count * 16..count * 16 + 16)
            .filter(|_| count < MOST_ARGUMENTS);
        let room = room.ok_or_else(|| format!("the mark has more than {MOST_ARGUMENTS} arguments"))?;
        let (value, how, register) = match place {
            ArgumentPlace::Constant(value) => (value, 0, 0),
            ArgumentPlace::Register(register) => (0, 1, register),
            ArgumentPlace::Memory { register, offset } => (offset, 2, register),
            ArgumentPlace::Indexed {
                register,
                index,
                scale,
                offset,
            } => (offset, 3 | index << 8 | scale << 20, register),
        };
        let mut bytes = value.to_le_bytes().to_vec();
        bytes.extend(how.to_le_bytes());
        bytes.extend((register as u16).to_le_bytes());
        // The program reads 8 bytes and shifts the argument out of them, with its sign.
        bytes.push(u8::from(size < 0));
        bytes.push((64 - 8 * size.unsigned_abs()) as u8);
        room.copy_from_slice(&bytes);
        count += 1;
    }
    if let Some(byte) = element.get_mut(COUNT_AT) {
        *byte = count as u8;
    }
    if let Some(byte) = element.get_mut(USED_AT) {
        *byte = 1;
    }
    Ok(element)
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
    fn arguments_have_the_layout_of_the_map() {
        let element = specification("-4@%edi 8@$7").unwrap();
        assert_eq!(element[..16], [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 112, 0, 1, 32]);
        assert_eq!(element[16..32], [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(element[200..204], [2, 0, 1, 0]);
        assert!(specification("3@%edi").is_err());
        assert!(specification(&"8@%rax ".repeat(13)).is_err());
        assert_ne!(
            specification("").unwrap(),
            [0; ELEMENT],
            "an element in use is not taken for a free one"
        );
    }

    #[test]
    fn damaged_notes_end_the_list() {
        assert!(note(&[]).is_none());
        assert!(note(&[255; 12]).is_none());
        assert!(read(b"no file").is_err());
    }
}
