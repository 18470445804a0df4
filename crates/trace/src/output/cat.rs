//! `cat`: what a file holds.

use super::reached::{Effect, Output};

pub(super) static CAT: Output = Output {
    verb: "cat",
    needs_trust: true,
    effect: |reached| Effect::Cat {
        path: reached.plain(reached.text),
    },
};
