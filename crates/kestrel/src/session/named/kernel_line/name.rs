//! Names in a line: which the kernel takes for groups, events and arguments, and which it gives where there is none.

use super::word::{Parsed, Wrong};

/// Bytes of the longest name of a group or an event, with its end (`MAX_EVENT_NAME_LEN`).
const LONGEST_EVENT: usize = 64;
/// Bytes of the longest name of an argument (`MAX_ARG_NAME_LEN`).
const LONGEST_ARGUMENT: usize = 32;

/// Names of arguments that the kernel's own fields have.
const RESERVED: &[&str] = &[
    "common_type",
    "common_flags",
    "common_preempt_count",
    "common_pid",
    "common_tgid",
    "__probe_ip",
    "__probe_ret_ip",
    "__probe_func",
];

/// Whether it is a name as in C.
pub(super) fn is_plain(name: &str) -> bool {
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    first && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The name of an event behind the colon: its group, if one is named, and its own, if one is.
pub(super) fn event(text: &str, at: usize) -> Parsed<(Option<&str>, Option<&str>)> {
    let letters = "letters, digits and `_`, no digit first";
    let (group, name, at) = match text.find('/').or_else(|| text.find('.')) {
        Some(0) => return Err(Wrong::at(at, "the group has no name")),
        Some(slash) => {
            let group = &text[..slash];
            if group.len() >= LONGEST_EVENT {
                return Err(Wrong::at(at, "the group's name is longer than 63 letters"));
            }
            // Groups may have hyphens (`is_good_system_name`).
            if !is_plain(&group.replace('-', "_")) {
                let why = format!("`{group}` cannot be a group: {letters}, or hyphens");
                return Err(Wrong::at(at, why));
            }
            (Some(group), &text[slash + 1..], at + slash + 1)
        }
        None => (None, text, at),
    };
    if name.is_empty() {
        return match group {
            Some(_) => Ok((group, None)),
            None => Err(Wrong::at(at, "there is no name behind the colon")),
        };
    }
    if name.len() >= LONGEST_EVENT {
        return Err(Wrong::at(at, "the event's name is longer than 63 letters"));
    }
    if !is_plain(name) {
        return Err(Wrong::at(at, format!("`{name}` cannot be an event: {letters}")));
    }
    Ok((group, Some(name)))
}

/// The name of an event that was given none.
pub(super) fn of_place(symbol: &str, offset: u64, address: Option<u64>, at_return: bool) -> String {
    let letter = if at_return { 'r' } else { 'p' };
    let name = match address {
        Some(address) => format!("{letter}_{address:#x}"),
        None => format!("{letter}_{symbol}_{offset}"),
    };
    let name: String = name.chars().take(LONGEST_EVENT - 1).collect();
    name.replace([':', '.'], "_")
}

/// The name of an argument that is given one.
pub(super) fn argument(name: &str, at: usize) -> Parsed<()> {
    if name.is_empty() {
        return Err(Wrong::at(at, "there is no name before the `=`"));
    }
    if name.len() > LONGEST_ARGUMENT {
        return Err(Wrong::at(at, "the argument's name is longer than 32 letters"));
    }
    unused(name, at)
}

/// A name that no field of the kernel's own has.
pub(super) fn unused(name: &str, at: usize) -> Parsed<()> {
    if !is_plain(name) {
        let why = format!("`{name}` cannot name an argument: letters, digits and `_`, no digit first");
        return Err(Wrong::at(at, why));
    }
    if RESERVED.contains(&name) {
        return Err(Wrong::at(at, format!("`{name}` is a field that every event has")));
    }
    Ok(())
}
