//! Kernels before 5.11 count the memory of maps and programs as locked memory of the user and refuse with `EPERM` above `RLIMIT_MEMLOCK`.

use crate::error::Errno;

/// Calls `attempt`; if it is refused with `EPERM`, once more without that limit. The limit is lifted for good if that helped, else restored.
pub(super) fn attempt<T>(mut attempt: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    match attempt() {
        Err(Errno::EPERM) => {}
        other => return other,
    }
    let refused = Err(Errno::EPERM);
    let Some(before) = limit() else { return refused };
    if before.rlim_cur == libc::RLIM_INFINITY || !set(libc::RLIM_INFINITY, libc::RLIM_INFINITY) {
        return refused;
    }
    let second = attempt();
    if second.is_err() {
        set(before.rlim_cur, before.rlim_max);
    }
    second
}

fn limit() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a structure of this process for the kernel to fill in.
    let answer = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    (answer == 0).then_some(limit)
}

fn set(soft: libc::rlim_t, hard: libc::rlim_t) -> bool {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: `limit` is a structure of this process for the kernel to read.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_is_tried_again_and_the_limit_is_put_back() {
        let mut times = 0;
        let mut count = |answer: Result<u32, Errno>| {
            times = 0;
            let result = attempt(|| {
                times += 1;
                answer
            });
            (result, times)
        };
        assert_eq!(count(Ok(7)), (Ok(7), 1));
        assert_eq!(count(Err(Errno::EINVAL)), (Err(Errno::EINVAL), 1));
        let before = limit().map(|limit| (limit.rlim_cur, limit.rlim_max));
        let (refused, times) = count(Err(Errno::EPERM));
        assert_eq!(refused, Err(Errno::EPERM));
        assert!(times <= 2);
        // Root may put the hard limit back, too; this must hold whether or not it could be lifted.
        assert_eq!(limit().map(|limit| (limit.rlim_cur, limit.rlim_max)), before);
    }
}
