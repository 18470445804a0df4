//! Names of values: enumerators, flags, system calls.

use super::piece::hexadecimal;
use super::raw;
use super::text::{Style, text};
use crate::date;
use crate::symbol::Symbols;
use crate::syscall::{error_text, signal_text, system_call};
use crate::user_symbol::code_address;
use crate::value::NamedValue;
use std::io::Write;

/// An address without a name; bpftrace writes none as a plain 0.
fn nameless(address: u64, out: &mut Vec<u8>) {
    match address {
        0 => out.push(b'0'),
        _ => hexadecimal(address, out),
    }
}

/// Appends what a number stands for; where that is not known, the number.
pub(super) fn named(named: NamedValue<'_>, style: Style<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = match named {
        NamedValue::KernelSymbol(address) => {
            return match symbols.resolve(address) {
                Some(it) => text(it.name.as_bytes(), style, out),
                None => nameless(address, out),
            };
        }
        NamedValue::UserSymbol {
            address,
            pid,
            time_ns,
        } => {
            let location = symbols.user().locate(pid, time_ns, code_address(address, true));
            return match location.and_then(|location| location.code()) {
                Some(code) => text(code.function.as_bytes(), style, out),
                None => nameless(address, out),
            };
        }
        NamedValue::Inet(address) => write!(out, "{address}"),
        NamedValue::OtherFamily(family) => write!(out, "(address family {family})"),
        NamedValue::Mac([a, b, c, d, e, f]) => {
            write!(out, "{a:02X}:{b:02X}:{c:02X}:{d:02X}:{e:02X}:{f:02X}")
        }
        NamedValue::Date { ns, clock, format } => {
            let offset = symbols.names().clock_offset(clock);
            return text(&raw::to_bytes(&date::written(format, ns, offset)), style, out);
        }
        NamedValue::Cgroup { id, hierarchies } => {
            let paths = symbols.names().control_group(id, hierarchies);
            match paths {
                Some(paths) => return text(paths.as_bytes(), style, out),
                None => write!(out, "{id}"),
            }
        }
        NamedValue::User(number) => match symbols.names().user(number) {
            Some(name) => return text(name.as_bytes(), style, out),
            None => write!(out, "{number}"),
        },
        NamedValue::Error(number) => write!(out, "{}", error_text(number)),
        NamedValue::Signal(number) => write!(out, "{}", signal_text(number)),
        NamedValue::SystemCall(number) => write!(out, "{}", system_call(number)),
    };
}
