//! A kernel as a folder: tracepoints of two fields, functions, no types.

use kestrel::attach::{self, Mechanism};
use kestrel::catalog::Catalog;
use kestrel::kernel::Host;
use kestrel::plan::{Hook, Plan};
use kestrel::plan::{Options, Source};
use kestrel::table::TableFile;
use kestrel::{Error, language};
use std::fmt::Write;
use std::path::Path;

/// `group:name`, and one whose field has a length that is not known, another without fields.
const EVENTS: &[&str] = &[
    "sched:sched_switch",
    "sched:sched_wakeup",
    "sched:sched_waking",
    "kmem:kmalloc",
    "kmem:kfree",
    "lock:contention_begin",
    "lock:contention_end",
];
const FUNCTIONS: &[&str] = &["vfs_open", "vfs_read", "vfs_readv", "vfs_write"];

fn format(name: &str, id: usize) -> String {
    let mut text = format!("name: {name}\nID: {id}\nformat:\n");
    let mut field = |ty: &str, name: &str, offset: u32, size: u32| {
        let _ = writeln!(
            text,
            "\tfield:{ty} {name};\toffset:{offset};\tsize:{size};\tsigned:0;"
        );
    };
    field("unsigned short", "common_type", 0, 2);
    field("unsigned char", "common_flags", 2, 1);
    field("unsigned char", "common_preempt_count", 3, 1);
    field("int", "common_pid", 4, 4);
    field("unsigned int", "number", 8, 4);
    if name.starts_with('k') {
        field("unsigned int", "bytes", 12, 4);
    }
    text + "\nprint fmt: \"number=%u\", REC->number\n"
}

/// Lays the kernel out with `more` events beside those above.
pub fn build(root: &Path, more: &[String]) -> Catalog {
    let put = |path: &str, text: &str| {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let tracing = "sys/kernel/tracing";
    let mut available = String::new();
    for (id, event) in EVENTS
        .iter()
        .copied()
        .chain(more.iter().map(String::as_str))
        .enumerate()
    {
        let (group, name) = event.split_once(':').unwrap();
        let _ = writeln!(available, "{event}");
        put(
            &format!("{tracing}/events/{group}/{name}/format"),
            &format(name, id + 1),
        );
    }
    put(&format!("{tracing}/available_events"), &available);
    put(
        &format!("{tracing}/available_filter_functions"),
        &FUNCTIONS.join("\n"),
    );
    put("sys/bus/event_source/devices/kprobe/type", "8\n");
    Catalog::new(Host::new(root))
}

/// Resolves a text on this kernel.
pub fn plan(text: &str) -> Result<Plan, Error> {
    let tree = tempfile::tempdir().unwrap();
    let catalog = build(tree.path(), &[]);
    let file = TableFile::parse(text, "test.kst")?;
    kestrel::plan::plan(Source::File(&file), &Options::default(), &catalog)
}

/// A plan of a text that must be right.
pub fn right(text: &str) -> Plan {
    plan(text).unwrap_or_else(|error| panic!("{}", rendered(&error)))
}

/// The error message of a text.
pub fn wrong(text: &str) -> String {
    match plan(text) {
        Ok(_) => panic!("`{text}` should be wrong"),
        Err(error) => rendered(&error),
    }
}

/// An error as people see it.
pub fn rendered(error: &Error) -> String {
    match error {
        Error::Table {
            file,
            source_text,
            diagnostics,
        } => language::render(diagnostics, file, source_text, language::Style::default()),
        other => other.to_string(),
    }
}

/// The hook that serves an event: there is at most one.
pub fn hook_of<'p>(plan: &'p Plan, event: &str) -> Option<&'p Hook> {
    let mut hooks = plan
        .hooks
        .iter()
        .filter(|h| h.instances.iter().any(|i| i.name == event));
    let first = hooks.next();
    assert!(hooks.next().is_none(), "{event} has two hooks");
    first
}

/// The handlers of an event in each table, by number: the handler's text.
pub fn handlers(plan: &Plan, event: &str) -> Vec<(u32, String)> {
    let rows = hook_of(plan, event).map_or(&[][..], |hook| &hook.handlers);
    let mut all: Vec<(u32, String)> = Vec::new();
    for row in rows {
        all.extend(row.tables.iter().map(|t| (*t, kestrel::plan::handler(row))));
    }
    all.sort();
    all
}

pub fn is_functions(hook: &Hook) -> bool {
    hook.strategies.iter().all(|w| {
        matches!(
            w.mechanism,
            Mechanism::Functions(attach::Functions { at_return: false, .. })
        )
    })
}
