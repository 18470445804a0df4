//! The language as `kestrel run` has it: what differs where types differ, and what is odd about a program.

use crate::command::{Answer, WorkFolder, needs_tracing};

fn run(program: &str) -> Answer {
    WorkFolder::new().run(&["run", "-q", "-e", program])
}

/// Output of a program, which must not be refused.
fn printed(program: &str) -> String {
    let out = run(program).succeeds().out;
    out.lines()
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join("\n")
}

/// An index that is only known at run time reads 0 beyond the end of the array, and a warning counts those reads.
#[test]
fn elements_outside_of_arrays_are_zero_and_counted() {
    needs_tracing!();
    for index in ["$i", "@i", "@m[1]"] {
        let program = format!(
            "begin {{ $a = (uint8[4])0x01020304; for $i : 0..6 {{ @i = $i; @m[1] = $i; print($a[{index}]); }} exit(); }}"
        );
        let run = run(&program).succeeds();
        let lines: Vec<&str> = run.out.lines().take(6).collect();
        assert_eq!(lines, ["4", "3", "2", "1", "0", "0"], "{index}: {}", run.err);
        let message = "The index lies outside of the array: the element is read as 0.";
        assert_eq!(run.err.matches(message).count(), 2, "{index}: {}", run.err);
        assert!(run.err.contains("as 0., 1 more time\n"), "{index}: {}", run.err);
    }
    let inside = run("begin { $a = (uint8[4])0x01020304; @i = 3; print($a[@i]); exit(); }").succeeds();
    assert!(
        inside.out.starts_with("1\n") && !inside.err.contains("outside"),
        "{}",
        inside.err
    );
    run("begin { $a = (uint8[4])1; print($a[4]); }").fails(2, &["the index 4 is out of bounds"]);
}

/// A bool is no integer: not in a variable, a map, a key or a sum; it counts where it is calculated with.
#[test]
fn bools_are_no_integers() {
    needs_tracing!();
    for (program, words) in [
        (
            "$a = true; $a = 1;",
            "Type mismatch for $a: trying to assign value of type 'int8' when variable already has a type 'bool'",
        ),
        (
            "$a = 0; $a = pid == 1;",
            "Type mismatch for $a: trying to assign value of type 'bool' when variable already has a type 'int8'",
        ),
        (
            "@a = true; @a = 1;",
            "Type mismatch for @a: trying to assign value of type 'int8' when map already has a type 'bool'",
        ),
        ("@a = pid == 1; @a++;", "when map already has a type 'bool'"),
        (
            "@a[true] = 1; @a[1] = 2;",
            "'int8' when map expects arguments: 'bool'",
        ),
        (
            "$a = (1, true); $a = (true, 1);",
            "when variable already has a type '(int8,bool)'",
        ),
        (
            "print(pid ? true : 1);",
            "compatible types: have 'bool' and 'int8'",
        ),
        ("print(-true);", "an integer is wanted here, not a bool"),
        ("print(~true);", "an integer is wanted here"),
        ("@a = sum(true);", "an integer is wanted here"),
        ("@a = hist(true);", "an integer is wanted here"),
        ("@a = lhist(true, 0, 10, 1);", "an integer is wanted here"),
        (
            "for $i : false..true { print($i); }",
            "Loop range requires an integer for the start value",
        ),
        ("exit(true);", "an integer is wanted here"),
    ] {
        run(&format!("begin {{ {program} exit(); }}")).fails(2, &[words]);
    }
    let program = "begin { $a = true; $a = pid == 0; @b = $a; print(@b); print($a + 2); print(true == 1); @s = sum((uint8)true); exit(); }";
    assert_eq!(printed(program), "@b: false\n2\ntrue\n@b: false\n@s: 1");
}

#[test]
fn a_byte_of_an_array_is_a_bool_where_it_is_not_zero() {
    let program = "begin { $a = (uint8[1])2; $b = (bool)$a; print($b); print($b == true); print((bool)(uint8[1])0); exit(); }";
    assert_eq!(printed(program), "true\ntrue\nfalse");
}

