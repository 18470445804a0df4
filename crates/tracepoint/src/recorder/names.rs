//! Names of the threads that record, in the file beside a trace's packets that says which thread is called how.

use super::files::Path;
use std::ffi::{CStr, c_int};
use std::sync::{Mutex, PoisonError, TryLockError};

/// Bytes of all names together, at most: those of some 50,000 threads. Later ones have none.
const MOST: usize = 1 << 20;

/// Lines `TID NAME`.
#[derive(Debug)]
pub(crate) struct Names(Mutex<Vec<u8>>);

impl Names {
    /// That of the process, which counts where a thread has none.
    pub(crate) fn of_process() -> Self {
        let names = Self(Mutex::default());
        if let Ok(name) = std::fs::read("/proc/self/comm") {
            names.insert(std::process::id(), name.trim_ascii_end());
        }
        names
    }

    /// That of the thread that calls, as it is now.
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

    /// Writes them to a folder that is there. A signal's handler may call it, also of a thread that is at them: it does without them then.
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
