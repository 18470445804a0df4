//! The kernel's code as instructions, against what the kernel itself accepts and what programs do.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel::catalog::Catalog;
use kestrel::code::{Code, Function, Patch, Why};
use kestrel::kernel::Host;
use kestrel::kernel::kprobes;
use kestrel::kernel::perf::{PerfEvent, PerfTarget, ProbePlace};
use kestrel::plan::{Options, Source, plan};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use vm_tests::recording::record_command;
use vm_tests::{kestrel, shell, skip};

/// Functions with string moves, static branches, static calls, traps, jumps through tables, and one that may not be probed.
const FUNCTIONS: &[&str] = &["filldir64", "ksys_read", "__get_user_4", "do_int3"];
/// Every function of this many, where there is time for it.
const MORE: &str = "KESTREL_ALL_OFFSETS";

fn code(catalog: &Catalog) -> Code<'_> {
    Code::new(catalog).unwrap()
}

/// Puts a probe at every offset; gives those that the kernel took, with the probes.
fn taken(function: &Function) -> (BTreeSet<u64>, Vec<PerfEvent>) {
    let host = Host::default();
    let end = function.instructions.last().unwrap();
    let put = |offset: u64| {
        let place = ProbePlace::Symbol(&function.symbol, offset);
        PerfEvent::kprobe(&host, place, false, PerfTarget::All)
            .ok()
            .map(|event| (offset, event))
    };
    // These the kernel takes, too, and crashes when one is hit.
    let deadly = |offset: &u64| {
        let at = function.instructions.iter().find(|i| i.offset == *offset);
        at.is_some_and(|i| i.probeable == Err(Why::PrefixedCall))
    };
    (0..end.offset + end.bytes.len() as u64)
        .filter(|offset| !deadly(offset))
        .filter_map(put)
        .unzip()
}

/// Two readings of one function.
fn same(left: &Function, right: &Function) {
    let differ = left
        .instructions
        .iter()
        .zip(&right.instructions)
        .find(|(l, r)| l != r);
    assert!(differ.is_none(), "{differ:x?}");
    assert_eq!(left.instructions.len(), right.instructions.len());
}

/// Takes probes off from several threads: each wait of the kernel's is for nothing in particular.
fn drop_together(mut events: Vec<PerfEvent>) {
    std::thread::scope(|scope| {
        while !events.is_empty() {
            let some = events.split_off(events.len().saturating_sub(16));
            scope.spawn(move || drop(some));
        }
    });
}

#[test]
fn the_kernel_accepts_exactly_the_probeable_instructions() {
    let functions: Vec<String> = match std::env::var(MORE) {
        Ok(list) => list.split(',').map(str::to_owned).collect(),
        Err(_) => FUNCTIONS.iter().map(|&name| name.to_owned()).collect(),
    };
    let catalog = Catalog::new(Host::default());
    for symbol in &functions {
        let function = code(&catalog).function(None, symbol).unwrap();
        let ours: BTreeSet<u64> = function
            .instructions
            .iter()
            .filter(|i| i.probeable.is_ok())
            .map(|i| i.offset)
            .collect();
        let begun = Instant::now();
        let (theirs, events) = taken(&function);
        println!(
            "{symbol}: {} of {} instructions, {:?}",
            theirs.len(),
            function.instructions.len(),
            begun.elapsed()
        );
        let differ = |o: &&u64| ours.contains(o) != theirs.contains(o);
        let differ: Vec<&u64> = ours.union(&theirs).filter(differ).collect();
        assert!(differ.is_empty(), "{symbol}: {differ:x?}");
        // The same text under all these breakpoints, and under the jumps that come of some of them after a while.
        let bare = |mut function: Function| {
            function.instructions.iter_mut().for_each(|i| i.patched = None);
            function
        };
        let patched = code(&catalog).function(None, symbol).unwrap();
        let breakpoints = patched
            .instructions
            .iter()
            .filter(|i| i.patched == Some(Patch::Breakpoint));
        assert!(theirs.len() < 5 || breakpoints.count() > 0, "{symbol}");
        same(&bare(patched), &bare(function.clone()));
        drop_together(events);
    }
    assert!(all_gone());
}

