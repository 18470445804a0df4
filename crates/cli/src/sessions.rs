//! Opening the store of persistent sessions, with the timeout of its locks and the message while a command waits for one.

use kestrel::kernel::Host;
use kestrel::session::store::{Patience, Store};
use std::sync::OnceLock;
use std::time::Duration;

/// The value of `--wait`, if it was given.
static WAIT: OnceLock<Duration> = OnceLock::new();

/// Sets how long this process waits for the lock of a session that another command is changing.
pub(crate) fn set_lock_timeout(time: Duration) {
    let _said_once = WAIT.set(time);
}

/// Opens the store of persistent sessions.
///
/// # Errors
/// As [`Store::open`].
pub(crate) fn store(host: &Host) -> Result<Store, kestrel::Error> {
    let mut patience = Patience {
        report: |waiting| eprintln!("waiting: {waiting}"),
        ..Patience::default()
    };
    patience.time = WAIT.get().copied().unwrap_or(patience.time);
    Ok(Store::open(host)?.with_patience(patience))
}
