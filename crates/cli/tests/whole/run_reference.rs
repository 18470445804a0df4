//! Sentences of the language's reference about headers, settings, keys and strings, each tried.

use crate::command::{Answer, WorkFolder, needs_tracing};
use std::fs;

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
    let run = |program: &str| WorkFolder::new().run(&["run", "-q", "-e", program]);
    run("config = { Max_Map_Keys = 2 } begin { @[1] = 1; exit(); }").succeeds();
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
