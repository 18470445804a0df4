//! The parts of an installed Kestrel: the binary, manual pages, completions, the unit for systemd, documentation. `install` puts it on this machine,
//! `dist` into archives.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};

use crate::man;

pub(crate) mod dist;
pub(crate) mod install;
mod third_party;
mod trial;

/// The unit, below the repository's root, and the directory of the binary that it names.
const UNIT: &str = "dist/kestrel-agent.service";
const UNIT_BIN: &str = "/usr/local/bin/";

/// Documents that come with the binary, beside the pages of docs/.
const DOCUMENTS: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Shells, and where each looks for what completes the command lines of `kestrel`, below the prefix.
const SHELLS: &[(&str, &str)] = &[
    ("bash", "share/bash-completion/completions/kestrel"),
    ("zsh", "share/zsh/site-functions/_kestrel"),
    ("fish", "share/fish/vendor_completions.d/kestrel.fish"),
    ("elvish", "share/elvish/lib/kestrel.elv"),
];

/// A file of an installation.
struct Item {
    /// Where it belongs, below the prefix.
    path: PathBuf,
    executable: bool,
    bytes: Vec<u8>,
}

impl Item {
    fn new(path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            executable: false,
            bytes: bytes.into(),
        }
    }

    /// The item compressed as Debian wants manual pages and changelogs: without name and date.
    fn compressed(self) -> Result<Self> {
        let mut gz = GzBuilder::new().write(Vec::new(), Compression::best());
        gz.write_all(&self.bytes)?;
        let mut name = self.path.into_os_string();
        name.push(".gz");
        Ok(Self::new(name, gz.finish()?))
    }

    /// Writes it below a directory.
    fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(&self.path);
        let folder = path.parent().unwrap_or(root);
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        // A binary that runs cannot be written over, but replaced.
        let _ = fs::remove_file(&path);
        fs::write(&path, &self.bytes).with_context(|| format!("write {}", path.display()))?;
        let mode = if self.executable { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))
            .with_context(|| format!("set the mode of {}", path.display()))
    }
}

/// Everything but the documents; `bin` is the directory of the binary when it is in use.
fn items(kestrel: &Path, bin: &Path) -> Result<Vec<Item>> {
    let mut items = vec![Item {
        executable: true,
        ..Item::new("bin/kestrel", read(kestrel)?)
    }];
    let scratch = tempfile::tempdir().context("create a temporary directory")?;
    man::write(kestrel, scratch.path())?;
    for page in names(scratch.path())? {
        let bytes = read(&scratch.path().join(&page))?;
        items.push(Item::new(Path::new("share/man/man1").join(page), bytes));
    }
    for (shell, path) in SHELLS {
        items.push(Item::new(*path, man::completions(kestrel, shell)?));
    }
    let unit = String::from_utf8(read(&crate::workspace::root().join(UNIT))?).context("read the unit")?;
    let unit = unit.replace(UNIT_BIN, &format!("{}/", bin.display()));
    items.push(Item::new("lib/systemd/system/kestrel-agent.service", unit));
    Ok(items)
}

/// The documents, below this directory.
fn documents(folder: &str) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    for name in DOCUMENTS {
        let bytes = read(&crate::workspace::root().join(name))?;
        items.push(Item::new(Path::new(folder).join(name), bytes));
    }
    for name in names(&crate::workspace::root().join("docs"))? {
        let page = Path::new("docs").join(name);
        let bytes = read(&crate::workspace::root().join(&page))?;
        items.push(Item::new(Path::new(folder).join(page), bytes));
    }
    items.push(Item::new(
        Path::new(folder).join("THIRD-PARTY"),
        third_party::text()?,
    ));
    Ok(items)
}

/// The names in a directory, in their order.
fn names(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        names.push(PathBuf::from(entry?.file_name()));
    }
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("read {}", path.display()))
}
