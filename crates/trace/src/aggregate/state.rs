//! The bytes of the state map: one array value per session with some words for each map, and zeroes; no keys or values of maps.

/// Name by which programs refer to it.
pub const MAP: &str = "map_state";
/// Most maps of a session.
pub const MOST_MAPS: u32 = 256;
/// Bytes per map.
const PER_MAP: u32 = 24;
/// Where nothing is ever written: what the first value under a key is made from.
pub const ZEROES: u32 = MOST_MAPS * PER_MAP;
/// Most bytes of a value.
pub const MOST_VALUE: u32 = 16384;
/// Bytes of the map's one value.
pub const SIZE: u32 = ZEROES + MOST_VALUE;

/// Offset of a map's generation: `clear` adds 1.
pub const fn generation(number: u32) -> u32 {
    number * PER_MAP
}

/// Offset of the number of updates that found no room (or a bucket that was locked by what they interrupted).
pub const fn lost(number: u32) -> u32 {
    number * PER_MAP + 8
}

/// Offset of the generation that began with `zero` last.
pub const fn zeroed(number: u32) -> u32 {
    number * PER_MAP + 16
}

/// A word of the state's bytes; 0 beyond their end.
pub fn word(state: &[u8], offset: u32) -> u64 {
    let bytes = state.get(offset as usize..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
