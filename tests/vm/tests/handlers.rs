//! Handlers of a session that runs: their counts are exact, parameters take effect on the next event, and a reset begins at 0.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use kestrel::kernel::Host;
use kestrel::session::store::Store;
use serde_json::Value;
use vm_tests::recording::counts;
use vm_tests::{kestrel, shell};

const TABLES: &str = r#"
param threshold = 1
param loud = false
table main {
  syscalls:sys_enter_getppid /comm == "calls"/ {
    count();
    @size = hist(threshold);
    if (threshold > 5) { record(level = threshold) }
  }
  syscalls:sys_exit_getppid /comm == "calls"/ { count(); @left[comm]++ }
}
table other {
  syscalls:sys_enter_getppid /loud/ { @left[comm]++ }
}
"#;

const ENTER: &str = "main/syscalls:sys_enter_getppid";
const EXIT: &str = "main/syscalls:sys_exit_getppid";

/// A session of these tables, stopped at the end.
struct Session;

impl Session {
    fn start() -> Self {
        Self::of(TABLES)
    }

    fn of(tables: &str) -> Self {
        std::fs::write("/tmp/handlers.kst", tables).unwrap();
        kestrel(&["start", "/tmp/handlers.kst"]).success();
        Self
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let stopped = kestrel(&["stop"]);
        if !std::thread::panicking() {
            stopped.success();
        }
    }
}

