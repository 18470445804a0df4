//! Any bytes as a compiled BPF object: as the whole file, and as the sections of a sound one, so that damage gets behind the ELF header.
#![no_main]

use kestrel_bpf::object::Object;
use libfuzzer_sys::fuzz_target;
use object::write::{Object as Elf, Relocation, RelocationFlags, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};

fuzz_target!(|data: &[u8]| {
    read(data);
    if let Some(elf) = sound(data) {
        read(&elf);
    }
});

fn read(data: &[u8]) {
    let Ok(object) = Object::parse(data) else { return };
    _ = (object.license(), object.version(), object.size(), object.sections().count());
    for program in object.programs().iter().take(8) {
        if let Ok(linked) = object.link(program) {
            assert!(linked.insns.len() <= 1_000_000);
            for insn in [0, linked.insns.len() / 2, linked.insns.len()] {
                _ = object.source_line(&linked, insn);
            }
        }
    }
}

/// Names of sections that mean something, code first.
const SECTIONS: [&[u8]; 8] = [b"kprobe/x", b".text", b"maps", b".maps", b".BTF", b".BTF.ext", b".rodata", b"license"];

/// An ELF file whose sections hold parts of `data`: each begins with its length, and code with what it is related to.
fn sound(data: &[u8]) -> Option<Vec<u8>> {
    let mut elf = Elf::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little);
    let mut rest = data;
    let mut symbols = Vec::new();
    let mut codes = Vec::new();
    for name in SECTIONS {
        let (&length, after) = rest.split_first()?;
        let length = (usize::from(length) * 8).min(after.len());
        let (bytes, after) = after.split_at(length);
        rest = after;
        let code = name == b"kprobe/x" || name == b".text";
        let section = elf.add_section(Vec::new(), name.to_vec(), if code { SectionKind::Text } else { SectionKind::Data });
        elf.append_section_data(section, bytes, 8);
        symbols.push(elf.add_symbol(Symbol {
            name: [b"s_", name].concat(),
            value: 0,
            size: bytes.len() as u64,
            kind: if code { SymbolKind::Text } else { SymbolKind::Data },
            scope: SymbolScope::Linkage,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        }));
        if code {
            codes.push((section, bytes.len() as u64));
        }
    }
    for pair in rest.chunks_exact(2).take(16) {
        let (section, size) = codes[usize::from(pair[0] & 1)];
        let symbol = symbols[usize::from(pair[1]) % symbols.len()];
        let offset = u64::from(pair[0] >> 1) * 8 % size.max(1);
        let flags = RelocationFlags::Elf { r_type: object::elf::R_BPF_64_64 };
        elf.add_relocation(section, Relocation { offset, symbol, addend: 0, flags }).ok()?;
    }
    elf.write().ok()
}
