//! What `kestrel` asks a kernel for once and keeps for its next start: taken out of the first clone of each kind and put into those that come after it,
//! which have the same kernel with the same modules at the same places, and the same number of its start.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Result;

use crate::guest::{Ending, Guest, Program};

/// Where it keeps that (`crates/kernel/src/index.rs`).
const PLACE: &str = "/run/kestrel-index";

/// Commands that ask for all of it: the functions and their types, then the symbols. Older kernels know less.
const ASKING: &str = "{ kestrel record -a --dry-run -e kprobe:vfs_read; kestrel probe show vfs_read; } > /dev/null 2>&1; \
    ls /run/kestrel-index 2> /dev/null; true";

/// As long as a test may take.
const LIMIT: Duration = Duration::from_secs(120);

type Files = Arc<Vec<(String, Vec<u8>)>>;

/// The files by kind of guest.
pub(crate) struct KeptIndex<K>(Mutex<BTreeMap<K, Files>>);

impl<K> Default for KeptIndex<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord> KeptIndex<K> {
    /// Puts the files into a new guest that has `kestrel`; lets it make them in the first one of its kind.
    pub(crate) fn give(&self, kind: K, guest: &mut Guest) -> Result<()> {
        let known = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&kind)
            .cloned();
        if let Some(files) = known {
            run(guest, &format!("mkdir -p -m 700 {PLACE}"))?;
            return files
                .iter()
                .try_for_each(|(name, bytes)| guest.put(&format!("{PLACE}/{name}"), bytes));
        }
        let names = run(guest, ASKING)?;
        let names = names.lines().filter(|name| !name.starts_with('.'));
        let file = |name: &str| Ok((name.to_owned(), guest.get(&format!("{PLACE}/{name}"))?));
        let files: Vec<_> = names.map(file).collect::<Result<_>>()?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(kind, Arc::new(files));
        Ok(())
    }
}

/// What a line says to its standard output.
fn run(guest: &mut Guest, line: &str) -> Result<String> {
    let program = Program {
        argv: ["sh", "-c", line].map(str::to_owned).to_vec(),
        env: Vec::new(),
        limit: LIMIT,
    };
    let mut said = Vec::new();
    let ending = guest.run(&program, |_, bytes| said.extend_from_slice(bytes))?;
    anyhow::ensure!(matches!(ending, Ending::Exited(0)), "{line}: {ending:?}");
    Ok(String::from_utf8_lossy(&said).into_owned())
}
