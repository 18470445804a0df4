//! Objects of another program type than a running session's hooks: a hook beside each, which learns its table from the one that is there.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use super::held::{gone, held};
use kestrel::kernel::Host;
use kestrel::session::store::Store;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use vm_tests::{kestrel, shell, table_file, until};

const MAIN: &str = r#"
buffer ring { size = 256k }
table main { syscalls:sys_enter_getppid /comm == "calls"/ { @main = count() } }
table none { sched:sched_process_exec { record() } }
"#;

/// The event's own formatted entry, and its raw arguments.
const LATER: &str = r#"
table classic : raw { syscalls:sys_enter_getppid /comm == "calls"/ handler "/object_handler.o:classic" }
table raw {
  syscalls:sys_enter_getppid /comm == "calls"/ handler "/object_handler.o:raw"
  sched:sched_process_exec /comm == "calls"/ handler "/object_handler.o:classic"
}
"#;

const RAW: u64 = 2;
const CLASSIC: u64 = 3;

fn json(arguments: &[&str]) -> Vec<Value> {
    let list = kestrel(arguments).success();
    list.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Counts of each of the object's programs, and the handler's own count of the first table.
struct Seen {
    raw: u64,
    classic: u64,
    main: u64,
    /// Runs that the kernel missed in all hooks.
    missed: u64,
}

fn seen() -> Seen {
    let all = json(&["handler", "list", "--format", "json"]);
    let each = |what: &'static str| {
        all.iter()
            .flat_map(move |handler| handler[what].as_array().unwrap())
    };
    let of = |key: u64| {
        let maps = each("programs").flat_map(|program| program["maps"].as_array().unwrap());
        let mut entries = maps
            .filter(|map| map["map"] == "seen")
            .flat_map(|map| map["entries"].as_array().unwrap());
        entries
            .find(|entry| entry["key"] == key)
            .map_or(0, |entry| entry["value"]["hits"].as_u64().unwrap())
    };
    let main = each("maps").find_map(|map| map["data"]["@main"].as_u64());
    let status = json(&["status", "--interval", "50ms", "--format", "json"]);
    let programs = status[0]["programs"].as_array().unwrap();
    Seen {
        raw: of(RAW),
        classic: of(CLASSIC),
        main: main.unwrap_or(0),
        missed: programs.iter().map(|p| p["missed"].as_u64().unwrap()).sum(),
    }
}

impl Seen {
    fn all(&self) -> u64 {
        self.raw + self.classic + self.main
    }

    #[track_caller]
    fn is(&self, happened: u64) {
        let Self {
            raw,
            classic,
            main,
            missed,
        } = self;
        println!("{raw} raw, {classic} classic, {main} counted, {missed} missed of {happened}");
        assert!(
            self.all() <= happened && self.all() + missed >= happened,
            "{raw} raw, {classic} classic, {main} counted, {missed} missed of {happened}"
        );
    }
}

fn use_table(name: &str) {
    kestrel(&["table", "use", name]).success();
}

fn calls(times: u64) {
    shell(&format!("calls getppid {times}")).success();
}

#[test]
fn programs_of_other_types_come_into_a_running_session() {
    let before = held();
    kestrel(&["start", &table_file("relayed", MAIN)]).success();
    calls(100);
    let later = table_file("other", LATER);
    kestrel(&["table", "load", &later]).success();
    calls(100);
    seen().is(200);
    assert_eq!(
        (seen().raw, seen().classic),
        (0, 0),
        "their tables are not active"
    );
    use_table("classic");
    calls(100);
    let one = seen();
    // The object of the other event counts the command that became `calls`.
    let exec = 1;
    one.is(300 + exec);
    assert!(one.classic > 0 && one.raw == 0, "{}", one.classic);
    use_table("raw");
    calls(100);
    let two = seen();
    two.is(400 + 2 * exec);
    assert!(two.raw > 0);
    use_table("none");
    calls(100);
    assert_eq!(seen().all(), two.all(), "masked");
    // Made anew, loaded anew, and taken out again.
    use_table("classic");
    kestrel(&["buffer", "resize", "ring", "512k"]).success();
    calls(100);
    let three = seen();
    three.is(500 + 3 * exec);
    assert!(three.classic > two.classic + exec);
    kestrel(&["table", "load", &later]).success();
    calls(100);
    seen().is(600 + 4 * exec);
    use_table("main");
    calls(100);
    seen().is(700 + 4 * exec);
    kestrel(&["table", "unload", "classic"]).success();
    kestrel(&["table", "unload", "raw"]).success();
    calls(100);
    let main = seen().main;
    assert!(main + seen().missed >= 400 && main <= 400, "{main}");
    kestrel(&["stop"]).success();
    gone(&before);
}

