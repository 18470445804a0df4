//! Any bytes as the debug information of a program: its functions, their types, its lines.
#![no_main]

use kestrel_catalog::debuginfo::{DebugInfo, Line};
use libfuzzer_sys::fuzz_target;
use object::write::Object as Elf;
use object::{Architecture, BinaryFormat, Endianness, SectionKind};

/// Names of sections that mean something.
const SECTIONS: [&[u8]; 8] = [
    b".debug_info",
    b".debug_abbrev",
    b".debug_line",
    b".debug_str",
    b".debug_aranges",
    b".debug_rnglists",
    b".debug_loclists",
    b".debug_types",
];

fuzz_target!(|data: &[u8]| {
    look(data);
    if let Some(image) = sound(data) {
        look(&image);
    }
});

fn look(image: &[u8]) {
    let Some(info) = DebugInfo::of(image) else { return };
    for address in [0, 0x1000, u64::MAX] {
        if let Some(known) = info.describe(None, &[address]) {
            for id in known.types.ids() {
                _ = (known.types.size_of(id), known.types.render(id));
            }
        }
    }
    for line in [0, 1, 7] {
        _ = info.lines(Line { file: "a.c", line, column: None });
    }
}

/// A sound file whose sections hold parts of `data`, each of which begins with its length.
fn sound(mut data: &[u8]) -> Option<Vec<u8>> {
    let mut elf = Elf::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    for name in SECTIONS {
        let (&length, rest) = data.split_first()?;
        let (own, rest) = rest.split_at(rest.len().min(usize::from(length)));
        let id = elf.add_section(Vec::new(), name.to_vec(), SectionKind::Debug);
        elf.append_section_data(id, own, 1);
        data = rest;
    }
    elf.write().ok()
}
