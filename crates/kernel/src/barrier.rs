//! Waiting until no program that began before still runs: a grace period of RCU, asked for from user space; not what the wait is for.

use crate::bpf::{Map, MapKind, MapSpec};
use crate::error::{Errno, Error, Result};
use std::os::fd::AsFd;

/// `MEMBARRIER_CMD_GLOBAL`: `synchronize_rcu` in kernel/sched/membarrier.c.
const GLOBAL: libc::c_long = 1;

/// Returns once every BPF program that ran when it was called has ended, on all CPUs. Takes some 10 to 50 ms.
///
/// # Errors
/// [`Error::System`] when neither way to wait works: `membarrier(2)`, which kernels with full dynticks refuse, and the update of a map in a map,
/// whose answer waits for programs that still use the old one (`maybe_wait_bpf_programs` in kernel/bpf/syscall.c).
pub fn wait_for_running_programs() -> Result<()> {
    // SAFETY: the call takes numbers only.
    let answer = unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) };
    if answer == 0 {
        return Ok(());
    }
    let refused = Errno::last();
    by_map().map_err(|_| Error::system("wait for", "programs that still run", refused))
}

fn by_map() -> Result<()> {
    let inner = Map::create(&MapSpec::new(MapKind::ARRAY, "kestrel_inner", 4, 4, 1))?;
    let mut spec = MapSpec::new(MapKind::ARRAY_OF_MAPS, "kestrel_outer", 4, 4, 1);
    spec.inner = Some(inner.as_fd());
    let outer = Map::create(&spec)?;
    outer.set_slot(0, inner.as_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_either_way() {
        wait_for_running_programs().unwrap();
        if let Err(error) = by_map() {
            let Error::System { errno, .. } = &error else {
                panic!("{error}")
            };
            assert!(errno.is_permission(), "{error}");
            println!("skipped: no privilege to make maps");
        }
    }
}
