//! The folder outside the repository that keeps what is slow to get: where it is, locks in it, names made of hashes.

use std::{
    env,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// The cache folder: `$KESTREL_CACHE`, else `kestrel` in `$XDG_CACHE_HOME`, else in `~/.cache`.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    pub(crate) fn open() -> Result<Self> {
        let set = |name: &str| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let root = set("KESTREL_CACHE")
            .or_else(|| set("XDG_CACHE_HOME").map(|base| base.join("kestrel")))
            .or_else(|| set("HOME").map(|home| home.join(".cache/kestrel")))
            .context("find a cache folder: set KESTREL_CACHE")?;
        fs::create_dir_all(&root).with_context(|| format!("create {}", root.display()))?;
        Ok(Self {
            root: root.canonicalize()?,
        })
    }

    /// A folder in the cache, made if need be.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.root.join(name);
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        Ok(folder)
    }

    /// Waits until no other process works on `what`; the work is ours until the answer is dropped.
    pub(crate) fn lock(&self, what: &str) -> Result<File> {
        let path = self.folder("lock")?.join(what);
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        file.lock().with_context(|| format!("lock {}", path.display()))?;
        Ok(file)
    }
}

/// Hex SHA-256 of everything given, each piece set off from the next.
pub(crate) fn digest<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for piece in pieces {
        hash.update((piece.len() as u64).to_le_bytes());
        hash.update(piece);
    }
    hex(&hash.finalize())
}

/// Hex SHA-256 of a file as it is, the way package indexes give it.
pub(crate) fn file_digest(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    Ok(hex(&Sha256::digest(&bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a file so that it is there whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file =
        tempfile::NamedTempFile::new_in(folder).with_context(|| format!("write in {}", folder.display()))?;
    file.write_all(bytes)
        .with_context(|| format!("write {}", path.display()))?;
    file.persist(path)
        .with_context(|| format!("name {}", path.display()))?;
    Ok(())
}
