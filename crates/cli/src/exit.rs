//! Exit codes, documented in one place, and which failure has which.

mod refused;

use kestrel::kernel::privilege::{Need, Privilege};
use kestrel::kernel::procfs;
use kestrel::kernel::{Errno, Error as Kernel, Host, Interface};
use kestrel_trace::Error as Trace;
use kestrel_trace::print::shown;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// The codes as the help shows them.
pub(crate) const CODES: &str = "\
Exit codes:
  0  success
  1  nothing was found, the traced command failed, or a file could not be read or written
  2  the command line, an event or a handler is wrong
  3  a privilege is missing
  4  the kernel lacks a feature
  5  an internal error";

/// The rest of the text about exit codes.
pub(crate) const OTHERS: &str = "\
`kestrel run` ends with N where a script calls exit(N). The code of a traced command is printed and not passed on: Kestrel's is 1 then.
Ctrl-C ends a recording as --duration does, with 0; a second Ctrl-C ends Kestrel at once.";

/// Exit status of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Done,
    /// Nothing was found, the traced command failed, or a file could not be read or written.
    Failed,
    /// The command line, an event or a handler is wrong.
    Usage,
    /// A privilege is missing.
    Privilege,
    /// The kernel lacks a feature.
    Feature,
    /// A fault of Kestrel's own.
    Internal,
    /// Code that a script gave to `exit`, or that bpftrace ends with.
    Script(u8),
}

impl Exit {
    /// The status of a script that called `exit(code)`: the low byte, as with exit(2).
    pub(crate) fn of_script(code: i64) -> Self {
        Self::Script(code as u8)
    }

    fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Privilege => 3,
            Self::Feature => 4,
            Self::Internal => 5,
            Self::Script(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error for the user: message, hint and exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The message; several lines are allowed.
    pub(crate) message: String,
    /// Whether the message is printed without `kestrel:` in front: diagnostics with their source.
    pub(crate) formatted: bool,
    /// Advice that is printed below the message.
    pub(crate) hint: Option<String>,
    /// The exit code of the process.
    pub(crate) exit: Exit,
}

impl Failure {
    /// A failure with a message.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            formatted: false,
            hint: None,
            exit,
        }
    }

    /// Adds a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Writes the message and its hint to stderr.
    pub(crate) fn report(&self) {
        if self.message.is_empty() {
            return;
        }
        let mut err = crate::screen::err();
        let lead = if self.formatted { "" } else { "kestrel: " };
        let _ = writeln!(err, "{lead}{}", self.message);
        if let Some(hint) = &self.hint {
            let _ = writeln!(err, "hint: {hint}");
        }
    }

    /// The reader of standard output closed it (`| head`): a success without a message.
    fn broken_pipe() -> Self {
        Self::new(Exit::Done, "")
    }
}

