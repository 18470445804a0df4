//! Arguments of poll(2) and its like, and what they report behind their result.

use super::super::call::{Call, End};
use super::number::number;
use crate::syscall::Meaning;
use crate::syscall::shape::{POLL, Show};

/// Calls that return 0 when their time is over.
const TIMED: &[&str] = &["poll", "ppoll", "select", "pselect6"];

/// `{fd=3, events=POLLIN}`.
pub(super) fn asked(bytes: &[u8], out: &mut String) {
    out.push_str("{fd=");
    number(&bytes[..4], Show::Signed, out);
    if i32::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0; 4])) >= 0 {
        out.push_str(", events=");
        number(&bytes[4..6], Show::Named(Meaning::Poll), out);
    }
    out.push('}');
}

/// Whether a call's time was over before anything happened.
pub(in crate::calls) fn timed_out(call: &Call) -> bool {
    call.end == End::Returned(0) && TIMED.contains(&call.signature.own_name())
}

/// ` ([{fd=3, revents=POLLIN}])`, behind the result of a poll(2) that found something.
pub(in crate::calls) fn ready(call: &Call, out: &mut String) {
    let (End::Returned(1..), "poll" | "ppoll") = (call.end, call.signature.own_name()) else {
        return;
    };
    let Some(bytes) = call.after.get(0, 0) else { return };
    let ready = bytes.chunks_exact(POLL.size).filter(|it| it[6..8] != [0, 0]);
    let each = ready.map(|it| {
        let mut out = String::from("{fd=");
        number(&it[..4], Show::Signed, &mut out);
        out.push_str(", revents=");
        number(&it[6..8], Show::Named(Meaning::Poll), &mut out);
        out.push('}');
        out
    });
    let all: Vec<String> = each.collect();
    out.push_str(&format!(" ([{}])", all.join(", ")));
}
