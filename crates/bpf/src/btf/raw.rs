//! Numbers of the format: the header's, the types', and how they are read from a blob.

pub(super) const MAGIC: u16 = 0xeb9f;
/// Bytes of the header.
pub(super) const HEADER: usize = 24;
/// Bytes of `struct btf_type`.
pub(super) const TYPE: usize = 12;

/// Number of a type within a BTF blob and its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

impl TypeId {
    /// `void`.
    pub const VOID: Self = Self(0);
}

/// The 32-bit number at byte `at`, if that many bytes are there.
pub(crate) fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}
