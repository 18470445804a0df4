//! Objects built byte by byte, and damaged ones; guest tests have objects of compilers.

use super::map::{Filling, Inner, Pinning};
use super::*;
use crate::insn::Insn;
use ::object::write::{
    Object as Writer, Relocation, RelocationFlags, SectionId, Symbol, SymbolId, SymbolSection,
};
use ::object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};
use proptest::prelude::*;

/// An object that is being built, and its sections of code.
struct Made(Writer<'static>, Vec<SectionId>);

impl Made {
    fn new() -> Self {
        Self(
            Writer::new(BinaryFormat::Elf, Architecture::Bpf, Endianness::Little),
            Vec::new(),
        )
    }

    fn section(&mut self, name: &str, bytes: &[u8]) -> SectionId {
        let code = name == "prog" || name == ".text" || name.contains('/');
        let kind = if code {
            SectionKind::Text
        } else {
            SectionKind::Data
        };
        let section = self.0.add_section(Vec::new(), name.as_bytes().to_vec(), kind);
        self.0.append_section_data(section, bytes, 8);
        if code {
            self.1.push(section);
        }
        section
    }

    fn symbol(
        &mut self,
        name: &str,
        section: SectionId,
        value: u64,
        size: u64,
        scope: SymbolScope,
    ) -> SymbolId {
        let kind = if self.1.contains(&section) {
            SymbolKind::Text
        } else {
            SymbolKind::Data
        };
        self.0.add_symbol(Symbol {
            name: name.as_bytes().to_vec(),
            value,
            size,
            kind,
            scope,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        })
    }

    fn relate(&mut self, section: SectionId, insn: u64, symbol: SymbolId) {
        let flags = RelocationFlags::Elf {
            r_type: ::object::elf::R_BPF_64_64,
        };
        self.0
            .add_relocation(
                section,
                Relocation {
                    offset: insn * 8,
                    symbol,
                    addend: 0,
                    flags,
                },
            )
            .unwrap();
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.write().unwrap()
    }
}

fn insn(code: u8, src: u8, imm: i32) -> [u8; 8] {
    Insn {
        code,
        src,
        imm,
        ..Insn::default()
    }
    .to_bytes()
}

const LOAD: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

fn code(insns: &[[u8; 8]]) -> Vec<u8> {
    insns.concat()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// tc's style: two maps, one of maps, a program that refers to both and to one of them twice.
fn classic() -> Vec<u8> {
    let mut made = Made::new();
    let maps = made.section(
        "maps",
        &words(&[2, 4, 8, 1, 0, 42, 2, 0, 3, 12, 4, 4, 8, 0, 0, 1, 42, u32::MAX]),
    );
    let inner = made.symbol("inner", maps, 0, 36, SymbolScope::Linkage);
    let outer = made.symbol("outer", maps, 36, 36, SymbolScope::Linkage);
    let load = insn(LOAD, 0, 0);
    let second = insn(0, 0, 0);
    let program = made.section(
        "prog",
        &code(&[load, second, load, second, load, second, insn(EXIT, 0, 0)]),
    );
    made.symbol("count", program, 0, 56, SymbolScope::Linkage);
    for (at, map) in [(0, outer), (2, inner), (4, outer)] {
        made.relate(program, at, map);
    }
    made.section("license", b"GPL\0rest");
    made.section("version", &words(&[0x0004_1342]));
    made.bytes()
}

#[test]
fn the_classic_style() {
    let object = Object::parse(&classic()).unwrap();
    let [inner, outer] = object.maps() else {
        panic!("{:?}", object.maps())
    };
    assert_eq!(
        (inner.name.as_str(), inner.kind, inner.value_size, inner.pinning),
        ("inner", 2, 8, Pinning::Global)
    );
    assert_eq!(
        (outer.kind, outer.pinning, outer.inner.clone()),
        (12, Pinning::Object, Some(Inner::Map(0)))
    );
    assert_eq!(outer.filling, [(3, Filling::Map(0))]);
    assert_eq!(object.license().unwrap().as_bytes(), b"GPL");
    assert_eq!(object.version(), Some(0x0004_1342));
    let [program] = object.programs() else {
        panic!("{:?}", object.programs())
    };
    assert_eq!(program.section.kind().map(|kind| kind.hook), Some(Hook::Classic));
    let linked = object.link(program).unwrap();
    let expected = [
        (0, Reference::Map(1)),
        (2, Reference::Map(0)),
        (4, Reference::Map(1)),
    ];
    assert_eq!(
        (linked.insns.len(), linked.references.as_slice()),
        (7, &expected[..])
    );
}

/// Two functions at the same offset in two sections, both called: the section decides which is meant.
#[test]
fn calls_across_sections_find_the_right_function() {
    let mut made = Made::new();
    let text = made.section(
        ".text",
        &code(&[
            insn(0xb7, 0, 1),
            insn(EXIT, 0, 0),
            insn(0xb7, 0, 2),
            insn(EXIT, 0, 0),
        ]),
    );
    made.symbol("one", text, 0, 16, SymbolScope::Compilation);
    let two = made.symbol("two", text, 16, 16, SymbolScope::Linkage);
    // A call to .text by symbol, one inside of the section that the compiler resolved itself, then the local function at 0x20.
    let body = [
        insn(CALL, 1, -1),
        insn(CALL, 1, 1),
        insn(EXIT, 0, 0),
        insn(0xb7, 0, 3),
        insn(EXIT, 0, 0),
    ];
    let section = made.section("kprobe/x", &code(&body));
    made.symbol("main", section, 0, 24, SymbolScope::Linkage);
    made.symbol("three", section, 24, 16, SymbolScope::Compilation);
    made.relate(section, 0, two);
    let object = Object::parse(&made.bytes()).unwrap();
    let names: Vec<&str> = object
        .programs()
        .iter()
        .map(|program| program.name.as_str())
        .collect();
    assert_eq!(
        names,
        ["main"],
        "static functions of a program's section are no programs"
    );
    let linked = object.link(&object.programs()[0]).unwrap();
    let target = |at: usize| linked.insns[(at as i32 + 1 + linked.insns[at].imm) as usize].imm;
    assert_eq!((target(0), target(1)), (2, 3));
    assert_eq!(linked.insns.len(), 3 + 2 + 2, "what is not called is not there");
}

#[test]
fn damaged_and_foreign_objects_are_refused_by_reason() {
    let says = |bytes: &[u8], word: &str| {
        let error = match Object::parse(bytes) {
            Ok(object) => object.link(&object.programs()[0]).unwrap_err(),
            Err(error) => error,
        };
        assert!(error.to_string().contains(word), "{error} should say {word}");
    };
    says(b"hello", "not an ELF file");
    says(b"BC\xc0\xde", "bitcode");
    let mut other = classic();
    other[18] = 62;
    says(&other, "x86-64");
    let mut linked = classic();
    linked[16] = 2;
    says(&linked, "linked already");
    let whole = classic();
    assert!(Object::parse(&whole[..whole.len() / 2]).is_err());
    let program = |body: &[[u8; 8]], relate: u64| {
        let mut made = Made::new();
        let section = made.section("prog", &code(body));
        made.symbol("main", section, 0, 8 * body.len() as u64, SymbolScope::Linkage);
        let data = made.section("other", &[0; 8]);
        let symbol = made.symbol("thing", data, 0, 8, SymbolScope::Linkage);
        made.relate(section, relate, symbol);
        made.bytes()
    };
    says(
        &program(&[insn(LOAD, 0, 0), insn(0, 0, 0), insn(EXIT, 0, 0)], 0),
        "thing",
    );
    says(&program(&[insn(EXIT, 0, 0), insn(LOAD, 0, 0)], 1), "cut in half");
    // The relocation is at an instruction that takes none.
    says(
        &program(&[insn(CALL, 1, 100), insn(EXIT, 0, 0)], 1),
        "instruction 1",
    );
    let mut made = Made::new();
    let body = code(&[insn(CALL, 1, 100), insn(EXIT, 0, 0)]);
    let section = made.section("prog", &body);
    made.symbol("main", section, 0, 16, SymbolScope::Linkage);
    says(&made.bytes(), "calls a place where no function begins");
}

proptest! {
    /// Damage of any kind is an error or another object, never a panic, and never more memory than a few times the file's size.
    #[test]
    fn damage_never_panics(damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut in any::<prop::sample::Index>()) {
        let mut bytes = classic();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut.index(bytes.len()) / 8);
        if let Ok(object) = Object::parse(&bytes) {
            for program in object.programs() {
                if let Ok(linked) = object.link(program) {
                    prop_assert!(linked.insns.len() <= bytes.len());
                }
            }
        }
    }
}
