//! Removing watchpoints while the session runs.

use super::{Attached, Session};
use kestrel_catalog::attach::Links;

impl Attached {
    /// Whether it is a watchpoint of an address.
    fn watches(&self, address: u64) -> bool {
        let counter = self.mechanism.as_ref().and_then(|it| it.counter());
        counter.is_some_and(|it| it.counter.is_breakpoint() && it.counter.config1 == address)
    }
}

impl Session {
    /// Removes the session's watchpoints of addresses, which frees their debug registers; none of them is attached again to CPUs that come online later. The
    /// list is empty afterwards.
    pub fn unwatch(&mut self, addresses: &mut Vec<u64>) {
        for address in addresses.drain(..) {
            for hook in self.hooks.iter_mut().filter(|hook| hook.watches(address)) {
                hook.links = Links::default();
                hook.mechanism = None;
            }
        }
    }
}
