//! Maps from text to the printed line: handlers are compiled, run in the interpreter on several processors, and what the maps hold is read as
//! the recorder reads it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

#[allow(dead_code, reason = "the syntax tree is shown by another test")]
mod dump;
mod kernel;
#[path = "support/maps.rs"]
mod sharing;
mod support;

use kestrel_bpf::interp::{Machine, Space};
use kestrel_compiler::check::check;
use kestrel_compiler::check::globals::{DeclaredMap, Globals};
use kestrel_compiler::context::{Context, END};
use kestrel_compiler::ir::MapKind;
use kestrel_compiler::lang::diag::{Style, render};
use kestrel_compiler::lang::parse_events;
use kestrel_compiler::map::spec;
use kestrel_trace::aggregate::gather::Metric;
use kestrel_trace::aggregate::{self, MapType, state};
use kestrel_trace::symbol::Symbols;
use proptest::prelude::*;
use sharing::{CPUS, KERNEL, Maps, after, registers};

#[test]
fn numbers_without_keys() {
    assert_eq!(after("{ @ = count() }", &[1; 7]), "@: 7\n");
    assert_eq!(after("{ @ = count() }", &[]), "");
    assert_eq!(after("{ @ = sum(arg2) }", &[1, 2, 40]), "@: 43\n");
    assert_eq!(after("{ @ = sum((int32)arg2) }", &[1, 0xffff_fff0]), "@: -15\n");
    assert_eq!(after("{ @ = min(arg2) }", &[7, 3, 9, 3]), "@: 3\n");
    assert_eq!(after("{ @ = max(arg2) }", &[7, 3, 9, 3]), "@: 9\n");
    assert_eq!(
        after("{ @ = max((int64)arg2) }", &[-7i64 as u64, -3i64 as u64]),
        "@: -3\n"
    );
    assert_eq!(
        after("{ @ = min((int64)arg2) }", &[5, -3i64 as u64, 8]),
        "@: -3\n"
    );
    assert_eq!(after("{ @ = avg(arg2) }", &[1, 2, 6, 8]), "@: 4\n");
    assert_eq!(
        after("{ @ = stats(arg2) }", &[1, 2, 6, 8]),
        "@: { .count = 4, .average = 4, .total = 17 }\n"
    );
    assert_eq!(after("{ @++ }", &[1; 5]), "@: 5\n");
    assert_eq!(after("{ @ += arg2; @ -= 1 }", &[10, 20]), "@: 28\n");
    assert_eq!(after("{ @ = @ * 2 + 1 }", &[0; 4]), "@: 15\n");
    assert_eq!(after("{ @ |= arg2 }", &[1, 4]), "@: 5\n");
    assert_eq!(after("{ @ = comm }", &[0]), "@: worker\n");
    assert_eq!(after("{ @ = arg2 == 3 }", &[1, 3]), "@: true\n");
}

#[test]
fn keys_of_every_kind() {
    let counts = [3, 1, 3, 3, 2, 1];
    assert_eq!(
        after("{ @[arg2] = count() }", &counts),
        "@[2]: 1\n@[1]: 2\n@[3]: 3\n"
    );
    assert_eq!(after("{ @[arg2]++ }", &counts), "@[2]: 1\n@[1]: 2\n@[3]: 3\n");
    assert_eq!(
        after("{ @[comm, arg2 > 1, (int32)-1] = count() }", &counts),
        "@[worker, false, -1]: 2\n@[worker, true, -1]: 4\n"
    );
    assert_eq!(
        after("{ @[\"a\"]++; if (arg2 == 3) { @[\"bc\"]++ } }", &counts),
        "@[bc]: 3\n@[a]: 6\n"
    );
    assert_eq!(
        after("{ @[arg2] = max(arg2 * 10) }", &counts),
        "@[1]: 10\n@[2]: 20\n@[3]: 30\n"
    );
    assert_eq!(
        after("{ @[PIDTYPE_TGID] = count() }", &[0]),
        "@[PIDTYPE_TGID]: 1\n"
    );
}

#[test]
fn equal_texts_are_one_key() {
    let mut maps = Maps::with(
        &["{ @[args.prev->comm] = count(); @n[kstr(args.prev->comm, 15)]++ }"],
        Globals::default(),
        |_, _| kernel::switch(),
    );
    let tasks = [0xffff_8880_0000_1000u64, 0xffff_8880_0000_2000];
    for (task, junk) in tasks
        .into_iter()
        .zip([b"bash\0old-name\0\0\0", b"bash\0\0\0\0\0\0\0\0\0\0\0\0"])
    {
        let mut bytes = [0u8; 136];
        bytes[12..28].copy_from_slice(&junk[..16]);
        maps.machine.add_memory(Space::Kernel, task, &bytes);
    }
    maps.machine.direct_kernel_reads = true;
    for task in tasks {
        let words = [0, task, task, 0];
        let context: Vec<u8> = words.iter().flat_map(|w: &u64| w.to_le_bytes()).collect();
        maps.machine.run(&maps.programs[0], &context).unwrap();
    }
    assert_eq!(maps.text(""), "@[bash]: 2\n");
    assert_eq!(maps.text("n"), "@n[bash]: 2\n");
}

