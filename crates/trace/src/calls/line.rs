//! A call as a line, in strace's and perf trace's layout.

use super::buffer::{buffer, path};
use super::call::{Argument, Call, End};
use super::descriptors::Descriptors;
use super::memory;
use super::pointer::pointer;
use crate::layout::{Base, FieldType};
use crate::print::shown;
use crate::syscall::{ArgumentKind, Meaning, protocol};

/// Levels of options that have names.
const SOL_SOCKET: i64 = 1;
const IPPROTO_IP: i64 = 0;
const IPPROTO_TCP: i64 = 6;
const IPPROTO_IPV6: i64 = 41;
/// Commands of fcntl(2) that return flags.
const F_GETFD: i64 = 1;
const F_GETFL: i64 = 3;
const F_GET_SEALS: i64 = 1034;
/// Columns of a thread's name and number.
const THREAD: usize = 22;

/// `COMM/TID call(name: value, …) = result <duration>`: a line without the time before it.
pub fn line(call: &Call, comm: Option<&str>, files: &Descriptors) -> String {
    let mut out = thread(call.tid, comm);
    out.push(' ');
    write(call, files, &mut out);
    if let Some(duration) = call.duration() {
        out.push_str(&format!(
            " <{}.{:06}>",
            duration / 1_000_000_000,
            duration % 1_000_000_000 / 1000
        ));
    }
    out
}

/// `COMM/TID`, as wide as its column.
pub(super) fn thread(tid: u32, comm: Option<&str>) -> String {
    let thread = format!("{}/{tid}", shown(comm.unwrap_or("<...>")));
    format!("{thread:<THREAD$}")
}

/// `call(name: value, …) = result`.
pub fn call_text(call: &Call, files: &Descriptors) -> String {
    let mut out = String::new();
    write(call, files, &mut out);
    out
}

fn write(call: &Call, files: &Descriptors, out: &mut String) {
    let name = call.signature.shown();
    match (call.begun_ns, call.end) {
        (Some(_), _) | (None, End::InProgress) => out.push_str(&format!("{name}(")),
        // Its entry was not seen.
        (None, _) => out.push_str(&format!("<... {name} resumed>")),
    }
    arguments(call, files, out);
    match call.end {
        End::Unfinished => out.push_str(" <unfinished ...>"),
        End::InProgress => out.push_str(" <unfinished ...> (in progress since before the trace)"),
        End::Unseen => out.push_str(") = ? <return not recorded>"),
        End::Never => out.push_str(") = ?"),
        End::Returned(value) => {
            out.push_str(") = ");
            result(call, value, files, out);
        }
    }
}

fn arguments(call: &Call, files: &Descriptors, out: &mut String) {
    if call.signature.is_name_only {
        out.push('…');
    }
    for (index, argument) in call.arguments().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        out.push_str(&argument.parameter.name);
        out.push_str(": ");
        out.push_str(&text(call, argument, files));
    }
}

/// An argument as text.
pub(super) fn text(call: &Call, argument: Argument<'_>, files: &Descriptors) -> String {
    let value = argument.value;
    let mut out = String::new();
    match argument.parameter.kind {
        Some(ArgumentKind::Descriptor) => descriptor(value, files.name(call.pid, value), &mut out),
        Some(ArgumentKind::Named(Meaning::Directory)) if value >= 0 => {
            descriptor(value, files.name(call.pid, value), &mut out);
        }
        Some(ArgumentKind::Named(meaning)) => meaning.write(bits(meaning, argument), &mut out),
        Some(ArgumentKind::Mode | ArgumentKind::ModeWith(_)) => match value {
            0 => out.push('0'),
            _ => out.push_str(&format!("0{value:o}")),
        },
        Some(ArgumentKind::Address) => pointer(value, &mut out),
        Some(ArgumentKind::Bits) => hexadecimal(value, &mut out),
        Some(ArgumentKind::Text) => path(call, argument, &mut out),
        Some(ArgumentKind::OutPath | ArgumentKind::OutBuffer | ArgumentKind::InBuffer(_)) => {
            buffer(call, argument, &mut out)
        }
        Some(ArgumentKind::Protocol) => match call.argument(0).and_then(protocol) {
            Some(meaning) => meaning.write(value, &mut out),
            None => number(argument, &mut out),
        },
        Some(ArgumentKind::Option) => match argument.place.checked_sub(1).and_then(|at| call.argument(at)) {
            Some(SOL_SOCKET) => Meaning::SocketOption.write(value, &mut out),
            Some(IPPROTO_TCP) => Meaning::TcpOption.write(value, &mut out),
            Some(IPPROTO_IP) => Meaning::IpOption.write(value, &mut out),
            Some(IPPROTO_IPV6) => Meaning::Ipv6Option.write(value, &mut out),
            _ => number(argument, &mut out),
        },
        Some(ArgumentKind::Pointed(what)) => memory::pointed(call, argument, what, &mut out),
        Some(ArgumentKind::ProcessControl) => memory::process_control(call, argument, &mut out),
        Some(ArgumentKind::Remaining(of)) => memory::remaining(call, argument, of, &mut out),
        Some(ArgumentKind::Plain) | None => number(argument, &mut out),
    }
    out
}

