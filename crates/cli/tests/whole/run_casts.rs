//! Integers that are held as another type: which are warned of.

use crate::command::{WorkFolder, needs_tracing};

/// The warnings of a program that is checked and not run.
fn warnings(program: &str) -> Vec<String> {
    let run = WorkFolder::new()
        .run(&["run", "--dry-run", "-e", &format!("begin {{ {program}; }}")])
        .succeeds();
    let found = run
        .err
        .lines()
        .filter_map(|line| Some(line.split_once(": warning: ")?.1.to_owned()));
    found.collect()
}

#[test]
fn integers_held_as_a_type_that_lacks_some_of_their_values_are_warned_of() {
    needs_tracing!();
    for (program, from, to) in [
        (
            "$c = (uint64)1; $d = (int64)-1; $c = $d; print($c)",
            "uint64",
            "int64",
        ),
        ("$b = -1; let $a: uint16 = $b; print($a)", "int8", "uint16"),
        ("let $a: uint8 = 1; $a += 2; print($a)", "uint64", "uint8"),
        (
            "$n = (uint64)300; let $a: uint8 = $n; print($a)",
            "uint64",
            "uint8",
        ),
        ("@a = (uint64)1; @a = -1", "uint64", "int64"),
        ("@a[-1] = 1; @a[(uint64)1] = 2", "uint64", "int64"),
        ("$a = nsecs; $a = $a - 1; print($a)", "uint64", "int64"),
    ] {
        let wanted = format!("Expression of type: {from} being cast to type: {to}");
        assert_eq!(warnings(program), [wanted], "{program}");
    }
}

#[test]
fn integers_that_keep_their_values_are_not_warned_of() {
    needs_tracing!();
    for program in [
        "$a = 1; $a = (uint64)2; print($a)",
        "$a = pid; $a = -1; print($a)",
        "@start[tid] = nsecs; @us = hist((nsecs - @start[tid]) / 1000); delete(@start, tid)",
        "$a = (int64)(uint64)1; $a = -1; print($a)",
        "@a[pid] = -1; @a[1] = 5",
        "$x = 5; let $a: uint64 = $x; print($a)",
    ] {
        assert_eq!(warnings(program), [""; 0], "{program}");
    }
}

/// A string where an address is wanted is the address of its first byte, wherever it lies.
#[test]
fn strings_are_addresses_of_their_bytes() {
    needs_tracing!();
    let program = r#"begin { $s = "abcd"; $p = (uint8 *)$s; @kept = "hello"; @by[1] = "key";
        printf("%d %d %x %c %c %d\n", $p[0], *($p + 1), *(uint32 *)$s, ((uint8 *)@kept)[1], ((uint8 *)@by[1])[2], ((int8 *)"xyz")[1]);
        printf("%d %d\n", *(uint8 *)comm == *(uint8 *)curtask.comm, ((uint8 *)curtask.comm)[1]); exit(); }"#;
    let out = WorkFolder::new()
        .run(&["run", "-q", "-e", program])
        .succeeds()
        .out;
    assert!(out.starts_with("97 98 64636261 e y 121\n1 101\n"), "{out}");
    WorkFolder::new()
        .run(&["run", "-e", "begin { print((uint64)comm); }"])
        .fails(2, &["Cannot cast from \"string["]);
}
