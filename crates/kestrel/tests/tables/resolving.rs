//! Which handler each event has in which table.

use crate::kernel::{build, handlers, hook_of, is_functions, right, wrong};
use kestrel::plan::{Options, Source, describe, plan};
use kestrel::table::TableFile;

fn row(table: u32, handler: &str) -> (u32, String) {
    (table, handler.to_owned())
}

/// Number of events that a plan attaches to: those that are alike share a hook.
fn events(plan: &kestrel::plan::Plan) -> usize {
    plan.hooks.iter().map(|hook| hook.instances.len()).sum()
}

#[test]
fn later_lines_replace_earlier_ones_and_empty_blocks_mask() {
    let plan = right(
        "table a { sched:* { record() }  sched:sched_wakeup { record(pid) }  tracepoint:sched:sched_waking { } }",
    );
    assert_eq!(handlers(&plan, "sched:sched_switch"), [row(1, "{ record() }")]);
    assert_eq!(handlers(&plan, "sched:sched_wakeup"), [row(1, "{ record(pid) }")]);
    assert!(
        hook_of(&plan, "sched:sched_waking").is_none(),
        "masked everywhere"
    );
    assert!(hook_of(&plan, "kmem:kfree").is_none());
}

#[test]
fn a_pattern_behind_a_name_replaces_it() {
    let plan = right("table a { sched:sched_switch { record(pid) }  sched:sched_s* { } }");
    assert!(plan.hooks.is_empty());
}

#[test]
fn children_start_from_their_parents_rows() {
    let text = "table base { sched:* { record() } }
        table child : base { sched:sched_switch { }  kmem:* { record(pid) } }
        table grandchild : child { sched:sched_switch /pid > 1/ { record(comm) } }";
    let plan = right(text);
    let switch = handlers(&plan, "sched:sched_switch");
    assert_eq!(
        switch,
        [row(1, "{ record() }"), row(3, "/pid > 1/ { record(comm) }")]
    );
    let wakeup = handlers(&plan, "sched:sched_wakeup");
    let all = [
        row(1, "{ record() }"),
        row(2, "{ record() }"),
        row(3, "{ record() }"),
    ];
    assert_eq!(wakeup, all);
    assert_eq!(
        hook_of(&plan, "sched:sched_wakeup").unwrap().handlers.len(),
        1,
        "one handler, three tables"
    );
    let free = handlers(&plan, "kmem:kfree");
    assert_eq!(free, [row(2, "{ record(pid) }"), row(3, "{ record(pid) }")]);
}

#[test]
fn tables_are_numbered_in_the_order_of_the_file_whatever_their_parents() {
    let plan = right("table child : base { }\ntable base { sched:sched_switch { record() } }");
    assert_eq!(plan.tables, ["child", "base"]);
    assert_eq!(handlers(&plan, "sched:sched_switch").len(), 2);
}

#[test]
fn equal_handlers_are_one() {
    let text =
        "table a { sched:sched_switch { record(pid) } }\ntable b { sched:sched_switch { record(pid) } }";
    let hook = right(text);
    let hook = hook_of(&hook, "sched:sched_switch").unwrap();
    assert_eq!((hook.handlers.len(), &hook.handlers[0].tables), (1, &vec![1, 2]));
    assert_eq!(hook.records, 1);
}

#[test]
fn sets_are_cut_where_their_handlers_differ() {
    let text = "table a { kprobe:vfs_* { record(pid) } }
        table b : a { kprobe:vfs_read* { record(comm) } }";
    let plan = right(text);
    let open = hook_of(&plan, "kprobe:vfs_open").unwrap();
    let names = |hook: &kestrel::plan::Hook| -> Vec<String> {
        hook.instances.iter().map(|i| i.name.clone()).collect()
    };
    assert_eq!(names(open), ["kprobe:vfs_open", "kprobe:vfs_write"]);
    let read = hook_of(&plan, "kprobe:vfs_read").unwrap();
    assert_eq!(names(read), ["kprobe:vfs_read", "kprobe:vfs_readv"]);
    assert!(is_functions(open) && is_functions(read));
    assert_eq!(plan.hooks.len(), 2);
    assert_eq!(
        handlers(&plan, "kprobe:vfs_read"),
        [row(1, "{ record(pid) }"), row(2, "{ record(comm) }")]
    );
    assert_eq!(read.records, 2);
}

