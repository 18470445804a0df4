//! The machine and its kernel: release, names, configuration, lockdown, settings that decide about tracing.

use crate::error::{Error, Result};
use crate::host::Host;
use std::collections::HashMap;
use std::fmt;
use std::io::Read;

/// The kernel's release: `6.12.48+deb13-amd64`.
///
/// # Errors
/// [`Error::System`].
pub fn kernel_release(host: &Host) -> Result<String> {
    line(host, "/proc/sys/kernel/osrelease")
}

/// The kernel's whole version line.
///
/// # Errors
/// [`Error::System`].
pub fn kernel_version(host: &Host) -> Result<String> {
    line(host, "/proc/version")
}

/// The version that a kernel compares with what kprobe programs declare (`LINUX_VERSION_CODE`, before 5.0). Distributions write into the release
/// what they patched: Debian states the true number in the version line, Ubuntu in a file of its own.
///
/// # Errors
/// [`Error::System`], or [`Error::Format`] if no number is found.
pub fn version_code(host: &Host) -> Result<u32> {
    let signature = host.read("/proc/version_signature").unwrap_or_default();
    let line = kernel_version(host).unwrap_or_default();
    let release = kernel_release(host)?;
    let ubuntu = signature.split_ascii_whitespace().nth(2);
    let debian = line.split_once(" Debian ").map(|(_, rest)| rest);
    let candidates = [ubuntu, debian, Some(release.as_str())];
    candidates
        .into_iter()
        .flatten()
        .find_map(code)
        .ok_or_else(|| Error::Format {
            subject: "the kernel's release".to_owned(),
            why: format!("`{release}` does not begin with a version"),
        })
}

/// `6.1.90-1` as `6 << 16 | 1 << 8 | 90`; the last part holds at most 255.
fn code(text: &str) -> Option<u32> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next()?.parse::<u32>().ok();
    let (major, minor) = (number()?, number()?);
    let patch = number().unwrap_or(0);
    (major < 256 && minor < 256).then(|| major << 16 | minor << 8 | patch.min(255))
}

/// The machine's name.
///
/// # Errors
/// [`Error::System`].
pub fn hostname(host: &Host) -> Result<String> {
    line(host, "/proc/sys/kernel/hostname")
}

/// A UUID made anew at each boot.
///
/// # Errors
/// [`Error::System`].
pub fn boot_id(host: &Host) -> Result<String> {
    line(host, "/proc/sys/kernel/random/boot_id")
}

/// `kernel.perf_event_paranoid`: what perf events unprivileged users may open (the higher the less).
///
/// # Errors
/// [`Error::System`]: `ENOENT` on a kernel without perf events.
pub fn perf_event_paranoid(host: &Host) -> Result<i32> {
    host.read_number("/proc/sys/kernel/perf_event_paranoid")
}

/// Whether `kernel.bpf_stats_enabled` is on.
///
/// # Errors
/// [`Error::System`].
pub fn bpf_stats_enabled(host: &Host) -> Result<bool> {
    host.read_number::<u32>("/proc/sys/kernel/bpf_stats_enabled")
        .map(|value| value != 0)
}

/// Bytes of memory that the kernel manages.
///
/// # Errors
/// [`Error::System`] or [`Error::Format`].
pub fn total_memory(host: &Host) -> Result<u64> {
    memory(host, "MemTotal")
}

/// Bytes of memory that can be had without swapping, as the kernel estimates.
///
/// # Errors
/// [`Error::System`] or [`Error::Format`].
pub fn available_memory(host: &Host) -> Result<u64> {
    memory(host, "MemAvailable")
}

fn memory(host: &Host, key: &str) -> Result<u64> {
    let text = host.read("/proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes
        .map(|kilobytes| kilobytes * 1024)
        .ok_or_else(|| Error::Format {
            subject: host.path("/proc/meminfo").display().to_string(),
            why: format!("the line {key} is missing"),
        })
}

fn line(host: &Host, path: &str) -> Result<String> {
    host.read(path).map(|text| text.trim().to_owned())
}

/// One more than the number of the last page frame that the kernel keeps a `struct page` for.
///
/// # Errors
/// [`Error::System`] or [`Error::Format`].
pub fn page_frames(host: &Host) -> Result<u64> {
    let file = "/proc/zoneinfo";
    let text = host.read(file)?;
    last_frame(&text).ok_or_else(|| Error::Format {
        subject: host.path(file).display().to_string(),
        why: "no zone has a start and a length".to_owned(),
    })
}

fn last_frame(zones: &str) -> Option<u64> {
    let mut spanned = 0;
    let mut last = None;
    for line in zones.lines() {
        let mut words = line.split_whitespace();
        let number = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok());
        match words.next() {
            Some("Node") => spanned = 0,
            Some("spanned") => spanned = number(words.next())?,
            // Stands last in a zone's lines; an empty zone spans nothing.
            Some("start_pfn:") => last = last.max(Some(number(words.next())? + spanned)),
            _ => {}
        }
    }
    last
}

/// Lockdown level of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockdown {
    /// No lockdown, or the kernel knows none.
    Off,
    /// User space may not change the kernel: BPF may read, not write user memory.
    Integrity,
    /// Nor read its memory: no BPF tracing, no kprobes.
    Confidentiality,
}

