//! `kestrel run` on functions of programs: their parameters by name, their lines of source, as a small program of C has them.

use crate::command::{WorkFolder, has, needs_tracing};
use std::process::Command;

const SOURCE: &str = r#"
struct node { int value; char tag[8]; struct node *next[2]; unsigned low : 3, high : 5; };
typedef struct { long left, right; } pair;
__attribute__((noinline)) long taken(struct node *first, char letter, double real, pair two, unsigned char small)
{
    return first->value + letter + (long)real + two.left + small;
}
static inline __attribute__((always_inline)) long copied(long n)
{
    volatile long doubled = n * 2; /* the line */
    return doubled;
}
__attribute__((noinline)) long one(long n) { return copied(n) + 1; }
__attribute__((noinline)) struct node *other(struct node *n) { n->value = copied(n->value); return n; }
__attribute__((noinline)) int minus(int n) { return -n; }
struct node last = { .value = 7, .tag = "last" };
struct node first = { .value = 3, .tag = "first", .next = { &last, &last }, .low = 5, .high = 9 };
int main(void)
{
    pair two = { 11, 22 };
    return (int)(taken(&first, 'x', 1.5, two, 200) + one(2) + minus(3) + other(&last)->value) == -1;
}
"#;

/// Output of programs, each run over the compiled program; none where it cannot be compiled.
fn printed(options: &[&str], programs: &[&str]) -> Option<Vec<String>> {
    if !has("gcc") {
        eprintln!("skipped: there is no gcc");
        return None;
    }
    let place = WorkFolder::new();
    std::fs::write(place.path().join("traced.c"), SOURCE).unwrap();
    let built = Command::new("gcc")
        .current_dir(place.path())
        .args(["-o", "traced", "traced.c"])
        .args(options)
        .status();
    assert!(built.unwrap().success());
    let run = |program: &&str| {
        let words = ["run", "-q", "-e", program, "-c", "./traced"];
        place.run(&words).succeeds().out
    };
    Some(programs.iter().map(run).collect())
}

#[test]
fn a_return_has_no_offset() {
    needs_tracing!();
    let place = WorkFolder::new();
    for offset in ["+0", "+4"] {
        let program = format!("config = {{ missing_probes = warn }} uretprobe:libc:malloc{offset} {{ }}");
        let answer = place.run(&["run", "-e", &program]);
        answer.fails(2, &["uretprobe:libc:malloc", "an offset is not allowed"]);
    }
}

#[test]
fn parameters_of_functions_have_names_and_types() {
    needs_tracing!();
    let programs = [
        "uprobe:./traced:taken { printf(\"%d %s %c %d\\n\", args.first->value, args.first.tag, args.letter, args.small); }",
        "uprobe:./traced:taken { print(args.two.right); print((args.first->low, args.first->high)); }",
        "uprobe:./traced:taken { let $x: struct node *[2] = args.first->next; print($x[1]->value); print(((struct node *)arg0)->value); }",
        "uretprobe:./traced:other { print(retval->tag); }",
    ];
    for options in [&["-g", "-O0"][..], &["-g", "-O2"]] {
        let Some(out) = printed(options, &programs) else {
            return;
        };
        assert_eq!(out[0].trim(), "3 first x 200", "{options:?}");
        assert_eq!(out[1].trim(), "22\n(5, 9)", "{options:?}");
        assert_eq!(out[2].trim(), "7\n3", "{options:?}");
        assert_eq!(out[3].trim(), "last", "{options:?}");
    }
}

/// Return values of functions are numbers of 64 bits, whatever their type; registers are members of `ctx` and have names; `func` and `probe` are names also within tuples and
/// in variables of a handler of several events.
#[test]
fn returns_registers_and_names_of_functions() {
    needs_tracing!();
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let programs = [
        "uretprobe:./traced:minus { print(retval); print(retval < 0); print((int32)retval); }",
        "uprobe:./traced:one { print((ctx.di, reg(\"di\"))); $c = ctx; print(($c.sp == reg(\"sp\"), ctx.ip > 0)); }",
        "uprobe:./traced:on[e],uprobe:./traced:minu* { $f = func; print((func, arg0)); print({ (probe, $f) }); print($f); }",
        "uprobe:./traced:on[e],uprobe:./traced:minu* { @last = func; @all[func] = 1 } end { print((@last, 1)); for $kv : @all { print($kv) } clear(@all); clear(@last) }",
    ];
    let Some(out) = printed(&["-g", "-O2"], &programs) else {
        return;
    };
    assert_eq!(out[0].trim(), "4294967293\nfalse\n-3", "{out:?}");
    assert_eq!(out[1].trim(), "(2, 2)\n(true, true)", "{out:?}");
    let names =
        "(one, 2)\n(uprobe:./traced:one, one)\none\n(minus, 3)\n(uprobe:./traced:minus, minus)\nminus";
    assert_eq!(out[2].trim(), names, "{out:?}");
    let mut kept: Vec<&str> = out[3].trim().lines().collect();
    kept.sort_unstable();
    assert_eq!(kept, ["(minus, 1)", "(minus, 1)", "(one, 1)"], "{out:?}");
}

