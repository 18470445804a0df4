//! `exit`.

use super::{Effect, Output};

pub(super) static EXIT: Output = Output {
    verb: "exit",
    effect: |reached| Effect::Exit {
        code: reached.number(0),
    },
};
