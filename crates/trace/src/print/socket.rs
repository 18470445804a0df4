//! Addresses of sockets as the kernel's events have them: arrays of bytes, which its own lines show as `127.0.0.1`.

use crate::layout::FieldType;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Names of such fields in `sock:*`, `tcp:*`, `udp:*` and others.
const NAMES: &[&str] = &["saddr", "daddr", "saddr_v6", "daddr_v6"];
/// Address families, as the kernel numbers them.
const INET: u16 = 2;
const INET6: u16 = 10;

/// Whether a field is one: 4 bytes of IPv4, 16 of IPv6, or a `struct sockaddr_in6` with family and port.
pub(crate) fn is_address(name: &str, ty: &FieldType) -> bool {
    let FieldType::Array { element, count } = ty else {
        return false;
    };
    let is_bytes = matches!(**element, FieldType::Integer { size: 1, .. });
    is_bytes && matches!(count, 4 | 16 | 28) && NAMES.contains(&name)
}

/// Text of an address; none of a family that is neither.
pub(crate) fn address(bytes: &[u8]) -> Option<String> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).to_string()),
        16 => Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?).to_string()),
        _ => {
            let (family, rest) = bytes.split_first_chunk()?;
            let (port, rest) = rest.split_first_chunk()?;
            let ip = match u16::from_le_bytes(*family) {
                INET => Ipv4Addr::from(*rest.first_chunk::<4>()?).into(),
                // Behind the flow.
                INET6 => Ipv6Addr::from(*rest.get(4..)?.first_chunk::<16>()?).into(),
                _ => return None,
            };
            Some(SocketAddr::new(ip, u16::from_be_bytes(*port)).to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_as_in_the_kernels_lines() {
        assert_eq!(address(&[127, 0, 0, 1]).unwrap(), "127.0.0.1");
        let mut mapped = [0; 16];
        mapped[10..].copy_from_slice(&[255, 255, 10, 0, 0, 7]);
        assert_eq!(address(&mapped).unwrap(), "::ffff:10.0.0.7");
        let mut socket = [0; 28];
        socket[..8].copy_from_slice(&[2, 0, 0, 9, 127, 0, 0, 1]);
        assert_eq!(address(&socket).unwrap(), "127.0.0.1:9");
        socket[0] = 10;
        socket[8..24].copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
        assert_eq!(address(&socket).unwrap(), "[::1]:9");
        socket[0] = 1;
        assert_eq!(address(&socket), None);
        let bytes = |count| FieldType::Array {
            element: Box::new(FieldType::Integer {
                size: 1,
                signed: false,
                base: crate::layout::Base::Decimal,
            }),
            count,
        };
        assert!(is_address("saddr", &bytes(4)) && !is_address("saddr", &bytes(6)));
        assert!(!is_address("digest", &bytes(16)));
    }
}
