//! Programs in C and C++ with the header: their marks and descriptions are those of programs in Rust, also when they are stripped.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
#![allow(clippy::unwrap_used, reason = "tests")]

mod notes;

use notes::{marks, texts};
use std::process::Command;

const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/server.c");

/// The example, compiled so.
fn built(compiler: &str, options: &[&str]) -> std::path::PathBuf {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "server{}{}",
        compiler,
        options.concat()
    ));
    let mut command = Command::new(compiler);
    command
        .args(["-Wall", "-Wextra", "-Werror", "-I", HEADER, "-o"])
        .arg(&path)
        .args(options);
    assert!(command.arg(SERVER).status().unwrap().success(), "{command:?}");
    path
}

#[test]
fn marks_and_descriptions_are_in_the_stripped_program() {
    for (compiler, options) in [
        ("gcc", &["-O2", "-s"][..]),
        ("gcc", &["-O0", "-std=gnu99", "-no-pie"]),
        ("gcc", &["-O2", "-flto", "-Wl,--gc-sections"]),
        ("g++", &["-O2", "-x", "c++"]),
    ] {
        let path = built(compiler, options);
        let run = Command::new(&path).arg("1000").output().unwrap();
        assert!(run.status.success() && run.stdout.is_empty());
        let bytes = std::fs::read(&path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let marks = marks(&file);
        let of = |name: &str| {
            marks
                .iter()
                .filter(|mark| mark.group == "server" && mark.name == name)
                .collect::<Vec<_>>()
        };
        let answered = of("answered");
        assert!(!answered.is_empty(), "{compiler} {options:?}");
        assert_eq!(
            answered[0].arguments,
            "8@0(%rax) 8@8(%rax) 8@16(%rax) 8@24(%rax) 8@32(%rax) -8@40(%rax) 8@48(%rax) 8@56(%rax)"
        );
        // One key for all places of an event, another for each event.
        let semaphores = |name: &str| {
            of(name)
                .iter()
                .map(|mark| mark.semaphore)
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(semaphores("answered").len(), 1);
        assert_ne!(semaphores("answered"), semaphores("asked"));
        let described = texts(&file);
        assert!(
            described.contains(
                &[
                    "server",
                    "answered",
                    "{number} {status:#x} \"{body}\" {load} {balance} {steps} {ok}",
                    "number u64 u64",
                    "status u16 unsigned short",
                    "body bytes unsigned char",
                    "load f64 double",
                    "balance i32 int",
                    "steps u16[3] unsigned short",
                    "ok bool bool",
                ]
                .map(str::to_owned)
                .to_vec()
            ),
            "{described:?}"
        );
        assert!(described.iter().any(|text| text[1..]
            == [
                "accepted",
                "{name} {number}",
                "name char[16] char",
                "number u64 u64"
            ]));
    }
}
