//! Errors of talking to the kernel: what was attempted, on what, its answer, a hint; not how to print it.

use std::fmt;
use std::io;

/// The result of everything in this crate that asks the kernel for something.
pub type Result<T> = std::result::Result<T, Error>;

/// An error number of the kernel (`errno(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub i32);

impl Errno {
    /// The error number that the last system call of this thread left behind.
    pub fn last() -> Self {
        io::Error::last_os_error().into()
    }

    /// The symbolic name, for the numbers that the interfaces used here answer with.
    pub fn name(self) -> Option<&'static str> {
        NAMES
            .iter()
            .find(|(number, _)| *number == self)
            .map(|(_, name)| *name)
    }

    /// Whether the kernel refused for lack of privilege.
    pub fn is_permission(self) -> bool {
        matches!(self, Self::EPERM | Self::EACCES)
    }
}

macro_rules! errnos {
    ($($name:ident = $number:expr,)*) => {
        #[allow(missing_docs, reason = "errno(3) describes each")]
        impl Errno {
            $(pub const $name: Self = Self($number);)*
        }

        const NAMES: &[(Errno, &str)] = &[$((Errno::$name, stringify!($name)),)*];
    };
}

// A table: the error numbers of bpf(2), perf_event_open(2) and the file systems.
errnos! {
    EPERM = libc::EPERM,
    ENOENT = libc::ENOENT,
    ESRCH = libc::ESRCH,
    EINTR = libc::EINTR,
    EIO = libc::EIO,
    ENXIO = libc::ENXIO,
    E2BIG = libc::E2BIG,
    EBADF = libc::EBADF,
    EAGAIN = libc::EAGAIN,
    ENOMEM = libc::ENOMEM,
    EACCES = libc::EACCES,
    EFAULT = libc::EFAULT,
    EBUSY = libc::EBUSY,
    EEXIST = libc::EEXIST,
    ENODEV = libc::ENODEV,
    ENOTDIR = libc::ENOTDIR,
    EISDIR = libc::EISDIR,
    EINVAL = libc::EINVAL,
    ENFILE = libc::ENFILE,
    EMFILE = libc::EMFILE,
    EFBIG = libc::EFBIG,
    ENOSPC = libc::ENOSPC,
    EROFS = libc::EROFS,
    EPIPE = libc::EPIPE,
    ERANGE = libc::ERANGE,
    ENAMETOOLONG = libc::ENAMETOOLONG,
    ENOSYS = libc::ENOSYS,
    ELOOP = libc::ELOOP,
    EILSEQ = libc::EILSEQ,
    EOPNOTSUPP = libc::EOPNOTSUPP,
    EADDRNOTAVAIL = libc::EADDRNOTAVAIL,
    ENOTSUPP = 524,
    ECHILD = libc::ECHILD,
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if *self == Self::ENOTSUPP {
            "operation is not supported".to_owned()
        } else {
            let text = io::Error::from_raw_os_error(self.0).to_string();
            text.split(" (os error").next().unwrap_or_default().to_owned()
        };
        match self.name() {
            Some(name) => write!(f, "{name} ({text})"),
            None => write!(f, "error {} ({text})", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "Errno({} {name})", self.0),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

impl From<io::Error> for Errno {
    /// The number inside, or `EIO` for an error that is not the kernel's (such as invalid UTF-8).
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// The part of the kernel that refused something: what a user can do about it depends on that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// Any other system call.
    #[default]
    Other,
    /// Files of file systems, whose owners and modes guard them.
    Files,
    /// Files of tracefs, which a mount option can give to a group.
    Tracefs,
    /// Mounting a file system.
    Mount,
    /// Opening a perf event.
    PerfEvent,
    /// Attaching a program to an event that is open.
    Attach,
}

/// Why something asked of the kernel did not happen.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel answered with an error number.
    #[error("cannot {action} {subject}: {errno}")]
    System {
        /// The attempted action, a verb phrase: "create the map".
        action: &'static str,
        /// Name or path that it was attempted on.
        subject: String,
        /// The kernel's answer.
        errno: Errno,
        /// Which part of the kernel answered.
        interface: Interface,
    },
    /// The kernel refused to load a program.
    #[error("the kernel refused the program {program}: {errno}{}", last_line(.log))]
    Load {
        /// The program's name.
        program: String,
        /// The kernel's answer.
        errno: Errno,
        /// Log of the verifier; empty when the refusal came before it ran.
        log: String,
    },
    /// A program refers to something that cannot be filled in on this kernel.
    #[error("the program {program} refers to {what}")]
    Unresolved {
        /// The program's name.
        program: String,
        /// The reference, and why it cannot be resolved.
        what: String,
    },
    /// Something the kernel (or a file standing for it) says could not be understood.
    #[error("cannot understand {subject}: {why}")]
    Format {
        /// The source that was read.
        subject: String,
        /// The reason.
        why: String,
    },
    /// The caller asked for something that makes no sense; no system call was made.
    #[error("{subject}: {why}")]
    Argument {
        /// The name or thing asked for.
        subject: String,
        /// Why it is not possible.
        why: String,
    },
    /// This machine does not offer it.
    #[error("{what} is not available: {why}")]
    Unavailable {
        /// The noun for what was looked for.
        what: &'static str,
        /// Where, and what would have to be there.
        why: String,
    },
}

impl Error {
    pub(crate) fn system(action: &'static str, subject: impl Into<String>, errno: impl Into<Errno>) -> Self {
        Self::System {
            action,
            subject: subject.into(),
            errno: errno.into(),
            interface: Interface::Other,
        }
    }

    /// A file could not be read, listed or written.
    pub(crate) fn file(action: &'static str, path: &std::path::Path, errno: impl Into<Errno>) -> Self {
        Self::system(action, path.display().to_string(), errno).of(Interface::Files)
    }

    /// A file of tracefs could not be read, listed or written.
    pub(crate) fn tracefs(action: &'static str, path: &std::path::Path, errno: impl Into<Errno>) -> Self {
        Self::file(action, path, errno).of(Interface::Tracefs)
    }

    /// The error with the part of the kernel that refused.
    pub(crate) fn of(mut self, part: Interface) -> Self {
        if let Self::System { interface, .. } = &mut self {
            *interface = part;
        }
        self
    }

    /// The part of the kernel that refused something.
    pub fn interface(&self) -> Interface {
        match self {
            Self::System { interface, .. } => *interface,
            _ => Interface::Other,
        }
    }

    /// The kernel's answer, where there was one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::System { errno, .. } | Self::Load { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// The verifier's log, where there is one.
    pub fn verifier_log(&self) -> Option<&str> {
        match self {
            Self::Load { log, .. } if !log.is_empty() => Some(log),
            _ => None,
        }
    }

    /// Hint for the user, where one follows from the error alone.
    pub fn hint(&self) -> Option<&'static str> {
        let errno = self.errno()?;
        let refused_by_verifier = self.verifier_log().is_some();
        match errno {
            Errno::EPERM | Errno::EACCES if !refused_by_verifier => Some(
                "run as root, or with CAP_BPF and CAP_PERFMON; a lockdown or a sandbox can refuse this too",
            ),
            Errno::EMFILE => Some("too many open files: raise the limit (`ulimit -n`)"),
            Errno::ENOMEM => Some("not enough memory for it: ask for less or free some"),
            Errno::ENOSYS => Some("this kernel was built without this system call"),
            Errno::E2BIG => {
                Some("too large for this kernel, or it uses an option that only newer kernels know")
            }
            Errno::ENOSPC => Some("no space left: free some, or write elsewhere"),
            _ => None,
        }
    }
}

