//! Where a kernel keeps the preemption count.

use super::{Btf, Kind, TypeId};

impl Btf {
    /// The variable of each CPU that has the preemption count, and at which byte of it: x86 has it in `pcpu_hot` from Linux 6.2 to 6.14.
    pub fn preempt_count(&self) -> Option<(TypeId, u32)> {
        if let Some(id) = self.find(Kind::Var, "__preempt_count") {
            return Some((id, 0));
        }
        let id = self.find(Kind::Var, "pcpu_hot")?;
        let hot = self.find(Kind::Struct, "pcpu_hot")?;
        let place = self.find_member(hot, "preempt_count")?;
        Some((id, place.bit_offset / 8))
    }
}
