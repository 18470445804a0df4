//! perf_event_open(2) as far as BPF programs are attached to its events: tracepoints, kprobes, uprobes, software counters; the
//! rings that records of perf go to, and its side band; `counting` those that only count. No sampling.

mod attributes;
mod counter;
mod counting;
pub mod ring;
pub mod side_band;

pub use counter::{Breakpoint, Counter, Software};
pub use counting::{Begin, Counted, CountedTasks, Inherit, Levels, Reading};

use crate::error::{Errno, Error, Interface, Result};
use crate::host::Host;
use attributes::{
    Attributes, FLAG_CLOEXEC, FLAGS, FORMAT_LOST, IOC_DISABLE, IOC_ENABLE, IOC_PERIOD, IOC_SET_BPF,
    SAMPLE_RAW, TYPE_SOFTWARE, TYPE_TRACEPOINT,
};
use bytemuck::Zeroable;
use std::ffi::CString;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The processes and CPUs whose events are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfTarget {
    /// Everybody's. A BPF program on a tracepoint, kprobe or uprobe runs on every CPU although perf asks for one.
    All,
    /// One thread's, on every CPU.
    Thread(u32),
    /// Everybody's on one CPU: for counters and clocks.
    Cpu(u32),
}

impl PerfTarget {
    /// The `pid` and `cpu` arguments.
    fn numbers(self) -> (i32, i32) {
        match self {
            Self::All => (-1, 0),
            Self::Thread(thread) => (thread as i32, -1),
            Self::Cpu(cpu) => (-1, cpu as i32),
        }
    }
}

/// Target of a kprobe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbePlace<'a> {
    /// A symbol and an offset in bytes. `module:symbol` picks a module's.
    Symbol(&'a str, u64),
    /// An address.
    Address(u64),
}

impl fmt::Display for ProbePlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Symbol(symbol, 0) => f.write_str(symbol),
            Self::Symbol(symbol, offset) => write!(f, "{symbol}+{offset:#x}"),
            Self::Address(address) => write!(f, "{address:#x}"),
        }
    }
}

/// Target of a uprobe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UprobePlace {
    /// The offset in the file, which is no address in memory.
    pub offset: u64,
    /// Where in the file a USDT probe's counter of listeners lies, which the kernel raises in each process that runs the file; 0 for none.
    pub semaphore: u64,
    /// Attach cookie of the program (`bpf_get_attach_cookie`).
    pub cookie: u64,
}

/// An open perf event. While a link holds it, it is attached; closing the last user of a tracepoint or kprobe event waits for RCU
/// (some 50 ms).
#[derive(Debug)]
pub struct PerfEvent {
    fd: OwnedFd,
    what: String,
}

impl AsFd for PerfEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Display for PerfEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl PerfEvent {
    /// A tracepoint, or a dynamic event of tracefs, by the number in its `id` file. `what` is its name for messages.
    ///
    /// Opens a counter without samples: a BPF program runs at each hit all the same, and some tracepoints may not be sampled
    /// (`irq_vectors:irq_work_exit` answers `EPERM`, `TRACE_EVENT_PERF_PERM` of the kernel's `asm/trace/irq_vectors.h`).
    ///
    /// # Errors
    /// [`Error::System`]: `ENOENT` for an unknown number, `EACCES` without privilege.
    pub fn tracepoint(id: u64, what: &str, target: PerfTarget) -> Result<Self> {
        let attributes = Attributes {
            kind: TYPE_TRACEPOINT,
            config: id,
            ..Zeroable::zeroed()
        };
        open(attributes, target, format!("tracepoint {what}"))
    }

    /// A kprobe, or a kretprobe, that lives as long as this event.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the kernel has no kprobes; [`Error::System`]: `ENOENT` for an unknown symbol, `EINVAL` or `EILSEQ`
    /// for a place that is not the start of an instruction or may not be probed, `EADDRNOTAVAIL` for an ambiguous symbol.
    pub fn kprobe(host: &Host, place: ProbePlace<'_>, at_return: bool, target: PerfTarget) -> Result<Self> {
        let unit = ProbeUnit::read(host, "kprobe", "kprobes")?;
        let what = format!("{} {place}", if at_return { "kretprobe" } else { "kprobe" });
        let (symbol, offset) = match place {
            ProbePlace::Symbol(symbol, offset) => (text(symbol)?, offset),
            ProbePlace::Address(address) => (CString::default(), address),
        };
        let named = !symbol.is_empty();
        let attributes = Attributes {
            kind: unit.kind,
            config: if at_return { unit.at_return } else { 0 },
            config1: if named { symbol.as_ptr() as u64 } else { 0 },
            config2: offset,
            ..Zeroable::zeroed()
        };
        open(attributes, target, what) // `symbol` lives until here
    }

