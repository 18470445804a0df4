//! A table for a session that runs: what goes into slots of its hooks, and what needs hooks of its own.

use crate::kernel::{build, rendered};
use kestrel::catalog::{Catalog, Via};
use kestrel::plan::{Existing, ExistingHook, Options, Source, plan, plan_load};
use kestrel::plan::{Hook, Plan, Slot};
use kestrel::table::TableFile;

/// The description of a session that was started with this plan, the first ways taken.
fn existing(plan: &Plan) -> Existing {
    let hook = |(number, hook): (u32, &Hook)| ExistingHook {
        number,
        is_relay: false,
        kind: hook.kind.to_owned(),
        instances: hook.instances.iter().map(|i| i.name.clone()).collect(),
        mechanism: hook.strategies[0].mechanism.clone(),
    };
    Existing {
        tables: plan.tables.clone(),
        buffers: plan.buffers.clone(),
        globals: plan.globals.clone(),
        target: plan.target.clone(),
        hooks: (0..).zip(&plan.hooks).map(hook).collect(),
        next_number: 100,
    }
}

const RUNNING: &str = "buffer x { size = 64K }
    table a { kprobe:vfs_* { record(pid) }  sched:sched_switch { record() } }";

fn started(catalog: &Catalog) -> Existing {
    let file = TableFile::parse(RUNNING, "running.kst").unwrap();
    let options = Options {
        persistent: true,
        messages: true,
        ..Options::default()
    };
    existing(&plan(Source::File(&file), &options, catalog).unwrap())
}

fn load(text: &str) -> Result<(Existing, Plan), kestrel::Error> {
    let tree = tempfile::tempdir().unwrap();
    let catalog = build(tree.path(), &[]);
    let existing = started(&catalog);
    let file = TableFile::parse(text, "more.kst")?;
    let plan = plan_load(&existing, &file, "b", 7, &catalog, Via::Auto)?;
    Ok((existing, plan))
}

fn slots(plan: &Plan) -> Vec<&Slot> {
    plan.hooks.iter().filter_map(|hook| hook.slot.as_ref()).collect()
}

#[test]
fn events_that_are_seen_already_get_slots_and_others_hooks() {
    let (existing, plan) =
        load("table b { sched:* { record(comm) }  kprobe:vfs_read { record(tid) } }").unwrap();
    let place = |kind: &str| existing.hooks.iter().position(|h| h.kind == kind).unwrap();
    let slots = slots(&plan);
    assert_eq!(slots.len(), 2);
    let of = |hook: usize| slots.iter().find(|s| s.hook == hook).unwrap();
    assert_eq!(
        of(place("tracepoint")).sets,
        [Vec::<u16>::new()],
        "the only event of its hook"
    );
    assert_eq!(
        of(place("kprobe")).sets,
        [vec![1]],
        "vfs_read is the second of the set"
    );
    let new: Vec<&Hook> = plan.hooks.iter().filter(|h| h.slot.is_none()).collect();
    let of_all = new.iter().flat_map(|h| &h.instances);
    let mut names: Vec<&str> = of_all.map(|event| event.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["sched:sched_wakeup", "sched:sched_waking"]);
    assert!(
        plan.hooks
            .iter()
            .flat_map(|h| &h.handlers)
            .all(|row| row.tables == [7])
    );
    assert_eq!(
        plan.tables,
        ["a", "b"],
        "a new table has the place after the others"
    );
    for hook in &plan.hooks {
        assert!(hook.first_record_id >= 100);
        hook.compile(&hook.strategies[0], &plan, None).unwrap();
    }
}

#[test]
fn a_set_keeps_its_order_and_several_handlers_their_places() {
    let (existing, plan) = load(
        "table b { kprobe:vfs_* { record(comm) }  kprobe:vfs_readv { record(tid) }  kprobe:vfs_open { } }",
    )
    .unwrap();
    let [hook] = plan.hooks.as_slice() else {
        panic!("{} hooks", plan.hooks.len());
    };
    let slot = hook.slot.as_ref().unwrap();
    let names: Vec<&str> = hook.instances.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(names, existing.hooks[slot.hook].instances);
    assert_eq!(
        names,
        [
            "kprobe:vfs_open",
            "kprobe:vfs_read",
            "kprobe:vfs_readv",
            "kprobe:vfs_write"
        ]
    );
    let texts: Vec<String> = hook.handlers.iter().map(kestrel::plan::handler).collect();
    let mut found: Vec<(&str, &Vec<u16>)> = texts.iter().map(String::as_str).zip(&slot.sets).collect();
    found.sort();
    assert_eq!(
        found,
        [("{ record(comm) }", &vec![1, 3]), ("{ record(tid) }", &vec![2])]
    );
    hook.compile(&hook.strategies[0], &plan, None).unwrap();
}

#[test]
fn items_of_table_files_that_need_a_start_are_refused_by_load() {
    let words = |text: &str| match load(text) {
        Ok(_) => panic!("`{text}` should be wrong"),
        Err(error) => rendered(&error),
    };
    let wrong = words("buffer y { size = 64K }\ntable b { sched:sched_switch { record() } }");
    assert!(
        wrong.contains("more.kst:1:8: error: the running session has no buffer \"y\""),
        "{wrong}"
    );
    let wrong = words("table c { sched:sched_switch { record() } }");
    assert_eq!(wrong, "more.kst has no table `b`; it has c");
    // Tables of the running session can be named, those of the new file that are not loaded cannot.
    assert!(load("table b { sched:sched_switch { use_table(\"a\") } }").is_ok());
    let wrong = words("table b { sched:sched_switch { use_table(\"c\") } }\ntable c { }");
    assert!(wrong.contains("\"c\""), "{wrong}");
}

#[test]
fn parameters_that_are_new_are_added() {
    let (_, plan) =
        load("param limit = 5\ntable b { sched:sched_switch /pid > limit/ { record() } }").unwrap();
    assert_eq!(plan.globals.parameters[0].name, "limit");
}
