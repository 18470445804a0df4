//! Values of all types: handlers compiled as a program's are, run in the interpreter, and what their maps hold as it is printed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

mod kernel;
#[path = "support/maps.rs"]
#[allow(dead_code, reason = "another test uses the rest")]
mod sharing;
mod support;

use sharing::{KERNEL, Maps};

/// Contents of a program's maps when it has run once.
#[track_caller]
fn once(program: &str, maps: &[&str]) -> String {
    let mut made = Maps::program(&[program]);
    made.machine.add_memory(
        kestrel_bpf::interp::Space::Kernel,
        KERNEL,
        b"hello\0world, and so on\0\0\0\0\0\0\0\0",
    );
    made.run(0, 0, &[KERNEL, 2, 3]);
    maps.iter().map(|map| made.text(map)).collect()
}

#[test]
fn memory_is_a_value() {
    assert_eq!(once("{ @ = buf(\"ok\", 3) }", &[""]), "@: ok\\x00\n");
    assert_eq!(once("{ @ = buf(arg0, 7) }", &[""]), "@: hello\\x00w\n");
    assert_eq!(once("{ $n = arg2; @ = buf(arg0, $n) }", &[""]), "@: hel\n");
    assert_eq!(once("{ @[buf(\"key\", 3), 1] = 2 }", &[""]), "@[key, 1]: 2\n");
    assert_eq!(
        once("{ $x = arg1 ? buf(\"hi\", 2) : buf(\"bye\", 3); @ = $x }", &[""]),
        "@: hi\n"
    );
    assert_eq!(
        once(
            "{ $a = buf(\"hi\", 2); $b = buf(\"bye\", 3); @[$a == $a, $a != $b, $a == $b] = 1 }",
            &[""]
        ),
        "@[true, true, false]: 1\n"
    );
    // A longer value before leaves nothing behind.
    assert_eq!(
        once(
            "{ $a = buf(\"longer\", 6); $a = buf(\"x\", 1); @ = ($a, 1) }",
            &[""]
        ),
        "@: (x, 1)\n"
    );
    assert_eq!(once("{ $a = \"longer\"; $a = \"x\"; @ = $a }", &[""]), "@: x\n");
}

#[test]
fn a_byte_of_an_escape_is_a_byte() {
    assert_eq!(
        once("{ @ = (sizeof(\"\\xff\"), buf(\"\\xff\\x80\", 2)) }", &[""]),
        "@: (2, \\xff\\x80)\n"
    );
    // Letters in UTF-8 are kept.
    assert_eq!(
        once(
            "{ @ = (sizeof(\"\\xe2\\x82\\xac\"), \"\\xe2\\x82\\xac\") }",
            &[""]
        ),
        "@: (4, €)\n"
    );
    assert_eq!(
        once("{ $a = \"\\xff\"; @ = ($a[0], \"\\xff\" == \"\\377\") }", &[""]),
        "@: (-1, true)\n"
    );
}

#[test]
fn types_are_read_from_left_to_right() {
    assert_eq!(
        once(
            "{ @ = (sizeof(uint32[4]*), sizeof(uint32*[4]), sizeof(uint32*[4]*), sizeof(uint32[4])) }",
            &[""]
        ),
        "@: (8, 32, 8, 16)\n"
    );
    assert_eq!(
        once("{ $p = (int8[5]*)arg0; @ = (sizeof(*$p), (*$p)[1]) }", &[""]),
        "@: (5, 101)\n"
    );
}

#[test]
fn a_narrow_number_is_an_address_of_its_own_bytes() {
    assert_eq!(
        once(
            "{ $x = -1; @ = ((uint8*)-1, (int8*)$x, (int8*)(int32)-2) }",
            &[""]
        ),
        "@: (0xff, 0xff, 0xfffffffe)\n"
    );
    assert_eq!(
        once("{ $a = 5; @ = (~$a, ~(uint8)5, ~0, ~(int64)5) }", &[""]),
        "@: (250, 250, 18446744073709551615, -6)\n"
    );
    assert_eq!(
        once("{ $a = (int32*)5; $a = (int8*)7; @ = $a + 1 }", &[""]),
        "@: 0xb\n"
    );
}

