//! Maps that are shared, cleared, and shown where something was written.

use crate::kernel;
use crate::sharing::{CPUS, Maps};
use kestrel_bpf::interp::Space;
use kestrel_compiler::check::check;
use kestrel_compiler::check::globals::Globals;
use kestrel_compiler::context::{Context, END};
use kestrel_compiler::lang::parse_events;
use kestrel_trace::aggregate::{MapType, state};

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
fn a_sum_that_comes_back_to_zero_is_shown() {
    let mut maps = Maps::new(&["{ @x = -1 }", "{ @x++ }"]);
    maps.run(0, 0, &[]);
    maps.run(1, 0, &[]);
    assert_eq!(maps.text("x"), "@x: 0\n");
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
fn delete_returns_whether_the_element_existed() {
    let mut maps = Maps::new(&[
        "{ @a = arg2; @b[arg2] = 1 }",
        "{ if (delete(@a)) { @was++ } else { @none++ } if (delete(@b, arg2)) { @was++ } else { @none++ } }",
    ]);
    maps.run(1, 0, &[0, 0, 0]);
    assert_eq!(maps.text("was") + &maps.text("none"), "@none: 2\n");
    // A zero is something, too.
    maps.run(0, 1, &[0, 0, 0]);
    maps.run(1, 0, &[0, 0, 0]);
    assert_eq!(maps.text("was") + &maps.text("none"), "@was: 2\n@none: 2\n");
    maps.run(1, 1, &[0, 0, 0]);
    assert_eq!(maps.text("was") + &maps.text("none"), "@was: 2\n@none: 4\n");
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

/// Stored values are shown, zeroes too, and others are not: the first handler stores where `arg0` is not 0, the second one clears.
#[test]
fn only_written_maps_are_shown() {
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
        let is_per_cpu = maps.globals.map("").is_some_and(|ty| ty.value.is_per_cpu());
        if is_per_cpu {
            continue;
        }
        maps.run(1, 0, &[]);
        assert_eq!(maps.text(""), "", "{stores}: cleared");
        maps.run(0, 1, &[1, 0, 0]);
        assert_eq!(maps.text(""), shown, "{stores}: after it was cleared");
    }
}

/// `max()` of the least 64-bit number, whose rank is 0, is shown as that number and not as a map that nothing wrote.
#[test]
fn extremes_of_all_numbers_are_shown() {
    let all = [0, 1, u64::MAX, 1 << 63, i64::MAX as u64];
    for (function, cast, shown) in [
        (
            "max",
            "int64",
            [0, 1, -1, i128::from(i64::MIN), i128::from(i64::MAX)],
        ),
        (
            "min",
            "int64",
            [0, 1, -1, i128::from(i64::MIN), i128::from(i64::MAX)],
        ),
        ("max", "uint64", all.map(i128::from)),
        ("min", "uint64", all.map(i128::from)),
        ("max", "int8", [0, 1, -1, 0, -1]),
        ("min", "uint8", [0, 1, 255, 0, 255]),
    ] {
        let store = format!("{{ @ = {function}(({cast})arg2); @k[1] = {function}(({cast})arg2) }}");
        for (value, shown) in all.into_iter().zip(shown) {
            let mut maps = Maps::program(&[&store]);
            assert_eq!(maps.text("") + &maps.text("k"), "", "{store}: no value was added");
            maps.run(0, 2, &[0, 0, value]);
            let kept = maps.text("") + &maps.text("k");
            let expected = format!("@: {shown}\n@k[1]: {shown}\n");
            assert_eq!(kept, expected, "{store} of {value:#x}");
        }
    }
}

/// Handlers read 0 of nothing, not the number that everything is greater or less than; values that were added they read as they are, but for the one of the rank of nothing.
#[test]
fn extremes_of_nothing_are_read_as_zero() {
    for (function, cast, read) in [
        ("max", "int64", [0, 1, -1, 0, i64::MAX]),
        ("min", "int64", [0, 1, -1, i64::MIN, 0]),
        ("max", "uint64", [0, 1, -1, i64::MIN, i64::MAX]),
        ("min", "uint64", [0, 1, 0, i64::MIN, i64::MAX]),
        ("max", "int8", [0, 1, -1, 0, -1]),
        ("min", "uint8", [0, 1, 255, 0, 255]),
    ] {
        let store = format!("{{ @ = {function}(({cast})arg2); @k[1] = {function}(({cast})arg2) }}");
        for (value, read) in [0, 1, u64::MAX, 1 << 63, i64::MAX as u64].into_iter().zip(read) {
            let mut maps = Maps::program(&[&store, "{ @r = (int64)@; @s = (int64)@k[1] }"]);
            maps.run(1, 0, &[]);
            let kept = maps.text("r") + &maps.text("s");
            assert_eq!(kept, "@r: 0\n@s: 0\n", "{store}: no value was added");
            maps.run(0, 2, &[0, 0, value]);
            maps.run(1, 0, &[]);
            let kept = maps.text("r") + &maps.text("s");
            assert_eq!(kept, format!("@r: {read}\n@s: {read}\n"), "{store} of {value:#x}");
        }
    }
}

/// `zero()` of a map without keys that nothing was stored in leaves it so: it is not shown.
#[test]
fn unwritten_zeroes_are_not_shown() {
    for stores in ["@ = 0", "@ = 5", "@ = arg2", "@++", "@ = \"a\"", "@ = (arg2, 1)"] {
        let handler = format!("{{ if (arg0 != 0) {{ {stores} }} }}");
        let mut maps = Maps::program(&[&handler, "{ zero(@) }"]);
        maps.run(0, 0, &[0, 0, 0]);
        maps.run(1, 0, &[]);
        maps.run(1, 0, &[]);
        assert_eq!(maps.text(""), "", "{stores}: nothing was stored");
        maps.run(0, 0, &[1, 0, 0]);
        maps.run(1, 0, &[]);
        let zeroed = maps.text("");
        assert_ne!(zeroed, "", "{stores}: stored, then zeroed");
        maps.run(1, 0, &[]);
        assert_eq!(maps.text(""), zeroed, "{stores}: zeroed twice");
    }
}

/// Only what stores zeroes, or may do so, says that a map without keys was written.
#[test]
fn only_stores_that_may_be_zero_mark_a_scalar_map_as_written() {
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
        ("{ @ = max(arg2) }", 0, 0),
        ("{ @ = sum(arg2) }", 0, 1),
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
fn maps_of_persistent_sessions_have_no_mark() {
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
