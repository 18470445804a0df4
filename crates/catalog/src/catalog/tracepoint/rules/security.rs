//! Field rules of tracepoints of capabilities.

use super::row::Row;

pub(super) const ROWS: &[Row] = &[(
    "capability:cap_capable",
    &[("capable_ns", "ret == 0 ? (uint64)capable_ns : 0")],
)];
