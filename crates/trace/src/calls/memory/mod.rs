//! Writes the memory that arguments of system calls point to as text, as strace does: `{tv_sec=0, tv_nsec=1000000}`.

mod address;
mod control;
mod message;
mod netlink;
mod number;
mod poll;
mod signal;
mod structure;
mod vector;

pub(super) use control::process_control;
pub(super) use netlink::netlink;
pub(super) use poll::{ready, timed_out};
pub(super) use signal::information as signal_information;

use super::call::{Argument, Call, End};
use super::pointer::pointer;
use crate::syscall::shape::{self, Shape, Show, Structure};
use crate::syscall::{ElementCount, Errno, Pointed, When};
use number::number;
use structure::{list, structure};

/// `SOL_SOCKET` and its option `SO_LINGER`.
const LINGER: (i64, i64) = (1, 13);
/// `SOL_SOCKET` and its option `SO_PEERCRED`.
const CREDENTIALS: (i64, i64) = (1, 17);
/// `SOL_SOCKET` and its option `SO_ERROR`.
const ERROR: (i64, i64) = (1, 4);

/// Writes the time that is left of a sleep, which the kernel gives only if a signal has interrupted it.
pub(super) fn remaining(call: &Call, argument: Argument<'_>, of: &Structure, out: &mut String) {
    let interrupted = call.error().is_some_and(|error| error.interrupted);
    let left = call
        .after
        .get(argument.place, 0)
        .filter(|bytes| interrupted && bytes.len() >= of.size);
    match left {
        Some(bytes) => structure(bytes, of, out),
        None => pointer(argument.value, out),
    }
}

/// Writes what an argument points to; its address where that is not known.
pub(super) fn pointed(call: &Call, argument: Argument<'_>, what: Pointed, out: &mut String) {
    if argument.value == 0 && !matches!(what.shape, Shape::FileControl(_) | Shape::DeviceControl) {
        return out.push_str("NULL");
    }
    let start = out.len();
    if written(call, argument, what, out).is_none() {
        out.truncate(start);
        match what.shape {
            Shape::FileControl(_) | Shape::DeviceControl => {
                number(&argument.value.to_le_bytes(), Show::Bits, out)
            }
            _ => pointer(argument.value, out),
        }
    }
}

fn written(call: &Call, argument: Argument<'_>, what: Pointed, out: &mut String) -> Option<()> {
    let place = argument.place;
    let memory = |part| {
        call.memory((place, part), what.when)
            .filter(|bytes| !bytes.is_empty())
    };
    match what.shape {
        Shape::FileControl(_) | Shape::DeviceControl => {
            return control::write(call, argument, what.shape, out);
        }
        Shape::SocketAddress => address::address(memory(0)?, out),
        // Of a wait that found nothing the status is as it was.
        Shape::WaitStatus if call.end == End::Returned(0) => return None,
        Shape::WaitStatus => wait_status(memory(0)?, out)?,
        Shape::SignalInfo(width) => signal::information(memory(0)?, width, out)?,
        Shape::Processors => descriptors(memory(0)?, usize::MAX, out),
        Shape::Signals => number(whole(memory(0)?, 8)?, Show::Signals, out),
        Shape::Strings(width) => vector::strings((memory(0)?, width), &memory, out),
        Shape::TextCount(width) => vector::count((memory(0)?, width), argument.value, out),
        Shape::Vectors(width) => {
            let count = call
                .argument(place + 1)
                .and_then(|count| usize::try_from(count).ok())?;
            if count == 0 {
                out.push_str("[]");
                return Some(());
            }
            vector::vectors(
                (memory(0)?, width),
                (count, 1),
                transferred(call, what.when),
                (&memory, call.netlink),
                out,
            )?;
        }
        Shape::Message(width) => {
            let filled = transferred(call, what.when);
            message::message((memory(0)?, width), filled, (&memory, call.netlink), out)?;
        }
        Shape::Messages(width) => {
            let mut count = call.argument(place + 1).and_then(|it| usize::try_from(it).ok())?;
            // There may be room for more than came.
            if let (When::After, End::Returned(came)) = (what.when, call.end) {
                count = count.min(usize::try_from(came).ok()?);
            }
            let of = (width, what.when);
            message::first(memory(0)?, (of, count), (&memory, call.netlink), out)?;
        }
        Shape::Pair => {
            let bytes = whole(memory(0)?, 8)?;
            list((2, 2), out, |index, out| {
                number(&bytes[4 * index..][..4], Show::Signed, out)
            });
        }
        Shape::Number(..) if is_option(call, what) => option(call, memory(0)?, out)?,
        Shape::Number(size, show) if what.when == When::Both => {
            changed(call, place, (usize::from(size), show), out)?
        }
        Shape::Number(size, show) => {
            let size = usize::from(size);
            let count = wanted(call, what)?;
            let bytes = call.memory((place, 0), what.when)?;
            let read = (bytes.len() / size).min(count);
            list((read, count), out, |index, out| {
                number(&bytes[index * size..][..size], show, out)
            });
        }
        Shape::Members(of) => members_of(call, what, of, call.memory((place, 0), what.when)?, out)?,
        Shape::Descriptors => {
            let most = call.argument(0).and_then(|it| usize::try_from(it).ok())?;
            descriptors(memory(0)?, most, out);
        }
    }
    Some(())
}