impl fmt::Display for Lockdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "none",
            Self::Integrity => "integrity",
            Self::Confidentiality => "confidentiality",
        })
    }
}

/// The lockdown state: the word in brackets in securityfs. Where that is not mounted, nothing can be said: [`Lockdown::Off`].
pub fn lockdown(host: &Host) -> Lockdown {
    let text = host.read("/sys/kernel/security/lockdown").unwrap_or_default();
    if text.contains("[confidentiality]") {
        Lockdown::Confidentiality
    } else if text.contains("[integrity]") {
        Lockdown::Integrity
    } else {
        Lockdown::Off
    }
}

/// Build configuration of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelConfig {
    options: HashMap<String, String>,
}

impl KernelConfig {
    /// Takes the text of a configuration.
    pub fn parse(text: &str) -> Self {
        let option = |line: &str| {
            let (name, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
            Some((name.to_owned(), value.trim().trim_matches('"').to_owned()))
        };
        Self {
            options: text.lines().filter_map(option).collect(),
        }
    }

    /// The value of an option, given without `CONFIG_`: `y`, `m`, a number, a string. `None`: not set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// Whether an option is built in.
    pub fn is_set(&self, name: &str) -> bool {
        self.get(name) == Some("y")
    }
}

/// The kernel's configuration, from /proc/config.gz, /boot or the modules' directory. `None` if it is at none of these.
///
/// # Errors
/// [`Error::System`] if a file is there but cannot be read or unpacked.
pub fn config(host: &Host) -> Result<Option<KernelConfig>> {
    let packed = "/proc/config.gz";
    if host.path(packed).exists() {
        let mut text = String::new();
        flate2::read::GzDecoder::new(host.read_bytes(packed)?.as_slice())
            .read_to_string(&mut text)
            .map_err(|error| Error::system("unpack", packed, error))?;
        return Ok(Some(KernelConfig::parse(&text)));
    }
    let release = kernel_release(host)?;
    let places = [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
    ];
    match places.iter().find(|place| host.path(place).exists()) {
        Some(place) => host.read(place).map(|text| Some(KernelConfig::parse(&text))),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_distributions_write_them() {
        assert_eq!(code("4.19.67-2 (2019)"), Some(4 << 16 | 19 << 8 | 67));
        assert_eq!(code("4.9.337"), Some(4 << 16 | 9 << 8 | 255));
        assert_eq!(code("6.12-rc1"), Some(6 << 16 | 12 << 8));
        assert_eq!(code("#1 SMP"), None);
        let tree = tempfile::tempdir().unwrap();
        let file = |path: &str, text: &str| {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let host = Host::new(tree.path());
        file("proc/sys/kernel/osrelease", "4.19.0-6-amd64\n");
        assert_eq!(version_code(&host).unwrap(), 4 << 16 | 19 << 8);
        file(
            "proc/version",
            "Linux version 4.19.0-6-amd64 (x) (gcc) #1 SMP Debian 4.19.67-2 (2019-09-16)\n",
        );
        assert_eq!(version_code(&host).unwrap(), 4 << 16 | 19 << 8 | 67);
        file("proc/version_signature", "Ubuntu 4.15.0-99.100-generic 4.15.18\n");
        assert_eq!(version_code(&host).unwrap(), 4 << 16 | 15 << 8 | 18);
    }
    use std::fs;
    use std::io::Write;

    #[test]
    fn configuration_from_boot_then_from_the_kernel_itself() {
        let tree = tempfile::tempdir().unwrap();
        let host = Host::new(tree.path());
        fs::create_dir_all(tree.path().join("proc/sys/kernel")).unwrap();
        fs::create_dir_all(tree.path().join("boot")).unwrap();
        fs::write(tree.path().join("proc/sys/kernel/osrelease"), "6.1.0-test\n").unwrap();
        assert_eq!(config(&host).unwrap(), None);
        let text = "# CONFIG_KPROBES is not set\nCONFIG_BPF=y\nCONFIG_HZ=250\nCONFIG_NAME=\"a b\"\n";
        fs::write(tree.path().join("boot/config-6.1.0-test"), text).unwrap();
        let from_boot = config(&host).unwrap().unwrap();
        assert!(from_boot.is_set("BPF") && !from_boot.is_set("KPROBES"));
        assert_eq!(
            (from_boot.get("HZ"), from_boot.get("NAME")),
            (Some("250"), Some("a b"))
        );
        let file = fs::File::create(tree.path().join("proc/config.gz")).unwrap();
        let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        packer.write_all(b"CONFIG_KPROBES=y\n").unwrap();
        packer.finish().unwrap();
        assert!(config(&host).unwrap().unwrap().is_set("KPROBES"));
    }

    #[test]
    fn lockdown_is_the_word_in_brackets() {
        let tree = tempfile::tempdir().unwrap();
        let host = Host::new(tree.path());
        assert_eq!(lockdown(&host), Lockdown::Off);
        fs::create_dir_all(tree.path().join("sys/kernel/security")).unwrap();
        for (text, state) in [
            ("[none] integrity confidentiality\n", Lockdown::Off),
            ("none [integrity] confidentiality\n", Lockdown::Integrity),
            ("none integrity [confidentiality]\n", Lockdown::Confidentiality),
        ] {
            fs::write(tree.path().join("sys/kernel/security/lockdown"), text).unwrap();
            assert_eq!(lockdown(&host), state);
        }
    }
}
