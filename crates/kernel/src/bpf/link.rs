//! BPF links: what ties a program to an event while the link lives; which to choose for an event is not decided here.
//!
//! Closing the last user of a link detaches: quick for raw and typed tracepoints, some 80 ms for each perf event and some 150 ms for each
//! `fentry` function, all spent inside close(2). `BPF_LINK_UPDATE` and `BPF_LINK_DETACH` are refused for tracing links.

use super::Program;
use super::descriptor::{self, DescriptorKind};
use super::sys::{self, AttachType, Command, LinkType};
use crate::error::{Errno, Error, Interface, Result};
use crate::perf::{PerfEvent, UprobePlace};
use bytemuck::Zeroable;
use kestrel_bpf::btf::TypeId;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The functions of a `kprobe.multi` link.
#[derive(Clone, Copy, Debug)]
pub enum KprobeTargets<'a> {
    /// By name; each must stand for exactly one traceable function.
    Symbols(&'a [&'a str]),
    /// By address of their entry, which is twice as fast.
    Addresses(&'a [u64]),
}

/// A set of functions to probe through one link.
#[derive(Clone, Copy, Debug)]
pub struct KprobeMulti<'a> {
    /// The functions that are probed.
    pub targets: KprobeTargets<'a>,
    /// Attach cookies (`bpf_get_attach_cookie`), one for each; empty for none.
    pub cookies: &'a [u64],
    /// Probe their return instead of their entry.
    pub at_return: bool,
    /// The program is of kind [`super::ProgramKind::KprobeSession`].
    pub session: bool,
}

/// A set of places in one file to probe through one link (Linux 6.6 and later).
#[derive(Clone, Copy, Debug)]
pub struct UprobeMulti<'a> {
    /// The program or library.
    pub path: &'a str,
    /// The places that are probed.
    pub places: &'a [UprobePlace],
    /// Whether it probes returns.
    pub at_return: bool,
    /// The program is of kind [`super::ProgramKind::UprobeSession`] (Linux 6.13 and later).
    pub session: bool,
}

/// A link; closing it detaches the program, unless the link is pinned or open elsewhere.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn name(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::Argument {
        subject: text.to_owned(),
        why: "a name cannot contain a zero byte".to_owned(),
    })
}

/// The address of a slice, or zero for "none".
fn address<T>(slice: &[T]) -> u64 {
    if slice.is_empty() {
        0
    } else {
        slice.as_ptr() as u64
    }
}

fn same_length(targets: usize, cookies: usize) -> Result<()> {
    if cookies == 0 || cookies == targets {
        return Ok(());
    }
    Err(Error::Argument {
        subject: "a set of probes".to_owned(),
        why: format!("{targets} places but {cookies} cookies"),
    })
}

impl From<Link> for OwnedFd {
    fn from(link: Link) -> Self {
        link.fd
    }
}

impl Link {
    /// Attaches a [`super::ProgramKind::RawTracepoint`] program to the raw tracepoint `tracepoint` (without its group). A cookie that is not zero
    /// needs Linux 6.12. Linux 6.1 refuses the same program twice on one tracepoint.
    ///
    /// # Errors
    /// [`Error::System`]: `ENOENT` for an unknown tracepoint, `EINVAL` for a cookie on older kernels.
    pub fn raw_tracepoint(program: &Program, tracepoint: &str, cookie: u64) -> Result<Self> {
        let text = name(tracepoint)?;
        // SAFETY: the name is NUL-terminated and outlives the call.
        unsafe { raw_tracepoint_open(program, text.as_ptr() as u64, cookie) }
            .map_err(|errno| Error::system("attach to the raw tracepoint", tracepoint, errno))
    }

    /// Attaches a typed tracepoint, `fentry` or `fexit` program to what it was loaded for. Cookies: `fentry` from 5.17, typed tracepoints
    /// from 6.12 on.
    ///
    /// # Errors
    /// [`Error::System`]: `EBUSY` if the function is taken by something that excludes this.
    pub fn tracing(program: &Program, attach: AttachType, cookie: u64) -> Result<Self> {
        let mut argument = sys::LinkCreate {
            prog_fd: program.as_fd().as_raw_fd() as u32,
            attach_type: attach.0,
            with: [0, cookie, 0, 0, 0, 0],
            ..Zeroable::zeroed()
        };
        // SAFETY: no addresses are given, and the command answers with a new descriptor.
        let answer = match unsafe { sys::call_for_fd(Command::LinkCreate, &mut argument) } {
            // Kernels before 5.18 know only the older way.
            // SAFETY: no name is given.
            Err(Errno::EINVAL) if cookie == 0 => unsafe { raw_tracepoint_open(program, 0, 0) },
            other => other.map(|fd| Self { fd }),
        };
        answer.map_err(|errno| Error::system("attach by", attach.to_string(), errno))
    }

