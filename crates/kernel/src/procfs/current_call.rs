//! The system call that a thread is in.

use crate::error::{Error, Result};
use crate::host::Host;

/// The system call that a thread waits in, as `/proc/PID/task/TID/syscall` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentCall {
    /// The call's number, in the interface by which it was made.
    pub number: u64,
    /// The registers of its arguments.
    pub arguments: [u64; 6],
    /// The stack pointer of the program.
    pub stack_pointer: u64,
    /// Where the program goes on.
    pub program_counter: u64,
}

/// The system call that a thread of a process waits in; `None` if the thread runs, or waits elsewhere (for a page of its memory).
///
/// # Errors
/// When the thread is gone, or its process must not be looked into: the kernel asks for the right to trace it with ptrace(2).
pub fn current_call(host: &Host, pid: u32, tid: u32) -> Result<Option<CurrentCall>> {
    let path = format!("/proc/{pid}/task/{tid}/syscall");
    let text = host.read(&path)?;
    parse(text.trim_end()).ok_or_else(|| Error::Format {
        subject: host.path(&path).display().to_string(),
        why: format!("`{}` is not a system call", text.trim_end()),
    })
}

/// `running`, `-1 SP PC`, or `NUMBER ARGUMENT… SP PC` with the number in decimal and all else in hexadecimal.
fn parse(text: &str) -> Option<Option<CurrentCall>> {
    if text == "running" {
        return Some(None);
    }
    let (number, rest) = text.split_once(' ')?;
    let number: i64 = number.parse().ok()?;
    let words = rest
        .split(' ')
        .map(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let words: Vec<u64> = words.collect::<Option<_>>()?;
    let Ok(number) = u64::try_from(number) else {
        return Some(None);
    };
    let [arguments @ .., stack_pointer, program_counter] = words.as_slice() else {
        return None;
    };
    // A thread of the kernel has no program, and makes no calls.
    let is_made = *stack_pointer != 0;
    let call = CurrentCall {
        number,
        arguments: arguments.try_into().ok()?,
        stack_pointer: *stack_pointer,
        program_counter: *program_counter,
    };
    Some(is_made.then_some(call))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_as_the_kernel_writes_them() {
        let call = parse("0 0x3 0x7ffd0 0x20000 0x22 0x0 0x0 0x7ffd8 0x7f1d")
            .unwrap()
            .unwrap();
        assert_eq!((call.number, call.arguments[2]), (0, 0x20000));
        assert_eq!((call.stack_pointer, call.program_counter), (0x7ffd8, 0x7f1d));
        for none in [
            "running",
            "-1 0x7ffd8 0x7f1d",
            "0 0x0 0x0 0x0 0x0 0x0 0x0 0x0 0x0",
        ] {
            assert_eq!(parse(none), Some(None), "{none}");
        }
        for wrong in ["", "0", "0 3", "0 0x1 0x2", "x 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
