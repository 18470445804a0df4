//! Types of C as scripts define them: sizes and places are those that a C compiler gives, and what is wrong is said.

#![allow(clippy::unwrap_used, reason = "a test")]

use kestrel_bpf::btf::write::Builder;
use kestrel_bpf::btf::{Btf, BtfKind, TypeId};
use kestrel_compiler::definition::overlay;
use kestrel_compiler::lang::ast::{Definition, Item};
use kestrel_compiler::lang::diag::{Diagnostic, has_errors};
use kestrel_compiler::lang::parse_script;
use std::process::Command;
use std::sync::Arc;

fn definitions(text: &str) -> Vec<Definition> {
    let (script, found) = parse_script(text);
    assert!(!has_errors(&found), "{found:?}");
    let items = script.items.into_iter();
    items
        .filter_map(|item| match item {
            Item::Definition(one) => Some(one),
            _ => None,
        })
        .collect()
}

fn defined(text: &str, base: Option<&Arc<Btf>>) -> (Arc<Btf>, Vec<Diagnostic>) {
    let constant = |name: &str| (name == "SEVEN").then_some(7);
    let (types, found) = overlay(&definitions(text), base, &constant);
    (types.unwrap(), found)
}

/// Definitions that C compilers take as well; `struct` and `union` types without tags inside of others have no name.
const LAYOUTS: &str = "
struct plain { char a; int b; short c; long d; char e; };
struct bits { unsigned a : 3; unsigned b : 29; unsigned c : 1; unsigned char d : 7, e : 2; int : 0; int f : 4; };
struct mixed { char a; unsigned b : 4; unsigned long c : 40; unsigned d : 30; char e; short f : 9; };
struct gap { int a : 5; int : 7; int b : 5; long : 3; char c; };
struct __attribute__((packed)) tight { char a; int b; unsigned c : 3; unsigned d : 15; long e; };
struct wide { char a; } __attribute__((aligned(32)));
struct inner_wide { char a; int b __attribute__((aligned(16))); char c; };
struct numbers { char a; __int128 b; char c; unsigned __int128 d; char e; long double f; char g; };
struct follows { char a; int b __attribute__((packed)); long c; char d; short e __attribute__((packed, aligned(2))); };
union either { char a; int b; struct { char c; long d; }; short e[5]; };
enum small { ONE = 1, TWO, THREE = TWO + 5, };
enum large { BIG = 0x100000000, BIGGER };
enum negative { MINUS = -3, NEXT };
enum { COUNT = 1 << 2 };
#pragma pack(push, 1)
struct pack_1 { char a; int b; long c; };
#pragma pack(2)
struct pack_2 { char a; int b; char c; long d; };
#pragma pack(pop)
#pragma pack(4)
struct pack_4 { char a; int b; char c; long d; char e; };
#pragma pack(3)
#pragma pack(NAME)
struct pack_still_4 { char a; long b; };
#pragma pack()
struct pack_off { char a; long b; };
typedef struct { int x, y; } place_t;
typedef place_t places_t[2];
typedef unsigned long int word_t, *word_p;
enum sized { OF_WORD = sizeof(word_t), OF_PLAIN = sizeof(struct plain) > 20 ? sizeof(struct plain *) + 1 : 0, OF_ROW = sizeof(short[COUNT]) };
struct holder {
    place_t at; places_t all; word_t w; word_p p; enum small s; enum large l; _Bool ok;
    char name[COUNT * 3 + 1]; int grid[2][COUNT]; void (*call)(int, char *); int (*row)[4]; char *names[3];
    struct holder *next; struct { union { int u; char v; } deep; short tail; } named; struct plain inside;
    struct bits fields; char as_long[sizeof(struct inner_wide) * 2 - sizeof(places_t)]; double d; float f; long long ll; unsigned short int us; signed char sc; char last[0];
};
";

