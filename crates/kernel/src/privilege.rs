//! Privilege of this process: user, capabilities, lockdown; whether the kernel *can* is `feature`'s question.

use crate::error::{Error, Result};
use crate::host::Host;
use crate::procfs::{Lockdown, lockdown};
use std::fmt;

/// A capability that tracing asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the kernel's own names")]
pub enum Capability {
    DacOverride = 1,
    SysPtrace = 19,
    SysAdmin = 21,
    SysResource = 24,
    Syslog = 34,
    Perfmon = 38,
    Bpf = 39,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DacOverride => "CAP_DAC_OVERRIDE",
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::SysResource => "CAP_SYS_RESOURCE",
            Self::Syslog => "CAP_SYSLOG",
            Self::Perfmon => "CAP_PERFMON",
            Self::Bpf => "CAP_BPF",
        })
    }
}

/// Something that takes privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Loading tracing programs and attaching them.
    Trace,
    /// Finding other people's programs, links and maps by number; run statistics.
    Inspect,
    /// Reading symbols' addresses.
    Addresses,
    /// Mounting tracefs or bpffs.
    Mount,
    /// Reading files that are root's: tracefs is, unless it was mounted otherwise.
    Files,
    /// Opening the perf events that kprobes are attached by, where `kernel.perf_event_paranoid` is higher than the kernel's own levels go.
    PerfEvents,
}

impl Need {
    /// The needs of a whole machine; the others depend on how it is set up.
    pub const ALL: &[Self] = &[Self::Trace, Self::Inspect, Self::Addresses, Self::Mount];
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trace => "tracing",
            Self::Inspect => "inspecting BPF objects by number",
            Self::Addresses => "reading kernel addresses",
            Self::Mount => "mounting file systems",
            Self::Files => "reading files that are root's",
            Self::PerfEvents => {
                "opening perf events (kprobes are such) while kernel.perf_event_paranoid is above 2"
            }
        })
    }
}

/// A missing privilege.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The operation that needs privilege.
    pub need: Need,
    /// Capabilities that this process lacks; any alternative to them is in the text.
    pub capabilities: Vec<Capability>,
    /// The kernel is locked down too far, whatever the capabilities.
    pub lockdown: Option<Lockdown>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.need;
        if let Some(lockdown) = self.lockdown {
            return write!(f, "the kernel is locked down ({lockdown}), which bars {what}");
        }
        let names: Vec<_> = self.capabilities.iter().map(ToString::to_string).collect();
        write!(f, "{what} needs {} (root has all)", names.join(" and "))
    }
}

/// Privilege of this process: user and capabilities, as far as the kernel's checks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// Number of the effective user.
    pub uid: u32,
    /// Effective capabilities, one bit each.
    pub capabilities: u64,
    /// Lockdown of the kernel.
    pub lockdown: Lockdown,
}

impl Privilege {
    /// Reads /proc/self/status and the lockdown state.
    ///
    /// # Errors
    /// [`Error::System`] or [`Error::Format`].
    pub fn read(host: &Host) -> Result<Self> {
        let path = "/proc/self/status";
        let text = host.read(path)?;
        let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let uid = line("Uid:").and_then(|uids| uids.split_ascii_whitespace().nth(1)?.parse().ok());
        let capabilities = line("CapEff:").and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
        match (uid, capabilities) {
            (Some(uid), Some(capabilities)) => Ok(Self {
                uid,
                capabilities,
                lockdown: lockdown(host),
            }),
            _ => Err(Error::Format {
                subject: host.path(path).display().to_string(),
                why: "the lines Uid and CapEff are missing".to_owned(),
            }),
        }
    }

    /// Whether it has a capability.
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities >> capability as u32 & 1 != 0
    }

    /// Missing privileges for `need`, if any. The last word is the kernel's: a sandbox may refuse what this allows.
    pub fn missing(&self, need: Need) -> Option<Missing> {
        let admin = self.has(Capability::SysAdmin);
        let (wanted, barred): (&[Capability], bool) = match need {
            Need::Trace if admin => (&[], self.lockdown == Lockdown::Confidentiality),
            Need::Trace => (
                &[Capability::Bpf, Capability::Perfmon],
                self.lockdown == Lockdown::Confidentiality,
            ),
            Need::Addresses => (&[Capability::Syslog], false),
            Need::Inspect | Need::Mount | Need::PerfEvents => (&[Capability::SysAdmin], false),
            Need::Files => (&[Capability::DacOverride], false),
        };
        let capabilities: Vec<_> = wanted
            .iter()
            .copied()
            .filter(|capability| !self.has(*capability))
            .collect();
        let lockdown = barred.then_some(self.lockdown);
        (!capabilities.is_empty() || barred).then_some(Missing {
            need,
            capabilities,
            lockdown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(capabilities: &[Capability], lockdown: Lockdown) -> Privilege {
        let bits = capabilities
            .iter()
            .map(|capability| 1u64 << *capability as u32)
            .sum();
        Privilege {
            uid: 1000,
            capabilities: bits,
            lockdown,
        }
    }

    #[test]
    fn names_what_is_missing() {
        let nobody = with(&[Capability::Bpf], Lockdown::Off);
        let missing = nobody.missing(Need::Trace).unwrap();
        assert_eq!(missing.to_string(), "tracing needs CAP_PERFMON (root has all)");
        assert_eq!(
            with(&[Capability::Bpf, Capability::Perfmon], Lockdown::Off).missing(Need::Trace),
            None
        );
        let admin = with(&[Capability::SysAdmin], Lockdown::Integrity);
        assert_eq!(
            (admin.missing(Need::Trace), admin.missing(Need::Inspect)),
            (None, None)
        );
        assert!(admin.missing(Need::Addresses).is_some());
        let files = admin.missing(Need::Files).unwrap().to_string();
        assert_eq!(
            files,
            "reading files that are root's needs CAP_DAC_OVERRIDE (root has all)"
        );
    }

    #[test]
    fn confidentiality_bars_even_root() {
        let root = with(&[Capability::SysAdmin], Lockdown::Confidentiality);
        assert!(
            root.missing(Need::Trace)
                .unwrap()
                .to_string()
                .contains("locked down (confidentiality)")
        );
    }

    #[test]
    fn reads_the_status_file() {
        let tree = tempfile::tempdir().unwrap();
        let host = Host::new(tree.path());
        std::fs::create_dir_all(tree.path().join("proc/self")).unwrap();
        std::fs::write(
            tree.path().join("proc/self/status"),
            "Name:\tx\nUid:\t0\t7\t0\t0\nCapEff:\t0000008000000000\n",
        )
        .unwrap();
        let privilege = Privilege::read(&host).unwrap();
        assert_eq!((privilege.uid, privilege.lockdown), (7, Lockdown::Off));
        assert!(privilege.has(Capability::Bpf) && !privilege.has(Capability::Perfmon));
        std::fs::write(tree.path().join("proc/self/status"), "Name:\tx\n").unwrap();
        assert!(Privilege::read(&host).is_err());
    }
}
