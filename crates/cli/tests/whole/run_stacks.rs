//! `kestrel run`: call stacks as values, and those that are unwound by tables.

use crate::command::{Answer, WorkFolder, needs_tracing};
use std::path::PathBuf;

/// A stack of no frames is empty, and more frames than the kernel gives may be asked for.
#[test]
fn stacks_have_as_many_frames_as_are_asked_for() {
    needs_tracing!();
    let program = "tracepoint:syscalls:sys_enter_exit_group /pid == cpid/ {
        @kernel[kstack(0)] = 1; @user[ustack(0)] = 1; $none = kstack(0); @lengths = (len($none), len(kstack(1)), len(kstack(1024)) > 1); print(ustack(0)); }";
    let run = WorkFolder::new().run(&["run", "-q", "-c", "true", "-e", program]);
    let run = run.succeeds();
    assert!(
        run.out.contains("@lengths: (0, 1, true)"),
        "{}\n{}",
        run.out,
        run.err
    );
    let wrong = WorkFolder::new().run(&["run", "-e", "begin { @ = kstack(1025) }"]);
    wrong.fails(2, &["the depth of a stack is 0 to 1024"]);
}

/// A program without frame pointers, whose calls only its tables tell.
const FRAMELESS: &str = "
    volatile int sink;
    __attribute__((noinline)) void inner(void) { sink = 1; }
    __attribute__((noinline)) void middle(void) { volatile long pad[40]; pad[0] = sink; inner(); sink = pad[0]; }
    __attribute__((noinline)) void outer(void) { middle(); sink = 2; }
    int main(void) { outer(); return 0; }";

/// The program without frame pointers, compiled, if there is a compiler.
fn frameless(place: &WorkFolder) -> Option<PathBuf> {
    compiled(place, "frameless", FRAMELESS)
}

/// A program of C compiled without frame pointers, if there is a compiler.
fn compiled(place: &WorkFolder, name: &str, text: &str) -> Option<PathBuf> {
    let (source, program) = (place.path().join(format!("{name}.c")), place.path().join(name));
    std::fs::write(&source, text).unwrap();
    let mut compiler = std::process::Command::new("cc");
    compiler.args(["-O1", "-fomit-frame-pointer", "-o"]).arg(&program);
    let compiled = compiler
        .arg(&source)
        .status()
        .is_ok_and(|status| status.success());
    if !compiled {
        eprintln!("skipped: no compiler of C");
    }
    compiled.then_some(program)
}

/// An address of a process that was begun later, and has ended, has its name in a map that holds no stacks.
#[test]
fn addresses_in_maps_have_names_after_their_process() {
    needs_tracing!();
    let place = WorkFolder::new();
    let Some(program) = frameless(&place) else {
        return;
    };
    let program = program.display().to_string();
    let text = format!(
        r#"uprobe:{program}:inner {{ @ = usym(reg("ip")); @part = (1, usym(reg("ip"))); @key[usym(reg("ip"))] = count() }}"#
    );
    let run = place.run(&["run", "-q", "-e", &text, "-c", &program]).succeeds();
    for line in ["@: inner\n", "@part: (1, inner)\n", "@key[inner]: 1\n"] {
        assert!(run.out.contains(line), "{}\n{}", run.out, run.err);
    }
}

/// Stacks of one place are as deep as each of them says, whichever comes first in a key.
#[test]
fn stacks_in_one_key_have_their_own_depths() {
    needs_tracing!();
    let program = "tracepoint:syscalls:sys_enter_exit_group /pid == cpid/ { @a[kstack(1), 5, kstack(3)] = 1; @b[kstack(2), 6, kstack(1)] = 1; }
        end { for ($kv : @a) { print((len($kv.0.0), $kv.0.1, len($kv.0.2))); } for ($kv : @b) { print((len($kv.0.0), $kv.0.1, len($kv.0.2))); } }";
    let run = WorkFolder::new().run(&["run", "-q", "-c", "true", "-e", program]);
    let out = run.succeeds().out;
    let frames = |from: &str, to: &str| {
        let part = out.split(from).nth(1).and_then(|rest| rest.split(to).next());
        part.map_or(0, |part| part.matches('+').count())
    };
    assert!(out.contains("(1, 5, 3)") && out.contains("(2, 6, 1)"), "{out}");
    assert_eq!((frames("\n, 5, ", "]"), frames("\n, 6, ", "]")), (3, 1), "{out}");
}

