//! Memory of rings: pages of the process alone, or of a file, which is left when the process is killed.

use kestrel_layout::packet::PAGE;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Memory of the rings.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The file and its length so far.
    file: Option<Mutex<(File, u64)>>,
}

impl Memory {
    /// Memory of the process alone, or of a file, which is created or emptied.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub(crate) fn new(file: Option<&Path>) -> io::Result<Self> {
        let file = match file {
            None => None,
            Some(path) => {
                let mut options = File::options();
                options.read(true).write(true).create(true).truncate(true);
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                Some(Mutex::new((options.open(path)?, 0)))
            }
        };
        Ok(Self { file })
    }

    /// Maps new pages, zeroed. Those of a file are never unmapped while the process runs.
    ///
    /// # Errors
    /// When there is no memory.
    #[allow(unsafe_code, reason = "memory from the kernel")]
    pub(crate) fn pages(&self, pages: u64) -> io::Result<*mut u8> {
        let bytes = pages * u64::from(PAGE);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let map = |flags, fd, offset: u64| {
            // SAFETY: asks for new memory at a place that the kernel chooses.
            let memory = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    bytes as usize,
                    protection,
                    flags,
                    fd,
                    offset as libc::off_t,
                )
            };
            match memory {
                libc::MAP_FAILED => Err(io::Error::last_os_error()),
                memory => Ok(memory.cast::<u8>()),
            }
        };
        let Some(file) = &self.file else {
            return map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        };
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, length) = &mut *file;
        // Room is taken at once: a write to a page that the disk has no room for would end the process.
        // SAFETY: a descriptor of ours and two numbers.
        let error =
            unsafe { libc::posix_fallocate(file.as_raw_fd(), *length as libc::off_t, bytes as libc::off_t) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        let memory = map(libc::MAP_SHARED, file.as_raw_fd(), *length)?;
        *length += bytes;
        Ok(memory)
    }
}