const STRUCTS: &[&str] = &[
    "plain",
    "numbers",
    "follows",
    "bits",
    "mixed",
    "gap",
    "tight",
    "wide",
    "inner_wide",
    "pack_1",
    "pack_2",
    "pack_4",
    "pack_still_4",
    "pack_off",
    "holder",
];

/// Layout of the types in C: `name size`, `name.member first-bit`.
fn of_the_types(types: &Btf) -> Vec<String> {
    let mut out = Vec::new();
    for (kind, word, name) in STRUCTS
        .iter()
        .map(|name| (BtfKind::Struct, "struct", *name))
        .chain([(BtfKind::Union, "union", "either")])
    {
        let id = types.find(kind, name).unwrap();
        out.push(format!("{word} {name} {}", types.size_of(id).unwrap()));
        for member in types.member_names(id) {
            let place = types.find_member(id, member).unwrap();
            let width = place.bits.map_or(0, u64::from);
            let bits = if width > 0 {
                width
            } else {
                types.size_of(place.ty).unwrap() * 8
            };
            if bits > 0 {
                out.push(format!("{name}.{member} {} {bits}", place.bit_offset));
            }
        }
    }
    out
}

/// A C program that sets every bit of one member after the other and prints where the bits are.
fn of_the_compiler(members: &[String]) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let mut program =
        format!("#include <stdio.h>\n#include <string.h>\ntypedef unsigned long long __u64;\n{LAYOUTS}\n");
    program += "static void bits(const char *name, unsigned char *at, int bytes) {\n\
        int first = -1, count = 0;\n\
        for (int i = 0; i < bytes * 8; i++) if (at[i / 8] >> (i % 8) & 1) { if (first < 0) first = i; count++; }\n\
        printf(\"%s %d %d\\n\", name, first, count); }\nint main(void) {\n";
    for line in members {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["struct" | "union", name, _] = words[..] {
            program += &format!(
                "printf(\"{0} {name} %d\\n\", (int)sizeof({0} {name}));\n",
                words[0]
            );
            continue;
        }
        let (own, member) = words[0].split_once('.').unwrap();
        let tag = if own == "either" { "union" } else { "struct" };
        let bit_field =
            matches!(own, "bits" | "mixed" | "gap") || own == "tight" && matches!(member, "c" | "d");
        let set = match bit_field {
            true => format!("v.{member} = -1;"),
            false => format!("memset((void *)&v.{member}, 255, sizeof v.{member});"),
        };
        program += &format!(
            "{{ {tag} {own} v; memset(&v, 0, sizeof v); {set} bits(\"{own}.{member}\", (unsigned char *)&v, sizeof v); }}\n"
        );
    }
    program += "}\n";
    let (source, binary) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&source, program).unwrap();
    let compiled = Command::new("gcc")
        .arg("-w")
        .arg("-o")
        .arg(&binary)
        .arg(&source)
        .output()
        .ok()?;
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let output = Command::new(&binary).output().unwrap();
    Some(
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect(),
    )
}

#[test]
fn layouts_are_those_of_a_c_compiler() {
    let (types, found) = defined(LAYOUTS, None);
    assert_eq!(found, []);
    let own = of_the_types(&types);
    assert!(own.len() > 60, "{own:?}");
    let Some(theirs) = of_the_compiler(&own) else {
        eprintln!("there is no gcc here: nothing to compare with");
        return;
    };
    assert_eq!(own, theirs);
}

#[test]
fn enumerations_have_values_and_the_least_size_that_holds_them() {
    let (types, _) = defined(LAYOUTS, None);
    for (name, value) in [
        ("THREE", 7),
        ("BIGGER", 0x1_0000_0001),
        ("MINUS", -3),
        ("NEXT", -2),
        ("COUNT", 4),
        ("OF_WORD", 8),
        ("OF_PLAIN", 9),
        ("OF_ROW", 8),
    ] {
        assert_eq!(
            types.enumerator(name).map(|found| found.value),
            Some(value),
            "{name}"
        );
    }
    for (name, size) in [("small", 4), ("large", 8), ("negative", 4)] {
        let id = types.find(BtfKind::Enum, name).unwrap();
        assert_eq!(types.size_of(id), Some(size), "{name}");
    }
}

