//! Keys and values of maps: numbers, strings, addresses.

use crate::kernel;
use crate::sharing::{KERNEL, Maps, after};
use kestrel_bpf::interp::Space;
use kestrel_compiler::check::check;
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::lang::parse_events;
use kestrel_trace::aggregate::{self, MapType};
use kestrel_trace::symbol::Symbols;

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

/// A map of `stats()` is read as a record of its three numbers, over all CPUs.
#[test]
fn statistics_are_read_by_their_parts() {
    let mut maps = Maps::program(&[
        "{ @[arg2 & 1] = stats((int64)arg2) }",
        "{ @all = @[1].count * 1000 + @[1].average; @total = @[1].total; for ($kv : @) { @each[$kv.0] = $kv.1.total } @none = @[7].count }",
    ]);
    for (cpu, value) in [(0, 7), (1, 9), (0, -21i64), (1, 4)] {
        maps.run(0, cpu, &[0, 0, value as u64]);
    }
    maps.run(1, 0, &[0, 0, 0]);
    let shown = ["all", "total", "none"].map(|name| maps.text(name));
    assert_eq!(shown, ["@all: 2999\n", "@total: -5\n", "@none: 0\n"]);
    assert_eq!(maps.text("each"), "@each[1]: -5\n@each[0]: 4\n");
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
fn equal_strings_are_one_key() {
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
fn strings_of_every_length_are_keys_and_values() {
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
fn keys_can_be_removed_before_the_type_of_a_map_is_known() {
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
    assert_eq!(ty.entries, MapType::fitting_entries(ty.value.size()));
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
fn addresses_in_maps_move_by_the_size_of_their_type() {
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
