//! `kestrel run`: what programs print and how they end.

use crate::command::{WorkFolder, needs_tracing};

/// Output of a program, without the messages about its probes.
fn printed(program: &str) -> String {
    WorkFolder::new()
        .run(&["run", "-q", "-e", program])
        .succeeds()
        .out
}

#[test]
fn programs_print_in_the_order_of_time() {
    needs_tracing!();
    let program = r#"begin { printf("%d %s\n", 1 + 1, "two"); print((1, "a")); }
        interval:ms:20 { if (@n++ == 2) { exit(); } }
        end { for ($i : 0..3) { printf("%d ", $i); } printf("bye\n"); }"#;
    let out = printed(program);
    assert!(out.starts_with("2 two\n(1, a)\n0 1 2 bye\n"), "{out}");
    assert!(out.contains("@n: 3\n"), "{out}");
}

/// Constants that `begin` and `end` print are written by the reader, without a program, in their source order among records that programs write.
#[test]
fn constant_output_of_begin_and_end_needs_no_bpf_program() {
    needs_tracing!();
    let messages = r#"begin { printf("%-4s|\n", "a"); print(7); }"#;
    let pid = r#"begin { printf("%d\n", pid > 0); }"#;
    let end = r#"end { printf("d\n"); print(@x); clear(@x); print(@x); print(@y, 1); clear(@y); }"#;
    let maps = "begin { @x[1] = 2; @y[1] = 3; @y[2] = 4; printf(\"c\\n\"); exit(); }";
    let out = printed(&format!("{messages} {pid} {maps} {end}"));
    assert_eq!(
        out.trim_end().replace("\n\n", "\n"),
        "a   |\n7\n1\nc\nd\n@x[1]: 2\n@y[2]: 4"
    );
    let end = r#"end { printf("d\n"); print(@x); clear(@x); print(@y, 1); clear(@y); }"#;
    let out = printed(&format!("{messages} {maps} {end}"));
    assert_eq!(
        out.trim_end().replace("\n\n", "\n"),
        "a   |\n7\nc\nd\n@x[1]: 2\n@y[2]: 4"
    );
    let idle = |program: &str| {
        let shown = WorkFolder::new().run(&["run", "--dry-run", "-d", "all", "-e", program]);
        shown.succeeds().err.contains("program: 2 instructions")
    };
    assert!(idle(messages));
    assert!(!idle(pid));
    assert!(!idle(r#"begin { if (pid > 0) { printf("a\n"); } }"#));
}

/// An interval that only prints and clears is its reader's: what events add falls into one interval each, with keys and without, and `exit` ends it.
#[test]
fn intervals_that_only_print_and_clear_need_no_program() {
    needs_tracing!();
    let by_reader = |program: &str| {
        let shown = WorkFolder::new().run(&["run", "--dry-run", "-d", "all", "-e", program]);
        shown
            .succeeds()
            .err
            .contains("printed by the session itself at interval:")
    };
    let counts = "begin { @n = count(); @k[1] = count(); }";
    assert!(by_reader(&format!(
        r#"{counts} interval:ms:20 {{ time("%H "); printf("a\n"); print(@n); clear(@n); zero(@k); }}"#
    )));
    assert!(!by_reader(&format!(
        "{counts} interval:ms:20 {{ clear(@n); @n = count(); }}"
    )));
    assert!(!by_reader(&format!(
        "{counts} interval:ms:20 /pid > 0/ {{ print(@n); }}"
    )));
    assert!(!by_reader("begin { @s = 1; } interval:ms:20 { clear(@s); }"));

    // It ends when the reader has cleared what was counted.
    let program = r#"profile:ms:1 {
            if ((int64)@i < 200) { @i = count(); @n = count(); @k[cpu % 2] = sum(1); } else if ((int64)@n == 0) { exit(); }
        }
        interval:ms:10 { print(@n); clear(@n); print(@k); clear(@k); }"#;
    let out = printed(program);
    let of = |name: &str| -> u64 {
        let lines = out.lines().filter(|line| line.starts_with(name));
        lines
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    };
    // Each CPU counts until it sees that all have done enough.
    assert!(of("@i:") >= 200, "{out}");
    assert_eq!([of("@n:"), of("@k[")], [of("@i:"); 2], "{out}");
}

/// Intervals that are due at the same moment come in source order, also before the `exit` of the later one: all of them are the kernel's or all the reader's.
#[test]
fn intervals_keep_their_source_order() {
    needs_tracing!();
    let program = r#"interval:ms:20 { printf("tick\n"); } interval:ms:20 { printf("%d\n", ++@n); exit(); }"#;
    let shown = WorkFolder::new().run(&["run", "--dry-run", "-d", "all", "-e", program]);
    let shown = shown.succeeds().err;
    assert!(!shown.contains("printed by the session itself"), "{shown}");
    // The kernel leaves a tick out that falls into another program's run, as those of other tests.
    let is_whole = |_| printed(program).starts_with("tick\n1\n");
    assert!((0..5).any(is_whole));
}

/// A slow reader misses intervals: a warning gives their number, and no count is lost.
#[test]
fn missed_intervals_are_counted() {
    needs_tracing!();
    // 500 are due while the command sleeps, and a map without keys keeps the last 32.
    let program = r#"tracepoint:sched:sched_switch { @i = count(); @n = count(); if (@slept == 0) { @slept = 1; system("sleep 1"); } }
        interval:ms:2 { print(@n); clear(@n); }"#;
    let run = ["run", "-q", "--unsafe", "-c", "sleep 2", "-e", program];
    let shown = WorkFolder::new().run(&run).succeeds();
    assert!(shown.err.contains("WARNING: missed intervals "), "{}", shown.err);
    let of = |name: &str| -> u64 {
        let lines = shown.out.lines().filter_map(|line| line.strip_prefix(name));
        lines.filter_map(|count| count.trim().parse::<u64>().ok()).sum()
    };
    assert!(of("@i:") > 0, "{}", shown.out);
    assert_eq!(of("@n:"), of("@i:"), "{}", shown.out);
}

/// A sum of zeroes is a sum, and one that was cleared is none.
#[test]
fn sums_of_nothing_are_shown() {
    needs_tracing!();
    let out = printed("begin { @zero = sum(0); @gone = sum(1); clear(@gone); exit(); }");
    assert_eq!(out.trim(), "@zero: 0");
}

/// Maps in which nothing was stored are not shown at the end; zeroes that were stored are, and such a map printed by name is 0.
#[test]
fn maps_never_written_are_not_printed_at_the_end() {
    needs_tracing!();
    let stores =
        "@n = 5 * elapsed; @t = comm; @both = (1, elapsed); @s = sum(elapsed); @most = max(elapsed);";
    let out = printed(&format!(
        "begin {{ @zero = 0; @empty = \"\"; @none = (0, 0); @sum = sum(0); @max = max(0); @gone = 0; clear(@gone); exit(); }} interval:s:100 {{ {stores} }}"
    ));
    assert_eq!(out.trim(), "@empty: \n@max: 0\n@none: (0, 0)\n@sum: 0\n@zero: 0");
    let out = printed(&format!(
        "begin {{ print(@n); print(@s); exit(); }} interval:s:100 {{ {stores} }}"
    ));
    assert_eq!(out.trim(), "@n: 0\n@s: 0");
    let json = WorkFolder::new().run(&[
        "run",
        "-q",
        "-f",
        "json",
        "-e",
        &format!("begin {{ @zero = 0; exit(); }} interval:s:100 {{ {stores} }}"),
    ]);
    let json = json.succeeds().out;
    assert!(json.contains("\"@zero\""), "{json}");
    assert!(!json.contains("\"@n\"") && !json.contains("\"@s\""), "{json}");
}

/// A map is read before the handler that fills it, and a variable grows with what is stored in it.
#[test]
fn types_of_maps_and_variables_follow_from_all_their_uses() {
    needs_tracing!();
    let program = r#"begin { print(@later["x"]); $s = "a"; $s = "longer"; print($s); exit(); }
        end { @later["x"] = "text"; @pairs[(1, 2), "k"] = (3, "v"); }"#;
    let out = printed(program);
    assert!(out.starts_with("\nlonger\n"), "{out}");
    assert!(
        out.contains("@later[x]: text\n") && out.contains("@pairs[(1, 2), k]: (3, v)\n"),
        "{out}"
    );
}

/// Each reading of a map that is cleared shows what was counted since the one before.
#[test]
fn no_count_is_lost_or_doubled_over_clearings() {
    needs_tracing!();
    let program = r#"begin { @c = count(); @c = count(); print(@c); clear(@c); @c = count(); print(@c); clear(@c); exit(); }"#;
    let out = printed(program);
    assert!(out.starts_with("@c: 2\n"), "{out}");
    let counts = out.matches("@c: 2\n").count() + out.matches("@c: 1\n").count();
    assert_eq!(counts, 2, "{out}");
}

/// The kernel takes loops whose bodies it calls back: with captured numbers that grow, texts, loops in loops, and an early end.
#[test]
fn loops_go_over_maps() {
    needs_tracing!();
    let program = r#"begin {
        @m[1, "a"] = 10; @m[2, "b"] = 20; @c[7] = count(); @to = 3;
        $sum = 0; $all = "";
        for ($kv : @m) { $sum += $kv.0.0 * $kv.1; $all = $kv.0.1; for ($c : @c) { $sum += $c.1; } }
        for ($i : 0..@to) { $sum += $i; @to++; }
        if ($sum > 50) { print(($sum, len(@m), $all)); }
        for ($kv : @m) { print($kv); exit(); }
        printf("never\n"); }"#;
    let out = printed(program);
    assert!(out.starts_with("(55, 2, "), "{out}");
    assert!(
        out.contains("((1, a), 10)\n") != out.contains("((2, b), 20)\n"),
        "{out}"
    );
    assert!(!out.contains("never"), "{out}");
}

