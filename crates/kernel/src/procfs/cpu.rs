//! Lists of CPUs as the kernel writes them (`0-3,8`), and the lists of possible and online CPUs.

use crate::error::{Error, Result};
use crate::host::Host;
use std::os::unix::fs::MetadataExt;

/// A set of CPU numbers, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuList(Vec<u32>);

impl CpuList {
    /// Reads the kernel's list format: numbers and ranges separated by commas; empty means none.
    ///
    /// # Errors
    /// [`Error::Format`].
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || Error::Format {
            subject: "a CPU list".to_owned(),
            why: format!("`{}`", text.trim()),
        };
        let mut cpus = Vec::new();
        for part in text.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: u32 = first.parse().map_err(|_| wrong())?;
            let last: u32 = last.parse().map_err(|_| wrong())?;
            if last < first || last > MAX_CPUS {
                return Err(wrong());
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Number of CPUs in the list.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `cpu` is among them.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }
}

/// Greatest number of a CPU, far above what any kernel supports, so that a damaged file cannot make lists of gigabytes.
const MAX_CPUS: u32 = 1 << 16;

/// The CPUs that the running kernel could ever have, for which per-CPU maps have values.
///
/// # Errors
/// [`Error::System`] or [`Error::Format`].
pub fn possible_cpus() -> Result<CpuList> {
    CpuList::parse(&Host::default().read("/sys/devices/system/cpu/possible")?)
}

/// The CPUs that are online.
///
/// # Errors
/// [`Error::System`] or [`Error::Format`].
pub fn online_cpus(host: &Host) -> Result<CpuList> {
    CpuList::parse(&host.read("/sys/devices/system/cpu/online")?)
}

/// A number that is new each time the CPU comes online: the inode of a directory which the kernel makes anew each time (`topology_add_dev` in
/// drivers/base/topology.c); 0 where it makes none.
pub fn cpu_online_id(host: &Host, cpu: u32) -> u64 {
    let directory = host.path(format!("/sys/devices/system/cpu/cpu{cpu}/topology"));
    std::fs::metadata(directory).map_or(0, |found| found.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_ranges_and_gaps() {
        let list = CpuList::parse("0-3,8\n").unwrap();
        assert_eq!(list.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert_eq!(list.len(), 5);
        assert!(list.contains(8) && !list.contains(7));
        assert!(CpuList::parse("\n").unwrap().is_empty());
    }

    #[test]
    fn refuses_other_texts_than_the_kernels() {
        for text in ["x", "3-1", "0-", "-", "0-4294967295", "1,,x"] {
            assert!(CpuList::parse(text).is_err(), "{text}");
        }
    }
}
