//! The index that `kestrel` makes of a kernel once and keeps for its next start: taken out of one clone of each kind and put into those that come after it, in
//! this run and the next, which have the same kernel with the same modules at the same places, and the same number of its start.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, UNIX_EPOCH},
};

use anyhow::Result;

use crate::guest::{ExitStatus, Guest, Program};

/// Where it keeps that (`crates/kernel/src/index.rs`).
const PLACE: &str = "/run/kestrel-index";

/// Commands that ask for all of it: the functions and their types, then the symbols. Older kernels know less.
const ASKING: &str = "{ kestrel record -a --dry-run -e kprobe:vfs_read; kestrel probe show vfs_read; } > /dev/null 2>&1; \
    ls /run/kestrel-index 2> /dev/null; true";

/// Time limit, that of a test.
const LIMIT: Duration = Duration::from_secs(120);

type Files = Arc<Vec<(String, Vec<u8>)>>;

/// The files by kind of guest, here and on disk.
pub(crate) struct KeptIndex<K> {
    known: Mutex<BTreeMap<K, Files>>,
    /// The name of the product whose files they are: another one may write other files.
    product: String,
}

impl<K: Ord> KeptIndex<K> {
    /// For guests with this `kestrel`.
    pub(crate) fn of(product: &Path) -> Result<Self> {
        let about = fs::metadata(product)?;
        let time = about.modified()?.duration_since(UNIX_EPOCH)?;
        Ok(Self {
            known: Mutex::default(),
            product: format!("index-{}-{}", about.len(), time.as_nanos()),
        })
    }

    /// Puts the files into a new guest, if they were made.
    pub(crate) fn give(&self, kind: K, guest: &mut Guest, folder: &Path) -> Result<bool> {
        let known = self.lock().get(&kind).cloned();
        let files = match known {
            Some(files) => files,
            None => match read(&folder.join(&self.product)) {
                Some(files) => self.lock().entry(kind).or_insert(Arc::new(files)).clone(),
                None => return Ok(false),
            },
        };
        run(guest, &format!("mkdir -p -m 700 {PLACE}"))?;
        for (name, bytes) in files.iter() {
            guest.put(&format!("{PLACE}/{name}"), bytes)?;
        }
        Ok(true)
    }

    /// Lets a guest make them, for those that come after it.
    pub(crate) fn make(&self, kind: K, guest: &mut Guest, folder: &Path) -> Result<()> {
        let names = run(guest, ASKING)?;
        let names = names.lines().filter(|name| !name.starts_with('.'));
        let file = |name: &str| Ok((name.to_owned(), guest.get(&format!("{PLACE}/{name}"))?));
        let files: Vec<_> = names.map(file).collect::<Result<_>>()?;
        // A later run makes them again where they cannot be kept.
        let _ = keep(folder, &self.product, &files);
        self.lock().insert(kind, Arc::new(files));
        Ok(())
    }

    /// Makes the index if it was not made yet.
    pub(crate) fn make_once(&self, kind: &K, guest: &mut Guest, folder: &Path) -> Result<()>
    where
        K: Clone,
    {
        if self.lock().contains_key(kind) || folder.join(&self.product).exists() {
            return Ok(());
        }
        self.make(kind.clone(), guest, folder)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Files>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Files that were kept under a name, whole or not at all.
fn read(folder: &Path) -> Option<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        files.push((
            entry.file_name().into_string().ok()?,
            fs::read(entry.path()).ok()?,
        ));
    }
    Some(files)
}

/// Keeps files under a name instead of what was kept there of others.
fn keep(folder: &Path, name: &str, files: &[(String, Vec<u8>)]) -> Result<()> {
    fs::create_dir_all(folder)?;
    let beside = tempfile::tempdir_in(folder)?;
    for (name, bytes) in files {
        fs::write(beside.path().join(name), bytes)?;
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path != beside.path() {
            fs::remove_dir_all(path)?;
        }
    }
    fs::rename(beside.path(), folder.join(name))?;
    // It has another name now.
    let _ = beside.keep();
    Ok(())
}

/// Standard output of a line.
fn run(guest: &mut Guest, line: &str) -> Result<String> {
    let program = Program {
        argv: ["sh", "-c", line].map(str::to_owned).to_vec(),
        env: Vec::new(),
        limit: LIMIT,
    };
    let mut printed = Vec::new();
    let ending = guest.run(&program, |_, bytes| printed.extend_from_slice(bytes))?;
    anyhow::ensure!(matches!(ending, ExitStatus::Exited(0)), "{line}: {ending:?}");
    Ok(String::from_utf8_lossy(&printed).into_owned())
}