#[test]
fn values_of_all_types_are_kept() {
    needs_tracing!();
    let program = r#"begin {
        $b = buf("a\0b", 3); $n = 2; @b[buf("key", $n), strftime("%Y", 0)] = ($b, pton("127.0.0.1"));
        $part = "lo w"; print(strcontains("hello world", $part));
        print((kstack(2), len(kstack(2)))); printf("%rh\n", $b); exit(); }"#;
    let out = printed(program);
    assert!(out.starts_with("true\n(\n"), "{out}");
    assert!(out.contains(", 2)\n61 00 62\n"), "{out}");
    assert!(out.contains("]: (a\\x00b, [127,0,0,1])\n"), "{out}");
}

#[test]
fn programs_that_are_wrong_are_refused() {
    needs_tracing!();
    let place = WorkFolder::new();
    let wrong = |program: &str, words: &[&str]| place.run(&["run", "-e", program]).fails(2, words);
    wrong("begin { nosuch() }", &["Unknown function: 'nosuch'"]);
    wrong("begin { printf(\"%d\") }", &["not enough arguments"]);
    wrong(
        "begin { system(\"touch here\") }",
        &["unsafe function", "--unsafe"],
    );
    // Only programs fire them.
    place
        .run(&["record", "-e", "BEGIN", "--", "true"])
        .fails(2, &["BEGIN", "kestrel run"]);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn the_code_of_exit_is_the_commands() {
    needs_tracing!();
    WorkFolder::new()
        .run(&["run", "-e", "begin { exit(3) }"])
        .fails(3, &[]);
}

/// A walk sees each object once, and the program ends by itself; `exit` does not cut it short, and -p walks one process.
#[test]
fn iterators_walk_once() {
    needs_tracing!();
    let pid = std::process::id();
    let program = r#"begin { printf("begin\n") }
        iter:task { @[ctx.task.tgid == PID] = count(); if (ctx.task.pid == PID) { printf("%d %d\n", ctx.task.tgid, ctx.meta.session_id > 0); } exit(); }
        it:task_file { if (ctx.task.pid == PID && ctx.fd == 0) { printf("fd 0: %d\n", ctx.file.f_mode > 0); } }
        end { printf("end\n") }"#;
    let program = program.replace("PID", &pid.to_string());
    let out = printed(&program);
    let begin = format!("begin\n{pid} 1\nfd 0: 1\nend\n");
    assert!(out.starts_with(&begin) && out.contains("@[false]: "), "{out}");
    let own = ["run", "-q", "-p", &pid.to_string(), "-e", &program];
    let out = WorkFolder::new().run(&own).succeeds().out;
    assert!(out.starts_with(&begin) && !out.contains("@[false]: "), "{out}");
    assert!(out.contains("@[true]: "), "{out}");
    // With -c they walk the command, which runs by then.
    let program = "iter:task { printf(\"%s %d\\n\", ctx.task.comm, ctx.task.pid == cpid); }";
    let run = ["run", "-q", "-c", "sleep 1", "-e", program];
    let out = WorkFolder::new().run(&run).succeeds().out;
    assert_eq!(out.trim(), "sleep 1");
}

/// `print` of a map without keys shows what it holds at that moment, whatever is done to it before the line is read.
#[test]
fn maps_without_keys_are_printed_as_they_are_at_that_moment() {
    needs_tracing!();
    let program = r#"begin { @s = "abc"; print(@s); clear(@s); @t = (1, "x"); print(@t); zero(@t); @t = (2, "y"); print(@t); clear(@t);
        @c = comm; print(@c); clear(@c); exit(); }"#;
    let out = printed(program);
    assert!(
        out.starts_with("@s: abc\n@t: (1, x)\n@t: (2, y)\n@c: kestrel\n"),
        "{out}"
    );
}