/// Message, hint and exit code of the library's errors.
impl From<kestrel::Error> for Failure {
    fn from(error: kestrel::Error) -> Self {
        let message = error.to_string();
        if let kestrel::Error::OfProbe { error, .. } = error {
            return Self {
                message,
                ..Self::from(*error)
            };
        }
        match &error {
// Too few files or too little memory is no lack of a feature or privilege, which the errno alone would suggest.
            kestrel::Error::Kernel(kernel) if error.is_shortage() => Self {
                hint: kernel.hint().map(str::to_owned),
                ..Self::new(Exit::Failed, message)
            },
            kestrel::Error::Kernel(kernel) => from_kernel(kernel, message),
            kestrel::Error::Mark(kernel) => match kernel {
                Kernel::Argument { .. } => Self::new(Exit::Failed, message),
                kernel => from_kernel(kernel, message),
            },
            kestrel::Error::Trace(trace) => from_trace(trace, message),
            kestrel::Error::Program {
                source_text,
                diagnostics,
            } => Self::from_diagnostics(Exit::Usage, diagnostics, source_text),
            kestrel::Error::Table {
                file,
                source_text,
                diagnostics,
            } => {
                let text = crate::style::diagnostics_in(file, diagnostics, source_text);
                Self {
                    formatted: true,
                    ..Self::new(Exit::Usage, text)
                }
            }
            kestrel::Error::NoSuchBuffer { .. }
            | kestrel::Error::AgentsBuffer { .. }
            | kestrel::Error::Resize { .. }
            | kestrel::Error::Buffer { .. }
            | kestrel::Error::NoSuchParameter { .. }
            | kestrel::Error::NoSuchTable { .. } => Self::new(Exit::Usage, message),
            kestrel::Error::WhichHandler { wanted, names } => {
                let first = names.first().map_or("TABLE/EVENT", String::as_str);
                Self::new(Exit::Usage, message).hint(format!(
                    "`{wanted}` begins the names of all of these; one of them is meant by `{first}`; a session is named with --session"
                ))
            }
            kestrel::Error::Untrusted { file, .. } => Self::new(Exit::Usage, message).hint(format!(
                "only what root alone (or you) can write may ask for that: `sudo install -D -m 644 {file} -t /etc/kestrel`, or take the permission away (chmod go-w)"
            )),
            kestrel::Error::NoSuchFile { wanted, here, .. } => Self::new(Exit::Usage, message).hint(match here {
                true => format!("a file is named with its path: `./{wanted}`"),
                false => "`kestrel table list --shipped` shows those there are; a file is named with a `/` or an ending (`./mine`, `my.kst`)".to_owned(),
            }),
            kestrel::Error::NoSuchHandler { wanted, session, .. } => {
                let list = format!("`kestrel handler list --session {session}` shows its handlers");
                Self::new(Exit::Usage, message).hint(match wanted == session {
                    true => format!("`{wanted}` is the session: it is named with --session, the handler comes first; {list}"),
                    false => list,
                })
            }
            kestrel::Error::TableFile { .. } => Self::new(Exit::Failed, message)
                .hint("`kestrel table list --shipped` shows the tables that come with Kestrel"),
            kestrel::Error::NoSuchEvent { near, .. } => {
                let failure = Self::new(Exit::Usage, message);
                if near.is_empty() {
                    failure.hint("`kestrel list` shows the events of this kernel, `kestrel list '*open*'` those with a word in their name")
                } else {
                    failure
                }
            }
            kestrel::Error::NoPlace { .. } => Self::new(Exit::Usage, message).hint(
                "`kestrel probe show FUNCTION` shows a function's instructions, and which can be probed",
            ),
            kestrel::Error::NotFollowed { .. }
            | kestrel::Error::WrongShape { .. }
            | kestrel::Error::SecondJprobe { .. }
            | kestrel::Error::NotYet { .. }
            | kestrel::Error::OfPrograms { .. }
            | kestrel::Error::NotHere { .. }
            | kestrel::Error::Name { .. } => Self::new(Exit::Usage, message),
            kestrel::Error::WhichSession { .. } => {
                Self::new(Exit::Usage, message).hint("`--session NAME` says which")
            }
            kestrel::Error::NoSession { names, .. } if names.is_empty() => {
                Self::new(Exit::Failed, message).hint("`kestrel start FILE` begins one")
            }
            kestrel::Error::NoSuchProbe { session, .. } => {
                let hint = format!("`kestrel probe list --session {session}` shows those there are");
                Self::new(Exit::Usage, message).hint(hint)
            }
            kestrel::Error::ProbeExists { name, .. } => Self::new(Exit::Failed, message).hint(format!(
                "`kestrel probe remove {name}` removes it, `--replace` puts the new one in its place"
            )),
            kestrel::Error::NotRoot { .. } => Self::new(Exit::Privilege, message).hint("try it with sudo"),
            kestrel::Error::Foreign { path, .. } => Self::new(Exit::Failed, message).hint(format!(
                "`rmdir {path}` takes it away where it is empty; bpffs that is mounted for root alone (`mount -o remount,mode=700 /sys/fs/bpf`) lets nobody else make one"
            )),
            kestrel::Error::KernelLine { .. } | kestrel::Error::NoRoom { .. } => {
                Self::new(Exit::Usage, message)
            }
            kestrel::Error::SessionExists { .. } => Self::new(Exit::Failed, message)
                .hint("`kestrel stop NAME` ends it; `kestrel start OTHER FILE` begins another one beside it"),
            kestrel::Error::State { .. } => Self::new(Exit::Failed, message)
                .hint("`kestrel stop NAME` ends the session whatever it holds"),
            kestrel::Error::Unsupported { .. } | kestrel::Error::Types(_) => {
                Self::new(Exit::Feature, message).hint("`kestrel doctor` shows what this kernel can do")
            }
            kestrel::Error::Compile { .. } | kestrel::Error::Object { .. } => Self::new(Exit::Usage, message),
            kestrel::Error::Refused(refusal) => refused::from_refusal(refusal),
            kestrel::Error::Rejected(rejection) => {
                let exit = match rejection.is_unsupported() {
                    true => Exit::Feature,
                    false => Exit::Internal,
                };
                let mut failure = Self::from_diagnostics(
                    exit,
                    std::slice::from_ref(&rejection.diagnostic),
                    &rejection.source_text,
                );
                failure.message = format!("{message}\n{}", failure.message);
                failure
            }
            _ => Self::new(Exit::Failed, message),
        }
    }
}

