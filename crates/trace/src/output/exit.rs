//! The output of `exit`: ends the program.

use super::reached::{Effect, Output};

pub(super) static EXIT: Output = Output {
    verb: "exit",
    needs_trust: false,
    effect: |reached| Effect::Exit {
        code: reached.number(0),
    },
};
