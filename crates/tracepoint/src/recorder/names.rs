//! Names of the recording threads, for the file beside a trace's packets with the names of threads.

use super::files::Path;
use std::ffi::{CStr, c_int};
use std::sync::{Mutex, PoisonError, TryLockError};

/// Most bytes of all names together, enough for some 50,000 threads; later threads have no name.
const MOST: usize = 1 << 20;

/// Lines `TID NAME`.
#[derive(Debug)]
pub(crate) struct Names(Mutex<Vec<u8>>);

impl Names {
    /// Names with that of the process alone, which stands for threads without one.
    pub(crate) fn of_process() -> Self {
        let names = Self(Mutex::default());
        if let Ok(name) = std::fs::read("/proc/self/comm") {
            names.insert(std::process::id(), name.trim_ascii_end());
        }
        names
    }

    /// Adds the name that the calling thread has now.
    #[allow(unsafe_code, reason = "a system call")]
    pub(crate) fn learn(&self, tid: u32) {
        let mut name = [0_u8; 16];
        // SAFETY: the kernel writes 16 bytes, the last of which is a NUL.
        let done = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        if let (0, Ok(name)) = (done, CStr::from_bytes_until_nul(&name)) {
            self.insert(tid, name.to_bytes());
        }
    }

    fn insert(&self, tid: u32, name: &[u8]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = String::from_utf8_lossy(name).replace(['\n', '\r'], "?");
        let line = format!("{tid} {name}\n");
        if !name.is_empty() && all.len() + line.len() <= MOST {
            all.extend_from_slice(line.as_bytes());
        }
    }

    /// Writes the names to a folder that exists. A signal handler may call this; if it has interrupted a change of the names, they are not written.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn write(&self, path: &Path) -> Result<(), c_int> {
        match self.0.try_lock() {
            Ok(all) => path.write(all.as_ptr(), all.len(), 0),
            Err(TryLockError::Poisoned(all)) => {
                let all = all.into_inner();
                path.write(all.as_ptr(), all.len(), 0)
            }
            Err(TryLockError::WouldBlock) => Ok(()),
        }
    }
}