/// Printed stacks of processes that `-p` or `-c` names are unwound by tables. Of other processes only the innermost frame is shown, with a warning.
#[test]
fn stacks_without_frame_pointers_are_unwound() {
    needs_tracing!();
    let place = WorkFolder::new();
    let Some(program) = frameless(&place) else {
        return;
    };
    let program = program.display();
    let handler = |value: &str| format!("uprobe:{program}:inner {{ printf(\"%s|\\n\", {value}); }}");
    let stack = |run: &str| -> Vec<String> {
        let frames = run.lines().map(str::trim).filter(|line| line.contains('+'));
        let name = |frame: &str| frame.split('+').next().map(str::to_owned);
        frames.filter_map(name).collect()
    };
    let command = program.to_string();
    let unwound = place
        .run(&["run", "-q", "-e", &handler("dw_ustack()"), "-c", &command])
        .succeeds();
    assert!(
        stack(&unwound.out).starts_with(&["inner", "middle", "outer", "main"].map(str::to_owned)),
        "{}\n{}",
        unwound.out,
        unwound.err
    );
    assert!(
        unwound.err.contains("unstable feature: dw_ustack"),
        "{}",
        unwound.err
    );
    let limited = handler("dw_ustack(perf, 2)");
    let limited = format!("config = {{ unstable_dw_ustack = enable }} {limited}");
    let limited = place
        .run(&["run", "-q", "-e", &limited, "-c", &command])
        .succeeds();
    assert_eq!(limited.out.matches('\t').count(), 2, "{}", limited.out);
    assert!(!limited.err.contains("unstable"), "{}", limited.err);
    let own = std::process::id().to_string();
    // Probes of files see the command alone: the program is run by the tracer's own `system()`.
    let other = format!(
        "uprobe:{program}:inner {{ printf(\"%s|\\n\", dw_ustack()); exit(); }} interval:ms:100 {{ system(\"{program}\"); }}"
    );
    let other = place
        .run(&["run", "-q", "--unsafe", "--dwarf-pid", &own, "-e", &other])
        .succeeds();
    assert_eq!(stack(&other.out), ["inner"], "{}", other.out);
    assert!(
        other
            .err
            .contains("No DWARF unwind data available for this process"),
        "{}",
        other.err
    );
    let unnamed = format!("uprobe:{program}:inner {{ print(dw_ustack()) }}");
    place
        .run(&["run", "-e", &unnamed])
        .fails(2, &["requires a target process"]);
    let text = format!("uprobe:{program}:inner {{ print(dw_ustack(build_id)) }}");
    let run = place.run(&["run", "--dwarf-pid", &own, "-e", &text]);
    run.fails(2, &["ustack(build_id)"]);
}

/// A program that sorts in a handler of a signal: calls through a library, and through what the kernel puts on the stack.
const SORTING: &str = "
    #include <signal.h>
    #include <stdlib.h>
    volatile int sink;
    __attribute__((noinline)) void inner(void) { sink = 1; }
    __attribute__((noinline)) int compare(const void *a, const void *b) { inner(); sink = 2; return *(int *)a - *(int *)b; }
    __attribute__((noinline)) void sort(void) { int x[2] = {2, 1}; qsort(x, 2, sizeof(int), compare); sink = 2; }
    void handler(int signal) { sort(); sink = signal; }
    __attribute__((noinline)) void outer(void) { raise(SIGUSR1); sink = 3; }
    int main(void) { signal(SIGUSR1, handler); sort(); outer(); return 0; }";

/// As keys, values of maps and variables stacks are unwound by the programs themselves, from a command's first instruction on: as those are that are copied and printed, and further where a
/// signal's handler was called.
#[test]
fn held_stacks_without_frame_pointers_are_unwound() {
    needs_tracing!();
    let place = WorkFolder::new();
    let Some(program) = compiled(&place, "sorting", SORTING) else {
        return;
    };
    let program = program.display().to_string();
    let text = format!(
        r#"config = {{ unstable_dw_ustack = enable }}
        uprobe:{program}:inner {{
            @n++;
            printf("copied %d|%s|\n", @n, dw_ustack(perf));
            $held = dw_ustack(perf);
            printf("held %d|%s|\n", @n, $held);
            @keys[dw_ustack(perf)] = count();
            @limited[@n] = dw_ustack(perf, 2);
            @mixed[@n, dw_ustack(raw, 1)] = 1;
        }}"#
    );
    let run = place.run(&["run", "-q", "-e", &text, "-c", &program]).succeeds();
    let names = |what: &str| -> Vec<String> {
        let stack = run
            .out
            .split_once(what)
            .and_then(|(_, rest)| rest.split('|').next());
        let lines = stack.unwrap_or_default().lines().map(str::trim);
        let name = |line: &str| Some(line.split_once(' ')?.1.split('+').next()?.to_owned());
        lines.filter_map(name).collect()
    };
    let all = format!("{}\n{}", run.out, run.err);
    let held = names("held 1|");
    assert_eq!(names("copied 1|"), held, "{all}");
    for wanted in ["inner", "compare", "sort", "main", "_start"] {
        assert!(held.iter().any(|name| name == wanted), "{wanted}: {all}");
    }
    let in_signal = names("held 2|");
    let mut seen = in_signal.iter();
    for wanted in ["inner", "compare", "sort", "handler", "outer", "main", "_start"] {
        assert!(seen.any(|name| name == wanted), "{wanted}: {all}");
    }
    assert_eq!(run.out.matches("]: 1").count(), 4, "two keys, twice: {all}");
    let limited = run.out.split_once("@limited[1]: ").map(|(_, rest)| rest);
    let limited = limited.and_then(|rest| rest.split_once("\n\n")).map(|(it, _)| it);
    assert_eq!(limited.map(|it| it.matches('\t').count()), Some(2), "{all}");
    assert_eq!(run.err, "");
    // A process that none of the options names: its innermost frame, and a warning.
    let own = std::process::id().to_string();
    let text = format!(
        "config = {{ unstable_dw_ustack = enable }} uprobe:{program}:inner {{ @[dw_ustack(perf)] = count(); exit() }}"
    );
    let mut other = place.command(&["run", "-q", "--dwarf-pid", &own, "-e", &text]);
    let script = format!(
        "while kill -0 $PPID && [ ! -e {0}/done ]; do {program}; done",
        place.path().display()
    );
    let mut looping = std::process::Command::new("sh")
        .args(["-c", &script])
        .spawn()
        .unwrap();
    let unnamed = Answer::from(other.output().unwrap());
    std::fs::write(place.path().join("done"), "").unwrap();
    looping.wait().unwrap();
    let unnamed = unnamed.succeeds();
    assert_eq!(unnamed.out.matches('\t').count(), 1, "{}", unnamed.out);
    let warning = "No DWARF unwind data available for this process";
    assert!(unnamed.err.contains(warning), "{}", unnamed.err);
}

