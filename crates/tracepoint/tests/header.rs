//! Programs in C and C++ with the header: their USDT probes and descriptions are those of programs in Rust, also when they are stripped.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
#![allow(clippy::unwrap_used, reason = "tests")]

mod notes;

use notes::{probes, strings};
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
fn probes_and_descriptions_are_in_the_stripped_program() {
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
        let probes = probes(&file);
        let of = |name: &str| {
            probes
                .iter()
                .filter(|probe| probe.group == "server" && probe.name == name)
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
                .map(|probe| probe.semaphore)
                .collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(semaphores("answered").len(), 1);
        assert_ne!(semaphores("answered"), semaphores("asked"));
        let described = strings(&file);
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

/// Events that several files of a program share, one of them without fields.
const SHARED: &str = r#"
#include "kestrel_tracepoint.h"
KESTREL_TRACEPOINT(shared, begun, "begun")
KESTREL_TRACEPOINT(shared, ended, "100% of \"{code}\"", (u8, code))
"#;
const FIRST: &str = r#"
#include "shared.h"
int second(void);
int main(void) { trace_begun(); trace_ended(1); return second(); }
"#;
const SECOND: &str = r#"
#include "shared.h"
int second(void);
int second(void) { trace_ended(2); return trace_begun_enabled() || trace_ended_enabled(); }
"#;
/// More fields than USDT probes have arguments.
const TOO_MANY: &str = r#"
#include "kestrel_tracepoint.h"
KESTREL_TRACEPOINT(many, many, "", (u8, a), (u8, b), (u8, c), (u8, d), (u8, e), (u8, f), (u8, g), (u8, h), (u8, i), (u8, j), (u8, k), (u8, l), (u8, m))
"#;

#[test]
fn files_of_a_program_share_events_however_they_are_linked() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (name, text) in [
        ("shared.h", SHARED),
        ("first.c", FIRST),
        ("second.c", SECOND),
        ("many.c", TOO_MANY),
    ] {
        std::fs::write(path(name), text).unwrap();
    }
    let compiler = |options: &[&str], sources: &[&str]| {
        let mut command = Command::new("gcc");
        command
            .args([
                "-Wall",
                "-Wextra",
                "-Wstrict-prototypes",
                "-Werror",
                "-I",
                HEADER,
                "-o",
            ])
            .arg(path("program"))
            .args(options);
        command
            .args(sources.iter().map(|source| path(source)))
            .output()
            .unwrap()
    };
    // With -flto all of them are one file to the assembler, and with partitions each function is one.
    for options in [
        &["-std=c99", "-pedantic"][..],
        &["-O2", "-s", "-flto"],
        &["-O2", "-flto", "-flto-partition=max"],
        &["-O2", "-fPIC", "-shared"],
        &["-O2", "-fPIC", "-mcmodel=large"],
    ] {
        let printed = compiler(options, &["first.c", "second.c"]);
        assert!(
            printed.status.success(),
            "{options:?}: {}",
            String::from_utf8_lossy(&printed.stderr)
        );
        let bytes = std::fs::read(path("program")).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let (probes, described) = (probes(&file), strings(&file));
        let of = |name: &str| {
            probes
                .iter()
                .filter(|probe| probe.name == name)
                .collect::<Vec<_>>()
        };
        let (begun, ended) = (of("begun"), of("ended"));
        assert_eq!(
            (begun.len(), ended.len()),
            (1, 2),
            "{options:?}: one for each place"
        );
        assert_eq!(
            (&*begun[0].arguments, &*ended[0].arguments),
            ("", "8@0(%rax)"),
            "{options:?}"
        );
        assert_eq!(ended[0].semaphore, ended[1].semaphore, "{options:?}: one key");
        assert_ne!(ended[0].semaphore, begun[0].semaphore, "{options:?}");
        for text in [
            &["shared", "begun", "begun"][..],
            &["shared", "ended", "100% of \"{code}\"", "code u8 unsigned char"],
        ] {
            assert!(
                described.iter().any(|other| other == text),
                "{options:?}: {described:?}"
            );
        }
    }
    let printed = compiler(&["-c"], &["many.c"]);
    assert!(!printed.status.success());
    assert!(String::from_utf8_lossy(&printed.stderr).contains("kestrel_tracepoint_has_12_fields_at_most"));
}
