//! Addresses as strace writes them.

/// `NULL`, or the address.
pub(super) fn pointer(value: i64, out: &mut String) {
    match value {
        0 => out.push_str("NULL"),
        _ => out.push_str(&format!("{value:#x}")),
    }
}
