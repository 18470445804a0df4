//! The calling thread: its number, the CPU it runs on, its niceness.

use crate::error::{Errno, Error, Result};

/// The calling thread's number (`gettid`): what the kernel calls a pid.
pub fn thread_id() -> u32 {
    // SAFETY: a system call without memory of ours; it cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// Keeps the calling thread on one CPU.
///
/// # Errors
/// [`Error::System`]: `EINVAL` for a CPU that is not there or not allowed; [`Error::Argument`] beyond 1,023.
pub fn pin_to_cpu(cpu: u32) -> Result<()> {
    if cpu >= libc::CPU_SETSIZE as u32 {
        return Err(Error::Argument {
            subject: format!("CPU {cpu}"),
            why: "the number is too high".into(),
        });
    }
    // SAFETY: a CPU set is plain bits, for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below the set's size, checked above.
    unsafe { libc::CPU_SET(cpu as usize, &mut set) };
    // SAFETY: the set has the size that is given; 0 is the calling thread.
    let answer = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    if answer == 0 {
        Ok(())
    } else {
        Err(Error::system("move to", format!("CPU {cpu}"), Errno::last()))
    }
}

/// Sets the calling thread's niceness: -20 (highest priority) to 19 (lowest).
///
/// # Errors
/// [`Error::System`]: `EACCES` for a lower value without CAP_SYS_NICE.
pub fn set_niceness(nice: i32) -> Result<()> {
    // SAFETY: a system call without memory of ours; 0 is the calling thread.
    let answer = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    if answer == 0 {
        Ok(())
    } else {
        Err(Error::system(
            "set the niceness to",
            nice.to_string(),
            Errno::last(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::procfs::CpuList;

    #[test]
    fn a_pinned_thread_may_run_on_that_cpu_only() {
        let status = || {
            Host::default()
                .read(format!("/proc/self/task/{}/status", thread_id()))
                .unwrap()
        };
        let allowed = |status: &str| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
                .unwrap();
            CpuList::parse(line).unwrap()
        };
        let last = allowed(&status()).iter().last().unwrap();
        std::thread::spawn(move || {
            pin_to_cpu(last).unwrap();
            assert_eq!(allowed(&status()).iter().collect::<Vec<_>>(), [last]);
            set_niceness(10).unwrap();
            let stat = Host::default()
                .read(format!("/proc/self/task/{}/stat", thread_id()))
                .unwrap();
            let after_name = stat.rsplit(')').next().unwrap();
            assert_eq!(after_name.split_ascii_whitespace().nth(16), Some("10"));
        })
        .join()
        .unwrap();
        assert!(pin_to_cpu(5000).is_err());
    }
}