/// The verifier wants every word on the stack aligned; the interpreter does, too.
#[test]
fn texts_of_every_length_are_keys_and_values() {
    for size in 1..=20 {
        let handler = format!(
            "{{ @[kstr(arg0, {size}), arg2, kstr(arg1, {size})] = count(); @v = kstr(arg0, {size}); @w[comm] = kstr(arg1, {size});
               @n[kstr(arg0, {size})]++; @t[(1, kstr(arg1, {size}))]++; @c[arg2 ? kstr(arg0, {size}) : \"long enough\"]++ }}"
        );
        let mut maps = Maps::new(&[&handler]);
        let text = b"abcdefghijklmnopqrstuvwxyz\0";
        maps.machine.add_memory(Space::Kernel, KERNEL, text);
        maps.machine.add_memory(Space::Kernel, KERNEL + 4096, b"z\0");
        maps.run(0, 0, &[KERNEL, KERNEL + 4096, 7]);
        let cut = &"abcdefghijklmnopqrstuvwxyz"[..size];
        assert_eq!(maps.text(""), format!("@[{cut}, 7, z]: 1\n"), "{size}");
        assert_eq!(maps.text("v"), format!("@v: {cut}\n"));
        assert_eq!(maps.text("w"), "@w[worker]: z\n");
        assert_eq!(maps.text("n"), format!("@n[{cut}]: 1\n"));
        assert_eq!(maps.text("t"), "@t[1, z]: 1\n");
        assert_eq!(maps.text("c"), format!("@c[{cut}]: 1\n"));
    }
}

#[test]
fn a_text_that_could_not_be_read_is_a_key_and_a_value_of_its_own() {
    let handler = "{ @[kstr(arg0, 5)]++; @v[comm] = kstr(arg0); @c[kstr(arg0) == \"\"]++; if (@v[comm] == \"\") { @e++ } @k[@v[comm]]++;
                     @p[((struct task_struct *)arg0)->comm]++ }";
    let mut maps = Maps::new(&[handler]);
    maps.machine.add_memory(Space::Kernel, KERNEL, &[0; 136]);
    maps.run(0, 0, &[KERNEL]);
    assert_eq!(maps.text("v"), "@v[worker]: \n");
    for _ in 0..2 {
        maps.run(0, 0, &[0]);
    }
    assert_eq!(maps.text(""), "@[]: 1\n@[(fault)]: 2\n");
    assert_eq!(maps.text("v"), "@v[worker]: (fault)\n");
    assert_eq!(maps.text("c"), "@c[true]: 1\n@c[false]: 2\n");
    assert_eq!(maps.text("e"), "@e: 1\n");
    assert_eq!(maps.text("k"), "@k[]: 1\n@k[(fault)]: 2\n");
    assert_eq!(maps.text("p"), "@p[]: 1\n@p[(fault)]: 2\n");
    let json = aggregate::json(&maps.snapshot("v"), &Symbols::default());
    assert!(json["data"]["@v"]["worker"].is_null());
}

#[test]
fn keys_can_be_taken_out_before_it_is_said_what_a_map_holds() {
    for (fill, shown) in [
        ("@s[tid] = nsecs", "@s[1234]: "),
        ("@s[tid] = count()", "@s[1234]: 1"),
        ("@s[tid] = hist(arg2)", "@s[1234]:\n[1]"),
        ("@s[tid] = comm", "@s[1234]: worker"),
        ("@s[tid] = (int16 *)0x32; @s[tid] += 1", "@s[1234]: 0x34"),
    ] {
        let mut maps = Maps::new(&[
            "{ delete(@s, tid); if (has_key(@s, tid)) { @wrong++ } }",
            &format!("{{ {fill} }}"),
        ]);
        maps.run(1, 0, &[0, 0, 1]);
        assert!(maps.text("s").starts_with(shown), "{fill}: {}", maps.text("s"));
        maps.run(0, 0, &[]);
        assert_eq!(maps.text("s"), "", "{fill}");
        assert_eq!(maps.text("wrong"), "");
    }
    // Room is that of what it turns out to hold.
    let maps = Maps::new(&["{ delete(@s, tid) }", "{ @s[tid] = hist(arg2, 5) }"]);
    let ty = maps.globals.map("s").unwrap();
    assert_eq!(
        ty.entries,
        kestrel_trace::aggregate::MapType::fitting_entries(ty.value.size())
    );
    let (probe, _) = parse_events("e:x { delete(@never, 1) }");
    let mut globals = Globals::default();
    let (checked, _) = check(&probe, &kernel::kprobe(), true, &mut globals);
    assert!(checked.is_some());
    assert_eq!(
        globals.unwritten[0].1.message,
        "@never is used, but no handler writes it"
    );
}

