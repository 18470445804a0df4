//! The peers' root image: Debian packages (bpftrace, perf, …) in a read-only ext4 file, made by mmdebstrap.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};

use super::{
    apt::keyring,
    cache::{Cache, digest},
    mirror::Mirror,
};

/// The suite whose packages are taken unless another is named: new enough for the tools that Kestrel is compared with.
pub(crate) const SUITE: &str = "trixie";

/// Packages that make an image a place to work in.
const BASE: &[&str] = &[
    "base-files",
    "base-passwd",
    "bash",
    "coreutils",
    "dash",
    "debianutils",
    "findutils",
    "grep",
    "hostname",
    "kmod",
    "mawk",
    "mount",
    "procps",
    "sed",
    "util-linux",
];

/// Names that people use for tools, and the packages that hold them.
const PACKAGES: &[(&str, &str)] = &[("perf", "linux-perf")];

/// Free room in the image, and its least size, in MiB.
const SPARE_MB: u64 = 128;

/// The image with these packages, built if it is not in the cache.
pub(crate) fn image(
    cache: &Cache,
    suite: &str,
    packages: &[String],
    mirror: Option<&str>,
) -> Result<PathBuf> {
    let rename = |name: &String| {
        PACKAGES
            .iter()
            .find(|(tool, _)| tool == name)
            .map_or_else(|| name.clone(), |(_, package)| (*package).to_owned())
    };
    let mut packages: Vec<String> = packages.iter().map(rename).collect();
    packages.extend(BASE.iter().map(|name| (*name).to_owned()));
    packages.sort();
    packages.dedup();
    let list = packages.join(",");
    let name = format!("{suite}-{}.ext4", &digest([list.as_bytes()])[..16]);
    let path = cache.folder("root")?.join(name);
    let _lock = cache.lock("root")?;
    if !path.exists() {
        let mirror = mirror.map_or_else(Mirror::of_this_machine, |base| Ok(Mirror::at(base)))?;
        build(&cache.folder("root")?, suite, &list, &mirror, &path)
            .with_context(|| format!("build a root image of {suite} with {list}"))?;
    }
    Ok(path)
}

fn build(folder: &Path, suite: &str, packages: &str, mirror: &Mirror, path: &Path) -> Result<()> {
    let begun = Instant::now();
    eprintln!("guest: building a root image of {suite} with {packages}");
    let scratch = tempfile::tempdir_in(folder)?;
    let (tree, image) = (scratch.path().join("tree"), scratch.path().join("image"));
    let source = format!("deb {} {suite} main", mirror.main);
    let keyring = format!("--keyring={}", keyring()?);
    let include = format!("--include={packages}");
    // "extract" runs no maintainer scripts: much faster, and enough for tools that only need their files.
    run(Command::new("mmdebstrap")
        .args([
            "--quiet",
            "--mode=root",
            "--variant=extract",
            "--architectures=amd64",
        ])
        .args([
            "--aptopt=Acquire::Check-Valid-Until \"false\"",
            "--aptopt=Acquire::Retries \"3\"",
        ])
        .args([&keyring, &include])
        .args([suite.as_ref(), tree.as_os_str(), source.as_ref()]))?;
    finish_tree(&tree)?;
    let size = run(Command::new("du").args(["-sm"]).arg(&tree))?;
    let size: u64 = size
        .split_whitespace()
        .next()
        .and_then(|mb| mb.parse().ok())
        .context("read the size from du")?;
    run(Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d"])
        .args([&tree, &image])
        .arg(format!("{}M", size + size / 8 + SPARE_MB)))?;
    fs::rename(&image, path)?;
    eprintln!(
        "guest: root image of {size} MiB in {:.0} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Finishes the tree: does the work of maintainer scripts that tools need, and removes files that no test reads.
fn finish_tree(tree: &Path) -> Result<()> {
    for (from, to) in [("passwd.master", "passwd"), ("group.master", "group")] {
        let from = tree.join("usr/share/base-passwd").join(from);
        if from.exists() {
            fs::copy(from, tree.join("etc").join(to))?;
        }
    }
    let (shell, awk) = (tree.join("usr/bin/sh"), tree.join("usr/bin/awk"));
    for (link, target) in [(shell, "dash"), (awk, "mawk")] {
        if fs::symlink_metadata(&link).is_err() {
            std::os::unix::fs::symlink(target, link)?;
        }
    }
    for top in ["proc", "sys", "dev", "tmp", "run", "root"] {
        fs::create_dir_all(tree.join(top))?;
    }
    for waste in [
        "usr/share/doc",
        "usr/share/man",
        "usr/share/locale",
        "usr/share/info",
        "var/cache/apt",
        "var/lib/apt/lists",
    ] {
        let _ = fs::remove_dir_all(tree.join(waste));
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {name}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{name}: {}: {}",
        output.status,
        stderr.trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
