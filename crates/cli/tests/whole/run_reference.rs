//! Sentences of the language's reference about headers, settings, keys and strings, each tried.

use crate::command::{Answer, WorkFolder, needs_tracing};
use std::fs;

fn run(program: &str) -> Answer {
    WorkFolder::new().run(&["run", "-q", "-e", program])
}

/// The first line that a program prints.
fn printed(program: &str) -> String {
    let out = run(program).succeeds().out;
    out.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn headers_are_sought_where_compilers_of_c_seek_them() {
    needs_tracing!();
    let folder = WorkFolder::new();
    fs::create_dir(folder.path().join("include")).unwrap();
    fs::write(folder.path().join("include/own.h"), "#define OWN 77\n").unwrap();
    let script =
        "#include <own.h>\n#include <stdbool.h>\n#include <stddef.h>\nbegin { print(OWN + NULL); exit(); }";
    let include = folder.path().join("include").display().to_string();
    for (name, value) in [
        ("CPATH", include.clone()),
        ("C_INCLUDE_PATH", format!("/nowhere:{include}")),
    ] {
        let mut command = folder.command(&["run", "-q", "-e", script]);
        let run = Answer::from(command.env(name, value).output().unwrap()).succeeds();
        assert!(run.out.starts_with("77\n"), "{name}: {} {}", run.out, run.err);
    }
    folder.run(&["run", "-q", "-e", script]).fails(2, &["own.h"]);
}

#[test]
fn settings_stand_first_and_are_written_in_any_case() {
    needs_tracing!();
    run("config = { Max_Map_Keys = 2 } begin { @[1] = 1; exit(); }").succeeds();
    let quoted =
        run("config = { max_strlen = \"8\"; print_maps_on_exit = \"false\" } begin { @ = 1; exit(); }");
    assert!(!quoted.succeeds().out.contains("@: 1"));
    run("config = { max_strlen = \"eight\" } begin { exit(); }")
        .fails(2, &["max_strlen: expecting a number, got eight"]);
    for before in ["macro m() { 1 }", "let @a = hash(5);"] {
        run(&format!(
            "{before} config = {{ max_map_keys = 2 }} begin {{ exit(); }}"
        ))
        .fails(
            2,
            &["before all probes and functions, macros", "top of the script"],
        );
    }
}

#[test]
fn stacks_of_the_kernel_and_of_programs_are_no_keys_of_one_map() {
    needs_tracing!();
    let run = WorkFolder::new().run(&[
        "run",
        "-q",
        "-e",
        "begin { @a[kstack] = 1; @a[ustack] = 2; exit(); }",
    ]);
    run.fails(
        2,
        &[
            "Argument mismatch for @a",
            "ustack_bpftrace_127",
            "kstack_bpftrace_127",
        ],
    );
}

#[test]
fn lengths_beyond_the_longest_string_are_warned_of() {
    needs_tracing!();
    let run = WorkFolder::new().run(&["run", "-q", "-e", "begin { print(str(kptr(0), 2000)); exit(); }"]);
    let run = run.succeeds();
    assert!(
        run.err
            .contains("length param (2000) is too long and will be shortened to 1024 bytes"),
        "{}",
        run.err
    );
}

#[test]
fn bytes_of_arrays_have_a_capacity() {
    needs_tracing!();
    let run = WorkFolder::new().run(&[
        "run",
        "-q",
        "-e",
        "begin { print(strcap((int8[4])(uint32)1)); exit(); }",
    ]);
    assert_eq!(run.succeeds().out.lines().next(), Some("4"));
}

/// The folder in /proc of a process that ends at once is there until its records are performed.
#[test]
fn files_of_the_command_are_read_though_it_has_ended() {
    needs_tracing!();
    let program = "tracepoint:syscalls:sys_enter_exit_group /pid == cpid/ { cat(\"/proc/%d/comm\", pid); system(\"head -c 8 /proc/%d/status\", pid); }";
    for _ in 0..5 {
        let run = WorkFolder::new().run(&["run", "-q", "--unsafe", "-c", "true", "-e", program]);
        let run = run.succeeds();
        assert!(run.out.starts_with("true\nName:\ttr"), "{}\n{}", run.out, run.err);
    }
}

/// What comes behind `exit()` is not done, though its record may come out of the ring before.
#[test]
fn nothing_is_run_behind_an_exit() {
    needs_tracing!();
    let folder = WorkFolder::new();
    let file = folder.path().join("made").display().to_string();
    let program = format!(
        "tracepoint:syscalls:sys_enter_exit_group /pid == cpid/ {{ if (pid > 0) {{ exit(); }} system(\"touch {file}\"); }}"
    );
    folder
        .run(&["run", "-q", "--unsafe", "-c", "true", "-e", &program])
        .succeeds();
    assert!(!folder.path().join("made").exists());
}

#[test]
fn loops_in_branches_that_are_never_taken_leave_no_trace() {
    needs_tracing!();
    for program in [
        "if (0) { for ($kv : @k) { print($kv); } } printf(\"%s\\n\", @t)",
        "if (getopt(\"v\")) { for ($kv : @k) { for ($i : @k) { print($i); } } } for ($kv : @k) { print(@t); }",
        "if (probe == \"end\") { for ($i : 0..rand) { print($i); } } printf(\"%s\\n\", @t)",
    ] {
        let program =
            format!("begin {{ @k[1] = 2; @t = \"longer one\"; {program}; clear(@k); clear(@t); exit(); }}");
        let run = WorkFolder::new().run(&["run", "-q", "-e", &program]).succeeds();
        assert!(
            run.out.starts_with("longer one\n") || run.out.starts_with("@t: longer one\n"),
            "{program}: {} {}",
            run.out,
            run.err
        );
    }
}

#[test]
fn a_string_is_not_equal_to_its_beginning() {
    needs_tracing!();
    for (program, wanted) in [
        (
            "@s = \"abcdefgh\"; print((@s == str(@s, 5), str(@s, 5) == @s, @s == @s)); clear(@s)",
            "(false, false, true)",
        ),
        (
            "$s = \"abcd\"; $t = \"abcdefghijklmnop\"; print(($s == $t, $t == $s, $t == $t))",
            "(false, false, true)",
        ),
        (
            "$c = comm; print((comm == $c, str($c, 3) == comm, str($c, 3) == str(comm, 3)))",
            "(true, false, true)",
        ),
    ] {
        let run = WorkFolder::new()
            .run(&["run", "-q", "-e", &format!("begin {{ {program}; exit(); }}")])
            .succeeds();
        assert_eq!(run.out.lines().next(), Some(wanted), "{program}: {}", run.err);
    }
}

#[test]
fn names_of_events_in_maps_are_strings_in_json() {
    needs_tracing!();
    let program = "begin { @b = probe; @a[1] = probe; @t = (probe, 5); exit(); }";
    let run = WorkFolder::new()
        .run(&["run", "-q", "-f", "json", "-e", program])
        .succeeds();
    for wanted in [
        "{\"@b\": \"begin\"}",
        "{\"@a\": {\"1\": \"begin\"}}",
        "{\"@t\": [\"begin\",5]}",
    ] {
        assert!(run.out.contains(wanted), "{wanted}: {}", run.out);
    }
}

#[test]
fn blocks_that_end_before_their_value_are_warned_of_and_run() {
    needs_tracing!();
    for program in [
        "$x = { print(1); exit(); 5 }; print($x)",
        "print({ print(1); exit(); \"abc\" })",
        "print(({ print(1); return; (1, 2) }).0)",
        "@x[{ print(1); exit(); 2 }] = 5",
    ] {
        let run = run(&format!("begin {{ {program}; }} interval:ms:50 {{ exit(); }}")).succeeds();
        assert_eq!(
            run.out.lines().collect::<Vec<_>>().join("\n").trim(),
            "1",
            "{program}: {}",
            run.err
        );
        assert!(
            run.err.contains("warning: Unreachable expression"),
            "{program}: {}",
            run.err
        );
    }
}

#[test]
fn tuples_that_are_computed_have_members() {
    needs_tracing!();
    assert_eq!(
        printed("begin { print(({ $a = 1; ($a, (\"abc\", 7)) }).1.0); exit(); }"),
        "abc"
    );
    assert_eq!(
        printed("begin { print((pid > 0 ? (1, \"b\") : (3, \"c\")).1); exit(); }"),
        "b"
    );
    assert_eq!(
        printed("begin { $x = { $a = 5; (a = $a, b = \"q\") }.b; print($x); exit(); }"),
        "q"
    );
}

#[test]
fn strings_that_are_chosen_are_strings_everywhere() {
    needs_tracing!();
    for (value, wanted) in [
        ("strlen($c ? \"abc\" : \"de\")", "3"),
        ("strstr(\"xabc\", $c ? \"abc\" : \"d\")", "1"),
        ("strcontains($c ? \"abc\" : \"de\", \"b\")", "true"),
        ("str_concat($c ? \"abc\" : \"de\", \"fg\")", "abcfg"),
        ("str($c ? \"abc\" : \"de\", 2)", "a"),
        ("buf($c ? \"abc\" : \"de\", 2)", "ab"),
        ("(1, $c ? \"a|b\" : \"lit\", true)", "(1, a|b, true)"),
        (
            "(comm == ($c ? \"xyz\" : \"q\"), ($c ? \"abc\" : \"de\") == ($d ? \"abc\" : \"de\"))",
            "(false, false)",
        ),
    ] {
        let program = format!("begin {{ $c = pid > 0; $d = pid == 0; print({value}); print($d); exit(); }}");
        assert_eq!(printed(&program), wanted, "{value}");
    }
    let json = WorkFolder::new().run(&[
        "run",
        "-q",
        "-f",
        "json",
        "-e",
        "begin { $c = pid > 0; print((1, $c ? \"a\" : \"b\")); exit(); }",
    ]);
    assert!(json.out.contains("[1,\"a\"]"), "{}", json.out);
}

/// A variable that is declared without a type has that of what is stored in it, in a branch, too, before a map takes it.
#[test]
fn declared_variables_take_the_type_of_what_a_branch_stores() {
    needs_tracing!();
    let run = run(
        "begin { for ($i : 0..3) { let $x; if ($i == 1) { $x = \"abc\"; } @[$i] = $x; } let $y; if (pid > 0) { $y = (1, true); } @t = $y; exit(); }",
    );
    let mut lines: Vec<String> = run.succeeds().out.lines().map(str::to_owned).collect();
    lines.retain(|line| !line.is_empty());
    lines.sort();
    assert_eq!(lines, ["@[0]: ", "@[1]: abc", "@[2]: ", "@t: (1, true)"]);
}

#[test]
fn messages_have_colour_where_the_environment_says_so() {
    let folder = WorkFolder::new();
    let messages = |colour: &str| {
        let mut command = folder.command(&["run", "-e", "begin { nothing(); }"]);
        Answer::from(command.env("BPFTRACE_COLOR", colour).output().unwrap()).err
    };
    assert!(messages("always").contains("\x1b["), "{}", messages("always"));
    assert!(!messages("never").contains("\x1b[") && !messages("auto").contains("\x1b["));
}

#[test]
fn places_in_imported_files_have_their_names_and_lines() {
    needs_tracing!();
    let folder = WorkFolder::new();
    fs::write(
        folder.path().join("own.bt"),
        "import \"more.bt\";\nimport \"wrong.bt\";\nbegin { errorf(\"own\"); exit(); }\n",
    )
    .unwrap();
    fs::write(
        folder.path().join("more.bt"),
        "\nbegin { warnf(\"imported\"); }\n",
    )
    .unwrap();
    fs::write(folder.path().join("wrong.bt"), "\n\nbegin { $x = ; }\n").unwrap();
    folder
        .run(&["run", "own.bt"])
        .fails(2, &["wrong.bt:3:14: error: expected an expression"]);
    fs::write(folder.path().join("wrong.bt"), "").unwrap();
    let run = folder.run(&["run", "-q", "own.bt"]);
    for words in ["more.bt:2:9-26: WARNING: imported", "own.bt:3:9-22: ERROR: own"] {
        assert!(run.err.contains(words), "{words}: {}", run.err);
    }
    let json = folder.run(&["run", "-q", "-f", "json", "own.bt"]).out;
    assert!(json.contains("more.bt\", \"line\": 2, \"col\": 9"), "{json}");
}

/// `comm(PID)` is the name of another thread, in every kind of probe.
#[test]
fn names_of_other_threads_are_known_by_number() {
    needs_tracing!();
    let place = WorkFolder::new();
    let program = r#"begin { $p = (uint32)2; print(comm($p)); print(comm(2) == "kthreadd"); print(comm(4194303)); @n[comm(2)] = sizeof(comm(2)); }
        interval:ms:1 { print(tid == 0 || comm(tid) == comm); exit(); }"#;
    let run = place.run(&["run", "-q", "-e", program]).succeeds();
    assert_eq!(run.out.trim(), "kthreadd\ntrue\nN/A\ntrue\n\n\n@n[kthreadd]: 16");
    assert!(
        run.err.contains("WARNING: No such process (pid=4194303)"),
        "{}",
        run.err
    );
    // Where addresses of the text are the process's, those of the walk are the kernel's.
    let program = "uprobe:libc:open /pid == cpid/ { print((comm(pid), comm(2))); exit(); }";
    let run = place.run(&["run", "-q", "-e", program, "-c", "cat /dev/null"]);
    assert!(run.out.starts_with("(cat, kthreadd)\n"), "{}", run.out);
    place
        .run(&["run", "-e", "begin { print(comm(\"x\")); }"])
        .fails(2, &["Cannot cast from \"string["]);
}

/// Keys may take as much as a program can put together: three long strings.
#[test]
fn keys_of_long_strings() {
    needs_tracing!();
    let program = "config = { max_strlen = 9999 }
        begin { $c = (char *)curtask.comm; $a = (str($c), 1, str($c)); @[$a] = 1; @b[str($c), 2, str($c)] = count(); }";
    let run = run(program).succeeds();
    let comm = "kestrel";
    assert!(
        run.out.contains(&format!("@[{comm}, 1, {comm}]: 1\n")),
        "{}",
        run.out
    );
    assert!(
        run.out.contains(&format!("@b[{comm}, 2, {comm}]: 1\n")),
        "{}",
        run.out
    );
    let program = "config = { max_strlen = 64000 } begin { @[str((char *)curtask.comm)] = 1; }";
    WorkFolder::new()
        .run(&["run", "-q", "-e", program])
        .fails(2, &["these keys take 64008 bytes; there is room for 32768"]);
}

/// A variable without a type to which nothing is assigned cannot be read; one that is only declared can be declared.
#[test]
fn variables_that_never_have_a_type() {
    needs_tracing!();
    run("begin { let $a; print($a); }").fails(2, &["Could not resolve the type of this variable"]);
    run("begin { let $a; }").succeeds();
    let out = run("begin { let $a; print($a); $a = 5; print($a); }")
        .succeeds()
        .out;
    assert_eq!(out.trim(), "0\n5", "{out}");
    run("config = { max_strlen = 10, max_map_keys = 5 } begin { }").fails(2, &["expected \";\""]);
    run("begin { print(str($0)); }").fails(2, &["counted from $1"]);
}