/// Writes one structure, or a list of them.
fn members_of(call: &Call, what: Pointed, of: &Structure, bytes: &[u8], out: &mut String) -> Option<()> {
    match what.many {
        ElementCount::One | ElementCount::Bytes(_) | ElementCount::Behind(_) if !bytes.is_empty() => {
            structure(bytes, of, out)
        }
        ElementCount::One | ElementCount::Bytes(_) | ElementCount::Behind(_) => return None,
        ElementCount::Two | ElementCount::Argument(_) | ElementCount::Returned => {
            let count = wanted(call, what)?;
            let read = (bytes.len() / of.size).min(count);
            if read == 0 && count > 0 {
                return None;
            }
            list((read, count), out, |index, out| {
                let bytes = &bytes[index * of.size..][..of.size];
                match (what.when, what.many) {
                    // The events that poll reports are shown with the call's result.
                    (When::Both, _) => poll::asked(bytes, out),
                    (_, ElementCount::Two) => file_time(bytes, of, out),
                    _ => structure(bytes, of, out),
                }
            });
        }
    }
    Some(())
}

/// Writes a time of utimensat(2), whose nanoseconds may stand for "now" or "none" (include/linux/stat.h).
fn file_time(bytes: &[u8], of: &Structure, out: &mut String) {
    const NOW: u32 = 0x3fff_ffff;
    const OMIT: u32 = 0x3fff_fffe;
    // The nanoseconds are the second half of the structure, 4 or 8 bytes.
    let nanoseconds = bytes.get(bytes.len() / 2..).and_then(<[u8]>::first_chunk);
    match nanoseconds.map(|half| u32::from_le_bytes(*half)) {
        Some(NOW) => out.push_str("UTIME_NOW"),
        Some(OMIT) => out.push_str("UTIME_OMIT"),
        _ => structure(bytes, of, out),
    }
}

/// Number of elements, where the call says it.
fn wanted(call: &Call, what: Pointed) -> Option<usize> {
    let count = match what.many {
        ElementCount::Two => 2,
        ElementCount::Argument(place) => call.argument(usize::from(place))?,
        ElementCount::Returned => match call.end {
            End::Returned(count) => count,
            _ => return None,
        },
        ElementCount::One | ElementCount::Bytes(_) | ElementCount::Behind(_) => 1,
    };
    usize::try_from(count).ok()
}

/// Number of bytes of its buffers that a call has filled; for buffers that it only reads there is no limit.
fn transferred(call: &Call, when: When) -> usize {
    match (when, call.end) {
        (When::After, End::Returned(bytes)) => usize::try_from(bytes).unwrap_or_default(),
        _ => usize::MAX,
    }
}

fn is_option(call: &Call, what: Pointed) -> bool {
    matches!(call.signature.own_name(), "setsockopt" | "getsockopt")
        && matches!(what.many, ElementCount::Bytes(_) | ElementCount::Behind(_))
        && what.shape.size() == 4
}

/// Writes the value of a socket's option.
fn option(call: &Call, bytes: &[u8], out: &mut String) -> Option<()> {
    let which = call.argument(1).zip(call.argument(2));
    match bytes.len() {
        12 if which == Some(CREDENTIALS) => structure(bytes, &shape::CREDENTIALS, out),
        8 if which == Some(LINGER) => structure(bytes, &shape::LINGER, out),
        4 => {
            out.push('[');
            let value = i64::from(i32::from_le_bytes(*bytes.first_chunk()?));
            match Errno::of(-value).and_then(|error| error.name) {
                Some(name) if which == Some(ERROR) => out.push_str(name),
                _ => number(bytes, Show::Signed, out),
            }
            out.push(']');
        }
        length => {
            let most = length.min(shape::BUFFER as usize);
            super::quoted::quoted(&bytes[..most], most < length, out);
        }
    }
    Some(())
}

