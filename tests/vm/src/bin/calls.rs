//! `calls WHAT N [THREADS]`: makes exactly N system calls of one kind in each of its threads, for tests that count; it does nothing else on purpose.
#![forbid(unsafe_code)]

use std::{env, io, process::ExitCode, thread};

fn usage() -> ExitCode {
    eprintln!("usage: calls getppid|getpriority|mark|open|read|seek N [THREADS]");
    ExitCode::from(2)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let count: Option<u64> = arguments.get(1).and_then(|text| text.parse().ok());
    let threads = arguments.get(2).map_or(Some(1), |text| text.parse().ok());
    let calls: fn(u64) -> io::Result<()> = match arguments.first().map(String::as_str) {
        Some("getppid") => |count| {
            vm_tests::getppid_calls(count);
            Ok(())
        },
        Some("getpriority") => vm_tests::getpriority_calls,
        Some("open") => vm_tests::open_calls,
        Some("read") => vm_tests::read_calls,
        Some("seek") => vm_tests::seek_calls,
        Some("mark") => vm_tests::mark_calls,
        _ => return usage(),
    };
    let (Some(count), Some(threads)) = (count, threads) else {
        return usage();
    };
    let done = thread::scope(|scope| {
        let threads: Vec<_> = (1..threads).map(|_| scope.spawn(|| calls(count))).collect();
        let own = calls(count);
        let others = threads.into_iter().map(|thread| match thread.join() {
            Ok(done) => done,
            Err(_) => Err(io::Error::other("a thread panicked")),
        });
        others.fold(own, io::Result::and)
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("calls: {error}");
            ExitCode::FAILURE
        }
    }
}
