//! Debug information as compilers write it, and as no compiler does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use kestrel_bpf::btf::{Btf, BtfKind, Type};
use kestrel_catalog::debuginfo::{DebugInfo, Described, Line, ParameterPlace, Signature};
use kestrel_catalog::executable::{Executable, Executables};
use object::write::{Object as Elf, SectionId};
use object::{Architecture, BinaryFormat, Endianness, Object, ObjectSection, SectionKind};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const SOURCE: &str = r#"
enum color { RED = 1, GREEN = 7, NONE = -1 };
struct inner { unsigned char low : 3, high : 5; short tail; };
struct outer {
    const char *name;
    struct inner all[2];
    struct outer *next;
    enum color color;
    union { int number; float real; };
    __int128 wide;
};
typedef struct { long a, b; } pair;
__attribute__((noinline)) int first(struct outer *out, char c, pair two, double d, enum color color)
{
    out->color = color;
    return c + (int)two.a + (int)d;
}
static inline __attribute__((always_inline)) int often(int n)
{
    volatile int twice = n * 2;
    return twice;
}
__attribute__((noinline)) int here(int n) { return often(n) + 1; }
__attribute__((noinline)) int there(int n) { return often(n) + 2; }
int main(int argc, char **argv)
{
    struct outer out = { .name = argv[0] };
    pair two = { 1, 2 };
    return first(&out, 'x', two, 0.5, GREEN) + here(argc) + there(argc);
}
"#;

/// A program of these options, compiled where it lies; `None` where there is no compiler.
fn compiled(folder: &Path, options: &[&str]) -> Option<std::path::PathBuf> {
    let source = folder.join("traced.c");
    std::fs::write(&source, SOURCE).unwrap();
    let built = Command::new("gcc")
        .current_dir(folder)
        .args(["-o", "traced", "traced.c"])
        .args(options)
        .status();
    match built {
        Ok(status) => {
            assert!(status.success(), "gcc {options:?}");
            Some(folder.join("traced"))
        }
        Err(_) => {
            eprintln!("skipped: there is no gcc");
            None
        }
    }
}

fn described(file: &Executable, name: &str) -> (Described, Signature) {
    let found = file.named(None, &|known| known == name);
    let (function, _) = found.first().expect("the function");
    let address = file.address_of(function.offset).unwrap();
    let known = file.debug_info().expect("debug information");
    let known = known.describe(None, &[address]).unwrap();
    let signature = known.functions[&address].clone();
    (known, signature)
}

fn member(types: &Btf, of: &str, name: &str) -> (u32, Option<u32>, u64) {
    let id = types.find(BtfKind::Struct, of).expect(of);
    let composite = types.composite(id).unwrap();
    let found = composite
        .members()
        .find(|member| member.name == name)
        .expect(name);
    let bits = found.bits;
    (found.bit_offset, bits, types.size_of(found.ty).unwrap())
}

fn check(file: &Executable) {
    let (known, signature) = described(file, "first");
    let strings: Vec<String> = signature
        .parameters
        .iter()
        .map(|parameter| format!("{} {}", parameter.text, parameter.name))
        .collect();
    assert_eq!(
        strings,
        [
            "struct outer* out",
            "char c",
            "pair two",
            "double d",
            "enum color color"
        ]
    );
    assert_eq!(signature.returned, "int");
    let types = &known.types;
    assert_eq!(
        types.size_of(types.find(BtfKind::Struct, "outer").unwrap()),
        Some(48)
    );
    assert_eq!(member(types, "outer", "name"), (0, None, 8));
    assert_eq!(member(types, "outer", "all"), (64, None, 8));
    assert_eq!(member(types, "outer", "next"), (128, None, 8));
    assert_eq!(member(types, "outer", "wide"), (256, None, 16));
    assert_eq!(member(types, "inner", "low"), (0, Some(3), 1));
    assert_eq!(member(types, "inner", "high"), (3, Some(5), 1));
    assert_eq!(member(types, "inner", "tail"), (16, None, 2));
    // An anonymous member of a struct is found through it.
    let outer = types.find(BtfKind::Struct, "outer").unwrap();
    assert_eq!(types.find_member(outer, "real").unwrap().offset(), 28);
    assert_eq!(types.enumerator("NONE").unwrap().value, -1);
    let Type::Ptr(to) = types.resolved(signature.parameters[0].ty) else {
        panic!("a pointer");
    };
    assert!(matches!(types.ty(to), Type::TypeTag { name: "user", .. }));
}

fn line_of(text: &str) -> u64 {
    let found = SOURCE.lines().position(|line| line.contains(text)).unwrap();
    found as u64 + 1
}

#[test]
fn parameters_and_types_are_those_of_the_source() {
    for options in [
        &["-g", "-O0"][..],
        &["-g", "-O2"],
        &["-gdwarf-4", "-O1", "-fdebug-types-section"],
        &["-gdwarf-3", "-O0"],
        &["-gdwarf-5", "-O2", "-gz=zlib"],
        &["-gdwarf-5", "-gsplit-dwarf", "-O0"],
        &["-gdwarf-4", "-gsplit-dwarf", "-O2"],
    ] {
        let place = tempfile::tempdir().unwrap();
        let Some(path) = compiled(place.path(), options) else {
            return;
        };
        eprintln!("{options:?}");
        check(&Executables::default().get(&path).unwrap());
    }
}