#[test]
fn a_text_in_quotes_has_a_nul() {
    assert_eq!(once("{ @ = (int8[])\"abc\" }", &[""]), "@: [97,98,99,0]\n");
    assert_eq!(
        once(
            "{ @ = (strcap(\"abc\"), str(\"abc\", 0), str(\"abc\", 2)) }",
            &[""]
        ),
        "@: (4, , ab)\n"
    );
    assert_eq!(
        once("{ @ = (\"a\" ? 1 : 2, (bool)\"\") }", &[""]),
        "@: (1, false)\n"
    );
}

/// `sizeof` and `strcap` say the same of a string wherever it is, its NUL in the longest that there may be (40 bytes here); sizes of others are those that bpftrace 0.27 says.
#[test]
fn sizes_are_bpftraces() {
    for (program, held) in [
        (
            "$s = str(arg0); @s = str(arg0); @ = (sizeof(str(arg0)), strcap(str(arg0)), sizeof($s), strcap($s), strcap(@s))",
            "(40, 40, 40, 40, 40)",
        ),
        (
            "$s = str(arg0, 5); @s = str(arg0, 5); @ = (sizeof(str(arg0, 5)), strcap(str(arg0, 5)), sizeof($s), strcap($s), strcap(@s))",
            "(5, 5, 5, 5, 5)",
        ),
        (
            "@s = \"abcd\"; @ = (sizeof(@s), strcap(@s), strcap(\"abcd\"))",
            "(5, 5, 5)",
        ),
        (
            "@ = (sizeof(kstack), sizeof(kstack(3)), sizeof(ustack), sizeof(ustack(3)))",
            "(1024, 32, 1032, 40)",
        ),
        (
            "@ = (sizeof(ntop(1)), sizeof(strftime(\"%H\", nsecs)), sizeof(strerror(arg1)))",
            "(24, 16, 64)",
        ),
        (
            "$b = buf(\"abc\", 3); @ = (sizeof(buf(\"ab\", 2)), sizeof($b))",
            "(6, 7)",
        ),
    ] {
        let program = format!("{{ {program} }}");
        assert_eq!(once(&program, &[""]), format!("@: {held}\n"), "{program}");
    }
}

#[test]
fn the_size_of_a_map_is_that_of_its_values() {
    assert_eq!(once("{ @a = (uint8)1; @ = sizeof(@a) }", &[""]), "@: 1\n");
    assert_eq!(
        once("{ @ = sizeof(@a); @a = (int8)1; @a = (uint8)1 }", &[""]),
        "@: 2\n"
    );
    assert_eq!(
        once("{ @a[1] = 70000; @ = (sizeof(@a), sizeof(@a[1])) }", &[""]),
        "@: (4, 4)\n"
    );
    assert_eq!(
        once("{ @a = \"abc\"; @a = \"abcdefgh\"; @ = sizeof(@a) }", &[""]),
        "@: 9\n"
    );
}

#[test]
fn variables_keep_the_width_of_their_first_value() {
    // 60000 is ea60, whose bytes the other way round are 24810.
    assert_eq!(once("{ $n = (uint16)60000; @ = bswap($n) }", &[""]), "@: 24810\n");
    assert_eq!(
        once("{ $n = (int8)-1; @ = (sizeof($n), $n) }", &[""]),
        "@: (1, -1)\n"
    );
    // Sums, steps and other values make it wider.
    assert_eq!(once("{ $n = (uint16)60000; @ = $n + $n }", &[""]), "@: 120000\n");
    assert_eq!(
        once("{ $n = (uint8)255; $n++; @ = (sizeof($n), $n) }", &[""]),
        "@: (8, 256)\n"
    );
    assert_eq!(
        once(
            "{ $n = (uint8)200; if (arg1) { $n = (uint32)70000 } @ = (sizeof($n), $n) }",
            &[""]
        ),
        "@: (4, 70000)\n"
    );
}

#[test]
fn arrays_and_numbers_are_each_other() {
    assert_eq!(once("{ @ = ((int8[8])12345)[0] }", &[""]), "@: 57\n");
    assert_eq!(once("{ @ = ((int8[])12345)[1] }", &[""]), "@: 48\n");
    assert_eq!(
        once(
            "{ @ = (uint32)pton(\"127.0.0.1\"); @six = pton(\"::1\")[15] }",
            &["", "six"]
        ),
        "@: 16777343\n@six: 1\n"
    );
    assert_eq!(once("{ $a = 7; $p = &$a; @ = *$p }", &[""]), "@: 7\n");
    assert_eq!(once("{ $a = (1, 2); @ = *(&$a) }", &[""]), "@: (1, 2)\n");
}