#[test]
fn no_event_is_lost_or_handled_twice_while_tables_are_switched_between_them() {
    let before = held();
    kestrel(&["start", &table_file("relayed", MAIN)]).success();
    let later = LATER.replace(
        "  sched:sched_process_exec /comm == \"calls\"/ handler \"/object_handler.o:classic\"\n",
        "",
    );
    kestrel(&["table", "load", &table_file("other", &later)]).success();
    // How many switches one load meets is up to the scheduler: more loads, until there were many.
    let (mut switches, mut happened) = (0, 0);
    until("switches", || {
        let mut load = Command::new("sh")
            .args(["-c", "for i in 1 2; do calls getppid 5000 & done; wait"])
            .spawn()
            .unwrap();
        happened += 10_000;
        // One store each, as fast as it goes.
        let session = Store::open(&Host::default()).unwrap().change(None).unwrap();
        while load.try_wait().unwrap().is_none() {
            let table = ["classic", "main", "raw", "classic", "raw", "main"][switches % 6];
            session.use_table(table).unwrap();
            switches += 1;
            std::thread::sleep(Duration::from_micros(200));
        }
        switches >= 60
    });
    for table in ["classic", "raw", "main"] {
        use_table(table);
        calls(100);
        happened += 100;
    }
    println!("{switches} switches");
    let end = seen();
    end.is(happened);
    assert!([end.classic, end.main, end.raw].iter().all(|count| *count > 0));
    kestrel(&["stop"]).success();
    gone(&before);
}

#[test]
fn a_hook_at_the_function_of_a_call_is_made_anew_at_the_tracepoint_for_an_object() {
    let before = held();
    let main = MAIN.replace(
        "table none",
        r#"table recorded { syscalls:sys_enter_getppid /comm == "calls"/ { @kept = count(); record() } } table none"#,
    );
    kestrel(&["start", &table_file("relayed", &main)]).success();
    let quiet = table_file(
        "quiet",
        "table quiet { syscalls:sys_enter_getppid /comm == \"calls\"/ { @main = count() } }",
    );
    kestrel(&["table", "load", &quiet]).success();
    calls(100);
    // Where threads are preempted in programs of tracepoints.
    let at_function = || kestrel(&["status", "-v"]).success().contains("__x64_sys_getppid");
    let was_at_function = at_function();
    println!("at the function: {was_at_function}");
    let load = kestrel(&["table", "load", &table_file("other", LATER)]);
    assert_eq!(load.code, Some(0), "{}", load.err);
    let printed = "syscalls:sys_enter_getppid is seen at the tracepoint from now on";
    assert_eq!(load.err.contains(printed), was_at_function, "{}", load.err);
    assert!(!at_function());
    // Every table that was there goes on with what it had.
    calls(100);
    use_table("quiet");
    calls(100);
    assert_eq!(seen().main, 300);
    use_table("recorded");
    calls(100);
    use_table("raw");
    calls(100);
    use_table("none");
    let seen = seen();
    assert_eq!((seen.main, seen.raw), (300, 100));
    kestrel(&["buffer", "dump", "-o", "/tmp/moved"]).success();
    let lines = kestrel(&["print", "/tmp/moved"]).success();
    let kept = lines.lines().filter(|line| line.contains("sys_enter_getppid"));
    assert_eq!(kept.count(), 100);
    kestrel(&["stop"]).success();
    gone(&before);
}

/// Number of the session's relays that the handlers of other hooks do not know.
fn half_loaded() -> usize {
    let session = Store::open(&Host::default()).unwrap().session(None).unwrap();
    session.state().unknown_relays().len()
}

#[test]
fn a_load_that_is_killed_before_the_handlers_know_the_new_hook_is_finished_by_the_next_change() {
    let before = held();
    let (main, later) = (table_file("relayed", MAIN), table_file("other", LATER));
    // At some of the moments between its beginning and its end; where the state is in its place and the handlers are not, the session says so.
    let mut seen_half_loaded = 0;
    let mut pause = Duration::from_millis(20);
    until("a load that was killed before it was through", || {
        kestrel(&["start", &main]).success();
        let mut load = Command::new("kestrel")
            .args(["table", "load", &later])
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        while load.try_wait().unwrap().is_none() {
            if half_loaded() > 0 || begun.elapsed() > pause * 100 {
                load.kill().unwrap();
                break;
            }
        }
        load.wait().unwrap();
        pause += Duration::from_millis(1);
        if half_loaded() > 0 {
            seen_half_loaded += 1;
            let printed = kestrel(&["status", "--interval", "0"]).success();
            assert!(printed.contains("was cut short"), "{printed}");
            let json = json(&["status", "--interval", "0", "--format", "json"]);
            // The exec has a hook for its formatted entry beside the one of raw arguments.
            let half: Vec<&Value> = json[0]["half_loaded"].as_array().unwrap().iter().collect();
            let new = ["syscalls:sys_enter_getppid", "sched:sched_process_exec"];
            assert!(
                half.iter().all(|hook| new.iter().any(|name| *hook == name)),
                "{half:?}"
            );
            // Any change does.
            use_table("main");
            assert_eq!(half_loaded(), 0, "made anew");
            let printed = kestrel(&["status", "--interval", "0"]).success();
            assert!(!printed.contains("was cut short"), "{printed}");
            calls(100);
            use_table("classic");
            calls(100);
            use_table("main");
            calls(100);
            seen().is(300 + seen().classic.min(1));
        }
        kestrel(&["stop"]).success();
        seen_half_loaded > 0
    });
    gone(&before);
}
