//! From syntax tree to checked tree: names, types and walks through the kernel's types; no instructions.

pub mod tree;
