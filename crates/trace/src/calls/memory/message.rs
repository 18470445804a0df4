//! Messages of sendmsg(2) and recvmsg(2): address, buffers, control messages.

use super::super::quoted::quoted;
use super::address;
use super::number::number;
use super::structure::{list, structure};
use super::vector::{Memory, vectors};
use crate::syscall::shape::{self, BUFFER, CONTROL, Show, Width};
use crate::syscall::{Meaning, When};

const SOL_SOCKET: i64 = 1;
const IPPROTO_IP: i64 = 0;
/// Types of control messages of SOL_SOCKET (include/linux/socket.h, include/uapi/asm-generic/socket.h).
const SCM_RIGHTS: i64 = 1;
const SCM_CREDENTIALS: i64 = 2;
const SCM_PIDFD: i64 = 4;
const SO_TIMESTAMP_OLD: i64 = 29;
const SO_TIMESTAMPNS_OLD: i64 = 35;
/// Types of control messages of IPPROTO_IP (include/uapi/linux/in.h).
const IP_TOS: i64 = 1;
const IP_TTL: i64 = 2;

/// Bytes of `struct cmsghdr`.
fn header(width: Width) -> usize {
    width.bytes() + 8
}

/// Numbers of 4 bytes in a list.
fn numbers(bytes: &[u8], out: &mut String) {
    let (words, _) = bytes.as_chunks::<4>();
    list((words.len(), words.len()), out, |index, out| {
        number(&words[index], Show::Signed, out);
    });
}

/// A `struct msghdr` as `{msg_name=…, msg_namelen=…, msg_iov=[…], msg_iovlen=…, msg_controllen=…, msg_flags=…}`; `memory` has the address, the vector, the
/// control messages, and the vector's buffers.
pub(super) fn message(
    (bytes, width): (&[u8], Width),
    filled: usize,
    (memory, protocol): (Memory<'_, '_>, Option<i64>),
    out: &mut String,
) -> Option<()> {
    // Each member has the room of an address.
    let word = |index: usize| width.read(bytes, index * width.bytes());
    let half = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (name, vector, count) = (word(0)?, word(2)?, word(3)?);
    let flags = half(6 * width.bytes())?;
    out.push_str("{msg_name=");
    match memory(1).filter(|_| name != 0) {
        Some(bytes) => address::address(bytes, out),
        None => number(&name.to_le_bytes(), Show::Pointer, out),
    }
    out.push_str(&format!(", msg_namelen={}, msg_iov=", half(width.bytes())?));
    let count = usize::try_from(count).ok()?;
    match memory(2) {
        Some(table) => vectors(
            (table, width),
            (count, CONTROL + 1),
            filled,
            (memory, protocol),
            out,
        )?,
        None => number(&vector.to_le_bytes(), Show::Pointer, out),
    }
    out.push_str(&format!(", msg_iovlen={count}"));
    let length = word(5)?;
    if length > 0 {
        out.push_str(", msg_control=");
        match memory(CONTROL).filter(|bytes| bytes.len() >= header(width)) {
            Some(bytes) => control((bytes, width), usize::try_from(length).ok()?, out),
            None => number(&word(4)?.to_le_bytes(), Show::Pointer, out),
        }
    }
    out.push_str(&format!(", msg_controllen={length}, msg_flags="));
    Meaning::Message.write(i64::from(flags), out);
    out.push('}');
    Some(())
}

/// The first of `count` messages, as `[{msg_hdr={…}, msg_len=3}, ...]`; `msg_len` only where the call fills it in.
pub(super) fn first(
    bytes: &[u8],
    ((width, when), count): ((Width, When), usize),
    memory: (Memory<'_, '_>, Option<i64>),
    out: &mut String,
) -> Option<()> {
    let length = bytes.get(7 * width.bytes()..)?.first_chunk();
    let length = u32::from_le_bytes(*length?);
    let filled = match when {
        When::After => usize::try_from(length).ok()?,
        _ => usize::MAX,
    };
    out.push_str("[{msg_hdr=");
    message((bytes, width), filled, memory, out)?;
    if when == When::After {
        out.push_str(&format!(", msg_len={length}"));
    }
    out.push_str(if count > 1 { "}, ...]" } else { "}]" });
    Some(())
}

