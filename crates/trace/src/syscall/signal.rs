//! Descriptions of signals, as the C library has them (`Segmentation fault`), and sets of signals as people write them.

use super::family::family;
use super::meaning::Meaning;
use std::str::FromStr;

/// The descriptions, from signal 1 on.
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

/// A set of signals: those of some names, or all but those.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignalSet {
    named: Vec<i64>,
    only_named: bool,
}

impl SignalSet {
    /// Whether a signal is in the set.
    pub fn has(&self, number: i64) -> bool {
        self.named.contains(&number) == self.only_named
    }
}

impl FromStr for SignalSet {
    type Err = String;

    /// `all`, `none`, `INT,SIGTERM,10`, or with `!` before it all but those, as strace has it.
    fn from_str(text: &str) -> Result<Self, String> {
        let (only_named, names) = match text.strip_prefix('!') {
            Some(names) => (false, names),
            None => (true, text),
        };
        let named: Result<Vec<i64>, String> = match names {
            "all" => {
                return Ok(Self {
                    named: Vec::new(),
                    only_named: !only_named,
                });
            }
            "none" => Ok(Vec::new()),
            // Behind the set's own, each name may have the mark, as in sets of calls.
            _ => names
                .split(',')
                .map(|word| match word.trim().strip_prefix('!') {
                    Some(_) if only_named => Err(format!(
                        "`{word}` behind signals without `!`: a set is names, or all but names, as `!INT,CHLD`"
                    )),
                    Some(name) => number_of(name),
                    None => number_of(word),
                })
                .collect(),
        };
        Ok(Self {
            named: named?,
            only_named,
        })
    }
}

/// The number of a signal: `SIGINT`, `int`, `2`, `RT_4`, as traces name it.
fn number_of(word: &str) -> Result<i64, String> {
    /// The signal before `SIGRT_0`.
    const BEFORE_REAL_TIME: i64 = 32;
    let name = word.trim().to_ascii_uppercase();
    let bare = name.strip_prefix("SIG").unwrap_or(&name);
    let real_time = match bare {
        "RTMIN" => Some(BEFORE_REAL_TIME),
        _ => bare
            .strip_prefix("RT_")
            .and_then(|at| Some(BEFORE_REAL_TIME + i64::from(at.parse::<u8>().ok()?))),
    };
    let named = || {
        let rows = family(Meaning::Signal)?.rows;
        let row = rows.iter().find(|row| row.name.strip_prefix("SIG") == Some(bare));
        row.map(|row| row.value)
    };
    let found = real_time.or_else(|| bare.parse().ok()).or_else(named);
    found
        .filter(|number| (1..=64).contains(number))
        .ok_or_else(|| format!("`{word}` is no signal; a set is `all`, `none`, or names such as `INT,CHLD`, all but those with `!` before them"))
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

    #[test]
    fn sets_of_signals_are_names_or_all_but_names() {
        let has = |set: &str, number| set.parse::<SignalSet>().unwrap().has(number);
        for (set, number, expected) in [
            ("all", 17, true),
            ("none", 17, false),
            ("!all", 17, false),
            ("SIGCHLD,int", 17, true),
            ("SIGCHLD,int", 2, true),
            ("SIGCHLD,int", 15, false),
            ("!SIGCHLD,int", 2, false),
            ("!SIGCHLD,int", 15, true),
            ("!INT,!CHLD", 2, false),
            ("!INT,!CHLD", 17, false),
            ("!INT,!CHLD", 15, true),
            ("RT_2", 34, true),
            ("RT_32", 64, true),
            ("10", 10, true),
        ] {
            assert_eq!(has(set, number), expected, "{set} {number}");
        }
        assert!(SignalSet::default().has(17));
        for wrong in [
            "",
            "SIGFOO",
            "65",
            "0",
            "INT,",
            "RT_33",
            "RT_-31",
            "RT_9223372036854775807",
        ] {
            assert!(wrong.parse::<SignalSet>().is_err(), "{wrong}");
        }
        // Neither those two nor all but one: the text cannot mean both.
        for wrong in ["INT,!CHLD", "INT, !CHLD", "!all,INT,!none"] {
            assert!(wrong.parse::<SignalSet>().is_err(), "{wrong}");
        }
        let refusal = "INT,!CHLD".parse::<SignalSet>().unwrap_err();
        assert!(
            refusal.starts_with("`!CHLD` behind signals without `!`"),
            "{refusal}"
        );
    }
}
