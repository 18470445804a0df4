//! The dynamic loader's cache of libraries (`/etc/ld.so.cache`, glibc's format 1.1): which file a name stands for.

use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};

/// Path of the loader's cache.
const PATH: &str = "/etc/ld.so.cache";

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// Bytes of the header and of an entry behind it.
const HEADER: usize = 48;
const ENTRY: usize = 24;
/// Offset of the number of entries in the header.
const COUNT: usize = 20;
/// `FLAG_X8664_LIB64 | FLAG_ELF_LIBC6`: libraries of 64-bit programs.
const WORD_64: u32 = 0x0303;

/// Identity of a version of the file: inode, length and time of change.
type Version = (u64, u64, i64, i64);

/// The version that was read last.
static READ: Mutex<Option<(Version, Arc<[u8]>)>> = Mutex::new(None);

/// The cache, which is read when it is another than the last time: a script asks for the libraries of each of its probes. Empty where there is none.
pub(super) fn read() -> Arc<[u8]> {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let version = std::fs::metadata(PATH).map(|now| (now.ino(), now.len(), now.mtime(), now.mtime_nsec()));
    let version = version.unwrap_or_default();
    match &*read {
        Some((known, cache)) if *known == version => cache.clone(),
        _ => {
            let cache: Arc<[u8]> = std::fs::read(PATH).unwrap_or_default().into();
            *read = Some((version, cache.clone()));
            cache
        }
    }
}

/// The path of a library by its name (`libc.so.6`), or by what stands before `.so` in it (`libc`); `None` where the cache is damaged or does not list it.
///
/// Of several files for one name the loader takes by the processor's abilities; the one without conditions is taken here, as every processor may have it.
pub(super) fn find(cache: &[u8], name: &str) -> Option<String> {
    // A cache of the older format can stand before it; offsets count from here.
    let start = cache.windows(MAGIC.len()).position(|window| window == MAGIC)?;
    let cache = &cache[start..];
    let count = word(cache, COUNT)?;
    let stem = format!("{name}.so");
    let versions = format!("{stem}.");
    let mut best = None;
    for index in 0..count as usize {
        let at = HEADER + index * ENTRY;
        let (flags, key, value) = (word(cache, at)?, word(cache, at + 4)?, word(cache, at + 8)?);
        let conditions = (word(cache, at + 16)?, word(cache, at + 20)?);
        if flags != WORD_64 {
            continue;
        }
        let library = text(cache, key)?;
        let is_it = library == name || library == stem || library.starts_with(&versions);
        if is_it {
            let path = text(cache, value)?;
            // An exact name before a version of it, one without conditions before one with.
            let rank = (library != name, conditions != (0, 0));
            if best.as_ref().is_none_or(|(known, _)| rank < *known) {
                best = Some((rank, path.to_owned()));
            }
        }
    }
    best.map(|(_, path)| path)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn text(bytes: &[u8], at: u32) -> Option<&str> {
    let rest = bytes.get(at as usize..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(entries: &[(u32, &str, &str, u64)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((entries.len() as u32).to_le_bytes());
        bytes.resize(HEADER, 0);
        let mut strings = Vec::new();
        let begin = HEADER + entries.len() * ENTRY;
        for (flags, key, value, conditions) in entries {
            bytes.extend(flags.to_le_bytes());
            for text in [key, value] {
                bytes.extend(((begin + strings.len()) as u32).to_le_bytes());
                strings.extend_from_slice(text.as_bytes());
                strings.push(0);
            }
            bytes.extend(0u32.to_le_bytes());
            bytes.extend(conditions.to_le_bytes());
        }
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn a_name_stands_for_the_file_of_every_processor() {
        let cache = cache(&[
            (0x3, "libc.so.6", "/lib/i386/libc.so.6", 0),
            (WORD_64, "libc.so.6", "/lib/v3/libc.so.6", 1 << 62),
            (WORD_64, "libc.so.6", "/lib/libc.so.6", 0),
            (WORD_64, "libcap.so.2", "/lib/libcap.so.2", 0),
        ]);
        for name in ["libc", "libc.so.6", "libc.so"] {
            let expected = (name != "libc.so").then(|| "/lib/libc.so.6".to_owned());
            assert_eq!(find(&cache, name), expected, "{name}");
        }
        assert_eq!(find(&cache, "libcap").as_deref(), Some("/lib/libcap.so.2"));
        assert_eq!(find(&cache, "libm"), None);
        // Behind a cache of the old format.
        let both: Vec<u8> = [b"ld.so-1.7.0".as_slice(), &[0; 21], &cache].concat();
        assert_eq!(find(&both, "libc").as_deref(), Some("/lib/libc.so.6"));
    }

    #[test]
    fn a_damaged_cache_lists_nothing_or_something() {
        let whole = cache(&[(WORD_64, "libc.so.6", "/lib/libc.so.6", 0)]);
        for end in 0..whole.len() {
            assert_eq!(find(&whole[..end], "libc"), None, "{end} bytes");
        }
        for at in MAGIC.len()..whole.len() {
            let mut bent = whole.clone();
            bent[at] = 0xff;
            let _ = find(&bent, "libc");
        }
    }
}
