//! Stacks in a fixed number of bytes: in keys and values of maps, and in tuples.

use super::Space;
use serde::{Deserialize, Serialize};

/// Format of printed stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StackMode {
    /// `vfs_read+5`, a frame a line.
    #[default]
    Bpftrace,
    /// `ffffffff81234567 vfs_read+5 (module)`, as `perf script` has frames.
    Perf,
    /// `ffffffff81234567`.
    Raw,
    /// `BUILD_ID OFFSET`: of processes only.
    BuildId,
}

/// Storage of a stack's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Frames {
    /// `count i64 | frames, innermost first | pid u32, zero u32`: below 0 the count is an error. A frame is an address (8 bytes), or the kernel's
    /// `struct bpf_stack_build_id` (32 bytes) where the mode is [`StackMode::BuildId`]; those behind the count are zero.
    Inline,
    /// `number i64 | pid u32, zero u32`: the number that the kernel gave it in the table of stacks beside the map; below 0 it is an error.
    Numbered,
}

/// A stack in a fixed number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldStack {
    /// Address space of the frames.
    pub space: Space,
    /// Most frames.
    pub max: u32,
    /// Format in which the stack is printed.
    pub mode: StackMode,
    /// Where its frames are.
    pub frames: Frames,
}

impl HeldStack {
    /// Bytes of a frame.
    pub(crate) fn frame_size(&self) -> u32 {
        match self.mode {
            StackMode::BuildId => 32,
            _ => 8,
        }
    }

    /// The bytes; it is aligned to 8.
    pub fn size(&self) -> u32 {
        match self.frames {
            Frames::Inline => self.pid_offset().saturating_add(8),
            Frames::Numbered => 16,
        }
    }

    /// Bytes before the process's number.
    pub(crate) fn pid_offset(&self) -> u32 {
        match self.frames {
            Frames::Inline => self.max.saturating_mul(self.frame_size()).saturating_add(8),
            Frames::Numbered => 8,
        }
    }
}
