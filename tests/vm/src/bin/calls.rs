//! `calls WHAT N`: makes exactly N system calls of one kind, for tests that count; it does nothing else on purpose.
#![forbid(unsafe_code)]

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let count = arguments.get(1).and_then(|text| text.parse().ok());
    let done = match (arguments.first().map(String::as_str), count) {
        (Some("getppid"), Some(count)) => {
            vm_tests::getppid_calls(count);
            Ok(())
        }
        (Some("read"), Some(count)) => vm_tests::read_calls(count),
        (Some("seek"), Some(count)) => vm_tests::seek_calls(count),
        _ => {
            eprintln!("usage: calls getppid|read|seek N");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("calls: {error}");
            ExitCode::FAILURE
        }
    }
}
