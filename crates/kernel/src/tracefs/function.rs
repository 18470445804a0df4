//! Kernel functions that can be traced, as ftrace and kprobes list them; their addresses by name are `kallsyms`'s.

use super::Tracefs;
use crate::error::Result;
use crate::host::Host;

/// A function that ftrace can hook, so that `fentry` and `kprobe.multi` can, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceableFunction {
    /// The symbol; not unique (static functions of the same name).
    pub name: String,
    /// The module it belongs to, without brackets.
    pub module: Option<String>,
    /// The address, where the kernel lists it (`available_filter_functions_addrs`, Linux 6.5 and later).
    pub address: Option<u64>,
}

impl Tracefs {
    /// The functions that ftrace can hook, from `available_filter_functions`. Takes long (some 50,000 lines, made on the fly).
    ///
    /// # Errors
    /// [`crate::Error::System`]: `ENOENT` on a kernel without function tracing, `EPERM` where a policy bars it.
    pub fn traceable_functions(&self) -> Result<Vec<TraceableFunction>> {
        let text = self.read("available_filter_functions")?;
        Ok(text.lines().filter_map(|line| function(line, None)).collect())
    }

    /// The traceable functions with their addresses, from `available_filter_functions_addrs`.
    ///
    /// # Errors
    /// As [`Tracefs::traceable_functions`]; `ENOENT` also on kernels before 6.5.
    pub fn traceable_functions_with_addresses(&self) -> Result<Vec<TraceableFunction>> {
        let text = self.read("available_filter_functions_addrs")?;
        let split = text.lines().filter_map(|line| line.split_once(' '));
        Ok(split
            .filter_map(|(address, rest)| {
                function(
                    rest,
                    u64::from_str_radix(address.trim_start_matches("0x"), 16).ok(),
                )
            })
            .collect())
    }
}

/// `name`, or `name [module]`.
fn function(line: &str, address: Option<u64>) -> Option<TraceableFunction> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next()?.to_owned();
    let module = words.next().map(|word| word.trim_matches(['[', ']']).to_owned());
    // Places that ftrace knows by address only.
    (!name.starts_with("__ftrace_invalid_address")).then_some(TraceableFunction {
        name,
        module,
        address,
    })
}

/// The address ranges that the kernel bars from kprobes, with the symbol of each, from debugfs; empty where that is not mounted.
///
/// # Errors
/// [`crate::Error::System`] if the file is there but cannot be read.
pub fn kprobe_blacklist(host: &Host) -> Result<Vec<(std::ops::Range<u64>, String)>> {
    let path = "/sys/kernel/debug/kprobes/blacklist";
    if !host.path(path).exists() {
        return Ok(Vec::new());
    }
    let text = host.read(path)?;
    let range = |line: &str| {
        let (range, symbol) = line.split_once('\t')?;
        let (start, end) = range.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok();
        Some((number(start)?..number(end)?, symbol.trim().to_owned()))
    };
    Ok(text.lines().filter_map(range).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn functions_with_modules_and_addresses() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path().join("sys/kernel/tracing");
        fs::create_dir_all(root.join("events")).unwrap();
        fs::write(
            root.join("available_filter_functions"),
            "vfs_read\next4_sync [ext4]\n__ftrace_invalid_address___12\n",
        )
        .unwrap();
        fs::write(
            root.join("available_filter_functions_addrs"),
            "ffffffff81000010 vfs_read\n",
        )
        .unwrap();
        let host = Host::new(tree.path());
        let tracefs = Tracefs::open(&host).unwrap();
        let functions = tracefs.traceable_functions().unwrap();
        assert_eq!(functions.len(), 2);
        assert_eq!(functions[1].module.as_deref(), Some("ext4"));
        let functions = tracefs.traceable_functions_with_addresses().unwrap();
        assert_eq!(functions[0].address, Some(0xffff_ffff_8100_0010));
        assert!(kprobe_blacklist(&host).unwrap().is_empty());
        fs::create_dir_all(tree.path().join("sys/kernel/debug/kprobes")).unwrap();
        let line = "0xffffffff81000000-0xffffffff81000040\tdo_int3\n";
        fs::write(tree.path().join("sys/kernel/debug/kprobes/blacklist"), line).unwrap();
        let list = kprobe_blacklist(&host).unwrap();
        assert_eq!(
            (list[0].0.end - list[0].0.start, list[0].1.as_str()),
            (0x40, "do_int3")
        );
    }
}
