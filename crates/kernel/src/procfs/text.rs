//! Text in the memory of a process.

use crate::error::{Error, Result};
use crate::host::Host;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Most bytes that lie in one page: what is behind may not be in memory.
const PAGE: u64 = 4096;

/// The bytes at an address of a process up to the first zero, at most `most`.
///
/// # Errors
/// When the process is gone or must not be looked into, or nothing is at the address.
pub fn text(host: &Host, pid: u32, address: u64, most: usize) -> Result<Vec<u8>> {
    let path = host.path(format!("/proc/{pid}/mem"));
    let error = |error| Error::file("read", &path, error);
    let memory = File::open(&path).map_err(error)?;
    let mut bytes = Vec::new();
    while bytes.len() < most {
        let at = address.wrapping_add(bytes.len() as u64);
        let in_page = PAGE - at % PAGE;
        let mut piece = vec![0; in_page.min((most - bytes.len()) as u64) as usize];
        let read = match memory.read_at(&mut piece, at) {
            Err(found) if bytes.is_empty() => return Err(error(found)),
            Err(_) | Ok(0) => break,
            Ok(read) => &piece[..read],
        };
        let end = read.iter().position(|byte| *byte == 0);
        bytes.extend_from_slice(&read[..end.unwrap_or(read.len())]);
        if end.is_some() {
            break;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_this_process_ends_at_its_zero_or_where_it_is_cut() {
        let kept = b"a path\0behind";
        let of = |most| text(&Host::default(), std::process::id(), kept.as_ptr() as u64, most).unwrap();
        assert_eq!(of(255), b"a path");
        assert_eq!(of(3), b"a p");
        assert!(text(&Host::default(), std::process::id(), 0, 255).is_err());
    }
}
