//! File locks as /proc/locks lists them: which process holds a file.

use crate::host::Host;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The process that holds `path` by flock(2), if the kernel shows one: it may be in another container, or the file system may give its files
/// other numbers than the kernel's list does.
pub fn holder(host: &Host, path: &Path) -> Option<u32> {
    let about = std::fs::metadata(path).ok()?;
    let device = about.dev();
    let name = format!(
        "{:02x}:{:02x}:{}",
        libc::major(device),
        libc::minor(device),
        about.ino()
    );
    held(&host.read("/proc/locks").ok()?, &name)
}

/// In lines like `1: FLOCK  ADVISORY  WRITE 1234 00:2a:5678 0 EOF`; those that wait have an arrow behind the number.
fn held(text: &str, file: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, _, pid, name, ..] if name == file => pid.parse().ok().filter(|pid| *pid > 0),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_of_a_lock_are_found_and_waiters_are_not() {
        let text = "1: POSIX  ADVISORY  WRITE 7 00:2a:56 0 EOF\n\
                    2: FLOCK  ADVISORY  WRITE 1234 00:2a:56 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 99 00:2a:57 0 EOF\n\
                    3: FLOCK  ADVISORY  WRITE -1 00:2a:58 0 EOF\nnonsense\n";
        assert_eq!(held(text, "00:2a:56"), Some(1234));
        assert_eq!(held(text, "00:2a:57"), None);
        assert_eq!(held(text, "00:2a:58"), None);
    }

    #[test]
    fn this_process_holds_its_locks() {
        let directory = tempfile::tempdir().unwrap();
        let file = std::fs::File::open(directory.path()).unwrap();
        assert_eq!(holder(&Host::default(), directory.path()), None);
        file.lock().unwrap();
        let found = holder(&Host::default(), directory.path());
        // Some file systems number their files otherwise, and some sandboxes have no such list.
        assert!(found.is_none_or(|pid| pid == std::process::id()), "{found:?}");
    }
}
