//! The kernel's own view of kprobes: its list of all that are registered, and its global switch (debugfs, `kprobes/list` and `kprobes/enabled`).

use crate::error::{Error, Result};
use crate::host::Host;

const LIST: &str = "kprobes/list";
const ENABLED: &str = "kprobes/enabled";

/// A probe as the kernel lists it (`report_probe` in kernel/kprobes.c).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelProbe {
    /// Where it sits; 0 if addresses are hidden.
    pub address: u64,
    /// `k` for a probe, `r` for a return probe, `j` for a jprobe (kernels before 4.15).
    pub letter: char,
    /// The symbol, or what the kernel calls an address without one.
    pub symbol: String,
    /// Bytes into it.
    pub offset: u64,
    /// The symbol's module.
    pub module: Option<String>,
    /// Its module was unloaded.
    pub gone: bool,
    /// It was disabled.
    pub disabled: bool,
    /// It jumps instead of trapping.
    pub optimized: bool,
    /// It uses a function's ftrace site.
    pub ftrace: bool,
}

impl KernelProbe {
    /// Reads a line of the list.
    pub fn parse(line: &str) -> Option<Self> {
        let (place, flags) = match line.find("[GONE]").or_else(|| {
            ["[DISABLED]", "[OPTIMIZED]", "[FTRACE]"]
                .iter()
                .filter_map(|flag| line.find(flag))
                .min()
        }) {
            Some(at) => line.split_at(at),
            None => (line, ""),
        };
        let mut words = place.split_ascii_whitespace();
        let address = words.next()?;
        let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).ok()?;
        let letter = words.next()?.chars().next()?;
        let at = words.next()?;
        let (symbol, offset) = match at.rsplit_once("+0x") {
            // `%pS` adds the function's size.
            Some((symbol, offset)) => {
                let offset = offset.split('/').next().unwrap_or(offset);
                (symbol, u64::from_str_radix(offset, 16).ok()?)
            }
            None => (at, 0),
        };
        let module = words.next().map(|word| word.trim_matches(['[', ']']).to_owned());
        Some(Self {
            address,
            letter,
            symbol: symbol.to_owned(),
            offset,
            module,
            gone: flags.contains("[GONE]"),
            disabled: flags.contains("[DISABLED]"),
            optimized: flags.contains("[OPTIMIZED]"),
            ftrace: flags.contains("[FTRACE]"),
        })
    }
}

/// All kprobes of the kernel, whoever registered them. Mounts debugfs where that is missing.
///
/// # Errors
/// [`Error::Unavailable`] or [`Error::System`] without debugfs, or on a kernel without kprobes.
pub fn registered(host: &Host) -> Result<Vec<KernelProbe>> {
    let text = read(host, LIST)?;
    Ok(text.lines().filter_map(KernelProbe::parse).collect())
}

/// Whether the kernel's kprobes are armed: its global switch.
///
/// # Errors
/// As [`registered`].
pub fn enabled(host: &Host) -> Result<bool> {
    Ok(read(host, ENABLED)?.trim() == "1")
}

/// Sets the kernel's global switch: off, no kprobe of anybody does anything.
///
/// # Errors
/// As [`registered`].
pub fn set_enabled(host: &Host, on: bool) -> Result<()> {
    let path = host.mount_debugfs()?.join(ENABLED);
    std::fs::write(&path, if on { "1" } else { "0" })
        .map_err(|error| Error::system("write", path.display().to_string(), error))
}

fn read(host: &Host, file: &str) -> Result<String> {
    let path = host.mount_debugfs()?.join(file);
    std::fs::read_to_string(&path).map_err(|error| Error::system("read", path.display().to_string(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_list() {
        let probe = KernelProbe::parse("ffffffff8c2f4a44  k  vfs_read+0x4    [DISABLED][FTRACE]").unwrap();
        assert_eq!(
            (probe.address, probe.letter, probe.symbol.as_str(), probe.offset),
            (0xffff_ffff_8c2f_4a44, 'k', "vfs_read", 4)
        );
        assert!(probe.disabled && probe.ftrace && !probe.gone && !probe.optimized);
        assert_eq!(probe.module, None);
        let probe = KernelProbe::parse("ffffffffc0123000  r  bond_open+0x0  [bonding] [OPTIMIZED]").unwrap();
        assert_eq!((probe.letter, probe.module.as_deref()), ('r', Some("bonding")));
        let probe = KernelProbe::parse("ffffffffc0123000  r  bond_open+0x0  bonding ").unwrap();
        assert_eq!(probe.module.as_deref(), Some("bonding"));
        let gone = KernelProbe::parse("ffffffffc0123000  k  0xffffffffc0123000 [GONE]").unwrap();
        assert!(gone.gone);
        assert_eq!(gone.symbol, "0xffffffffc0123000");
        for line in ["", "x", "ffff", "ffff k"] {
            assert_eq!(KernelProbe::parse(line), None, "{line}");
        }
    }

    #[test]
    fn the_switch_is_read_and_written() {
        let tree = tempfile::tempdir().unwrap();
        let host = Host::new(tree.path());
        assert!(registered(&host).is_err(), "a stand-in tree is never mounted on");
        let place = tree.path().join("sys/kernel/debug/kprobes");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("enabled"), "1\n").unwrap();
        assert!(enabled(&host).unwrap());
        set_enabled(&host, false).unwrap();
        assert!(!enabled(&host).unwrap());
        std::fs::write(place.join("list"), "1  k  f+0x0    \n").unwrap();
        assert_eq!(registered(&host).unwrap().len(), 1);
    }
}
