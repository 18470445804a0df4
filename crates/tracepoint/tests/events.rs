//! Events are delivered to their callbacks, in order, and described as tracefs describes its own.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

struct Task {
    comm: String,
    pid: i32,
}

kestrel_tracepoint::events! {
    group sched;

    /// A process makes another.
    pub event sched_process_fork(parent: &Task, child: &Task) {
        parent_comm: char[16] = parent.comm,
        parent_pid: i32 as pid_t = parent.pid,
        child_comm: char[16] = child.comm,
        child_pid: i32 as pid_t = child.pid,
    } print "comm={parent_comm} pid={parent_pid} child_comm={child_comm} child_pid={child_pid}";
}

kestrel_tracepoint::events! {
    group shapes;

    class pair(a: u32, b: i64) {
        a: u32 = a,
        b: i64 = b,
    } print "a={a:#x} b={b}";

    event first: pair;
    event second: pair if a > 10 print "{b} of {a:04}";
    event all(path: &str, ratio: f64, flag: bool, body: &[u8], peer: [u8; 4]) {
        path: str = path,
        ratio: f64 = ratio,
        flag: bool = flag,
        body: bytes = body,
        peer: [u8; 4] = peer,
    } print "{{{path}}} {ratio} {flag} {body} {peer}";
    event never_emitted() {} print "";
    event recursive(depth: u32) { depth: u32 = depth } print "{depth}";
    event within() {} print "";
}

/// A name that the macro's own code could use: it means the program's.
const FIELDS: u8 = 1;

kestrel_tracepoint::events! {
    group r#type;

    event r#match(data: u8, callback: u8, record: u8, values: &str, slot: &[u8], size: usize, priority: i32, r#in: u64) {
        data: u8 = data + FIELDS,
        callback: u8 = callback,
        record: u8 = record,
        values: str = values,
        slot: bytes = slot,
        size: usize = size,
        priority: i32 = priority,
        r#in: u64 as r#u64 = r#in,
    } if record == 3 && priority < 8 print "{data} {callback} {record} {values} {slot} {size} {priority} {in}";
}

/// Events are the program's, and tests of one program run side by side.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

type Seen<T> = Arc<Mutex<Vec<T>>>;

fn seen<T>() -> Seen<T> {
    Arc::default()
}

#[test]
fn callbacks_are_called_in_the_order_of_their_priorities() {
    let _alone = alone();
    let order = seen();
    let push = |name: &'static str| {
        let order = Arc::clone(&order);
        move |a: u32, b: i64| order.lock().unwrap().push((name, a, b))
    };
    trace_first(0, 0);
    assert!(!first::enabled());
    let low = first::register(push("low"), -1);
    let high = first::register(push("high"), 10);
    let middle = first::register(push("middle"), 0);
    let later = first::register(push("later"), 0);
    let records = {
        let order = Arc::clone(&order);
        let callback = move |record: &kestrel_tracepoint::Record<'_>| {
            assert_eq!(record.to_string(), "a=0x2a b=-7");
            order.lock().unwrap().push(("record", 0, 0));
        };
        first::event().listen(callback, 5).unwrap()
    };
    assert!(first::enabled());
    trace_first(42, -7);
    let names: Vec<&str> = order.lock().unwrap().drain(..).map(|(name, ..)| name).collect();
    assert_eq!(names, ["high", "record", "middle", "later", "low"]);
    drop((middle, records));
    trace_first(1, 2);
    assert_eq!(
        *order.lock().unwrap(),
        [("high", 1, 2), ("later", 1, 2), ("low", 1, 2)]
    );
    drop((low, high, later));
    assert!(!first::enabled());
    trace_first(1, 2);
    assert_eq!(order.lock().unwrap().len(), 3);
}

#[test]
fn conditions_choose_and_arguments_are_not_evaluated_in_vain() {
    let _alone = alone();
    let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let evaluated = Cell::new(0);
    let argument = || {
        evaluated.set(evaluated.get() + 1);
        11
    };
    trace_second!(argument(), 3);
    assert_eq!(evaluated.get(), 0);
    let registration = second::register_with(
        Arc::clone(&count),
        |count, _, _| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        },
        0,
    );
    trace_second!(argument(), 3);
    trace_second(10, 3);
    assert_eq!(
        (evaluated.get(), count.load(std::sync::atomic::Ordering::Relaxed)),
        (1, 1)
    );
    drop(registration);
    trace_second!(argument(), 3);
    assert_eq!(evaluated.get(), 1);
}