    /// Attaches an iterator to one of the things that it can walk.
    ///
    /// # Errors
    /// [`Error::System`]: `EINVAL` if it walks something else, `EACCES` if it reads more of a map's entries than these have.
    pub fn iterator(program: &Program, over: &IteratorScope<'_>) -> Result<Self> {
        // `union bpf_iter_link_info`.
        let info: [u32; 4] = match over {
            IteratorScope::Map(map) => [map.as_raw_fd() as u32, 0, 0, 0],
            IteratorScope::Cgroup(directory) => [CGROUP_DESCENDANTS, directory.as_raw_fd() as u32, 0, 0],
            IteratorScope::Process(pid) => [0, *pid, 0, 0],
        };
        let mut argument = sys::LinkCreate {
            prog_fd: program.as_fd().as_raw_fd() as u32,
            attach_type: AttachType::TRACE_ITER.0,
            with: [info.as_ptr() as u64, size_of_val(&info) as u64, 0, 0, 0, 0],
            ..Zeroable::zeroed()
        };
        // SAFETY: the only address is that of `info`, with its length beside it.
        let answer = unsafe { sys::call_for_fd(Command::LinkCreate, &mut argument) };
        answer
            .map(|fd| Self { fd })
            .map_err(|errno| Error::system("attach the iterator to", over.to_string(), errno))
    }

    /// Attaches a program to a perf event (tracepoint, kprobe, uprobe, counter). From Linux 5.15 on; see [`PerfEvent::set_program`] for before.
    ///
    /// The perf event must be enabled ([`PerfEvent::enable`]) unless it was opened so. Its descriptor may be closed afterwards: the link holds
    /// the event.
    ///
    /// # Errors
    /// [`Error::System`]: `EINVAL` if the program does not fit the event.
    pub fn perf_event(program: &Program, event: &PerfEvent, cookie: u64) -> Result<Self> {
        let argument = sys::LinkCreate {
            prog_fd: program.as_fd().as_raw_fd() as u32,
            target_fd: event.as_fd().as_raw_fd() as u32,
            attach_type: AttachType::PERF_EVENT.0,
            with: [cookie, 0, 0, 0, 0, 0],
            ..Zeroable::zeroed()
        };
        // SAFETY: no addresses are given.
        unsafe { create(argument) }.map_err(|errno| {
            Error::system("attach to the perf event of", event.to_string(), errno).of(Interface::Attach)
        })
    }

    /// Attaches a [`super::ProgramKind::KprobeMulti`] program to many functions at once (Linux 5.18 and later, with `CONFIG_FPROBE`).
    ///
    /// # Errors
    /// [`Error::System`]: `EOPNOTSUPP` without FPROBE, `ESRCH` if a symbol is unknown, `EADDRNOTAVAIL` if it is ambiguous.
    pub fn kprobe_multi(program: &Program, multi: &KprobeMulti<'_>) -> Result<Self> {
        let names = match multi.targets {
            KprobeTargets::Symbols(symbols) => symbols
                .iter()
                .map(|symbol| name(symbol))
                .collect::<Result<Vec<_>>>()?,
            KprobeTargets::Addresses(_) => Vec::new(),
        };
        let pointers: Vec<u64> = names.iter().map(|name| name.as_ptr() as u64).collect();
        let addresses = match multi.targets {
            KprobeTargets::Addresses(addresses) => addresses,
            KprobeTargets::Symbols(_) => &[],
        };
        let count = pointers.len() + addresses.len();
        same_length(count, multi.cookies.len())?;
        let flags = if multi.at_return {
            sys::KPROBE_MULTI_RETURN
        } else {
            0
        };
        let attach = if multi.session {
            AttachType::TRACE_KPROBE_SESSION
        } else {
            AttachType::TRACE_KPROBE_MULTI
        };
        let argument = sys::LinkCreate {
            prog_fd: program.as_fd().as_raw_fd() as u32,
            attach_type: attach.0,
            with: [
                pair(flags, count as u32),
                address(&pointers),
                address(addresses),
                address(multi.cookies),
                0,
                0,
            ],
            ..Zeroable::zeroed()
        };
        // SAFETY: each list has `count` elements (cookies are checked above), names are NUL-terminated, all outlive the call.
        unsafe { create(argument) }
            .map_err(|errno| Error::system("attach to kernel functions,", count.to_string(), errno))
    }

