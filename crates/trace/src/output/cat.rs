//! `cat`: what a file holds.

use super::{Effect, Output};

pub(super) static CAT: Output = Output {
    verb: "cat",
    effect: |reached| Effect::Cat {
        path: reached.plain(reached.text),
    },
};
