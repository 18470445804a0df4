//! Any bytes as what processes have mapped: records of perf's side band, whole binaries, and the unwind tables, symbols and debug information of sound ones.
#![no_main]

use kestrel::user_symbols::frames_of;
use kestrel_kernel::Host;
use kestrel_kernel::perf::side_band::MemoryEvent;
use kestrel_trace::user_symbol::Mapping;
use kestrel_trace::value::StackCopy;
use libfuzzer_sys::fuzz_target;
use object::write::{Object as Elf, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::Write as _;

fuzz_target!(|data: &[u8]| {
    let Some((&how, rest)) = data.split_first() else { return };
    if how % 4 == 0 {
        for kind in [3, 4, 7, 10] {
            for misc in [0, 1 << 13, 1 << 14] {
                _ = MemoryEvent::parse(kind, misc, rest);
            }
        }
        return;
    }
    let (registers, rest) = rest.split_at(rest.len().min(24));
    let (stack, rest) = rest.split_at(rest.len().min(64));
    let word = |at: usize| registers.get(at..at + 8).map_or(0, |it| u64::from_le_bytes(it.try_into().unwrap_or_default()));
    let copy = StackCopy {
        ip: BASE + word(0) % 0x3000,
        sp: word(8),
        bp: if how & 8 == 0 { word(16) } else { word(8).wrapping_add(word(16) % 64) },
        taken: 0,
        stack: &stack[..stack.len() / 16 * 8],
        rest: &stack[stack.len() / 16 * 8..],
    };
    let image = if how % 4 == 1 { rest.to_vec() } else { sound(rest).unwrap_or_default() };
    examine(&image, &copy, how & 4 != 0);
});

/// Where the binary is mapped.
const BASE: u64 = 0x5555_0000_0000;

fn examine(image: &[u8], copy: &StackCopy<'_>, lines: bool) {
    let Ok(memory) = memfd_create("binary", MemfdFlags::CLOEXEC) else { return };
    let mut file = File::from(memory);
    if file.write_all(image).is_err() {
        return;
    }
    let mapping = Mapping { from_ns: 0, until_ns: u64::MAX, start: BASE, end: BASE + 0x4000, offset: 0, binary: 0 };
    let (frames, named) = frames_of(file, &mapping, copy, lines, &Host::default());
    assert!(!frames.is_empty() && frames[0] == copy.ip);
    assert!(named.code.len() <= frames.len());
}

/// Names of sections that mean something.
const SECTIONS: [&[u8]; 6] = [b".eh_frame", b".eh_frame_hdr", b".debug_frame", b".debug_info", b".debug_abbrev", b".debug_line"];

/// A shared library whose sections hold parts of `data`, each of which begins with its length, and whose one function may lie anywhere.
fn sound(data: &[u8]) -> Option<Vec<u8>> {
    let mut elf = Elf::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let text = elf.add_section(Vec::new(), b".text".to_vec(), SectionKind::Text);
    elf.append_section_data(text, &[0x90; 0x100], 16);
    let (function, mut rest) = data.split_at_checked(2)?;
    for name in SECTIONS {
        let (&length, after) = rest.split_first()?;
        let length = (usize::from(length) * 4).min(after.len());
        let (bytes, after) = after.split_at(length);
        rest = after;
        let section = elf.add_section(Vec::new(), name.to_vec(), SectionKind::ReadOnlyData);
        elf.append_section_data(section, bytes, 8);
    }
    elf.add_symbol(Symbol {
        name: rest.get(..rest.len().min(40))?.iter().filter(|byte| **byte != 0).copied().collect(),
        value: u64::from(function[0]),
        size: u64::from(function[1]) * 64,
        kind: SymbolKind::Text,
        scope: SymbolScope::Linkage,
        weak: false,
        section: SymbolSection::Section(text),
        flags: SymbolFlags::None,
    });
    executable(elf.write().ok()?)
}

/// Gives a relocatable file what maps it: a program header, in the place of the 64 bytes behind the ELF header's.
fn executable(mut image: Vec<u8>) -> Option<Vec<u8>> {
    let at = image.len().next_multiple_of(8);
    image.resize(at, 0);
    let size = (at + 56) as u64;
    // PT_LOAD, readable and executable, offset and addresses 0.
    let words = [1 | 5 << 32, 0, 0, 0, size, size, 0x1000];
    image.extend(words.iter().flat_map(|word: &u64| word.to_le_bytes()));
    image.get_mut(32..40)?.copy_from_slice(&(at as u64).to_le_bytes());
    image.get_mut(16..18)?.copy_from_slice(&3u16.to_le_bytes());
    image.get_mut(54..58)?.copy_from_slice(&[56, 0, 1, 0]);
    Some(image)
}
