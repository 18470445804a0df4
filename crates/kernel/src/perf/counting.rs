//! Perf events that only count, for the whole of a command, a process, a cgroup or a CPU: what `stat` reads; no sampling, no programs.

use super::attributes::{Attributes, FLAGS};
use super::{Counter, PerfEvent, open_at};
use crate::error::{Errno, Error, Result};
use bytemuck::Zeroable;
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Scope of a counter: a thread, a cgroup, or all processes.
#[derive(Clone, Copy, Debug)]
pub enum CountedTasks<'a> {
    /// All processes; needs a CPU.
    All,
    /// One thread, wherever it runs.
    Thread(u32),
    /// Tasks of a cgroup, whose directory is open, and of the cgroups below it; needs a CPU.
    Cgroup(&'a File),
}

/// Privilege levels that are counted: user space, the kernel, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Levels {
    /// Whether it counts in user space.
    pub user: bool,
    /// Whether it counts in the kernel.
    pub kernel: bool,
}

impl Levels {
    /// Counting in user space and in the kernel.
    pub const ALL: Self = Self {
        user: true,
        kernel: true,
    };
}

/// Inheritance of a counter by tasks that are created later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// Tasks that are created later are not counted.
    Nothing,
    /// New threads of its process (Linux 5.13; before, [`Inherit::Children`]).
    Threads,
    /// New threads and processes, and theirs.
    Children,
}

/// When counting begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With [`PerfEvent::enable`] of the event, or of its group's leader.
    WhenEnabled,
    /// With the exec of the thread.
    AtExec,
}

/// An event to be opened for counting.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// The counted event.
    pub counter: &'a Counter,
    /// Privilege levels in which it is counted.
    pub levels: Levels,
    /// Tasks that are counted.
    pub whose: CountedTasks<'a>,
    /// On this CPU only; without one, wherever the thread runs.
    pub cpu: Option<u32>,
    /// Inheritance by later tasks.
    pub inherit: Inherit,
    /// When counting begins.
    pub begin: Begin,
}

/// Reading of an event's count, with the time for which it was wanted and that for which it had a counter: they differ where the
/// processor has too few counters for all events and the kernel lets them take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The value of the counter.
    pub value: u64,
    /// Nanoseconds since it was enabled, of the tasks' time where it counts tasks.
    pub enabled: u64,
    /// Nanoseconds of these in which it counted.
    pub running: u64,
}

/// `PERF_FORMAT_TOTAL_TIME_ENABLED` and `PERF_FORMAT_TOTAL_TIME_RUNNING`.
const TIMES: u64 = 1 | 2;
/// `PERF_FLAG_PID_CGROUP`.
const FLAG_CGROUP: u64 = 4;
/// Bits of `flags`.
const EXCLUDE_USER: u64 = 1 << 4;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const ENABLE_ON_EXEC: u64 = 1 << 12;

impl Counted<'_> {
    fn flags(&self, leads: bool) -> u64 {
        let mut flags = match self.inherit {
            Inherit::Nothing => 0,
            Inherit::Threads => FLAGS.inherit | FLAGS.inherit_thread,
            Inherit::Children => FLAGS.inherit,
        };
        if !self.levels.user {
            flags |= EXCLUDE_USER;
        }
        if !self.levels.kernel {
            flags |= EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
        }
        match self.begin {
            // The members of a group count while their leader does.
            _ if !leads => {}
            Begin::WhenEnabled => flags |= FLAGS.disabled,
            Begin::AtExec => flags |= FLAGS.disabled | ENABLE_ON_EXEC,
        }
        flags
    }

    fn place(&self) -> (i32, i32, u64) {
        let cpu = self.cpu.map_or(-1, u32::cast_signed);
        match self.whose {
            CountedTasks::All => (-1, cpu, 0),
            CountedTasks::Thread(thread) => (thread.cast_signed(), cpu, 0),
            CountedTasks::Cgroup(directory) => (directory.as_raw_fd(), cpu, FLAG_CGROUP),
        }
    }
}

