//! Files of the running kernel's types (BTF); kestrel-bpf reads what is in them.

use crate::error::{Error, Result};
use crate::host::Host;
use crate::index;
use crate::mmap::Immutable;
use bytes::Bytes;
use kestrel_bpf::btf::Btf;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;

const DIRECTORY: &str = "/sys/kernel/btf";

/// The kernel's own types: mapped where the kernel can (Linux 6.16 and later: 1 ms), read otherwise (5 to 7 ms, a page at a time), the
/// next time from what [`crate::index`] kept.
///
/// # Errors
/// [`Error::Unavailable`] on a kernel built without BTF, [`Error::System`] if it cannot be read.
pub fn vmlinux(host: &Host) -> Result<Bytes> {
    blob(host, "vmlinux")
}

/// The types of a module, which go on where the kernel's end.
///
/// # Errors
/// As [`vmlinux`].
pub fn module(host: &Host, name: &str) -> Result<Bytes> {
    blob(host, name)
}

/// Modules that have types, by name, sorted.
///
/// # Errors
/// [`Error::Unavailable`] on a kernel built without BTF.
pub fn modules(host: &Host) -> Result<Vec<String>> {
    let directory = std::fs::read_dir(host.path(DIRECTORY)).map_err(|_| missing(host))?;
    let names = directory.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|name| name != "vmlinux").collect();
    names.sort_unstable();
    Ok(names)
}

/// The kernel's own types, parsed; what that finds is kept for the next process ([`crate::index`]).
///
/// # Errors
/// As [`vmlinux`]; [`Error::Format`] if they are damaged.
pub fn load(host: &Host) -> Result<Arc<Btf>> {
    index::parsed(host, vmlinux(host)?)
        .map(Arc::new)
        .map_err(|error| damaged("vmlinux", error))
}

/// The types of a module, parsed over the kernel's.
///
/// # Errors
/// As [`load`].
pub fn load_module(host: &Host, base: &Arc<Btf>, name: &str) -> Result<Btf> {
    Btf::parse_split(base.clone(), module(host, name)?).map_err(|error| damaged(name, error))
}

fn damaged(name: &str, error: kestrel_bpf::Error) -> Error {
    Error::Format {
        subject: format!("the types (BTF) of {name}"),
        why: error.to_string(),
    }
}

fn missing(host: &Host) -> Error {
    Error::Unavailable {
        what: "the kernel's type information (BTF)",
        why: format!(
            "there is no {}; the kernel was built without CONFIG_DEBUG_INFO_BTF",
            host.path(DIRECTORY).display()
        ),
    }
}

fn blob(host: &Host, name: &str) -> Result<Bytes> {
    let relative = format!("{DIRECTORY}/{name}");
    let path = host.path(&relative);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(missing(host)),
        Err(error) => return Err(Error::file("open", &path, error)),
    };
    // Only the kernel's own file is known never to change; a stand-in tree's might be cut while it is mapped.
    let len = file.metadata().map_or(0, |metadata| metadata.len() as usize);
    if host.is_live() && len > 0 {
        // SAFETY: on a live host this is sysfs, where the file is a part of the kernel's (or a module's) image.
        if let Ok(mapped) = unsafe { Immutable::new(file.as_fd(), len) } {
            return Ok(Bytes::from_owner(mapped));
        }
        if name == "vmlinux" {
            return index::types(host, len, || host.read_bytes(&relative)).map(Bytes::from);
        }
    }
    host.read_bytes(&relative).map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kestrel_bpf::btf::BtfKind;

    #[test]
    fn a_kernel_without_types_says_so() {
        let tree = tempfile::tempdir().unwrap();
        let error = load(&Host::new(tree.path())).unwrap_err();
        assert!(error.to_string().contains("CONFIG_DEBUG_INFO_BTF"), "{error}");
    }

    #[test]
    fn mapped_and_read_types_are_the_same() {
        let Ok(mapped) = vmlinux(&Host::default()) else {
            return println!("skipped: no BTF here");
        };
        let read = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
        assert!(mapped == read);
        let btf = load(&Host::default()).unwrap();
        assert!(btf.find(BtfKind::Struct, "task_struct").is_some());
    }

    #[test]
    fn damaged_types_and_module_names() {
        let tree = tempfile::tempdir().unwrap();
        let directory = tree.path().join("sys/kernel/btf");
        std::fs::create_dir_all(&directory).unwrap();
        for name in ["vmlinux", "xfs", "ext4"] {
            std::fs::write(directory.join(name), b"not types").unwrap();
        }
        let host = Host::new(tree.path());
        assert_eq!(modules(&host).unwrap(), ["ext4", "xfs"]);
        assert!(load(&host).unwrap_err().to_string().contains("vmlinux"));
    }
}