/// The verifier's last words: the line before its statistics says what was wrong.
fn last_line(log: &str) -> String {
    let mut lines = log.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    match lines.find(|line| !line.starts_with("processed ") && !line.starts_with("verification time ")) {
        Some(line) => format!(": {line}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_was_attempted_and_the_answer() {
        let error = Error::system("create the map", "ring", Errno(libc::EPERM));
        assert_eq!(
            error.to_string(),
            "cannot create the map ring: EPERM (Operation not permitted)"
        );
        assert!(error.hint().is_some());
    }

    #[test]
    fn load_error_quotes_the_verifiers_reason_not_its_statistics() {
        let log = "0: (95) exit\nR0 !read_ok\nprocessed 1 insns (limit 1000000)\n".to_owned();
        let error = Error::Load {
            program: "p".into(),
            errno: Errno(libc::EACCES),
            log,
        };
        assert_eq!(
            error.to_string(),
            "the kernel refused the program p: EACCES (Permission denied): R0 !read_ok"
        );
        assert_eq!(
            error.hint(),
            None,
            "a verifier's refusal is not a matter of privilege"
        );
    }

    #[test]
    fn unknown_numbers_still_print() {
        assert!(Errno(4000).to_string().starts_with("error 4000"));
        assert!(Errno(524).to_string().starts_with("ENOTSUPP"));
    }
}
