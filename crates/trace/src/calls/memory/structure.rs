//! Structures and lists in memory, member by member.

use super::number::number;
use crate::syscall::shape::{Show, Structure};

/// `[a, b, ...]`: of `count` elements those that were read.
pub(super) fn list(
    (read, count): (usize, usize),
    out: &mut String,
    mut each: impl FnMut(usize, &mut String),
) {
    out.push('[');
    for index in 0..read {
        if index > 0 {
            out.push_str(", ");
        }
        each(index, out);
    }
    if read < count {
        out.push_str(if read > 0 { ", ..." } else { "..." });
    }
    out.push(']');
}

/// `{member=value, …}`, as far as its bytes are there.
pub(super) fn structure(bytes: &[u8], of: &Structure, out: &mut String) {
    out.push('{');
    let start = out.len();
    let mut more = of.more;
    for member in of.members {
        let Some(value) = bytes.get(member.at..member.at + member.size) else {
            more = true;
            continue;
        };
        let shown = match member.show {
            Show::AnyPointer | Show::AnyMode | Show::SignalData => value.iter().any(|byte| *byte != 0),
            Show::FileSize => !is_device(bytes, of),
            Show::Device => is_device(bytes, of),
            _ => true,
        };
        if !shown {
            continue;
        }
        if out.len() > start {
            out.push_str(", ");
        }
        out.push_str(member.name);
        out.push('=');
        match member.show {
            Show::Inside(inner) => structure(value, inner, out),
            show => number(value, show, out),
        }
    }
    if more {
        out.push_str(if out.len() > start { ", ..." } else { "..." });
    }
    out.push('}');
}

/// Whether a `struct stat` is of a device.
fn is_device(bytes: &[u8], of: &Structure) -> bool {
    /// `S_IFMT`, and the kinds of devices.
    const KIND: u32 = 0o170_000;
    const DEVICES: [u32; 2] = [0o020_000, 0o060_000];
    let mode = of.members.iter().find(|member| member.name == "st_mode");
    let mode = mode.and_then(|member| bytes.get(member.at..)?.first_chunk());
    mode.is_some_and(|mode| DEVICES.contains(&(u32::from_le_bytes(*mode) & KIND)))
}