/// A declared map that evicts holds the newest keys and loses no update.
#[test]
fn maps_that_evict_are_never_full() {
    needs_tracing!();
    let program = r#"let @a = percpulruhash(1); let @b = lruhash(100); let @c = hash(1);
        begin { @a[1] = count(); @a[2] = count(); for ($i : 0..1000) { @b[$i] = $i; } @c[1] = 1; @c[2] = 2; @n = len(@b) }"#;
    let run = WorkFolder::new().run(&["run", "-q", "-e", program]).succeeds();
    assert!(
        run.out.contains("@a[2]: 1\n") && run.out.contains("@b[999]: 999\n"),
        "{}",
        run.out
    );
    assert!(!run.out.contains("@c[2]"), "{}", run.out);
    let full = run.err.matches("Map full").count();
    assert!(
        full == 1 && run.err.contains("@c has room for 1 key"),
        "{}",
        run.err
    );
}

/// With -k, failures of helpers are said at each place once, then how often they happened again; without it they are not.
#[test]
fn failures_of_helpers_are_said_where_that_is_asked() {
    needs_tracing!();
    let program = r#"begin { @x[1] = 2; for ($i : 0..5) { print(@x[$i]); } if (has_key(@x, 9)) { } print(*uptr(kaddr("schedule"))); }"#;
    let run = |arguments: &[&str]| {
        let answer = WorkFolder::new().run(&[&["run", "-q"], arguments, &["-e", program]].concat());
        answer.succeeds()
    };
    let with = run(&["-k"]);
    let lookup = "map_lookup_elem, retcode: 0, 3 more times\n";
    assert_eq!(with.err.matches("Additional Info").count(), 3, "{}", with.err);
    assert!(with.err.contains(lookup), "{}", with.err);
    assert!(
        with.err.contains("Failed to probe_read_user: Bad address (-14)"),
        "{}",
        with.err
    );
    let without = run(&[]);
    assert_eq!(without.out, with.out);
    assert!(!without.err.contains("Additional Info"), "{}", without.err);
}