#[test]
fn numbers_of_records_do_not_overlap() {
    let text = "table a { kprobe:vfs_* { record(pid) }  sched:* { record(); record(pid) } }
        table b : a { kprobe:vfs_read* { record(comm); record(tid) } }";
    let plan = right(text);
    let mut seen = std::collections::HashSet::new();
    for hook in &plan.hooks {
        for class in hook.classes(&hook.strategies[0]) {
            assert!(seen.insert(class.id), "{class:?}");
        }
    }
    assert_eq!(seen.len(), 2 + 2 * 3 + 3 * 2);
    assert!(
        seen.iter()
            .all(|id| u32::from(id.0) < plan.buffers[0].geometry.events)
    );
}

#[test]
fn every_hook_compiles_with_every_row() {
    let text = "buffer x { size = 64K }\nbuffer y { size = 64K }\nparam limit = 5
        table a { kprobe:vfs_* { record(pid) }  sched:* { record(to = \"y\") }  lock:* /pid > limit/ { record() } }
        table b : a { kprobe:vfs_read* { use_table(\"a\") }  kmem:kfree { freeze(\"y\") } lock:* { } }";
    let tree = tempfile::tempdir().unwrap();
    let catalog = build(tree.path(), &[]);
    let file = TableFile::parse(text, "test.kst").unwrap();
    for stays in [false, true] {
        let options = Options {
            persistent: stays,
            ..Options::default()
        };
        let plan = kestrel::plan::plan(Source::File(&file), &options, &catalog).unwrap();
        assert_eq!(plan.slots, stays);
        for hook in &plan.hooks {
            for way in &hook.strategies {
                let program = hook.compile(way, &plan, None).unwrap();
                assert!(!program.code.insns.is_empty());
            }
        }
    }
}

#[test]
fn patterns_leave_out_unprobeable_events_and_names_insist() {
    let text = "table a { kmem:*, sched:* { record(args.bytes) } }";
    let plan = right(text);
    assert_eq!(events(&plan), 2, "only those of kmem have that field");
    assert!(plan.hooks.iter().all(|h| h.optional));
    assert_eq!(plan.warnings.len(), 1, "{:?}", plan.warnings);
    let (_, warning) = &plan.warnings[0];
    assert!(warning.message.contains("left out"), "{warning:?}");
    assert!(
        warning.hints.iter().any(|h| h.contains("3 events")),
        "{warning:?}"
    );
    let error_text =
        wrong("table a { kmem:* { record(args.bytes) }  sched:sched_switch { record(args.bytes) } }");
    assert!(
        error_text.contains("test.kst:1:75: error: sched:sched_switch has no field \"bytes\""),
        "{error_text}"
    );
}

#[test]
fn one_table_keeps_an_event_that_another_cannot_have() {
    let plan = right("table a { sched:* { record() } }\ntable b { sched:* { record(args.bytes) } }");
    assert_eq!(handlers(&plan, "sched:sched_switch"), [row(1, "{ record() }")]);
}

#[test]
fn names_must_be_there_and_patterns_may_match_nothing() {
    let error_text = wrong("table a { sched:sched_swich { record() } }");
    assert!(
        error_text.starts_with("test.kst:1:11: error: this kernel has no tracepoint"),
        "{error_text}"
    );
    assert!(
        error_text.contains("did you mean tracepoint:sched:sched_switch"),
        "{error_text}"
    );
    let plan = right("table a { nobody:* { record() }  sched:sched_switch { record() } }");
    assert_eq!(plan.hooks.len(), 1);
    assert!(
        plan.warnings[0].1.message.contains("nobody:*"),
        "{:?}",
        plan.warnings
    );
    // Masking what is not there is no mistake.
    right("table a { sched:sched_switch { record() }  sched:sched_bogus { } }");
    let warned = |mask: &str| {
        let plan = right(&format!(
            "table a {{ sched:sched_switch {{ record() }}  {mask} {{ }} }}"
        ));
        let all = plan.warnings.iter();
        all.map(|(_, warning)| warning.message.clone())
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert!(warned("sched:nothing*").contains("sched:nothing*"));
    assert!(warned("tracepoint:sched:nothing*").contains("sched:nothing*"));
    assert!(warned("shed:*").contains("shed:*"));
    // A group of a class, of which another kernel may have something; and a class that has nothing here.
    assert_eq!(warned("memcg:*"), "");
    assert_eq!(warned("tracepoint:memcg:count*"), "");
    assert_eq!(warned("class:lock"), "");
    let error_text = wrong("table a { kprob:vfs_read { record() } }");
    assert!(
        error_text.contains("no tracepoint `kprob:vfs_read`"),
        "{error_text}"
    );
}

#[test]
fn classes_are_patterns() {
    let plan = right("table a { class:memory, class:process { record() }  class:lock { } }");
    assert_eq!(events(&plan), 5);
    let shown = describe(&plan, 1);
    let class = |event: &str| shown.iter().find(|s| s.event == event).unwrap().class;
    assert_eq!(class("kmem:kfree"), Some("memory"));
    assert_eq!(class("sched:sched_switch"), Some("process"));
    let error_text = wrong("table a { class:memry { record() } }");
    assert!(error_text.contains("class:memory"), "{error_text}");
    // One that is masked must be there, too.
    for mask in ["class:memry", "class:nope", "class:nop*"] {
        let error_text = wrong(&format!(
            "table a {{ sched:sched_switch {{ record() }}  {mask} {{ }} }}"
        ));
        assert!(
            error_text.contains(&format!("no class `{}`", &mask[6..])),
            "{error_text}"
        );
        assert!(error_text.contains("class:memory"), "{error_text}");
    }
}

#[test]
fn unknown_kinds_are_reported_at_their_place() {
    for (event, why) in [
        ("BEGIN", "kestrel run"),
        ("asyncwatchpoint:main", "not yet supported"),
    ] {
        for block in ["{ record() }", "{ }"] {
            let error_text = wrong(&format!(
                "table a {{\n  sched:sched_switch {{ record() }}\n  {event} {block}\n}}"
            ));
            assert!(error_text.contains(":3:3: error:"), "{error_text}");
            assert!(error_text.contains(why), "{error_text}");
        }
    }
}

#[test]
fn two_hundred_tables_of_fifteen_hundred_events() {
    let more: Vec<String> = (0..1500).map(|n| format!("group{}:event_{n}", n % 30)).collect();
    let tree = tempfile::tempdir().unwrap();
    let catalog = build(tree.path(), &more);
    let mut text = "table base { *:* { record() } }\n".to_owned();
    for n in 0..200 {
        text += &format!(
            "table t{n} : base {{ group{}:* {{ }}  group{}:* {{ record(pid) }} }}\n",
            n % 30,
            (n + 7) % 30
        );
    }
    let file = TableFile::parse(&text, "test.kst").unwrap();
    let plan = plan(Source::File(&file), &Options::default(), &catalog).unwrap();
    assert_eq!(plan.tables.len(), 201);
    assert_eq!(events(&plan), 1507);
    assert!(
        plan.hooks.len() < 50,
        "those that are alike share a program: {}",
        plan.hooks.len()
    );
    let of = |event: &str| handlers(&plan, event);
    assert_eq!(of("sched:sched_switch").len(), 201);
    let masked = (0..200).filter(|n| n % 30 == 3).count();
    assert_eq!(of("group3:event_3").len(), 201 - masked);
    let hook = hook_of(&plan, "group3:event_3").unwrap();
    assert!(hook.compile(&hook.strategies[0], &plan, None).is_ok());
}

#[test]
fn starting_with_another_table_makes_it_number_one() {
    let mut file = TableFile::parse(
        "table a { }\ntable b { sched:sched_switch { record() } }",
        "test.kst",
    )
    .unwrap();
    file.start_with("b").unwrap();
    let tree = tempfile::tempdir().unwrap();
    let plan = plan(Source::File(&file), &Options::default(), &build(tree.path(), &[])).unwrap();
    assert_eq!(plan.tables, ["b", "a"]);
    assert_eq!(handlers(&plan, "sched:sched_switch"), [row(1, "{ record() }")]);
    let error = file.start_with("c").unwrap_err().to_string();
    assert_eq!(error, "test.kst has no table `c`; it has b, a");
}

#[test]
fn texts_and_tables_join_and_dedupe_alike() {
    let tree = tempfile::tempdir().unwrap();
    let catalog = build(tree.path(), &[]);
    let hooks = |plan: &kestrel::plan::Plan| -> Vec<(Vec<String>, String)> {
        let hook = |hook: &kestrel::plan::Hook| {
            let mut names: Vec<String> = hook.instances.iter().map(|i| i.name.clone()).collect();
            names.sort();
            (names, hook.strategies[0].to_string())
        };
        plan.hooks.iter().map(hook).collect()
    };
    for (probe, sizes) in [
        // Named one by one, with a handler that holds for both: one link.
        ("kprobe:vfs_read, kprobe:vfs_write { record(pid) }", vec![2]),
        // Few with the default record: each has its parameters in it.
        ("kprobe:vfs_read, kprobe:vfs_write", vec![1, 1]),
        // A function named by itself is seen by itself; the pattern has the rest.
        ("kprobe:vfs_read, kprobe:vfs_*", vec![1, 3]),
        ("kprobe:vfs_*, kprobe:vfs_read", vec![1, 3]),
        // An event that is named again meets the handler once.
        (
            "kprobe:vfs_read, kprobe:vfs_read, kprobe:vfs_read { record(pid) }",
            vec![1],
        ),
        ("kprobe:vfs_*, kprobe:vfs_r* { record(pid) }", vec![4]),
    ] {
        let options = Options::default();
        let text = plan(Source::Events(&[probe.to_owned()]), &options, &catalog).unwrap();
        let file = TableFile::parse(&format!("table a {{ {probe} }}"), "a.kst").unwrap();
        let table = plan(Source::File(&file), &options, &catalog).unwrap();
        assert_eq!(hooks(&text), hooks(&table), "{probe}");
        let mut found: Vec<usize> = hooks(&text).iter().map(|(names, _)| names.len()).collect();
        found.sort();
        assert_eq!(found, sizes, "{probe}");
    }
}

#[test]
fn every_text_adds_its_handler_and_a_later_row_replaces_one() {
    let tree = tempfile::tempdir().unwrap();
    let catalog = build(tree.path(), &[]);
    let options = Options::default();
    let texts = [
        "sched:sched_switch { record(pid) } sched:sched_switch { record(tid) }".to_owned(),
        "sched:sched_switch { record(comm) }".to_owned(),
        "sched:sched_switch { record(comm) }".to_owned(),
    ];
    let both = plan(Source::Events(&texts), &options, &catalog).unwrap();
    let written: Vec<&str> = both.hooks.iter().map(|hook| hook.handlers[0].text()).collect();
    assert_eq!(
        written,
        [
            "sched:sched_switch { record(pid) }",
            "sched:sched_switch { record(tid) }",
            "sched:sched_switch { record(comm) }"
        ]
    );
    let one = right("table a { sched:sched_switch { record(pid) } sched:sched_switch { record(tid) } }");
    assert_eq!(handlers(&one, "sched:sched_switch"), [row(1, "{ record(tid) }")]);
}