/// Control messages of `length` bytes, of which those at hand are shown: `[{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[3]}]`.
fn control((mut bytes, width): (&[u8], Width), mut length: usize, out: &mut String) {
    let size = header(width);
    out.push('[');
    let mut first = true;
    while length >= size {
        if !first {
            out.push_str(", ");
        }
        first = false;
        let Some(header) = bytes.get(..size) else {
            out.push_str("...");
            break;
        };
        // Behind the length, which has the room of an address.
        let int = |index: usize| {
            let bytes = header[width.bytes() + 4 * index..].first_chunk();
            bytes.map_or(0, |it| i64::from(i32::from_le_bytes(*it)))
        };
        let own = width.read(header, 0).unwrap_or_default();
        out.push_str(&format!("{{cmsg_len={own}, cmsg_level="));
        Meaning::Level.write(int(0), out);
        out.push_str(", cmsg_type=");
        let own = usize::try_from(own).unwrap_or(usize::MAX);
        let is_socket = int(0) == SOL_SOCKET;
        match is_socket {
            true => Meaning::ControlType.write(int(1), out),
            false => out.push_str(&format!("{:#x}", int(1))),
        }
        if own > size {
            out.push_str(", cmsg_data=");
            let data = &bytes[size..bytes.len().min(own)];
            let is_whole = bytes.len() >= own;
            data_of((int(0), int(1)), (data, width), is_whole, out);
        }
        out.push('}');
        // Each begins at a word.
        let step = own.max(size).checked_next_multiple_of(width.bytes());
        let step = step.unwrap_or(usize::MAX);
        length = length.saturating_sub(step);
        bytes = bytes.get(step..).unwrap_or_default();
    }
    out.push(']');
}

fn data_of(kind: (i64, i64), (data, width): (&[u8], Width), is_whole: bool, out: &mut String) {
    let text = |out: &mut String| {
        let shown = &data[..data.len().min(BUFFER as usize)];
        quoted(shown, shown.len() < data.len() || !is_whole, out);
    };
    match kind {
        (SOL_SOCKET, SCM_RIGHTS | SCM_PIDFD) if is_whole => numbers(data, out),
        (SOL_SOCKET, SCM_CREDENTIALS) if data.len() >= 12 => {
            let half = |at: usize| {
                let bytes = data[at..].first_chunk();
                bytes.map_or(0, |it| u32::from_le_bytes(*it))
            };
            let (pid, uid, gid) = (half(0).cast_signed(), half(4), half(8));
            out.push_str(&format!("{{pid={pid}, uid={uid}, gid={gid}}}"));
        }
        (SOL_SOCKET, SO_TIMESTAMP_OLD) if width == Width::Wide && data.len() >= shape::TIME_OLD.size => {
            structure(data, &shape::TIME_OLD, out)
        }
        (SOL_SOCKET, SO_TIMESTAMPNS_OLD) if width == Width::Wide && data.len() >= shape::TIME.size => {
            structure(data, &shape::TIME, out)
        }
        (IPPROTO_IP, IP_TOS | IP_TTL) if is_whole && data.len() == 4 => numbers(data, out),
        _ => text(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_of(length: u64, kind: (i32, i32), data: &[u8]) -> Vec<u8> {
        let mut bytes = [
            &length.to_le_bytes()[..],
            &kind.0.to_le_bytes(),
            &kind.1.to_le_bytes(),
            data,
        ]
        .concat();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn control_messages_are_read_one_by_one() {
        let text = |bytes: &[u8], length: usize| {
            let mut out = String::new();
            control((bytes, Width::Wide), length, &mut out);
            out
        };
        let rights = message_of(24, (1, 1), &[3, 0, 0, 0, 4, 0, 0, 0]);
        let who = message_of(28, (1, 2), &[7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        let both = [rights.clone(), who].concat();
        assert_eq!(
            text(&both, both.len()),
            "[{cmsg_len=24, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[3, 4]}, \
             {cmsg_len=28, cmsg_level=SOL_SOCKET, cmsg_type=SCM_CREDENTIALS, cmsg_data={pid=7, uid=0, gid=1}}]"
        );
        // Foreign bytes may state any length.
        assert_eq!(
            text(&rights, 4096),
            "[{cmsg_len=24, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[3, 4]}, ...]"
        );
        // Lengths and steps of 32-bit programs are half as wide.
        let mut narrow = String::new();
        let two = [[16, 1, 1, 3], [16, 1, 1, 4]].map(|words: [u32; 4]| words.map(u32::to_le_bytes).concat());
        control((&two.concat(), Width::Narrow), 32, &mut narrow);
        assert_eq!(
            narrow,
            "[{cmsg_len=16, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[3]}, \
             {cmsg_len=16, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[4]}]"
        );
        for length in [0, 1, 15, 17, u64::MAX] {
            let _ = text(&message_of(length, (1, 1), b"abc"), 64);
        }
    }
}