/// Lines of JSON have failures of helpers among what the program prints; full maps and divisions by zero are there without -k, too.
#[test]
fn failures_of_helpers_are_lines_of_json() {
    needs_tracing!();
    let run = |arguments: &[&str], program: &str| {
        let arguments = [&["run", "-q", "-f", "json"], arguments, &["-e", program]].concat();
        WorkFolder::new().run(&arguments).succeeds()
    };
    let full = run(
        &[],
        "let @m = hash(2); begin { @m[1] = 1; @m[2] = 2; @m[3] = 3; @z = @m[9] / @m[8]; }",
    );
    let update = r#"{"type": "helper_error", "msg": "Argument list too long", "helper": "map_update_elem", "retcode": -7, "filename": "stdin", "line": 1, "col": 49}"#;
    assert!(full.out.contains(update), "{}", full.out);
    assert!(
        full.out
            .contains(r#"{"type": "runtime_error", "msg": "Divide or modulo by 0"#),
        "{}",
        full.out
    );
    assert!(!full.out.contains("map_lookup_elem"), "{}", full.out);
    assert!(!full.err.contains("full"), "{}", full.err);
    let lookup = run(
        &["-k"],
        "begin { @x[1] = 1; for $i : 0..3 { print(@x[$i + 4]); } }",
    );
    let line = r#""helper": "map_lookup_elem", "retcode": 0, "filename": "stdin", "line": 1, "col": 42, "times": 2}"#;
    assert!(lookup.out.contains(line), "{}", lookup.out);
    assert!(!lookup.err.contains("Additional Info"), "{}", lookup.err);
}

/// A record is one key of a map wherever it comes from: written out, in a variable, in another map.
#[test]
fn records_are_whole_keys() {
    needs_tracing!();
    let program = r#"begin { $t = (a = 1, b = "x"); @k[$t] = 1; @k[(a = 1, b = "x")]++; @v = $t; print(@k[@v]);
        for $kv : @k { print($kv.0.b); print($kv); } clear(@k); clear(@v); }"#;
    let run = WorkFolder::new().run(&["run", "-q", "-e", program]).succeeds();
    assert_eq!(run.out.trim(), "2\nx\n({ .a = 1, .b = x }, 2)", "{}", run.err);
}

