//! Addresses of variables that are no integers: the value there has the variable's type.

use crate::sharing::Maps;

/// Contents of `@` when a program has run once.
#[track_caller]
fn after(program: &str) -> String {
    let mut made = Maps::program(&[&format!("{{ {program} }}")]);
    made.run(0, 0, &[0, 0, 7]);
    made.text("")
}

#[test]
fn a_pointer_to_a_variable_has_the_variables_type() {
    for (program, held) in [
        ("$x = \"abc\"; $p = &$x; @ = *$p", "@: abc\n"),
        (
            "$x = \"abc\"; $p = &$x; $x = \"xyz\"; @ = (*$p, strlen(*$p), *$p == \"xyz\")",
            "@: (xyz, 3, true)\n",
        ),
        ("$x = (1, \"ab\"); $p = &$x; @ = *$p", "@: (1, ab)\n"),
        (
            "$x = (1, \"ab\"); $p = &$x; $y = *$p; @ = ($y.1, (*$p).0)",
            "@: (ab, 1)\n",
        ),
        (
            "$x = (a=1, b=\"ab\"); $p = &$x; @ = ((*$p).a, $p->b)",
            "@: (1, ab)\n",
        ),
        (
            "$x = (uint8[4])(uint32)0x04030201; $p = &$x; @ = ((*$p)[1], *$p)",
            "@: (2, [1,2,3,4])\n",
        ),
        ("$x = true; $p = &$x; @ = *$p", "@: true\n"),
        ("$x = buf(\"ab\", 2); $p = &$x; @ = *$p", "@: ab\n"),
        ("$x = (1, \"ab\"); $p = &$x; @[*$p] = 1", "@[1, ab]: 1\n"),
        ("$x = \"ab\"; $y = (&$x, 1); @ = *($y.0)", "@: ab\n"),
        (
            "$x = \"ab\"; $y = \"cdef\"; $p = &$x; $p = &$y; @ = *$p",
            "@: cdef\n",
        ),
        (
            "$x = \"ab\"; $y = \"cdef\"; $p = &$y; $p = &$x; $p = &$y; @ = *$p",
            "@: cdef\n",
        ),
        (
            "let $s: string[8] = \"hi\"; let $p: string[8]* = &$s; @ = *$p",
            "@: hi\n",
        ),
        ("@m = (3, \"ab\"); $p = &@m; @ = (*$p).1", "@: ab\n"),
    ] {
        assert_eq!(after(program), held, "{program}");
    }
}

/// A variable whose address lies in another one keeps its place.
#[test]
fn a_variable_pointed_to_from_memory_keeps_its_place() {
    for (program, held) in [
        (
            "$x = 5; $p = &$x; $q = &$p; $z = 9; $r = &$z; @ = (**$q, *$r)",
            "@: (5, 9)\n",
        ),
        (
            "$x = \"ab\"; $p = &$x; $q = &$p; $z = \"zz\"; $r = &$z; @ = (**$q, *$r)",
            "@: (ab, zz)\n",
        ),
        (
            "$x = \"ab\"; $p = &$x; @p = $p; $z = \"zz\"; $r = &$z; @ = (*@p, *$r)",
            "@: (ab, zz)\n",
        ),
    ] {
        assert_eq!(after(program), held, "{program}");
    }
}

#[test]
fn addresses_of_other_values_are_refused() {
    use crate::kernel;
    use kestrel_compiler::check::{check, globals::Globals};
    let text = "e:x { $x = \"ab\"; $y = (1, 2); $p = &$y; $p = &$x }";
    let (probe, _) = kestrel_compiler::lang::parse_events(text);
    let mut globals = Globals {
        infers_types: true,
        ..Globals::default()
    };
    let (checked, found) = check(&probe, &kernel::kprobe(), true, &mut globals);
    assert!(checked.is_none());
    let printed = &found.first().expect("a reason").message;
    assert_eq!(
        printed,
        "Type mismatch for $p: trying to assign value of type 'string[3] *' when variable already has a type '(int8,int8) *'"
    );
}
