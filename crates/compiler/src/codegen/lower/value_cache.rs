//! Cache of the kernel's values that are in registers already on every path to a point, so that one call serves predicate and record.

use crate::check::tree::Intrinsic;
use crate::ir::Vreg;

/// Intrinsics with the registers that hold them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ValueCache(Vec<(Intrinsic, Vreg)>);

impl ValueCache {
    /// The register that holds it.
    pub(super) fn get(&self, intrinsic: Intrinsic) -> Option<Vreg> {
        self.0.iter().find(|(i, _)| *i == intrinsic).map(|(_, v)| *v)
    }

    /// Remembers a value, if it is the same for the whole run of the program.
    pub(super) fn put(&mut self, intrinsic: Intrinsic, v: Vreg) {
        if !matches!(intrinsic, Intrinsic::Helper { fixed: false, .. }) {
            self.0.push((intrinsic, v));
        }
    }

    /// Values that are known on both of two paths.
    pub(super) fn common(&self, other: &Self) -> Self {
        Self(
            self.0
                .iter()
                .filter(|entry| other.0.contains(entry))
                .copied()
                .collect(),
        )
    }
}