#[test]
fn fields_of_all_kinds_are_printed() {
    let _alone = alone();
    let lines = seen();
    let registration = {
        let lines = Arc::clone(&lines);
        let push =
            move |record: &kestrel_tracepoint::Record<'_>| lines.lock().unwrap().push(record.to_string());
        all::event().listen(push, 0).unwrap()
    };
    trace_all("/x", 0.5, true, b"\x01\xff", [127, 0, 0, 1]);
    drop(registration);
    assert_eq!(*lines.lock().unwrap(), ["{/x} 0.5 1 {0x01,0xff} {127,0,0,1}"]);
}

/// Arguments and fields may have any names, also those of the macro's own variables, and Rust's own words.
#[test]
fn names_are_the_programs_alone() {
    let _alone = alone();
    let lines = seen();
    let with = {
        let lines = Arc::clone(&lines);
        let push = move |data: &&str, own: u8, _, _, values: &str, _: &[u8], _, _, word| {
            lines
                .lock()
                .unwrap()
                .push(format!("{data} {own} {values} {word}"));
        };
        r#match::register_with("with", push, 1)
    };
    let record = {
        let lines = Arc::clone(&lines);
        let push =
            move |record: &kestrel_tracepoint::Record<'_>| lines.lock().unwrap().push(record.to_string());
        r#match::event().listen(push, 0).unwrap()
    };
    trace_match(1, 2, 3, "four", &[5], 6, 7, 8);
    trace_match(1, 2, 3, "not this", &[5], 6, 8, 8);
    trace_match!(1, 2, 4, "nor this", &[5], 6, 7, 8);
    drop((with, record));
    assert_eq!(
        *lines.lock().unwrap(),
        ["with 1 four 8", "2 2 3 four {0x05} 6 7 8"]
    );
    assert_eq!(r#match::event().to_string(), "type:match");
    assert_eq!(r#match::event().fields()[7].name, "in");
}

/// An event that its own callback emits is missed and counted, others are delivered.
#[test]
fn an_event_within_itself_is_missed() {
    let _alone = alone();
    let calls = seen();
    let outer = {
        let calls = Arc::clone(&calls);
        recursive::register(
            move |depth| {
                calls.lock().unwrap().push(depth);
                trace_within();
                trace_recursive(depth + 1);
            },
            0,
        )
    };
    let inner = within::register(|| trace_recursive(99), 0);
    let before = recursive::event().missed();
    trace_recursive(0);
    drop((outer, inner));
    assert_eq!(*calls.lock().unwrap(), [0]);
    assert_eq!(recursive::event().missed() - before, 2);
}

/// A callback may end its own registration; what it owns is dropped when the thread has left it.
#[test]
fn a_callback_unregisters_itself() {
    struct Owned(Seen<&'static str>);
    impl Drop for Owned {
        fn drop(&mut self) {
            self.0.lock().unwrap().push("dropped");
        }
    }
    let _alone = alone();
    let log = seen();
    let own: Arc<Mutex<Option<kestrel_tracepoint::Registration>>> = Arc::default();
    let registration = {
        let (own, owned) = (Arc::clone(&own), Owned(Arc::clone(&log)));
        within::register(
            move || {
                drop(own.lock().unwrap().take());
                owned.0.lock().unwrap().push("called");
            },
            0,
        )
    };
    *own.lock().unwrap() = Some(registration);
    trace_within();
    trace_within();
    assert_eq!(*log.lock().unwrap(), ["called", "dropped"]);
    assert!(!within::enabled());
}

/// Values owned by a callback may emit events as they are dropped, also where their own thread has just left it.
#[test]
fn values_of_a_callback_may_emit_and_unregister_as_they_are_dropped() {
    struct Emits(Option<kestrel_tracepoint::Registration>, Seen<u32>);
    impl Drop for Emits {
        fn drop(&mut self) {
            trace_within();
            drop(self.0.take());
            self.1.lock().unwrap().push(0);
        }
    }
    let _alone = alone();
    let log = seen();
    let own: Arc<Mutex<Option<kestrel_tracepoint::Registration>>> = Arc::default();
    let registration = {
        let inner = within::register(|| (), 0);
        let (own, owned) = (Arc::clone(&own), Emits(Some(inner), Arc::clone(&log)));
        first::register(
            move |a, _| {
                owned.1.lock().unwrap().push(a);
                drop(own.lock().unwrap().take());
            },
            0,
        )
    };
    *own.lock().unwrap() = Some(registration);
    trace_first(7, 0);
    assert_eq!(*log.lock().unwrap(), [7, 0]);
    assert!(!first::enabled() && !within::enabled());
}

/// A callback that registers others does not wait for a thread that waits for it.
#[test]
fn callbacks_register_while_other_threads_unregister() {
    let _alone = alone();
    let stays = first::register(|_, _| (), 0);
    let outer = within::register(|| drop(first::register(|_, _| (), 1)), 0);
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    trace_within();
                }
            });
            scope.spawn(|| {
                for _ in 0..2000 {
                    drop(second::register(|_, _| (), 0));
                }
            });
        }
    });
    println!("{:?}", begun.elapsed());
    drop((outer, stays));
    assert!(!first::enabled() && !within::enabled() && !second::enabled());
}