/// A value kept in a map at one event has the same type at all others: also where they name no type, and at those without types of their own.
#[test]
fn structs_of_a_program_are_kept_for_other_events() {
    needs_tracing!();
    let programs = [
        "uprobe:./traced:taken { @p = args.first; @v = *args.first } uretprobe:./traced:taken { print(@p->tag); print(@v.value) } end { print(@v.tag); clear(@p); clear(@v) }",
        "struct node { int value; char tag[8]; } uprobe:./traced:taken { @p[tid] = (struct node *)arg0 } uretprobe:./traced:taken { $n = @p[tid]; print($n.tag); clear(@p) }",
        // Of functions whose types are asked for later, too.
        "end { print(@v.tag); clear(@v) } uprobe:./traced:one { @n = args.n; clear(@n) } uprobe:./traced:other { @v = *args.n }",
    ];
    let Some(out) = printed(&["-g", "-O2"], &programs) else {
        return;
    };
    assert_eq!(out[0].trim(), "first\n3\nfirst", "{out:?}");
    assert_eq!(out[1].trim(), "first", "{out:?}");
    assert_eq!(out[2].trim(), "last", "{out:?}");
}

#[test]
fn recorded_functions_of_a_program_are_named_as_live() {
    needs_tracing!();
    if !has("gcc") {
        eprintln!("skipped: there is no gcc");
        return;
    }
    let place = WorkFolder::new();
    std::fs::write(place.path().join("traced.c"), SOURCE).unwrap();
    let build = ["-O2", "-o", "traced", "traced.c"];
    let built = Command::new("gcc").current_dir(place.path()).args(build).status();
    assert!(built.unwrap().success());
    let events = [
        "-e",
        "uprobe:./traced:one,uretprobe:./traced:one,uprobe:./traced:other",
    ];
    place
        .run(&[&["record"], &events[..], &["--", "./traced"]].concat())
        .succeeds();
    for one in ["uprobe:./traced:one", "u:traced:one", "uprobe:./traced:on*"] {
        let lines = place.run(&["print", "-e", one]).succeeds().out;
        assert!(
            lines.lines().count() == 1 && lines.contains(":one"),
            "{one}: {lines}"
        );
    }
    let pair = "uprobe:./traced:one,ur:./traced:one";
    let report = place.run(&["report", "--latency", pair]).succeeds().out;
    assert!(report.contains("uretprobe:"), "{report}");
    // Without -g the parameters are not known.
    for args in ["print(args)", "print(args.value)"] {
        let program = format!("uprobe:./traced:one {{ {args} }}");
        let words = [
            "no debug information (DWARF) describes parameters of it",
            "compiled with -g",
        ];
        place.run(&["run", "-e", &program]).fails(2, &words);
    }
    let wrong = ["print", "-e", "uprobe:./other:one"];
    place.run(&wrong).fails(2, &["uprobe:./other:one"]);
}

#[test]
fn a_line_of_source_is_probed_in_all_its_copies() {
    needs_tracing!();
    let line = SOURCE.lines().position(|line| line.contains("the line")).unwrap() + 1;
    let programs = [
        format!("uprobe:./traced@traced.c:{line} {{ @ = count(); }}"),
        format!("uprobe:./traced:traced.c:{line} {{ printf(\"%s\\n\", probe); }}"),
    ];
    let programs: Vec<&str> = programs.iter().map(String::as_str).collect();
    let Some(out) = printed(&["-g", "-O2"], &programs) else {
        return;
    };
    assert_eq!(out[0].trim(), "@: 2");
    // Each place is a probe, by its address.
    let places: std::collections::BTreeSet<&str> = out[1].trim().lines().collect();
    let addresses = places
        .iter()
        .filter_map(|place| place.strip_prefix("uprobe:./traced:"));
    let addresses = addresses.filter(|address| address.parse::<u64>().is_ok());
    assert_eq!((places.len(), addresses.count()), (2, 2), "{}", out[1]);
}

/// A program with a USDT probe of two places, which have their argument elsewhere.
const TWICE: &str = r#"
#define PLACE(ARGUMENT) asm volatile("990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n" \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b, 0, 0\n.asciz \"prov\"\n.asciz \"twice\"\n.asciz \"" ARGUMENT "\"\n994: .balign 4\n.popsection")
int main(void)
{
    PLACE("-4@$1");
    PLACE("-4@$2");
    return 0;
}
"#;

