//! The command lines of the pages in docs/, run page by page. Those of README.md are in the file `readme`. Those of docs/objects.md are beside the other tests of objects, those of docs/events.md, which need a library, beside those of uprobes, those of docs/tracepoints.md, which need programs, beside those of tracepoints.

use kestrel::session::named::SESSION;
use vm_tests::pages::{self, Page};

#[test]
fn commands_of_the_tutorial_run() {
    let page = Page::of("tutorial.md");
    page.script("deploy", "sleep 0.1");
    page.run(12);
}

#[test]
fn commands_of_the_page_about_the_language_run() {
    Page::of("language.md").run(2);
}

#[test]
fn commands_of_the_page_about_scripts_run() {
    Page::of("scripts.md").run(2);
}

#[test]
fn commands_of_the_page_about_reading_run() {
    Page::of("reading-a-recording.md").run(6);
}

#[test]
fn commands_of_the_page_about_browsers_run() {
    Page::of("browser.md").run(4);
}

#[test]
fn commands_of_the_page_about_exports_run() {
    Page::of("exports.md").run(5);
}

/// A recording of LTTng's kernel tracer, whose modules guests have not: file and bytes.
const LTTNG: [(&str, &[u8]); 3] = [
    (
        "metadata",
        include_bytes!("../../../crates/trace/tests/recorded/lttng-kernel/metadata.zst"),
    ),
    (
        "channel0_0",
        include_bytes!("../../../crates/trace/tests/recorded/lttng-kernel/channel0_0.zst"),
    ),
    (
        "channel0_1",
        include_bytes!("../../../crates/trace/tests/recorded/lttng-kernel/channel0_1.zst"),
    ),
];

#[test]
fn commands_of_the_page_about_imports_run() {
    let page = Page::of("imports.md");
    for (name, packed) in LTTNG {
        let bytes = zstd::decode_all(packed).unwrap();
        page.write(&format!("lttng-traces/session/kernel/{name}"), bytes);
    }
    page.run(6);
}

#[test]
fn commands_of_the_page_about_small_files_run() {
    Page::of("small-files.md").run(6);
}

#[test]
fn commands_of_the_page_about_asking_later_run() {
    Page::of("ask-later.md").run(7);
}

#[test]
fn commands_of_the_page_about_system_calls_run() {
    Page::of("system-calls.md").run(10);
}

#[test]
fn commands_of_the_page_about_tracefs_run() {
    Page::of("tracefs.md").run(5);
}

#[test]
fn commands_of_the_page_about_targets_run() {
    Page::of("targets.md").run(7);
}

#[test]
fn commands_of_the_page_about_marks_run() {
    Page::of("marks.md").run(5);
}

#[test]
fn commands_of_the_page_about_profiles_run() {
    Page::of("profiles.md").run(6);
}

#[test]
fn commands_of_the_page_about_the_scheduler_run() {
    Page::of("sched.md").run(10);
}

#[test]
fn commands_of_the_page_about_counting_run() {
    Page::of("stat.md").run(10);
}

#[test]
fn commands_of_the_page_about_tables_run() {
    let page = Page::of("tables-and-sessions.md");
    page.write("demo.kst", page.block("buffer main "));
    page.write(
        "more.kst",
        "table more { sched:sched_process_exit { record() } }\n",
    );
    page.run(8);
}

#[test]
fn commands_of_the_page_about_probes_run() {
    Page::of("probes.md").run(6);
    let left = vm_tests::kestrel(&["status", SESSION]);
    assert_ne!(left.code, Some(0), "the last line stops it: {}", left.out);
}

#[test]
fn no_page_with_commands_is_left_out() {
    let own = include_str!("pages.rs");
    let others = [
        include_str!("readme.rs"),
        include_str!("objects/documented.rs"),
        include_str!("uprobes.rs"),
        include_str!("tracepoints.rs"),
    ];
    for name in pages::names() {
        let runs = format!("Page::of(\"{name}\")");
        assert!(
            own.contains(&runs) || others.iter().any(|other| other.contains(&runs)),
            "{name} has commands"
        );
    }
}

#[test]
fn commands_of_the_page_about_terminals_run() {
    Page::of("on-a-terminal.md").run(4);
}

#[test]
fn commands_of_the_page_about_live_views_run() {
    Page::of("live.md").run(7);
}