#[test]
fn the_compiler_says_where_a_parameter_is() {
    let place = tempfile::tempdir().unwrap();
    let Some(path) = compiled(place.path(), &["-g", "-O2"]) else {
        return;
    };
    let file = Executables::default().get(&path).unwrap();
    let (_, signature) = described(&file, "here");
    // The first register of arguments (rdi) has the number 5 in DWARF.
    assert_eq!(signature.parameters[0].place, ParameterPlace::Register(5));
}

#[test]
fn a_line_is_found_in_all_its_copies() {
    let place = tempfile::tempdir().unwrap();
    for options in [&["-g", "-O2"][..], &["-g", "-O2", "-gsplit-dwarf"]] {
        let Some(path) = compiled(place.path(), options) else {
            return;
        };
        let file = Executables::default().get(&path).unwrap();
        let info = file.debug_info().unwrap();
        let found = |file, line| {
            info.lines(Line {
                file,
                line,
                column: None,
            })
        };
        let inside = |address: &u64| {
            let offset = file.offset_of(*address).unwrap();
            file.function_at(offset).unwrap().name.clone()
        };
        let copies = found("traced.c", line_of("twice = n * 2"));
        let mut functions: Vec<String> = copies.addresses.iter().map(inside).collect();
        functions.sort();
        functions.dedup();
        assert_eq!(functions, ["here", "there"], "{options:?}");
        let alone = found("traced.c", line_of("out->color = color"));
        assert_eq!(alone.addresses.iter().map(inside).collect::<Vec<_>>(), ["first"]);
        let nothing = found("traced.c", 1);
        assert!(nothing.addresses.is_empty() && nothing.has_file && !nothing.near.is_empty());
        assert!(!found("other.c", 1).has_file);
    }
}

#[test]
fn debug_files_are_known_by_their_contents() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    if compiled(folder, &["-g", "-Wl,--build-id"]).is_none() {
        return;
    }
    let run = |words: &[&str]| {
        let done = Command::new(words[0])
            .args(&words[1..])
            .current_dir(folder)
            .status();
        assert!(done.unwrap().success(), "{words:?}");
    };
    run(&["objcopy", "--only-keep-debug", "traced", "kept.debug"]);
    run(&["objcopy", "--strip-all", "traced", "bare"]);
    let bare = folder.join("bare");
    let asked = |folders: &[&Path]| {
        let bytes = std::fs::read(&bare).unwrap();
        let folders: Vec<_> = folders.iter().map(|folder| folder.to_path_buf()).collect();
        DebugInfo::find(&bare, &bytes, &folders).is_some()
    };
    assert!(!asked(&[]), "there is none yet");
    let other = folder.join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::copy(folder.join("kept.debug"), other.join("bare.debug")).unwrap();
    assert!(asked(&[&other]), "by its name, in a folder that is asked for");
    // Of another build.
    run(&["gcc", "-g", "-O2", "-Wl,--build-id", "-o", "changed", "traced.c"]);
    run(&["objcopy", "--only-keep-debug", "changed", "other/bare.debug"]);
    assert!(!asked(&[&other]), "it is that of another build");
    run(&["objcopy", "--add-gnu-debuglink=kept.debug", "bare"]);
    assert!(asked(&[]), "by the link, beside the program");
    let file = Executables::default().get(&bare).unwrap();
    check(&file);
}

/// A sound file with these sections.
fn made(sections: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut elf = Elf::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    for (name, data) in sections {
        let id: SectionId = elf.add_section(Vec::new(), name.as_bytes().to_vec(), SectionKind::Debug);
        elf.append_section_data(id, data, 1);
    }
    elf.write().unwrap()
}

#[test]
fn damaged_debug_information_is_not_known() {
    let place = tempfile::tempdir().unwrap();
    let Some(path) = compiled(place.path(), &["-g", "-O2"]) else {
        return;
    };
    let bytes = std::fs::read(&path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let sections: Vec<(&str, Vec<u8>)> = file
        .sections()
        .filter_map(|section| {
            let name = section.name().ok().filter(|name| name.starts_with(".debug_"))?;
            Some((name, section.data().ok()?.to_vec()))
        })
        .collect();
    let own = Executables::default().get(&path).unwrap();
    let found = own.named(None, &|name| matches!(name, "first" | "here" | "main"));
    let addresses: Vec<u64> = found
        .iter()
        .filter_map(|(f, _)| own.address_of(f.offset))
        .collect();
    let base: Option<&Arc<Btf>> = None;
    let line = Line {
        file: "traced.c",
        line: line_of("twice = n * 2"),
        column: None,
    };
    let mut known = 0;
    // Bytes all over the sections, each bent by itself: another answer or none, and never a panic.
    for (place, (name, data)) in sections.iter().enumerate() {
        let step = (data.len() / 60).max(1);
        for at in (0..data.len()).step_by(step) {
            for value in [0x00, 0x7f, 0xff] {
                let mut bent = sections.clone();
                bent[place].1[at] ^= value;
                if at % 3 == 0 {
                    bent[place].1.truncate(at);
                }
                let Some(info) = DebugInfo::of(&made(&bent)) else {
                    continue;
                };
                let described = info.describe(base, &addresses);
                known += described.map_or(0, |described| described.functions.len());
                _ = info.lines(line);
            }
        }
        eprintln!("{name}: {} bytes", data.len());
    }
    assert!(known > 0, "most of it is still there");
}
