//! `cargo xtask dist`: what people without a Rust toolchain install, as an archive and as a Debian package.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::{Item, trial};
use crate::{artifact, install};

/// The largest binary, in bytes.
const LARGEST: u64 = 15_000_000;

/// The version that ships; all packages of the workspace have one.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where Debian has other directories than what people install by hand.
const DEBIAN: &[(&str, &str)] = &[("share/zsh/site-functions/", "share/zsh/vendor-completions/")];

/// Scripts of Debian's package, run when it is installed and removed.
const SCRIPTS: &[&str] = &["postinst", "prerm"];

/// Build a static binary and pack it: a tar archive and a Debian package in target/dist.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Install, use and remove what was packed in guests of Debian's releases.
    #[arg(long = "try")]
    trial: bool,
}

/// Builds, packs, says how large everything is.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    install::ensure(install::PACKING)?;
    let kestrel = artifact::shipped()?;
    is_static(&kestrel)?;
    let size = fs::metadata(&kestrel)?.len();
    println!("kestrel: {} ({LARGEST} bytes at most)", megabytes(size));
    ensure!(
        size <= LARGEST,
        "{} has {size} bytes: more than {LARGEST}",
        kestrel.display()
    );
    let out = crate::workspace::root().join("target/dist");
    fs::create_dir_all(&out).with_context(|| format!("create {}", out.display()))?;
    let epoch = epoch()?;
    let [tar, deb] = [archive(&kestrel, &out, &epoch)?, package(&kestrel, &out, &epoch)?];
    for path in [&tar, &deb] {
        println!("{}: {}", path.display(), megabytes(fs::metadata(path)?.len()));
    }
    if options.trial {
        trial::run(&deb, &tar)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[allow(clippy::cast_precision_loss, reason = "shown with two digits")]
fn megabytes(bytes: u64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}

/// A binary that asks for no loader runs on any machine of its kind.
fn is_static(kestrel: &Path) -> Result<()> {
    let headers = run_in(
        Path::new("/"),
        "readelf",
        &["--program-headers".as_ref(), kestrel.as_os_str()],
        None,
    )?;
    ensure!(
        !headers.contains("INTERP"),
        "{} is not static: it asks for a loader",
        kestrel.display()
    );
    Ok(())
}

/// The time that all files have: that of the last commit, so that who packs the same again gets the same.
fn epoch() -> Result<String> {
    if let Ok(epoch) = env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let time = run_in(
        &crate::workspace::root(),
        "git",
        &["log".as_ref(), "-1".as_ref(), "--format=%ct".as_ref()],
        None,
    )?;
    Ok(time.trim().to_owned())
}

/// The tar archive: one directory that can be copied onto a prefix, or used where it is.
fn archive(kestrel: &Path, out: &Path, epoch: &str) -> Result<PathBuf> {
    let name = format!("kestrel-{VERSION}-x86_64");
    let scratch = tempfile::tempdir_in(out)?;
    let root = scratch.path().join(&name);
    let mut items = super::items(kestrel, Path::new("/usr/local/bin"))?;
    items.extend(super::documents("")?);
    write(&items, &root)?;
    let path = out.join(format!("{name}.tar.gz"));
    let mut arguments: Vec<&std::ffi::OsStr> = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]
        .map(AsRef::as_ref)
        .to_vec();
    let time = format!("--mtime=@{epoch}");
    arguments.extend([
        time.as_ref(),
        "--use-compress-program=gzip -9n".as_ref(),
        "-cf".as_ref(),
        path.as_os_str(),
        name.as_ref(),
    ]);
    run_in(scratch.path(), "tar", &arguments, None)?;
    Ok(path)
}

/// The Debian package.
fn package(kestrel: &Path, out: &Path, epoch: &str) -> Result<PathBuf> {
    let scratch = tempfile::tempdir_in(out)?;
    let root = scratch.path();
    write(&files_of_debian(kestrel, epoch)?, &root.join("usr"))?;
    let kilobytes = run_in(root, "du", &["-sk".as_ref(), "usr".as_ref()], None)?;
    let kilobytes = kilobytes.split_whitespace().next().unwrap_or_default();
    let control = source("control")?
        .replace("@VERSION@", VERSION)
        .replace("@KILOBYTES@", kilobytes);
    let mut items = vec![Item::new("control", control)];
    for name in SCRIPTS {
        items.push(Item {
            executable: true,
            ..Item::new(*name, source(name)?)
        });
    }
    write(&items, &root.join("DEBIAN"))?;
    let path = out.join(format!("kestrel_{VERSION}-1_amd64.deb"));
    run_in(
        root,
        "dpkg-deb",
        &[
            "--root-owner-group".as_ref(),
            "-Zxz".as_ref(),
            "--build".as_ref(),
            ".".as_ref(),
            path.as_os_str(),
        ],
        Some(("SOURCE_DATE_EPOCH", epoch)),
    )?;
    Ok(path)
}

/// Files of the package below /usr.
fn files_of_debian(kestrel: &Path, epoch: &str) -> Result<Vec<Item>> {
    let mut files = Vec::new();
    for mut item in super::items(kestrel, Path::new("/usr/bin"))? {
        for (from, to) in DEBIAN {
            if let Ok(name) = item.path.strip_prefix(from) {
                item.path = Path::new(to).join(name);
            }
        }
        let page = item.path.starts_with("share/man");
        files.push(if page { item.compressed()? } else { item });
    }
    let folder = Path::new("share/doc/kestrel");
    for item in super::documents("")? {
        let name = match item.path.to_str() {
            Some("CHANGELOG.md") => "changelog",
            // Licences are in the file `copyright`.
            Some("LICENSE-MIT" | "LICENSE-APACHE") => continue,
            Some(name) => name,
            None => continue,
        };
        files.push(Item::new(folder.join(name), item.bytes).compressed()?);
    }
    let mit = String::from_utf8(super::read(&crate::workspace::root().join("LICENSE-MIT"))?)?;
    let mit: Vec<String> = mit
        .lines()
        .map(|line| {
            if line.is_empty() {
                " .".into()
            } else {
                format!(" {line}")
            }
        })
        .collect();
    let copyright = source("copyright")?.replace("@MIT@", &mit.join("\n"));
    files.push(Item::new(folder.join("copyright"), copyright));
    let date = run_in(
        Path::new("/"),
        "date",
        &[
            "-R".as_ref(),
            "-u".as_ref(),
            "-d".as_ref(),
            format!("@{epoch}").as_ref(),
        ],
        Some(("LC_ALL", "C")),
    )?;
    let changelog = source("changelog")?
        .replace("@VERSION@", VERSION)
        .replace("@DATE@", date.trim());
    files.push(Item::new(folder.join("changelog.Debian"), changelog).compressed()?);
    Ok(files)
}

/// A file of `dist/debian`.
fn source(name: &str) -> Result<String> {
    let path = crate::workspace::root().join("dist/debian").join(name);
    fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

fn write(items: &[Item], root: &Path) -> Result<()> {
    items.iter().try_for_each(|item| item.write(root))
}

/// Runs a program in a directory; gives its standard output.
fn run_in(
    folder: &Path,
    program: &str,
    arguments: &[&std::ffi::OsStr],
    variable: Option<(&str, &str)>,
) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .envs(variable)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {program}"))?;
    ensure!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
