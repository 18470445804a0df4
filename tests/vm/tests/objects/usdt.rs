//! Marks of programs (USDT): their arguments from registers, memory and constants, and the counter by which a program knows of listeners.
#![allow(clippy::unwrap_used, reason = "a test's helpers may panic as the test may")]

use crate::held::{gone, held, last_value, shown};
use vm_tests::{kestrel, shell};

#[test]
fn arguments_of_marks_are_read_wherever_they_are() {
    let before = held();
    assert_eq!(shell("/object_marks").code, Some(0), "nobody listens");
    let out = shown(&["/object_usdt.o"], || {
        assert_eq!(
            shell("/object_marks").code,
            Some(1),
            "the kernel raises the counter"
        );
    });
    let values = last_value(&out, ".bss", 0);
    assert_eq!(values["hits"], 40, "{values}");
    assert_eq!(values["count"], 5, "{values}");
    assert_eq!(values["seen"], serde_json::json!([-3, 7, 5, 30, 39]), "{values}");
    assert_eq!(shell("/object_marks").code, Some(0), "and lowers it again");
    let wrong = kestrel(&["bpf", "run", "/object_usdt.o", "on_mark=/object_marks:own:mork"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
    assert!(wrong.err.contains("own:mark"), "near names: {}", wrong.err);
    let none = kestrel(&["bpf", "run", "/object_usdt.o", "on_mark=/object_usdt.o:own:mark"]);
    assert!(none.err.contains("no USDT probes"), "{}", none.err);
    gone(&before);
}
