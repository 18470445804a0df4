//! The language's maps as BPF maps: under which name programs refer to one, and what it is; where bytes lie in it is
//! [`kestrel_trace::aggregate`]'s.

use crate::ir::{MapKind, MapSpec};
use kestrel_trace::aggregate::{MapType, state};

/// The external name of a map: one BPF map, shared by all programs of a session.
pub fn external_name(map: &MapType) -> String {
    format!("map:{}", map.name)
}

/// The external name of the stacks that are keys of a map.
pub fn stacks_name(map: &MapType) -> String {
    format!("stacks:{}", map.name)
}

/// The BPF map that holds the stacks which are keys of a map, by their numbers; none where no key is a stack.
pub fn stacks_spec(map: &MapType) -> Option<MapSpec> {
    Some(MapSpec {
        name: format!("stacks_{}", map.name.replace(' ', "_")),
        kind: MapKind::StackTrace,
        key: 4,
        value: map.most_frames()?.max(1) * 8,
        entries: map.stacks(),
        flags: 0,
    })
}

/// The BPF map of a map; all kinds of hash are preallocated, so that programs in interrupts can add keys.
pub fn spec(map: &MapType) -> MapSpec {
    let kind = match (
        map.keys.is_empty(),
        map.value.is_per_cpu() && !map.value.is_shared(),
    ) {
        (true, true) => MapKind::PerCpuArray,
        (true, false) => MapKind::Array,
        (false, true) if map.evicts => MapKind::PerCpuLruHash,
        (false, true) => MapKind::PerCpuHash,
        (false, false) if map.evicts => MapKind::LruHash,
        (false, false) => MapKind::Hash,
    };
    MapSpec {
        name: format!("map_{}", map.name.replace(' ', "_")),
        kind,
        key: map.key_size(),
        value: map.value.size(),
        entries: map.entries.max(1),
        flags: 0,
    }
}

/// `BPF_F_MMAPABLE`: user space reads generations and empties maps without a system call per word.
const MMAPABLE: u32 = 1 << 10;

/// The state map, external name [`state::MAP`]: one per session that has maps, with zeroes for the largest value of these.
pub fn state_spec<'m>(maps: impl IntoIterator<Item = &'m MapType>) -> MapSpec {
    let with_keys = maps.into_iter().filter(|map| !map.keys.is_empty());
    let largest = with_keys.map(|map| map.value.size()).max().unwrap_or_default();
    MapSpec {
        name: state::MAP.to_owned(),
        kind: MapKind::Array,
        key: 4,
        value: state::ZEROES + largest.max(state::MAX_VALUE),
        entries: 1,
        flags: MMAPABLE,
    }
}
