//! `clear` and `zero`, which the kernel has done: a generation began.

use super::reached::{Effect, Output};

pub(super) static CLEARED: Output = Output {
    verb: "cleared",
    effect: |reached| Effect::Cleared {
        name: reached.text.to_owned(),
        generation: reached.number(0).cast_unsigned(),
        zeroed: false,
    },
};

pub(super) static ZEROED: Output = Output {
    verb: "zeroed",
    effect: |reached| Effect::Cleared {
        name: reached.text.to_owned(),
        generation: reached.number(0).cast_unsigned(),
        zeroed: true,
    },
};