    /// A uprobe, or a uretprobe, at a place in a file.
    ///
    /// # Errors
    /// As [`PerfEvent::kprobe`]; [`Error::Argument`] if the semaphore lies beyond 4 GiB.
    pub fn uprobe(
        host: &Host,
        path: &str,
        place: &UprobePlace,
        at_return: bool,
        target: PerfTarget,
    ) -> Result<Self> {
        let UprobePlace {
            offset, semaphore, ..
        } = *place;
        let semaphore = u32::try_from(semaphore).map_err(|_| Error::Argument {
            subject: path.to_owned(),
            why: format!(
                "the semaphore at {semaphore:#x} of the file is beyond the 32 bits that perf_event_open takes"
            ),
        })?;
        let unit = ProbeUnit::read(host, "uprobe", "uprobes")?;
        let what = format!(
            "{} {path}+{offset:#x}",
            if at_return { "uretprobe" } else { "uprobe" }
        );
        let file = text(path)?;
        let attributes = Attributes {
            kind: unit.kind,
            // PERF_UPROBE_REF_CTR_OFFSET_SHIFT
            config: if at_return { unit.at_return } else { 0 } | u64::from(semaphore) << 32,
            config1: file.as_ptr() as u64,
            config2: offset,
            ..Zeroable::zeroed()
        };
        open(attributes, target, what) // `file` lives until here
    }

    /// A counter or clock of any type: one overflow, and run of the program, per so many of what it counts. That of a thread is that of the threads and processes,
    /// too, which it makes later; a breakpoint's that of the threads, as it is of one address space.
    ///
    /// # Errors
    /// [`Error::System`]: `ENOENT` if the machine does not have it; `ENOSPC` if no debug register is free, `ESRCH` for a thread that has ended.
    pub fn counter(counter: &Counter, period: u64, target: PerfTarget) -> Result<Self> {
        let inherited = match target {
            PerfTarget::Thread(_) if counter.is_breakpoint() => FLAGS.inherit | FLAGS.inherit_thread,
            PerfTarget::Thread(_) => FLAGS.inherit,
            PerfTarget::All | PerfTarget::Cpu(_) => 0,
        };
        let attributes = Attributes {
            kind: counter.kind,
            config: counter.config,
            config1: counter.config1,
            config2: counter.config2,
            breakpoint: counter.access,
            sample_period: period,
            flags: FLAGS.disabled | inherited,
            ..Zeroable::zeroed()
        };
        open(attributes, target, counter.name.clone().into_owned())
    }

