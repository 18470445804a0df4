//! The filter of sessions that an agent serves.

/// The sessions named on the command line; all where none is.
#[derive(Clone, Debug)]
pub(super) struct SessionFilter(pub(super) Vec<String>);

impl SessionFilter {
    pub(super) fn is(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|chosen| chosen == name)
    }
}