/// A process that runs is unwound by what it has mapped, a command that cannot be run is none.
#[test]
fn held_stacks_of_running_processes_are_unwound() {
    needs_tracing!();
    let place = WorkFolder::new();
    let source = SORTING.replace("outer(); return 0;", "for (;;) outer();");
    let Some(program) = compiled(&place, "endless", &source) else {
        return;
    };
    let mut endless = std::process::Command::new(&program).spawn().unwrap();
    let (program, pid) = (program.display(), endless.id().to_string());
    let text = format!(
        "config = {{ unstable_dw_ustack = enable }} uprobe:{program}:inner {{ @[dw_ustack(perf)] = count(); if (@n++ == 20) {{ exit() }} }}"
    );
    let run = place.run(&["run", "-q", "-p", &pid, "-e", &text]);
    endless.kill().unwrap();
    endless.wait().unwrap();
    let run = run.succeeds();
    for wanted in [" inner+", " compare+", " sort+", " main+"] {
        assert!(run.out.contains(wanted), "{wanted}: {}\n{}", run.out, run.err);
    }
    let missing = place.path().join("missing").display().to_string();
    let run = place.run(&["run", "-q", "-e", &text, "-c", &missing]);
    run.fails(1, &["No such file or directory"]);
}

/// In a PID namespace processes have other numbers: the addresses in their stacks are named by those that the command's own namespace has.
#[test]
fn stacks_of_processes_in_a_namespace_have_names() {
    needs_tracing!();
    let script = r#"unshare --fork --pid --mount-proc sh -c '
        (while :; do kill -0 $$; done) &
        "$K" run -q -e "tracepoint:syscalls:sys_enter_kill /comm == \"sh\"/ { print(ustack(perf, 1)); exit(); }"
        kill $!'"#;
    let Some(answer) = WorkFolder::new().in_namespace(script) else {
        return;
    };
    assert!(answer.out.contains(" kill+"), "{}{}", answer.out, answer.err);
}

/// Functions of C++ are shown as they are written, or as the compiler spelled them where a setting asks for that.
#[test]
fn names_of_cpp_are_shown_as_a_setting_says() {
    needs_tracing!();
    let place = WorkFolder::new();
    let (source, program) = (place.path().join("mangled.c"), place.path().join("mangled"));
    let text = "volatile int sink; __attribute__((noinline)) void _ZN2My3Srv6handleEi(int x) { sink = x; }
        int main(void) { _ZN2My3Srv6handleEi(3); return 0; }";
    std::fs::write(&source, text).unwrap();
    let mut compiler = std::process::Command::new("cc");
    let compiler = compiler.args(["-O1", "-o"]).arg(&program).arg(&source);
    if !compiler.status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no compiler of C");
        return;
    }
    let program = program.display().to_string();
    let handler = format!(
        "uprobe:{program}:_ZN2My3Srv6handleEi {{ print(usym(reg(\"ip\"))); @[ustack(1)] = count(); }}"
    );
    let run = |config: &str, setting: Option<&str>| {
        let text = format!("{config} {handler}");
        let mut command = place.command(&["run", "-q", "-c", &program, "-e", &text]);
        command.envs(setting.map(|setting| ("BPFTRACE_CPP_DEMANGLE", setting)));
        Answer::from(command.output().unwrap()).succeeds().out
    };
    let off = "config = { cpp_demangle = false }";
    for (out, written) in [
        (run("", None), true),
        (run(off, None), false),
        (run("", Some("0")), false),
    ] {
        let (wanted, other) = match written {
            true => ("My::Srv::handle", "_ZN2My"),
            false => ("_ZN2My3Srv6handleEi", "My::"),
        };
        assert_eq!(out.matches(wanted).count(), 2, "{out}");
        assert!(!out.contains(other), "{out}");
    }
}