#[test]
fn addresses_in_maps_move_by_what_they_point_to() {
    for (statement, expected) in [
        ("@p += 1", 0x34),
        ("@p -= 1", 0x30),
        ("@p++", 0x34),
        ("++@p", 0x34),
        ("@p--", 0x30),
        ("@p += arg2", 0x38),
        ("@p += (int8)-1", 0x30),
        ("@p = @p + 1", 0x34),
        ("@p = 2 + @p", 0x36),
    ] {
        let handlers = [
            format!("{{ @p = (int16 *)0x32; {statement}; @r = (uint64)@p; @d = @p - (int16 *)0x32 }}"),
            format!(
                "{{ @p[1] = (int16 *)0x32; {}; @r = (uint64)@p[1]; @d = @p[1] - (int16 *)0x32 }}",
                statement.replace("@p", "@p[1]")
            ),
        ];
        for handler in &handlers {
            let mut maps = Maps::new(&[handler]);
            maps.run(0, 0, &[0, 0, 3]);
            assert_eq!(maps.text("r"), format!("@r: {expected}\n"), "{handler}");
            assert_eq!(
                maps.text("d"),
                format!("@d: {}\n", (expected - 0x32) / 2),
                "{handler}"
            );
        }
    }
    let mut globals = Globals::default();
    let mut says = |text: &str| {
        let text = format!("e:x {text}");
        let (probe, _) = parse_events(&text);
        let (_, found) = check(&probe, &kernel::kprobe(), true, &mut globals);
        found
            .into_iter()
            .map(|d| d.message)
            .collect::<Vec<_>>()
            .join("; ")
    };
    assert_eq!(says("{ @a = 0; @a = (int16 *)0x32; @a += 1 }"), "");
    // A table that is loaded later knows the maps, not what their addresses point to.
    let says_later = |text: &str| {
        let mut globals = Globals::default();
        for text in ["e:x { @p = (int16 *)0x32; @v = (void *)1 }", text] {
            globals.held.clear();
            let (probe, _) = parse_events(text);
            let (_, found) = check(&probe, &kernel::kprobe(), true, &mut globals);
            if !found.is_empty() {
                return found[0].message.clone();
            }
        }
        String::new()
    };
    for text in [
        "e:x { @p += 1 }",
        "e:x { @p++ }",
        "e:x { record(@p - 1) }",
        "e:x { @p = @p + 1 }",
    ] {
        assert!(
            says_later(text).contains("how far a step goes is not known here"),
            "{text}"
        );
    }
    for text in [
        "e:x { @v += 1 }",
        "e:x { record(@p) }",
        "e:x { @p = (int16 *)@p + 1 }",
        "e:x { record((uint64)@p + 1) }",
    ] {
        assert_eq!(says_later(text), "", "{text}");
    }
    assert_eq!(
        says("{ @b += 1; @b = (int16 *)0x32 }"),
        "@b holds int16 * here, but was counted with as a number before"
    );
    assert_eq!(
        says("{ @c = @c + 1; @c = (int16 *)0x32 }"),
        "@c holds int16 * here, but was counted with as a number before"
    );
    assert_eq!(
        says("{ @d = (int16 *)0x32; @d = (int32 *)0x32 }"),
        "this is int32 *, but @d holds int16 *"
    );
    assert_eq!(
        says("{ $p = (int16 *)0x32; $q = (int32 *)1; record($p - $q) }"),
        "the distance between int16 * and int32 * has no unit"
    );
    assert_eq!(
        says("{ $p = (int16 *)0x32; record($p + $p) }"),
        "two addresses cannot be added"
    );
}

