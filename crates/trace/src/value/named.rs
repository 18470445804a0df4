//! Numbers that stand for names, read from their bytes: symbols, addresses, users, errors, signals. Their text is made in `print`.

use super::{ValueContext, unsigned};
use crate::layout::{DateClock, Named};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A number that stands for a name.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the variants of Named say it")]
pub enum NamedValue<'a> {
    KernelSymbol(u64),
    UserSymbol {
        address: u64,
        pid: u32,
        time_ns: u64,
    },
    Inet(IpAddr),
    /// An address of a family that is neither IPv4 nor IPv6.
    OtherFamily(u32),
    Mac([u8; 6]),
    Date {
        ns: u64,
        clock: DateClock,
        format: &'a str,
    },
    Cgroup {
        id: u64,
        hierarchies: &'a str,
    },
    User(u32),
    Error(i32),
    Signal(i32),
    SystemCall(i32),
}

/// Address families, as the kernel numbers them.
const INET: u32 = 2;
const INET6: u32 = 10;

impl<'a> NamedValue<'a> {
    pub(super) fn read(named: &'a Named, bytes: &'a [u8], beside: ValueContext<'a>) -> Option<Self> {
        let word = || unsigned(bytes, 8);
        let short = || unsigned(bytes, 4).map(|number| number as u32);
        Some(match named {
            Named::KernelSymbol => Self::KernelSymbol(word()?),
            Named::UserSymbol => Self::UserSymbol {
                address: word()?,
                pid: unsigned(bytes.get(8..)?, 4)? as u32,
                time_ns: beside.time_ns,
            },
            Named::Inet => {
                let address: &[u8; 16] = bytes.get(4..)?.first_chunk()?;
                match short()? {
                    INET => {
                        let [a, b, c, d, ..] = *address;
                        Self::Inet(Ipv4Addr::new(a, b, c, d).into())
                    }
                    INET6 => Self::Inet(Ipv6Addr::from(*address).into()),
                    other => Self::OtherFamily(other),
                }
            }
            Named::Mac => Self::Mac(*bytes.first_chunk()?),
            Named::Date { clock, format } => Self::Date {
                ns: word()?,
                clock: *clock,
                format,
            },
            Named::Cgroup { hierarchies } => Self::Cgroup {
                id: word()?,
                hierarchies,
            },
            Named::User => Self::User(short()?),
            Named::Error => Self::Error(short()?.cast_signed()),
            Named::Signal => Self::Signal(short()?.cast_signed()),
            Named::SystemCall => Self::SystemCall(short()?.cast_signed()),
        })
    }

    /// Value as a plain number, where it is one.
    pub fn number(&self) -> Option<i64> {
        match *self {
            Self::KernelSymbol(address) | Self::UserSymbol { address, .. } => Some(address.cast_signed()),
            Self::Date { ns, .. } => Some(ns.cast_signed()),
            Self::Cgroup { id, .. } => Some(id.cast_signed()),
            Self::User(number) => Some(number.into()),
            Self::Error(number) | Self::Signal(number) | Self::SystemCall(number) => Some(number.into()),
            Self::Inet(_) | Self::OtherFamily(_) | Self::Mac(_) => None,
        }
    }
}
