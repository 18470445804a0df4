//! `system`: a command.

use super::{Effect, Output};

pub(super) static SYSTEM: Output = Output {
    verb: "system",
    effect: |reached| Effect::Run {
        command: reached.plain(reached.text),
    },
};