/// The verifier takes no accesses of the stack that are not aligned; neither does the interpreter.
#[test]
fn members_lie_anywhere() {
    assert_eq!(
        once(
            "{ @ = ((int8)1, \"abcdefghi\", pton(\"1.2.3.4\"), buf(arg0, 5), 7) }",
            &[""]
        ),
        "@: (1, abcdefghi, [1,2,3,4], hello, 7)\n"
    );
}

#[test]
fn tuples_are_compared_as_a_whole() {
    assert_eq!(
        once(
            "{ @[(1, \"a\") == (1, \"a\"), (arg1, 3) == (2, 3), (arg1, 3) != (2, 4)] = 1 }",
            &[""]
        ),
        "@[true, true, true]: 1\n"
    );
}

#[test]
fn long_strings_are_compared() {
    let program = "{ $a = str(arg0); $b = str(arg0); @[$a == $b, $a == \"hello\", $a != \"hell\"] = 1 }";
    assert_eq!(once(program, &[""]), "@[true, true, true]: 1\n");
}

#[test]
fn strings_are_sought_that_are_not_known() {
    let program = "{ $t = str(arg0); $a = \"ell\"; $b = \"elf\";
        @[strcontains($t, $a), strcontains($t, $b), strstr($t, $a)] = 1 }";
    assert_eq!(once(program, &[""]), "@[true, false, 1]: 1\n");
}

#[test]
fn loops_go_over_maps() {
    assert_eq!(
        once(
            "{ @m[16] = 32; @m[64] = 128; for ($kv : @m) { @n[$kv.1] = $kv.0; } @len = len(@m) }",
            &["n", "len"]
        ),
        "@n[32]: 16\n@n[128]: 64\n@len: 2\n"
    );
    assert_eq!(
        once(
            "{ @m[1, \"a\"] = 2; @m[3, \"b\"] = 4; $sum = 0; $t = \"\";
               for ($kv : @m) { $sum += $kv.0.0 * $kv.1; $t = $kv.0.1; } @ = ($sum, $t) }",
            &[""]
        ),
        "@: (14, b)\n"
    );
    // Of what was cleared nothing is seen; break and continue are the loop's own.
    assert_eq!(
        once(
            "{ @m[1] = 1; clear(@m); @m[2] = 2; @m[3] = 3; @m[4] = 4;
               for ($kv : @m) { if ($kv.0 == 2) { continue; } @seen[$kv.0]++; break; } @after = 1 }",
            &["seen", "after"]
        ),
        "@seen[3]: 1\n@after: 1\n"
    );
    assert_eq!(
        once(
            "{ @m[1] = 1; @m[2] = 2; for ($kv : @m) { @seen++; return; } @after = 1 }",
            &["seen"]
        ),
        "@seen: 1\n"
    );
}

#[test]
fn loops_are_in_loops() {
    let program = "{ @a[1] = 10; @a[2] = 20; @b[3] = 30; $n = 0; $last = (0, 0);
        for ($x : @a) { for ($y : @b) { $n += $x.1 + $y.1; $last = ($x.0, $y.0); } }
        @ = ($n, $last) }";
    assert_eq!(once(program, &[""]), "@: (90, (2, 3))\n");
}

#[test]
fn loops_read_aggregations() {
    let program = "{ @c[1] = count(); @c[2] = count(); for ($kv : @c) { @[$kv.0] = $kv.1; } }";
    assert_eq!(once(program, &[""]), "@[1]: 1\n@[2]: 1\n");
}

#[test]
fn loops_count_as_far_as_a_map_says() {
    let program = "{ @to = 1000; $sum = 0; for ($i : 0..@to) { $sum += $i; if ($i == 900) { break; } @to += 1; } @ = $sum }";
    assert_eq!(once(program, &["", "to"]), "@: 405450\n@to: 1900\n");
    assert_eq!(
        once("{ $n = 0; for ($i : arg2..arg1) { $n++; } @ = $n }", &[""]),
        "@: 0\n"
    );
}