fn kernel() -> Arc<Btf> {
    let mut builder = Builder::new();
    let int = builder.int("int", 4);
    let long = builder.int("long", 8);
    let task = builder.structure("task", &[("pid", int), ("start", long)]);
    builder.typedef("task_t", task);
    builder.enumeration("state", 4, &[("RUNNING", 5)]);
    builder.structure("file", &[("pos", long)]);
    Arc::new(Btf::parse(builder.finish()).unwrap())
}

#[test]
fn the_scripts_types_lie_over_the_kernels() {
    let base = kernel();
    let text = "struct own { struct task inside; task_t again; struct file *file; struct nowhere *ahead; enum state s; int a[RUNNING + SEVEN]; };
                struct file { char mine; };";
    let (types, found) = defined(text, Some(&base));
    assert_eq!(found, []);
    let own = types.find(BtfKind::Struct, "own").unwrap();
    assert_eq!(types.size_of(own), Some(16 + 16 + 8 + 8 + 4 + 12 * 4 + 4));
    assert_eq!(
        types.size_of(types.find(BtfKind::Struct, "file").unwrap()),
        Some(1)
    );
    assert_eq!(
        types.size_of(types.find(BtfKind::Struct, "task").unwrap()),
        Some(16)
    );
    let place = |ty: TypeId, name: &str| types.find_member(ty, name).unwrap();
    let inside = place(own, "inside");
    assert_eq!(place(inside.ty, "start").bit_offset, 64);
    assert!(
        types.definition(own).contains("struct nowhere *"),
        "{}",
        types.definition(own)
    );
}

#[test]
fn wrong_definitions_are_reported_once_at_their_place() {
    for (text, at, message) in [
        (
            "struct a { struct a b; };",
            "struct a b",
            "struct a contains itself",
        ),
        (
            "struct a { struct b b; }; struct b { struct a a; };",
            "",
            "contains itself",
        ),
        (
            "struct a { nothing_t x; };",
            "nothing_t",
            "there is no type \"nothing_t\"",
        ),
        (
            "struct a { struct b x; };",
            "struct b",
            "there is no type \"struct b\"",
        ),
        (
            "struct a { int x; }; struct a { int y; };",
            "a { int y",
            "struct a is defined twice",
        ),
        ("struct a { int x[pid]; };", "pid", "no number that is known"),
        ("struct a { int x[-1]; };", "-1", "no length"),
        (
            "enum a { X = sizeof(nothing_t) };",
            "nothing_t",
            "there is no type \"nothing_t\"",
        ),
        (
            "struct a { char x[sizeof(struct a)]; };",
            "struct a)",
            "struct a contains itself",
        ),
        ("struct a { int x : 33; };", "33", "wider than its type"),
        ("struct a { int f(int); };", "int f", "a function is no member"),
        ("struct a { char x[1 << 20][1 << 20]; };", "char", "too large"),
        (
            "struct a { char x[1 << 20][1 << 20][1 << 20][1 << 20]; };",
            "char",
            "too large",
        ),
        (
            "struct a { char *x[1 << 20][1 << 20][1 << 20][1 << 20]; };",
            "char",
            "too large",
        ),
        (
            "struct a { char x[1 << 21]; int y : 3; int z; };",
            "y",
            "no member beyond 2 MiB",
        ),
        ("enum a { X }; enum b { X };", "X }", "is a value twice"),
        (
            "struct a { int x; } __attribute__((aligned(3)));",
            "3)",
            "power of two",
        ),
    ] {
        let (_, found) = defined(text, None);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].message.contains(message), "{text}: {found:?}");
        if !at.is_empty() {
            let place = text.rfind(at).unwrap();
            assert_eq!(found[0].span.start as usize, place, "{text}: {found:?}");
        }
    }
}