/// Names of events that a hint shows.
const SHOWN: usize = 12;

/// The event that a recording of system calls has of each.
const RAW_CALLS: &str = "raw_syscalls:sys_enter";

/// Message and hint of questions about traces.
impl From<kestrel_query::Error> for Failure {
    fn from(error: kestrel_query::Error) -> Self {
        use kestrel_query::Error;
        // One line, whatever names are in it.
        let failure = Self::new(Exit::Usage, shown(&error.to_string()));
        let listed = |names: &[String]| shown(&names.join(", ")).into_owned();
        match &error {
            Error::Expression { text, found } => Self {
                formatted: true,
                ..Self::new(
                    Exit::Usage,
                    crate::style::diagnostics_in("expression", found, text),
                )
            },
            Error::NoEvent { events, .. } if events.is_empty() => failure.hint("it has no events"),
            Error::NoEvent {
                pattern, events, ..
            } if pattern.starts_with("syscalls:") && events.iter().any(|name| name == RAW_CALLS) => {
                failure.hint(format!("a recording of --syscalls has all calls as {RAW_CALLS} and sys_exit: `kestrel print --syscalls` and `kestrel report --syscalls` show them, `kestrel report --latency 'raw_syscalls:*' --by id` has their times by number, and programs of `kestrel run --trace` find each by this name"))
            }
            Error::NoEvent { near: Some(near), .. } => failure.hint(shown(near)),
            Error::NoEvent { events, .. } => failure.hint(match events.len() {
                0..=SHOWN => format!("its events are {}", listed(events)),
                _ => "`kestrel report` shows its events".to_owned(),
            }),
            Error::Column { columns, .. } => failure.hint(format!("the columns are {}", listed(columns))),
            Error::Time { .. } => failure,
            Error::Pair { .. } => failure.hint("`kestrel report --help` has examples of --latency"),
        }
    }
}

impl Failure {
    /// A failure that shows diagnostics with their source text.
    fn from_diagnostics(exit: Exit, diagnostics: &[kestrel::language::Diagnostic], source: &str) -> Self {
        let mut failure = Self::new(exit, crate::style::diagnostics(diagnostics, source));
        failure.formatted = true;
        failure
    }
}

fn from_kernel(error: &Kernel, message: String) -> Failure {
    let failure = |exit| Failure::new(exit, message.clone());
    match error {
        Kernel::System { errno, .. } | Kernel::Load { errno, .. }
            if errno.is_permission() && error.verifier_log().is_none() =>
        {
            from_permission_error(error, failure)
        }
        kernel if kernel.interface() == Interface::Mount => failure(Exit::Feature)
            .hint("Kestrel reads the kernel's list of events there: `mount -t tracefs nodev /sys/kernel/tracing`, if this kernel has tracefs at all"),
        Kernel::Unavailable { .. } => failure(Exit::Feature).hint("`kestrel doctor` shows what this kernel can do"),
        Kernel::Load { .. } | Kernel::Unresolved { .. } | Kernel::Format { .. } => failure(Exit::Internal),
        Kernel::Argument { .. } => failure(Exit::Usage),
        Kernel::System { errno, .. } => {
            let exit = match *errno {
                Errno::ENOSYS | Errno::EOPNOTSUPP | Errno::ENOTSUPP | Errno::EINVAL | Errno::E2BIG | Errno::ENODEV => {
                    Exit::Feature
                }
                _ => Exit::Failed,
            };
            let mut failure = failure(exit);
            failure.hint = error.hint().map(str::to_owned);
            failure
        }
        _ => failure(Exit::Internal),
    }
}

/// The failure for EPERM and EACCES: a missing privilege, or, with all privileges, a kernel that is locked down, sandboxed or built without the feature.
fn from_permission_error(error: &Kernel, failure: impl Fn(Exit) -> Failure) -> Failure {
    let host = Host::default();
    let Ok(privilege) = Privilege::read(&host) else {
        return failure(Exit::Privilege).hint("tracing the kernel needs root, or CAP_BPF and CAP_PERFMON");
    };
    let paranoid = || procfs::perf_event_paranoid(&host).is_ok_and(|level| level > 2);
    // The attempt may need more privileges than tracing does.
    let (besides, way) = match error.interface() {
        Interface::Mount => (Some(Need::Mount), ""),
        Interface::Files => (Some(Need::Files), ""),
        Interface::Tracefs => (
            Some(Need::Files),
            ", or let a group of yours read it (`mount -o remount,mode=750,gid=GROUP /sys/kernel/tracing`)",
        ),
        Interface::PerfEvent if paranoid() => (
            Some(Need::PerfEvents),
            ", or `sysctl kernel.perf_event_paranoid=2`",
        ),
        _ => (None, ""),
    };
    if let Some(missing) = privilege.missing(Need::Trace) {
        return failure(Exit::Privilege).hint(format!("{missing}: try it with sudo"));
    }
    match besides.and_then(|need| privilege.missing(need)) {
        Some(missing) => failure(Exit::Privilege).hint(format!("{missing}: try it with sudo{way}")),
        None => failure(Exit::Feature).hint(
            "this process has the privileges for tracing: the kernel refuses it to everybody; `kestrel doctor` shows what works",
        ),
    }
}