/// The places of a USDT probe are one probe, as in bpftrace.
#[test]
fn places_of_a_usdt_probe_are_one_probe() {
    needs_tracing!();
    if !has("gcc") {
        return;
    }
    let place = WorkFolder::new();
    std::fs::write(place.path().join("twice.c"), TWICE).unwrap();
    let built = Command::new("gcc")
        .current_dir(place.path())
        .args(["-no-pie", "-o", "twice", "twice.c"])
        .status();
    assert!(built.unwrap().success());
    let run = |program: &str| place.run(&["run", "-e", program, "-c", "./twice"]).succeeds();
    let answer = run("usdt:./twice:prov:twice { print((probe, arg0)); }");
    assert!(answer.err.contains("Attached 1 probe\n"), "{}", answer.err);
    let names = "(usdt:./twice:prov:twice, 1)\n(usdt:./twice:prov:twice, 2)";
    assert_eq!(answer.out.trim(), names);
}

/// Parameters and return values of functions have no type of their own in bpftrace: its programs cast them.
#[test]
fn casts_of_what_functions_return_are_no_noise() {
    needs_tracing!();
    let place = WorkFolder::new();
    let program = "uretprobe:libc:malloc { $a = (uint64)retval; $b = (int32)(int32)1; } begin { exit(); }";
    let answer = place.run(&["run", "-e", program]).succeeds();
    // The cast of a cast is needless, whatever is cast.
    assert_eq!(
        answer.err.matches("Unnecessary cast").count(),
        1,
        "{}",
        answer.err
    );
}

/// Functions of one name in C++, as the linker calls them.
const OVERLOADED: &str = r#"
__attribute__((noipa)) int _Z3twoi(int x) { return x; }
__attribute__((noipa)) int _Z3twol(long x) { return x; }
int main(void) { return _Z3twoi(1) + _Z3twol(2) - 3; }
"#;

/// Each function of a name in C++ is a probe of its own, by the linker's name, as in bpftrace; an offset behind a function is refused.
#[test]
fn overloads_are_probes_by_the_names_of_the_linker() {
    needs_tracing!();
    if !has("gcc") {
        return;
    }
    let place = WorkFolder::new();
    std::fs::write(place.path().join("over.c"), OVERLOADED).unwrap();
    let built = Command::new("gcc")
        .current_dir(place.path())
        .args(["-o", "over", "over.c"])
        .status();
    assert!(built.unwrap().success());
    let run = |event: &str| {
        let program = format!("{event} {{ @[probe, func] = count(); }}");
        place.run(&["run", "-e", &program, "-c", "./over"])
    };
    for event in ["uprobe:./over:cpp:two", "uprobe:./over:cpp:t*"] {
        let answer = run(event).succeeds();
        assert!(answer.err.contains("Attached 2 probes\n"), "{}", answer.err);
        let mut lines: Vec<&str> = answer.out.trim().lines().collect();
        lines.sort_unstable();
        let names = [
            "@[uprobe:./over:cpp:_Z3twoi, two(int)]: 1",
            "@[uprobe:./over:cpp:_Z3twol, two(long)]: 1",
        ];
        assert_eq!(lines, names, "{event}");
    }
    let one = run("uprobe:./over:cpp:_Z3twol").succeeds();
    assert!(one.err.contains("Attached 1 probe\n"), "{}", one.err);
    run("uprobe:./over:_Z3twoi+1000").fails(2, &["Offset outside the function bounds ('_Z3twoi' size is "]);
    run("uprobe:./over:main+2").fails(2, &["Could not add uprobe into middle of instruction"]);
}

/// `--unsafe` probes where no instruction is known to begin, with a warning; without it that is refused, or left out where a script says so.
#[test]
fn unsafe_scripts_probe_where_no_instruction_begins() {
    needs_tracing!();
    if !has("gcc") {
        return;
    }
    let place = WorkFolder::new();
    std::fs::write(place.path().join("over.c"), OVERLOADED).unwrap();
    let built = Command::new("gcc")
        .current_dir(place.path())
        .args(["-no-pie", "-o", "over", "over.c"])
        .status();
    assert!(built.unwrap().success());
    let middle = "Could not add uprobe into middle of instruction: ./over:main+2";
    let unknown = "Could not determine instruction boundary for uprobe:./over:1 (binary appears stripped).";
    let force = "Use --unsafe to force attachment.";
    for (event, why, shown) in [
        ("uprobe:./over:main+2", middle, "uprobe:./over:main+2"),
        ("uprobe:./over:0x1", unknown, "uprobe:./over:1"),
    ] {
        let program = format!("{event}, begin {{ print(1); exit() }}");
        let unattached = format!("Unable to attach probe: {shown}. If this is expected");
        place
            .run(&["run", "-e", &program])
            .fails(2, &[why, force, &unattached]);
        let lenient = format!("config = {{ missing_probes = warn }} {program}");
        let left_out = place.run(&["run", "-e", &lenient]).succeeds();
        let skipped = format!("Unable to attach probe: {shown}. Skipping.");
        assert!(left_out.err.contains(&skipped), "{}", left_out.err);
        assert!(left_out.err.contains("Attached 1 probe\n"), "{}", left_out.err);
        let forced = place.run(&["run", "--unsafe", "-e", &program]).succeeds();
        assert!(forced.err.contains("Attached 2 probes\n"), "{}", forced.err);
        let warned = forced
            .err
            .contains("Unsafe uprobe in the middle of the instruction: ./over:main+2")
            || forced
                .err
                .contains("Misaligned probes can lead to tracee crashes!");
        assert!(warned, "{}", forced.err);
    }
}

