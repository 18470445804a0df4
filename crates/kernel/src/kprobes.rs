//! Kprobes that the kernel has now, of any process, as debugfs lists them (`kprobes/list`), and its global switch (`kprobes/enabled`).

use crate::error::{Error, Result};
use crate::host::Host;

/// A row of the list: a kprobe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Where it sits; 0 where the kernel hides addresses.
    pub address: u64,
    /// `k` for a kprobe, `r` for a kretprobe.
    pub letter: char,
    /// The symbol it lies in.
    pub symbol: String,
    /// Bytes from the symbol.
    pub offset: u64,
    /// The symbol's module.
    pub module: Option<String>,
    /// The module was unloaded.
    pub gone: bool,
    /// Whether the probe is registered and not armed.
    pub disabled: bool,
    /// Whether the probe is a jump instead of a breakpoint.
    pub optimized: bool,
    /// Whether the probe is called by ftrace.
    pub ftrace: bool,
}

const LIST: &str = "/sys/kernel/debug/kprobes/list";
const ENABLED: &str = "/sys/kernel/debug/kprobes/enabled";

/// Reads the list; debugfs is mounted if it was not.
///
/// # Errors
/// [`crate::Error::System`] where there is no such list, or it may not be read.
pub fn list(host: &Host) -> Result<Vec<Listed>> {
    host.mount_debugfs()?;
    Ok(host.read(LIST)?.lines().filter_map(row).collect())
}

/// Whether the kernel's kprobes are armed at all: its global switch; debugfs is mounted if it was not.
///
/// # Errors
/// As [`list`].
pub fn enabled(host: &Host) -> Result<bool> {
    host.mount_debugfs()?;
    Ok(host.read(ENABLED)?.trim() == "1")
}

/// Sets the kernel's global switch: while it is off, no kprobe of anybody does anything.
///
/// # Errors
/// As [`list`].
pub fn set_enabled(host: &Host, on: bool) -> Result<()> {
    host.mount_debugfs()?;
    let path = host.path(ENABLED);
    std::fs::write(&path, if on { "1" } else { "0" }).map_err(|error| Error::file("write", &path, error))
}

/// `ffffffff81000000  k  vfs_read+0x4  [module] [DISABLED][FTRACE]`
fn row(line: &str) -> Option<Listed> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()?;
    let letter = words.next()?.chars().next()?;
    let place = words.next()?;
    let (symbol, offset) = place.rsplit_once('+').unwrap_or((place, "0x0"));
    let offset = u64::from_str_radix(offset.trim_start_matches("0x"), 16).ok()?;
    let rest: Vec<&str> = words.collect();
    // States stand without a space between them; a module's name is in no brackets.
    let has = |state: &str| rest.iter().any(|word| word.contains(state));
    let module = rest.iter().find(|word| !word.starts_with('['));
    Some(Listed {
        address,
        letter,
        symbol: symbol.to_owned(),
        offset,
        module: module.map(|&module| module.to_owned()),
        gone: has("[GONE]"),
        disabled: has("[DISABLED]"),
        optimized: has("[OPTIMIZED]"),
        ftrace: has("[FTRACE]"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switch_is_read_and_written() {
        let tree = tempfile::tempdir().unwrap();
        let host = Host::new(tree.path());
        assert!(enabled(&host).is_err(), "there is none");
        let place = tree.path().join("sys/kernel/debug/kprobes");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("enabled"), "1\n").unwrap();
        assert!(enabled(&host).unwrap());
        set_enabled(&host, false).unwrap();
        assert!(!enabled(&host).unwrap());
    }

    #[test]
    fn rows_of_the_list() {
        let plain = row("ffffffff81a0b2c4  k  vfs_read+0x4    [FTRACE]").unwrap();
        assert_eq!(
            (plain.letter, plain.symbol.as_str(), plain.offset),
            ('k', "vfs_read", 4)
        );
        assert!(plain.ftrace && !plain.gone && !plain.disabled && plain.module.is_none());
        let module = row("ffffffffc0a0b2c4  r  ext4_sync_fs+0x0  ext4 [DISABLED][OPTIMIZED]").unwrap();
        assert_eq!(module.module.as_deref(), Some("ext4"));
        assert!(module.disabled && module.optimized);
        let gone = row("(null)  k  x+0x0 [GONE]");
        assert!(gone.is_none(), "no address, no row");
        assert!(row("").is_none());
    }
}