fn from_trace(error: &Trace, message: String) -> Failure {
    // One line, whatever names and metadata of others are in it.
    let failure = Failure::new(Exit::Failed, shown(&message));
    match error {
        _ if error.kind() == Some(ErrorKind::BrokenPipe) => Failure::broken_pipe(),
        _ if error.kind() == Some(ErrorKind::StorageFull) => {
            failure.hint("the disk is full: free some space, or write elsewhere with -o")
        }
        Trace::Interrupted => {
            failure.hint("what was begun is removed, and what was there before is as it was")
        }
        Trace::Occupied { .. } => {
            failure.hint("only an old trace is replaced: choose another directory with -o")
        }
        Trace::Busy { path } => {
            let host = Host::default();
            let who = match procfs::holder(&host, path) {
                Some(pid) => format!(
                    "process {pid} ({}) does",
                    shown(&procfs::comm(&host, pid).unwrap_or_default())
                ),
                None => "it must end first".to_owned(),
            };
            failure.hint(format!(
                "{who}: wait for its end, or choose another directory with -o"
            ))
        }
        Trace::Several { .. } => failure.hint("name one of them"),
        Trace::Open { .. } | Trace::NoMetadata { .. } => {
            failure.hint("`kestrel record -o DIR -e EVENT` makes one; its directory is the argument")
        }
        _ => failure,
    }
}

impl From<Kernel> for Failure {
    fn from(error: Kernel) -> Self {
        kestrel::Error::from(error).into()
    }
}

impl From<Trace> for Failure {
    fn from(error: Trace) -> Self {
        from_trace(&error, error.to_string())
    }
}

/// An I/O error without context is one of writing to standard output: files have error types of their own.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == ErrorKind::BrokenPipe {
            return Self::broken_pipe();
        }
        Self::new(
            Exit::Failed,
            format!("cannot write to the standard output: {error}"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(interface: Interface, errno: Errno) -> Failure {
        Kernel::System {
            action: "do",
            subject: "it".to_owned(),
            errno,
            interface,
        }
        .into()
    }

    #[test]
    fn the_errno_decides_the_exit_code() {
        assert_eq!(system(Interface::Other, Errno::ENOSPC).exit, Exit::Failed);
        assert_eq!(system(Interface::Attach, Errno::EOPNOTSUPP).exit, Exit::Feature);
        let denied = system(Interface::Attach, Errno::EPERM);
        assert!(matches!(denied.exit, Exit::Privilege | Exit::Feature));
        assert!(denied.hint.is_some());
    }

    #[test]
    fn a_denied_file_system_or_setting_is_named_in_the_hint() {
        let hint = |interface| system(interface, Errno::EACCES).hint.unwrap_or_default();
        let own = Privilege::read(&Host::default()).unwrap();
        for (interface, need) in [
            (Interface::Mount, Need::Mount),
            (Interface::Files, Need::Files),
            (Interface::Tracefs, Need::Files),
        ] {
            let missing = own.missing(Need::Trace).or_else(|| own.missing(need));
            let expected = missing.map_or_else(|| "to everybody".to_owned(), |missing| missing.to_string());
            assert!(
                hint(interface).contains(&expected),
                "{interface:?}: {}",
                hint(interface)
            );
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let failure = Failure::from(std::io::Error::from(ErrorKind::BrokenPipe));
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::Done, ""));
        assert_eq!(
            Failure::from(std::io::Error::from(ErrorKind::StorageFull)).exit,
            Exit::Failed
        );
    }

    #[test]
    fn a_script_ends_with_the_low_byte_of_its_code() {
        for (code, status) in [(3, 3), (0, 0), (256, 0), (-1, 255)] {
            assert_eq!(Exit::of_script(code).code(), status, "{code}");
        }
    }

    #[test]
    fn every_code_is_in_the_help() {
        for code in 0..=Exit::Internal.code() {
            assert!(CODES.contains(&format!("  {code}  ")), "{code}");
        }
    }
}
