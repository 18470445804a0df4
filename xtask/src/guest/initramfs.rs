//! Contents of a guest's `/` when it starts: our first process, busybox under all its names, the kernel's modules.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{
    apt::Apt,
    cache::{Cache, digest, write_whole},
    cpio::Archive,
    kernel::Kernel,
    mirror::Mirror,
};

/// Folders that must be there before anything is mounted.
const FOLDERS: &[&str] = &[
    "proc", "sys", "dev", "tmp", "run", "root", "etc", "var", "usr/bin", "usr/sbin", "bin",
];

/// Small files that programs expect.
const FILES: &[(&str, &str)] = &[
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    ),
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n"),
];

/// A statically linked busybox in the cache.
pub(crate) fn busybox(cache: &Cache, mirror: Option<&str>) -> Result<PathBuf> {
    let path = cache.folder("busybox")?.join("busybox");
    let _lock = cache.lock("kernel")?;
    if !path.exists() {
        let mirror = mirror.map_or_else(Mirror::of_this_machine, |base| Ok(Mirror::at(base)))?;
        let tree = tempfile::tempdir_in(cache.folder("busybox")?)?;
        Apt::open(cache, &mirror)?.unpack("busybox-static", tree.path())?;
        let found = ["usr/bin/busybox", "bin/busybox"].map(|place| tree.path().join(place));
        let found = found
            .iter()
            .find(|path| path.exists())
            .context("no busybox in busybox-static")?;
        fs::rename(found, &path).with_context(|| format!("name {}", path.display()))?;
    }
    Ok(path)
}

/// Builds the archive (or finds it built) and returns its path.
pub(crate) fn build(cache: &Cache, kernel: &Kernel, init: &Path, busybox: &Path) -> Result<PathBuf> {
    let init = fs::read(init).with_context(|| format!("read {}", init.display()))?;
    let mut archive = Archive::default();
    for folder in FOLDERS {
        archive.folder(folder);
    }
    archive.device("dev/console", 5, 1);
    archive.file("init", &init);
    for (path, text) in FILES {
        archive.file(path, text.as_bytes());
    }
    archive.file("bin/busybox", &fs::read(busybox)?);
    for applet in applets(busybox)? {
        if applet != "busybox" {
            archive.link(&format!("bin/{applet}"), "busybox");
        }
    }
    let mut order = String::new();
    for (name, bytes) in kernel.modules()? {
        archive.file(&format!("modules/{name}"), &bytes);
        order += &format!("/modules/{name}\n");
    }
    archive.file("modules/order", order.as_bytes());
    let bytes = archive.finish();
    let path = cache
        .folder("initramfs")?
        .join(format!("{}.cpio", &digest([bytes.as_slice()])[..16]));
    if !path.exists() {
        write_whole(&path, &bytes)?;
    }
    Ok(path)
}

/// The names that a busybox answers to.
fn applets(busybox: &Path) -> Result<Vec<String>> {
    let output = Command::new(busybox)
        .arg("--list")
        .output()
        .with_context(|| format!("run {}", busybox.display()))?;
    ensure!(
        output.status.success(),
        "{} --list: {}",
        busybox.display(),
        output.status
    );
    Ok(String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect())
}