/// The context of a clock's program has its members and its registers.
#[test]
fn clocks_have_registers_and_a_period() {
    needs_tracing!();
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    let program =
        r#"interval:ms:20 { print((ctx.sample_period, ctx.regs.ip == reg("ip"), reg("ip") > 0)); exit(); }"#;
    let run = WorkFolder::new().run(&["run", "-q", "-e", program]).succeeds();
    assert_eq!(run.out.trim(), "(20000000, true, true)", "{}", run.err);
}

/// Loops go over maps with stacks in their keys, which other handlers stored; a block that ends in a map function is one; tuples of other lengths are not equal; an array
/// of arrays is found where an address leads.
#[test]
fn stacks_as_keys_and_blocks_of_map_functions() {
    needs_tracing!();
    let program = r#"let @d = hash(9); let @d = hash(9);
        begin { @a[kstack(2), 7] = 1; $t = "abcdefgh"; $p = (int8[4][2]*)&$t; print(((*$p)[1][0], (*$p)[0])); @b[1] = { $x = 4; sum($x) }; @b[1] = { { sum(5) } }; @c[ustack] = { count() };
            for $kv : @a { print($kv.0.1); @d[$kv.0] = 3; delete(@a, $kv.0); } print(len(@a)); print((1, 2) == (1, 2, 3)); print(sizeof(void)); }
        end { for $kv : @c { print(("c", $kv.1)); } for $kv : @d { print(("d", $kv.0.1)); } print(@b, -1); clear(@b); clear(@c); clear(@d); }"#;
    let run = WorkFolder::new().run(&["run", "-q", "-e", program]).succeeds();
    assert_eq!(
        run.out.trim_end(),
        "(101, [97,98,99,100])\n7\n0\nfalse\n0\n(c, 1)\n(d, 7)\n@b[1]: 9",
        "{}",
        run.err
    );
}

/// A `while` loop runs as long as its condition holds; one that reaches the limit of bpf_loop ends with a warning.
#[test]
fn loops_by_a_condition_are_ended_by_it_or_by_the_kernel() {
    needs_tracing!();
    let program = "begin {
        $i = 0; while (true) { $i++; if ($i > 1000000) { break; } } print($i);
        $outer = 0; $odd = 0;
        while ($outer < 300) { $outer++; $inner = 0; while ($inner < 300) { $inner++; if ($inner % 2 == 0) { continue; } $odd++; } }
        print(($outer, $odd));
        $text = \"a\"; $n = 0; while (1) { $n++; $text = \"b\"; } print(($n, $text));
        while (1) { return; }
        print(\"never\");
    }";
    let run = WorkFolder::new().run(&["run", "-q", "-e", program]).succeeds();
    assert_eq!(
        run.out, "1000001\n(300, 45000)\n(8388607, b)\n\n\n",
        "{}",
        run.err
    );
    assert_eq!(run.err.matches("The loop was ended").count(), 1, "{}", run.err);
}