    /// Attaches a [`super::ProgramKind::UprobeMulti`] program to many places of one file at once.
    ///
    /// # Errors
    /// [`Error::System`]: `EBADF` if the file cannot be opened, `ESRCH` for an unknown process.
    pub fn uprobe_multi(program: &Program, multi: &UprobeMulti<'_>) -> Result<Self> {
        let path = name(multi.path)?;
        let each = |of: fn(&UprobePlace) -> u64| multi.places.iter().map(of).collect::<Vec<u64>>();
        let (offsets, cookies) = (each(|place| place.offset), each(|place| place.cookie));
        let semaphores = each(|place| place.semaphore);
        let argument = sys::LinkCreate {
            prog_fd: program.as_fd().as_raw_fd() as u32,
            attach_type: if multi.session {
                AttachType::TRACE_UPROBE_SESSION.0
            } else {
                AttachType::TRACE_UPROBE_MULTI.0
            },
            with: [
                path.as_ptr() as u64,
                address(&offsets),
                address(&semaphores),
                address(&cookies),
                pair(offsets.len() as u32, u32::from(multi.at_return)),
                0,
            ],
            ..Zeroable::zeroed()
        };
        // SAFETY: the path is NUL-terminated, each list has as many elements as there are places, all outlive the call.
        unsafe { create(argument) }.map_err(|errno| Error::system("attach to the file", multi.path, errno))
    }

    /// A file that runs an iterator's program once over all it walks, and reads as what the program writes (`BPF_ITER_CREATE`).
    ///
    /// # Errors
    /// [`Error::System`]: `EINVAL` if it is no iterator's link.
    pub fn iterate(&self) -> Result<std::fs::File> {
        let mut argument = sys::LinkUpdate {
            link_fd: self.fd.as_raw_fd() as u32,
            ..Zeroable::zeroed()
        };
        // SAFETY: the command reads no addresses, and answers with a new descriptor.
        unsafe { sys::call_for_fd(Command::IterCreate, &mut argument) }
            .map(std::fs::File::from)
            .map_err(|errno| Error::system("run", "an iterator", errno))
    }

    /// Takes over a descriptor of a link.
    ///
    /// # Errors
    /// [`Error::Argument`] if it is not one.
    pub fn from_fd(fd: OwnedFd) -> Result<Self> {
        descriptor::expect(fd.as_fd(), DescriptorKind::Link)?;
        Ok(Self { fd })
    }

    /// Opens the link with this number (`BPF_LINK_GET_FD_BY_ID`).
    ///
    /// # Errors
    /// [`Error::System`]: `ENOENT` if there is none, `EPERM` without CAP_SYS_ADMIN.
    pub fn from_id(id: u32) -> Result<Self> {
        Self::from_fd(super::id::open(Command::LinkFdById, id, "open the link with id")?)
    }

    /// Detaches now, even where the link is open or pinned elsewhere (`BPF_LINK_DETACH`).
    ///
    /// # Errors
    /// [`Error::System`]: `EOPNOTSUPP` for all tracing links as of Linux 6.18.
    pub fn detach(&self) -> Result<()> {
        let mut argument = sys::LinkUpdate {
            link_fd: self.fd.as_raw_fd() as u32,
            ..Zeroable::zeroed()
        };
        // SAFETY: the command reads no addresses.
        unsafe { sys::call(Command::LinkDetach, &mut argument) }
            .map(drop)
            .map_err(|errno| Error::system("detach", "a link", errno))
    }

    /// Replaces the program (`BPF_LINK_UPDATE`).
    ///
    /// # Errors
    /// [`Error::System`]: `EINVAL` for all tracing links as of Linux 6.18.
    pub fn update(&self, program: &Program) -> Result<()> {
        let mut argument = sys::LinkUpdate {
            link_fd: self.fd.as_raw_fd() as u32,
            new_prog_fd: program.as_fd().as_raw_fd() as u32,
            ..Zeroable::zeroed()
        };
        // SAFETY: the command reads no addresses.
        unsafe { sys::call(Command::LinkUpdate, &mut argument) }
            .map(drop)
            .map_err(|errno| Error::system("replace the program of", "a link", errno))
    }

    /// Current kernel information about the link.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn info(&self) -> Result<LinkInfo> {
        let failed = |errno| Error::system("ask about", "a link", errno);
        let mut raw: sys::LinkInfo = super::id::info(self.as_fd()).map_err(failed)?;
        let mut text = vec![0u8; 256];
        let mut named = sys::LinkInfo::zeroed();
        let place = match (LinkType(raw.kind), raw.with[0] as u32) {
            (LinkType::RAW_TRACEPOINT, _) => Some(0),
            (LinkType::PERF_EVENT, UPROBE..=TRACEPOINT) => Some(1),
            _ => None,
        };
        if let Some(place) = place {
            // The union holds the address of a text buffer, then its length.
            named.with[place] = text.as_mut_ptr() as u64;
            named.with[place + 1] = text.len() as u64;
            // SAFETY: the only address that is not zero is the buffer's, with its length behind it.
            unsafe { super::id::info_with(self.as_fd(), &mut named) }.map_err(failed)?;
            raw = named;
        }
        Ok(LinkInfo {
            id: raw.id,
            kind: LinkType(raw.kind),
            program: raw.prog_id,
            detail: LinkDetail::read(&raw, sys::text(&text)),
        })
    }
}

