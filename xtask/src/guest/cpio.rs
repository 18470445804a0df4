//! The archive format of an initramfs ("newc"), written; Documentation/driver-api/early-userspace/buffer-format.rst.

use std::collections::BTreeSet;

/// An archive that grows; parent folders are added automatically.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// A folder, given without a leading slash.
    pub(crate) fn folder(&mut self, path: &str) {
        if path.is_empty() || self.folders.contains(path) {
            return;
        }
        self.parent(path);
        self.folders.insert(path.to_owned());
        self.entry(path, 0o040_755, (0, 0), &[]);
    }

    /// An executable file.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        self.parent(path);
        self.entry(path, 0o100_755, (0, 0), content);
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, path: &str, target: &str) {
        self.parent(path);
        self.entry(path, 0o120_777, (0, 0), target.as_bytes());
    }

    /// A character device.
    pub(crate) fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.parent(path);
        self.entry(path, 0o020_600, (major, minor), &[]);
    }

    /// The archive, closed.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn parent(&mut self, path: &str) {
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder);
        }
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        // ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name_size = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        let fields = [
            self.entries,
            mode,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            device.0,
            device.1,
            name_size,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_first_and_once_and_everything_is_aligned() {
        let mut archive = Archive::default();
        archive.file("usr/bin/a", b"12345");
        archive.link("usr/bin/b", "a");
        archive.device("dev/console", 5, 1);
        let bytes = archive.finish();
        let mut names = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |n: usize| {
                let text = std::str::from_utf8(&bytes[at + 6 + 8 * n..at + 14 + 8 * n]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            let name = at + 110;
            names.push(String::from_utf8(bytes[name..name + field(11) - 1].to_vec()).unwrap());
            at = (name + field(11)).next_multiple_of(4) + field(6).next_multiple_of(4);
        }
        assert_eq!(
            names,
            [
                "usr",
                "usr/bin",
                "usr/bin/a",
                "usr/bin/b",
                "dev",
                "dev/console",
                "TRAILER!!!"
            ]
        );
    }
}