#[test]
fn loops_go_on_as_long_as_their_condition_holds() {
    let program = "{ $n = 0; $odd = 0; while ($n < 5000) { $n++; if ($n % 2 == 0) { continue; } $odd += $n; } @ = ($n, $odd) }";
    assert_eq!(once(program, &[""]), "@: (5000, 6250000)\n");
    let nested = "{ $x = 0; $n = 0; while (1) { $y = 0; while ($y++ < $x) { $n += $y; } if ($x++ == 3) { break; } } @ = $n }";
    assert_eq!(once(nested, &[""]), "@: 10\n");
    assert_eq!(once("{ @ = 1; while (1) { return; } @ = 2 }", &[""]), "@: 1\n");
    let indexed =
        "{ $s = \"hello\"; $i = (uint64)0; $sum = 0; while ($i < 9) { $sum += $s[$i]; $i++; } @ = $sum }";
    assert_eq!(once(indexed, &[""]), "@: 532\n");
}

#[test]
fn stacks_of_no_frames_are_empty() {
    assert_eq!(once("{ @ = len(kstack(0)) }", &[""]), "@: 0\n");
}

#[test]
fn maps_are_read_before_they_are_written() {
    let mut made = Maps::program(&["{ for ($kv : @m) { @seen[$kv.0] = $kv.1; } }", "{ @m[5] = 6 }"]);
    for program in [0, 1, 0] {
        made.run(program, 0, &[0, 0, 0]);
    }
    assert_eq!(made.text("seen"), "@seen[5]: 6\n");
}

