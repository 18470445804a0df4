//! Layout of the state map, a session's array with one value: three words for each of the session's maps, then a word that says whether the map was written, then zeroes. The maps' keys and values are not in it.

/// Name by which programs refer to the state map.
pub const MAP: &str = "map_state";
/// Most maps of a session.
pub const MAX_MAPS: u32 = 256;
/// Bytes per map.
const PER_MAP: u32 = 24;
/// Offset of the words of [`written`]: apart from the others, which CPUs read that do not write the map.
const WRITTEN: u32 = MAX_MAPS * PER_MAP;
/// Offset of the zeroes, where nothing is ever written: the first value under a key is made from them.
pub const ZEROES: u32 = WRITTEN + MAX_MAPS * 8;
/// Most bytes of a map's value.
pub const MAX_VALUE: u32 = 16384;
/// Bytes of the state map's one value.
pub const SIZE: u32 = ZEROES + MAX_VALUE;

/// Offset of a map's generation, to which `clear` adds 1.
pub const fn generation(number: u32) -> u32 {
    number * PER_MAP
}

/// Offset of the number of updates that were lost: the map had no room, or the update interrupted code that had locked the bucket.
pub const fn lost(number: u32) -> u32 {
    number * PER_MAP + 8
}

/// Offset of the generation that the last `zero` began.
pub const fn zeroed(number: u32) -> u32 {
    number * PER_MAP + 16
}

/// Offset of a word that is not 0 once a value that may be 0 was stored since the map was last cleared: of maps that are [marked](super::MapType::marks).
pub const fn written(number: u32) -> u32 {
    WRITTEN + number * 8
}

/// Whether `zero` was the last to empty a map.
pub fn is_zeroed(state: &[u8], number: u32) -> bool {
    let generation = word(state, generation(number));
    generation > 0 && word(state, zeroed(number)) == generation
}

/// A word of the state's bytes; 0 beyond their end.
pub fn word(state: &[u8], offset: u32) -> u64 {
    let bytes = state.get(offset as usize..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