/// `-l` finds the functions of what a process runs by their names alone, says which file has no debug information, and refuses what a script could not attach to.
#[test]
fn lists_have_the_functions_of_a_process() {
    needs_tracing!();
    if !has("gcc") {
        return;
    }
    let place = WorkFolder::new();
    let text = "#include <unistd.h>\nint quite_a_name(int x) { return pause() + x; } int main(void) { return quite_a_name(1); }";
    std::fs::write(place.path().join("waits.c"), text).unwrap();
    let built = Command::new("gcc")
        .current_dir(place.path())
        .args(["-o", "waits", "waits.c"])
        .status();
    assert!(built.unwrap().success());
    let mut waits = Command::new(place.path().join("waits")).spawn().unwrap();
    let pid = waits.id().to_string();
    // It may not have come to its program yet.
    let link = format!("/proc/{pid}/exe");
    while !std::fs::read_link(&link).unwrap().ends_with("waits") {
        std::thread::yield_now();
    }
    for pattern in ["*quite_a_name*", "*:quite_a_name", "uprobe:quite_a_name"] {
        let listed = place.run(&["run", "-l", "-p", &pid, pattern]).succeeds();
        let wanted = format!("uprobe:{}/waits:quite_a_name\n", place.path().display());
        assert_eq!(listed.out, wanted, "{pattern}");
    }
    waits.kill().unwrap();
    waits.wait().unwrap();
    let of_file = |option: &str| place.run(&["run", option, "uprobe:./waits:*a_name"]).succeeds();
    let (short, long) = (of_file("-l"), of_file("-lv"));
    assert_eq!(short.out, "uprobe:./waits:quite_a_name\n");
    assert_eq!((short.err.as_str(), long.out), ("", short.out));
    let said = "WARNING: No DWARF found for \"./waits\", cannot show parameter info\n";
    assert_eq!(long.err, said);
    for (script, why) in [
        ("nonsense:x { }", "Invalid probe type: nonsense"),
        (
            "uprobe:./waits:nosuch { }",
            "No matches for uprobe ./waits:nosuch.",
        ),
    ] {
        place.run(&["run", "-l", "-e", script]).fails(2, &[why]);
    }
}

/// A uprobe, usdt or interval probe that cannot be attached is refused in bpftrace's words, and left out where `missing_probes` is not `error`.
#[test]
fn probes_that_cannot_be_attached_are_told_as_bpftrace_tells() {
    needs_tracing!();
    let place = WorkFolder::new();
    let pid = std::process::id().to_string();
    let run = |more: &[&str], event: &str| {
        let program = format!("{event} {{ }}");
        let mut words = vec!["run", "-e", &program];
        words.extend_from_slice(more);
        place.run(&words)
    };
    for (event, said) in [
        (
            "usdt::group:name",
            "usdt probe must specify at least path or pid to probe.",
        ),
        (
            "usdt:nosuchprogram:name",
            "usdt target file 'nosuchprogram' does not exist or is not executable",
        ),
        (
            "uprobe:nosuchprogram:name",
            "uprobe target file 'nosuchprogram' does not exist or is not executable",
        ),
        ("usdt:/bin/true:group:name", "No matches for usdt /bin/true:name."),
        (
            "interval:hz:100001",
            "Unable to attach probe: interval:hz:100001. If this is expected",
        ),
    ] {
        run(&[], event).fails(2, &[said]);
    }
    run(&["-p", &pid], "usdt::nosuch:name").fails(2, &["Probe has no valid attach points."]);
    let lenient = "config = { missing_probes = warn } begin { print(1); } interval:hz:100001, usdt:/bin/true:group:name";
    let skipped = run(&[], lenient).succeeds();
    for said in [
        "Unable to attach probe: interval:hz:100001. Skipping.",
        "No matches for usdt /bin/true:name. Skipping.",
        "Attached 1 probe\n",
    ] {
        assert!(skipped.err.contains(said), "{said} in {}", skipped.err);
    }
}
