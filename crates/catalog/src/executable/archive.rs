//! Programs and libraries in ZIP archives, from which loaders map them without unpacking: `ARCHIVE!/FILE`, where FILE lies in it as it is.

use std::ops::Range;

/// Separator of the archive's path and that of the file in it.
const BETWEEN: &str = "!/";
/// The end of the central directory: its mark, its bytes without the comment, the longest comment.
const END: (&[u8], usize, usize) = (b"PK\x05\x06", 22, 0xffff);
/// A file in the central directory: its mark and its bytes without names.
const LISTED: (&[u8], usize) = (b"PK\x01\x02", 46);
/// A file itself.
const HEAD: (&[u8], usize) = (b"PK\x03\x04", 30);

/// The archive and the file in it that a path names.
pub(super) fn split(path: &str) -> Option<(&str, &str)> {
    path.split_once(BETWEEN)
        .filter(|(archive, file)| !archive.is_empty() && !file.is_empty())
}

/// Where in an archive a file lies; in words why that is not known.
pub(super) fn find(archive: &[u8], wanted: &str) -> Result<Range<usize>, String> {
    let damaged = || "the archive is damaged".to_owned();
    let short = |at: usize| number(archive, at, 2);
    let long = |at: usize| number(archive, at, 4);
    let from = archive.len().saturating_sub(END.1 + END.2);
    let tail = archive.get(from..).unwrap_or_default();
    // The archive's comment comes after the mark and may contain anything: of several marks the last one counts.
    let end = tail.windows(END.0.len()).rposition(|bytes| bytes == END.0);
    let end = from + end.ok_or_else(|| "it is no ZIP archive".to_owned())?;
    let (count, mut at) = (
        short(end + 10).ok_or_else(damaged)?,
        long(end + 16).ok_or_else(damaged)?,
    );
    for _ in 0..count {
        if archive.get(at..at.saturating_add(4)) != Some(LISTED.0) {
            return Err(damaged());
        }
        let length = |field| short(at + field).ok_or_else(damaged);
        let (name, extra, comment) = (length(28)?, length(30)?, length(32)?);
        let begin = at + LISTED.1;
        if archive.get(begin..begin + name) == Some(wanted.as_bytes()) {
            if length(10)? != 0 {
                return Err(
                    "it is compressed in the archive: programs run from files that are stored as they are"
                        .to_owned(),
                );
            }
            // The size is this directory's: the header before the data may leave it to a descriptor behind the data.
            let (size, head) = (
                long(at + 24).ok_or_else(damaged)?,
                long(at + 42).ok_or_else(damaged)?,
            );
            if archive.get(head..head.saturating_add(4)) != Some(HEAD.0) {
                return Err(damaged());
            }
            // That header has an extra field of its own length, with which tools align the data.
            let (name, extra) = (
                short(head + 26).ok_or_else(damaged)?,
                short(head + 28).ok_or_else(damaged)?,
            );
            let begin = head + HEAD.1 + name + extra;
            let end = begin.checked_add(size).filter(|end| *end <= archive.len());
            return Ok(begin..end.ok_or_else(damaged)?);
        }
        at = begin + name + extra + comment;
    }
    Err(format!("the archive has no file {wanted}"))
}

/// A number of so many bytes, the lowest first.
fn number(bytes: &[u8], at: usize, count: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    let value = bytes
        .iter()
        .rev()
        .fold(0_usize, |value, byte| value << 8 | usize::from(*byte));
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with one file.
    fn archive(name: &str, data: &[u8], method: u16) -> Vec<u8> {
        let mut all = HEAD.0.to_vec();
        all.extend([0; 4]);
        all.extend(method.to_le_bytes());
        all.extend([0; 16]);
        all.extend((name.len() as u16).to_le_bytes());
        all.extend(3_u16.to_le_bytes());
        all.extend(name.as_bytes());
        all.extend([9; 3]);
        all.extend(data);
        let directory = all.len() as u32;
        all.extend(LISTED.0);
        all.extend([0; 6]);
        all.extend(method.to_le_bytes());
        all.extend([0; 12]);
        all.extend((data.len() as u32).to_le_bytes());
        all.extend((name.len() as u16).to_le_bytes());
        all.extend([0; 16]);
        all.extend(name.as_bytes());
        all.extend(END.0);
        all.extend([0; 6]);
        all.extend(1_u16.to_le_bytes());
        all.extend([0; 4]);
        all.extend(directory.to_le_bytes());
        all.extend([0; 2]);
        all
    }

    #[test]
    fn a_file_is_found_where_it_is_stored() {
        let made = archive("lib/x.so", b"ELF here", 0);
        let place = find(&made, "lib/x.so").unwrap();
        assert_eq!(&made[place], b"ELF here");
        assert!(find(&made, "x.so").unwrap_err().contains("no file x.so"));
        let packed = archive("lib/x.so", b"ELF here", 8);
        assert!(find(&packed, "lib/x.so").unwrap_err().contains("compressed"));
        assert!(find(b"something else", "x").unwrap_err().contains("no ZIP"));
        assert_eq!(split("/a.apk!/lib/x.so"), Some(("/a.apk", "lib/x.so")));
        assert_eq!(split("/a.apk"), None);
    }

    #[test]
    fn damaged_archives_are_refused() {
        let made = archive("lib/x.so", b"ELF here", 0);
        for at in 0..made.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bent = made.clone();
                bent[at] = value;
                // Another file is found, or an error says why; nothing panics.
                _ = find(&bent, "lib/x.so");
            }
            _ = find(&made[..at], "lib/x.so");
        }
    }
}
