//! Numbers of system calls as text: by the names of their family.

use super::family::{Unnamed, family};
use super::meaning::Meaning;

impl Meaning {
    /// Whether the number is a set of bits, not one thing.
    pub fn is_set(self) -> bool {
        family(self).is_some_and(|family| family.unnamed == Unnamed::Hexadecimal)
    }

    /// Appends the number by its names.
    pub fn write(self, value: i64, out: &mut String) {
        match (self, value) {
            (Meaning::FileMode | Meaning::IpcGet, _) => octal_rest(self, value, out),
            (Meaning::Ioctl, _)
                if !family(self).is_some_and(|it| it.rows.iter().any(|row| row.value == value)) =>
            {
                request(value, out);
            }
            // The kernel's dev_t, `MAJOR` and `MINOR` of include/linux/kdev_t.h: not the number that stat(2) has.
            (Meaning::KernelDevice, _) => {
                let device = value as u32;
                out.push_str(&format!("{},{}", device >> 20, device & 0xf_ffff));
            }
            // SIGRTMIN is 32 for the kernel; user space uses the first two itself.
            (Meaning::Signal, 32) => out.push_str("SIGRTMIN"),
            (Meaning::Signal, 33..=64) => out.push_str(&format!("SIGRT_{}", value - 32)),
            _ => match family(self) {
                Some(family) => family.write(value, out),
                None => out.push_str(&value.to_string()),
            },
        }
    }
}

/// Named bits, and permissions as octal digits behind them: `S_IFIFO|0644`.
fn octal_rest(meaning: Meaning, value: i64, out: &mut String) {
    let named = value & !0o7777;
    let (named, rest) = match meaning {
        Meaning::IpcGet => (value & !0o777, value & 0o777),
        _ => (named, value & 0o7777),
    };
    if named != 0
        && let Some(family) = family(meaning)
    {
        family.write(named, out);
        out.push('|');
    }
    match rest {
        0 => out.push('0'),
        rest => out.push_str(&format!("0{rest:o}")),
    }
}

/// A request of a device that has no name here, by its parts: `_IOC(_IOC_READ, 0x12, 0x34, 0x8)`.
fn request(value: i64, out: &mut String) {
    let direction = match value >> 30 & 3 {
        0 => "_IOC_NONE",
        1 => "_IOC_WRITE",
        2 => "_IOC_READ",
        _ => "_IOC_READ|_IOC_WRITE",
    };
    let (kind, number, size) = (value >> 8 & 0xff, value & 0xff, value >> 16 & 0x3fff);
    out.push_str(&format!("_IOC({direction}, {kind:#x}, {number:#x}, {size:#x})"));
}