#[test]
fn a_panic_of_a_callback_leaves_the_event_usable() {
    let _alone = alone();
    let panics = within::register(|| panic!("on purpose"), 0);
    assert!(std::panic::catch_unwind(trace_within).is_err());
    drop(panics);
    let calls = seen();
    let again = {
        let calls = Arc::clone(&calls);
        within::register(move || calls.lock().unwrap().push(1), 0)
    };
    trace_within();
    drop(again);
    assert_eq!(calls.lock().unwrap().len(), 1);
}

/// The event of the kernel's documentation, from `TRACE_EVENT(sched_process_fork, …)`.
#[test]
fn the_kernels_example_has_the_kernels_format() {
    let _alone = alone();
    let format = sched_process_fork::event().format();
    let id = format.lines().nth(1).unwrap().to_owned();
    let expected = format!(
        "name: sched_process_fork\n{id}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
         \n\
         \tfield:char parent_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
         \tfield:pid_t parent_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
         \tfield:char child_comm[16];\toffset:28;\tsize:16;\tsigned:0;\n\
         \tfield:pid_t child_pid;\toffset:44;\tsize:4;\tsigned:1;\n\
         \n\
         print fmt: \"comm=%s pid=%d child_comm=%s child_pid=%d\", REC->parent_comm, REC->parent_pid, REC->child_comm, REC->child_pid\n"
    );
    assert_eq!(format, expected);
    let lines = seen();
    let registration = {
        let lines = Arc::clone(&lines);
        let push =
            move |record: &kestrel_tracepoint::Record<'_>| lines.lock().unwrap().push(record.to_string());
        sched_process_fork::event().listen(push, 0).unwrap()
    };
    let task = |comm: &str, pid| Task {
        comm: comm.to_owned(),
        pid,
    };
    trace_sched_process_fork(&task("sh", 12), &task("a very long name of a task", 13));
    drop(registration);
    assert_eq!(
        *lines.lock().unwrap(),
        ["comm=sh pid=12 child_comm=a very long nam child_pid=13"]
    );
}

#[cfg(not(miri))]
#[test]
fn events_are_listed_and_enabled_by_pattern() {
    let _alone = alone();
    let names = |pattern: &str| -> Vec<String> {
        let events = kestrel_tracepoint::matching(pattern);
        events.iter().map(ToString::to_string).collect()
    };
    assert_eq!(names("shapes:{first,second}"), ["shapes:first", "shapes:second"]);
    assert_eq!(names("sched"), ["sched:sched_process_fork"]);
    assert!(names("no:*").is_empty());
    let lines = seen();
    {
        let lines = Arc::clone(&lines);
        kestrel_tracepoint::set_sink(move |record| {
            lines
                .lock()
                .unwrap()
                .push(format!("{}: {record}", record.event()));
        });
    }
    assert_eq!(kestrel_tracepoint::enable("shapes:{first,second}").unwrap(), 2);
    assert_eq!(kestrel_tracepoint::enable("shapes:first").unwrap(), 0);
    assert!(kestrel_tracepoint::is_enabled(first::event()));
    trace_first(1, 2);
    trace_second(11, 3);
    assert_eq!(kestrel_tracepoint::disable("*:second"), 1);
    trace_second(12, 3);
    assert_eq!(kestrel_tracepoint::disable("*"), 1);
    trace_first(1, 2);
    assert_eq!(
        *lines.lock().unwrap(),
        ["shapes:first: a=0x1 b=2", "shapes:second: 3 of 0011"]
    );
}