/// Writes a number that the call can change: `[128 => 16]`, or `[16]` where it is unchanged.
fn changed(call: &Call, place: usize, (size, show): (usize, Show), out: &mut String) -> Option<()> {
    let before = whole(
        call.before.get(place, 0).or_else(|| call.after.get(place, 0))?,
        size,
    )?;
    out.push('[');
    number(before, show, out);
    if let Some(after) = call
        .memory((place, 0), When::After)
        .filter(|after| *after != before)
    {
        out.push_str(" => ");
        number(whole(after, size)?, show, out);
    }
    out.push(']');
    Some(())
}

/// The first `size` bytes, if there are that many.
fn whole(bytes: &[u8], size: usize) -> Option<&[u8]> {
    bytes.get(..size)
}

/// Writes the exit status of a process: `[{WIFEXITED(s) && WEXITSTATUS(s) == 0}]`.
fn wait_status(bytes: &[u8], out: &mut String) -> Option<()> {
    let status = i64::from(u32::from_le_bytes(*bytes.first_chunk()?));
    let signal = |number: i64| {
        let mut name = String::new();
        number::signal(number, &mut name);
        name
    };
    let (low, high) = (status & 0x7f, status >> 8 & 0xff);
    let core = if status & 0x80 != 0 {
        " && WCOREDUMP(s)"
    } else {
        ""
    };
    out.push_str(&match (status & 0xff, low) {
        _ if status == 0xffff => "[{WIFCONTINUED(s)}]".to_owned(),
        (0x7f, _) => format!("[{{WIFSTOPPED(s) && WSTOPSIG(s) == {}}}]", signal(high)),
        (_, 0) => format!("[{{WIFEXITED(s) && WEXITSTATUS(s) == {high}}}]"),
        _ => format!("[{{WIFSIGNALED(s) && WTERMSIG(s) == {}{core}}}]", signal(low)),
    });
    Some(())
}

/// Writes a set of descriptors below `most`: `[3 4]`.
fn descriptors(bytes: &[u8], most: usize, out: &mut String) {
    let all: Vec<String> = set_of(bytes, most).map(|number| number.to_string()).collect();
    out.push_str(&format!("[{}]", all.join(" ")));
}

/// The numbers below `most` in a set of bits.
fn set_of(bytes: &[u8], most: usize) -> impl Iterator<Item = usize> {
    let is_in = move |number: &usize| {
        bytes
            .get(number / 8)
            .is_some_and(|byte| byte >> (number % 8) & 1 == 1)
    };
    (0..most.min(8 * bytes.len())).filter(is_in)
}

#[cfg(test)]
mod tests {
    use super::super::{Descriptors, Pieces, Signature, call_text};
    use super::*;
    use crate::layout::{Base, FieldType};
    use std::sync::Arc;

    #[test]
    fn only_messages_that_arrived_are_shown() {
        let word = FieldType::Integer {
            size: 8,
            signed: false,
            base: Base::Hexadecimal,
        };
        let shown = |call: &str, returned: i64| {
            let names = ["fd", "mmsg", "vlen", "flags", "timeout"];
            let parameters = names.map(|name| (name.to_owned(), word.clone()));
            let mut pieces = Pieces::default();
            // Nothing but the length of the first.
            let mut message = [0; 64];
            message[56] = 3;
            pieces.insert(1, 0, &message);
            let call = Call {
                pid: 1,
                tid: 1,
                signature: Arc::new(Signature::new(call, parameters)),
                begun_ns: Some(1),
                ended_ns: Some(2),
                values: vec![5, 0x1000, 8, 0, 0],
                before: pieces.clone(),
                after: pieces,
                end: End::Returned(returned),
                wanted: true,
                netlink: None,
                stacks: Vec::new(),
            };
            let text = call_text(&call, &Descriptors::default());
            assert!(text.contains("[{msg_hdr={msg_name="), "{text}");
            text
        };
        let one = shown("recvmmsg", 1);
        assert!(one.contains("msg_len=3}], vlen: 8"), "{one}");
        let two = shown("recvmmsg", 2);
        assert!(two.contains("msg_len=3}, ...], vlen: 8"), "{two}");
        // A message to send was there whatever became of it.
        let sent = shown("sendmmsg", 1);
        assert!(sent.contains("}}, ...], vlen: 8"), "{sent}");
    }
}
