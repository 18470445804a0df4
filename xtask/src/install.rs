//! Debian packages that the chores need on this machine: installed when missing, and said so.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use anyhow::{Context, Result, bail};

/// A program that must be there, and the package that brings it.
pub(crate) type Need = (&'static str, &'static str);

/// For booting guests.
pub(crate) const GUESTS: &[Need] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("setpriv", "util-linux"),
    ("dpkg-deb", "dpkg"),
];

/// For building the peers' root image.
pub(crate) const IMAGES: &[Need] = &[("mmdebstrap", "mmdebstrap"), ("mke2fs", "e2fsprogs")];

/// Tracers that speed is compared with.
pub(crate) const TRACERS: &[Need] = &[
    ("perf", "linux-perf"),
    ("strace", "strace"),
    ("taskset", "util-linux"),
];

/// Programs that host tests compare with.
pub(crate) const PEERS: &[Need] = &[
    ("babeltrace2", "babeltrace2"),
    ("bpftool", "bpftool"),
    ("perf", "linux-perf"),
    ("trace-cmd", "trace-cmd"),
    ("go", "golang-go"),
    ("pip3", "python3-pip"),
    BROWSER,
];

/// Packages of Python's that read what is exported: Perfetto's schema and what it needs, and DuckDB.
const READERS: &[&str] = &["perfetto==0.59.1", "protobuf==7.36.2", "duckdb==2.0.1"];

/// For pages that browsers show.
pub(crate) const BROWSER: Need = ("chromium", "chromium");

/// For packing what is shipped.
pub(crate) const PACKING: &[Need] = &[("dpkg-deb", "dpkg"), ("readelf", "binutils"), ("tar", "tar")];

/// For compiling BPF objects that tests load.
pub(crate) const COMPILER: &[Need] = &[("clang", "clang")];

/// Installs what is missing of these.
pub(crate) fn ensure(needs: &[Need]) -> Result<()> {
    let missing: Vec<&str> = needs
        .iter()
        .filter(|(program, _)| !present(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    eprintln!("installing {list} (apt-get)");
    if let Err(error) = apt_get(&["update", "-qq"]) {
        // One broken source among many must not stop what the others have.
        eprintln!("{error:#}; going on with the package lists that are there");
    }
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(&missing);
    apt_get(&arguments)
        .with_context(|| format!("install {list}: do it by hand (as root): apt-get install {list}"))
}

/// The folder with [`READERS`], for Python's path. Without them tests are skipped, and say so.
pub(crate) fn readers() -> Result<PathBuf> {
    let folder = crate::workspace::root().join("target/readers");
    if folder.join("duckdb").exists() {
        return Ok(folder);
    }
    eprintln!("installing {} (pip)", READERS.join(" "));
    let status = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
        .arg(&folder)
        .args(READERS)
        .status()
        .context("run pip")?;
    if !status.success() {
        eprintln!("pip failed: tests of exports that need these packages are skipped");
    }
    Ok(folder)
}

fn present(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(Path::new);
    env::split_paths(&path).any(|folder| folder.join(program).exists())
        || system.iter().any(|folder| folder.join(program).exists())
}

/// Runs apt-get, twice more when it fails: mirrors have bad moments.
fn apt_get(arguments: &[&str]) -> Result<()> {
    for wait in [0, 5, 20] {
        sleep(Duration::from_secs(wait));
        let status = Command::new("apt-get")
            .args(arguments)
            .args(["-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=300"])
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .context("run apt-get")?;
        if status.success() {
            return Ok(());
        }
    }
    bail!("apt-get {} failed three times", arguments.join(" "))
}
