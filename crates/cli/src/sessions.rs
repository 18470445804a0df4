//! The way to the sessions of this machine: how long a command waits for another one that changes the same, and what it says meanwhile.

use kestrel::kernel::Host;
use kestrel::session::store::{Patience, Store};
use std::sync::OnceLock;
use std::time::Duration;

/// `--wait`, where it is given.
static WAIT: OnceLock<Duration> = OnceLock::new();

/// Waits so long for other commands from now on.
pub(crate) fn wait(time: Duration) {
    let _said_once = WAIT.set(time);
}

/// The sessions.
///
/// # Errors
/// As [`Store::open`].
pub(crate) fn store(host: &Host) -> Result<Store, kestrel::Error> {
    let mut patience = Patience {
        told: |waiting| eprintln!("waiting: {waiting}"),
        ..Patience::default()
    };
    patience.time = WAIT.get().copied().unwrap_or(patience.time);
    Ok(Store::open(host)?.with_patience(patience))
}

/// Why `kprobe_events` cannot be emptied, and how it can be again.
pub(crate) fn in_tracefs(session: &str, kept: &[String]) -> String {
    format!(
        "the session {session} keeps events in kprobe_events ({}): while they are attached, nobody can empty that file (EBUSY), which removes single ones still (echo '-:GROUP/EVENT' >> …); `kestrel probe remove --session {session} NAME` or `kestrel stop {session}` ends that",
        kept.join(", ")
    )
}
