//! perf's way to say how call stacks are taken: `--call-graph fp`, `--call-graph dwarf[,BYTES]`.

use crate::arguments::bytes;
use kestrel::plan::UserStack;
use kestrel_trace::layout::COPIED_REGISTERS;
use kestrel_trace::packet::CAPACITY;

/// How the stack of the process is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallGraph {
    /// By frame pointers, in the kernel.
    FramePointers,
    /// By a copy of its stack, unwound by the recorder; without a size, as large as a record has room for.
    Dwarf { bytes: Option<u32> },
}

impl CallGraph {
    /// What the planner is to add to records.
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
        ("dwarf", None) => Ok(CallGraph::Dwarf { bytes: None }),
        ("dwarf", Some(size)) => {
            let most = CAPACITY - COPIED_REGISTERS * 8;
            let bytes = bytes(size)?;
            match u32::try_from(bytes) {
                Ok(bytes) if (8..=most).contains(&bytes) => Ok(CallGraph::Dwarf { bytes: Some(bytes) }),
                _ => Err(format!(
                    "a record has room for 8 to {most} bytes of a stack; without a size it takes what the other fields leave"
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
        assert_eq!(call_graph("dwarf"), Ok(CallGraph::Dwarf { bytes: None }));
        assert_eq!(call_graph("dwarf,2k"), Ok(CallGraph::Dwarf { bytes: Some(2048) }));
        for wrong in ["dwarf,8192", "dwarf,0", "dwarf,x", "fp,1", "lbr", ""] {
            assert!(call_graph(wrong).is_err(), "{wrong}");
        }
    }
}