#[test]
fn memory_of_the_program_itself_is_read_by_buf() {
    for (program, expected) in [
        ("$s = \"abc\"; print(buf($s, 2));", "ab"),
        ("$a = (uint8[4])(uint32)1684234849; print(buf($a));", "abcd"),
        ("$p = pton(\"1.2.3.4\"); print(buf($p));", "\\x01\\x02\\x03\\x04"),
        ("$x = (uint64)5; $p = &$x; print(buf($p, 2));", "\\x05\\x00"),
        ("$s = str(comm); print(buf(comm, 3) == buf($s, 3));", "true"),
    ] {
        assert_eq!(
            printed(&format!("begin {{ {program} exit(); }}")),
            expected,
            "{program}"
        );
    }
}

#[test]
fn strings_of_the_program_are_cut_at_lengths_known_late_and_put_into_more_room() {
    let program = "begin { $n = 3; @n = 4; print(str(\"hello\", $n)); print(str(\"hello\", @n)); print((string[10])\"ab\"); $s = (string[64])\"x\"; print(sizeof($s)); clear(@n); exit(); }";
    assert_eq!(printed(program), "he\nhel\nab\n64");
}

#[test]
fn steps_of_a_linear_histogram_are_of_one_width() {
    let text = printed("begin { @ = lhist(8, 0, 10, 3); @ = lhist(9, 0, 10, 3); exit(); }");
    assert!(text.contains("[6, 9) ") && text.contains("[9, ...) "), "{text}");
    run("begin { @ = lhist(5, 0, 10, 20); exit(); }").fails(
        2,
        &["step is too large for the given range (provided step 20 for range 10)"],
    );
}

#[test]
fn numbers_of_loops_are_as_wide_as_their_range() {
    needs_tracing!();
    let full = |range: &str| {
        let program = format!(
            "config = {{ unstable_typeinfo = enable }} begin {{ $n = (uint32)3; for $i : {range} {{ print(typeinfo($i).full_type); break; }} exit(); }}"
        );
        printed(&program)
    };
    for (range, ty) in [
        ("0..3", "int8"),
        ("0..300", "int16"),
        ("0..70000", "int32"),
        ("0..$n", "uint32"),
        ("(int16)0..3", "int16"),
        ("0..(uint64)3", "uint64"),
    ] {
        assert_eq!(full(range), ty, "{range}");
    }
    let program = "begin { for $i : 0..3 { $i = 500; print($i); } for $i : 0..300 { if ($i > 297) { print($i + 1); } } exit(); }";
    assert_eq!(printed(program), "500\n500\n500\n299\n300");
}

#[test]
fn variables_that_nothing_is_stored_in_are_warned_of() {
    needs_tracing!();
    let warned_of = |declared: &str, program: &str| {
        let messages = run(&format!("begin {{ {declared}; {program} exit(); }}"))
            .succeeds()
            .err;
        [
            "Variable $x was never assigned to.",
            "Variable used before it was assigned: $x",
        ]
        .map(|warning| messages.contains(warning))
    };
    let warned = |program: &str| warned_of("let $x: int32", program);
    assert_eq!(warned(""), [true, false]);
    assert_eq!(warned("print($x);"), [true, true]);
    assert_eq!(warned("print($x); $x = 1;"), [false, true]);
    assert_eq!(warned("$x = 1; print($x);"), [false, false]);
    assert_eq!(warned("if (pid > 0) { $x = 1; } print($x);"), [false, false]);
    // Through its address something may be stored, and for its size it is not read.
    assert_eq!(warned("$y = &$x; print(*$y);"), [false, false]);
    assert_eq!(warned("print(sizeof($x));"), [true, false]);
    let untyped = |program: &str| warned_of("let $x", program);
    assert_eq!(untyped(""), [true, false]);
    assert_eq!(untyped("print($x); $x = \"abc\";"), [false, true]);
    assert_eq!(untyped("$x = 1; print($x);"), [false, false]);
    assert_eq!(untyped("print(sizeof($x)); $x = (int16)1;"), [false, false]);
    assert_eq!(
        untyped("for ($i : 0..2) { if ($i > 0) { print($x); } $x = 1; }"),
        [false, true]
    );
}

