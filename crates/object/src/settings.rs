//! Settings for loading an object: targets, which programs to load, how kprobes are attached; they override or complete what its sections say.

use kestrel_catalog::Error;
use kestrel_catalog::attach::KprobeVia;
use kestrel_kernel::Errno;
use std::path::PathBuf;

/// Settings for loading an object, which override or complete what its sections say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Program and target.
    pub(crate) targets: Vec<(String, String)>,
    /// Options of the kernel's configuration, as the user says they are.
    pub(crate) config: Vec<(String, String)>,
    pub(crate) at_return: bool,
    pub(crate) via: KprobeVia,
    pub(crate) verifier_log: bool,
    pub(crate) strict: bool,
    pub(crate) optional: bool,
    /// The only programs to take, if any are named; and those to leave out.
    pub(crate) only: Vec<String>,
    pub(crate) without: Vec<String>,
    /// Maps that another loader made, by their names, and where they are pinned.
    pub(crate) pinned: Vec<(String, PathBuf)>,
}

impl Settings {
    /// Whether a program is taken as far as the user says; `held` are those that others call.
    pub(crate) fn takes(&self, program: &str, held: bool) -> bool {
        let is = |name: &String| name == program;
        (self.only.is_empty() || held || self.only.iter().any(is)) && !self.without.iter().any(is)
    }

    /// Whether a program was asked for by its name.
    pub(crate) fn asks_for(&self, program: &str) -> bool {
        self.targets.iter().any(|(name, _)| name == program) || self.only.iter().any(|name| name == program)
    }

    /// Whether the others may go on without a program that this happens to. What a section says is a wish: objects carry programs for other
    /// kernels. What the user says is not.
    pub(crate) fn spares(&self, program: &str, error: &Error) -> bool {
        /// The kernel has no such thing, or not in this shape; not: it has no room, or we may not.
        const ABSENT: &[Errno] = &[
            Errno::ENOENT,
            Errno::EINVAL,
            Errno::EBADF,
            Errno::EOPNOTSUPP,
            Errno::ENOTSUPP,
            Errno::EADDRNOTAVAIL,
            Errno::EILSEQ,
            Errno::ENODEV,
            Errno::ESRCH,
        ];
        let absent = match error {
            Error::NoSuchEvent { .. }
            | Error::NoPlace { .. }
            | Error::Unsupported { .. }
            | Error::Object { .. } => true,
            Error::Kernel(error) => error.errno().is_some_and(|errno| ABSENT.contains(&errno)),
            _ => false,
        };
        absent && !self.strict && !self.asks_for(program)
    }
}