/// Description of a link by the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// The kernel's number for it while it lives.
    pub id: u32,
    /// The type of the link.
    pub kind: LinkType,
    /// Number of its program.
    pub program: u32,
    /// Target of the link.
    pub detail: LinkDetail,
}

/// Target of a link, as far as this kernel reports it (perf events from 6.6 on, cookies later still; 0 where it does not).
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields speak for themselves")]
pub enum LinkDetail {
    RawTracepoint {
        name: String,
    },
    Tracing {
        attach: AttachType,
        target: TypeId,
    },
    Kprobe {
        function: String,
        offset: u32,
        address: u64,
        missed: u64,
        at_return: bool,
    },
    Uprobe {
        path: String,
        offset: u32,
        at_return: bool,
    },
    Tracepoint {
        name: String,
    },
    PerfEvent {
        kind: u32,
        config: u64,
    },
    KprobeMulti {
        count: u32,
        missed: u64,
        at_return: bool,
    },
    Other,
}

// `enum bpf_perf_event_type`.
const UPROBE: u32 = 1;
const URETPROBE: u32 = 2;
const KPROBE: u32 = 3;
const KRETPROBE: u32 = 4;
const TRACEPOINT: u32 = 5;
const EVENT: u32 = 6;

impl LinkDetail {
    fn read(raw: &sys::LinkInfo, text: String) -> Self {
        let with = &raw.with;
        let low = with[0] as u32;
        let offset = (with[2] >> 32) as u32;
        match LinkType(raw.kind) {
            LinkType::RAW_TRACEPOINT => Self::RawTracepoint { name: text },
            LinkType::TRACING => Self::Tracing {
                attach: AttachType(low),
                target: TypeId(with[1] as u32),
            },
            LinkType::KPROBE_MULTI => Self::KprobeMulti {
                count: with[1] as u32,
                missed: with[2],
                at_return: (with[1] >> 32) as u32 & sys::KPROBE_MULTI_RETURN != 0,
            },
            LinkType::PERF_EVENT => match low {
                UPROBE | URETPROBE => Self::Uprobe {
                    path: text,
                    offset,
                    at_return: low == URETPROBE,
                },
                KPROBE | KRETPROBE => Self::Kprobe {
                    function: text,
                    offset,
                    address: with[3],
                    missed: with[4],
                    at_return: low == KRETPROBE,
                },
                TRACEPOINT => Self::Tracepoint { name: text },
                EVENT => Self::PerfEvent {
                    config: with[1],
                    kind: with[2] as u32,
                },
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// # Safety
/// The addresses in `argument` must be what its attach type says, and outlive the call.
unsafe fn create(mut argument: sys::LinkCreate) -> std::result::Result<Link, Errno> {
    // SAFETY: the caller's promise; the command answers with a new descriptor.
    unsafe { sys::call_for_fd(Command::LinkCreate, &mut argument) }.map(|fd| Link { fd })
}

/// # Safety
/// `name` must be zero or the address of a NUL-terminated string.
unsafe fn raw_tracepoint_open(program: &Program, name: u64, cookie: u64) -> std::result::Result<Link, Errno> {
    let mut argument = sys::RawTracepoint {
        name,
        prog_fd: program.as_fd().as_raw_fd() as u32,
        pad: 0,
        cookie,
    };
    // SAFETY: the caller's promise; the command answers with a new descriptor.
    unsafe { sys::call_for_fd(Command::RawTracepointOpen, &mut argument) }.map(|fd| Link { fd })
}

/// `BPF_CGROUP_ITER_DESCENDANTS_PRE`.
const CGROUP_DESCENDANTS: u32 = 2;

/// Restriction of an iterator to a part of what it walks.
#[derive(Clone, Copy, Debug)]
pub enum IteratorScope<'a> {
    /// The entries of a map.
    Map(BorrowedFd<'a>),
    /// A cgroup and all below it, by its directory.
    Cgroup(BorrowedFd<'a>),
    /// The threads of a process.
    Process(u32),
}

impl std::fmt::Display for IteratorScope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Map(_) => write!(f, "a map"),
            Self::Cgroup(_) => write!(f, "a cgroup"),
            Self::Process(pid) => write!(f, "process {pid}"),
        }
    }
}
