//! Updates of maps where there is no room, or an interrupt comes between.

use crate::kernel;
use crate::sharing::{Maps, registers};
use kestrel_bpf::interp::Machine;
use kestrel_compiler::check::globals::{DeclaredMap, Globals};
use kestrel_compiler::ir::MapKind;
use kestrel_compiler::map::spec;

#[test]
fn updates_of_full_maps_are_counted() {
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
fn strings_that_handlers_choose_are_their_own() {
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

/// A function called on the stack of a program takes nothing from loops that it does not stand in.
#[test]
fn totals_read_outside_of_nested_loops_take_no_stack_from_these() {
    let each = |text: &dyn Fn(u32) -> String| (0..7).map(text).collect::<String>();
    let handler = format!(
        "{{ @s = sum(arg2); {} if (@s > 0) {{ $v0 += 1; }}
            for $i : 0..arg2 {{ for $j : 0..arg2 {{ for $k : 0..arg2 {{ {} }} }} }}
            @r = $v0 + $v6; }}",
        each(&|n| format!("$v{n} = arg2 + {n}; ")),
        each(&|n| format!("$v{n} += $k; ")),
    );
    let mut maps = Maps::program(&[&handler]);
    maps.run(0, 0, &[0, 0, 3]);
    // 3 + 1 + 27 and 9 + 27.
    assert_eq!(maps.text("r"), "@r: 67\n");
}
