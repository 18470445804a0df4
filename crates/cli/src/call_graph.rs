//! perf's way to say how call stacks are taken: `--call-graph fp`, `--call-graph dwarf[,BYTES]`.

use crate::arguments::bytes;
use kestrel::plan::UserStack;
use kestrel_trace::stack_pieces::{MAX, USUAL};

/// Method of taking call stacks of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallGraph {
    /// By frame pointers, in the kernel.
    FramePointers,
    /// By a copy of so many bytes of its stack, unwound by the recorder.
    Dwarf { bytes: u32 },
}

impl CallGraph {
    /// Method by which the planner adds user stacks to records.
    pub(crate) fn user_stack(self) -> UserStack {
        match self {
            Self::FramePointers => UserStack::FramePointers,
            Self::Dwarf { bytes } => UserStack::Copy { bytes },
        }
    }
}

/// Parses what stands behind `--call-graph`.
pub(crate) fn call_graph(text: &str) -> Result<CallGraph, String> {
    let (kind, size) = match text.split_once(',') {
        Some((kind, size)) => (kind, Some(size)),
        None => (text, None),
    };
    match (kind, size) {
        ("fp", None) => Ok(CallGraph::FramePointers),
        ("dwarf", None) => Ok(CallGraph::Dwarf { bytes: USUAL }),
        ("dwarf", Some(size)) => {
            let bytes = bytes(size)?;
            match u32::try_from(bytes) {
                Ok(bytes) if (8..=MAX).contains(&bytes) => Ok(CallGraph::Dwarf { bytes }),
                _ => Err(format!(
                    "8 to {MAX} bytes of a stack can be copied; without a size it is {USUAL}"
                )),
            }
        }
        ("lbr", _) => Err("Kestrel does not read the processor's branch records; use fp or dwarf".to_owned()),
        _ => Err(
            "use fp (frame pointers), dwarf or dwarf,BYTES (a copy of the stack, unwound later)".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfs_spelling_is_understood_and_what_does_not_fit_refused() {
        assert_eq!(call_graph("fp"), Ok(CallGraph::FramePointers));
        assert_eq!(call_graph("dwarf"), Ok(CallGraph::Dwarf { bytes: 8192 }));
        assert_eq!(call_graph("dwarf,2k"), Ok(CallGraph::Dwarf { bytes: 2048 }));
        assert_eq!(call_graph("dwarf,65528"), Ok(CallGraph::Dwarf { bytes: 65_528 }));
        for wrong in ["dwarf,65529", "dwarf,0", "dwarf,x", "fp,1", "lbr", ""] {
            assert!(call_graph(wrong).is_err(), "{wrong}");
        }
    }
}