impl PerfEvent {
    /// An event that counts; as a member of the group of `leader`, only while all of the group have a counter.
    ///
    /// # Errors
    /// [`Error::System`]: `ENOENT`, `EOPNOTSUPP`, `ENODEV` where the machine cannot count it, `ESRCH` for a thread that has ended, `EACCES` without
    /// privilege.
    pub fn counting(counted: &Counted<'_>, leader: Option<&Self>) -> Result<Self> {
        let leads = leader.is_none();
        let attributes = Attributes {
            kind: counted.counter.kind,
            config: counted.counter.config,
            config1: counted.counter.config1,
            config2: counted.counter.config2,
            read_format: TIMES,
            flags: counted.flags(leads),
            ..Zeroable::zeroed()
        };
        let group: Option<BorrowedFd<'_>> = leader.map(|leader| std::os::fd::AsFd::as_fd(leader));
        let open = |attributes| {
            open_at(
                attributes,
                counted.place(),
                group,
                counted.counter.name.to_string(),
            )
        };
        match open(attributes) {
            Err(error) if counted.inherit == Inherit::Threads && is_unknown(&error) => {
                let flags = attributes.flags & !FLAGS.inherit_thread;
                open(Attributes { flags, ..attributes })
            }
            opened => opened,
        }
    }

    /// Reading of a counting event, children that were inherited to included.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn reading(&self) -> Result<Reading> {
        let mut words = [0u64; 3];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        // SAFETY: the buffer has the bytes that are asked for.
        let got = unsafe { libc::read(self.fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        match got {
            24 => Ok(Reading {
                value: words[0],
                enabled: words[1],
                running: words[2],
            }),
            // A member of a group that the kernel could not put onto the processor's counters at all.
            0 => Ok(Reading::default()),
            got => {
                let errno = if got < 0 { Errno::last() } else { Errno::EIO };
                Err(Error::system("read the count of", self.what.as_str(), errno))
            }
        }
    }
}

/// Whether the kernel does not know a bit of the attributes.
fn is_unknown(error: &Error) -> bool {
    error.errno() == Some(Errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::Software;

    fn counted(counter: &Counter, inherit: Inherit) -> Counted<'_> {
        Counted {
            counter,
            levels: Levels::ALL,
            whose: CountedTasks::Thread(0),
            cpu: None,
            inherit,
            begin: Begin::WhenEnabled,
        }
    }

    #[test]
    fn page_faults_of_this_thread_are_counted_while_it_is_enabled() {
        let counter = Counter::from(Software::PageFaults);
        let event = match PerfEvent::counting(&counted(&counter, Inherit::Nothing), None) {
            Ok(event) => event,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        assert_eq!(event.reading().unwrap(), Reading::default());
        event.enable().unwrap();
        // So much comes from the kernel, never out of what was freed; in huge pages at best.
        let pages = vec![1u8; 64 << 20];
        event.disable().unwrap();
        let reading = event.reading().unwrap();
        assert!(reading.value >= 16, "{} {reading:?}", pages.len());
        assert!(reading.running > 0 && reading.running == reading.enabled);
        let again = vec![1u8; 64 << 20];
        assert_eq!(event.reading().unwrap(), reading, "{}", again.len());
    }

    #[test]
    fn members_and_children_have_no_switch_of_their_own() {
        let counter = Counter::from(Software::TaskClock);
        let mut counted = counted(&counter, Inherit::Children);
        counted.begin = Begin::AtExec;
        counted.levels.kernel = false;
        assert_eq!(
            counted.flags(true),
            FLAGS.inherit | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | FLAGS.disabled | ENABLE_ON_EXEC
        );
        assert_eq!(
            counted.flags(false),
            FLAGS.inherit | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR
        );
    }
}