#[test]
fn the_name_of_a_thread_that_is_cut_ends_as_other_strings_do() {
    needs_tracing!();
    let run = run("config = { max_strlen = 4 } begin { print(str(comm)); printf(\"%s|%s\\n\", str(comm), comm); exit(); }")
        .succeeds();
    let messages: Vec<&str> = run.out.lines().take(2).collect();
    assert_eq!(messages, ["kest..", "kest..|kestrel"], "{}", run.err);
}

#[test]
fn strings_that_were_cut_end_so_in_variables_keys_values_and_tuples() {
    needs_tracing!();
    let program = |settings: &str| {
        format!(
            "config = {{ max_strlen = 6; {settings} }} begin {{ $x = str(comm); print($x); printf(\"%9s|\\n\", $x); print((1, $x)); @k[$x] = 1; @v = $x; $short = str(comm, 4); print($short); exit(); }}"
        )
    };
    let lines = |settings: &str, more: &[&str]| -> Vec<String> {
        let program = program(settings);
        let args = [&["run", "-q", "-e", &program][..], more].concat();
        let messages = WorkFolder::new().run(&args).succeeds().out;
        messages
            .lines()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(
        lines("", &[]),
        [
            "kestre..",
            " kestre..|",
            "(1, kestre..)",
            "kes",
            "@k[kestre..]: 1",
            "@v: kestre.."
        ]
    );
    assert_eq!(
        lines("str_trunc_trailer = \"~\"", &["-f", "json"]),
        [
            r#"{"type": "value", "data": "kestre~"}"#,
            r#"{"type": "printf", "data": "  kestre~|\n"}"#,
            r#"{"type": "value", "data": [1,"kestre~"]}"#,
            r#"{"type": "value", "data": "kes"}"#,
            r#"{"type": "map", "data": {"@k": {"kestre~": 1}}}"#,
            r#"{"type": "map", "data": {"@v": "kestre~"}}"#,
        ]
    );
}

/// Reading what nothing writes gives 0 and a warning; what is done with a whole map that is not there is an error.
#[test]
fn maps_that_nothing_writes_are_read_as_zero() {
    needs_tracing!();
    let run = run("begin { print(@gone + 1); if (@other[3]) { print(7); } $x = @third; print($x); exit(); }")
        .succeeds();
    assert_eq!(
        run.out.lines().take(2).collect::<Vec<_>>(),
        ["1", "0"],
        "{}",
        run.err
    );
    for map in ["@gone", "@other", "@third"] {
        let messages = format!("nothing is ever stored in {map}: it is read as 0");
        assert!(run.err.contains(&messages), "{}", run.err);
    }
    self::run("begin { print(@gone); }").fails(2, &["Undefined map: @gone"]);
    self::run("begin { clear(@gone); }").fails(2, &["Undefined map: @gone"]);
    // The type of a later store is known before.
    let later = self::run("begin { print(@s == \"x\"); @s = \"x\"; print(@s); exit(); }").succeeds();
    assert!(
        later.out.starts_with("false\n@s: x\n") && !later.err.contains("nothing"),
        "{}",
        later.err
    );
}

#[test]
fn programs_with_unused_maps_or_old_settings_are_warned_about() {
    needs_tracing!();
    for (program, words) in [
        (
            "let @unused = hash(10); let @used = hash(5); begin { @used[1] = 1; exit(); }",
            "Unused map: @unused",
        ),
        (
            "let @a = hash(1); let @a = lruhash(5); begin { @a[1] = 1; exit(); }",
            "@a is declared twice: the first declaration is the one that counts",
        ),
        (
            "config = { strlen = 10 } begin { exit(); }",
            "strlen is an old name: the setting is called max_strlen",
        ),
        (
            "config = { BPFTRACE_STRLEN = 10 } begin { exit(); }",
            "BPFTRACE_STRLEN is an old name",
        ),
        (
            "config = { symbol_source = \"dwarf\" } begin { exit(); }",
            "symbol_source is deprecated and has no effect",
        ),
        (
            "config = { max_probes = 1; max_probes = 20 } begin { exit(); }",
            "set twice",
        ),
        (
            "begin { print(cpid); exit(); }",
            "No child command (`-c`); cpid is zero",
        ),
    ] {
        let run = run(program).succeeds();
        assert!(run.err.contains(words), "{program}: {}", run.err);
        let quiet = WorkFolder::new()
            .run(&["run", "-q", "--no-warnings", "-e", program])
            .succeeds();
        assert!(!quiet.err.contains(words), "{program}: {}", quiet.err);
    }
    let run = WorkFolder::new()
        .run(&["run", "-q", "-c", "true", "-e", "begin { print(cpid > 0); }"])
        .succeeds();
    assert!(
        run.out.starts_with("true") && !run.err.contains("cpid"),
        "{}",
        run.err
    );
    assert!(!run.err.contains("unused"), "{}", run.err);
}

#[test]
fn declared_maps_hold_what_their_kind_can_hold() {
    needs_tracing!();
    for (program, words) in [
        (
            "let @a = percpuhash(7); begin { @a[1] = 1; }",
            [
                "from declaration: percpuhash",
                "key type: hash",
                "let @a = hash(7);",
            ],
        ),
        (
            "let @a = lruhash(7); begin { @a = hist(1); }",
            [
                "from declaration: lruhash",
                "key type: percpulruhash",
                "let @a = percpulruhash(7);",
            ],
        ),
    ] {
        run(program).fails(2, &words);
    }
    // What a map holds may be said behind the line that asks for its keys, or in a later handler.
    let program = "let @a = percpuhash(7); let @b = hash(7); begin { delete(@a[1]); print(len(@b)); } end { @a[1] = count(); @b[1] = 2; }";
    assert_eq!(printed(program), "0\n@a[1]: 1\n@b[1]: 2");
    run("begin { @1x = 1; }").fails(
        2,
        &[
            "a map's name begins with a letter",
            "@_1x, or give it a key: @[1x]",
        ],
    );
}

#[test]
fn results_of_unsigned_numbers_have_no_sign() {
    needs_tracing!();
    let program = "begin { $x = (uint32)4294967295; $y = (uint16)2; print($x * $x); print($x * $x > 0); print($y - $x); print($x << 32); print(-1 * $y); exit(); }";
    assert_eq!(
        printed(program),
        "18446744065119617025\ntrue\n-4294967293\n18446744069414584320\n-2"
    );
    let hint = "take one of its members: .count, .average, .total";
    run("begin { @s = stats(4); if (@s == 1) { print(1); } }")
        .fails(2, &["Type mismatch for '==': comparing record {", hint]);
}

#[test]
fn types_and_addresses_have_names() {
    needs_tracing!();
    assert_eq!(
        printed(
            "begin { print(sizeof(buffer[8]) > 8); print(\"a\" < \"b\"); print(\"b\" <= \"a\"); exit(); }"
        ),
        "true\ntrue\nfalse"
    );
    let program = "begin { let $x : inet = ntop(0x0100007f); print($x); print(sizeof(inet) > 4); exit(); }";
    assert_eq!(printed(program), "127.0.0.1\ntrue");
    run("begin { if (comm < \"b\") { print(1); } }").fails(2, &["strings have no order"]);
    // The kernel's memory, not the key and not the value.
    let program = "begin { @map[1] = 7; $p = &@map; print((uint64)$p > 0xffff000000000000); exit(); }";
    assert_eq!(printed(program), "true\n@map[1]: 7");
}

/// A string that is there is read as far as is asked for; no address has no name.
#[test]
fn strings_are_cut_and_no_address_is_zero() {
    needs_tracing!();
    let program = "begin { print(str(comm, 4)); print(strlen(str(comm, 40)) == strlen(comm)); print(ksym(0)); print(usym(0)); exit(); }";
    assert_eq!(printed(program), "kes\ntrue\n0\n0");
}

/// A map is filled in one way: an aggregation of another map is stored as a number where it is cast to one.
#[test]
fn aggregations_are_stored_as_numbers_only() {
    needs_tracing!();
    let hint = "aggregate in both: @b = count(…), or store the number: @b = (int64)@a";
    run("begin { @a = count(); @b = @a; exit(); }").fails(
        2,
        &[
            "Map value 'count_t' cannot be assigned from one map to another.",
            hint,
        ],
    );
    let program = "begin { @a = count(); @b = (int64)@a; @c = @a + 1; $d = @a; print($d); exit(); }";
    assert_eq!(printed(program), "1\n@a: 1\n@b: 1\n@c: 2");
}

/// The value of `stats()` is three numbers, which a handler has by their names: it is no number itself.
#[test]
fn statistics_are_no_number() {
    needs_tracing!();
    let program = "begin { @[1] = stats(5); @[1] = stats(6); print(@[1]); print((1, @[1])); printf(\"%s %d\\n\", @[1], @[1].total); for ($kv : @) { print($kv); } exit(); }";
    let stats = "{ .count = 2, .average = 5, .total = 11 }";
    assert_eq!(
        printed(program),
        format!("{stats}\n(1, {stats})\n{stats} 11\n(1, {stats})\n@[1]: {stats}")
    );
    for used in [
        "printf(\"%d\", @s)",
        "if (@s) { }",
        "print(@s + 1)",
        "print(-@s)",
        "print((int64)@s)",
    ] {
        run(&format!("begin {{ @s = stats(5); {used}; exit(); }}")).fails(2, &[]);
    }
    run("begin { @s = stats(5); @b = @s; exit(); }").fails(2, &["or store the number: @b = @s.count"]);
}

/// Programs that bpftrace refuses, and that would do nothing useful.
#[test]
fn certain_mistakes_are_refused() {
    needs_tracing!();
    for (program, messages) in [
        (
            "begin { time(\"a\", \"b\"); exit(); }",
            "time() takes up to one argument",
        ),
        (
            "begin { print(ctx); exit(); }",
            "the kernel gives no context to begin and end",
        ),
        (
            "enum E { A, B } begin { print((enum E)99); exit(); }",
            "Enum: E doesn't contain a variant value of 99",
        ),
    ] {
        run(program).fails(2, &[messages]);
    }
    let program = "enum E { A, B } begin { $y = 7; print((enum E)1); print((enum E)$y); exit(); }";
    assert_eq!(printed(program), "B\n7");
}

/// A macro's variables are named as they are written.
#[test]
fn variables_of_macros_are_named_as_written() {
    needs_tracing!();
    run("macro a(x) { $z + x } begin { $z = 1; print(a(1)); exit(); }").fails(
        2,
        &[
            "Undefined or undeclared variable: $z",
            "a macro has variables of its own",
        ],
    );
}

/// A string that is a field of an event is read as far as other strings are.
#[test]
fn strings_of_events_are_as_long_as_others() {
    needs_tracing!();
    let place = WorkFolder::new();
    let folder = place.path().join(vec!["x".repeat(150); 4].join("/"));
    std::fs::create_dir_all(&folder).unwrap();
    let command = folder.join("true");
    std::fs::copy("/bin/true", &command).unwrap();
    let command = command.to_str().unwrap();
    let length = command.len();
    for (settings, expected) in [("", length), ("config = { max_strlen = 400 } ", 400)] {
        let program = format!(
            "{settings}tracepoint:sched:sched_process_exec {{ printf(\"%d %d\\n\", strlen(args.filename), strlen(str(args.filename))); }}"
        );
        let run = place
            .run(&["run", "-q", "-e", &program, "-c", command])
            .succeeds();
        let line = format!("{expected} {expected}\n");
        assert!(run.out.contains(&line), "{line}: {}{}", run.out, run.err);
    }
    run("begin { print(()); }").fails(2, &["() has no value"]);
}

/// Of a choice whose sides have no value, the side chosen is done.
#[test]
fn statements_are_chosen_between() {
    needs_tracing!();
    for (program, out) in [
        ("begin { cpu < 0 ? print(1) : print(2); exit(); }", "2"),
        (
            "begin { true ? printf(\"a\\n\") : printf(\"b\\n\"); _ = pid ? exit() : print(1); }",
            "a",
        ),
        (
            "macro say(x) { x > 1 ? print(\"many\") : print(\"one\") } begin { say(2); say(1); exit(); }",
            "many\none",
        ),
    ] {
        assert_eq!(printed(program), out, "{program}");
    }
}

/// A branch of `if comptime` that is not taken may be of any type, also where the `if` is a value.
#[test]
fn branches_not_taken_are_of_any_type() {
    needs_tracing!();
    let program = "macro f(x) { if comptime (is_str(x)) { strlen(x) } else { x } } \
                   begin { print(f(\"abc\")); print(f(7)); exit(); }";
    assert_eq!(printed(program), "3\n7");
}

/// A map as an argument for an expression is its value.
#[test]
fn maps_are_values_where_macros_take_expressions() {
    needs_tracing!();
    let program = "macro f(m) { m } macro g(m) { print(m); } \
                   begin { @y = 5; print(f(@y)); g(@y); clear(@y); exit(); }";
    assert_eq!(printed(program), "5\n5");
    let program = "macro f(m) { (sizeof(m), is_integer(m), is_unsigned_integer(m)) } \
                   begin { @y = (uint16)5; print(f(@y)); clear(@y); exit(); }";
    assert_eq!(printed(program), "(2, true, true)");
}

/// `BPFTRACE_HAVE_BTF` is defined where the kernel says what its types are.
#[test]
fn types_of_the_kernel_are_known_to_the_preprocessor() {
    needs_tracing!();
    let has = std::path::Path::new("/sys/kernel/btf/vmlinux").exists();
    let program =
        "#ifdef BPFTRACE_HAVE_BTF\n#define Q 1\n#else\n#define Q 0\n#endif\nbegin { print(Q); exit(); }";
    assert_eq!(printed(program), u8::from(has).to_string());
}

/// Each event of a list may have a name before it.
#[test]
fn events_of_a_list_have_names() {
    needs_tracing!();
    assert_eq!(
        printed("a=begin, b = end { print(probe); exit(); }"),
        "begin\nend"
    );
}

/// The kernel's functions are named without what is behind their start.
#[test]
fn symbols_of_the_kernel_have_no_offset() {
    needs_tracing!();
    let inside = "ksym(kaddr(\"vfs_read\") + 4)";
    let program =
        format!("begin {{ @[{inside}] = 1; print({inside}); printf(\"%s\\n\", {inside}); exit(); }}");
    assert_eq!(printed(&program), "vfs_read\nvfs_read\n@[vfs_read]: 1");
}

/// A number may be the address of the array whose strings are joined.
#[test]
fn strings_at_a_number_are_joined() {
    needs_tracing!();
    assert_eq!(printed("begin { join(0); print(1); exit(); }"), "1");
}

/// Names of headers that BTF does not have: numbers of the kernel's interface are known, with their header and without.
#[test]
fn numbers_of_headers_are_known() {
    needs_tracing!();
    let program = "#include <sys/syscall.h>\n#include <fcntl.h>\nbegin { print((syscall_name(__NR_read), SYS_read == __NR_read, O_CREAT)); exit(); }";
    assert_eq!(printed(program), "(read, true, 64)");
    let program = "begin { print((O_CREAT, EAGAIN, __NR_read)); exit(); }";
    assert!(printed(program).starts_with("(64, 11, "));
}

/// A handler of `begin` that ends the program is the last of them.
#[test]
fn nothing_begins_behind_an_exit() {
    needs_tracing!();
    let program =
        "begin { printf(\"one\\n\"); exit(); } begin { printf(\"two\\n\"); } end { printf(\"end\\n\"); }";
    assert_eq!(printed(program), "one\nend");
    let program = "begin { printf(\"one\\n\"); } begin { printf(\"two\\n\"); exit(); }";
    assert_eq!(printed(program), "one\ntwo");
}

/// All fields of a tracepoint are one value, which variables and maps keep.
#[test]
fn fields_of_a_tracepoint_are_a_value() {
    needs_tracing!();
    let place = WorkFolder::new();
    std::fs::write(place.path().join("calls.pl"), "getpriority(0, 5)").unwrap();
    let program = "tracepoint:syscalls:sys_enter_getpriority /pid == cpid/ { $a = args; @b = args; print(($a.who, @b.which)); }";
    let run = place.run(&["run", "-q", "-c", "perl calls.pl", "-e", program]);
    assert!(run.succeeds().out.starts_with("(5, 0)\n"));
}
