//! The output of `clear` and `zero`, after the kernel's part: a new generation began.

use super::reached::{Effect, Output};

pub(super) static CLEARED: Output = Output {
    verb: "cleared",
    needs_trust: false,
    effect: |reached| Effect::Cleared {
        name: reached.text.to_owned(),
        generation: reached.number(0).cast_unsigned(),
        zeroed: false,
    },
};

pub(super) static ZEROED: Output = Output {
    verb: "zeroed",
    needs_trust: false,
    effect: |reached| Effect::Cleared {
        name: reached.text.to_owned(),
        generation: reached.number(0).cast_unsigned(),
        zeroed: true,
    },
};
