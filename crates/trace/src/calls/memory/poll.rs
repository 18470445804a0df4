//! Arguments of poll(2) and its like, and what they report behind their result.

use super::super::call::{Call, End};
use super::number::number;
use super::structure::structure;
use super::{descriptors, set_of};
use crate::syscall::shape::{POLL, Shape, Show};
use crate::syscall::{ArgumentKind, Meaning, Pointed};

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

/// Writes the descriptors found ready, behind the result of a poll(2) or select(2) that found some.
pub(in crate::calls) fn ready(call: &Call, out: &mut String) {
    if !matches!(call.end, End::Returned(1..)) {
        return;
    }
    match call.signature.own_name() {
        "poll" | "ppoll" => events(call, out),
        "select" | "pselect6" => selected(call, out),
        _ => {}
    }
}

/// ` (in [3], left {tv_sec=1, tv_nsec=5})`: the sets that select(2) leaves, and the time that was not needed.
fn selected(call: &Call, out: &mut String) {
    const SETS: [(usize, &str); 3] = [(1, "in"), (2, "out"), (3, "except")];
    const TIME: usize = 4;
    let Some(most) = call.argument(0).and_then(|most| usize::try_from(most).ok()) else {
        return;
    };
    let is_given = |place| call.argument(place).is_some_and(|address| address != 0);
    let mut parts = Vec::new();
    for (place, name) in SETS {
        let set = call.after.get(place, 0).filter(|_| is_given(place));
        let Some(set) = set.filter(|set| set_of(set, most).next().is_some()) else {
            continue;
        };
        let mut part = format!("{name} ");
        descriptors(set, most, &mut part);
        parts.push(part);
    }
    let time = call.signature.parameters.get(TIME).and_then(|it| it.kind);
    if let Some(ArgumentKind::Pointed(Pointed {
        shape: Shape::Members(of),
        ..
    })) = time
        && let Some(left) = call.after.get(TIME, 0).filter(|_| is_given(TIME))
        && left.len() >= of.size
    {
        let mut part = String::from("left ");
        structure(left, of, &mut part);
        parts.push(part);
    }
    if !parts.is_empty() {
        out.push_str(&format!(" ({})", parts.join(", ")));
    }
}

/// ` ([{fd=3, revents=POLLIN}])`.
fn events(call: &Call, out: &mut String) {
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
