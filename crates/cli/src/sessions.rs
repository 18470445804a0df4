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
