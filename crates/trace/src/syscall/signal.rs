//! Texts of signals, as the C library has them: `Segmentation fault`.

/// The texts, from signal 1 on.
const TEXTS: [&str; 31] = [
    "Hangup",
    "Interrupt",
    "Quit",
    "Illegal instruction",
    "Trace/breakpoint trap",
    "Aborted",
    "Bus error",
    "Floating point exception",
    "Killed",
    "User defined signal 1",
    "Segmentation fault",
    "User defined signal 2",
    "Broken pipe",
    "Alarm clock",
    "Terminated",
    "Stack fault",
    "Child exited",
    "Continued",
    "Stopped (signal)",
    "Stopped",
    "Stopped (tty input)",
    "Stopped (tty output)",
    "Urgent I/O condition",
    "CPU time limit exceeded",
    "File size limit exceeded",
    "Virtual timer expired",
    "Profiling timer expired",
    "Window changed",
    "I/O possible",
    "Power failure",
    "Bad system call",
];

/// The C library's text for a signal; for a number without a signal, the text that bpftrace prints.
pub fn signal_text(number: i32) -> String {
    let known = usize::try_from(i64::from(number) - 1)
        .ok()
        .and_then(|index| TEXTS.get(index));
    match (known, number) {
        (Some(text), _) => (*text).to_owned(),
        (None, 34..=64) => format!("Real-time signal {}", number - 34),
        (None, 0..=64) => format!("Unknown signal {number}"),
        _ => "N/A".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_called_as_the_c_library_calls_them() {
        assert_eq!(signal_text(libc::SIGKILL), "Killed");
        assert_eq!(signal_text(libc::SIGSYS), "Bad system call");
        assert_eq!(signal_text(libc::SIGRTMAX()), "Real-time signal 30");
        assert_eq!(signal_text(32), "Unknown signal 32");
        assert_eq!((signal_text(65), signal_text(-1)), ("N/A".into(), "N/A".into()));
    }
}
