//! Addresses of sockets, by their families.

use super::super::quoted::quoted;
use crate::syscall::Meaning;
use std::net::{Ipv4Addr, Ipv6Addr};

const UNIX: i64 = 1;
const INET: i64 = 2;
const INET6: i64 = 10;
const NETLINK: i64 = 16;

/// `{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("127.0.0.1")}`.
pub(super) fn address(bytes: &[u8], out: &mut String) {
    let Some((family, rest)) = bytes.split_first_chunk() else {
        return quoted(bytes, false, out);
    };
    let family = i64::from(u16::from_le_bytes(*family));
    out.push_str("{sa_family=");
    Meaning::AddressFamily.write(family, out);
    let known = match family {
        UNIX => unix(rest, out),
        INET => inet(rest, out),
        INET6 => inet6(rest, out),
        NETLINK => netlink(rest, out),
        _ => None,
    };
    if known.is_none() && !rest.is_empty() {
        out.push_str(", sa_data=");
        quoted(rest, false, out);
    }
    out.push('}');
}

/// A path, or an abstract name behind a NUL.
fn unix(rest: &[u8], out: &mut String) -> Option<()> {
    match rest.split_first() {
        None => {}
        Some((0, name)) => {
            out.push_str(", sun_path=@");
            quoted(name, false, out);
        }
        Some(_) => {
            let end = rest.iter().position(|byte| *byte == 0);
            out.push_str(", sun_path=");
            quoted(&rest[..end.unwrap_or(rest.len())], false, out);
        }
    }
    Some(())
}

fn inet(rest: &[u8], out: &mut String) -> Option<()> {
    let (port, rest) = rest.split_first_chunk()?;
    let address = Ipv4Addr::from(*rest.first_chunk::<4>()?);
    let port = u16::from_be_bytes(*port);
    out.push_str(&format!(
        ", sin_port=htons({port}), sin_addr=inet_addr(\"{address}\")"
    ));
    Some(())
}

fn inet6(rest: &[u8], out: &mut String) -> Option<()> {
    let (port, rest) = rest.split_first_chunk()?;
    let (flow, rest) = rest.split_first_chunk()?;
    let (address, rest) = rest.split_first_chunk::<16>()?;
    let (port, flow) = (u16::from_be_bytes(*port), u32::from_be_bytes(*flow));
    let address = Ipv6Addr::from(*address);
    out.push_str(&format!(
        ", sin6_port=htons({port}), sin6_flowinfo=htonl({flow}), inet_pton(AF_INET6, \"{address}\", &sin6_addr)"
    ));
    if let Some(scope) = rest.first_chunk() {
        out.push_str(&format!(", sin6_scope_id={}", u32::from_le_bytes(*scope)));
    }
    Some(())
}

fn netlink(rest: &[u8], out: &mut String) -> Option<()> {
    let (_, rest) = rest.split_first_chunk::<2>()?;
    let (pid, rest) = rest.split_first_chunk()?;
    let groups = u32::from_le_bytes(*rest.first_chunk()?);
    let pid = u32::from_le_bytes(*pid);
    out.push_str(&format!(", nl_pid={pid}, nl_groups={groups:#08x}"));
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_addresses_of_their_own() {
        let text = |bytes: &[u8]| {
            let mut out = String::new();
            address(bytes, &mut out);
            out
        };
        let inet = [2, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(
            text(&inet),
            "{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr(\"127.0.0.1\")}"
        );
        assert_eq!(
            text(b"\x01\0/tmp/x\0rest"),
            "{sa_family=AF_UNIX, sun_path=\"/tmp/x\"}"
        );
        assert_eq!(text(b"\x01\0\0abs"), "{sa_family=AF_UNIX, sun_path=@\"abs\"}");
        assert_eq!(text(b"\x01\0"), "{sa_family=AF_UNIX}");
        assert_eq!(text(b"\x02\0\0"), "{sa_family=AF_INET, sa_data=\"\\0\"}");
        let netlink = [16, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(
            text(&netlink),
            "{sa_family=AF_NETLINK, nl_pid=5, nl_groups=0x000001}"
        );
    }
}
