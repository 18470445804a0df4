//! `system`: a command.

use super::reached::{Effect, Output};

pub(super) static SYSTEM: Output = Output {
    verb: "system",
    effect: |reached| Effect::Run {
        command: reached.plain(reached.text),
    },
};
