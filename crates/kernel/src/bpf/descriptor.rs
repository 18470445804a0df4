//! Kinds of BPF descriptors: a map, a program or a link.

use crate::error::{Error, Result};
use crate::host::Host;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Kind of a BPF descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DescriptorKind {
    Map,
    Program,
    Link,
}

impl DescriptorKind {
    /// Kernel information about a descriptor: it names the anonymous file behind a descriptor `bpf-map`, `bpf-prog` or `bpf_link` (or `bpf-link`).
    pub(super) fn of(fd: BorrowedFd<'_>) -> Result<Self> {
        let path = Host::default().path(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        let target = std::fs::read_link(&path).map_err(|error| Error::file("read the link", &path, error))?;
        let target = target.to_string_lossy();
        match target.as_ref() {
            text if text.contains("bpf-map") => Ok(Self::Map),
            text if text.contains("bpf-prog") => Ok(Self::Program),
            text if text.contains("bpf_link") || text.contains("bpf-link") => Ok(Self::Link),
            other => Err(Error::Format {
                subject: "a BPF descriptor".to_owned(),
                why: format!("the kernel calls it {other}"),
            }),
        }
    }
}

/// Makes sure that a descriptor is of the kind that its owner takes it for: the kernel's answers are laid out by kind.
pub(super) fn expect(fd: BorrowedFd<'_>, kind: DescriptorKind) -> Result<()> {
    let found = DescriptorKind::of(fd)?;
    if found == kind {
        return Ok(());
    }
    Err(Error::Argument {
        subject: format!("descriptor {}", fd.as_raw_fd()),
        why: format!("it is a {found:?}, not a {kind:?}"),
    })
}
