//! Macros that every script has, written in the language itself.

/// The files of the library: the name that messages show, and the text.
pub const TEXTS: &[(&str, &str)] = &[BASE, ("<library>", include_str!("kernel.bt"))];

/// The library of programs over recordings: what others find in the kernel's memory is answered by the recording.
pub const RECORDED_TEXTS: &[(&str, &str)] = &[BASE, ("<library>", include_str!("recorded.bt"))];

const BASE: (&str, &str) = ("<library>", include_str!("base.bt"));

/// Address from which programs over recordings find names of threads: 16 bytes for each number. No process and no kernel has memory there.
pub const THREAD_NAMES: u64 = 0x3ff0_0000_0000_0000;
/// Bytes between the addresses of two threads' names.
const THREAD_NAME: u64 = 16;

/// The thread whose name lies at an address.
pub fn thread_named_at(address: u64) -> Option<u32> {
    let offset = address.checked_sub(THREAD_NAMES)?;
    u32::try_from(offset / THREAD_NAME).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_threads_lie_where_the_library_looks_for_them() {
        let text = RECORDED_TEXTS[1].1;
        assert!(
            text.contains(&format!("* {THREAD_NAME} + {THREAD_NAMES:#x}")),
            "{text}"
        );
        assert_eq!(thread_named_at(THREAD_NAMES + 7 * THREAD_NAME), Some(7));
        for no_thread in [THREAD_NAMES - 1, THREAD_NAMES + (THREAD_NAME << 32)] {
            assert_eq!(thread_named_at(no_thread), None);
        }
    }
}
