//! The maps a program needs: private ones to be made for it, and those of its surroundings, by name; never descriptors.

/// Kind of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapKind {
    /// `BPF_MAP_TYPE_ARRAY`.
    Array,
    /// `BPF_MAP_TYPE_PERCPU_ARRAY`.
    PerCpuArray,
    /// `BPF_MAP_TYPE_HASH`.
    Hash,
    /// `BPF_MAP_TYPE_PERCPU_HASH`.
    PerCpuHash,
    /// `BPF_MAP_TYPE_LRU_HASH`.
    LruHash,
    /// `BPF_MAP_TYPE_LRU_PERCPU_HASH`.
    PerCpuLruHash,
    /// `BPF_MAP_TYPE_PROG_ARRAY`.
    ProgramArray,
    /// `BPF_MAP_TYPE_STACK_TRACE`.
    StackTrace,
}

/// A map to be made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MapSpec {
    /// For people; at most 15 bytes reach the kernel.
    pub name: String,
    /// The kind of map.
    pub kind: MapKind,
    /// Bytes of a key.
    pub key: u32,
    /// Bytes of a value.
    pub value: u32,
    /// Entries at most.
    pub entries: u32,
    /// `BPF_F_*` of map creation.
    pub flags: u32,
}

/// A map that a program refers to; its place in [`super::Function::maps`] is its [`kestrel_bpf::code::MapRef`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MapUse {
    /// Made for this program alone and dropped with it.
    Private(MapSpec),
    /// Belongs to the surroundings (a session's ring or control page); the name is agreed between the sink and the loader.
    External(String),
}
