//! Writes messages of netlink sockets: the header's members by name, the rest as bytes.

use super::super::quoted::quoted;
use crate::syscall::Meaning;

/// `NETLINK_ROUTE`.
const ROUTE: i64 = 0;
/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;

/// `[{nlmsg_len=20, nlmsg_type=RTM_GETLINK, nlmsg_flags=NLM_F_REQUEST|NLM_F_DUMP, nlmsg_seq=1, nlmsg_pid=0}, "\21\0\0\0"]`: the first message of a
/// buffer of `length` bytes. `None` where there is none.
pub(in crate::calls) fn netlink(bytes: &[u8], length: usize, protocol: i64, out: &mut String) -> Option<()> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(i64::from(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?)));
    let (own, kind, flags, sequence, pid) = (word(0)?, half(4)?, half(6)?, word(8)?, word(12)?);
    let own_length = usize::try_from(own).ok()?;
    let is_alone = own_length <= HEADER;
    out.push_str(if is_alone { "{" } else { "[{" });
    out.push_str(&format!("nlmsg_len={own}, nlmsg_type="));
    match protocol {
        ROUTE => Meaning::RouteType.write(kind, out),
        _ => Meaning::NetlinkType.write(kind, out),
    }
    out.push_str(", nlmsg_flags=");
    Meaning::NetlinkFlags.write(flags, out);
    out.push_str(&format!(", nlmsg_seq={sequence}, nlmsg_pid={pid}}}"));
    if !is_alone {
        let end = own_length.min(length);
        let shown = &bytes[HEADER..bytes.len().min(end).max(HEADER)];
        out.push_str(", ");
        quoted(shown, HEADER + shown.len() < end, out);
        out.push_str(if length > own_length { ", ...]" } else { "]" });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_names() {
        let text = |bytes: &[u8], length, protocol| {
            let mut out = String::new();
            netlink(bytes, length, protocol, &mut out).map(|()| out)
        };
        let head = [20, 0, 0, 0, 18, 0, 1, 3, 7, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0];
        assert_eq!(
            text(&head, 20, ROUTE).unwrap(),
            "[{nlmsg_len=20, nlmsg_type=RTM_GETLINK, nlmsg_flags=NLM_F_REQUEST|NLM_F_DUMP, nlmsg_seq=7, nlmsg_pid=0}, \"\\21\\0\\0\\0\"]"
        );
        let done = [16, 0, 0, 0, 3, 0, 2, 0, 0, 0, 0, 0, 5, 0, 0, 0];
        assert_eq!(
            text(&done, 16, 15).unwrap(),
            "{nlmsg_len=16, nlmsg_type=NLMSG_DONE, nlmsg_flags=NLM_F_MULTI, nlmsg_seq=0, nlmsg_pid=5}"
        );
        assert_eq!(text(&done[..15], 15, ROUTE), None);
        assert!(text(&[255; 16], 16, ROUTE).is_some());
    }
}
