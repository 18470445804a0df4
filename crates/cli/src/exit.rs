//! Exit codes, documented in one place, and which failure has which.

use std::process::ExitCode;

/// How the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done = 0,
    /// Nothing was found, the traced command failed, or a file could not be read or written.
    Failed = 1,
    /// The command line, an event or a handler is wrong.
    Usage = 2,
    /// A privilege is missing.
    Privilege = 3,
    /// The kernel lacks a feature.
    Feature = 4,
    /// A fault of Kestrel's own.
    Internal = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What went wrong, with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What to say; several lines are allowed.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// How to end.
    pub(crate) exit: Exit,
}

impl Failure {
    /// A failure with a message.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            exit,
        }
    }

    /// The same with a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Errors of the library become words and codes.
impl From<kestrel::Error> for Failure {
    fn from(error: kestrel::Error) -> Self {
        let message = error.to_string();
        match &error {
            kestrel::Error::Kernel(kernel) => of_kernel(kernel, message),
            kestrel::Error::Trace(trace) => of_trace(trace, message),
            kestrel::Error::Program {
                source_text,
                diagnostics,
            } => {
                let text = crate::style::diagnostics(diagnostics, source_text);
                Self::new(Exit::Usage, text)
            }
            kestrel::Error::NoSuchEvent { .. } => {
                Self::new(Exit::Usage, message).hint("`kestrel list` shows the events of this kernel")
            }
            kestrel::Error::Unsupported { .. } | kestrel::Error::Types(_) => {
                Self::new(Exit::Feature, message)
            }
            kestrel::Error::Compile { .. } => Self::new(Exit::Usage, message),
            kestrel::Error::Attach { log, .. } => {
                let failure = Self::new(Exit::Feature, message);
                match log {
                    Some(log) => failure.hint(format!("the verifier said: {log}")),
                    None => failure,
                }
            }
            _ => Self::new(Exit::Failed, message),
        }
    }
}

fn of_kernel(error: &kestrel::kernel::Error, message: String) -> Failure {
    if error.errno().is_some_and(kestrel::kernel::Errno::is_permission) {
        return Failure::new(Exit::Privilege, message)
            .hint("tracing the kernel needs root, or CAP_BPF and CAP_PERFMON; `kestrel doctor` says what is missing");
    }
    match error {
        kestrel::kernel::Error::Unavailable { .. } => {
            Failure::new(Exit::Feature, message).hint("`kestrel doctor` shows what this kernel can do")
        }
        kestrel::kernel::Error::Load { .. } => Failure::new(Exit::Internal, message),
        _ => Failure::new(Exit::Feature, message),
    }
}

fn of_trace(_error: &kestrel_trace::Error, message: String) -> Failure {
    Failure::new(Exit::Failed, message)
}

impl From<kestrel::kernel::Error> for Failure {
    fn from(error: kestrel::kernel::Error) -> Self {
        kestrel::Error::from(error).into()
    }
}

impl From<kestrel_trace::Error> for Failure {
    fn from(error: kestrel_trace::Error) -> Self {
        of_trace(&error, error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(Exit::Failed, format!("cannot write the output: {error}"))
    }
}
