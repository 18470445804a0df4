//! Field rules of tracepoints of interrupts and exceptions.

use super::row::{Fields, Row};

const SOFTIRQ: Fields = &[("vec", "vec_nr")];
const PAGE_FAULT: Fields = &[
    ("address", "address"),
    ("ip", "regs->ip"),
    ("error_code", "error_code"),
];

pub(super) const ROWS: &[Row] = &[
    (
        "irq:irq_handler_entry",
        &[("irq", "irq"), ("name", "kstr(action->name)")],
    ),
    ("irq:irq_handler_exit", &[("irq", "irq"), ("ret", "ret")]),
    ("irq:softirq_entry", SOFTIRQ),
    ("irq:softirq_exit", SOFTIRQ),
    ("irq:softirq_raise", SOFTIRQ),
    ("exceptions:page_fault_user", PAGE_FAULT),
    ("exceptions:page_fault_kernel", PAGE_FAULT),
    (
        "irq_vectors:vector_alloc",
        &[("vector", "ret < 0 ? 0 : vector"), ("ret", "ret > 0 ? 0 : ret")],
    ),
    (
        "irq_vectors:vector_alloc_managed",
        &[("vector", "ret < 0 ? 0 : vector"), ("ret", "ret > 0 ? 0 : ret")],
    ),
];
