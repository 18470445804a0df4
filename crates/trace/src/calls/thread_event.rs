//! Signals and ends of threads, which happen between system calls. Lines as strace has them: `--- SIGCHLD {…} ---`, `+++ exited with 0 +++`.

use super::line::thread;
use super::memory::signal_information;
use super::moment::{EXIT, EXIT_CODE, INFORMATION, SIGNAL};
use crate::event::EventClass;
use crate::record::Record;
use crate::syscall::Meaning;
use crate::syscall::shape::Width;
use crate::value::Value;
use serde::Serialize;

/// An event of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadEvent {
    /// The thread took a signal.
    Signal {
        /// The signal's number.
        number: i64,
        /// The kernel's `siginfo_t`.
        information: Vec<u8>,
    },
    /// The thread exited with this status.
    Exited(i64),
    /// A signal ended it.
    Killed {
        /// The signal's number.
        number: i64,
        /// Whether memory was written to a core file.
        dumped: bool,
    },
}

/// A signal or an end as one JSON object.
#[derive(Debug, Serialize)]
struct Object<'t> {
    time: u64,
    pid: u32,
    tid: u32,
    comm: Option<&'t str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    info: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exited: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    killed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    core_dumped: Option<bool>,
}

impl ThreadEvent {
    /// Whether a record is of one of the events that are recorded beside calls: no event of its own.
    pub(crate) fn is_of(event: &EventClass) -> bool {
        let only = |names: &[&str]| {
            let mut shown = event.layout.shown();
            shown.all(|field| names.contains(&field.name.as_str()))
        };
        match event.name.as_str() {
            SIGNAL => only(&["sig", INFORMATION]),
            EXIT => only(&["pid", EXIT_CODE]),
            _ => false,
        }
    }

    /// The event of a record: nothing, where it has no information (SIGKILL of a process whose end has begun; recordings without exit codes).
    pub fn of(record: &Record<'_>) -> Option<Self> {
        let number = |field: &str| record.get(field)?.as_i64();
        match record.event.name.as_str() {
            SIGNAL => match record.get(INFORMATION)? {
                Value::Text(bytes) if !bytes.is_empty() => Some(Self::Signal {
                    number: number("sig")?,
                    information: bytes.to_vec(),
                }),
                _ => None,
            },
            EXIT => Some(Self::of_code(number(EXIT_CODE)?)),
            _ => None,
        }
    }

    /// The end of which wait(2) says this.
    fn of_code(code: i64) -> Self {
        match code & 0x7f {
            0 => Self::Exited(code >> 8 & 0xff),
            number => Self::Killed {
                number,
                dumped: code & 0x80 != 0,
            },
        }
    }

    /// `COMM/TID --- SIGCHLD {…} ---`: a line without the time before it.
    pub fn line(&self, tid: u32, comm: Option<&str>) -> String {
        format!("{} {}", thread(tid, comm), self.text())
    }

    /// `--- SIGCHLD {…} ---`.
    fn text(&self) -> String {
        match self {
            Self::Signal { number, information } => {
                format!("--- {} {} ---", name(*number), explained(information))
            }
            Self::Exited(status) => format!("+++ exited with {status} +++"),
            Self::Killed { number, dumped } => {
                let dumped = if *dumped { " (core dumped)" } else { "" };
                format!("+++ killed by {}{dumped} +++", name(*number))
            }
        }
    }

    /// One line of JSON, with its time as it is to be shown.
    pub fn json(&self, (pid, tid): (u32, u32), time: u64, comm: Option<&str>) -> String {
        let mut object = Object {
            time,
            pid,
            tid,
            comm,
            signal: None,
            info: None,
            exited: None,
            killed: None,
            core_dumped: None,
        };
        match self {
            Self::Signal { number, information } => {
                object.signal = Some(name(*number));
                object.info = Some(explained(information));
            }
            Self::Exited(status) => object.exited = Some(*status),
            Self::Killed { number, dumped } => {
                object.killed = Some(name(*number));
                object.core_dumped = Some(*dumped);
            }
        }
        serde_json::to_string(&object).unwrap_or_default()
    }
}

fn name(signal: i64) -> String {
    let mut name = String::new();
    Meaning::Signal.write(signal, &mut name);
    name
}

/// `{si_signo=SIGCHLD, …}`. The kernel's own form is the same for programs of both interfaces.
fn explained(information: &[u8]) -> String {
    let mut text = String::new();
    match signal_information(information, Width::Wide, &mut text) {
        Some(()) => text,
        None => "{...}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_described_as_by_wait() {
        for (code, expected) in [
            (0, "+++ exited with 0 +++"),
            (512, "+++ exited with 2 +++"),
            (9, "+++ killed by SIGKILL +++"),
            (139, "+++ killed by SIGSEGV (core dumped) +++"),
        ] {
            assert_eq!(ThreadEvent::of_code(code).text(), expected);
        }
    }

    #[test]
    fn signals_have_their_reasons() {
        let words: [i32; 12] = [10, 0, 0, 0, 7, 1, 0, 0, 0, 0, 0, 0];
        let information = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let signal = ThreadEvent::Signal {
            number: 10,
            information,
        };
        assert_eq!(
            signal.line(9, Some("sh")),
            "sh/9                   --- SIGUSR1 {si_signo=SIGUSR1, si_code=SI_USER, si_pid=7, si_uid=1} ---"
        );
        assert_eq!(
            signal.json((8, 9), 5, None),
            "{\"time\":5,\"pid\":8,\"tid\":9,\"comm\":null,\"signal\":\"SIGUSR1\",\
             \"info\":\"{si_signo=SIGUSR1, si_code=SI_USER, si_pid=7, si_uid=1}\"}"
        );
        let cut = ThreadEvent::Signal {
            number: 34,
            information: vec![34, 0],
        };
        assert_eq!(cut.text(), "--- SIGRT_2 {...} ---");
    }
}
