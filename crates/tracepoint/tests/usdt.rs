//! USDT probes stand in the program's file as tracers look for them, and turn their events on while a tracer is counted.
#![cfg(all(
    target_arch = "x86_64",
    target_os = "linux",
    not(miri),
    not(feature = "flag-keys")
))]
#![allow(clippy::unwrap_used, reason = "tests")]

mod notes;

use notes::ProbeNote;
use object::{Object, ObjectSegment};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

kestrel_tracepoint::events! {
    group usdt;

    event one(a: u32, b: i8, path: &str, body: &[u8]) {
        a: u32 = a,
        b: i8 = b,
        path: str = path,
        body: bytes = body,
        pair: [u16; 2] = [1, 2],
    } print "{a} {b} {path} {body} {pair}";

    event slow() {} print "";

    event many(v: u64) {
        f0: u64 = v, f1: u64 = v, f2: u64 = v, f3: u64 = v, f4: u64 = v, f5: u64 = v, f6: u64 = v,
        f7: u64 = v, f8: u64 = v, f9: u64 = v, f10: u64 = v, f11: u64 = v, f12: i64 = v as i64,
    } print "{f0}";
}

/// Tests of one program run side by side, and a look is at all of its probes.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(file: &object::File<'_>, name: &str) -> ProbeNote {
    let all = notes::probes(file);
    let found = all
        .into_iter()
        .find(|probe| probe.group == "usdt" && probe.name == name);
    found.unwrap_or_else(|| panic!("no note of {name}"))
}

/// Distance of the program in memory from the addresses of its file.
fn moved_by(file: &object::File<'_>) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path = std::env::current_exe().unwrap();
    let own = maps
        .lines()
        .find(|line| line.ends_with(path.to_str().unwrap()))
        .unwrap();
    let begin = u64::from_str_radix(own.split('-').next().unwrap(), 16).unwrap();
    begin
        - file
            .segments()
            .map(|segment| segment.address() & !0xfff)
            .min()
            .unwrap()
}

fn memory() -> std::fs::File {
    let mut options = std::fs::File::options();
    options.read(true).write(true).open("/proc/self/mem").unwrap()
}

#[test]
fn probes_are_noted_and_their_semaphores_turn_events_on() {
    let _alone = alone();
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let one = note(&file, "one");
    assert_eq!(
        one.arguments,
        "8@0(%rax) -8@8(%rax) 8@16(%rax) 8@24(%rax) 8@32(%rax) 8@40(%rax)"
    );
    // Tracers take twelve.
    let many = note(&file, "many").arguments;
    assert!(many.ends_with(" 8@80(%rax) 8@88(%rax)"), "{many}");
    assert_eq!(many.split(' ').count(), 12);

    // Kestrel's own note says more.
    let described = notes::strings(&file);
    let fields = [
        "a u32 unsigned int",
        "b i8 signed char",
        "path str char",
        "body bytes unsigned char",
        "pair u16[2] unsigned short",
    ];
    let one_is = [&["usdt", "one", "{a} {b} {path} {body} {pair}"][..], &fields[..]].concat();
    assert!(
        described.iter().any(|strings| *strings == one_is),
        "{described:?}"
    );
    assert!(
        described
            .iter()
            .any(|strings| strings[1] == "many" && strings.len() == 3 + 13),
        "{described:?}"
    );

    let memory = memory();
    let moved = moved_by(&file);
    let mut code = [0];
    memory.read_exact_at(&mut code, moved + one.location).unwrap();
    assert_eq!(code, [0x90]);

    trace_one(1, -1, "/x", b"ab");
    trace_many(1);
    assert_eq!(kestrel_tracepoint::look(), 0);
    assert!(!one::enabled() && !many::enabled());
    memory
        .write_all_at(&1_u16.to_le_bytes(), moved + one.semaphore)
        .unwrap();
    assert_eq!(kestrel_tracepoint::look(), 1);
    assert!(one::enabled() && !many::enabled());
    trace_one(1, -1, &"long ".repeat(1000), b"ab");
    memory
        .write_all_at(&0_u16.to_le_bytes(), moved + one.semaphore)
        .unwrap();
    assert_eq!(kestrel_tracepoint::look(), 0);
    assert!(!one::enabled());
}

/// The child's work: it turns an event on and off, by hand and by the thread that looks. Returns whether the first look saw the tracer.
fn watched_in_child(semaphore: u64) -> bool {
    let memory = memory();
    let count = |tracers: u16| memory.write_all_at(&tracers.to_le_bytes(), semaphore).unwrap();
    let wait_until = |is_on: bool| {
        while many::enabled() != is_on {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    count(1);
    kestrel_tracepoint::watch().unwrap();
    let seen = many::enabled();
    count(0);
    kestrel_tracepoint::look();
    // The thread may be at it.
    wait_until(false);
    drop(many::register(|_| (), 0));
    seen
}

/// Has a child do something; gives its status, which is 0 where it gave true.
#[allow(unsafe_code, reason = "a fork")]
fn fork(work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child ends here, and runs nothing of the other tests.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // A child that waits for ever is ended.
        // SAFETY: numbers.
        unsafe { libc::alarm(60) };
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(!done.is_ok_and(|done| done))) };
    }
    let mut status = 0;
    // SAFETY: waits for the child, and writes the number.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status
}

/// Whatever the other threads of a process do when it forks, the child waits for none of them.
#[test]
fn children_of_forks_can_watch() {
    let _alone = alone();
    let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let moved = moved_by(&file);
    let (one, many) = (note(&file, "one").semaphore, note(&file, "many").semaphore);
    let is_over = AtomicBool::new(false);
    let watched = || watched_in_child(moved + many);
    let switched = || {
        let memory = memory();
        for tracers in (0..2_u16).cycle() {
            memory.write_all_at(&tracers.to_le_bytes(), moved + one).unwrap();
            kestrel_tracepoint::look();
            if tracers == 0 && is_over.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    let within_callbacks = || {
        while !is_over.load(Ordering::Relaxed) {
            trace_slow();
        }
    };
    let slow = slow::register(|| std::thread::sleep(Duration::from_millis(1)), 0);
    for (work, forks) in [(&switched as &(dyn Fn() + Sync), 100), (&within_callbacks, 20)] {
        is_over.store(false, Ordering::Relaxed);
        let failed = std::thread::scope(|scope| {
            scope.spawn(work);
            let failed = (0..forks).map(|_| fork(watched)).find(|status| *status != 0);
            is_over.store(true, Ordering::Relaxed);
            failed
        });
        assert_eq!(failed, None, "the status of a child");
    }
    drop(slow);
    // The child has a thread that looks, its own child has another.
    assert_eq!(fork(|| watched() && fork(watched) == 0), 0);
    assert_eq!(kestrel_tracepoint::look(), 0);
}
