//! The kernel's types (BTF): reading, finding, walking.

/// Number of a type within a BTF blob and its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// A parsed BTF blob.
#[derive(Debug)]
pub struct Btf {}
