//! A note on sessions whose events are in tracefs's `kprobe_events`.

/// A note that a session has events in `kprobe_events`: why the file cannot be emptied, and how events leave it.
pub(crate) fn note(session: &str, events: &[String]) -> String {
    format!(
        "the session {session} has events in kprobe_events ({}): until they are detached the file cannot be emptied (EBUSY); single events can still be removed (echo '-:GROUP/EVENT' >> kprobe_events). `kestrel probe remove --session {session} NAME` or `kestrel stop {session}` detaches them",
        events.join(", ")
    )
}
