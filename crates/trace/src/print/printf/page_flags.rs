//! Names of the kernel's flags of page allocations, as `%pGg` of its own printk has them (include/trace/events/mmflags.h): sets before their parts.

use crate::layout::Names;
use std::sync::LazyLock;

/// Bits of kernels since 6.9: those of older ones above `__GFP_ACCOUNT` are the same or have none of these names.
const NAMES: &[(i64, &str)] = &[
    (0x1d_24ca, "GFP_TRANSHUGE_LIGHT_PLACEHOLDER"),
];

/// The table, as flags of records have theirs.
pub(super) static PAGE_FLAGS: LazyLock<Names> =
    LazyLock::new(|| NAMES.iter().map(|(bits, name)| (*bits, (*name).to_owned())).collect());
