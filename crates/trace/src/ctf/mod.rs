//! Common Trace Format 1.8, both ways: metadata text, packets, and the directory that holds them; only `directory` touches files.

pub mod ahead;
pub mod block;
mod block_file;
pub mod directory;
pub mod merge;
pub mod metadata;
pub mod packed;
pub mod packet;
pub mod pages;
pub mod read;
pub mod rewrite;
pub mod write;

/// Name of the file that holds the metadata text.
pub(crate) const METADATA: &str = "metadata";

/// The folder within a trace for what CTF cannot hold; readers of CTF skip hidden entries.
pub const SIDE: &str = ".kestrel";