/// Packets that a program hands over are whole in a file for tcpdump: as many as were sent, from the header of IP on.
#[test]
fn packets_are_written_to_a_file() {
    needs_tracing!();
    if !crate::command::has("bash") {
        return;
    }
    const PACKETS: usize = 200;
    const MARK: &[u8] = b"kestrel hands packets over";
    let place = WorkFolder::new();
    let (file, script) = (place.path().join("sent.pcap"), place.path().join("send.sh"));
    let program = format!(
        "rawtracepoint:net_dev_queue /pid == cpid/ {{ @answers[skboutput(\"{}\", args.skb, args.skb.len, 14)] = count(); }}",
        file.display()
    );
    // The port has no receiver, which each socket learns after it has sent.
    let send = format!(
        "for i in $(seq {PACKETS}); do printf '{}' > /dev/udp/127.0.0.1/9; done",
        String::from_utf8_lossy(MARK)
    );
    std::fs::write(&script, send).unwrap();
    let command = format!("bash {}", script.display());
    let run = place.run(&["run", "-e", &program, "-c", &command]);
    if run.err.contains("a packet that the kernel vouches for") {
        eprintln!("skipped: this kernel tells no types of raw tracepoints");
        return;
    }
    let run = run.succeeds();
    // The kernel answers each in the sender's name, since the port has no receiver.
    let answers: Vec<&str> = run
        .out
        .lines()
        .filter(|line| line.starts_with("@answers"))
        .collect();
    assert!(
        matches!(answers.as_slice(), [one] if one.starts_with("@answers[0]: ")),
        "{}",
        run.out
    );
    let bytes = std::fs::read(&file).unwrap();
    assert_eq!(
        (&bytes[..4], bytes[20]),
        (&[0x4d, 0x3c, 0xb2, 0xa1][..], 101),
        "{}",
        run.out
    );
    let mut rest = &bytes[24..];
    let mut marked = 0;
    while let Some((head, behind)) = rest.split_at_checked(16) {
        let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let (packet, next) = behind.split_at(length);
        // Version 4, and behind the headers of IP and UDP what was sent.
        if packet.first().is_some_and(|byte| byte >> 4 == 4) && packet.get(28..) == Some(MARK) {
            marked += 1;
        }
        rest = next;
    }
    assert!(rest.is_empty());
    assert_eq!(marked, PACKETS, "{}\n{}", run.out, run.err);
    place
        .run(&["run", "-e", "interval:s:1 { skboutput(\"x\", 1, 1, 0) }"])
        .fails(2, &["a parameter of type struct sk_buff *"]);
}

/// `exit` ends the view, and its code is the command's; what is printed behind it in time is not shown.
#[test]
fn live_views_print_what_handlers_print() {
    needs_tracing!();
    let program = r#"syscalls:sys_enter_getppid /comm == "kestrel-live"/ { @[comm] = count(); printf("%s %d\n", comm, 7); }
        interval:ms:20 /@["kestrel-live"] == 3/ { print(@); exit(4); printf("behind\n"); }"#;
    let script = "$0 = 'kestrel-live'; getppid for 1..3; sleep 60";
    let answer = WorkFolder::new().run(&[
        "trace",
        "-a",
        "-e",
        program,
        "--duration",
        "60",
        "--",
        "perl",
        "-e",
        script,
    ]);
    answer.fails(4, &[]);
    assert_eq!(
        answer.out.matches("kestrel-live 7\n").count(),
        3,
        "{}",
        answer.out
    );
    assert!(answer.out.contains("@[kestrel-live]: 3\n"), "{}", answer.out);
    assert!(!answer.out.contains("behind"), "{}", answer.out);
}
