//! Processor time that children of this process have used.

use std::time::Duration;

/// Processor time of children that were waited for, and of theirs: in user space, and in the kernel.
pub fn children_times() -> (Duration, Duration) {
    // SAFETY: a plain structure that the kernel fills; all zeros are one.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `used` is room for what the kernel writes; it cannot fail for this argument.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut used) };
    let time = |it: libc::timeval| {
        Duration::from_secs(it.tv_sec.unsigned_abs()) + Duration::from_micros(it.tv_usec.unsigned_abs())
    };
    (time(used.ru_utime), time(used.ru_stime))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_times_of_a_child_are_added_once_it_was_waited_for() {
        let total = || {
            let (user, system) = children_times();
            user + system
        };
        let before = total();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        assert!(
            Command::new("sh")
                .args(["-c", script])
                .status()
                .unwrap()
                .success()
        );
        assert!(total() > before);
    }
}