/// A handler, as `handler list` has it.
fn handler(name: &str) -> Value {
    let list = kestrel(&["handler", "list", "--format", "json"]).success();
    let all: Vec<Value> = list
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let found = all.into_iter().find(|handler| handler["handler"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {list}"))
}

/// Contents of a handler's map.
fn map(handler: &Value, title: &str) -> Value {
    let mut maps = handler["maps"].as_array().unwrap().iter();
    let held = maps.find_map(|map| map["data"].get(title));
    held.unwrap_or_else(|| panic!("no {title} in {handler}")).clone()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Number of a handler's runs: the value of its bare `count()`.
fn counted(handler: &Value) -> u64 {
    let event = handler["events"][0]["event"].as_str().unwrap();
    number(&map(handler, "count()")[event])
}

/// Number of a histogram's values.
fn values(handler: &Value) -> u64 {
    let buckets = map(handler, "@size");
    buckets
        .as_array()
        .map_or(0, |all| all.iter().map(|bucket| number(&bucket["count"])).sum())
}

/// Hits that were missed so far, of all events of the session.
fn missed() -> u64 {
    let store = Store::open(&Host::default()).unwrap();
    store.session(None).unwrap().missed().unwrap()
}

fn calls(times: u64) {
    shell(&format!("calls getppid {times}")).success();
}

/// Whether `kept` of `events` is right: all, but for those that the kernel says it missed.
fn explained(handler: &Value, kept: u64, events: u64) -> bool {
    kept <= events && kept + number(&handler["missed"]) >= events
}

#[test]
fn messages_sent_are_counted() {
    let _session = Session::of(
        "table main { syscalls:sys_enter_getppid /comm == \"calls\"/ { @n++; exec(\"/bin/true\") } \
         syscalls:sys_exit_getppid /comm == \"calls\"/ { @m++; notify(\"left\"); record() } }",
    );
    calls(20);
    let (asks, both) = (handler(ENTER), handler(EXIT));
    assert_eq!(
        (&asks["messages"], &both["messages"]),
        (&true.into(), &false.into())
    );
    assert_eq!(asks["kept"], map(&asks, "@n"), "{asks}");
    assert!(explained(&asks, number(&asks["kept"]), 20), "{asks}");
    assert_eq!(
        both["kept"],
        map(&both, "@m"),
        "its messages are not counted among its records: {both}"
    );
    let text = kestrel(&["handler", "list"]).success();
    let printed = format!("{} messages sent to the agent, 0 lost", number(&asks["kept"]));
    assert!(text.contains(&printed), "{text}");
    kestrel(&["handler", "control", ENTER, "reset"]).success();
    assert_eq!(number(&handler(ENTER)["kept"]), 0);
    // In the foreground they are shown at once.
    let words = [
        "--table",
        "/tmp/handlers.kst",
        "-o",
        "/tmp/handlers.trace",
        "--",
        "calls",
        "getppid",
        "20",
    ];
    let run = kestrel(&[&["record"], &words[..]].concat());
    assert_eq!(run.code, Some(0), "{}", run.err);
    // Each event asks once; a kernel that preempts programs may skip some, which the recorder says.
    let shown = |what: &str| run.out.lines().filter(|line| line.contains(what)).count();
    let missed = counts(&run.err);
    assert!(
        missed.explain(shown(": exec /bin/true ("), 20),
        "{} {}",
        run.out,
        run.err
    );
    assert!(missed.explain(shown(": left ("), 20), "{} {}", run.out, run.err);
    // The trace has what was recorded alone.
    let lines = kestrel(&["print", "/tmp/handlers.trace"]).success();
    assert!(
        lines.lines().all(|line| line.contains("sys_exit_getppid: ")),
        "{lines}"
    );
    assert!(missed.explain(lines.lines().count(), 20), "{lines}");
}

#[test]
fn they_count_exactly_and_begin_anew() {
    let _session = Session::start();
    calls(700);
    let enter = handler(ENTER);
    assert!(explained(&enter, counted(&enter), 700), "{enter}");
    assert_eq!(values(&enter), counted(&enter), "{enter}");
    assert_eq!(
        (number(&enter["kept"]), &enter["active"]),
        (0, &true.into()),
        "{enter}"
    );
    assert_eq!(enter["parameters"]["threshold"], 1);
    let exit = handler(EXIT);
    assert!(explained(&exit, counted(&exit), 700), "{exit}");
    assert_eq!(map(&exit, "@left")["calls"], counted(&exit));
    assert_eq!(exit["parameters"], serde_json::json!({}));
    assert_eq!(handler("other/syscalls:sys_enter_getppid")["active"], false);

    let set = kestrel(&["handler", "control", ENTER, "set", "threshold=4K"]);
    assert!(set.err.contains("threshold 1 → 4096"), "{}", set.err);
    calls(50);
    let after = handler(ENTER);
    assert!(explained(&after, number(&after["kept"]), 50), "{after}");
    assert_eq!(counted(&after), counted(&enter) + number(&after["kept"]));
    assert_eq!(after["parameters"]["threshold"], 4096);

    // The automatic map is the other handler's, too: that one keeps its count.
    let exit = counted(&handler(EXIT));
    let before = missed();
    kestrel(&["handler", "control", "main/*enter_getppid", "reset"]).success();
    let reset = handler(ENTER);
    let zeros = (counted(&reset), values(&reset), number(&reset["kept"]));
    assert_eq!(zeros, (0, 0, 0), "{reset}");
    // Hits missed since are of others' calls: theirs go through the same hook.
    let since = missed() - before;
    assert!(
        number(&reset["missed"]) <= since,
        "{since} since {after}: {reset}"
    );
    assert_eq!(counted(&handler(EXIT)), exit);
    calls(9);
    let again = handler(ENTER);
    assert!(explained(&again, number(&again["kept"]), 9), "{again}");
    assert_eq!(
        (counted(&again), values(&again)),
        (number(&again["kept"]), number(&again["kept"]))
    );

    let whole = kestrel(&["handler", "list", "-v"]).success();
    assert!(whole.contains("@size:\n") && whole.contains("|@@@@"), "{whole}");
    assert!(
        whole.contains(&format!("* {ENTER}\n")) && whole.contains("threshold = 4096"),
        "{whole}"
    );
    let brief = kestrel(&["handler", "list"]).success();
    assert!(brief.contains("@size: a histogram of "), "{brief}");
    let status = kestrel(&["status", "--interval", "0"]).success();
    assert!(
        status.contains("count() 2 keys") && status.contains("@size 1 key"),
        "{status}"
    );
}

#[test]
fn a_reset_names_handlers_that_share_maps() {
    let _session = Session::start();
    calls(5);
    let reset = kestrel(&["handler", "control", EXIT, "reset"]);
    assert_eq!(reset.code, Some(0), "{}", reset.err);
    assert!(
        reset
            .err
            .contains("@left is empty, also for other/syscalls:sys_enter_getppid"),
        "{}",
        reset.err
    );
    assert_eq!(
        map(&handler("other/syscalls:sys_enter_getppid"), "@left"),
        serde_json::json!({})
    );
    let set = kestrel(&["handler", "control", "other", "set", "loud=true"]);
    assert!(set.err.contains("loud false → true"), "{}", set.err);
    kestrel(&["table", "use", "other"]).success();
    calls(20);
    let other = handler("other/syscalls:sys_enter_getppid");
    assert!(
        explained(&other, number(&map(&other, "@left")["calls"]), 20),
        "{other}"
    );
    assert_eq!(
        (&other["parameters"]["loud"], &other["active"]),
        (&true.into(), &true.into())
    );
}

#[test]
fn names_that_are_wrong_get_a_clear_word() {
    let _session = Session::start();
    for (arguments, printed) in [
        (
            &["main/syscalls:sys_enter_getpid", "reset"][..],
            "did you mean main/syscalls:sys_enter_getppid",
        ),
        (
            &["main", "reset"],
            "may be any of 2 handlers: main/syscalls:sys_enter_getppid, main/syscalls:sys_exit_getppid",
        ),
        (
            &[ENTER, "set", "limit=3"],
            "has no parameter `limit`; it has threshold",
        ),
        (
            &[EXIT, "set", "threshold=3"],
            "has no parameter `threshold` nor any other",
        ),
        (
            &[ENTER, "set", "threshold=soon"],
            "threshold:1:1: error: a parameter's value is known before anything runs",
        ),
        (&[ENTER, "set", "threshold=true"], "a number"),
        (&[ENTER, "set", "threshold"], "NAME=VALUE"),
    ] {
        let run = kestrel(&[&["handler", "control"], arguments].concat());
        assert_eq!(run.code, Some(2), "{arguments:?}: {}", run.err);
        assert!(run.err.contains(printed), "{arguments:?}: {}", run.err);
    }
    assert_eq!(
        handler(ENTER)["parameters"]["threshold"],
        1,
        "nothing was changed"
    );
}

/// Two handlers of one event whose records have the same shape.
const ALIKE: &str = r#"
buffer main { size = 64K }
buffer two { size = 64K }
table normal { syscalls:sys_enter_getppid /comm == "calls"/ { record() } }
table detail { syscalls:sys_enter_getppid /comm == "calls"/ { record(to("two")) } }
"#;

/// Records that both have kept in `ALIKE`, held against how often each was hit.
fn kept(normal: u64, detail: u64) {
    for (table, events) in [("normal", normal), ("detail", detail)] {
        let handler = handler(&format!("{table}/syscalls:sys_enter_getppid"));
        // Hits that the hook missed before this handler was loaded may be missing elsewhere, so it is a bound.
        assert!(
            explained(&handler, number(&handler["kept"]), events),
            "{events} of {handler}"
        );
    }
}

#[test]
fn a_handler_that_is_loaded_again_keeps_its_own_counts() {
    let _session = Session::of(ALIKE);
    let using = |table: &str, times: u64| {
        kestrel(&["table", "use", table]).success();
        calls(times);
    };
    using("normal", 400);
    using("detail", 30);
    kept(400, 30);
    for round in 1..=3 {
        kestrel(&["table", "load", "/tmp/handlers.kst"]).success();
        kept(400 + 5 * (round - 1), 30 + 7 * (round - 1));
        using("normal", 5);
        using("detail", 7);
        kept(400 + 5 * round, 30 + 7 * round);
    }
    // Another handler in the table's place begins at 0, and so does one whose table comes back.
    std::fs::write(
        "/tmp/other.kst",
        ALIKE.replace("comm == \"calls\"", "comm != \"none\" && comm == \"calls\""),
    )
    .unwrap();
    kestrel(&["table", "load", "/tmp/other.kst", "--table", "normal"]).success();
    using("normal", 11);
    kept(11, 51);
    using("detail", 1);
    kestrel(&["table", "unload", "normal"]).success();
    kestrel(&["table", "load", "/tmp/handlers.kst", "--table", "normal"]).success();
    using("normal", 3);
    kept(3, 52);
}

#[test]
fn other_sessions_and_other_commands_are_named() {
    let _session = Session::start();
    kestrel(&["probe", "add", "p", "kprobe:__x64_sys_getppid { count() }"]).success();
    // Beside a session of probes alone, the other one is meant; the probes' is by its name.
    for words in [
        &["table", "use", "other"][..],
        &["table", "list"],
        &["buffer", "list"],
        &["handler", "list"],
        &["table", "list", "--session", "probes"],
    ] {
        kestrel(words).success();
    }
    let status = kestrel(&["status", "--format", "json"]).success();
    assert_eq!(status.lines().count(), 2, "{status}");
    let which = kestrel(&["handler", "control", "main", "reset"]);
    assert_eq!(which.code, Some(2), "{}", which.err);
    assert!(
        which.err.contains("a session is named with --session"),
        "{}",
        which.err
    );
    // Somebody who is changing the session, and does not come to an end: this test.
    let lock = std::fs::File::open("/run/kestrel/main.lock").unwrap();
    lock.lock().unwrap();
    let waited = kestrel(&["table", "use", "main", "--wait", "1500ms"]);
    assert_eq!(waited.code, Some(1), "{}", waited.err);
    let own = format!("the session main: process {} (", std::process::id());
    for words in [
        format!("waiting: another command is changing {own}"),
        own,
        "given up after 1.5 s".to_owned(),
    ] {
        assert!(waited.err.contains(&words), "{words}: {}", waited.err);
    }
    lock.unlock().unwrap();
    kestrel(&["table", "use", "main", "--wait", "1500ms"]).success();
    kestrel(&["start", "second", "/tmp/handlers.kst"]).success();
    let which = kestrel(&["table", "list"]);
    assert_eq!(which.code, Some(2), "{}", which.err);
    kestrel(&["stop", "second"]).success();
    kestrel(&["stop", "probes"]).success();
}

#[test]
fn a_signal_ends_the_process_at_the_event() {
    let event = "syscalls:sys_enter_getpriority /comm == \"calls\"/ { @n = count(); if (pid > 1) { signal(\"KILL\") } }";
    let traced = kestrel(&["trace", "-e", event, "--", "calls", "getpriority", "100"]);
    assert!(traced.out.contains("@n: 1\n"), "{} {}", traced.out, traced.err);
    assert!(traced.err.contains("SIGKILL"), "{}", traced.err);
}
