//! Names of the recording threads, for the file beside a trace's packets with the names of threads.

use super::files::{PAUSE, Path, TRIES};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Most threads with a name; later ones are shown by the name of the process, and counted.
const MAX: usize = 1 << 16;

/// A thread's name as the kernel has it, with NULs behind it.
type Name = [u8; 16];

/// Names by the threads' numbers; a number that the kernel uses again has the name of its newest thread.
#[derive(Debug)]
pub(crate) struct Names {
    all: Mutex<BTreeMap<u32, Name>>,
    dropped: AtomicU64,
}

impl Names {
    /// Names with that of the process alone, which stands for threads without one.
    pub(crate) fn of_process() -> Self {
        let names = Self {
            all: Mutex::default(),
            dropped: AtomicU64::new(0),
        };
        if let Ok(text) = std::fs::read("/proc/self/comm") {
            let mut name = [0; size_of::<Name>()];
            let text = text.trim_ascii_end();
            let length = text.len().min(name.len() - 1);
            name[..length].copy_from_slice(&text[..length]);
            names.insert(std::process::id(), name);
        }
        names
    }

    /// Adds the name that the calling thread has now.
    #[allow(unsafe_code, reason = "a system call")]
    pub(crate) fn learn(&self, tid: u32) {
        let mut name = [0; size_of::<Name>()];
        // SAFETY: the kernel writes 16 bytes, the last of which is a NUL.
        if unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) } == 0 {
            self.insert(tid, name);
        }
    }

    fn insert(&self, tid: u32, name: Name) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if name[0] == 0 {
            all.remove(&tid);
        } else if all.len() < MAX || all.contains_key(&tid) {
            all.insert(tid, name);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Count of threads whose name had no place.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Writes the names to a folder that exists, as lines `TID NAME` put together in `room`. A signal handler may call this, also if it has interrupted a change of the names: so it
    /// takes no memory, and does not wait for ever.
    ///
    /// # Errors
    /// When the kernel refuses; `EBUSY` when the names stay locked.
    pub(crate) fn write(&self, path: &Path, room: &mut [u8]) -> Result<(), c_int> {
        let all = self.wait().ok_or(libc::EBUSY)?;
        let mut lines = Lines {
            room,
            filled: 0,
            path,
            written: 0,
            result: Ok(()),
        };
        for (tid, name) in &*all {
            // A failed write is in `result`.
            _ = write!(lines, "{tid} ");
            let text = name.split(|byte| *byte == 0).next().unwrap_or_default();
            for chunk in text.utf8_chunks() {
                let broken = if chunk.invalid().is_empty() {
                    ""
                } else {
                    "\u{fffd}"
                };
                for char in chunk.valid().chars().chain(broken.chars()) {
                    let is_end = matches!(char, '\n' | '\r');
                    _ = lines.write_char(if is_end { '?' } else { char });
                }
            }
            _ = lines.write_char('\n');
        }
        lines.end()
    }

    fn wait(&self) -> Option<MutexGuard<'_, BTreeMap<u32, Name>>> {
        for _ in 0..TRIES {
            match self.all.try_lock() {
                Ok(all) => return Some(all),
                Err(TryLockError::Poisoned(all)) => return Some(all.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            }
        }
        None
    }
}

/// Text on its way to a file, a page at a time.
struct Lines<'a> {
    room: &'a mut [u8],
    filled: usize,
    path: &'a Path,
    written: u64,
    result: Result<(), c_int>,
}

impl Lines<'_> {
    fn flush(&mut self) {
        let page = self.room.as_ptr();
        self.result = self
            .result
            .and_then(|()| self.path.write(page, self.filled, self.written));
        self.written += self.filled as u64;
        self.filled = 0;
    }

    /// Writes what is left, and cuts off what the file had behind it.
    fn end(mut self) -> Result<(), c_int> {
        self.flush();
        self.result.and_then(|()| self.path.cut(self.written))
    }
}

impl Write for Lines<'_> {
    fn write_str(&mut self, mut text: &str) -> std::fmt::Result {
        while !text.is_empty() {
            if self.filled == self.room.len() {
                self.flush();
            }
            let room = &mut self.room[self.filled..];
            let length = text.floor_char_boundary(room.len());
            room[..length].copy_from_slice(&text.as_bytes()[..length]);
            self.filled += length;
            text = &text[length..];
            if length == 0 {
                self.flush();
            }
        }
        Ok(())
    }
}

#[allow(clippy::unwrap_used, reason = "tests")]
#[cfg(test)]
mod tests {
    use super::{MAX, Name, Names, Path};
    use kestrel_layout::packet::PAGE;
    use std::os::unix::ffi::OsStrExt as _;

    fn name(text: &[u8]) -> Name {
        let mut name = [0; 16];
        name[..text.len()].copy_from_slice(text);
        name
    }

    fn written(names: &Names, file: &std::path::Path) -> String {
        let mut path = Path::new();
        let path = path.set(file.as_os_str().as_bytes());
        names.write(path, &mut [0; PAGE as usize]).unwrap();
        std::fs::read_to_string(file).unwrap()
    }

    #[test]
    fn a_number_that_is_given_again_has_the_newest_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("processes");
        let names = Names::of_process();
        let before = written(&names, &file);
        names.insert(u32::MAX - 1, name(b"a long one"));
        names.insert(u32::MAX, name(b"cut \xc3"));
        assert!(written(&names, &file).contains("4294967294 a long one\n4294967295 cut \u{fffd}\n"));
        names.insert(u32::MAX - 1, name(b"x\ny"));
        names.insert(u32::MAX, name(b""));
        // Nothing is left of what the file had before.
        assert_eq!(written(&names, &file).replace("4294967294 x?y\n", ""), before);
    }

    #[test]
    fn thread_names_over_the_limit_are_counted_and_known_ones_updated() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("processes");
        let names = Names::of_process();
        let others = (1..).filter(|tid| *tid != std::process::id());
        for tid in others.clone().take(MAX - 1 + 5) {
            names.insert(tid, name(b"short"));
        }
        assert_eq!(names.dropped(), 5);
        let again = others.clone().nth(9).unwrap();
        names.insert(again, name(b"newest"));
        assert_eq!(names.dropped(), 5);
        // Many pages, each line whole.
        let text = written(&names, &file);
        assert_eq!(text.lines().count(), MAX);
        let line = format!("{again} newest");
        assert_eq!(text.lines().filter(|other| *other == line).count(), 1);
        assert_eq!(
            text.lines().filter(|line| line.ends_with(" short")).count(),
            MAX - 2
        );
    }

    /// Another thread is at the names, as one may be while the process exits: the file is written when it has left them.
    #[test]
    fn names_are_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let names = Names::of_process();
        let (taken, is_taken) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _all = names.all.lock();
                taken.send(()).unwrap();
                // So long that the other comes by meanwhile; where it does not the test shows less.
                std::thread::sleep(std::time::Duration::from_millis(50));
            });
            is_taken.recv().unwrap();
            let text = written(&names, &folder.path().join("processes"));
            assert!(text.starts_with(&format!("{} ", std::process::id())), "{text}");
        });
    }
}
