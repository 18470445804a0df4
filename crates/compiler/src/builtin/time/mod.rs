//! Built-ins about time.

pub(super) mod elapsed;
pub(super) mod jiffies;
pub(super) mod nsecs;

use super::row::Builtin;

/// Rows of these built-ins.
pub(super) static ROWS: &[&Builtin] = &[&nsecs::NSECS, &elapsed::ELAPSED, &jiffies::JIFFIES];
