//! The output of `unwatch`: removes the watchpoints of an address.

use super::reached::{Effect, Output};

pub(super) static UNWATCH: Output = Output {
    verb: "unwatch",
    needs_trust: false,
    effect: |reached| Effect::Unwatch {
        address: reached.number(0).cast_unsigned(),
    },
};
