//! `cargo xtask install` and `cargo xtask uninstall`: Kestrel on this machine, or below `DESTDIR` for whoever makes packages.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::Item;
use crate::artifact;

/// The list of what was installed, below the prefix; `uninstall` goes by it.
const LIST: &str = "share/doc/kestrel/installed";

/// Build Kestrel and install it: binary, manual pages, completions, systemd unit.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    place: Prefix,
}

/// Remove what `install` put there.
#[derive(Debug, Args)]
pub(crate) struct UninstallOptions {
    #[command(flatten)]
    place: Prefix,
}

/// Where to, or from where.
#[derive(Debug, Args)]
struct Prefix {
    /// The directory that bin, lib and share are in; $DESTDIR stands before it while files are written.
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    prefix: PathBuf,
}

impl Prefix {
    /// The prefix with `DESTDIR` before it.
    fn root(&self) -> Result<PathBuf> {
        let prefix = &self.prefix;
        ensure!(
            prefix.is_absolute(),
            "--prefix {}: not an absolute path",
            prefix.display()
        );
        Ok(match env::var_os("DESTDIR").filter(|root| !root.is_empty()) {
            Some(root) => Path::new(&root).join(prefix.strip_prefix("/")?),
            None => prefix.clone(),
        })
    }
}

/// Builds and installs.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let root = options.place.root()?;
    let kestrel = artifact::shipped()?;
    let mut items = super::items(&kestrel, &options.place.prefix.join("bin"))?;
    items.extend(super::documents("share/doc/kestrel")?);
    let list: String = items
        .iter()
        .map(|item| format!("{}\n", item.path.display()))
        .collect();
    items.push(Item::new(LIST, list));
    for item in &items {
        item.write(&root)?;
    }
    for (folder, names) in by_folder(&items) {
        println!("{}: {names}", root.join(folder).display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The text about each directory: its files, or how many they are.
fn by_folder(items: &[Item]) -> Vec<(PathBuf, String)> {
    let mut folders: Vec<(PathBuf, Vec<String>)> = Vec::new();
    for item in items {
        let folder = item.path.parent().unwrap_or(Path::new(""));
        let name = item.path.file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        match folders.iter_mut().find(|(known, _)| known == folder) {
            Some((_, names)) => names.push(name),
            None => folders.push((folder.to_owned(), vec![name])),
        }
    }
    let listed = |names: Vec<String>| match names.len() {
        0..10 => names.join(" "),
        many => format!("{many} files ({} … {})", names[0], names[many - 1]),
    };
    folders
        .into_iter()
        .map(|(folder, names)| (folder, listed(names)))
        .collect()
}

/// Removes what the list names, and the directories of its documents where they are empty then.
pub(crate) fn uninstall(options: &UninstallOptions) -> Result<ExitCode> {
    let root = options.place.root()?;
    let list = root.join(LIST);
    let text = fs::read_to_string(&list)
        .with_context(|| format!("read {}: `cargo xtask install` writes it", list.display()))?;
    let mut removed = 0;
    for name in text.lines().map(Path::new).chain([Path::new(LIST)]) {
        let below = name
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        ensure!(
            below,
            "{}: {} is not below the prefix",
            list.display(),
            name.display()
        );
        let path = root.join(name);
        match fs::remove_file(&path) {
            Ok(()) => removed += 1,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("remove {}", path.display())),
        }
    }
    if let Some(folder) = list.parent() {
        let _ = fs::remove_dir(folder.join("docs"));
        let _ = fs::remove_dir(folder);
    }
    println!("removed {removed} files from {}", root.display());
    Ok(ExitCode::SUCCESS)
}
