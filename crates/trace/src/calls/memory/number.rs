//! Numbers in memory as text.

use crate::syscall::Meaning;
use crate::syscall::shape::Show;

/// Name of the highest limit.
const UNLIMITED: &str = "RLIM64_INFINITY";
/// No limit, in the limits of 32-bit programs.
const UNLIMITED_32: &str = "RLIM_INFINITY";

/// A number of 1 to 8 bytes, or a text.
pub(super) fn number(bytes: &[u8], show: Show, out: &mut String) {
    let mut word = [0; 8];
    let size = bytes.len().min(8);
    word[..size].copy_from_slice(&bytes[..size]);
    let value = u64::from_le_bytes(word);
    let unused = 64 - 8 * size.max(1) as u32;
    let signed = (value << unused).cast_signed() >> unused;
    match show {
        Show::Signed | Show::FileSize => out.push_str(&signed.to_string()),
        Show::Unsigned => out.push_str(&value.to_string()),
        Show::Bits | Show::Inside(_) => match value {
            0 => out.push('0'),
            _ => out.push_str(&format!("{value:#x}")),
        },
        Show::Named(meaning) if meaning.is_set() => meaning.write(value.cast_signed(), out),
        Show::Named(meaning) => meaning.write(signed, out),
        Show::Pointer | Show::AnyPointer => address(value, out),
        Show::AnyMode => Meaning::FileMode.write(value.cast_signed(), out),
        Show::Text => super::super::quoted::quoted(until_nul(bytes), false, out),
        Show::Signals => signals(value, out),
        Show::Limit if size == 4 && value == u64::from(u32::MAX) => out.push_str(UNLIMITED_32),
        Show::Limit => limit(value, out),
        Show::EventData => out.push_str(&format!("{{u32={}, u64={value}}}", value as u32)),
        Show::SignalData => {
            out.push_str(&format!(
                "{{sival_int={}, sival_ptr=",
                (value as u32).cast_signed()
            ));
            address(value, out);
            out.push('}');
        }
        Show::Words => {
            // Three of either interface's words.
            let words = bytes.chunks_exact((bytes.len() / 3).max(1));
            let words = words.map(|word| {
                word.iter()
                    .rev()
                    .fold(0_u64, |all, byte| all << 8 | u64::from(*byte))
            });
            let words: Vec<String> = words.map(|word| word.to_string()).collect();
            out.push_str(&format!("[{}]", words.join(", ")));
        }
        Show::Device => out.push_str(&device(value)),
        Show::Handler => match value {
            0 => out.push_str("SIG_DFL"),
            1 => out.push_str("SIG_IGN"),
            _ => address(value, out),
        },
    }
}

fn address(value: u64, out: &mut String) {
    match value {
        0 => out.push_str("NULL"),
        _ => out.push_str(&format!("{value:#x}")),
    }
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

/// Major and minor number, as the kernel packs them for user space (`new_encode_dev` in include/linux/kdev_t.h).
fn device(value: u64) -> String {
    let major = value >> 8 & 0xfff;
    let minor = value & 0xff | value >> 12 & 0xfff00;
    format!("makedev({major:#x}, {minor:#x})")
}

fn limit(value: u64, out: &mut String) {
    match value {
        u64::MAX => out.push_str(UNLIMITED),
        _ if value > 1024 && value.is_multiple_of(1024) => out.push_str(&format!("{}*1024", value / 1024)),
        _ => out.push_str(&value.to_string()),
    }
}

/// A signal's name.
pub(super) fn signal(number: i64, out: &mut String) {
    Meaning::Signal.write(number, out);
}

/// `[USR1 RT_4]`; where most are in it, those that are not: `~[TERM]`.
fn signals(bits: u64, out: &mut String) {
    let most = bits.count_ones() > 32;
    let shown = if most { !bits } else { bits };
    out.push_str(if most { "~[" } else { "[" });
    let mut first = true;
    for number in (1..=64).filter(|number| shown >> (number - 1) & 1 == 1) {
        if !first {
            out.push(' ');
        }
        first = false;
        let mut name = String::new();
        signal(number, &mut name);
        out.push_str(name.strip_prefix("SIG").unwrap_or(&name));
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: u64, show: Show) -> String {
        let mut out = String::new();
        number(&value.to_le_bytes(), show, &mut out);
        out
    }

    #[test]
    fn numbers_are_spelled_as_strace_does() {
        for (value, show, expected) in [
            (1 << 9 | 1 << 35, Show::Signals, "[USR1 RT_4]"),
            (!(1 << 14), Show::Signals, "~[TERM]"),
            (0, Show::Signals, "[]"),
            (8 << 20, Show::Limit, "8192*1024"),
            (20000, Show::Limit, "20000"),
            (u64::MAX, Show::Limit, "RLIM64_INFINITY"),
            (0x103, Show::Device, "makedev(0x1, 0x3)"),
            (7, Show::EventData, "{u32=7, u64=7}"),
            (1, Show::Handler, "SIG_IGN"),
            (0, Show::Pointer, "NULL"),
        ] {
            assert_eq!(text(value, show), expected);
        }
    }
}
