//! A word of a line of `kprobe_events`, and what is wrong with one.

/// An error in a line, and its offset in bytes.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) why: String,
}

impl Wrong {
    pub(super) fn at(at: usize, why: impl Into<String>) -> Self {
        Self { at, why: why.into() }
    }
}

/// Result of parsing a part of a line.
pub(super) type Parsed<T> = std::result::Result<T, Wrong>;

/// A word of a line and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'l> {
    pub(super) text: &'l str,
    pub(super) at: usize,
}
