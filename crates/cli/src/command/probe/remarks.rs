//! Opening the session of named probes for a change, and reports why enabled probes do not run.

use crate::exit::{Exit, Failure};
use crate::output::kprobe_events;
use kestrel::kernel::{Host, kprobes};
use kestrel::session::named::SESSION;
use kestrel::session::pinned::{Change, PinnedSession};
use kestrel::session::store::Store;

/// A session of named probes that is to be changed.
pub(super) fn change(store: &Store, session: &str) -> Result<Change, Failure> {
    store.change(Some(session)).map_err(|error| match error {
        kestrel::Error::NoSession { .. } if session == SESSION => {
            Failure::new(Exit::Failed, "there are no named probes").hint("`kestrel probe add` adds some")
        }
        other => other.into(),
    })
}

/// Reports why enabled probes do not run, or that there are none.
pub(super) fn report_inactive(session: &PinnedSession, host: &Host) {
    let count = session.state().probes.each.len();
    if count == 0 {
        eprintln!("the session {} has no named probes", session.name());
    }
    if !session.probes_on() {
        eprintln!(
            "the named probes of the session {} are switched off: `kestrel probe enable --all` switches them on",
            session.name()
        );
    }
    let kept = session.tracefs_events();
    if !kept.is_empty() {
        eprintln!("{}", kprobe_events::note(session.name(), &kept));
    }
    if matches!(kprobes::enabled(host), Ok(false)) {
        eprintln!(
            "the kernel's own switch for kprobes is off: `kestrel probe enable --kernel` switches it on"
        );
    }
}
