//! Messages of sendmsg(2) and recvmsg(2): address, buffers, control messages.

use super::super::quoted::quoted;
use super::address;
use super::number::number;
use super::structure::{list, structure};
use super::vector::{Memory, vectors};
use crate::syscall::Meaning;
use crate::syscall::shape::{self, BUFFER, CONTROL, Show};

const SOL_SOCKET: i64 = 1;
const IPPROTO_IP: i64 = 0;
/// Bytes of `struct cmsghdr`.
const HEADER: usize = 16;

/// Numbers of 4 bytes in a list.
fn numbers(bytes: &[u8], out: &mut String) {
    let (words, _) = bytes.as_chunks::<4>();
    list((words.len(), words.len()), out, |index, out| {
        number(&words[index], Show::Signed, out);
    });
}

/// `{msg_name=…, msg_namelen=…, msg_iov=[…], msg_iovlen=…, msg_controllen=…, msg_flags=…}`: parts are the name, the vector, the control messages, and the
/// vector's buffers.
pub(super) fn message(
    bytes: &[u8],
    filled: usize,
    (memory, protocol): (Memory<'_, '_>, Option<i64>),
    out: &mut String,
) -> Option<()> {
    let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (name, vector, count) = (word(0)?, word(16)?, word(24)?);
    let flags = half(48)?;
    out.push_str("{msg_name=");
    match memory(1).filter(|_| name != 0) {
        Some(bytes) => address::address(bytes, out),
        None => number(&name.to_le_bytes(), Show::Pointer, out),
    }
    out.push_str(&format!(", msg_namelen={}, msg_iov=", half(8)?));
    let count = usize::try_from(count).ok()?;
    match memory(2) {
        Some(table) => vectors(table, (count, CONTROL + 1), filled, (memory, protocol), out)?,
        None => number(&vector.to_le_bytes(), Show::Pointer, out),
    }
    out.push_str(&format!(", msg_iovlen={count}"));
    let length = word(40)?;
    if length > 0 {
        out.push_str(", msg_control=");
        match memory(CONTROL).filter(|bytes| bytes.len() >= HEADER) {
            Some(bytes) => control(bytes, usize::try_from(length).ok()?, out),
            None => number(&word(32)?.to_le_bytes(), Show::Pointer, out),
        }
    }
    out.push_str(&format!(", msg_controllen={length}, msg_flags="));
    Meaning::Message.write(i64::from(flags), out);
    out.push('}');
    Some(())
}

/// `[{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[3]}]`: of `length` bytes those that were read.
fn control(mut bytes: &[u8], mut length: usize, out: &mut String) {
    out.push('[');
    let mut first = true;
    while length >= HEADER {
        if !first {
            out.push_str(", ");
        }
        first = false;
        let Some(header) = bytes.first_chunk::<HEADER>() else {
            out.push_str("...");
            break;
        };
        let int = |at: usize| {
            header[at..]
                .first_chunk()
                .map_or(0, |it| i64::from(i32::from_le_bytes(*it)))
        };
        let own = header.first_chunk().map_or(0, |it| u64::from_le_bytes(*it));
        out.push_str(&format!("{{cmsg_len={own}, cmsg_level="));
        Meaning::Level.write(int(8), out);
        out.push_str(", cmsg_type=");
        let own = usize::try_from(own).unwrap_or(usize::MAX);
        let is_socket = int(8) == SOL_SOCKET;
        match is_socket {
            true => Meaning::ControlType.write(int(12), out),
            false => out.push_str(&format!("{:#x}", int(12))),
        }
        if own > HEADER {
            out.push_str(", cmsg_data=");
            let data = &bytes[HEADER..bytes.len().min(own)];
            let is_whole = bytes.len() >= own;
            data_of((int(8), int(12)), data, is_whole, out);
        }
        out.push('}');
        // Each begins at a word.
        let step = own.max(HEADER).saturating_add(7) & !7;
        length = length.saturating_sub(step);
        bytes = bytes.get(step..).unwrap_or_default();
    }
    out.push(']');
}

fn data_of(kind: (i64, i64), data: &[u8], is_whole: bool, out: &mut String) {
    let text = |out: &mut String| {
        let shown = &data[..data.len().min(BUFFER as usize)];
        quoted(shown, shown.len() < data.len() || !is_whole, out);
    };
    match kind {
        (SOL_SOCKET, 1 | 4) if is_whole => numbers(data, out),
        (SOL_SOCKET, 2) if data.len() >= 12 => {
            let half = |at: usize| {
                let bytes = data[at..].first_chunk();
                bytes.map_or(0, |it| u32::from_le_bytes(*it))
            };
            let (pid, uid, gid) = (half(0).cast_signed(), half(4), half(8));
            out.push_str(&format!("{{pid={pid}, uid={uid}, gid={gid}}}"));
        }
        (SOL_SOCKET, 29) if data.len() >= shape::TIME_OLD.size => structure(data, &shape::TIME_OLD, out),
        (SOL_SOCKET, 35) if data.len() >= shape::TIME.size => structure(data, &shape::TIME, out),
        // IP_TOS and IP_TTL.
        (IPPROTO_IP, 1 | 2) if is_whole && data.len() == 4 => numbers(data, out),
        _ => text(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(length: u64, kind: (i32, i32), data: &[u8]) -> Vec<u8> {
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
            control(bytes, length, &mut out);
            out
        };
        let rights = header(24, (1, 1), &[3, 0, 0, 0, 4, 0, 0, 0]);
        let who = header(28, (1, 2), &[7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        let both = [rights.clone(), who].concat();
        assert_eq!(
            text(&both, both.len()),
            "[{cmsg_len=24, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[3, 4]}, \
             {cmsg_len=28, cmsg_level=SOL_SOCKET, cmsg_type=SCM_CREDENTIALS, cmsg_data={pid=7, uid=0, gid=1}}]"
        );
        // What is foreign may say anything of its length.
        assert_eq!(
            text(&rights, 4096),
            "[{cmsg_len=24, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[3, 4]}, ...]"
        );
        for length in [0, 1, 15, 17, u64::MAX] {
            let _ = text(&header(length, (1, 1), b"abc"), 64);
        }
    }
}
