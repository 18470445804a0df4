//! Keys that mean the same in every view.

use super::Help;

/// A key, what it does in a word, and in a sentence.
pub(crate) const fn help(key: &'static str, brief: &'static str, about: &'static str) -> Help {
    Help { key, brief, about }
}

pub(crate) const FIND: Help = help(
    "/",
    "find",
    "only rows with these words; ! before a word: without it",
);
pub(crate) const SORT: Help = help("< >", "sort", "sorts by the column beside");
pub(crate) const REVERSE: Help = help("R", "reverse", "turns the order round");
pub(crate) const HELP: Help = help("?", "help", "this help (also F1)");
pub(crate) const QUIT: Help = help("q", "quit", "quits (also Ctrl-C)");
pub(crate) const STOP: Help = help("Ctrl-Z", "stop", "stops the view, as programs do; fg goes on");

/// Asserts that a page of the documentation has every key of a view.
#[cfg(test)]
pub(crate) fn assert_page(page: &str, keys: &[Help]) {
    for key in keys.iter().flat_map(|help| help.key.split(' ')) {
        assert!(page.contains(&format!("`{key}`")), "{key}");
    }
}