#[test]
fn strings_are_measured_joined_and_ordered() {
    let program = "{ $t = str(arg0); $u = str(arg0 + 6);
        @length = (strlen($t), strlen(\"abc\"), strlen(str(arg0 + 5)), strcap(\"abc\"));
        @joined = (str_concat($t, \", you\"), str_concat(\"a\", \"b\"), strlen(str_concat($t, $u)));
        @[str_concat($t, \"!\"), 1] = str_concat(\"?\", $u);
        $chosen = arg1 ? str_concat($t, \"-\") : \"none\"; @chosen = $chosen;
        @order = (memcmp($t, \"hello\", 5), memcmp($t, \"help\", 4), memcmp(\"b\", \"a\", 1), memcmp($t, \"hel\", 4) > 0) }";
    assert_eq!(
        once(program, &["", "chosen", "length", "joined", "order"]),
        "@[hello!, 1]: ?world, and so on\n@chosen: hello-\n@length: (5, 3, 0, 4)\n@joined: (hello, you, ab, 21)\n@order: (0, -4, 1, true)\n"
    );
}

/// `string` without a size holds the longest text that is stored in it.
#[test]
fn strings_without_a_size_grow() {
    let later = "{ let $s: string; $s = \"abcdef\"; @ = $s }";
    assert_eq!(once(later, &[""]), "@: abcdef\n");
    let longer = "{ let $s: string = \"ab\"; @a = $s; $s = \"abcdef\"; @b = $s }";
    assert_eq!(once(longer, &["a", "b"]), "@a: ab\n@b: abcdef\n");
    let shorter = "{ let $s: string = \"abcdef\"; @a = $s; $s = \"ab\"; @b = $s }";
    assert_eq!(once(shorter, &["a", "b"]), "@a: abcdef\n@b: ab\n");
    let read = "{ let $s: string = \"ab\"; $s = kstr(arg0); @ = $s }";
    assert_eq!(once(read, &[""]), "@: hello\n");
}

/// A negative of a narrow number without a sign is as narrow, known or not; so are the bits of what a map holds, turned round.
#[test]
fn negatives_are_as_wide_as_the_number() {
    assert_eq!(
        once(
            "{ $a = (uint8)arg1; @ = (-(uint8)1, -$a, -(uint16)1, -1, -(uint64)1) }",
            &[""]
        ),
        "@: (255, 254, 65535, -1, 18446744073709551615)\n"
    );
    assert_eq!(
        once("{ @ = 1; @n = ~@; @w = (uint64)1; @v = ~@w }", &["n", "v"]),
        "@n: 254\n@v: 18446744073709551614\n"
    );
}

/// The event's name is kept as a number, which takes less, unless a handler reads it or keeps it beside strings.
#[test]
fn names_of_events_are_strings_where_they_are_read() {
    let name = "kprobe:vfs_read";
    for (program, map, held) in [
        ("{ @ = probe; @ = \"x\" }", "", "@: x\n".to_owned()),
        (
            "{ @[\"x\"] = 1; @[probe] = 2 }",
            "",
            format!("@[x]: 1\n@[{name}]: 2\n"),
        ),
        ("{ @a = probe; @ = strlen(@a) }", "", "@: 15\n".to_owned()),
        ("{ @a = probe; @ = @a; @a = @ }", "", format!("@: {name}\n")),
        ("{ @a = (probe, 1); @ = @a.0 }", "", format!("@: {name}\n")),
        (
            "{ @a[probe] = 1; for ($kv : @a) { @ = $kv.0 } }",
            "",
            format!("@: {name}\n"),
        ),
    ] {
        assert_eq!(once(program, &[map]), held, "{program}");
    }
    for (program, is_string) in [
        ("{ @[probe] = count() }", false),
        ("{ @[probe] = count(); @[\"x\"] = count() }", true),
    ] {
        let made = Maps::program(&[program]);
        let keys = &made.globals.map("").unwrap().keys;
        let is = matches!(
            keys.as_slice(),
            [kestrel_trace::layout::FieldType::CharArray { .. }]
        );
        assert_eq!(is, is_string, "{program}");
    }
}

#[test]
fn strings_are_read_at_any_pointer() {
    for pointer in ["uint64", "int32", "char", "void"] {
        let program = format!("{{ $p = ({pointer} *)arg0; @ = str($p, 4) }}");
        assert_eq!(once(&program, &[""]), "@: hel\n", "{pointer}");
    }
    // The NUL counts, but of a text that the program names.
    assert_eq!(
        once(
            "{ $p = arg0; @ = (str($p, 1), str($p, 2), str(\"abc\", 1)) }",
            &[""]
        ),
        "@: (, h, a)\n"
    );
    // A string of a map is cut, too, in every use of it.
    let of_map = "{ @s = \"abcdef\"; @ = (str(@s, 3), str(@s, 3) == \"ab\", strlen(str(@s, 3))) }";
    assert_eq!(once(of_map, &[""]), "@: (ab, true, 2)\n");
    let as_key = "{ @s = \"abcdef\"; @[str(@s, 3)] = 1 }";
    assert_eq!(once(as_key, &[""]), "@[ab]: 1\n");
    // So it does where the length is known only when the program runs: there is no string in no bytes.
    let lengths = "{ $p = arg0; $no = (uint64)arg0 - arg0; $one = $no + 1; $three = $no + 3;
        @ = (str($p, $no), str($p, $one), str($p, $three), str($p, $no - 1)) }";
    assert_eq!(once(lengths, &[""]), "@: (, , he, hello)\n");
}

#[test]
fn addresses_of_cards_are_made_of_any_six_bytes() {
    let made = "@: 61:62:63:64:65:00\n";
    for array in ["uint8", "int8"] {
        assert_eq!(
            once(&format!("{{ @ = macaddr(({array}[6])\"abcde\") }}"), &[""]),
            made
        );
    }
}

/// As in bpftrace: shown at the width of its operand, calculated with as the signed number that it is.
#[test]
fn bits_turned_round_are_calculated_with_by_their_sign() {
    for value in ["$x", "(int8)7", "@m"] {
        let made = once(
            &format!(
                "{{ @m = (int8)7; $x = (int8)7; $y = ~{value}; @ = (~{value}, $y, ~~{value}, ~{value} == -8, -8 == ~{value}, ~{value} > 0, ~{value} * 2, (int64)~{value}, (uint16)~{value}, -~{value}) }}"
            ),
            &[""],
        );
        let shown = "248, 248, 7, true, true, false, -16, -8, 65528, 8";
        assert_eq!(made, format!("@: ({shown})\n"), "{value}");
    }
    assert_eq!(
        once("{ $x = (int32)7; @ = min(~$x); @s = sum(~$x) }", &["", "s"]),
        "@: -8\n@s: -8\n"
    );
    // Those of unsigned operands have none.
    assert_eq!(
        once(
            "{ $x = (uint8)7; @ = (~$x, ~$x == 248, ~$x > 0, ~$x * 2) }",
            &[""]
        ),
        "@: (248, true, true, 496)\n"
    );
}

#[test]
fn a_variable_that_a_loop_declares_is_empty_at_each_turn() {
    let loops = ["for ($i : 0..3)", "$i = -1; while ($i++ < 2)"];
    for (declared, shown) in [
        ("let $x; if ($i == 1) { $x = 7; } @[$i] = $x;", ["0", "7", "0"]),
        ("let $x; $x += $i; @[$i] = $x;", ["0", "1", "2"]),
        (
            "let $x; if ($i == 1) { $x = \"abc\"; } @[$i] = $x == \"\" ? 0 : 7;",
            ["0", "7", "0"],
        ),
        (
            "let $x; if ($i == 1) { $x = (7, \"a\"); } @[$i] = $x.0;",
            ["0", "7", "0"],
        ),
        (
            "let $x; if ($i == 1) { $x = true; } @[$i] = $x ? 7 : 0;",
            ["0", "7", "0"],
        ),
    ] {
        for around in loops {
            let shown: String = (0..)
                .zip(shown)
                .map(|(at, value)| format!("@[{at}]: {value}\n"))
                .collect();
            let mut made = once(&format!("{{ {around} {{ {declared} }} }}"), &[""]);
            let mut lines: Vec<&str> = made.lines().collect();
            lines.sort_unstable();
            made = lines.join("\n") + "\n";
            assert_eq!(made, shown, "{around} {declared}");
        }
    }
    // What stands outside of the loop keeps its value.
    assert_eq!(
        once("{ let $x; for ($i : 0..3) { $x += $i; } @ = $x; }", &[""]),
        "@: 3\n"
    );
}

#[test]
fn aggregations_of_signed_and_unsigned_values_are_signed() {
    for functions in [["(uint64)5", "(int64)-7"], ["(int64)-7", "(uint64)5"]] {
        let add = |to: &str, value: &str| {
            format!(
                "@max = max({value}); @min = min({value}); @sum = sum({value}); @avg = avg({value}); @stats = stats({value}); @{to} = 1;"
            )
        };
        let [one, other] = functions.map(|value| add("done", value));
        let shown =
            "@max: 5\n@min: -7\n@sum: -2\n@avg: -1\n@stats: { .count = 2, .average = -1, .total = -2 }\n";
        let maps = ["max", "min", "sum", "avg", "stats"];
        assert_eq!(once(&format!("{{ {one} {other} }}"), &maps), shown);
        // Handlers apart, also a reader before both.
        let mut made = Maps::program(&[
            "{ @r = (int64)@max }",
            &format!("{{ {one} }}"),
            &format!("{{ {other} }}"),
        ]);
        made.run(1, 0, &[]);
        made.run(2, 1, &[]);
        made.run(0, 0, &[]);
        assert_eq!(maps.iter().map(|map| made.text(map)).collect::<String>(), shown);
        assert_eq!(made.text("r"), "@r: 5\n");
    }
}

/// Also where the bits that come in at the top are zeroes, as in bpftrace: what is shifted says the sign.
#[test]
fn operators_that_change_nothing_keep_the_sign() {
    for ty in ["int8", "int16", "int32", "int64"] {
        let start = format!("$x = ({ty})-5; $zero = (uint8)arg1 - 2;");
        for same in [
            ">> 0", "<< 0", "+ 0", "- 0", "* 1", "/ 1", "| 0", "^ 0", "& -1", ">> $zero", "<< $zero",
        ] {
            assert_eq!(
                once(
                    &format!(
                        "{{ {start} $y = $x {same}; @ = ($x {same}, $y, ($x {same}) < 0, (int64)$y); @m = min($y) }}"
                    ),
                    &["", "m"]
                ),
                "@: (-5, -5, true, -5)\n@m: -5\n",
                "{ty} {same}"
            );
        }
        assert_eq!(
            once(&format!("{{ {start} @ = ($x >> 1, $x >> 1 < 0) }}"), &[""]),
            "@: (9223372036854775805, false)\n"
        );
    }
    assert_eq!(
        once("{ $x = (uint64)-5; @ = ($x >> 0, $x >> 0 > 0, $x >> 1) }", &[""]),
        "@: (18446744073709551611, true, 9223372036854775805)\n"
    );
}
