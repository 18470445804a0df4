//! Running the command in a temporary folder, and whether this process may trace.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Exit code, standard output, standard error.
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Answer {
    /// Checks that the command ended with this code and said all of this on stderr.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}{}", self.out, self.err);
        for word in words {
            assert!(self.err.contains(word), "no `{word}` in: {}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
    }

    /// Checks that the command succeeded.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Self {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self
    }
}

/// A folder to work in.
pub(crate) struct WorkFolder(pub(crate) TempDir);

impl WorkFolder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The command, in this folder, nothing on stdin.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kestrel"));
        command.args(arguments).current_dir(self.path());
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        self.command(arguments).output().unwrap().into()
    }

    /// Output of the command, a value for each line of JSON.
    pub(crate) fn json_lines(&self, arguments: &[&str]) -> Vec<serde_json::Value> {
        let answer = self.run(&[arguments, &["--format", "json"]].concat());
        let lines = answer.out.lines();
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// A shell script as root of a mount namespace of its own; `$K` is the command. `None` where that is not possible.
    pub(crate) fn in_namespace(&self, script: &str) -> Option<Answer> {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &format!("{script}\n")]);
        command
            .env("K", env!("CARGO_BIN_EXE_kestrel"))
            .current_dir(self.path());
        let probe = Command::new("unshare").args(["-m", "true"]).output();
        if !probe.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: no mount namespace can be made");
            return None;
        }
        Some(command.output().unwrap().into())
    }
}

/// Why this process cannot trace, if it cannot.
pub(crate) fn why_no_tracing() -> Option<&'static str> {
    static WHY: OnceLock<Option<String>> = OnceLock::new();
    let why = WHY.get_or_init(|| {
        let arguments = ["record", "-e", "syscalls:sys_enter_getppid", "--duration", "1ms"];
        let answer = WorkFolder::new().run(&arguments);
        match answer.code {
            Some(0) => None,
            Some(3 | 4) => Some(answer.err.trim().to_owned()),
            other => panic!("{other:?}: {}", answer.err),
        }
    });
    why.as_deref()
}

/// Whether a program is there.
pub(crate) fn has(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// Ends the test, saying so, where this process may not trace.
macro_rules! needs_tracing {
    () => {
        if let Some(why) = crate::command::why_no_tracing() {
            eprintln!("skipped: {why}");
            return;
        }
    };
}
pub(crate) use needs_tracing;