    /// An event whose ring takes what programs write with `bpf_perf_event_output` on one CPU.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn output(cpu: u32) -> Result<Self> {
        let what = || format!("output of programs on CPU {cpu}");
        let attributes = |read_format| Attributes {
            kind: TYPE_SOFTWARE,
            config: Software::BpfOutput as u64,
            sample_period: 1,
            sample_type: SAMPLE_RAW,
            wakeup: 1,
            read_format,
            ..Zeroable::zeroed()
        };
        match open(attributes(FORMAT_LOST), PerfTarget::Cpu(cpu), what()) {
            // Linux 6.0 counts what found no room where it can be read; before, records in the ring tell.
            Err(error) if error.errno() == Some(Errno::EINVAL) => {
                open(attributes(0), PerfTarget::Cpu(cpu), what())
            }
            opened => opened,
        }
    }

    /// Lets the event count. Tracepoint and probe events are open enabled.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn enable(&self) -> Result<()> {
        self.ioctl("enable", IOC_ENABLE, 0)
    }

    /// Begins its period anew: the next event comes a whole period from now.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn begin_period(&self, period: u64) -> Result<()> {
        let place = &raw const period;
        // SAFETY: the request reads the eight bytes at the address, which live until it returns.
        let answer = unsafe { libc::ioctl(self.fd.as_raw_fd(), IOC_PERIOD as libc::Ioctl, place) };
        match answer < 0 {
            true => Err(Error::system(
                "begin the period of",
                self.what.as_str(),
                Errno::last(),
            )),
            false => Ok(()),
        }
    }

    /// The event by another descriptor.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn try_clone(&self) -> Result<Self> {
        let fd = self.fd.try_clone();
        let fd = fd.map_err(|_| Error::system("keep", self.what.as_str(), Errno::last()))?;
        Ok(Self {
            fd,
            what: self.what.clone(),
        })
    }

    /// Stops it. This does *not* stop a BPF program on a tracepoint, which runs before perf looks at its events.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn disable(&self) -> Result<()> {
        self.ioctl("disable", IOC_DISABLE, 0)
    }

    /// Hangs a program on the event until it is closed, the way of kernels before 5.15 (no cookie, no link).
    ///
    /// # Errors
    /// [`Error::System`]: `EEXIST` if it has one.
    pub fn set_program(&self, program: impl AsFd) -> Result<()> {
        let fd = program.as_fd().as_raw_fd() as libc::c_ulong;
        self.ioctl("attach a program to", IOC_SET_BPF, fd)
            .map_err(|error| error.of(Interface::Attach))?;
        self.enable()
    }

    /// Number of records of an event of [`PerfEvent::output`] that had no room in its ring, where the kernel counts them (Linux 6.0).
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn lost(&self) -> Result<Option<u64>> {
        let mut words = [0u64; 2];
        // SAFETY: the buffer has the 16 bytes that are asked for.
        let got = unsafe { libc::read(self.fd.as_raw_fd(), words.as_mut_ptr().cast(), 16) };
        match got {
            16 => Ok(Some(words[1])),
            8 => Ok(None),
            _ => {
                let errno = if got < 0 { Errno::last() } else { Errno::EIO };
                Err(Error::system("read the losses of", self.what.as_str(), errno))
            }
        }
    }

    /// Count of the event.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn count(&self) -> Result<u64> {
        let mut bytes = [0u8; 8];
        // SAFETY: the buffer has the 8 bytes that are asked for.
        let got = unsafe { libc::read(self.fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        if got == 8 {
            return Ok(u64::from_ne_bytes(bytes));
        }
        let errno = if got < 0 { Errno::last() } else { Errno::EIO };
        Err(Error::system("read the count of", self.what.as_str(), errno))
    }

    fn ioctl(&self, action: &'static str, request: u64, argument: libc::c_ulong) -> Result<()> {
        // SAFETY: these requests take a number, not an address.
        let answer = unsafe { libc::ioctl(self.fd.as_raw_fd(), request as libc::Ioctl, argument) };
        if answer < 0 {
            Err(Error::system(action, self.what.as_str(), Errno::last()))
        } else {
            Ok(())
        }
    }
}

/// The numbers of the kernel's dynamic perf units, from sysfs.
struct ProbeUnit {
    kind: u32,
    /// The bit of `config` that asks for the return.
    at_return: u64,
}

impl ProbeUnit {
    fn read(host: &Host, unit: &str, what: &'static str) -> Result<Self> {
        let place = format!("/sys/bus/event_source/devices/{unit}");
        let kind = host
            .read_number(format!("{place}/type"))
            .map_err(|_| Error::Unavailable {
                what,
                why: format!("this kernel has no {}/type", host.path(&place).display()),
            })?;
        let format = host.read(format!("{place}/format/retprobe"))?;
        let bit: u32 = format
            .trim()
            .trim_start_matches("config:")
            .parse()
            .map_err(|_| Error::Format {
                subject: format!("{place}/format/retprobe"),
                why: format!("`{}` is not a bit of config", format.trim()),
            })?;
        Ok(Self {
            kind,
            at_return: 1u64.checked_shl(bit).unwrap_or(0),
        })
    }
}

fn text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::Argument {
        subject: text.to_owned(),
        why: "a name cannot contain a zero byte".to_owned(),
    })
}

/// Addresses in `attributes` are this module's own, of strings that outlive the call.
fn open(attributes: Attributes, target: PerfTarget, what: String) -> Result<PerfEvent> {
    let (pid, cpu) = target.numbers();
    open_at(attributes, (pid, cpu, 0), None, what)
}

/// Like [`open`], by the call's own numbers, as a member of a group.
fn open_at(
    mut attributes: Attributes,
    (pid, cpu, flags): (i32, i32, u64),
    group: Option<BorrowedFd<'_>>,
    what: String,
) -> Result<PerfEvent> {
    attributes.size = size_of::<Attributes>() as u32;
    // SAFETY: the structure has the size it says, and the only addresses in it are of NUL-terminated strings of the callers, alive during
    // the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(&attributes),
            pid,
            cpu,
            group.map_or(-1, |leader| leader.as_raw_fd()),
            FLAG_CLOEXEC | flags,
        )
    };
    if fd < 0 {
        return Err(Error::system("open the perf event of", what, Errno::last()).of(Interface::PerfEvent));
    }
    // SAFETY: the kernel has just opened this descriptor for us and nobody else knows it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    Ok(PerfEvent { fd, what })
}
