//! Identities of processes, as in names of events and instances of tracefs that outlive them: from such a name it is known later whether the process is gone.

use super::task::start_time;
use crate::error::Result;
use crate::host::Host;
use std::fmt;
use std::str::FromStr;

/// Number and start time of a process, written `PID_START`: the number alone may be another process's by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    pid: u32,
    /// Start time in clock ticks since boot.
    start: u64,
}

impl ProcessIdentity {
    /// The identity of this process.
    ///
    /// # Errors
    /// As [`start_time`].
    pub fn own(host: &Host) -> Result<Self> {
        let pid = std::process::id();
        let start = start_time(host, pid)?;
        Ok(Self { pid, start })
    }

    /// Whether the process still runs.
    pub fn is_alive(self, host: &Host) -> bool {
        start_time(host, self.pid).is_ok_and(|start| start == self.start)
    }
}

impl fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.pid, self.start)
    }
}

impl FromStr for ProcessIdentity {
    /// The text is not of the form `PID_START`.
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let read = || {
            let (pid, start) = text.split_once('_')?;
            let (pid, start) = (pid.parse().ok()?, start.parse().ok()?);
            Some(Self { pid, start })
        };
        read().ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_identity_is_read() {
        let own = ProcessIdentity::own(&Host::default()).unwrap();
        assert_eq!(own.to_string().parse(), Ok(own));
        assert!(own.is_alive(&Host::default()));
        for other in ["", "12", "12_", "_3", "12_3_4", "12_x", "a_3", "4294967296_1"] {
            assert_eq!(other.parse::<ProcessIdentity>(), Err(()), "{other}");
        }
    }

    #[test]
    fn a_number_that_another_process_has_is_no_identity_of_it() {
        let own = ProcessIdentity::own(&Host::default()).unwrap();
        let before = ProcessIdentity {
            start: own.start + 1,
            ..own
        };
        assert!(!before.is_alive(&Host::default()));
    }
}