/// Expressions that may be of any type, most of them of none.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "arg0",
        "arg2",
        "(int8)arg2",
        "(uint16)arg2",
        "(int32)arg2",
        "1",
        "-3",
        "0",
        "0xffffffff",
        "comm",
        "\"\"",
        "\"worker\"",
        "\"a text of some length\"",
        "kstr(arg0)",
        "kstr(arg0, 1)",
        "kstr(arg0, 7)",
        "kstr(arg1, 13)",
        "kstr(0, 3)",
        "@n",
        "@n[arg2]",
        "@t",
        "@t[comm]",
        "@p",
        "(int16 *)arg0",
        "(int64 *)arg1",
        "(char *)arg0",
        "(struct task_struct *)arg0",
        "((struct task_struct *)arg0)->comm",
        "((struct task_struct *)arg0)->numbers[1]",
        "((struct task_struct *)arg0)->pid",
        "PIDTYPE_TGID",
        "arg2 > 3",
        "$v",
        "nsecs",
        "tid",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
        let operator = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", "&&", "||",
        ]);
        prop_oneof![
            (inner.clone(), operator, inner.clone()).prop_map(|(l, op, r)| format!("({l} {op} {r})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(c, t, o)| format!("({c} ? {t} : {o})")),
            inner.clone().prop_map(|e| format!("!({e})")),
            inner.clone().prop_map(|e| format!("-({e})")),
            inner.clone().prop_map(|e| format!("*({e})")),
            (inner.clone(), inner.clone()).prop_map(|(e, i)| format!("({e})[{i}]")),
            inner.clone().prop_map(|e| format!("kstr({e}, 9)")),
            inner.prop_map(|e| format!("(uint8)({e})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(900))]

    /// What the checker accepts compiles, and runs without a fault: in records, in keys and values of maps, in conditions.
    #[test]
    fn what_is_accepted_runs(one in expression(), two in expression(), shape in 0..9usize) {
        let statement = match shape {
            0 => format!("record(x = {one})"),
            1 => format!("@k[{one}]++"),
            2 => format!("@w = {one}"),
            3 => format!("@w[{one}] = {two}"),
            4 => format!("@k[{one}, {two}] = count()"),
            5 => format!("if ({one}) {{ record({two}) }}"),
            6 => format!("@p += {one}; $v = {two}; $v += 1; record($v)"),
            7 => format!("$w = {one}; $w++; @q = $w; @q -= 1; delete(@q[{two}])"),
            _ => format!("@h = hist({one}); @s = sum({two}); record({one}, {two})"),
        };
        let text = format!("e:x {{ $v = arg2; @n = 1; @n[arg2] = 2; @t = comm; @p = (int32 *)arg0; {statement} }}");
        let text = text.replace("@n[arg2]", "@m[arg2]").replace("@t[comm]", "@u[comm]").replace("@n = 1;", "@n = 1; @u[comm] = comm;");
        let (probe, found) = parse_events(&text);
        prop_assert!(found.is_empty(), "{text}: {found:?}");
        let (checked, _) = check(&probe, &kernel::kprobe(), true, &mut Globals::default());
        if checked.is_some() {
            let handler = text.strip_prefix("e:x ").unwrap_or_default();
            let mut maps = Maps::accepted(&[handler]);
            maps.machine.add_memory(Space::Kernel, KERNEL, &[0x41; 512]);
            maps.run(0, 0, &[KERNEL, KERNEL + 64, 7]);
            maps.run(0, 1, &[0, 3, u64::MAX]);
            for map in maps.globals.maps.clone() {
                maps.text(&map.name);
            }
        }
    }
}

#[test]
fn histograms() {
    let counts = [0, 1, 2, 3, 3, 4, 1000, 1024, -5i64 as u64, u64::MAX / 2];
    let text = after("{ @ = hist((int64)arg2) }", &counts);
    let rows: Vec<String> = text
        .lines()
        .map(|line| {
            line.split(" |")
                .next()
                .unwrap()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        })
        .filter(|row| !row.ends_with(" 0"))
        .collect();
    assert_eq!(
        rows,
        [
            "@:",
            "(..., 0) 1",
            "[0] 1",
            "[1] 1",
            "[2, 4) 3",
            "[4, 8) 1",
            "[512, 1K) 1",
            "[1K, 2K) 1",
            "[4E, 8E) 1",
            ""
        ]
    );
    let text = after(
        "{ @[arg2 / 100] = lhist(arg2, 10, 40, 10) }",
        &[5, 10, 19, 39, 40, 99],
    );
    assert_eq!(
        text,
        "@[0]:
(..., 10)              1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[10, 20)               2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
[20, 30)               0 |                                                    |
[30, 40)               1 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |
[40, ...)              2 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

"
    );
}

/// Generated code sorts values into the buckets that the reader names.
#[test]
fn every_histogram_agrees_with_the_reader() {
    let values = || {
        (0..64u32).flat_map(|shift| {
            [
                1u64 << shift,
                (1u64 << shift) - 1,
                3u64 << shift,
                0x5555_5555_5555_5555 >> shift,
            ]
        })
    };
    let handlers = [
        "{ @ = hist((int64)arg2) }",
        "{ @ = hist((int64)arg2, 1) }",
        "{ @ = hist((int64)arg2, 3) }",
        "{ @ = hist((int64)arg2, 5) }",
        "{ @ = lhist((int64)arg2, -100, 900, 1) }",
        "{ @ = lhist((int64)arg2, -100, 95, 30) }",
        "{ @ = lhist((int64)arg2, -1000000000000, 7000000000000, 100000000000) }",
    ];
    for handler in handlers {
        for value in values() {
            let mut maps = Maps::new(&[handler]);
            maps.run(0, 1, &[0, 0, value]);
            let snapshot = maps.snapshot("");
            let aggregate::ValueKind::Gathered(gathered) = &snapshot.ty.value else {
                panic!("{snapshot:?}")
            };
            let aggregate::read::RowValue::Words(counts) = &snapshot.rows[0].value else {
                panic!("{snapshot:?}")
            };
            let Metric::Histogram(buckets) = gathered.function.metric(gathered, counts) else {
                panic!("{gathered:?}")
            };
            let index = buckets.index(value) as usize;
            assert_eq!(counts.iter().sum::<u64>(), 1, "{handler} {value}");
            assert_eq!(counts[index], 1, "{handler} {value}");
        }
    }
}

/// Runs a time series of 100 ms over values at times in ms, CPUs in turn.
fn series(how: &str, values: &[(u64, i64)]) -> Maps {
    let mut maps = Maps::new(&[&format!("{{ @ = tseries((int64)arg2, 100ms, 4{how}) }}")]);
    for (cpu, (ms, value)) in (0..CPUS).cycle().zip(values) {
        maps.machine.environment.clock = ms * 1_000_000;
        maps.run(0, cpu, &[0, 0, value.cast_unsigned()]);
    }
    maps
}

#[test]
fn time_series() {
    let values = [
        (50, 9),
        (510, 4),
        (520, 1),
        (530, 7),
        (699, -8),
        (700, 3),
        (701, 4),
    ];
    let of = |how: &str| {
        let snapshot = series(how, &values).snapshot("").dated(0);
        let json = aggregate::json(&snapshot, &Symbols::default());
        assert_eq!(json["type"], "tseries");
        let mut all = Vec::new();
        for point in json["data"]["@"].as_array().unwrap() {
            let start = point["interval_start"].as_str().unwrap();
            // Dates are in the time zone of who reads.
            let (_, ms) = start.split_once(":00.").unwrap();
            all.push((ms[..3].parse::<u64>().unwrap(), point["value"].as_i64().unwrap()));
        }
        all
    };
    // The newest four intervals are those from 400 on; 50 is where 450 would be.
    assert_eq!(of(""), [(500, 7), (600, -8), (700, 4)]);
    assert_eq!(of(", \"last\""), of(""));
    assert_eq!(of(", \"sum\""), [(500, 12), (600, -8), (700, 7)]);
    assert_eq!(of(", \"avg\""), [(500, 4), (600, -8), (700, 3)]);
    assert_eq!(of(", \"max\""), [(500, 7), (600, -8), (700, 4)]);
    assert_eq!(of(", \"min\""), [(500, 1), (600, -8), (700, 3)]);
    let empty = Maps::accepted(&["{ if (arg0 == 1) { @ = tseries(1, 1s, 5) } }"]);
    assert_eq!(empty.text(""), "");
}

#[test]
fn a_time_series_is_a_picture() {
    let shown = |values: &[(u64, i64)]| -> String {
        let text = aggregate::text(
            &series("", values).snapshot("").dated(-500_000_000),
            &Symbols::default(),
        );
        // Times are in the time zone of who reads.
        let utc = |line: &str| match line.get(6..8) {
            Some("00") => format!("00:00:{}\n", &line[6..]),
            _ => format!("{line}\n"),
        };
        text.lines().map(utc).collect()
    };
    assert_eq!(
        shown(&[(600, -5), (610, -5), (800, 1), (900, 5)]),
        "@:
             -5                                                  5
hh:mm:ss.ms  |___________________________________________________|
00:00:00.100 *                         .                         | -5
00:00:00.200 |                         .                         | -
00:00:00.300 |                         .    *                    | 1
00:00:00.400 |                         .                         * 5
             v___________________________________________________v
             -5                                                  5

"
    );
    let nine = shown(&[(600, 9)]);
    assert!(
        nine.contains("00:00:00.100000000 |                         *                         | 9\n"),
        "{nine}"
    );
    assert!(
        nine.contains("                   8                                                  10\n"),
        "{nine}"
    );
    let zero = shown(&[(600, 0)]);
    assert!(
        zero.contains("00:00:00.100000000 |                         *                         | 0\n"),
        "{zero}"
    );
}

#[test]
fn handlers_share_maps() {
    let mut maps = Maps::new(&[
        "{ @start[tid] = nsecs; @name[tid] = comm }",
        "/@start[tid]/ { @took = hist(nsecs - @start[tid]); @who[@name[tid]] = count(); delete(@start[tid]); delete(@name, tid) }",
        "/!has_key(@start, tid)/ { @none++ }",
    ]);
    maps.run(1, 0, &[]);
    maps.run(2, 0, &[]);
    maps.run(0, 0, &[]);
    maps.run(2, 0, &[]);
    assert_eq!(maps.snapshot("start").rows.len(), 1);
    assert_eq!(maps.text("name"), "@name[1234]: worker\n");
    maps.run(1, 3, &[]);
    maps.run(1, 3, &[]);
    assert_eq!(maps.text("start") + &maps.text("name"), "");
    assert_eq!(maps.text("who"), "@who[worker]: 1\n");
    assert_eq!(maps.text("none"), "@none: 1\n");
    assert!(maps.text("took").contains(" 1 |@"));
}

#[test]
fn pointers_keep_what_they_point_to() {
    let mut maps = Maps::new(&[
        "{ @file[tid] = args.file }",
        "{ @pos[@file[tid]->f_pos] = count() }",
    ]);
    let file = 0xffff_8880_0000_3000;
    maps.machine.add_memory(Space::Kernel, file, &[9u8; 64]);
    maps.run(0, 0, &[file]);
    maps.run(1, 0, &[]);
    assert_eq!(
        maps.text("pos"),
        format!("@pos[{}]: 1\n", u64::from_le_bytes([9; 8]))
    );
}

#[test]
fn clearing_is_for_all_cpus_at_once() {
    let mut maps = Maps::new(&["{ @[arg2] = count(); @n[arg2]++ }", "{ clear(@); zero(@n) }"]);
    for cpu in 0..CPUS {
        maps.run(0, cpu, &[0, 0, 7]);
    }
    assert_eq!(maps.text("") + &maps.text("n"), "@[7]: 4\n@n[7]: 4\n");
    maps.run(1, 2, &[]);
    assert_eq!(maps.text("") + &maps.text("n"), "");
    maps.run(0, 3, &[0, 0, 7]);
    assert_eq!(maps.text("") + &maps.text("n"), "@[7]: 1\n@n[7]: 1\n");
}

/// What was stored is shown, zeroes too, and what was not is not: the first handler stores where `arg0` is not 0, the second one clears.
#[test]
fn what_nothing_wrote_is_not_shown() {
    for (stores, shown) in [
        ("@ = 0", "@: 0\n"),
        ("@ = 5", "@: 5\n"),
        ("@ = arg2", "@: 0\n"),
        ("@ += arg2", "@: 0\n"),
        ("@++", "@: 1\n"),
        ("@++; @--", "@: 0\n"),
        ("@ = 3; @ -= 3", "@: 0\n"),
        ("@ = \"\"", "@: \n"),
        ("@ = \"a\"", "@: a\n"),
        ("@ = (0, arg2)", "@: (0, 0)\n"),
        ("@ = sum(0)", "@: 0\n"),
        ("@ = sum(arg2)", "@: 0\n"),
        ("@ = sum(1)", "@: 1\n"),
        ("@ = sum((int64)5); @ = sum((int64)arg2 - 5)", "@: 0\n"),
        ("@ = max(arg2)", "@: 0\n"),
        ("@ = min(arg2)", "@: 0\n"),
        ("@ = count()", "@: 1\n"),
        ("@ = avg(arg2)", "@: 0\n"),
    ] {
        let handler = format!("{{ if (arg0 != 0) {{ {stores} }} }}");
        let mut maps = Maps::program(&[&handler, "{ clear(@) }"]);
        maps.run(0, 0, &[0, 0, 0]);
        assert_eq!(maps.text(""), "", "{stores}: nothing is stored");
        maps.run(0, 1, &[1, 0, 0]);
        assert_eq!(maps.text(""), shown, "{stores}");
        let is_gathered = maps.globals.map("").is_some_and(|ty| ty.value.is_per_cpu());
        if is_gathered {
            continue;
        }
        maps.run(1, 0, &[]);
        assert_eq!(maps.text(""), "", "{stores}: cleared");
        maps.run(0, 1, &[1, 0, 0]);
        assert_eq!(maps.text(""), shown, "{stores}: after it was cleared");
    }
}

/// Only what stores zeroes, or may do so, says that a map without keys was written.
#[test]
fn what_cannot_be_zeroes_needs_no_mark() {
    for (handler, stored, expected) in [
        ("{ @ = 1 }", 0, 0),
        ("{ @ = \"a\" }", 0, 0),
        ("{ @++ }", 0, 0),
        ("{ @ = sum(1) }", 0, 0),
        ("{ @ = count() }", 0, 0),
        ("{ @ = avg(arg2) }", 0, 0),
        ("{ @[1] = arg2 }", 0, 0),
        ("{ @ = sum(arg2) }", 3, 0),
        ("{ @ = max(arg2) }", 3, 0),
        ("{ @ = sum(arg2) }", 0, 1),
        ("{ @ = max(arg2) }", 0, 1),
        ("{ @ = arg2 }", 3, 1),
        ("{ @-- }", 0, 1),
        ("{ @ = 0 }", 0, 1),
        ("{ @ = comm }", 0, 1),
    ] {
        let mut maps = Maps::program(&[handler]);
        maps.run(0, 0, &[0, 0, stored]);
        let number = maps.globals.map("").map(|ty| ty.number).unwrap();
        let written = state::word(&maps.state(), state::written(number));
        assert_eq!(written, expected, "{handler}");
    }
}

/// A persistent session shows all counters from the start.
#[test]
fn maps_of_sessions_that_stay_have_no_mark() {
    for (persistent, marks) in [(false, true), (true, false)] {
        let mut globals = Globals {
            persistent,
            ..Globals::default()
        };
        let (probe, _) = parse_events("e:x { @ = arg2; @s = sum(arg2); @n = count() }");
        check(&probe, &kernel::kprobe(), true, &mut globals);
        let of = |name: &str| globals.map(name).unwrap().marks;
        assert_eq!((of(""), of("s"), of("n")), (marks, marks, false));
    }
}

#[test]
fn keys_of_maps_that_are_cleared_at_the_end_alone_have_no_generation() {
    let of = |last: &str| {
        Maps::program_of(&["{ @[arg2] = count() }", last], |at, _| match at {
            0 => kernel::kprobe(),
            _ => Context {
                name: END.to_owned(),
                ..kernel::kprobe()
            },
        })
    };
    let size = |maps: &Maps| maps.globals.map("").map(MapType::key_size);
    for (last, bytes) in [
        ("{ }", 8),
        ("{ clear(@) }", 8),
        ("{ zero(@) }", 16),
        ("{ clear(@); @[1] = count() }", 16),
    ] {
        let mut maps = of(last);
        assert_eq!(size(&maps), Some(bytes), "{last}");
        maps.run(0, 0, &[0, 0, 7]);
        maps.run(0, 1, &[0, 0, 7]);
        assert_eq!(maps.text(""), "@[7]: 2\n", "{last}");
        maps.run(1, 0, &[]);
        let left = match last.split_once('(') {
            None => "@[7]: 2\n",
            Some(_) if last.contains("[1]") => "@[1]: 1\n",
            Some(_) => "",
        };
        assert_eq!(maps.text(""), left, "{last}");
    }
    let maps = Maps::program(&["{ @[arg2] = count() }", "{ clear(@) }"]);
    assert_eq!(size(&maps), Some(16));
}

#[test]
fn functions_are_keys_by_their_addresses_where_the_kernel_gives_them() {
    let at = 0xffff_ffff_8100_0040_u64;
    let mut both = Maps::program(&["{ @[func] = count() }"]);
    both.machine.environment.function = at;
    both.run(0, 0, &[]);
    assert_eq!(both.text(""), format!("@[{at:#x}]: 1\n"));
    // Where one event has no address, the others have none either.
    let mut mixed = Maps::program_of(&["{ @[func] = count() }", "{ @[func] = count() }"], |at, _| {
        let mut context = kernel::kprobe();
        context.features.func_ip = at == 0;
        context
    });
    mixed.machine.environment.function = at;
    mixed.run(0, 0, &[]);
    mixed.run(1, 0, &[]);
    assert_eq!(mixed.text(""), "@[1]: 2\n");
}

#[test]
fn what_finds_no_room_is_counted() {
    let globals = Globals {
        max_map_keys: Some(3),
        ..Globals::default()
    };
    let mut maps = Maps::with(&["{ @[arg2] = count(); @last[arg2] = arg2 }"], globals, |_, _| {
        kernel::kprobe()
    });
    for count in [1, 2, 3, 4, 5, 1, 2, 3, 4] {
        maps.run(0, 0, &[0, 0, count]);
    }
    for name in ["", "last"] {
        let snapshot = maps.snapshot(name);
        assert_eq!((snapshot.rows.len(), snapshot.lost), (3, 3), "{name}");
    }
    assert!(
        maps.text("").ends_with(
            "3 updates were not counted: there is room for 3 keys (config = { max_map_keys = N })\n"
        )
    );
}

#[test]
fn texts_that_handlers_choose_are_their_own() {
    let handlers = [
        "{ @k[arg2 > 5 ? \"big\" : \"small\"] = count(); @v = arg2 > 5 ? \"big\" : \"small\" }",
        "{ @k[arg2 > 5 ? \"odd\" : \"even and long\"] = count(); @v = arg2 > 5 ? \"odd\" : \"even\" }",
    ];
    let mut maps = Maps::new(&handlers);
    for (program, count) in [(0, 9), (0, 1), (1, 1), (1, 9), (1, 9)] {
        maps.run(program, 0, &[0, 0, count]);
    }
    let rows = maps.text("k");
    for row in ["@k[big]: 1", "@k[small]: 1", "@k[odd]: 2", "@k[even and long]: 1"] {
        assert!(rows.contains(row), "{rows}");
    }
    assert_eq!(maps.text("v"), "@v: odd\n");
}

/// A map that is declared so takes new keys when it is full, and no update is lost.
#[test]
fn least_recently_used_keys_make_room() {
    for (evicts, expected, lost) in [(true, 3, 0), (false, 2, 2)] {
        let entries = 2;
        let mut globals = Globals::default();
        for name in ["c", "v"] {
            let declared = DeclaredMap { entries, evicts };
            globals.declared.insert(name.to_owned(), declared);
        }
        let handler = "{ @c[arg2] = count(); @v[arg2] = arg3 }";
        let mut maps = Maps::with(&[handler], globals, |_, _| kernel::kprobe());
        for key in [1, 2, 3] {
            maps.run(0, 1, &[0, 0, key, 10 * key]);
        }
        let newest = format!("@v[{expected}]: {}\n", 10 * expected);
        assert!(maps.text("v").contains(&newest), "{}", maps.text("v"));
        assert_eq!(maps.snapshot("c").rows.len(), 2);
        assert_eq!(maps.snapshot("c").lost + maps.snapshot("v").lost, lost);
        let kinds: Vec<MapKind> = maps.globals.maps.iter().map(|map| spec(map).kind).collect();
        let wanted = match evicts {
            true => [MapKind::PerCpuLruHash, MapKind::LruHash],
            false => [MapKind::PerCpuHash, MapKind::Hash],
        };
        assert_eq!(kinds, wanted);
    }
}

#[test]
fn bare_aggregations_are_by_event() {
    let context = |index: usize| {
        let mut context = kernel::kprobe();
        context.number = kestrel_compiler::context::EventNumber::Constant(10 + index as u16);
        context
    };
    let handlers = [
        "{ count(); hist(arg2) }",
        "{ count() }",
        "{ hist(arg2); hist(arg3) }",
        "{ lhist(arg2, 0, 10, 1) }",
    ];
    let mut maps = Maps::with(&handlers, Globals::default(), |index, _| context(index));
    for program in [0, 0, 1, 2, 3] {
        maps.run(program, 0, &[0, 0, 5]);
    }
    let names: Vec<&str> = maps.globals.maps.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "count-by-event",
            "hist-by-event",
            "hist-2-by-event",
            "lhist-by-event"
        ]
    );
    assert_eq!(maps.text("count-by-event"), "count()[11]: 1\ncount()[10]: 2\n");
    assert_eq!(maps.snapshot("hist-by-event").rows.len(), 2);
}

/// Every update counts, wherever a program is interrupted by one that updates the same maps: between look-up and insertion, and in the midst of
/// a maximum.
#[test]
fn interrupts_anywhere_lose_nothing() {
    let handler = "{ @[arg2] = count(); @sum[arg2] += arg2; @max = max(arg2); @min[1] = min(arg2); @avg = avg(arg2); @h[arg2] = hist(arg2) }";
    let mut steps = 0;
    let mut at = 0;
    loop {
        let mut maps = Maps::new(&[handler]);
        let (program, outer, inner) = (
            maps.programs[0].clone(),
            registers(&[0, 0, 6]),
            registers(&[0, 0, 6]),
        );
        let mut seen = 0;
        let mut interrupted = false;
        let mut interrupt = |machine: &mut Machine, _: usize| {
            if seen == at {
                interrupted = true;
                machine.run(&program, &inner).unwrap();
            }
            seen += 1;
        };
        maps.machine.run_hooked(&program, &outer, &mut interrupt).unwrap();
        if !interrupted {
            break;
        }
        let all: String = ["", "sum", "max", "min", "avg"]
            .iter()
            .map(|name| maps.text(name))
            .collect();
        assert_eq!(
            all, "@[6]: 2\n@sum[6]: 12\n@max: 6\n@min[1]: 6\n@avg: 6\n",
            "interrupted at {at}"
        );
        assert!(maps.text("h").contains(" 2 |@"), "interrupted at {at}");
        steps += 1;
        at += 1;
    }
    assert!(steps > 100);
}

/// Checks handlers that share maps, one per line, each with the event before its colon.
fn checked(input: &str) -> String {
    let mut globals = Globals::default();
    let mut out = String::new();
    for line in input.lines() {
        let (event, handler) = line.split_once(": ").unwrap();
        let context = kernel::by_name(event);
        let text = format!("e:x {handler}");
        let (probe, found) = parse_events(&text);
        assert_eq!(found, [], "{text}");
        let (checked, found) = check(&probe, &context, true, &mut globals);
        if let Some(checked) = checked {
            out += &dump::checked::probe(&checked, context.types.as_deref());
        }
        out += &render(&found, "<expression>", &text, Style::default());
    }
    for ty in &globals.maps {
        out += &format!(
            "{} {:?} {:?}, {} keys\n",
            ty.title(),
            ty.keys,
            ty.value,
            ty.entries
        );
    }
    for (_, diagnostic) in &globals.unwritten {
        out += &format!("at the end: {}\n", diagnostic.message);
    }
    out
}

#[test]
fn meaning() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/maps.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let mut fresh = String::new();
    for case in text.split("=== ").skip(1) {
        let (title, body) = case.split_once('\n').unwrap();
        let input = body.split("\n---\n").next().unwrap().trim_end();
        fresh += &format!("=== {title}\n{input}\n---\n{}\n\n", checked(input).trim_end());
    }
    testkit::golden("tests/golden/maps.txt", &format!("{}\n", fresh.trim_end()));
}
