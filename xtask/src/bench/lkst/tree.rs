//! The kernel tree that is built: a Debian package's source, unpacked once into the cache, configured tiny and prepared; each build
//! starts from a copy of that state.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{
    guest::{apt::Apt, cache::Cache, mirror::Mirror},
    install,
};

/// The package; the same on every machine, so that results compare.
const PACKAGE: &str = "linux-source-6.12";
/// Where it puts the source.
const TARBALL: &str = "usr/src/linux-source-6.12.tar.xz";

/// Programs that building it takes; the tiny configuration is for 32-bit x86 and needs neither objtool's nor the signer's libraries.
const BUILDERS: &[install::Need] = &[
    ("make", "make"),
    ("gcc", "gcc"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("xz", "xz-utils"),
];

/// An unpacked and prepared kernel tree.
pub(crate) struct Tree {
    source: PathBuf,
    prepared: PathBuf,
    objects: PathBuf,
}

impl Tree {
    /// Downloads, unpacks, configures and prepares what is not there yet.
    pub(crate) fn open(mirror: Option<&str>) -> Result<Self> {
        install::ensure(BUILDERS)?;
        let cache = Cache::open()?;
        let _lock = cache.lock("kernel-tree")?;
        let root = cache.folder("kernel-tree")?.join(PACKAGE);
        let tree = Self {
            source: root.join("source"),
            prepared: root.join("prepared"),
            objects: root.join("objects"),
        };
        fs::create_dir_all(&root).with_context(|| format!("create {}", root.display()))?;
        if !tree.source.exists() {
            unpack(&cache, mirror, &root, &tree.source)?;
        }
        if !tree.prepared.exists() {
            eprintln!("preparing the tiny configuration");
            tree.empty()?;
            tree.make(&["tinyconfig"])?;
            tree.make(&["prepare", "scripts"])?;
            fs::rename(&tree.objects, &tree.prepared).context("keep the prepared tree")?;
        }
        Ok(tree)
    }

    /// Where objects go.
    pub(crate) fn objects(&self) -> &Path {
        &self.objects
    }

    /// Puts the tree into the state before the first object.
    pub(crate) fn reset(&self) -> Result<()> {
        self.remove()?;
        run(Command::new("cp")
            .arg("-a")
            .arg(&self.prepared)
            .arg(&self.objects))?;
        // Written files must not be written back while the next build is measured.
        run(&mut Command::new("sync"))
    }

    fn remove(&self) -> Result<()> {
        if self.objects.exists() {
            fs::remove_dir_all(&self.objects)
                .with_context(|| format!("remove {}", self.objects.display()))?;
        }
        Ok(())
    }

    fn empty(&self) -> Result<()> {
        self.remove()?;
        fs::create_dir_all(&self.objects).with_context(|| format!("create {}", self.objects.display()))
    }

    fn make(&self, targets: &[&str]) -> Result<()> {
        let mut objects = std::ffi::OsString::from("O=");
        objects.push(&self.objects);
        run(Command::new("make")
            .arg("-s")
            .arg("-C")
            .arg(&self.source)
            .arg(objects)
            .args(targets))
    }
}

/// Fetches the package and unpacks the source in it, whole or not at all.
fn unpack(cache: &Cache, mirror: Option<&str>, root: &Path, source: &Path) -> Result<()> {
    eprintln!("fetching and unpacking {PACKAGE} into {}", root.display());
    let mirror = mirror.map_or_else(Mirror::of_this_machine, |base| Ok(Mirror::at(base)))?;
    let package = tempfile::tempdir_in(root).context("make a folder for the package")?;
    let record = Apt::open(cache, &mirror)?.unpack(PACKAGE, package.path())?;
    let folder = tempfile::tempdir_in(root).context("make a folder for the source")?;
    run(Command::new("tar")
        .arg("-xJf")
        .arg(package.path().join(TARBALL))
        .args(["--strip-components=1", "-C"])
        .arg(folder.path()))?;
    fs::rename(folder.keep(), source).context("name the unpacked source")?;
    eprintln!("{PACKAGE} {}", record.version);
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let output = command
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {}", command.get_program().display()))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