/// Bits of a signed number that is a set of bits.
fn bits(meaning: Meaning, argument: Argument<'_>) -> i64 {
    match argument.parameter.ty {
        FieldType::Integer {
            size, signed: true, ..
        } if meaning.is_set() && size < 8 => argument.value & ((1 << (8 * size)) - 1),
        _ => argument.value,
    }
}

/// `3</etc/passwd>`; a number alone where the file is not known.
fn descriptor(number: i64, file: Option<&str>, out: &mut String) {
    out.push_str(&number.to_string());
    if let Some(name) = file {
        out.push('<');
        out.push_str(&shown(name));
        out.push('>');
    }
}

fn hexadecimal(value: i64, out: &mut String) {
    match value {
        0 => out.push('0'),
        _ => out.push_str(&format!("{value:#x}")),
    }
}

fn number(argument: Argument<'_>, out: &mut String) {
    let value = argument.value;
    let name = argument.parameter.name.as_str();
    match &argument.parameter.ty {
        FieldType::Integer {
            base: Base::Octal, ..
        } if value != 0 => out.push_str(&format!("0{value:o}")),
        FieldType::Integer { signed: true, .. } => out.push_str(&value.to_string()),
        // `unsigned long` is any word; a length is counted.
        FieldType::Integer {
            size: 8,
            base: Base::Hexadecimal,
            ..
        } if !is_count(name) => hexadecimal(value, out),
        FieldType::Integer { .. } => out.push_str(&value.cast_unsigned().to_string()),
        _ => pointer(value, out),
    }
}

fn is_count(name: &str) -> bool {
    ["len", "size", "count", "nr", "num"]
        .iter()
        .any(|word| name.contains(word))
}

fn result(call: &Call, value: i64, files: &Descriptors, out: &mut String) {
    if let Some(error) = call.error() {
        out.push_str(if error.interrupted { "?" } else { "-1" });
        match error.name {
            Some(name) => out.push_str(&format!(" {name}")),
            None => out.push_str(&format!(" error {}", error.number)),
        }
        return out.push_str(&format!(" ({})", error.text));
    }
    if call.returns_address() {
        return out.push_str(&format!("{value:#x}"));
    }
    if Descriptors::is_made_by(call) {
        return descriptor(value, files.made(call).as_deref(), out);
    }
    match call.signature.own_name() {
        "umask" if value != 0 => out.push_str(&format!("0{value:o}")),
        "fcntl" => flags_of_file(call, value, out),
        "rt_sigtimedwait" => {
            out.push_str(&format!("{value} ("));
            Meaning::Signal.write(value, out);
            out.push(')');
        }
        _ => out.push_str(&value.to_string()),
    }
    memory::ready(call, out);
    if memory::timed_out(call) {
        out.push_str(" (Timeout)");
    }
}

/// `0x8002 (flags O_RDWR|O_LARGEFILE)`, of the commands of fcntl(2) that ask for flags.
fn flags_of_file(call: &Call, value: i64, out: &mut String) {
    let meaning = match call.argument(1) {
        Some(F_GETFD) if value != 0 => Meaning::DescriptorFlags,
        // No flag is a way to open a file, too.
        Some(F_GETFL) => Meaning::Open,
        Some(F_GET_SEALS) if value != 0 => Meaning::Seals,
        _ => return out.push_str(&value.to_string()),
    };
    hexadecimal(value, out);
    out.push_str(if meaning == Meaning::Seals {
        " (seals "
    } else {
        " (flags "
    });
    meaning.write(value, out);
    out.push(')');
}
