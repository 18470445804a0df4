//! Ways to take the call stack of a process, for recordings of events and of system calls.

/// Method of taking the call stack of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserStack {
    /// No stacks.
    #[default]
    Nothing,
    /// By frame pointers.
    FramePointers,
    /// By a copy of the stack, from which a recorder finds the frames at its end.
    Copy {
        /// Number of bytes.
        bytes: u32,
    },
}

impl UserStack {
    /// Text in the language.
    pub(crate) fn text(self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::FramePointers => Some("ustack".to_owned()),
            Self::Copy { bytes } => Some(format!("ustack = ustack_copy({bytes})")),
        }
    }
}
