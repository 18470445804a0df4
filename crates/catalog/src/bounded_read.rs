//! Files of others that are read whole: ordinary files and pipes, up to a bound; nothing is known of what is in them.

use kestrel_trace::files::{self, Objection};
use std::fs::File;
use std::io::{Error, Read as _, Result};
use std::path::Path;

/// Objects, programs and libraries of more bytes than this are something else.
pub const LARGEST_OBJECT: u64 = 256 << 20;
/// Programs whose functions are probed are read whole, with what was compiled in for debuggers.
pub(crate) const LARGEST_PROGRAM: u64 = 1 << 30;

/// A file that was read.
#[derive(Clone, Debug)]
pub struct Given {
    /// Contents of the file.
    pub bytes: Vec<u8>,
    /// Objection to its permissions: another user could change it. It is that of the file that was read, whatever lies at its path by now.
    pub objection: Option<Objection>,
    /// Where it lay, links followed.
    pub path: std::path::PathBuf,
}

/// Reads a whole file, if it has at most so many bytes. Devices are never opened: reading one may have no end, or an effect.
///
/// # Errors
/// Errors of the system, or in words why it is not read.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    give(path, most).map(|given| given.bytes)
}

/// Reads a file of at most `most` bytes, and says what others could change about it.
///
/// # Errors
/// As [`read`].
pub fn give(path: &Path, most: u64) -> Result<Given> {
    let opened = files::open(path)?;
    Ok(Given {
        bytes: all_of(opened.file, most)?,
        objection: opened.objection,
        path: opened.path,
    })
}

/// Reads a whole open file, if it has at most so many bytes.
///
/// # Errors
/// As [`read`].
pub(crate) fn all_of(file: File, most: u64) -> Result<Vec<u8>> {
    let too_long = || Error::other(format!("it is longer than {} MiB", most >> 20));
    let expected = file.metadata()?.len();
    if expected > most {
        return Err(too_long());
    }
    // One byte more, to see the end without more room. What there is no memory for is an error, not the end of the process.
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(expected as usize + 1)?;
    // A pipe does not say how long it is, and a file can grow.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(too_long()),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_directories_and_files_over_the_limit_are_not_read() {
        let message = |path: &str, most| read(Path::new(path), most).unwrap_err().to_string();
        assert_eq!(message("/dev/zero", 1 << 20), "it is no file but a device");
        assert_eq!(message("/", 1 << 20), "it is no file but a directory");
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("long");
        std::fs::write(&file, vec![7; (1 << 20) + 1]).unwrap();
        let path = file.to_str().unwrap();
        assert_eq!(message(path, 1 << 20), "it is longer than 1 MiB");
        assert_eq!(read(&file, (1 << 20) + 1).unwrap().len(), (1 << 20) + 1);
        // A file of the kernel's says that it is empty, and has something all the same.
        assert!(!read(Path::new("/proc/self/maps"), 1 << 20).unwrap().is_empty());
        assert_eq!(message("/proc/self/maps", 1), "it is longer than 0 MiB");
    }
}