#[test]
fn instructions_under_an_optimised_kprobe_are_shown_unpatched() {
    let catalog = Catalog::new(Host::default());
    let host = Host::default();
    // Functions that may fault, or that jump through tables, are never optimised; of these at least one is.
    let read = |symbol: &&str| code(&catalog).function(None, symbol).ok();
    let before: Vec<Function> = ["vfs_getattr", "getname_flags", "vfs_open", "ksys_write"]
        .iter()
        .filter_map(read)
        .collect();
    let mut events = Vec::new();
    for function in &before {
        let good = function
            .instructions
            .iter()
            .filter(|i| i.probeable.is_ok() && i.offset > 9);
        let put = |offset| {
            PerfEvent::kprobe(
                &host,
                ProbePlace::Symbol(&function.symbol, offset),
                false,
                PerfTarget::All,
            )
            .unwrap()
        };
        events.extend(good.step_by(9).map(|i| put(i.offset)));
    }
    let until = Instant::now() + Duration::from_secs(30);
    let optimised = || {
        kprobes::list(&host)
            .unwrap()
            .into_iter()
            .find(|probe| probe.optimized)
    };
    while optimised().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
    }
    let Some(probe) = optimised() else {
        drop_together(events);
        return skip("this kernel optimises no probe");
    };
    for mut before in before {
        // A probe is listed as optimised before its jump is written.
        let begun = Instant::now();
        let (mut under, jumps) = loop {
            let under = code(&catalog).function(None, &before.symbol).unwrap();
            let jumps = under.instructions.iter().any(|i| i.patched == Some(Patch::Jump));
            if jumps || under.symbol != probe.symbol || begun.elapsed() > Duration::from_secs(30) {
                break (under, jumps);
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(jumps || under.symbol != probe.symbol);
        under.instructions.iter_mut().for_each(|i| i.patched = None);
        before.instructions.iter_mut().for_each(|i| i.patched = None);
        same(&under, &before);
    }
    let shown = kestrel(&["probe", "show", &probe.symbol]);
    assert!(
        shown.out.contains("* +") && shown.out.contains("[OPTIMIZED]"),
        "{}",
        shown.out
    );
    drop_together(events);
}

#[test]
fn instructions_are_counted_by_name_by_address_and_in_modules() {
    let catalog = Catalog::new(Host::default());
    let function = code(&catalog).function(None, "vfs_read").unwrap();
    // The last of the straight code at the beginning: run as often as the function is called.
    let straight = function
        .instructions
        .iter()
        .take_while(|i| !i.text.starts_with(['j', 'c', 'r']))
        .filter(|i| i.probeable.is_ok());
    let inside = straight.last().unwrap();
    let by_name = format!("kprobe:vfs_read+{:#x}", inside.offset);
    let by_kernel = format!("kprobe:vmlinux:vfs_read+{:#x}", inside.offset);
    let by_address = format!("kprobe:{:#x}", inside.address);
    let returns = "kretprobe:vmlinux:vfs_read";
    let events = [
        by_name.as_str(),
        &by_kernel,
        &by_address,
        returns,
        "kprobe:vfs_read",
    ];
    let options: Vec<&str> = events.iter().flat_map(|event| ["-e", event]).collect();
    let (records, counts) = record_command(&options, &["calls", "read", "100"]);
    for event in events {
        let kept = records.iter().filter(|r| r.event == event).count();
        let calls = records.iter().filter(|r| r.event == "kprobe:vfs_read").count();
        assert!(
            kept + counts.missed as usize >= calls && kept <= calls.max(100) + counts.missed as usize,
            "{event}: {kept} of {calls}"
        );
        assert!(kept + counts.missed as usize >= 100, "{event}: {kept}");
    }
    // A module's function: whatever is loaded and can be probed.
    let symbols = catalog.symbols().unwrap();
    let of_module = symbols
        .functions()
        .filter(|s| s.module.is_some_and(|m| !m.starts_with("__") && m != "bpf"));
    let code = code(&catalog);
    let place = |s: &kestrel::kernel::kallsyms::Symbol<'_>| Some(format!("{}:{}", s.module?, s.name));
    let good = |place: &String| place.parse().is_ok_and(|wanted| code.probeable(&wanted).is_ok());
    let Some(place) = of_module.filter_map(|s| place(&s)).find(good) else {
        return skip("no module is loaded");
    };
    let both = ["kprobe", "kretprobe"].map(|kind| format!("{kind}:{place}"));
    let (_, counts) = record_command(&["-e", &both[0], "-e", &both[1]], &["true"]);
    assert_eq!(counts.lost, 0, "{both:?}");
}

#[test]
fn refusals_list_alternatives() {
    let catalog = Catalog::new(Host::default());
    let symbols = catalog.symbols().unwrap();
    // A name that several functions of the kernel bear.
    let mut seen = std::collections::HashMap::new();
    let twice = |s: &kestrel::kernel::kallsyms::Symbol<'_>| {
        seen.insert(s.name.to_owned(), s.address)
            .is_some_and(|a| a != s.address)
    };
    let ambiguous = symbols.functions().find(twice).unwrap().name;
    let address = symbols.named(ambiguous).next().unwrap().address;
    let rows: Vec<(String, Vec<String>)> = vec![
        (
            "kprobe:filldir64+0x1".into(),
            vec!["inside the".into(), "+0x0 (".into()],
        ),
        (
            "kprobe:filldir64+0x9999".into(),
            vec!["its last instruction is".into()],
        ),
        ("kprobe:do_int3".into(), vec!["blacklist".into()]),
        ("kprobe:__get_user_4".into(), vec!["ftrace".into()]),
        ("kprobe:__get_user_4+0x3".into(), vec!["ftrace".into()]),
        (
            "kprobe:filldir63+0x4".into(),
            vec!["did you mean filldir64".into()],
        ),
        (
            "kprobe:filldir63".into(),
            vec!["did you mean kprobe:filldir64".into()],
        ),
        (
            "jprobe:filldir63".into(),
            vec!["no jprobe".into(), "did you mean jprobe:filldir64".into()],
        ),
        ("kprobe:init_task+0x1".into(), vec!["data".into()]),
        ("kretprobe:filldir64+0x9".into(), vec!["return".into()]),
        ("kprobe:0x1000".into(), vec!["no function".into()]),
        ("kprobe:vfs_*+0x4".into(), vec!["without patterns".into()]),
        (
            format!("kprobe:{ambiguous}"),
            vec!["functions have this name".into(), format!("{address:#x}")],
        ),
        (
            format!("kprobe:{ambiguous}+0x0"),
            vec!["functions have this name".into(), format!("{address:#x}")],
        ),
    ];
    for (event, words) in rows {
        let printed = match plan(
            Source::Events(std::slice::from_ref(&event)),
            &Options::default(),
            &catalog,
        ) {
            Err(error) => error.to_string(),
            // A refusal that is known only when it is to be attached.
            Ok(_) => {
                let run = kestrel(&["record", "-o", "/tmp/refused", "-e", &event, "--", "true"]);
                assert_eq!(run.code, Some(2), "{event}: {}", run.err);
                run.err
            }
        };
        for word in words {
            assert!(printed.contains(&word), "{event} should say `{word}`: {printed}");
        }
    }
    // The command says the same, and leaves nothing.
    let event = "kprobe:filldir64+0x1";
    let run = kestrel(&["record", "-o", "/tmp/refused", "-e", event, "--", "true"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("inside the"), "{}", run.err);
    assert!(!shell("ls /tmp/refused").out.contains("metadata"));
}

/// Waits until no probe is left; says whether it came so far.
fn all_gone() -> bool {
    let until = Instant::now() + Duration::from_secs(60);
    while !kprobes::list(&Host::default()).unwrap().is_empty() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    true
}

#[test]
fn many_functions_are_attached_together_or_not_at_all() {
    // Named one by one: one program, and one link where the kernel has it.
    let catalog = Catalog::new(Host::default());
    let symbols = catalog.symbols().unwrap();
    let once = |name: &&str| name.starts_with("vfs_") && symbols.named(name).count() == 1;
    let mut names: Vec<&str> = catalog
        .functions()
        .unwrap()
        .names()
        .filter(once)
        .take(20)
        .collect();
    names.extend(
        catalog
            .functions()
            .unwrap()
            .names()
            .find(|name| *name == "vfs_read"),
    );
    names.sort();
    names.dedup();
    assert!(names.len() >= 20, "{names:?}");
    assert!(all_gone(), "of other tests");
    let list: Vec<String> = names.iter().map(|name| format!("k:{name}")).collect();
    let good = format!("{} {{ @n = count() }}", list.join(","));
    let run = kestrel(&[
        "record",
        "-v",
        "-o",
        "/tmp/many",
        "-e",
        &good,
        "--",
        "calls",
        "read",
        "50",
    ]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    let head = run.err.lines().find(|line| line.starts_with("attached")).unwrap();
    assert!(head.starts_with("attached 1 program "), "{head}");
    let line = run.out.lines().find(|line| line.starts_with("@n")).unwrap();
    let count: u64 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(count >= 50 || run.err.contains("missed"), "{line}");
    // Where each is taken off by itself, that goes on behind the command's back, and is said.
    let links = kprobes::list(&Host::default()).unwrap().len();
    assert!(links == 0 || run.err.contains("in the background"), "{}", run.err);
    assert!(all_gone());
    // A function that may not be probed: no probe is left, and it is named.
    let bad = format!("{},k:__get_user_4 {{ @n = count() }}", list.join(","));
    let run = kestrel(&["record", "-o", "/tmp/bad", "-e", &bad, "--", "true"]);
    assert_ne!(run.code, Some(0));
    assert!(run.err.contains("__get_user_4"), "{}", run.err);
    assert!(all_gone());
}
