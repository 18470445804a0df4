//! `system`: a command.

use super::reached::{Effect, Output};

pub(super) static SYSTEM: Output = Output {
    verb: "system",
    needs_trust: true,
    effect: |reached| Effect::Run {
        command: reached.plain(reached.text),
    },
};
